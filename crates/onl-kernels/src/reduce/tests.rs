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
    let broadcast = Case::new(
        "LayerNormalization",
        17,
        vec![
            counting(&[2, 2, 2]),
            floats(&[2], &[1.0, 2.0]),
            floats(&[2, 1], &[10.0, 20.0]),
        ],
    )
    .int("axis", 1);
    let broadcast = one(broadcast).unwrap();
    let whole = Case::new(
        "LayerNormalization",
        17,
        vec![
            counting(&[2, 2, 2]),
            floats(&[2, 2], &[1.0, 2.0, 1.0, 2.0]),
            floats(&[2, 2], &[10.0, 10.0, 20.0, 20.0]),
        ],
    )
    .int("axis", 1);
    assert_eq!(one(whole), Ok(broadcast));
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

#[test]
fn places_of_extremes_keep_or_drop_their_axis() {
    let input = || floats(&[2, 3], &[1.0, 5.0, 5.0, 7.0, 2.0, 7.0]);
    let places = |case: Case<'_>| {
        one(case).map(|t| (t.dims().to_vec(), t.as_slice::<i64>().unwrap().to_vec()))
    };
    let rows = Case::new("ArgMax", 13, vec![input()]).int("axis", 1);
    assert_eq!(places(rows), Ok((vec![2, 1], vec![1, 0])));
    let last = Case::new("ArgMax", 13, vec![input()])
        .int("axis", -1)
        .int("keepdims", 0)
        .int("select_last_index", 1);
    assert_eq!(places(last), Ok((vec![2], vec![2, 2])));
    let columns = Case::new("ArgMin", 7, vec![input()]).int("keepdims", 0);
    assert_eq!(places(columns), Ok((vec![3], vec![0, 1, 0])));
    let scalar = Case::new("ArgMax", 13, vec![floats(&[], &[4.0])]);
    assert_eq!(places(scalar), Ok((vec![], vec![0])));
    let empty = Case::new("ArgMax", 13, vec![floats(&[0, 3], &[])]);
    assert!(places(empty).is_err());
    assert!(places(Case::new("ArgMax", 13, vec![input()]).int("axis", 2)).is_err());
}

#[test]
fn hardmax_changed_its_axes_in_version_13() {
    let input = || floats(&[1, 2, 2], &[1.0, 2.0, 3.0, 0.0]);
    let old = one(Case::new("Hardmax", 11, vec![input()]));
    assert_eq!(old, Ok(floats(&[1, 2, 2], &[0.0, 0.0, 1.0, 0.0])));
    let new = one(Case::new("Hardmax", 13, vec![input()]));
    assert_eq!(new, Ok(floats(&[1, 2, 2], &[0.0, 1.0, 1.0, 0.0])));
    let down = one(Case::new("Hardmax", 13, vec![input()]).int("axis", 1));
    assert_eq!(down, Ok(floats(&[1, 2, 2], &[0.0, 1.0, 1.0, 0.0])));
}

#[test]
fn best_elements_by_attribute_and_by_input() {
    let input = || floats(&[2, 3], &[1.0, 5.0, 3.0, 4.0, 4.0, 0.0]);
    let values = floats(&[2, 2], &[5.0, 3.0, 4.0, 4.0]);
    let places = integers(&[2, 2], &[1, 2, 0, 1]);
    let expected = || {
        Ok(vec![
            values.try_clone().unwrap(),
            places.try_clone().unwrap(),
        ])
    };
    let old = Case::new("TopK", 9, vec![input()]).int("k", 2).outputs(2);
    assert_eq!(old.run_divided(), expected());
    for constant in [true, false] {
        let mut new = Case::new("TopK", 11, vec![input(), list(&[2])]).outputs(2);
        new.constant = constant;
        assert_eq!(new.run_divided(), expected());
    }
    let smallest = Case::new("TopK", 11, vec![input(), list(&[1])])
        .int("largest", 0)
        .int("axis", 0)
        .outputs(2);
    assert_eq!(
        smallest.run_divided(),
        Ok(vec![
            floats(&[1, 3], &[1.0, 4.0, 0.0]),
            integers(&[1, 3], &[0, 1, 1])
        ])
    );
    let mut long = Case::new("TopK", 24, vec![counting(&[1, 70_000]), list(&[20_000])]).outputs(2);
    long.constant = false;
    let outputs = long.run_divided().unwrap();
    assert_eq!(outputs[1].as_slice::<i64>().unwrap()[19_999], 50_000);
    let none = Case::new("TopK", 11, vec![input(), list(&[0])]).outputs(2);
    assert_eq!(none.run_divided().unwrap()[0].dims(), [2, 0]);
    for k in [4, -1] {
        let wrong = Case::new("TopK", 11, vec![input(), list(&[k])]).outputs(2);
        assert!(wrong.run_divided().is_err(), "k = {k}");
    }
}

#[test]
fn cumulations_have_all_directions() {
    let input = || floats(&[3], &[1.0, 2.0, 3.0]);
    let cases = [
        ("CumSum", 0, 0, [1.0, 3.0, 6.0]),
        ("CumSum", 1, 0, [0.0, 1.0, 3.0]),
        ("CumSum", 0, 1, [6.0, 5.0, 3.0]),
        ("CumSum", 1, 1, [5.0, 3.0, 0.0]),
        ("CumProd", 0, 0, [1.0, 2.0, 6.0]),
        ("CumProd", 1, 1, [6.0, 3.0, 1.0]),
    ];
    for (op, exclusive, reverse, expected) in cases {
        let case = Case::new(op, 26, vec![input(), integers(&[], &[0])])
            .int("exclusive", exclusive)
            .int("reverse", reverse);
        assert_eq!(
            one(case),
            Ok(floats(&[3], &expected)),
            "{op} {exclusive} {reverse}"
        );
    }
    let axis = Tensor::from_slice(&[1], &[-1i32]).unwrap();
    let mut dynamic = Case::new("CumSum", 11, vec![counting(&[2, 5000]), axis]);
    dynamic.constant = false;
    let sums = one(dynamic).unwrap();
    assert_eq!(sums.as_slice::<f32>().unwrap()[..4], [0.0, 1.0, 3.0, 6.0]);
    assert!(one(Case::new("CumSum", 14, vec![input(), integers(&[], &[1])])).is_err());
}

