use super::harness::{Case, counting, floats, integers};
use onl_ir::Attribute;
use onl_tensor::{Bool, ElementType, Tensor};

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

fn text(name: &str) -> Attribute {
    Attribute::String(name.into())
}

#[test]
fn scatters_replace_and_reduce_by_version() {
    let data = || {
        vec![
            floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            integers(&[2, 2], &[0, 0, -1, 1]),
            floats(&[2, 2], &[10.0, 20.0, 30.0, f32::NAN]),
        ]
    };
    let run = |op: &'static str, opset, reduction: Option<&str>| {
        let case = Case::new(op, opset, data()).int("axis", 1);
        one(match reduction {
            Some(name) => case.with("reduction", text(name)),
            None => case,
        })
    };
    let replaced = run("ScatterElements", 11, None).unwrap();
    let bits = |t: &Tensor| {
        t.as_slice::<f32>()
            .unwrap()
            .iter()
            .map(|x| x.to_bits())
            .collect::<Vec<_>>()
    };
    let expected = floats(&[2, 3], &[20.0, 2.0, 3.0, 4.0, f32::NAN, 30.0]);
    assert_eq!(bits(&replaced), bits(&expected), "the last update stays");
    assert_eq!(bits(&run("Scatter", 9, None).unwrap()), bits(&expected));
    let sums = run("ScatterElements", 16, Some("add")).unwrap();
    assert_eq!(sums.as_slice::<f32>().unwrap()[0], 31.0);
    let products = run("ScatterElements", 18, Some("mul")).unwrap();
    assert_eq!(products.as_slice::<f32>().unwrap()[0], 200.0);
    for (name, first) in [("max", 20.0), ("min", 1.0)] {
        let result = run("ScatterElements", 18, Some(name)).unwrap();
        let values = result.as_slice::<f32>().unwrap();
        assert_eq!(values[0], first);
        assert!(values[4].is_nan(), "{name} keeps NaN");
        assert!(
            run("ScatterElements", 16, Some(name)).is_err(),
            "{name} came with 18"
        );
    }
    assert!(
        run("ScatterElements", 13, Some("add")).is_err(),
        "reductions came with 16"
    );
    assert!(run("ScatterElements", 18, Some("mean")).is_err());
    let texts = |values: &[&str]| {
        let strings = values.iter().map(|s| (*s).to_owned()).collect();
        Tensor::from_strings(&[values.len()], strings).unwrap()
    };
    let inputs = || vec![texts(&["a", "b"]), list(&[1, 1]), texts(&["c", "d"])];
    let joined = one(Case::new("ScatterElements", 18, inputs()).with("reduction", text("add")));
    assert_eq!(joined.unwrap().as_strings().unwrap(), ["a", "bcd"]);
    assert!(
        one(Case::new("ScatterElements", 18, inputs()).with("reduction", text("max"))).is_err()
    );
}

#[test]
fn scatter_nd_writes_slices_in_order() {
    let slices = Case::new(
        "ScatterND",
        13,
        vec![
            counting(&[2, 2]),
            integers(&[2, 1], &[1, -1]),
            floats(&[2, 2], &[7.0, 8.0, 9.0, 10.0]),
        ],
    );
    assert_eq!(one(slices), Ok(floats(&[2, 2], &[0.0, 1.0, 9.0, 10.0])));
    let mut indices = vec![0; 2000];
    indices[700] = 3;
    indices[1900] = -4;
    let updates = floats(&[1000], &[1.0; 1000]);
    let bad = Case::new(
        "ScatterND",
        13,
        vec![counting(&[2, 3]), integers(&[1000, 2], &indices), updates],
    );
    assert_eq!(
        one(bad).unwrap_err(),
        "index 3 at position 700 is out of range for axis 0 of size 2"
    );
    let shape = Case::new(
        "ScatterND",
        13,
        vec![
            counting(&[2, 3]),
            integers(&[1, 1], &[0]),
            floats(&[1, 2], &[1.0; 2]),
        ],
    );
    assert!(one(shape).is_err(), "updates of another shape");
    let cache = |starts: &[i64], mode: &str| {
        let inputs = vec![
            counting(&[2, 3, 1]),
            floats(&[2, 2, 1], &[-1.0, -2.0, -3.0, -4.0]),
            list(starts),
        ];
        one(Case::new("TensorScatter", 24, inputs).with("mode", text(mode)))
    };
    assert_eq!(
        cache(&[0, 1], "linear"),
        Ok(floats(&[2, 3, 1], &[-1.0, -2.0, 2.0, 3.0, -3.0, -4.0]))
    );
    assert_eq!(
        cache(&[2, 0], "circular"),
        Ok(floats(&[2, 3, 1], &[-2.0, 1.0, -1.0, -3.0, -4.0, 5.0]))
    );
    assert!(cache(&[2, 0], "linear").is_err(), "updates leave the axis");
    assert!(cache(&[3, 0], "circular").is_err());
}

