//! Models of one node and the tensors that go into them, in ONNX's protobuf format.

use super::cases::{Attribute, Case, ElementType, Input, Values};
use anyhow::{Context, Result};
use prost::Message;
use std::path::{Path, PathBuf};

#[derive(Message)]
struct ModelProto {
    #[prost(int64, tag = "1")]
    ir_version: i64,
    #[prost(message, optional, tag = "7")]
    graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    opset_import: Vec<OperatorSetIdProto>,
}

#[derive(Message)]
struct OperatorSetIdProto {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(int64, tag = "2")]
    version: i64,
}

#[derive(Message)]
struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    node: Vec<NodeProto>,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, repeated, tag = "5")]
    initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    output: Vec<ValueInfoProto>,
}

#[derive(Message)]
struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    output: Vec<String>,
    #[prost(string, tag = "4")]
    op_type: String,
    #[prost(message, repeated, tag = "5")]
    attribute: Vec<AttributeProto>,
}

#[derive(Message)]
struct AttributeProto {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(float, tag = "2")]
    f: f32,
    #[prost(int64, tag = "3")]
    i: i64,
    #[prost(bytes = "vec", tag = "4")]
    s: Vec<u8>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    ints: Vec<i64>,
    #[prost(int32, tag = "20")]
    attribute_type: i32,
}

/// A tensor as far as its raw form.
#[derive(Message)]
pub struct TensorProto {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(string, tag = "8")]
    pub name: String,
    #[prost(bytes = "vec", tag = "9")]
    pub raw_data: Vec<u8>,
}

#[derive(Message)]
struct ValueInfoProto {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value_type: Option<TypeProto>,
}

#[derive(Message)]
struct TypeProto {
    #[prost(message, optional, tag = "1")]
    tensor_type: Option<TensorTypeProto>,
}

#[derive(Message)]
struct TensorTypeProto {
    #[prost(int32, tag = "1")]
    elem_type: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<ShapeProto>,
}

#[derive(Message)]
struct ShapeProto {
    #[prost(message, repeated, tag = "1")]
    dim: Vec<DimensionProto>,
}

#[derive(Message)]
struct DimensionProto {
    // Part of a oneof, whose chosen field is written even when it is zero.
    #[prost(int64, optional, tag = "1")]
    dim_value: Option<i64>,
}

/// Files of a case.
#[derive(Debug, Clone)]
pub struct Files {
    pub model: PathBuf,
    /// Names and files of the graph's inputs, in its order.
    pub inputs: Vec<(String, PathBuf)>,
}

/// Writes the model of a case and its inputs into a folder.
pub fn write(case: &Case, folder: &Path) -> Result<Files> {
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let mut graph = GraphProto {
        name: "case".to_owned(),
        ..GraphProto::default()
    };
    let mut node = NodeProto {
        op_type: case.operator.clone(),
        attribute: case.attributes.iter().map(attribute).collect(),
        ..NodeProto::default()
    };
    let mut files = Files {
        model: folder.join("model.onnx"),
        inputs: Vec::new(),
    };
    for (index, input) in case.inputs.iter().enumerate() {
        let Some(input) = input else {
            node.input.push(String::new());
            continue;
        };
        let name = format!("input_{index}");
        node.input.push(name.clone());
        let tensor = tensor(&name, input, index as u64);
        if input.constant {
            graph.initializer.push(tensor);
        } else {
            let path = folder.join(format!("{index}.pb"));
            write_file(&path, &tensor.encode_to_vec())?;
            let dims = Some(input.dims.as_slice());
            graph.input.push(value(&name, input.element_type, dims));
            files.inputs.push((name, path));
        }
    }
    for (index, &element_type) in case.outputs.iter().enumerate() {
        let name = format!("output_{index}");
        graph.output.push(value(&name, element_type, None));
        node.output.push(name);
    }
    graph.node.push(node);
    let model = ModelProto {
        ir_version: 10,
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto {
            domain: String::new(),
            version: case.opset,
        }],
    };
    write_file(&files.model, &model.encode_to_vec())?;
    Ok(files)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

fn attribute((name, value): &(String, Attribute)) -> AttributeProto {
    let mut proto = AttributeProto {
        name: name.clone(),
        ..AttributeProto::default()
    };
    proto.attribute_type = match value {
        Attribute::Float(float) => {
            proto.f = *float;
            1
        }
        Attribute::Int(int) => {
            proto.i = *int;
            2
        }
        Attribute::Text(text) => {
            proto.s = text.clone().into_bytes();
            3
        }
        Attribute::Ints(ints) => {
            proto.ints = ints.clone();
            7
        }
    };
    proto
}

fn value(name: &str, element_type: ElementType, dims: Option<&[usize]>) -> ValueInfoProto {
    let shape = dims.map(|dims| ShapeProto {
        dim: dims
            .iter()
            .map(|&dim| DimensionProto {
                dim_value: Some(dim as i64),
            })
            .collect(),
    });
    ValueInfoProto {
        name: name.to_owned(),
        value_type: Some(TypeProto {
            tensor_type: Some(TensorTypeProto {
                elem_type: element_type.number(),
                shape,
            }),
        }),
    }
}

/// The splitmix64 generator (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform from 0 below 1.
    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal, as far as the sum of twelve uniform numbers is.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

