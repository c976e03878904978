//! Conversions by way of f32: types that hold fewer values than f32 are widened into a buffer and narrowed from it,
//! a block at a time.

use super::number::{CastTo, round_to_odd};
use super::{CastRules, by_number, vector};
use crate::Float8;
use onl_cpu::IsaTier;
use onl_simd::{Isa, SimdOp, dispatch};
use onl_tensor::{ElementType, bf16, f16};

/// Elements of a block; a multiple of the elements of a byte of any type.
pub(super) const BLOCK: usize = 512;

/// Whether a type is converted by way of f32.
pub(super) fn is_staged(element_type: ElementType) -> bool {
    use ElementType::*;
    matches!(element_type, Float16 | BFloat16) || is_small(element_type)
}

/// Whether a type's elements are read from a table of all its values.
fn is_small(element_type: ElementType) -> bool {
    use ElementType::*;
    Float8::of(element_type).is_some()
        || matches!(
            element_type,
            Float8E8M0 | UInt4 | Int4 | Float4E2M1 | UInt2 | Int2
        )
}

/// Whether integers of a type are narrower than a byte.
fn is_packed_integer(element_type: ElementType) -> bool {
    use ElementType::*;
    matches!(element_type, UInt4 | Int4 | UInt2 | Int2)
}

/// Reads elements of one type as f32.
pub(super) struct Reader {
    from: ElementType,
    /// Whether integers are reduced to their low byte first, because bits beyond it are dropped later.
    low_bits: bool,
    values: [f32; 256],
}

impl Reader {
    pub(super) fn new(from: ElementType, to: ElementType) -> Self {
        let mut values = [0.0; 256];
        if is_small(from) {
            for (code, value) in values.iter_mut().enumerate() {
                *value = small_value(from, code as u8);
            }
        }
        Reader {
            from,
            low_bits: is_packed_integer(to),
            values,
        }
    }

    /// Reads the elements from number `start` on, which begins a byte.
    pub(super) fn read(&self, bytes: &[u8], start: usize, buffer: &mut [f32], tier: IsaTier) {
        let first = start * self.from.bits() / 8;
        let bytes = &bytes[first..][..(buffer.len() * self.from.bits()).div_ceil(8)];
        match self.from {
            ElementType::Float16 => vector::widen::<f16>(bytes, buffer, tier),
            ElementType::BFloat16 => vector::widen::<bf16>(bytes, buffer, tier),
            ElementType::Float64 => {
                let source: &[f64] = bytemuck::cast_slice(bytes);
                dispatch(
                    tier,
                    Each {
                        source,
                        target: buffer,
                        convert: |x: f64| round_to_odd(x),
                    },
                );
            }
            from if is_small(from) && from.bits() == 8 => {
                let values = &self.values;
                dispatch(
                    tier,
                    Each {
                        source: bytes,
                        target: buffer,
                        convert: |byte: u8| values[usize::from(byte)],
                    },
                );
            }
            from if is_small(from) => {
                let per_byte = 8 / from.bits();
                let mask = u8::MAX >> (8 - from.bits());
                for (&byte, slots) in bytes.iter().zip(buffer.chunks_mut(per_byte)) {
                    for (k, slot) in slots.iter_mut().enumerate() {
                        *slot = self.values[usize::from(byte >> (k * from.bits()) & mask)];
                    }
                }
            }
            from => by_number!(from, S => {
                let source: &[S] = bytemuck::cast_slice(bytes);
                if self.low_bits && from != ElementType::Float32 {
                    dispatch(tier, Each { source, target: buffer, convert: |x: S| {
                        f32::from(CastTo::<i8>::cast_to(x))
                    } });
                } else {
                    dispatch(tier, Each { source, target: buffer, convert: CastTo::<f32>::cast_to });
                }
            }, unreachable!("all other types are staged")),
        }
    }
}

/// Writes f32 as elements of one type.
pub(super) struct Writer {
    to: ElementType,
    rules: CastRules,
}

impl Writer {
    pub(super) fn new(to: ElementType, rules: CastRules) -> Self {
        Writer { to, rules }
    }

    /// Bytes of the elements from number `start` on, which begins a byte.
    pub(super) fn range(&self, start: usize, count: usize) -> std::ops::Range<usize> {
        let first = start * self.to.bits() / 8;
        first..first + (count * self.to.bits()).div_ceil(8)
    }

