//! From 32-bit sums to bytes; the bodies are compiled once per tier by the wrappers of the register tiles.

/// Scale of each element of a row.
#[derive(Clone, Copy)]
pub(super) enum RowScale<'a> {
    /// The same in every column.
    Splat(f32),
    /// One a column.
    Columns(&'a [f32]),
    /// `(a · b[j]) / y`.
    Outer {
        /// Scale of the row of A.
        a: f32,
        /// Scales of the columns of B.
        b: &'a [f32],
        /// Scale of the output.
        y: f32,
    },
}

/// Where scaled sums are rounded to.
#[derive(Clone, Copy)]
pub(super) struct Rounding {
    /// Range of the output type less the zero point.
    pub low: f32,
    /// See `low`.
    pub high: f32,
    /// Zero point of the output.
    pub zero_point: i32,
}

impl Rounding {
    pub fn new(zero_point: i32, signed: bool) -> Rounding {
        let (low, high) = if signed { (-128, 127) } else { (0, 255) };
        Rounding {
            low: (low - zero_point) as f32,
            high: (high - zero_point) as f32,
            zero_point,
        }
    }

    /// Values within ±2²² lie, this far above zero, where the last bit of an `f32` counts ones: the addition rounds.
    const MAGIC: f32 = 12_582_912.0;

    #[inline(always)]
    fn byte(self, sum: i32, scale: f32) -> u8 {
        let value = sum as f32 * scale;
        let value = if value > self.low { value } else { self.low };
        let value = if value < self.high { value } else { self.high };
        let rounded = (value + Self::MAGIC)
            .to_bits()
            .wrapping_sub(Self::MAGIC.to_bits());
        rounded.wrapping_add(self.zero_point as u32) as u8
    }
}

/// Requantizes a row of sums.
#[inline(always)]
pub(super) fn requantize_row(
    sums: &[i32],
    scale: RowScale<'_>,
    rounding: Rounding,
    bytes: &mut [u8],
) {
    match scale {
        RowScale::Splat(scale) => {
            for (byte, &sum) in bytes.iter_mut().zip(sums) {
                *byte = rounding.byte(sum, scale);
            }
        }
        RowScale::Columns(scales) => {
            for ((byte, &sum), &scale) in bytes.iter_mut().zip(sums).zip(scales) {
                *byte = rounding.byte(sum, scale);
            }
        }
        RowScale::Outer { a, b, y } => {
            for ((byte, &sum), &b) in bytes.iter_mut().zip(sums).zip(b) {
                *byte = rounding.byte(sum, a * b / y);
            }
        }
    }
}

/// Adds `start + a_factor · column_sums[j] + b_factor · b_zero_points[j]`, wrapping, to every sum of a row.
#[inline(always)]
pub(super) fn correct_row(
    sums: &mut [i32],
    start: i32,
    (a_factor, column_sums): (i32, &[i32]),
    (b_factor, b_zero_points): (i32, &[i32]),
) {
    for ((sum, &column), &zero_point) in sums.iter_mut().zip(column_sums).zip(b_zero_points) {
        *sum = sum
            .wrapping_add(start)
            .wrapping_add(a_factor.wrapping_mul(column))
            .wrapping_add(b_factor.wrapping_mul(zero_point));
    }
}
