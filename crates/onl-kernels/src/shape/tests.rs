use crate::movement::harness::{Case, counting, floats, integers};
use onl_ir::Attribute;
use onl_tensor::{Bool, ElementType, Tensor, Value};
use std::sync::Arc;

fn shape_of(case: Case<'_>) -> Result<Vec<usize>, String> {
    let data = case.inputs[0].as_ref().unwrap().bytes().to_vec();
    let output = case.run()?.remove(0);
    assert_eq!(output.bytes(), data, "elements stay as they are");
    Ok(output.dims().to_vec())
}

#[test]
fn reshape_resolves_its_target() {
    let cases: [(&str, &[usize], &[i64], i64, Option<&[usize]>); 9] = [
        ("free size", &[2, 3, 4], &[-1, 6], 0, Some(&[4, 6])),
        ("copied size", &[2, 3, 4], &[0, -1], 0, Some(&[2, 12])),
        ("scalar", &[1], &[], 0, Some(&[])),
        ("empty", &[0, 3], &[3, 0], 1, Some(&[3, 0])),
        ("copied zero", &[0, 3], &[0, 5], 0, Some(&[0, 5])),
        ("too few", &[2, 3], &[4], 0, None),
        ("two free sizes", &[4], &[-1, -1], 0, None),
        ("no axis to copy", &[4], &[4, 0], 0, None),
        ("negative", &[4], &[-4], 0, None),
    ];
    for (name, dims, target, allow_zero, expected) in cases {
        let case = Case::new(
            "Reshape",
            14,
            vec![counting(dims), integers(&[target.len()], target)],
        )
        .int("allowzero", allow_zero);
        assert_eq!(shape_of(case).ok().as_deref(), expected, "{name}");
    }
    let old = Case::new("Reshape", 1, vec![counting(&[2, 3])]).ints("shape", &[3, -1]);
    assert_eq!(shape_of(old), Ok(vec![3, 2]));
}

#[test]
fn squeeze_and_unsqueeze_take_attributes_and_inputs() {
    let squeeze = |opset, axes: Option<&[i64]>, dims: &[usize]| {
        let mut inputs = vec![counting(dims)];
        if opset >= 13
            && let Some(axes) = axes
        {
            inputs.push(integers(&[axes.len()], axes));
        }
        let case = Case::new("Squeeze", opset, inputs);
        shape_of(match axes {
            Some(axes) if opset < 13 => case.ints("axes", axes),
            _ => case,
        })
    };
    for opset in [1, 11, 13, 21] {
        assert_eq!(
            squeeze(opset, Some(&[0, -2]), &[1, 3, 1, 5]),
            Ok(vec![3, 5])
        );
        assert_eq!(squeeze(opset, None, &[1, 3, 1, 5]), Ok(vec![3, 5]));
        assert!(squeeze(opset, Some(&[1]), &[1, 3]).is_err(), "size 3");
        assert!(squeeze(opset, Some(&[0, 0]), &[1, 3]).is_err(), "twice");
        assert!(squeeze(opset, Some(&[2]), &[1, 3]).is_err(), "no such axis");
    }
    let new = Case::new(
        "Unsqueeze",
        13,
        vec![counting(&[3, 4]), integers(&[2], &[0, -1])],
    );
    assert_eq!(shape_of(new), Ok(vec![1, 3, 4, 1]));
    let old = Case::new("Unsqueeze", 11, vec![counting(&[3, 4])]).ints("axes", &[2, 0]);
    assert_eq!(shape_of(old), Ok(vec![1, 3, 1, 4]));
}

#[test]
fn flatten_identity_and_dropout_keep_elements() {
    for (axis, expected) in [(0, [1, 24]), (1, [2, 12]), (3, [24, 1]), (-1, [6, 4])] {
        let case = Case::new("Flatten", 13, vec![counting(&[2, 3, 4])]).int("axis", axis);
        assert_eq!(shape_of(case), Ok(expected.to_vec()), "axis {axis}");
    }
    assert!(shape_of(Case::new("Flatten", 13, vec![counting(&[2])]).int("axis", 2)).is_err());
    assert_eq!(
        shape_of(Case::new("Identity", 1, vec![counting(&[2, 0])])),
        Ok(vec![2, 0])
    );
    let dropout = Case::new("Dropout", 13, vec![counting(&[2, 2])])
        .outputs(2)
        .run()
        .unwrap();
    assert_eq!(dropout[0], counting(&[2, 2]));
    assert_eq!(dropout[1].as_slice::<Bool>().unwrap(), [Bool(1); 4]);
}

#[test]
fn shape_and_size_describe_the_input() {
    let shape = |opset, start, end: Option<i64>| {
        let mut case = Case::new("Shape", opset, vec![counting(&[2, 3, 4])]).int("start", start);
        if let Some(end) = end {
            case = case.int("end", end);
        }
        case.run()
            .unwrap()
            .remove(0)
            .as_slice::<i64>()
            .unwrap()
            .to_vec()
    };
    assert_eq!(shape(15, 0, None), [2, 3, 4]);
    assert_eq!(shape(15, -2, None), [3, 4]);
    assert_eq!(shape(15, 1, Some(-1)), [3]);
    assert_eq!(shape(15, 2, Some(1)), [0i64; 0]);
    assert_eq!(shape(15, -9, Some(9)), [2, 3, 4]);
    assert_eq!(shape(13, 1, None), [2, 3, 4], "no bounds before version 15");
    let size = Case::new("Size", 13, vec![counting(&[2, 3, 4])])
        .run()
        .unwrap();
    assert_eq!(size[0], integers(&[], &[24]));
}