fn parameters(channels: usize, values: &[f32]) -> Vec<Tensor> {
    values
        .iter()
        .map(|&v| floats(&[channels], &vec![v; channels]))
        .collect()
}

#[test]
fn batch_normalization_of_every_version() {
    let inputs = |dims: &[usize], channels| {
        let mut inputs = vec![counting(dims)];
        inputs.extend(parameters(channels, &[2.0, 1.0, 1.0, 4.0]));
        inputs
    };
    let epsilon = onl_ir::Attribute::Float(0.0);
    // (x − 1) / 2 · 2 + 1 is x.
    for opset in [7, 9, 14, 15] {
        for dims in [vec![2, 3, 4, 5], vec![2, 3], vec![7]] {
            let channels = if dims.len() > 1 { 3 } else { 1 };
            let case = Case::new("BatchNormalization", opset, inputs(&dims, channels))
                .with("epsilon", epsilon.clone());
            assert_eq!(one(case), Ok(counting(&dims)), "{opset} {dims:?}");
        }
    }
    let mut flat = inputs(&[2, 3, 2], 1);
    for parameter in &mut flat[1..] {
        let value = parameter.as_slice::<f32>().unwrap()[0];
        *parameter = floats(&[3, 2], &[value; 6]);
    }
    let flat = Case::new("BatchNormalization", 7, flat)
        .int("spatial", 0)
        .with("epsilon", epsilon.clone());
    assert_eq!(one(flat), Ok(counting(&[2, 3, 2])));
    let training = Case::new("BatchNormalization", 15, inputs(&[2, 1, 2], 1))
        .int("training_mode", 1)
        .with("momentum", onl_ir::Attribute::Float(0.5))
        .with("epsilon", epsilon)
        .outputs(3);
    let outputs = training.run_divided().unwrap();
    assert_eq!(outputs[1], floats(&[1], &[1.25]));
    assert_eq!(outputs[2], floats(&[1], &[2.625]));
    let many = Case::new("BatchNormalization", 15, inputs(&[2, 1, 2], 1)).outputs(3);
    assert!(many.run().is_err());
    assert!(one(Case::new("BatchNormalization", 15, inputs(&[2, 3], 2))).is_err());
}

#[test]
fn groups_and_instances() {
    let values: Vec<f32> = (0..16)
        .map(|i| if i % 2 == 0 { 3.0 } else { 5.0 })
        .collect();
    let inputs = |channels| {
        let mut inputs = vec![floats(&[2, 4, 2], &values)];
        inputs.extend(parameters(channels, &[10.0, 1.0]));
        inputs
    };
    let zero = onl_ir::Attribute::Float(0.0);
    let expected: Vec<f32> = (0..16)
        .map(|i| if i % 2 == 0 { -9.0 } else { 11.0 })
        .collect();
    let expected = floats(&[2, 4, 2], &expected);
    for (op, opset, channels) in [
        ("InstanceNormalization", 6, 4),
        ("InstanceNormalization", 22, 4),
        ("GroupNormalization", 18, 2),
        ("GroupNormalization", 21, 4),
    ] {
        let case = Case::new(op, opset, inputs(channels))
            .with("epsilon", zero.clone())
            .int("num_groups", 2);
        assert_eq!(one(case), Ok(expected.try_clone().unwrap()), "{op} {opset}");
    }
    let wrong = Case::new("GroupNormalization", 21, inputs(2)).int("num_groups", 2);
    assert!(one(wrong).is_err());
    assert!(one(Case::new("GroupNormalization", 21, inputs(4)).int("num_groups", 3)).is_err());
    assert!(one(Case::new("GroupNormalization", 21, inputs(4))).is_err());
}

#[test]
fn deviations_and_norms() {
    let input = || floats(&[1, 2, 2], &[1.0, 3.0, 5.0, 9.0]);
    let case = Case::new("MeanVarianceNormalization", 13, vec![input()]).ints("axes", &[0, 2]);
    let result = one(case).unwrap();
    assert_eq!(result.as_slice::<f32>().unwrap(), [-1.0, 1.0, -1.0, 1.0]);
    assert!(one(Case::new("MeanVarianceNormalization", 13, vec![input()])).is_err());
    let case = Case::new(
        "LpNormalization",
        1,
        vec![floats(&[2, 2], &[3.0, 4.0, 0.0, 0.0])],
    );
    assert_eq!(one(case), Ok(floats(&[2, 2], &[0.6, 0.8, 0.0, 0.0])));
    let case = Case::new("LpNormalization", 22, vec![input()])
        .int("p", 1)
        .int("axis", 1);
    assert_eq!(
        one(case),
        Ok(floats(&[1, 2, 2], &[1.0 / 6.0, 0.25, 5.0 / 6.0, 0.75]))
    );
    assert!(one(Case::new("LpNormalization", 22, vec![input()]).int("p", 3)).is_err());
}
