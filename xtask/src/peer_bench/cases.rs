//! The committed list of what is measured.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::path::Path;

/// The list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    pub defaults: Defaults,
    pub group: Vec<Group>,
}

/// What holds for all groups.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// Operator set of cases that name none.
    pub opset: i64,
    /// Least lower bound of the ratio of our own times with one and with two threads.
    pub scaling: f64,
}

/// Cases that share a ceiling and gates.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    pub name: String,
    pub title: String,
    /// Loop that times are compared with, as `onl peer-process` names it.
    pub ceiling: String,
    #[serde(default = "onnxruntime")]
    pub peers: Vec<String>,
    /// Element type in which the same case is measured by `onl` as a peer, in place of other runtimes.
    pub beside: Option<String>,
    #[serde(default)]
    pub gates: Vec<Gate>,
    #[serde(default)]
    pub least_share: Vec<LeastShare>,
    pub cases: Vec<String>,
}

fn onnxruntime() -> Vec<String> {
    vec!["onnxruntime".to_owned()]
}

/// What is asked of the ratios to one peer with one number of threads.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    pub peer: String,
    pub threads: u32,
    /// Least geometric mean.
    pub mean: Option<f64>,
    /// Least lower bound of an interval.
    pub least: Option<f64>,
}

/// What is asked of the share of the ceiling.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeastShare {
    pub case: String,
    pub threads: u32,
    pub share: f64,
}

/// Reads the list.
pub fn read(path: &Path) -> Result<List> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let list: List =
        toml::from_str(&text).with_context(|| format!("the list {}", path.display()))?;
    for group in &list.group {
        for text in &group.cases {
            Case::parse(text, list.defaults.opset).with_context(|| format!("case '{text}'"))?;
        }
        for share in &group.least_share {
            ensure!(
                group.cases.contains(&share.case),
                "group {}: least_share names '{}', which is no case of it",
                group.name,
                share.case
            );
        }
    }
    Ok(list)
}

/// One node.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub operator: String,
    pub opset: i64,
    pub attributes: Vec<(String, Attribute)>,
    /// `None` is an input that is left out.
    pub inputs: Vec<Option<Input>>,
    pub outputs: Vec<ElementType>,
}

/// An attribute's value.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    Int(i64),
    Float(f32),
    Ints(Vec<i64>),
    Text(String),
}

/// A tensor that goes in.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    pub element_type: ElementType,
    pub dims: Vec<usize>,
    pub constant: bool,
    pub values: Values,
}

/// What a tensor holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Normal with mean 0 and standard deviation 1; small integers in types of integers, and both truths of `bool`.
    /// Those of `i8` have 7 bits: without dot-product instructions ONNX Runtime adds products of `u8` and `i8` in 16
    /// bits, which larger ones would overflow.
    Normal,
    /// From 0.001 to 4.
    Positive,
    /// From -1 to 1.
    Unit,
    /// Around the least normal number of `f32`, on both sides of it.
    Denormal,
    /// As `Normal`, every second element -inf.
    Masked,
    /// As `Normal`, every eighth element an infinity of either sign.
    Infinite,
    /// Integers below a number.
    Indices(i64),
    /// These values, repeated.
    Given(Vec<f64>),
}

/// Element types of cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ElementType {
    F32,
    F64,
    F16,
    BF16,
    U8,
    I8,
    I32,
    I64,
    Bool,
}

impl ElementType {
    const ALL: [(ElementType, &'static str, i32, usize); 9] = [
        (ElementType::F32, "f32", 1, 4),
        (ElementType::U8, "u8", 2, 1),
        (ElementType::I8, "i8", 3, 1),
        (ElementType::I32, "i32", 6, 4),
        (ElementType::I64, "i64", 7, 8),
        (ElementType::Bool, "bool", 9, 1),
        (ElementType::F16, "f16", 10, 2),
        (ElementType::F64, "f64", 11, 8),
        (ElementType::BF16, "bf16", 16, 2),
    ];

    fn row(self) -> (ElementType, &'static str, i32, usize) {
        Self::ALL[Self::ALL.iter().position(|row| row.0 == self).unwrap_or(0)]
    }

    /// The type of a name.
    pub fn named(name: &str) -> Result<Self> {
        let row = Self::ALL.iter().find(|row| row.1 == name);
        Ok(row
            .with_context(|| format!("'{name}' is no element type of this list"))?
            .0)
    }

    /// Name in the list.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Number in ONNX's `TensorProto.DataType`.
    pub fn number(self) -> i32 {
        self.row().2
    }

    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        self.row().3
    }

    /// Whether elements are floating-point numbers.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64 | Self::F16 | Self::BF16)
    }
}

