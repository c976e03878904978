use crate::testing::{run_node, run_node_with};
use onl_cpu::IsaTier;
use onl_ir::Attribute;
use onl_snapshot::TuningSnapshot;
use onl_tensor::{Element, ElementType, Tensor, f16};

fn tensor<T: Element>(dims: &[usize], elements: &[T]) -> Option<Tensor> {
    Some(Tensor::from_slice(dims, elements).expect("the shape's length"))
}

fn run(
    op: &str,
    inputs: &[Option<Tensor>],
    attributes: &[(&str, Attribute)],
) -> Result<Tensor, String> {
    let mut outputs = run_node(op, 23, inputs, attributes, 2, IsaTier::detect())?;
    Ok(outputs.remove(0))
}

#[test]
fn ties_round_to_even_and_results_saturate() {
    let x = [
        0.0f32,
        1.0,
        3.0,
        -1.0,
        1e30,
        f32::NEG_INFINITY,
        f32::NAN,
        5.0,
    ];
    let inputs = [tensor(&[8], &x), tensor(&[], &[2f32]), tensor(&[], &[1u8])];
    let output = run("QuantizeLinear", &inputs, &[]).expect("valid");
    // Quotients 0, 0.5, 1.5, -0.5, and 2.5 at the end.
    assert_eq!(
        output.as_slice::<u8>().expect("u8"),
        [1, 1, 3, 1, 255, 0, 0, 3]
    );
}

/// Scale and zero point of every element by indices, against every form of them.
#[test]
fn scales_lie_along_axes_and_in_blocks() {
    let dims = [2usize, 3, 5];
    let x: Vec<f32> = (0..30).map(|i| (i * 7 % 23) as f32 - 9.0).collect();
    let indices = |i: usize| [i / 15, i / 5 % 3, i % 5];
    for axis in [-3i64, -2, -1, 0, 1, 2] {
        let index = axis.rem_euclid(3) as usize;
        for block in [0usize, 1, 2, 4] {
            let mut scale_dims = dims.to_vec();
            if block == 0 {
                scale_dims = vec![dims[index]];
            } else {
                scale_dims[index] = dims[index].div_ceil(block);
            }
            let count: usize = scale_dims.iter().product();
            let scale: Vec<f32> = (0..count).map(|i| 0.25 + (i % 4) as f32 * 0.25).collect();
            let zero_point: Vec<i8> = (0..count).map(|i| i as i8 - 3).collect();
            let parameter = |i: usize| {
                let at = indices(i);
                if block == 0 {
                    return at[index];
                }
                (0..3).fold(0, |sum, d| {
                    let position = if d == index { at[d] / block } else { at[d] };
                    sum * scale_dims[d] + position
                })
            };
            let attributes = [
                ("axis", Attribute::Int(axis)),
                ("block_size", Attribute::Int(block as i64)),
            ];
            let quantized: Vec<i8> = x
                .iter()
                .enumerate()
                .map(|(i, &x)| {
                    let p = parameter(i);
                    ((x / scale[p]).round_ties_even() + f32::from(zero_point[p])) as i8
                })
                .collect();
            let inputs = [
                tensor(&dims, &x),
                tensor(&scale_dims, &scale),
                tensor(&scale_dims, &zero_point),
            ];
            let output = run("QuantizeLinear", &inputs, &attributes).expect("valid");
            assert_eq!(
                output.as_slice::<i8>().expect("i8"),
                quantized,
                "axis {axis}, block {block}"
            );
            let expected: Vec<f32> = quantized
                .iter()
                .enumerate()
                .map(|(i, &x)| {
                    let p = parameter(i);
                    (f32::from(x) - f32::from(zero_point[p])) * scale[p]
                })
                .collect();
            let inputs = [
                tensor(&dims, &quantized),
                tensor(&scale_dims, &scale),
                tensor(&scale_dims, &zero_point),
            ];
            let output = run("DequantizeLinear", &inputs, &attributes).expect("valid");
            assert_eq!(
                output.as_slice::<f32>().expect("f32"),
                expected,
                "axis {axis}, block {block}"
            );
        }
    }
}

