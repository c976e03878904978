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
    #[inline(always)]
    pub fn encode(self, value: f32, saturate: bool) -> u8 {
        let bits = value.to_bits();
        let (sign, magnitude) = (bits >> 24 & 0x80, bits & 0x7fff_ffff);
        let drop = 23 - self.mantissa_bits;
        let bias = 127 - self.bias as u32;
        // Normal numbers: rounded on their bits, then the exponent is rebased.
        let rounded = (magnitude + (1 << (drop - 1)) - 1 + (magnitude >> drop & 1)) >> drop;
        let normal = rounded.wrapping_sub(bias << self.mantissa_bits);
        // Denormal numbers: added to a power of two whose last place is theirs.
        let magic = (bias + 1 + drop) << 23;
        let sum = f32::from_bits(magnitude) + f32::from_bits(magic);
        let denormal = sum.to_bits().wrapping_sub(magic);
        let is_denormal = magnitude < (bias + 1) << 23;
        let code = if is_denormal { denormal } else { normal };
        let (largest, unsigned_zero) = (u32::from(self.largest_code()), self.unsigned_zero());
        let nan = if unsigned_zero { 0x80 } else { 0x7f | sign };
        let beyond = match (saturate, self.kind) {
            (true, _) => largest | sign,
            (false, Float8Kind::E5M2) => 0x7c | sign,
            (false, _) => nan,
        };
        let inside = if unsigned_zero && code == 0 {
            0
        } else {
            code | sign
        };
        let result = if !is_denormal && normal > largest {
            beyond
        } else {
            inside
        };
        (if magnitude > 0x7f80_0000 { nan } else { result }) as u8
    }

    fn largest_code(self) -> u8 {
        match self.kind {
            Float8Kind::E4M3FN => 0x7e,
            Float8Kind::E5M2 => 0x7b,
            Float8Kind::E4M3FNUZ | Float8Kind::E5M2FNUZ => 0x7f,
        }
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