    /// Writes a block into exactly its bytes.
    pub(super) fn write(&self, buffer: &[f32], bytes: &mut [u8], tier: IsaTier) {
        let saturate = self.rules.saturate;
        if let Some(format) = Float8::of(self.to) {
            let convert = |x: f32| format.encode(x, saturate);
            dispatch(
                tier,
                Each {
                    source: buffer,
                    target: bytes,
                    convert,
                },
            );
            return;
        }
        match self.to {
            ElementType::Float16 => vector::narrow::<f16>(buffer, bytes, tier),
            ElementType::BFloat16 => vector::narrow::<bf16>(buffer, bytes, tier),
            ElementType::Float8E8M0 => {
                let convert = |x: f32| encode_scale(x, self.rules);
                dispatch(
                    tier,
                    Each {
                        source: buffer,
                        target: bytes,
                        convert,
                    },
                );
            }
            ElementType::Float4E2M1 => pack(buffer, bytes, 4, encode_f4),
            to if to.bits() < 8 => {
                pack(buffer, bytes, to.bits(), |x| {
                    CastTo::<i64>::cast_to(x) as u8
                });
            }
            to => by_number!(to, D => {
                let target: &mut [D] = bytemuck::cast_slice_mut(bytes);
                dispatch(tier, Each { source: buffer, target, convert: CastTo::<D>::cast_to });
            }, unreachable!("all other types are staged")),
        }
    }
}

/// A conversion of every element, compiled for a tier.
pub(super) struct Each<'a, S, D, F> {
    pub source: &'a [S],
    pub target: &'a mut [D],
    pub convert: F,
}

impl<S: Copy, D, F: Fn(S) -> D> SimdOp for Each<'_, S, D, F> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        for (slot, &x) in self.target.iter_mut().zip(self.source) {
            *slot = (self.convert)(x);
        }
    }
}

/// Packs codes of a few bits, the first of a byte into its low bits; unused bits are zero.
fn pack(buffer: &[f32], bytes: &mut [u8], bits: usize, code: impl Fn(f32) -> u8) {
    let mask = (1 << bits) - 1;
    for (byte, values) in bytes.iter_mut().zip(buffer.chunks(8 / bits)) {
        *byte = 0;
        for (k, &value) in values.iter().enumerate() {
            *byte |= (code(value) & mask) << (k * bits);
        }
    }
}

/// Exact value of a code of a type of at most eight bits.
fn small_value(element_type: ElementType, code: u8) -> f32 {
    let signed = |bits: u32| f32::from((code << (8 - bits)) as i8 >> (8 - bits));
    match element_type {
        ElementType::UInt4 => f32::from(code & 15),
        ElementType::UInt2 => f32::from(code & 3),
        ElementType::Int4 => signed(4),
        ElementType::Int2 => signed(2),
        ElementType::Float4E2M1 => {
            let magnitude = F4_VALUES[usize::from(code & 7)];
            if code & 8 != 0 { -magnitude } else { magnitude }
        }
        ElementType::Float8E8M0 => match code {
            0 => f32::from_bits(1 << 22),
            255 => f32::NAN,
            exponent => f32::from_bits(u32::from(exponent) << 23),
        },
        other => Float8::of(other).map_or(0.0, |format| format.decode(code)),
    }
}

/// Magnitudes of the 4-bit float with two exponent bits and one mantissa bit.
const F4_VALUES: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// Nearest 4-bit float, ties to even, saturated; NaN gives −0, as the type has none.
fn encode_f4(value: f32) -> u8 {
    if value.is_nan() {
        return 8;
    }
    let magnitude = value.abs();
    // A tie goes to the even code, which is the upper one behind an odd code.
    let code = (0..7).filter(|&k| {
        let middle = (F4_VALUES[k] + F4_VALUES[k + 1]) / 2.0;
        if k % 2 == 0 {
            magnitude > middle
        } else {
            magnitude >= middle
        }
    });
    code.count() as u8 | if value.is_sign_negative() { 8 } else { 0 }
}

/// How a value between two powers of two becomes one of them (ONNX `round_mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ScaleRounding {
    /// The larger.
    #[default]
    Up,
    /// The smaller.
    Down,
    /// The nearer, the larger of two equally near.
    Nearest,
}

/// The power of two that a scale factor of eight exponent bits holds; values out of range become the nearest in it
/// when rules say so, else NaN (255). Negative values are NaN.
fn encode_scale(value: f32, rules: CastRules) -> u8 {
    let bits = value.to_bits();
    if value.is_nan() || value < 0.0 {
        return 255;
    }
    // Below 2^-126 the powers are 2^-127, a denormal number, and nothing.
    const SMALLEST: u32 = 1 << 22;
    if bits < SMALLEST {
        return if rules.saturate { 0 } else { 255 };
    }
    let (exponent, fraction, half) = match bits >> 23 {
        0 => (0, bits - SMALLEST, SMALLEST / 2),
        exponent => (exponent, bits & ((1 << 23) - 1), 1 << 22),
    };
    let up = match rules.rounding {
        ScaleRounding::Up => fraction > 0,
        ScaleRounding::Down => false,
        ScaleRounding::Nearest => fraction >= half,
    };
    match exponent + u32::from(up) {
        code @ ..255 => code as u8,
        _ if rules.saturate => 254,
        _ => 255,
    }
}
