//! Every method of every token against the scalar one, lane by lane.

mod common;

use common::{Random, same_f32, same_f64, special_f32, special_f64, vector_tiers};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use onl_simd::{Isa, MAXIMUM_F32_LANES, SimdOp, dispatch};

/// Elements of every input: whole vectors of every tier.
const N: usize = 16;

/// Results of the methods on 32-bit lanes, each N long, with the method's name; floats and integers as bits.
struct Methods32<'a> {
    a: &'a [f32; N],
    b: &'a [f32; N],
    c: &'a [f32; N],
}

fn is_float(name: &str) -> bool {
    !name.contains("i32")
        && !name.contains("bits")
        && !name.contains("mask")
        && !name.contains("16")
}

impl SimdOp for Methods32<'_> {
    type Output = Vec<(&'static str, Vec<u32>)>;

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) -> Self::Output {
        let mut results: Vec<(&'static str, Vec<u32>)> = Vec::new();
        let mut next = 0;
        for start in (0..N).step_by(I::F32_LANES) {
            next = 0;
            let a = isa.load_f32(&self.a[start..]);
            let b = isa.load_f32(&self.b[start..]);
            let c = isa.load_f32(&self.c[start..]);
            let (i, j) = (isa.bits_f32(a), isa.bits_f32(b));
            let mut put = |name: &'static str, value: I::F32| {
                let mut lanes = [0.0; N];
                isa.store_f32(value, &mut lanes);
                if start == 0 {
                    results.push((name, Vec::new()));
                }
                assert_eq!(results[next].0, name);
                let bits = lanes[..I::F32_LANES].iter().map(|x| x.to_bits());
                results[next].1.extend(bits);
                next += 1;
            };
            put("add", isa.add_f32(a, b));
            put("sub", isa.sub_f32(a, b));
            put("mul", isa.mul_f32(a, b));
            put("div", isa.div_f32(a, b));
            put("fma", isa.fma_f32(a, b, c));
            put("sqrt", isa.sqrt_f32(a));
            put("abs bits", isa.abs_f32(a));
            put("neg bits", isa.neg_f32(a));
            put("min bits", isa.min_f32(a, b));
            put("max bits", isa.max_f32(a, b));
            put("min bits of itself", isa.min_f32(a, a));
            put("lt mask", isa.select_f32(isa.lt_f32(a, b), a, b));
            put("le mask", isa.select_f32(isa.le_f32(a, b), a, b));
            put("eq mask", isa.select_f32(isa.eq_f32(a, b), a, c));
            put("is_nan mask", isa.select_f32(isa.is_nan_f32(a), b, c));
            let both = isa.and_m32(isa.lt_f32(a, b), isa.lt_f32(b, c));
            put("and mask", isa.select_f32(both, a, b));
            let either = isa.or_m32(isa.lt_f32(a, b), isa.lt_f32(b, c));
            put("or mask", isa.select_f32(either, a, b));
            put("not mask", isa.select_f32(isa.not_m32(either), a, b));
            let table = &[1.0, -2.0, f32::NAN, 4.0, f32::INFINITY, -0.0, 1e-40, 8.0];
            put("lookup8 bits", isa.lookup8_f32(table, i));
            put("splat bits", isa.splat_f32(self.a[0]));
            put("to_f32", isa.to_f32(i));
            put("add_i32", isa.from_bits_f32(isa.add_i32(i, j)));
            put("sub_i32", isa.from_bits_f32(isa.sub_i32(i, j)));
            put("and_i32", isa.from_bits_f32(isa.and_i32(i, j)));
            put("or_i32", isa.from_bits_f32(isa.or_i32(i, j)));
            put("xor_i32", isa.from_bits_f32(isa.xor_i32(i, j)));
            put("shl_i32 0", isa.from_bits_f32(isa.shl_i32::<0>(i)));
            put("shl_i32 23", isa.from_bits_f32(isa.shl_i32::<23>(i)));
            put("shr_i32 0", isa.from_bits_f32(isa.shr_i32::<0>(i)));
            put("shr_i32 22", isa.from_bits_f32(isa.shr_i32::<22>(i)));
            put("sar_i32 31", isa.from_bits_f32(isa.sar_i32::<31>(i)));
            put("sar_i32 5", isa.from_bits_f32(isa.sar_i32::<5>(i)));
            put(
                "lt_i32",
                isa.from_bits_f32(isa.select_i32(isa.lt_i32(i, j), i, j)),
            );
            put(
                "eq_i32",
                isa.from_bits_f32(isa.select_i32(isa.eq_i32(i, j), i, isa.splat_i32(5))),
            );
            let (low, high) = isa.widen_f64(a);
            put("narrow of widen", isa.narrow_f64(low, high));
            let (b_low, b_high) = isa.widen_f64(b);
            let (low, high) = (isa.mul_f64(low, b_low), isa.mul_f64(high, b_high));
            put("narrow of product", isa.narrow_f64(low, high));
            let mut half = [f16::ZERO; N];
            isa.store_f16(a, &mut half);
            put("f16 there and back", isa.load_f16(&half));
            let mut brain = [bf16::ZERO; N];
            isa.store_bf16(a, &mut brain);
            put("bf16 there and back bits", isa.load_bf16(&brain));
        }
        assert_eq!(next, results.len());
        results
    }
}

