use super::harness::{Case, counting, floats, integers};
use onl_ir::Attribute;
use onl_tensor::{ElementType, Tensor};

fn list(values: &[i64]) -> Tensor {
    integers(&[values.len()], values)
}

fn one(case: Case<'_>) -> Result<Tensor, String> {
    case.run_divided().map(|mut outputs| outputs.remove(0))
}

#[test]
fn transpose_takes_a_permutation_or_reverses() {
    let reversed = one(Case::new("Transpose", 13, vec![counting(&[2, 3])])).unwrap();
    assert_eq!(reversed, floats(&[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]));
    let unit = one(Case::new("Transpose", 13, vec![counting(&[1, 3, 1])]).ints("perm", &[2, 0, 1]));
    assert_eq!(unit.unwrap().dims(), [1, 1, 3]);
    assert!(
        one(Case::new("Transpose", 13, vec![counting(&[2, 3])]).ints("perm", &[0, 0])).is_err()
    );
    let large = one(Case::new("Transpose", 13, vec![counting(&[70, 90])]).ints("perm", &[1, 0]));
    assert_eq!(large.unwrap().as_slice::<f32>().unwrap()[1], 90.0);
}

#[test]
fn concat_and_split_by_version() {
    let inputs = || vec![counting(&[2, 1]), counting(&[2, 2])];
    let joined = floats(&[2, 3], &[0.0, 0.0, 1.0, 1.0, 2.0, 3.0]);
    assert_eq!(
        one(Case::new("Concat", 13, inputs()).int("axis", -1)),
        Ok(joined.try_clone().unwrap())
    );
    assert_eq!(
        one(Case::new("Concat", 1, inputs())),
        Ok(joined.try_clone().unwrap())
    );
    assert!(
        one(Case::new("Concat", 4, inputs())).is_err(),
        "axis is required since 4"
    );
    assert!(
        one(Case::new("Concat", 13, inputs()).int("axis", 0)).is_err(),
        "other axes differ"
    );
    let parts = |case: Case<'_>, outputs| {
        let results = case.outputs(outputs).run_divided()?;
        Ok::<_, String>(results.iter().map(|t| t.dims()[1]).collect::<Vec<_>>())
    };
    let input = || vec![counting(&[2, 7])];
    assert_eq!(
        parts(
            Case::new("Split", 2, input())
                .int("axis", 1)
                .ints("split", &[3, 4]),
            2
        ),
        Ok(vec![3, 4])
    );
    let by_input = Case::new("Split", 13, vec![counting(&[2, 7]), list(&[0, 7])]).int("axis", -1);
    assert_eq!(parts(by_input, 2), Ok(vec![0, 7]));
    let uneven = Case::new("Split", 18, input())
        .int("axis", 1)
        .int("num_outputs", 3);
    assert_eq!(parts(uneven, 3), Ok(vec![3, 3, 1]));
    assert!(
        parts(Case::new("Split", 13, input()).int("axis", 1), 3).is_err(),
        "7 is no multiple of 3"
    );
    let short = Case::new("Split", 13, vec![counting(&[2, 7]), list(&[3, 3])]).int("axis", 1);
    assert!(parts(short, 2).is_err(), "parts do not sum");
}

#[test]
fn slice_by_attributes_and_inputs() {
    let old = Case::new("Slice", 1, vec![counting(&[4, 5])])
        .ints("starts", &[1, -2])
        .ints("ends", &[1000, -1])
        .ints("axes", &[0, 1]);
    assert_eq!(one(old), Ok(floats(&[3, 1], &[8.0, 13.0, 18.0])));
    let new = |starts: &[i64], ends: &[i64], axes: &[i64], steps: &[i64]| {
        one(Case::new(
            "Slice",
            13,
            vec![
                counting(&[3, 4]),
                list(starts),
                list(ends),
                list(axes),
                list(steps),
            ],
        ))
    };
    let reversed = new(&[-1], &[i64::MIN], &[1], &[-1]).unwrap();
    assert_eq!(
        reversed.as_slice::<f32>().unwrap()[..4],
        [3.0, 2.0, 1.0, 0.0]
    );
    assert_eq!(new(&[0], &[i64::MAX], &[0], &[2]).unwrap().dims(), [2, 4]);
    assert_eq!(new(&[2], &[1], &[0], &[1]).unwrap().dims(), [0, 4]);
    assert_eq!(
        new(&[0], &[i64::MAX], &[0], &[1]).unwrap(),
        counting(&[3, 4])
    );
    assert!(new(&[0], &[1], &[0], &[0]).is_err(), "step 0");
    assert!(
        new(&[0, 0], &[1, 1], &[0, -2], &[1, 1]).is_err(),
        "an axis twice"
    );
    assert!(new(&[0], &[1, 2], &[0], &[1]).is_err(), "lengths differ");
    let plain = Case::new("Slice", 10, vec![counting(&[3, 4]), list(&[1]), list(&[2])]);
    assert_eq!(
        one(plain).unwrap().as_slice::<f32>().unwrap(),
        [4.0, 5.0, 6.0, 7.0]
    );
}

