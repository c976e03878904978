//! The elementwise adapters: every entry runs its examples with equal bits, and nodes follow their operator's rules.

use onl_cpu::IsaTier;
use onl_ir::Attribute;
use onl_kernels::testing::{run_node, run_node_with};
use onl_kernels::{Coverage, ExampleInput, KernelEntry, KernelTable, SearchContext};
use onl_snapshot::{
    GRAIN_ELEMENTS, MINIMUM_ELEMENTS, ParallelConfig, ParameterValue, Search, TunedConfig,
    TuningSnapshot,
};
use onl_tensor::{Bool, Element, ElementType, Tensor, bf16, f16};

fn entries() -> Vec<KernelEntry> {
    let mut entries = KernelTable::builtin().entries().to_vec();
    entries.retain(|e| {
        e.regions
            .iter()
            .any(|r| r.label.starts_with("elementwise."))
    });
    entries
}

/// A tensor of numbers of any type, rounded.
fn from_f64(element_type: ElementType, dims: &[usize], values: &[f64]) -> Tensor {
    fn make<T: Element>(dims: &[usize], values: &[f64], convert: fn(f64) -> T) -> Tensor {
        let elements: Vec<T> = values.iter().map(|&v| convert(v)).collect();
        Tensor::from_slice(dims, &elements).unwrap()
    }
    match element_type {
        ElementType::Float32 => make(dims, values, |v| v as f32),
        ElementType::Float64 => make(dims, values, |v| v),
        ElementType::Float16 => make(dims, values, f16::from_f64),
        ElementType::BFloat16 => make(dims, values, bf16::from_f64),
        ElementType::Int8 => make(dims, values, |v| v as i8),
        ElementType::Int16 => make(dims, values, |v| v as i16),
        ElementType::Int32 => make(dims, values, |v| v as i32),
        ElementType::Int64 => make(dims, values, |v| v as i64),
        ElementType::UInt8 => make(dims, values, |v| v as u8),
        ElementType::UInt16 => make(dims, values, |v| v as u16),
        ElementType::UInt32 => make(dims, values, |v| v as u32),
        ElementType::UInt64 => make(dims, values, |v| v as u64),
        ElementType::Bool => make(dims, values, |v| Bool::from(v > 0.0)),
        other => {
            let bytes = (values.len() * other.bits()).div_ceil(8);
            let bytes: Vec<u8> = (0..bytes).map(|i| (i * 37 % 251) as u8).collect();
            Tensor::from_bytes(other, dims, &bytes).unwrap()
        }
    }
}

fn tensor_of(input: &ExampleInput, seed: &mut u64) -> Tensor {
    let mut fill = |element_type: ElementType, dims: &[usize], low: f64, high: f64| {
        let count: usize = dims.iter().product();
        let values: Vec<f64> = (0..count)
            .map(|_| {
                *seed = seed
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                low + (high - low) * ((*seed >> 11) as f64 / (1u64 << 53) as f64)
            })
            .collect();
        from_f64(element_type, dims, &values)
    };
    match input {
        ExampleInput::Random {
            element_type,
            shape,
            ..
        } => {
            let range = if element_type.is_float() || *element_type == ElementType::Bool {
                (-3.0, 3.0)
            } else if element_type.name().starts_with('u') {
                (0.0, 100.0)
            } else {
                (-100.0, 100.0)
            };
            fill(*element_type, shape, range.0, range.1)
        }
        ExampleInput::Uniform {
            element_type,
            shape,
            low,
            high,
        } => fill(*element_type, shape, *low, *high),
        ExampleInput::Constant(tensor) => tensor.try_clone().unwrap(),
    }
}

#[test]
fn examples_of_every_entry_give_equal_bits_on_every_tier_and_division() {
    for entry in entries() {
        for &element_type in entry.element_types {
            let opset = entry.opsets.1.min(21).max(entry.opsets.0);
            for example in (entry.examples)(element_type, 2_048) {
                let mut seed = 5;
                let inputs: Vec<Option<Tensor>> = example
                    .inputs
                    .iter()
                    .map(|input| input.as_ref().map(|i| tensor_of(i, &mut seed)))
                    .collect();
                let attributes: Vec<(&str, Attribute)> = example
                    .attributes
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.clone()))
                    .collect();
                let case = format!("{} {element_type} {}", entry.op_type, example.name);
                let expected = run_node(
                    entry.op_type,
                    opset,
                    &inputs,
                    &attributes,
                    1,
                    IsaTier::Scalar,
                )
                .unwrap_or_else(|error| panic!("{case}: {error}"));
                let row = ParallelConfig::schema()
                    .defaults()
                    .with(MINIMUM_ELEMENTS, ParameterValue::Integer(1))
                    .with(GRAIN_ELEMENTS, ParameterValue::Integer(256));
                let snapshot =
                    TuningSnapshot::portable().with_override(entry.key(element_type), row);
                for &tier in IsaTier::available() {
                    let actual = run_node_with(
                        &snapshot,
                        entry.op_type,
                        opset,
                        &inputs,
                        &attributes,
                        1,
                        3,
                        tier,
                    );
                    assert_eq!(actual.as_ref(), Ok(&expected), "{case} {tier}");
                }
            }
        }
    }
}