/// As [`Methods32`], for 64-bit lanes.
struct Methods64<'a> {
    a: &'a [f64; N],
    b: &'a [f64; N],
    c: &'a [f64; N],
}

impl SimdOp for Methods64<'_> {
    type Output = Vec<(&'static str, Vec<u64>)>;

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) -> Self::Output {
        let mut results: Vec<(&'static str, Vec<u64>)> = Vec::new();
        for start in (0..N).step_by(I::F64_LANES) {
            let mut next = 0;
            let a = isa.load_f64(&self.a[start..]);
            let b = isa.load_f64(&self.b[start..]);
            let c = isa.load_f64(&self.c[start..]);
            let (i, j) = (isa.bits_f64(a), isa.bits_f64(b));
            let mut put = |name: &'static str, value: I::F64| {
                let mut lanes = [0.0; N];
                isa.store_f64(value, &mut lanes);
                if start == 0 {
                    results.push((name, Vec::new()));
                }
                assert_eq!(results[next].0, name);
                let bits = lanes[..I::F64_LANES].iter().map(|x| x.to_bits());
                results[next].1.extend(bits);
                next += 1;
            };
            put("add", isa.add_f64(a, b));
            put("sub", isa.sub_f64(a, b));
            put("mul", isa.mul_f64(a, b));
            put("div", isa.div_f64(a, b));
            put("fma", isa.fma_f64(a, b, c));
            put("sqrt", isa.sqrt_f64(a));
            put("abs bits", isa.abs_f64(a));
            put("neg bits", isa.neg_f64(a));
            put("min bits", isa.min_f64(a, b));
            put("max bits", isa.max_f64(a, b));
            put("lt mask", isa.select_f64(isa.lt_f64(a, b), a, b));
            put("le mask", isa.select_f64(isa.le_f64(a, b), a, b));
            put("eq mask", isa.select_f64(isa.eq_f64(a, b), a, c));
            put("is_nan mask", isa.select_f64(isa.is_nan_f64(a), b, c));
            let both = isa.and_m64(isa.lt_f64(a, b), isa.lt_f64(b, c));
            put("and mask", isa.select_f64(both, a, b));
            let either = isa.or_m64(isa.lt_f64(a, b), isa.lt_f64(b, c));
            put("or mask", isa.select_f64(either, a, b));
            put("not mask", isa.select_f64(isa.not_m64(either), a, b));
            put("splat bits", isa.splat_f64(self.a[0]));
            put("add bits", isa.from_bits_f64(isa.add_i64(i, j)));
            put("sub bits", isa.from_bits_f64(isa.sub_i64(i, j)));
            put("and bits", isa.from_bits_f64(isa.and_i64(i, j)));
            put(
                "or bits",
                isa.from_bits_f64(isa.or_i64(i, isa.splat_i64(77))),
            );
            put("xor bits", isa.from_bits_f64(isa.xor_i64(i, j)));
            put("shl bits 0", isa.from_bits_f64(isa.shl_i64::<0>(i)));
            put("shl bits 52", isa.from_bits_f64(isa.shl_i64::<52>(i)));
            put("shr bits 0", isa.from_bits_f64(isa.shr_i64::<0>(i)));
            put("shr bits 52", isa.from_bits_f64(isa.shr_i64::<52>(i)));
        }
        results
    }
}

