//! The 8-bit floats of ONNX (operator set 19): conversion from and to f32.

use onl_tensor::ElementType;

/// Which 8-bit float a byte holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Float8Kind {
    /// 4 exponent bits, bias 7, no infinity, NaN is all ones.
    E4M3FN,
    /// 4 exponent bits, bias 8, no infinity, NaN is the pattern of negative zero.
    E4M3FNUZ,
    /// 5 exponent bits, bias 15, IEEE-like infinity and NaN.
    E5M2,
    /// 5 exponent bits, bias 16, no infinity, NaN is the pattern of negative zero.
    E5M2FNUZ,
}

/// An 8-bit float format as numbers.
#[derive(Debug, Clone, Copy)]
pub struct Float8 {
    kind: Float8Kind,
    mantissa_bits: u32,
    bias: i32,
}

impl Float8 {
    /// The format of an element type, if it is one of the four.
    pub fn of(element_type: ElementType) -> Option<Self> {
        let (kind, mantissa_bits, bias) = match element_type {
            ElementType::Float8E4M3FN => (Float8Kind::E4M3FN, 3, 7),
            ElementType::Float8E4M3FNUZ => (Float8Kind::E4M3FNUZ, 3, 8),
            ElementType::Float8E5M2 => (Float8Kind::E5M2, 2, 15),
            ElementType::Float8E5M2FNUZ => (Float8Kind::E5M2FNUZ, 2, 16),
            _ => return None,
        };
        Some(Float8 {
            kind,
            mantissa_bits,
            bias,
        })
    }

    fn unsigned_zero(self) -> bool {
        matches!(self.kind, Float8Kind::E4M3FNUZ | Float8Kind::E5M2FNUZ)
    }

    /// Exact value of a byte.
    pub fn decode(self, byte: u8) -> f32 {
        let magnitude = u32::from(byte & 0x7f);
        let sign = if byte & 0x80 != 0 { -1.0 } else { 1.0 };
        let special = match self.kind {
            Float8Kind::E4M3FN if magnitude == 0x7f => Some(f32::NAN),
            Float8Kind::E5M2 if magnitude == 0x7c => Some(f32::INFINITY),
            Float8Kind::E5M2 if magnitude > 0x7c => Some(f32::NAN),
            _ if self.unsigned_zero() && byte == 0x80 => Some(f32::NAN),
            _ => None,
        };
        if let Some(value) = special {
            return value * sign;
        }
        let mantissa = magnitude & ((1 << self.mantissa_bits) - 1);
        let exponent = (magnitude >> self.mantissa_bits) as i32;
        let (significand, exponent) = if exponent == 0 {
            (mantissa, 1)
        } else {
            (mantissa | 1 << self.mantissa_bits, exponent)
        };
        let scale = exponent - self.bias - self.mantissa_bits as i32;
        sign * significand as f32 * 2f32.powi(scale)
    }

    /// Nearest byte, ties to even. A value beyond the largest one (after rounding) becomes the largest one when
    /// `saturate` is set, else infinity, or NaN in formats without it.
    pub fn encode(self, value: f32, saturate: bool) -> u8 {
        self.encoder(saturate).encode(value)
    }

    /// What [`encode`](Self::encode) needs to know of the format, worked out once.
    pub(crate) fn encoder(self, saturate: bool) -> Encoder {
        let bias = 127 - self.bias as u32;
        let drop = 23 - self.mantissa_bits;
        let largest = u32::from(self.largest_code());
        let (nan, signed) = if self.unsigned_zero() {
            (0x80, 0)
        } else {
            (0x7f, 0x80)
        };
        let (beyond, beyond_signed) = match (saturate, self.kind) {
            (true, _) => (largest, 0x80),
            (false, Float8Kind::E5M2) => (0x7c, 0x80),
            (false, _) => (nan, signed),
        };
        Encoder {
            drop,
            half: (1 << (drop - 1)) - 1,
            rebase: bias << self.mantissa_bits,
            magic: (bias + 1 + drop) << 23,
            smallest_normal: (bias + 1) << 23,
            largest,
            beyond,
            beyond_signed,
            nan,
            nan_signed: signed,
            zero_signed: signed,
        }
    }

    fn largest_code(self) -> u8 {
        match self.kind {
            Float8Kind::E4M3FN => 0x7e,
            Float8Kind::E5M2 => 0x7b,
            Float8Kind::E4M3FNUZ | Float8Kind::E5M2FNUZ => 0x7f,
        }
    }
}

