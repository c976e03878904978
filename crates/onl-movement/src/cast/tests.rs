use super::*;
use crate::Execution;
use onl_cpu::IsaTier;
use onl_executor::CpuExecutor;
use onl_snapshot::ParallelConfig;
use onl_tensor::{Bool, Element, Tensor, bf16, f16};
use proptest::prelude::*;

fn everywhere(mut body: impl FnMut(&Execution<'_>)) {
    for &tier in IsaTier::available() {
        for lanes in [1, 2, 3, 7] {
            let executor = CpuExecutor::with_lanes(lanes);
            let run = executor.enter();
            let config = ParallelConfig {
                minimum_elements: 1,
                grain_elements: 256,
                maximum_participants: 0,
            };
            body(&Execution::new(run.lanes(), config, tier));
        }
    }
}

fn try_cast(input: &Tensor, to: ElementType, saturate: bool) -> Result<Tensor, MovementError> {
    let mut result = None;
    everywhere(|execution| {
        let mut output = Tensor::zeros(to, input.dims()).unwrap();
        let mut view = output.view_mut().unwrap();
        let outcome = cast(
            input.view(),
            CastRules {
                saturate,
                ..CastRules::default()
            },
            &mut view,
            execution,
        )
        .map(|()| output);
        match &result {
            None => result = Some(outcome),
            Some(first) => assert_eq!(*first, outcome, "every division and tier agrees"),
        }
    });
    result.unwrap()
}

fn cast_to<S: Element, D: Element>(values: &[S]) -> Vec<D> {
    let input = Tensor::from_slice(&[values.len()], values).unwrap();
    let output = try_cast(&input, D::TYPE, true).unwrap();
    output.as_slice::<D>().unwrap().to_vec()
}

fn strings(values: &[&str]) -> Tensor {
    let values = values.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    Tensor::from_strings(&[values.len()], values).unwrap()
}

#[test]
fn floats_become_integers_by_truncation_and_saturation() {
    let values = [
        1.9f32,
        -1.9,
        0.5,
        -0.5,
        300.0,
        -300.0,
        1e20,
        f32::NAN,
        f32::NEG_INFINITY,
    ];
    assert_eq!(
        cast_to::<f32, i8>(&values),
        [1, -1, 0, 0, 127, -128, 127, 0, -128]
    );
    assert_eq!(cast_to::<f32, u8>(&values), [1, 0, 0, 0, 255, 0, 255, 0, 0]);
    let wide = [1.9f64, -1e300, f64::INFINITY];
    assert_eq!(cast_to::<f64, i64>(&wide), [1, i64::MIN, i64::MAX]);
    let half = [f16::from_f32(-2.5), f16::from_f32(1000.0)];
    assert_eq!(cast_to::<f16, i8>(&half), [-2, 127]);
}

#[test]
fn integers_keep_their_low_bits() {
    assert_eq!(cast_to::<i32, u8>(&[257, -1]), [1, 255]);
    assert_eq!(cast_to::<i64, i32>(&[1 << 32, -1]), [0, -1]);
    assert_eq!(cast_to::<u64, i64>(&[u64::MAX]), [-1]);
    assert_eq!(cast_to::<i64, f32>(&[16_777_217]), [16_777_216.0]);
}

#[test]
fn booleans_tell_zero_from_the_rest() {
    let values = [0.0f32, -0.0, 0.1, f32::NAN];
    assert_eq!(
        cast_to::<f32, Bool>(&values),
        [Bool(0), Bool(0), Bool(1), Bool(1)]
    );
    assert_eq!(cast_to::<Bool, f32>(&[Bool(1), Bool(0)]), [1.0, 0.0]);
    assert_eq!(cast_to::<i64, Bool>(&[1 << 40]), [Bool(1)]);
}

#[test]
fn f64_is_rounded_once() {
    // Between two f16 values, just above the middle: by way of a rounded f32 it would tie to the even one below.
    let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    assert_eq!(
        cast_to::<f64, f16>(&[above])[0].to_f64(),
        1.0 + 2f64.powi(-10)
    );
    let below = 1.0 + 3.0 * 2f64.powi(-8) - 2f64.powi(-40);
    assert_eq!(
        cast_to::<f64, bf16>(&[below])[0].to_f64(),
        1.0 + 2f64.powi(-7)
    );
    assert_eq!(cast_to::<f64, f16>(&[1e300])[0], f16::INFINITY);
}

#[test]
fn strings_are_parsed_and_printed() {
    let texts = strings(&["1.5", "-2e3", "INF", "-inf", "NaN", " 7 "]);
    let floats = try_cast(&texts, ElementType::Float32, true).unwrap();
    let floats = floats.as_slice::<f32>().unwrap();
    assert_eq!(
        floats[..4],
        [1.5, -2000.0, f32::INFINITY, f32::NEG_INFINITY]
    );
    assert!(floats[4].is_nan() && floats[5] == 7.0);
    let whole = try_cast(&strings(&["100.5", "-3", "1e3"]), ElementType::Int64, true).unwrap();
    assert_eq!(whole.as_slice::<i64>().unwrap(), [100, -3, 1000]);
    let input = Tensor::from_slice(&[3], &[0.1f32, f32::NAN, f32::NEG_INFINITY]).unwrap();
    let printed = try_cast(&input, ElementType::String, true).unwrap();
    assert_eq!(printed.as_strings().unwrap(), ["0.1", "nan", "-inf"]);
}

#[test]
fn the_first_string_that_is_no_number_is_reported() {
    let mut texts = vec!["1"; 3000];
    texts[700] = "two";
    texts[2900] = "three";
    let error = try_cast(&strings(&texts), ElementType::Int32, true).unwrap_err();
    assert_eq!(
        error,
        MovementError::Parse {
            text: "two".to_owned(),
            position: 700,
            to: ElementType::Int32
        }
    );
}

#[test]
fn eight_bit_floats_go_by_way_of_f32() {
    let input = Tensor::from_slice(&[4], &[1.0f32, 1000.0, -0.4, f32::NAN]).unwrap();
    let bytes = |saturate| {
        let output = try_cast(&input, ElementType::Float8E4M3FN, saturate).unwrap();
        output.bytes().to_vec()
    };
    assert_eq!(bytes(true), [0x38, 0x7e, 0xad, 0x7f]);
    assert_eq!(bytes(false)[1], 0x7f);
    let byte = Tensor::from_bytes(ElementType::Float8E5M2, &[2], &[0x3c, 0x7c]).unwrap();
    let wide = try_cast(&byte, ElementType::Float32, true).unwrap();
    assert_eq!(wide.as_slice::<f32>().unwrap(), [1.0, f32::INFINITY]);
    let other = try_cast(&byte, ElementType::Float8E4M3FN, true).unwrap();
    assert_eq!(other.bytes(), [0x38, 0x7e]);
}

#[test]
fn pairs_that_are_not_served_are_errors() {
    let input = Tensor::from_slice(&[1], &[1.0f32]).unwrap();
    let error = try_cast(&input, ElementType::Complex64, true).unwrap_err();
    assert!(matches!(error, MovementError::Cast { .. }), "{error}");
}

proptest! {
    #[test]
    fn short_floats_round_like_the_half_crate(bits in prop::collection::vec(any::<u32>(), 0..700)) {
        let values: Vec<f32> = bits.iter().map(|&b| f32::from_bits(b)).collect();
        let half: Vec<f16> = cast_to(&values);
        let brain: Vec<bf16> = cast_to(&values);
        for ((x, h), b) in values.iter().zip(&half).zip(&brain) {
            prop_assert!(*h == f16::from_f32(*x) || x.is_nan() && h.is_nan());
            prop_assert!(*b == bf16::from_f32(*x) || x.is_nan() && b.is_nan());
        }
        let back: Vec<f32> = cast_to(&half);
        for (x, h) in back.iter().zip(&half) {
            prop_assert!(*x == h.to_f32() || x.is_nan() && h.is_nan());
        }
    }
}

#[test]
fn integers_from_floats_are_those_of_rust() {
    let mut narrow: Vec<f32> = Vec::new();
    for bits in [8, 15, 16, 31, 32, 63, 64] {
        let edge = 2f32.powi(bits);
        for value in [
            edge,
            edge.next_down(),
            edge.next_up(),
            edge - 1.0,
            edge + 0.5,
        ] {
            narrow.extend([value, -value]);
        }
    }
    let mut state = 1_u32;
    for _ in 0..5000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        narrow.push(f32::from_bits(state));
        narrow.push((state as i32 >> 12) as f32 / 16.0);
    }
    let wide: Vec<f64> = narrow
        .iter()
        .flat_map(|&x| {
            [
                f64::from(x),
                f64::from(x).next_up(),
                f64::from(x).next_down(),
            ]
        })
        .collect();
    macro_rules! check {
        ($($t:ty),*) => {$(
            let expected: Vec<$t> = narrow.iter().map(|&x| x as $t).collect();
            assert!(cast_to::<f32, $t>(&narrow) == expected, "f32 to {}", <$t>::TYPE);
            let expected: Vec<$t> = wide.iter().map(|&x| x as $t).collect();
            assert!(cast_to::<f64, $t>(&wide) == expected, "f64 to {}", <$t>::TYPE);
        )*};
    }
    check!(u8, u16, u32, u64, i8, i16, i32, i64);
}