fn compare_32(a: &[f32; N], b: &[f32; N], c: &[f32; N]) {
    let expected = dispatch(IsaTier::Scalar, Methods32 { a, b, c });
    for tier in vector_tiers() {
        let got = dispatch(tier, Methods32 { a, b, c });
        assert_eq!(got.len(), expected.len());
        for ((name, got), (_, expected)) in got.iter().zip(&expected) {
            for lane in 0..N {
                let (g, e) = (got[lane], expected[lane]);
                let same =
                    g == e || (is_float(name) && same_f32(f32::from_bits(g), f32::from_bits(e)));
                assert!(
                    same,
                    "{name} on {tier}: {g:#010x}, not {e:#010x}, of {:#010x}, {:#010x}, {:#010x}",
                    a[lane].to_bits(),
                    b[lane].to_bits(),
                    c[lane].to_bits()
                );
            }
        }
    }
}

fn compare_64(a: &[f64; N], b: &[f64; N], c: &[f64; N]) {
    let expected = dispatch(IsaTier::Scalar, Methods64 { a, b, c });
    for tier in vector_tiers() {
        let got = dispatch(tier, Methods64 { a, b, c });
        assert_eq!(got.len(), expected.len());
        for ((name, got), (_, expected)) in got.iter().zip(&expected) {
            for lane in 0..N {
                let (g, e) = (got[lane], expected[lane]);
                let same =
                    g == e || (is_float(name) && same_f64(f64::from_bits(g), f64::from_bits(e)));
                assert!(
                    same,
                    "{name} on {tier}: {g:#018x}, not {e:#018x}, of {:e}, {:e}, {:e}",
                    a[lane], b[lane], c[lane]
                );
            }
        }
    }
}

#[test]
fn methods_on_32_bit_lanes() {
    let special = special_f32();
    for (i, &x) in special.iter().enumerate() {
        for part in special.chunks(N) {
            let mut b = [1.5; N];
            b[..part.len()].copy_from_slice(part);
            let c = std::array::from_fn(|k| special[(i * 7 + k * 13) % special.len()]);
            compare_32(&[x; N], &b, &c);
        }
    }
    let mut random = Random(21);
    for _ in 0..1_000_000 / N {
        let a = std::array::from_fn(|_| random.next_f32());
        let b = std::array::from_fn(|_| random.next_f32());
        let c = std::array::from_fn(|_| random.next_f32());
        compare_32(&a, &b, &c);
    }
}

#[test]
fn methods_on_64_bit_lanes() {
    let special = special_f64();
    for (i, &x) in special.iter().enumerate() {
        for part in special.chunks(N) {
            let mut b = [1.5; N];
            b[..part.len()].copy_from_slice(part);
            let c = std::array::from_fn(|k| special[(i * 7 + k * 13) % special.len()]);
            compare_64(&[x; N], &b, &c);
        }
    }
    let mut random = Random(22);
    for _ in 0..1_000_000 / N {
        let a = std::array::from_fn(|_| random.next_f64());
        let b = std::array::from_fn(|_| random.next_f64());
        let c = std::array::from_fn(|_| random.next_f64());
        compare_64(&a, &b, &c);
    }
}

struct Narrow<'a> {
    input: &'a [f32],
    half: &'a mut [f16],
    brain: &'a mut [bf16],
}

impl SimdOp for Narrow<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let n = I::F32_LANES;
        let targets = self.half.chunks_mut(n).zip(self.brain.chunks_mut(n));
        for (input, (half, brain)) in self.input.chunks(n).zip(targets) {
            let x = isa.load_partial_f32(input, 0.0);
            isa.store_partial_f16(x, half);
            isa.store_partial_bf16(x, brain);
        }
    }
}