/// Constants of an encoding into 8-bit floats; `…_signed` masks the sign that a result keeps.
#[derive(Clone, Copy)]
pub(crate) struct Encoder {
    /// Mantissa bits of f32 that are dropped.
    drop: u32,
    /// Half of their range less one.
    half: u32,
    rebase: u32,
    magic: u32,
    smallest_normal: u32,
    largest: u32,
    beyond: u32,
    beyond_signed: u32,
    nan: u32,
    nan_signed: u32,
    zero_signed: u32,
}

impl Encoder {
    /// Selections of whole values throughout, so that loops of it compile to vectors.
    #[inline(always)]
    pub(crate) fn encode(&self, value: f32) -> u8 {
        let bits = value.to_bits();
        let (sign, magnitude) = (bits >> 24 & 0x80, bits & 0x7fff_ffff);
        // Normal numbers: rounded on their bits, then the exponent is rebased.
        let rounded = magnitude
            .wrapping_add(self.half)
            .wrapping_add(magnitude >> self.drop & 1);
        let normal = (rounded >> self.drop).wrapping_sub(self.rebase);
        // Denormal numbers: added to a power of two whose last place is theirs.
        let sum = f32::from_bits(magnitude) + f32::from_bits(self.magic);
        let denormal = sum.to_bits().wrapping_sub(self.magic);
        let is_normal = magnitude >= self.smallest_normal;
        let code = if is_normal { normal } else { denormal };
        let kept = if code == 0 {
            sign & self.zero_signed
        } else {
            sign
        };
        let inside = code | kept;
        let beyond = self.beyond | sign & self.beyond_signed;
        let result = if is_normal & (normal > self.largest) {
            beyond
        } else {
            inside
        };
        let nan = self.nan | sign & self.nan_signed;
        (if magnitude > 0x7f80_0000 { nan } else { result }) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [ElementType; 4] = [
        ElementType::Float8E4M3FN,
        ElementType::Float8E4M3FNUZ,
        ElementType::Float8E5M2,
        ElementType::Float8E5M2FNUZ,
    ];

    #[test]
    fn every_byte_survives_decoding_and_encoding() {
        for element_type in TYPES {
            let format = Float8::of(element_type).unwrap();
            for byte in 0..=255u8 {
                let value = format.decode(byte);
                let again = format.encode(value, false);
                if value.is_nan() {
                    assert!(format.decode(again).is_nan(), "{element_type} {byte:#x}");
                } else {
                    assert_eq!(again, byte, "{element_type} {byte:#x} = {value}");
                }
            }
        }
    }

    #[test]
    fn encoding_takes_the_nearest_value_with_ties_to_even() {
        for element_type in TYPES {
            let format = Float8::of(element_type).unwrap();
            let mut finite: Vec<(f32, u8)> = (0..=0x7fu8)
                .map(|b| (format.decode(b), b))
                .filter(|(v, _)| v.is_finite())
                .collect();
            finite.sort_by(|a, b| a.0.total_cmp(&b.0));
            for pair in finite.windows(2) {
                let ((low, a), (high, b)) = (pair[0], pair[1]);
                let middle = (low + high) / 2.0;
                let even = if a % 2 == 0 { a } else { b };
                assert_eq!(format.encode(middle, true), even, "{element_type} {middle}");
                assert_eq!(format.encode(middle.next_down(), true), a, "{element_type}");
                assert_eq!(format.encode(middle.next_up(), true), b, "{element_type}");
            }
        }
    }

    #[test]
    fn overflow_follows_the_saturate_attribute() {
        let cases = [
            (ElementType::Float8E4M3FN, 0x7e, 0x7f),
            (ElementType::Float8E4M3FNUZ, 0x7f, 0x80),
            (ElementType::Float8E5M2, 0x7b, 0x7c),
            (ElementType::Float8E5M2FNUZ, 0x7f, 0x80),
        ];
        for (element_type, saturated, overflowed) in cases {
            let format = Float8::of(element_type).unwrap();
            for value in [1e6, f32::INFINITY] {
                assert_eq!(
                    format.encode(value, true),
                    saturated,
                    "{element_type} {value}"
                );
                assert_eq!(
                    format.encode(value, false),
                    overflowed,
                    "{element_type} {value}"
                );
            }
            assert_eq!(format.encode(-f32::INFINITY, true), saturated | 0x80);
        }
    }
}