#[test]
fn searches_are_legal_and_cross_over_between_never_and_always() {
    let mut calibratable = 0;
    for entry in entries() {
        let Coverage::Calibratable {
            schema,
            sizes,
            search,
        } = entry.coverage
        else {
            continue;
        };
        calibratable += entry.element_types.len();
        assert!(sizes.is_sorted());
        let context = SearchContext {
            element_type: entry.element_types[0],
            participants: 2,
            l1d_bytes: None,
            l2_bytes: None,
        };
        let Search::Crossover {
            parameter,
            below,
            above,
            grid,
        } = search(&context)
        else {
            panic!("{} does not search a threshold", entry.op_type);
        };
        assert_eq!(schema().check_row(&below), Ok(()));
        assert_eq!(schema().check_row(&above), Ok(()));
        assert!(grid.is_sorted() && grid.ends_with(&[i64::MAX]));
        assert_eq!(
            (below.integer(parameter), above.integer(parameter)),
            (i64::MAX, 1)
        );
    }
    // Abs 8, Add 12, Not 1, Pow 6, and 4 each of fifteen costly functions.
    assert_eq!(calibratable, 87);
}

fn f32s(dims: &[usize], elements: &[f32]) -> Option<Tensor> {
    Some(Tensor::from_slice(dims, elements).unwrap())
}

#[test]
fn nodes_follow_their_operator() {
    let tier = IsaTier::detect();
    let x = || f32s(&[4], &[-2.0, -0.5, 0.5, 2.0]);
    let string = |s: &str| Attribute::String(s.as_bytes().to_vec());
    let u8s = |elements: &[u8]| Some(Tensor::from_slice(&[elements.len()], elements).unwrap());
    let bools = |elements: &[bool]| Some(Tensor::from_bools(&[elements.len()], elements).unwrap());
    let cases = [
        (
            "bounds of Clip are attributes before version 11",
            "Clip",
            6,
            vec![x()],
            vec![
                ("min", Attribute::Float(-1.0)),
                ("max", Attribute::Float(1.0)),
            ],
            f32s(&[4], &[-1.0, -0.5, 0.5, 1.0]),
        ),
        (
            "bounds of Clip are inputs from version 11 on",
            "Clip",
            11,
            vec![x(), None, f32s(&[], &[0.0])],
            vec![],
            f32s(&[4], &[-2.0, -0.5, 0.0, 0.0]),
        ),
        (
            "PRelu repeats its slope",
            "PRelu",
            16,
            vec![
                f32s(&[2, 2], &[-1.0, -1.0, 1.0, -2.0]),
                f32s(&[2], &[0.5, 0.25]),
            ],
            vec![],
            f32s(&[2, 2], &[-0.5, -0.25, 1.0, -0.5]),
        ),
        (
            "BitShift to the right",
            "BitShift",
            11,
            vec![u8s(&[16, 255, 255]), u8s(&[2, 7, 8])],
            vec![("direction", string("RIGHT"))],
            u8s(&[4, 1, 0]),
        ),
        (
            "BitShift of signed integers keeps the sign",
            "BitShift",
            28,
            vec![
                Some(Tensor::from_slice(&[4], &[-16i8, -16, 16, -1]).unwrap()),
                Some(Tensor::from_slice(&[4], &[2i8, 9, -1, -1]).unwrap()),
            ],
            vec![("direction", string("RIGHT"))],
            Some(Tensor::from_slice(&[4], &[-4i8, -1, 0, -1]).unwrap()),
        ),
        (
            "Mod of floats takes the sign of the divisor from version 28 on",
            "Mod",
            28,
            vec![
                f32s(&[4], &[-4.0, 7.0, 0.0, -1.0]),
                f32s(&[4], &[3.0, -3.0, -2.0, f32::INFINITY]),
            ],
            vec![],
            f32s(&[4], &[2.0, -2.0, -0.0, f32::INFINITY]),
        ),
        (
            "LeakyRelu has a default slope",
            "LeakyRelu",
            6,
            vec![f32s(&[2], &[-100.0, 3.0])],
            vec![("consumed_inputs", Attribute::Ints(vec![0]))],
            f32s(&[2], &[-100.0 * 0.01, 3.0]),
        ),
        (
            "HardSigmoid with its defaults",
            "HardSigmoid",
            22,
            vec![f32s(&[3], &[-3.0, 0.0, 9.0])],
            vec![],
            f32s(&[3], &[0.0, 0.5, 1.0]),
        ),
        (
            "Shrink reads lambd and bias",
            "Shrink",
            9,
            vec![x()],
            vec![
                ("lambd", Attribute::Float(1.5)),
                ("bias", Attribute::Float(1.5)),
            ],
            f32s(&[4], &[-0.5, 0.0, 0.0, 0.5]),
        ),
        (
            "ThresholdedRelu has a default threshold",
            "ThresholdedRelu",
            10,
            vec![x()],
            vec![],
            f32s(&[4], &[0.0, 0.0, 0.0, 2.0]),
        ),
        (
            "Elu with an alpha",
            "Elu",
            6,
            vec![f32s(&[2], &[f32::NEG_INFINITY, 1.5])],
            vec![("alpha", Attribute::Float(2.0))],
            f32s(&[2], &[-2.0, 1.5]),
        ),
        (
            "IsInf ignores what it is told to",
            "IsInf",
            10,
            vec![f32s(&[3], &[f32::INFINITY, f32::NEG_INFINITY, 1.0])],
            vec![("detect_positive", Attribute::Int(0))],
            bools(&[false, true, false]),
        ),
        (
            "Mod takes the sign of the divisor",
            "Mod",
            13,
            vec![
                Some(Tensor::from_slice(&[4], &[-4i32, 7, 5, -8]).unwrap()),
                Some(Tensor::from_slice(&[4], &[3i32, -3, 8, 3]).unwrap()),
            ],
            vec![],
            Some(Tensor::from_slice(&[4], &[2i32, -2, 5, 1]).unwrap()),
        ),
        (
            "Pow mixes types",
            "Pow",
            15,
            vec![
                f32s(&[3], &[1.0, 2.0, 3.0]),
                Some(Tensor::from_slice(&[3], &[4i64, 5, 6]).unwrap()),
            ],
            vec![],
            f32s(&[3], &[1.0, 32.0, 729.0]),
        ),
        ("Mean of one", "Mean", 13, vec![x()], vec![], x()),
        (
            "Where selects by its type source, input 1",
            "Where",
            16,
            vec![bools(&[true, false]), u8s(&[1, 2]), u8s(&[3, 4])],
            vec![],
            u8s(&[1, 4]),
        ),
        (
            "Not",
            "Not",
            1,
            vec![bools(&[true, false])],
            vec![],
            bools(&[false, true]),
        ),
    ];
    for (case, op, opset, inputs, attributes, expected) in cases {
        let actual = run_node(op, opset, &inputs, &attributes, 1, tier);
        assert_eq!(actual, Ok(vec![expected.unwrap()]), "{case}");
    }
}