#[test]
fn constants_come_from_every_attribute() {
    let run =
        |name: &str, value: Attribute| Case::new("Constant", 13, vec![]).with(name, value).run();
    let tensor = Arc::new(counting(&[2, 2]));
    assert_eq!(
        run("value", Attribute::Tensor(tensor)).unwrap()[0],
        counting(&[2, 2])
    );
    assert_eq!(
        run("value_float", Attribute::Float(1.5)).unwrap()[0],
        floats(&[], &[1.5])
    );
    let list = run("value_floats", Attribute::Floats(vec![1.0, 2.0])).unwrap();
    assert_eq!(list[0], floats(&[2], &[1.0, 2.0]));
    assert_eq!(
        run("value_int", Attribute::Int(7)).unwrap()[0],
        integers(&[], &[7])
    );
    assert_eq!(
        run("value_ints", Attribute::Ints(vec![7])).unwrap()[0],
        integers(&[1], &[7])
    );
    let text = run(
        "value_strings",
        Attribute::Strings(vec![b"a".to_vec(), b"b".to_vec()]),
    )
    .unwrap();
    assert_eq!(text[0].as_strings().unwrap(), ["a", "b"]);
    let sparse = |indices: Tensor| {
        run(
            "sparse_value",
            Attribute::SparseTensor(Value::SparseTensor {
                values: Arc::new(floats(&[2], &[5.0, 6.0])),
                indices: Arc::new(indices),
                dims: vec![2, 3],
            }),
        )
    };
    let dense = floats(&[2, 3], &[0.0, 5.0, 0.0, 0.0, 0.0, 6.0]);
    assert_eq!(sparse(integers(&[2], &[1, 5])).unwrap()[0], dense);
    assert_eq!(sparse(integers(&[2, 2], &[0, 1, 1, 2])).unwrap()[0], dense);
    assert!(
        sparse(integers(&[2], &[1, 6])).is_err(),
        "index out of range"
    );
    assert!(Case::new("Constant", 13, vec![]).run().is_err(), "no value");
}

#[test]
fn constant_of_shape_fills() {
    let value = Attribute::Tensor(Arc::new(integers(&[1], &[-3])));
    let filled = Case::new("ConstantOfShape", 9, vec![integers(&[2], &[2, 2])])
        .with("value", value)
        .run()
        .unwrap();
    assert_eq!(filled[0], integers(&[2, 2], &[-3; 4]));
    let zero = Case::new("ConstantOfShape", 9, vec![integers(&[0], &[])])
        .run()
        .unwrap();
    assert_eq!(zero[0], floats(&[], &[0.0]));
    assert!(
        Case::new("ConstantOfShape", 9, vec![integers(&[1], &[-1])])
            .run()
            .is_err()
    );
    let huge = Case::new(
        "ConstantOfShape",
        9,
        vec![integers(&[2], &[i64::MAX, i64::MAX])],
    );
    assert!(huge.run().is_err(), "a shape that no memory holds");
}

#[test]
fn ranges_count_in_both_directions() {
    let range = |start: i64, limit: i64, delta: i64| {
        Case::new(
            "Range",
            11,
            vec![
                integers(&[], &[start]),
                integers(&[], &[limit]),
                integers(&[], &[delta]),
            ],
        )
        .run()
        .map(|mut o| o.remove(0).as_slice::<i64>().unwrap().to_vec())
    };
    assert_eq!(range(3, 9, 3), Ok(vec![3, 6]));
    assert_eq!(range(3, 10, 3), Ok(vec![3, 6, 9]));
    assert_eq!(range(10, 4, -2), Ok(vec![10, 8, 6]));
    assert_eq!(range(0, -1, 1), Ok(vec![]));
    assert_eq!(range(i64::MAX - 1, i64::MAX, 5), Ok(vec![i64::MAX - 1]));
    assert!(range(0, 1, 0).is_err());
    let scalar = |v| floats(&[], &[v]);
    let floating = |a, b, c| {
        Case::new("Range", 11, vec![scalar(a), scalar(b), scalar(c)])
            .run()
            .map(|mut o| o.remove(0).as_slice::<f32>().unwrap().to_vec())
    };
    assert_eq!(floating(0.0, 1.0, 0.25), Ok(vec![0.0, 0.25, 0.5, 0.75]));
    assert!(floating(0.0, f32::INFINITY, 1.0).is_err());
    assert!(floating(0.0, 1.0, f32::NAN).is_err());
}

#[test]
fn entries_do_not_overlap_and_examples_run() {
    for entry in super::entries() {
        for &element_type in entry.element_types.iter().filter(|t| t.bits() >= 8) {
            if element_type == ElementType::String && entry.op_type != "Constant" {
                continue;
            }
            assert!(
                !(entry.examples)(element_type, 1000).is_empty(),
                "{} has an example for {element_type}",
                entry.op_type
            );
        }
    }
}