fn tensor(name: &str, input: &Input, seed: u64) -> TensorProto {
    let elements: usize = input.dims.iter().product();
    let mut random = Random(0x6f6e_6c00 + seed);
    let mut raw_data = Vec::with_capacity(elements * input.element_type.bytes());
    for index in 0..elements {
        let element = element(&input.values, input.element_type, index, &mut random);
        push(&mut raw_data, input.element_type, element);
    }
    TensorProto {
        dims: input.dims.iter().map(|&dim| dim as i64).collect(),
        data_type: input.element_type.number(),
        name: name.to_owned(),
        raw_data,
    }
}

fn element(values: &Values, element_type: ElementType, index: usize, random: &mut Random) -> f64 {
    match values {
        Values::Positive => 0.001 + 4.0 * random.uniform(),
        Values::Unit => 2.0 * random.uniform() - 1.0,
        Values::Denormal => f64::from(f32::MIN_POSITIVE) * (random.uniform() - 0.5) * 4.0,
        Values::Masked if index % 2 == 1 => f64::NEG_INFINITY,
        Values::Infinite if index % 16 == 3 => f64::INFINITY,
        Values::Infinite if index % 16 == 11 => f64::NEG_INFINITY,
        Values::Indices(end) => (random.next() % (*end).max(1) as u64) as f64,
        Values::Given(given) => given[index % given.len()],
        Values::Normal | Values::Masked | Values::Infinite => match element_type {
            ElementType::U8 => (random.next() % 256) as f64,
            ElementType::I8 => (random.next() % 128) as f64 - 64.0,
            ElementType::Bool => (random.next() % 2) as f64,
            ElementType::I32 | ElementType::I64 => (random.next() % 200) as f64 - 100.0,
            _ => random.normal(),
        },
    }
}

fn push(raw: &mut Vec<u8>, element_type: ElementType, value: f64) {
    match element_type {
        ElementType::F32 => raw.extend((value as f32).to_le_bytes()),
        ElementType::F64 => raw.extend(value.to_le_bytes()),
        ElementType::F16 => raw.extend(half::f16::from_f64(value).to_le_bytes()),
        ElementType::BF16 => raw.extend(half::bf16::from_f64(value).to_le_bytes()),
        ElementType::U8 | ElementType::Bool => raw.push(value as u8),
        ElementType::I8 => raw.push((value as i8).to_le_bytes()[0]),
        ElementType::I32 => raw.extend((value as i32).to_le_bytes()),
        ElementType::I64 => raw.extend((value as i64).to_le_bytes()),
    }
}

/// Elements of a tensor file as double-precision numbers, and whether its type is one of floating-point numbers; `None`
/// for types that no case has.
pub fn read_elements(path: &Path) -> Result<Option<(Vec<f64>, bool)>> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let tensor = TensorProto::decode(&bytes[..])
        .with_context(|| format!("the tensor in {}", path.display()))?;
    let raw = &tensor.raw_data;
    let row = [
        ElementType::F32,
        ElementType::F64,
        ElementType::F16,
        ElementType::BF16,
        ElementType::U8,
        ElementType::I8,
        ElementType::I32,
        ElementType::I64,
        ElementType::Bool,
    ];
    let Some(element_type) = row.into_iter().find(|t| t.number() == tensor.data_type) else {
        return Ok(None);
    };
    fn each<const N: usize>(raw: &[u8], read: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        raw.as_chunks::<N>().0.iter().map(|&b| read(b)).collect()
    }
    let elements = match element_type {
        ElementType::F32 => each(raw, |b| f32::from_le_bytes(b).into()),
        ElementType::F64 => each(raw, f64::from_le_bytes),
        ElementType::F16 => each(raw, |b| half::f16::from_le_bytes(b).to_f64()),
        ElementType::BF16 => each(raw, |b| half::bf16::from_le_bytes(b).to_f64()),
        ElementType::U8 | ElementType::Bool => each(raw, |b| u8::from_le_bytes(b).into()),
        ElementType::I8 => each(raw, |b| i8::from_le_bytes(b).into()),
        ElementType::I32 => each(raw, |b| i32::from_le_bytes(b).into()),
        ElementType::I64 => each(raw, |b| i64::from_le_bytes(b) as f64),
    };
    Ok(Some((elements, element_type.is_float())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_the_same_every_time_and_hold_what_they_are_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = "Where bool[8] f32[8]:masked f16[8]:unit f64[3]!:one<2.5,-1>";
        let case = Case::parse(text, 21).expect("a case");
        let files = write(&case, folder.path()).expect("files");
        let model = ModelProto::decode(&std::fs::read(&files.model).expect("a model")[..]);
        let graph = model.expect("a model").graph.expect("a graph");
        assert_eq!(graph.input.len(), 3);
        assert_eq!(graph.initializer[0].raw_data.len(), 24);
        let elements = |index: usize| {
            let read = read_elements(&files.inputs[index].1).expect("a tensor");
            read.expect("a known type").0
        };
        assert!(
            elements(1)
                .iter()
                .skip(1)
                .step_by(2)
                .all(|x| *x == f64::NEG_INFINITY)
        );
        assert!(elements(2).iter().all(|x| x.abs() <= 1.0));
        let first = elements(1);
        write(&case, folder.path()).expect("files");
        assert_eq!(first, elements(1));
    }
}