impl Case {
    /// Reads a line of the list.
    pub fn parse(text: &str, opset: i64) -> Result<Case> {
        let mut words = text.split_whitespace();
        let operator = words.next().context("the operator is missing")?;
        let (operator, opset) = match operator.split_once('@') {
            Some((operator, version)) => (
                operator,
                version
                    .parse()
                    .with_context(|| format!("'{version}' is no operator-set version"))?,
            ),
            None => (operator, opset),
        };
        let mut case = Case {
            operator: operator.to_owned(),
            opset,
            attributes: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        while let Some(word) = words.next() {
            if word == "->" {
                let types = words.next().context("output types are missing")?;
                case.outputs = types
                    .split(',')
                    .map(ElementType::named)
                    .collect::<Result<_>>()?;
            } else if word == "-" {
                case.inputs.push(None);
            } else if let Some((name, value)) = word.split_once('=') {
                case.attributes
                    .push((name.to_owned(), Attribute::parse(value)));
            } else {
                case.inputs.push(Some(
                    Input::parse(word).with_context(|| format!("'{word}'"))?,
                ));
            }
        }
        if case.outputs.is_empty() {
            let first = case.inputs.iter().flatten().next();
            case.outputs
                .push(first.context("a case has at least one input")?.element_type);
        }
        Ok(case)
    }

    /// Bytes of all inputs.
    pub fn input_bytes(&self) -> u64 {
        let bytes = |input: &Input| {
            (input.dims.iter().product::<usize>() * input.element_type.bytes()) as u64
        };
        self.inputs.iter().flatten().map(bytes).sum()
    }

    /// The matrices that a product multiplies: number of products, rows, steps, columns.
    pub fn product(&self) -> Option<(usize, usize, usize, usize)> {
        let second = match self.operator.as_str() {
            "MatMul" | "Gemm" | "MatMulInteger" => 1,
            "QLinearMatMul" => 3,
            _ => return None,
        };
        let (a, b) = (
            self.inputs.first()?.as_ref()?,
            self.inputs.get(second)?.as_ref()?,
        );
        let (&k, rest) = a.dims.split_last()?;
        let transposed = self
            .attributes
            .iter()
            .any(|(name, value)| name == "transB" && *value == Attribute::Int(1));
        let last = b.dims.len().checked_sub(2)?;
        let n = if transposed {
            b.dims[last]
        } else {
            b.dims[last + 1]
        };
        let batches: usize = b.dims[..last].iter().product();
        let rows: usize = rest.iter().product();
        Some((batches, rows / batches.max(1), k, n))
    }

    /// The same case with its floating-point operands in another type.
    pub fn in_type(&self, element_type: ElementType) -> Case {
        let mut case = self.clone();
        for input in case.inputs.iter_mut().flatten() {
            if input.element_type.is_float() {
                input.element_type = element_type;
            }
        }
        for output in &mut case.outputs {
            if output.is_float() {
                *output = element_type;
            }
        }
        case
    }
}

impl Attribute {
    fn parse(text: &str) -> Attribute {
        if let Ok(int) = text.parse() {
            return Attribute::Int(int);
        }
        if let Ok(float) = text.parse() {
            return Attribute::Float(float);
        }
        let ints: Result<Vec<i64>, _> = text.split(',').map(str::parse).collect();
        match ints {
            Ok(ints) => Attribute::Ints(ints),
            Err(_) => Attribute::Text(text.to_owned()),
        }
    }
}

impl Input {
    fn parse(text: &str) -> Result<Input> {
        let (element_type, rest) = text.split_once('[').context("expected TYPE[dims]")?;
        let (dims, rest) = rest.split_once(']').context("the dimensions have no end")?;
        let dims: Vec<usize> = if dims.is_empty() {
            Vec::new()
        } else {
            dims.split(',')
                .map(str::parse)
                .collect::<Result<_, _>>()
                .context("a dimension is no number")?
        };
        let (constant, rest) = match rest.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let values = match rest.strip_prefix(':') {
            None if rest.is_empty() => Values::Normal,
            None => bail!("'{rest}' does not belong here"),
            Some(generator) => Values::parse(generator)?,
        };
        Ok(Input {
            element_type: ElementType::named(element_type)?,
            dims,
            constant,
            values,
        })
    }
}

impl Values {
    fn parse(text: &str) -> Result<Values> {
        if let Some((name, argument)) = text.split_once('<') {
            let argument = argument.strip_suffix('>').context("'>' is missing")?;
            return Ok(match name {
                "indices" => Values::Indices(argument.parse().context("no whole number")?),
                "one" => Values::Given(
                    argument
                        .split(',')
                        .map(str::parse)
                        .collect::<Result<_, _>>()
                        .context("no number")?,
                ),
                _ => bail!("'{name}' is no generator"),
            });
        }
        Ok(match text {
            "normal" => Values::Normal,
            "positive" => Values::Positive,
            "unit" => Values::Unit,
            "denormal" => Values::Denormal,
            "masked" => Values::Masked,
            "infinite" => Values::Infinite,
            _ => bail!("'{text}' is no generator"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_list_can_be_read() {
        let list = read(&crate::process::workspace().join("xtask/peer-bench.toml"));
        let list = list.expect("the list is valid");
        assert!(list.group.len() > 10);
    }

    #[test]
    fn a_line_says_what_a_node_is() {
        let text = "Gemm@13 transB=1 alpha=0.5 f32[2,3] f32[4,3]! - i64[2]!:one<1,2> -> f32,i64";
        let case = Case::parse(text, 21).expect("a case");
        assert_eq!((case.operator.as_str(), case.opset), ("Gemm", 13));
        assert_eq!(case.attributes[1].1, Attribute::Float(0.5));
        assert!(case.inputs[2].is_none());
        let last = case.inputs[3].as_ref().expect("an input");
        assert_eq!(last.values, Values::Given(vec![1.0, 2.0]));
        assert_eq!(case.outputs, [ElementType::F32, ElementType::I64]);
        assert_eq!(case.product(), Some((1, 2, 3, 4)));
        for broken in [
            "",
            "Add f32",
            "Add f32[2",
            "Add f32[2]x",
            "Add f99[2]",
            "Add f32[2]:odd",
        ] {
            assert!(Case::parse(broken, 21).is_err(), "{broken}");
        }
    }

    #[test]
    fn batches_of_products_are_told_from_rows() {
        let product = |text| Case::parse(text, 21).expect("a case").product();
        assert_eq!(
            product("MatMul f32[8,128,768] f32[768,3072]!"),
            Some((1, 1024, 768, 3072))
        );
        assert_eq!(
            product("MatMul f32[12,128,64] f32[12,64,128]"),
            Some((12, 128, 64, 128))
        );
    }
}