#[test]
fn sequences_are_reversed_and_slices_chosen() {
    let reverse = |lengths: &[i64], time, batch| {
        one(Case::new(
            "ReverseSequence",
            10,
            vec![counting(&[3, 2]), list(lengths)],
        )
        .int("time_axis", time)
        .int("batch_axis", batch))
    };
    assert_eq!(
        reverse(&[3, 2], 0, 1),
        Ok(floats(&[3, 2], &[4.0, 3.0, 2.0, 1.0, 0.0, 5.0]))
    );
    assert_eq!(
        reverse(&[2, 1, 2], 1, 0),
        Ok(floats(&[3, 2], &[1.0, 0.0, 2.0, 3.0, 5.0, 4.0]))
    );
    assert!(reverse(&[4, 2], 0, 1).is_err());
    assert!(reverse(&[3, 2], 0, 0).is_err());
    let mask = |values: &[bool]| {
        let values: Vec<Bool> = values.iter().map(|&v| v.into()).collect();
        Tensor::from_slice(&[values.len()], &values).unwrap()
    };
    let compress = |values: &[bool], axis: Option<i64>| {
        let case = Case::new("Compress", 11, vec![counting(&[3, 2]), mask(values)]);
        one(match axis {
            Some(axis) => case.int("axis", axis),
            None => case,
        })
    };
    assert_eq!(
        compress(&[false, true, true], Some(0)),
        Ok(floats(&[2, 2], &[2.0, 3.0, 4.0, 5.0]))
    );
    assert_eq!(
        compress(&[false, true], Some(-1)),
        Ok(floats(&[3, 1], &[1.0, 3.0, 5.0]))
    );
    assert_eq!(
        compress(&[false, true, false, false, true], None),
        Ok(floats(&[2], &[1.0, 4.0]))
    );
    assert!(compress(&[true, true, true], Some(1)).is_err());
}

#[test]
fn kinds_are_found_sorted_or_in_order() {
    let unique = |input: Tensor, sorted: i64, axis: Option<i64>| {
        let case = Case::new("Unique", 11, vec![input])
            .int("sorted", sorted)
            .outputs(4);
        match axis {
            Some(axis) => case.int("axis", axis),
            None => case,
        }
        .run()
        .unwrap()
    };
    let input = || floats(&[6], &[2.0, 1.0, 1.0, 3.0, 4.0, 3.0]);
    let found = unique(input(), 0, None);
    assert_eq!(found[0], floats(&[4], &[2.0, 1.0, 3.0, 4.0]));
    assert_eq!(found[1], list(&[0, 1, 3, 4]));
    assert_eq!(found[2], list(&[0, 1, 1, 2, 3, 2]));
    assert_eq!(found[3], list(&[1, 2, 2, 1]));
    let found = unique(input(), 1, None);
    assert_eq!(found[0], floats(&[4], &[1.0, 2.0, 3.0, 4.0]));
    assert_eq!(found[1], list(&[1, 0, 3, 4]));
    assert_eq!(found[2], list(&[1, 0, 0, 2, 3, 2]));
    assert_eq!(found[3], list(&[2, 1, 2, 1]));
    let rows = floats(&[3, 2], &[1.0, 0.0, 1.0, 0.0, 0.5, 4.0]);
    let found = unique(rows, 1, Some(0));
    assert_eq!(found[0], floats(&[2, 2], &[0.5, 4.0, 1.0, 0.0]));
    assert_eq!(found[2], list(&[1, 1, 0]));
    assert_eq!(unique(floats(&[0], &[]), 1, None)[3], list(&[]));
}