#[test]
fn bad_nodes_are_refused_with_the_reason() {
    let x = || f32s(&[4], &[1.0; 4]);
    let integers = || Some(Tensor::from_slice(&[4], &[1i32; 4]).unwrap());
    let byte = || Some(Tensor::from_slice(&[1], &[1u8]).unwrap());
    for (case, op, opset, inputs, attributes, part) in [
        (
            "float Mod without fmod",
            "Mod",
            13,
            vec![x(), x()],
            vec![],
            "fmod",
        ),
        (
            "mixed types",
            "Add",
            14,
            vec![x(), integers()],
            vec![],
            "input 1",
        ),
        (
            "shapes",
            "Add",
            14,
            vec![x(), f32s(&[3], &[1.0; 3])],
            vec![],
            "broadcast",
        ),
        (
            "too many inputs",
            "Abs",
            13,
            vec![x(), x()],
            vec![],
            "1 inputs",
        ),
        (
            "a type of no kernel",
            "Exp",
            13,
            vec![integers()],
            vec![],
            "element types",
        ),
        (
            "PRelu widened by its slope",
            "PRelu",
            16,
            vec![x(), f32s(&[2, 4], &[1.0; 8])],
            vec![],
            "first",
        ),
        (
            "a bound that is no scalar",
            "Clip",
            13,
            vec![x(), x()],
            vec![],
            "input 1",
        ),
        (
            "an unknown direction",
            "BitShift",
            11,
            vec![byte(), byte()],
            vec![("direction", Attribute::String(b"UP".to_vec()))],
            "UP",
        ),
        (
            "an omitted operand",
            "Add",
            14,
            vec![x(), None],
            vec![],
            "input 1",
        ),
        (
            "a division by zero",
            "Div",
            14,
            vec![
                integers(),
                Some(Tensor::from_slice(&[4], &[1i32, 2, 0, 0]).unwrap()),
            ],
            vec![],
            "position 2",
        ),
    ] {
        let error = run_node(op, opset, &inputs, &attributes, 1, IsaTier::Scalar).expect_err(case);
        assert!(error.contains(part), "{case}: {error}");
    }
}