/// Narrowing gives one set of bits on every tier, NaN included: the value that `half` gives.
#[test]
fn narrowing_to_16_bits() {
    let mut input: Vec<f32> = (0..=u32::MAX).step_by(977).map(f32::from_bits).collect();
    input.extend(special_f32());
    // Halfway between neighbouring f16, and beside it.
    input.extend((0..0x7c00_u16).flat_map(|b| {
        let (x, y) = (f16::from_bits(b).to_f64(), f16::from_bits(b + 1).to_f64());
        let y = if y.is_infinite() { 65536.0 } else { y };
        let middle = ((x + y) / 2.0) as f32;
        [
            middle,
            f32::from_bits(middle.to_bits() - 1),
            f32::from_bits(middle.to_bits() + 1),
            -middle,
        ]
    }));
    for &tier in IsaTier::available() {
        let mut half = vec![f16::ZERO; input.len()];
        let mut brain = vec![bf16::ZERO; input.len()];
        dispatch(
            tier,
            Narrow {
                input: &input,
                half: &mut half,
                brain: &mut brain,
            },
        );
        for (i, &x) in input.iter().enumerate() {
            let bits = x.to_bits();
            assert_eq!(
                half[i].to_bits(),
                f16::from_f32(x).to_bits(),
                "f16 of {bits:#010x} on {tier}"
            );
            assert_eq!(
                brain[i].to_bits(),
                bf16::from_f32(x).to_bits(),
                "bf16 of {bits:#010x} on {tier}"
            );
        }
    }
}

struct Widen<'a> {
    half: &'a [f16],
    brain: &'a [bf16],
    from_half: &'a mut [f32],
    from_brain: &'a mut [f32],
}

impl SimdOp for Widen<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let n = I::F32_LANES;
        for (source, target) in self.half.chunks(n).zip(self.from_half.chunks_mut(n)) {
            isa.store_partial_f32(isa.load_partial_f16(source, f16::ONE), target);
        }
        for (source, target) in self.brain.chunks(n).zip(self.from_brain.chunks_mut(n)) {
            isa.store_partial_f32(isa.load_partial_bf16(source, bf16::ONE), target);
        }
    }
}

#[test]
fn widening_every_16_bit_float() {
    let half: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    let brain: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
    for &tier in IsaTier::available() {
        let mut from_half = vec![0.0; half.len()];
        let mut from_brain = vec![0.0; brain.len()];
        let op = Widen {
            half: &half,
            brain: &brain,
            from_half: &mut from_half,
            from_brain: &mut from_brain,
        };
        dispatch(tier, op);
        for i in 0..half.len() {
            assert_eq!(
                from_half[i].to_bits(),
                half[i].to_f32().to_bits(),
                "f16 {i:#06x} on {tier}"
            );
            assert_eq!(
                from_brain[i].to_bits(),
                (i as u32) << 16,
                "bf16 {i:#06x} on {tier}"
            );
        }
    }
}

/// Loads and stores at every length and offset, unaligned ones included.
struct Moves<'a>(&'a [f32], &'a [f64]);

impl SimdOp for Moves<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        for offset in 0..5 {
            let (n, source) = (I::F32_LANES, &self.0[offset..]);
            // SAFETY: the source has more than the lanes of any vector.
            let whole = unsafe { isa.load_ptr_f32(source.as_ptr()) };
            let mut target = [-1.0; MAXIMUM_F32_LANES + 8];
            // SAFETY: the target has more than the lanes of any vector after the offset.
            unsafe { isa.store_ptr_f32(whole, target[offset..].as_mut_ptr()) };
            assert_eq!(&target[offset..offset + n], &source[..n]);
            assert!(
                target[..offset]
                    .iter()
                    .chain(&target[offset + n..])
                    .all(|&x| x == -1.0)
            );
            for length in 0..=n {
                let part = isa.load_partial_f32(&source[..length], -7.0);
                let mut lanes = [0.0; 64];
                isa.spill_f32(part, &mut lanes);
                assert_eq!(&lanes[..length], &source[..length]);
                assert!(lanes[length..n].iter().all(|&x| x == -7.0));
                let mut target = [-1.0; MAXIMUM_F32_LANES + 8];
                isa.store_partial_f32(whole, &mut target[offset..offset + length]);
                assert_eq!(&target[offset..offset + length], &source[..length]);
                assert!(target[offset + length..].iter().all(|&x| x == -1.0));
            }