#[test]
fn gathers_select_and_report_the_first_bad_index() {
    let rows = one(Case::new(
        "Gather",
        13,
        vec![counting(&[3, 2]), integers(&[1, 2], &[2, -3])],
    ));
    assert_eq!(rows, Ok(floats(&[1, 2, 2], &[4.0, 5.0, 0.0, 1.0])));
    let scalar =
        one(Case::new("Gather", 13, vec![counting(&[3, 2]), integers(&[], &[1])]).int("axis", -1));
    assert_eq!(scalar, Ok(floats(&[3], &[1.0, 3.0, 5.0])));
    let mut indices = vec![0; 2000];
    indices[700] = 3;
    indices[1900] = -4;
    let error = one(Case::new(
        "Gather",
        13,
        vec![counting(&[3, 2]), list(&indices)],
    ))
    .unwrap_err();
    assert_eq!(
        error,
        "index 3 at position 700 is out of range for axis 0 of size 3"
    );
    let elements = Case::new(
        "GatherElements",
        13,
        vec![counting(&[2, 2]), integers(&[2, 2], &[0, 0, 1, 0])],
    )
    .int("axis", 1);
    assert_eq!(one(elements), Ok(floats(&[2, 2], &[0.0, 0.0, 3.0, 2.0])));
    let tuples = Case::new(
        "GatherND",
        13,
        vec![counting(&[2, 2]), integers(&[2, 2], &[0, 0, 1, -1])],
    );
    assert_eq!(one(tuples), Ok(floats(&[2], &[0.0, 3.0])));
    let batched = Case::new(
        "GatherND",
        12,
        vec![counting(&[2, 2, 2]), integers(&[2, 1], &[1, 0])],
    )
    .int("batch_dims", 1);
    assert_eq!(one(batched), Ok(floats(&[2, 2], &[2.0, 3.0, 4.0, 5.0])));
    assert!(
        one(Case::new(
            "GatherND",
            13,
            vec![counting(&[2]), integers(&[1, 2], &[0, 0])]
        ))
        .is_err()
    );
}

#[test]
fn expand_and_tile_repeat() {
    let expanded = one(Case::new(
        "Expand",
        8,
        vec![floats(&[2, 1], &[1.0, 2.0]), list(&[2, 1, 3])],
    ));
    assert_eq!(expanded.unwrap().dims(), [2, 2, 3]);
    let smaller = one(Case::new("Expand", 13, vec![counting(&[2, 3]), list(&[1])]));
    assert_eq!(smaller, Ok(counting(&[2, 3])));
    assert!(one(Case::new("Expand", 13, vec![counting(&[2, 3]), list(&[2])])).is_err());
    assert!(
        one(Case::new(
            "Expand",
            13,
            vec![counting(&[2, 3]), list(&[-1, 3])]
        ))
        .is_err()
    );
    let tiled = one(Case::new("Tile", 13, vec![counting(&[2]), list(&[2])]));
    assert_eq!(tiled, Ok(floats(&[4], &[0.0, 1.0, 0.0, 1.0])));
    assert!(one(Case::new("Tile", 13, vec![counting(&[2]), list(&[2, 1])])).is_err());
}

#[test]
fn pad_by_attributes_and_inputs() {
    let old = Case::new("Pad", 2, vec![counting(&[2])])
        .ints("pads", &[1, 2])
        .with("value", Attribute::Float(9.0));
    assert_eq!(one(old), Ok(floats(&[5], &[9.0, 0.0, 1.0, 9.0, 9.0])));
    let mode = |mode: &str, opset| {
        one(Case::new("Pad", opset, vec![counting(&[3]), list(&[2, 1])])
            .with("mode", Attribute::String(mode.into())))
    };
    assert_eq!(
        mode("reflect", 13),
        Ok(floats(&[6], &[2.0, 1.0, 0.0, 1.0, 2.0, 1.0]))
    );
    assert_eq!(
        mode("edge", 13),
        Ok(floats(&[6], &[0.0, 0.0, 0.0, 1.0, 2.0, 2.0]))
    );
    assert_eq!(
        mode("wrap", 19),
        Ok(floats(&[6], &[1.0, 2.0, 0.0, 1.0, 2.0, 0.0]))
    );
    assert!(mode("wrap", 13).is_err(), "wrap came with version 19");
    let axes = Case::new(
        "Pad",
        18,
        vec![
            counting(&[1, 2]),
            list(&[1, 0]),
            floats(&[], &[5.0]),
            list(&[-1]),
        ],
    );
    assert_eq!(one(axes), Ok(floats(&[1, 3], &[5.0, 0.0, 1.0])));
    let cropped = one(Case::new("Pad", 13, vec![counting(&[4]), list(&[-1, -2])]));
    assert_eq!(cropped, Ok(floats(&[1], &[1.0])));
    assert!(one(Case::new("Pad", 13, vec![counting(&[2]), list(&[-2, -2])])).is_err());
}

