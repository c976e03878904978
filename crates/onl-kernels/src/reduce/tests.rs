use crate::movement::harness::{Case, counting, floats, integers};
use onl_tensor::{Tensor, f16};

fn list(values: &[i64]) -> Tensor {
    integers(&[values.len()], values)
}

fn one(case: Case<'_>) -> Result<Tensor, String> {
    case.run_divided().map(|mut outputs| outputs.remove(0))
}

#[test]
fn axes_come_from_attributes_and_later_from_inputs() {
    let rows = floats(&[2], &[3.0, 12.0]);
    let old = Case::new("ReduceSum", 11, vec![counting(&[2, 3])])
        .ints("axes", &[-1])
        .int("keepdims", 0);
    assert_eq!(one(old), Ok(rows.try_clone().unwrap()));
    let new = Case::new("ReduceSum", 13, vec![counting(&[2, 3]), list(&[1])]).int("keepdims", 0);
    assert_eq!(one(new), Ok(rows.try_clone().unwrap()));
    let mean = Case::new("ReduceMean", 13, vec![counting(&[2, 3])]).ints("axes", &[0]);
    assert_eq!(one(mean), Ok(floats(&[1, 3], &[1.5, 2.5, 3.5])));
    let mean = Case::new("ReduceMean", 18, vec![counting(&[2, 3]), list(&[0, 1])]);
    assert_eq!(one(mean), Ok(floats(&[1, 1], &[2.5])));
    let mut dynamic = Case::new("ReduceSum", 13, vec![counting(&[2, 5000]), list(&[1])]);
    dynamic.constant = false;
    assert_eq!(one(dynamic).unwrap().dims(), [2, 1]);
    assert!(one(Case::new("ReduceSum", 13, vec![counting(&[2]), list(&[1])])).is_err());
    assert!(
        one(Case::new(
            "ReduceSum",
            13,
            vec![counting(&[2]), list(&[0, -1])]
        ))
        .is_err()
    );
}

#[test]
fn no_axes_mean_all_or_none() {
    let all = Case::new("ReduceSum", 13, vec![counting(&[2, 3])]).int("keepdims", 0);
    assert_eq!(one(all), Ok(floats(&[], &[15.0])));
    let none =
        |op| Case::new(op, 18, vec![counting(&[2, 2]), list(&[])]).int("noop_with_empty_axes", 1);
    assert_eq!(one(none("ReduceSum")), Ok(counting(&[2, 2])));
    let squares = floats(&[2, 2], &[0.0, 1.0, 4.0, 9.0]);
    assert_eq!(one(none("ReduceSumSquare")), Ok(squares));
}

#[test]
fn every_reduction_has_its_meaning() {
    let cases = [
        ("ReduceSum", -6.0f32),
        ("ReduceMean", -2.0),
        ("ReduceMax", 1.0),
        ("ReduceMin", -4.0),
        ("ReduceProd", 12.0),
        ("ReduceL1", 8.0),
        ("ReduceL2", 26f32.sqrt()),
        ("ReduceSumSquare", 26.0),
    ];
    for (op, value) in cases {
        let input = floats(&[3], &[-4.0, 1.0, -3.0]);
        let case = Case::new(op, 11, vec![input]).int("keepdims", 0);
        assert_eq!(one(case), Ok(floats(&[], &[value])), "{op}");
    }
    for (op, value) in [("ReduceLogSum", 6f32.ln()), ("ReduceLogSumExp", 3.407_606)] {
        let case = Case::new(op, 18, vec![floats(&[3], &[1.0, 2.0, 3.0])]).int("keepdims", 0);
        let result = one(case).unwrap().as_slice::<f32>().unwrap()[0];
        // Two roundings of functions within 1 ULP each.
        assert!((result - value).abs() < 1e-6, "{op}: {result} for {value}");
    }
    let half = Tensor::from_slice(&[2], &[f16::ONE, f16::ONE]).unwrap();
    let sum = one(Case::new("ReduceSum", 13, vec![half])).unwrap();
    assert_eq!(sum.as_slice::<f16>().unwrap(), [f16::from_f32(2.0)]);
    let whole = one(Case::new("ReduceMean", 13, vec![list(&[-7, 0])])).unwrap();
    assert_eq!(whole.as_slice::<i64>().unwrap(), [-3]);
}

#[test]
fn softmax_changed_its_axes_in_version_13() {
    let input = || floats(&[1, 2, 2], &[0.0; 4]);
    let value = |case: Case<'_>| one(case).unwrap().as_slice::<f32>().unwrap()[0];
    assert_eq!(
        value(Case::new("Softmax", 11, vec![input()])),
        0.25,
        "axes 1 and 2 together"
    );
    assert_eq!(
        value(Case::new("Softmax", 13, vec![input()])),
        0.5,
        "the last axis"
    );
    assert_eq!(
        value(Case::new("Softmax", 13, vec![input()]).int("axis", 1)),
        0.5
    );
    let logarithm = value(Case::new("LogSoftmax", 13, vec![input()]));
    assert!((logarithm + 2f32.ln()).abs() < 1e-7, "{logarithm}");
    assert!(one(Case::new("Softmax", 13, vec![input()]).int("axis", 3)).is_err());
    let large = one(Case::new("Softmax", 13, vec![counting(&[3, 40, 50])]).int("axis", 1));
    assert_eq!(large.unwrap().dims(), [3, 40, 50]);
}

#[test]
fn layer_normalization_gives_statistics() {
    let case = Case::new(
        "LayerNormalization",
        17,
        vec![
            floats(&[2, 2], &[1.0, 3.0, 5.0, 5.0]),
            floats(&[2], &[2.0, 2.0]),
            floats(&[2], &[1.0, 1.0]),
        ],
    )
    .with("epsilon", onl_ir::Attribute::Float(0.0))
    .outputs(3);
    let outputs = case.run().unwrap();
    assert_eq!(outputs[0].as_slice::<f32>().unwrap()[..2], [-1.0, 3.0]);
    assert_eq!(outputs[1], floats(&[2, 1], &[2.0, 5.0]));
    assert_eq!(outputs[2].as_slice::<f32>().unwrap()[0], 1.0);
    let outer = Case::new(
        "LayerNormalization",
        17,
        vec![counting(&[2, 3, 4]), counting(&[3, 4])],
    )
    .int("axis", 1);
    assert_eq!(one(outer).unwrap().dims(), [2, 3, 4]);
    let wrong = Case::new(
        "LayerNormalization",
        17,
        vec![counting(&[2, 4]), counting(&[3])],
    );
    assert!(one(wrong).is_err());
    let root = one(Case::new(
        "RMSNormalization",
        23,
        vec![floats(&[1, 2], &[3.0, 3.0]), floats(&[2], &[1.0, 2.0])],
    )
    .with("epsilon", onl_ir::Attribute::Float(0.0)));
    assert_eq!(root, Ok(floats(&[1, 2], &[1.0, 2.0])));
}

#[test]
fn entries_name_regions_and_examples() {
    for entry in super::entries() {
        assert!(!entry.regions.is_empty(), "{}", entry.op_type);
        for &element_type in entry.element_types {
            assert!(
                !(entry.examples)(element_type, 4096).is_empty(),
                "{}",
                entry.op_type
            );
        }
    }
}
