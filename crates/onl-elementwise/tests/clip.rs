//! Clip, whose bounds are operands.

mod common;

use common::{NUMERIC, Number, Number::*, Random, SERIAL, assert_same, numbers, tensor};
use onl_cpu::IsaTier;
use onl_elementwise::{Clip, ElementwiseError};
use onl_executor::Lanes;
use onl_tensor::Tensor;

fn clip(
    input: &Tensor,
    low: Option<&Tensor>,
    high: Option<&Tensor>,
    tier: IsaTier,
) -> Result<Tensor, ElementwiseError> {
    let operation = Clip::new(input.element_type(), tier)?;
    let mut output = Tensor::zeros(input.element_type(), input.dims())?;
    operation.run(
        input.view(),
        low.map(Tensor::view),
        high.map(Tensor::view),
        &mut output.view_mut()?,
        &SERIAL,
        Lanes::serial(),
    )?;
    Ok(output)
}

#[test]
fn clip_follows_the_reference() {
    let mut random = Random(17);
    let nan = |x: Number| matches!(x, Float(x) if x.is_nan());
    let less = |a: Number, b: Number| match (a, b) {
        (Integer(a), Integer(b)) => a < b,
        (a, b) => a.float() < b.float(),
    };
    for element_type in NUMERIC {
        for bounds in 0..16 {
            let input = random.tensor(element_type, &[700]);
            let low = (bounds & 1 == 1).then(|| random.tensor(element_type, &[]));
            let high = (bounds & 2 == 2).then(|| random.tensor(element_type, &[1]));
            let expected: Vec<Number> = numbers(&input)
                .into_iter()
                .map(|mut x| {
                    if let Some(low) = &low {
                        let low = numbers(low)[0];
                        // Equal signed zeros give the bound.
                        if !nan(x) && !less(low, x) {
                            x = low;
                        }
                    }
                    if let Some(high) = &high {
                        let high = numbers(high)[0];
                        if !nan(x) && !less(x, high) {
                            x = high;
                        }
                    }
                    x
                })
                .collect();
            let expected = tensor(element_type, &[700], &expected);
            for &tier in IsaTier::available() {
                let actual = clip(&input, low.as_ref(), high.as_ref(), tier).unwrap();
                let case = format!("Clip {element_type} {low:?} {high:?} {tier}");
                assert_same(&case, &actual, &expected);
            }
        }
    }
}

#[test]
fn clip_edges() {
    let x = Tensor::from_slice(&[5], &[-3.0f32, 0.0, 9.0, f32::NAN, f32::INFINITY]).unwrap();
    let scalar = |v: f32| Tensor::scalar(v).unwrap();
    let nan = f32::NAN;
    for (case, low, high, expected) in [
        (
            "low above high gives high",
            Some(5.0),
            Some(2.0),
            [2.0, 2.0, 2.0, nan, 2.0],
        ),
        (
            "no bounds",
            None,
            None,
            [-3.0, 0.0, 9.0, nan, f32::INFINITY],
        ),
        (
            "low only",
            Some(1.0),
            None,
            [1.0, 1.0, 9.0, nan, f32::INFINITY],
        ),
        ("high only", None, Some(1.0), [-3.0, 0.0, 1.0, nan, 1.0]),
        ("a NaN bound", Some(nan), None, [nan; 5]),
    ] {
        let (low, high) = (low.map(scalar), high.map(scalar));
        let actual = clip(&x, low.as_ref(), high.as_ref(), IsaTier::detect()).unwrap();
        assert_same(case, &actual, &Tensor::from_slice(&[5], &expected).unwrap());
    }
    let two = Tensor::from_slice(&[2], &[0.0f32, 1.0]).unwrap();
    assert_eq!(
        clip(&x, None, Some(&two), IsaTier::Scalar),
        Err(ElementwiseError::NotScalar {
            index: 2,
            dims: vec![2]
        })
    );
}