            let (n, source) = (I::F64_LANES, &self.1[offset..]);
            // SAFETY: the source has more than the lanes of any vector.
            let whole = unsafe { isa.load_ptr_f64(source.as_ptr()) };
            let mut target = [-1.0; MAXIMUM_F32_LANES + 8];
            // SAFETY: the target has more than the lanes of any vector after the offset.
            unsafe { isa.store_ptr_f64(whole, target[offset..].as_mut_ptr()) };
            assert_eq!(&target[offset..offset + n], &source[..n]);
            for length in 0..=n {
                let part = isa.load_partial_f64(&source[..length], -7.0);
                let mut lanes = [0.0; MAXIMUM_F32_LANES];
                isa.store_f64(part, &mut lanes);
                assert_eq!(&lanes[..length], &source[..length]);
                assert!(lanes[length..n].iter().all(|&x| x == -7.0));
                let mut target = [-1.0; MAXIMUM_F32_LANES + 8];
                isa.store_partial_f64(whole, &mut target[offset..offset + length]);
                assert_eq!(&target[offset..offset + length], &source[..length]);
                assert!(target[offset + length..].iter().all(|&x| x == -1.0));
            }
        }
    }
}

#[test]
fn loads_and_stores() {
    let single: Vec<f32> = (0..40).map(|i| i as f32 + 0.5).collect();
    let double: Vec<f64> = (0..40).map(|i| f64::from(i) + 0.5).collect();
    for &tier in IsaTier::available() {
        dispatch(tier, Moves(&single, &double));
    }
}

/// A slice shorter than a vector is refused, not read past.
#[test]
fn short_slices_panic() {
    struct Short(bool);
    impl SimdOp for Short {
        type Output = ();

        #[inline(always)]
        fn eval<I: Isa>(self, isa: I) {
            let mut short = vec![0.0; I::F32_LANES - 1];
            if self.0 {
                isa.load_f32(&short);
            } else {
                isa.store_f32(isa.splat_f32(1.0), &mut short);
            }
        }
    }
    for &tier in IsaTier::available() {
        for load in [true, false] {
            let outcome = std::panic::catch_unwind(|| dispatch(tier, Short(load)));
            assert!(outcome.is_err(), "load {load} on {tier}");
        }
    }
}

/// A partial load or store longer than a vector is refused on every tier.
#[test]
fn long_partial_slices_panic() {
    struct Long(u8);
    impl SimdOp for Long {
        type Output = ();

        #[inline(always)]
        fn eval<I: Isa>(self, isa: I) {
            let mut single = vec![0.0; I::F32_LANES + 1];
            let mut double = vec![0.0; I::F64_LANES + 1];
            let mut half = vec![f16::ZERO; I::F32_LANES + 1];
            let mut brain = vec![bf16::ZERO; I::F32_LANES + 1];
            let one = isa.splat_f32(1.0);
            match self.0 {
                0 => drop(isa.load_partial_f32(&single, 0.0)),
                1 => isa.store_partial_f32(one, &mut single),
                2 => drop(isa.load_partial_f64(&double, 0.0)),
                3 => isa.store_partial_f64(isa.splat_f64(1.0), &mut double),
                4 => drop(isa.load_partial_f16(&half, f16::ZERO)),
                5 => isa.store_partial_f16(one, &mut half),
                6 => drop(isa.load_partial_bf16(&brain, bf16::ZERO)),
                _ => isa.store_partial_bf16(one, &mut brain),
            }
        }
    }
    for &tier in IsaTier::available() {
        for method in 0..8 {
            let outcome = std::panic::catch_unwind(|| dispatch(tier, Long(method)));
            assert!(outcome.is_err(), "method {method} on {tier}");
        }
    }
}