#[test]
fn four_bits_share_bytes() {
    let x = [1.0f32, -2.0, 100.0, -100.0, 3.0];
    for (number, bytes, back) in [
        (22, [0xe1u8, 0x87, 0x03], [1.0f32, -2.0, 7.0, -8.0, 3.0]),
        (21, [0x01, 0x0f, 0x03], [1.0, 0.0, 15.0, 0.0, 3.0]),
    ] {
        let attributes = [("output_dtype", Attribute::Int(number))];
        let inputs = [tensor(&[5], &x), tensor(&[], &[1f32])];
        let output = run("QuantizeLinear", &inputs, &attributes).expect("valid");
        assert_eq!(output.bytes(), bytes);
        let inputs = [Some(output), tensor(&[], &[1f32])];
        let output = run("DequantizeLinear", &inputs, &[]).expect("valid");
        assert_eq!(output.as_slice::<f32>().expect("f32"), back);
    }
}

#[test]
fn types_of_scales_give_precision_and_output() {
    let half = f16::from_f32;
    let inputs = [
        tensor(&[2], &[half(2049.0 - 1.0), half(-3.0)]),
        tensor(&[], &[half(0.5)]),
        tensor(&[], &[0i16]),
    ];
    let output = run("QuantizeLinear", &inputs, &[]).expect("valid");
    assert_eq!(output.as_slice::<i16>().expect("i16"), [4096, -6]);
    let inputs = [tensor(&[2], &[-5i32, 7]), tensor(&[], &[half(0.5)])];
    let output = run("DequantizeLinear", &inputs, &[]).expect("valid");
    assert_eq!(
        output.as_slice::<f16>().expect("f16"),
        [half(-2.5), half(3.5)]
    );
    let attributes = [("output_dtype", Attribute::Int(1))];
    let output = run("DequantizeLinear", &inputs, &attributes).expect("valid");
    assert_eq!(output.element_type(), ElementType::Float32);
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let x = || tensor(&[2, 3], &[0f32; 6]);
    let scale = |n: usize| tensor(&[n], &vec![1f32; n]);
    let refused = |inputs: &[Option<Tensor>], attributes: &[(&str, Attribute)], text: &str| {
        let error = run("QuantizeLinear", inputs, attributes).expect_err(text);
        assert!(error.contains(text), "{error}");
    };
    refused(&[x(), scale(2)], &[], "input 1");
    refused(&[x(), scale(3), tensor(&[1], &[0u8])], &[], "input 2");
    refused(&[x(), scale(3), tensor(&[3], &[0f32; 3])], &[], "input 2");
    refused(&[x(), scale(3)], &[("axis", Attribute::Int(2))], "input 1");
    refused(
        &[x(), scale(3)],
        &[("block_size", Attribute::Int(2))],
        "input 1",
    );
    refused(
        &[x(), scale(3)],
        &[("block_size", Attribute::Int(-2))],
        "block_size",
    );
    refused(
        &[x(), scale(3)],
        &[("output_dtype", Attribute::Int(7))],
        "output_dtype",
    );
    let empty = run(
        "QuantizeLinear",
        &[tensor::<f32>(&[0, 3], &[]), scale(3)],
        &[],
    );
    assert_eq!(empty.expect("valid").dims(), [0, 3]);
}

#[test]
fn dynamic_ranges_include_zero() {
    let dynamic = |x: &[f32]| {
        let inputs = [tensor(&[x.len()], x)];
        let snapshot = TuningSnapshot::portable();
        let tier = IsaTier::detect();
        let outputs = run_node_with(
            &snapshot,
            "DynamicQuantizeLinear",
            11,
            &inputs,
            &[],
            3,
            2,
            tier,
        )
        .expect("valid");
        (
            outputs[0].as_slice::<u8>().expect("u8").to_vec(),
            outputs[1].as_slice::<f32>().expect("f32")[0],
            outputs[2].as_slice::<u8>().expect("u8")[0],
        )
    };
    assert_eq!(
        dynamic(&[0.0, 2.0, -3.0, -2.5, 1.34, 0.5]),
        (vec![153, 255, 0, 26, 221, 179], 5.0 / 255.0, 153)
    );
    assert_eq!(dynamic(&[255.0, 51.0]), (vec![255, 51], 1.0, 0));
    assert_eq!(dynamic(&[-255.0, -51.0]), (vec![0, 204], 1.0, 255));
    assert_eq!(dynamic(&[0.0, -0.0]), (vec![0, 0], 1.0, 0));
    assert_eq!(dynamic(&[]), (Vec::new(), 1.0, 0));
    let long: Vec<f32> = (0..100_000).map(|i| (i % 256) as f32).collect();
    let (bytes, scale, zero_point) = dynamic(&long);
    assert_eq!((scale, zero_point), (1.0, 0));
    assert!(bytes.iter().zip(&long).all(|(&b, &x)| f32::from(b) == x));
}