#[test]
fn depth_and_space_are_exchanged() {
    let mode = |op, opset, input: Tensor, mode: &str| {
        one(Case::new(op, opset, vec![input])
            .int("blocksize", 2)
            .with("mode", text(mode)))
    };
    let spread = mode("DepthToSpace", 13, counting(&[1, 4, 1, 2]), "DCR").unwrap();
    assert_eq!(
        spread,
        floats(&[1, 1, 2, 4], &[0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0])
    );
    let back = one(Case::new("SpaceToDepth", 13, vec![spread]).int("blocksize", 2));
    assert_eq!(back, Ok(counting(&[1, 4, 1, 2])));
    let by_column = mode("DepthToSpace", 11, counting(&[1, 8, 1, 1]), "CRD").unwrap();
    assert_eq!(by_column, counting(&[1, 2, 2, 2]));
    assert!(mode("DepthToSpace", 1, counting(&[1, 8, 1, 1]), "CRD").is_err());
    assert!(
        one(Case::new("DepthToSpace", 13, vec![counting(&[1, 3, 1, 1])]).int("blocksize", 2))
            .is_err()
    );
    let eye = one(Case::new("EyeLike", 9, vec![counting(&[2, 3])])
        .int("k", 1)
        .int("dtype", 7));
    assert_eq!(eye, Ok(integers(&[2, 3], &[0, 1, 0, 0, 0, 1])));
}

#[test]
fn elements_of_a_few_bits_move_and_convert() {
    let codes = |element_type, dims: &[usize], values: &[i64]| {
        one(Case::new("Cast", 25, vec![integers(dims, values)])
            .int("to", i64::from(ElementType::onnx_number(element_type))))
        .unwrap()
    };
    let back = |tensor: Tensor| {
        let whole = one(Case::new("Cast", 25, vec![tensor]).int("to", 7)).unwrap();
        whole.as_slice::<i64>().unwrap().to_vec()
    };
    let signed = codes(ElementType::Int4, &[2, 3], &[1, -2, 3, 7, 8, 16]);
    assert_eq!(signed.bytes(), [0xe1, 0x73, 0x08]);
    assert_eq!(back(signed.try_clone().unwrap()), [1, -2, 3, 7, -8, 0]);
    let turned = one(Case::new("Transpose", 21, vec![signed])).unwrap();
    assert_eq!(back(turned), [1, 7, -2, -8, 3, 0]);
    let pairs = codes(ElementType::UInt2, &[3], &[1, 2, 3]);
    let padded =
        one(Case::new("Pad", 25, vec![pairs, list(&[1, 2])]).with("mode", text("reflect")))
            .unwrap();
    assert_eq!(back(padded), [2, 1, 2, 3, 2, 1]);
    let scale = |value: f32, mode: &str| {
        let cast = one(Case::new("Cast", 24, vec![floats(&[1], &[value])])
            .int("to", 24)
            .with("round_mode", text(mode)));
        cast.unwrap().bytes()[0]
    };
    assert_eq!(
        [
            scale(1.4, "up"),
            scale(1.4, "down"),
            scale(1.4, "nearest"),
            scale(1.5, "nearest")
        ],
        [128, 127, 127, 128]
    );
    assert_eq!([scale(0.0, "up"), scale(f32::INFINITY, "up")], [0, 254]);
    let small =
        one(Case::new("Cast", 23, vec![floats(&[4], &[0.25, 5.0, -100.0, 2.5])]).int("to", 23));
    assert_eq!(small.unwrap().bytes(), [0x60, 0x4f]);
}