#[test]
fn casts_convert() {
    let cast = |to: ElementType| {
        one(Case::new("Cast", 13, vec![floats(&[3], &[1.7, -1.7, 0.0])])
            .int("to", i64::from(to.onnx_number())))
    };
    assert_eq!(cast(ElementType::Int64), Ok(integers(&[3], &[1, -1, 0])));
    assert_eq!(cast(ElementType::Bool).unwrap().bytes(), [1, 1, 0]);
    assert_eq!(
        cast(ElementType::Float32),
        Ok(floats(&[3], &[1.7, -1.7, 0.0]))
    );
    assert!(cast(ElementType::Complex64).is_err());
    let like = one(Case::new(
        "CastLike",
        15,
        vec![floats(&[1], &[2.5]), integers(&[0], &[])],
    ));
    assert_eq!(like, Ok(integers(&[1], &[2])));
    let texts = Tensor::from_strings(&[1], vec!["x".to_owned()]).unwrap();
    let error = one(Case::new("Cast", 13, vec![texts]).int("to", 1)).unwrap_err();
    assert!(error.contains("\"x\" at position 0"), "{error}");
}

#[test]
fn trilu_clears_a_triangle() {
    let upper = one(Case::new("Trilu", 14, vec![counting(&[2, 2])]));
    assert_eq!(upper, Ok(floats(&[2, 2], &[0.0, 1.0, 0.0, 3.0])));
    let lower =
        one(Case::new("Trilu", 14, vec![counting(&[2, 2]), integers(&[], &[-1])]).int("upper", 0));
    assert_eq!(lower, Ok(floats(&[2, 2], &[0.0, 0.0, 2.0, 0.0])));
}

#[test]
fn positions_of_what_is_not_zero() {
    let input = floats(&[2, 3], &[0.0, 1.0, -0.0, f32::NAN, 0.0, 2.0]);
    let positions = Case::new("NonZero", 13, vec![input]).run().unwrap();
    assert_eq!(positions[0], integers(&[2, 3], &[0, 1, 1, 1, 0, 2]));
    let none = Case::new("NonZero", 13, vec![floats(&[2], &[0.0; 2])])
        .run()
        .unwrap();
    assert_eq!(none[0].dims(), [1, 0]);
}

#[test]
fn one_hot_sets_one_element_of_an_axis() {
    let case = |indices: Tensor, axis| {
        let inputs = vec![indices, list(&[3]), floats(&[2], &[5.0, 9.0])];
        Case::new("OneHot", 11, inputs).int("axis", axis).run()
    };
    let last = case(list(&[2, -3, 7]), -1).unwrap();
    assert_eq!(
        last[0],
        floats(&[3, 3], &[5.0, 5.0, 9.0, 9.0, 5.0, 5.0, 5.0, 5.0, 5.0])
    );
    let first = case(list(&[0, 1]), 0).unwrap();
    assert_eq!(first[0], floats(&[3, 2], &[9.0, 5.0, 5.0, 9.0, 5.0, 5.0]));
    assert!(case(list(&[0]), 2).is_err());
}

#[test]
fn shapes_are_inferred_without_constants_too() {
    let mut case = Case::new("Slice", 13, vec![counting(&[3, 4]), list(&[1]), list(&[2])]);
    case.constant = false;
    assert_eq!(one(case).unwrap().dims(), [1, 4]);
    let mut case = Case::new("Expand", 13, vec![counting(&[1, 4]), list(&[3, 1])]);
    case.constant = false;
    assert_eq!(one(case).unwrap().dims(), [3, 4]);
    let mut case = Case::new("Split", 13, vec![counting(&[4]), list(&[1, 3])]).outputs(2);
    case.constant = false;
    assert_eq!(case.run().unwrap()[1].dims(), [3]);
}

#[test]
fn every_entry_has_examples_and_regions() {
    for entry in super::entries() {
        assert_eq!(
            entry.coverage.schema().is_some(),
            !entry.regions.is_empty(),
            "{} names its regions",
            entry.op_type
        );
        assert!(
            !(entry.examples)(ElementType::Float32, 10_000).is_empty(),
            "{} has an example",
            entry.op_type
        );
    }
}
