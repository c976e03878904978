use crate::{GemmError, Matrix};
use onl_tensor::Element;

/// Integers of 32 and 64 bits, whose products wrap around.
pub trait WrappingElement: Element + Default {
    /// `self + a · b` modulo 2 to the number of bits.
    fn wrapping_multiply_add(self, a: Self, b: Self) -> Self;
    /// 1.
    const ONE: Self;
    /// The nearest `f64`.
    fn to_f64(self) -> f64;
    /// Truncated towards zero and clamped; NaN gives 0.
    fn from_f64(value: f64) -> Self;
}

macro_rules! wrapping {
    ($($t:ty),*) => {
        $(impl WrappingElement for $t {
            const ONE: Self = 1;
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $t
            }
            #[inline(always)]
            fn wrapping_multiply_add(self, a: Self, b: Self) -> Self {
                self.wrapping_add(a.wrapping_mul(b))
            }
        })*
    };
}

wrapping!(i32, i64, u32, u64);

/// Product of integers modulo 2 to the number of bits: `output` (rows of `n` elements) = the matching rows of A from
/// `first_row`, times B (k × n).
///
/// # Errors
/// [`GemmError::Operand`] when an operand does not reach that far.
pub fn wrapping_product<T: WrappingElement>(
    a: &Matrix<'_, T>,
    b: &Matrix<'_, T>,
    first_row: usize,
    k: usize,
    n: usize,
    output: &mut [T],
) -> Result<(), GemmError> {
    output.fill(T::default());
    if n == 0 || output.is_empty() {
        return Ok(());
    }
    let rows = output.len() / n;
    if !a.covers(1, first_row + rows, k) {
        return Err(GemmError::Operand {
            operand: "A",
            length: a.elements.len(),
        });
    }
    if !b.covers(1, k, n) {
        return Err(GemmError::Operand {
            operand: "B",
            length: b.elements.len(),
        });
    }
    for (row, sums) in output.chunks_exact_mut(n).enumerate() {
        for step in 0..k {
            let x = a.elements[(first_row + row) * a.row_stride + step * a.column_stride];
            let start = step * b.row_stride;
            if b.column_stride == 1 {
                for (sum, &y) in sums.iter_mut().zip(&b.elements[start..start + n]) {
                    *sum = sum.wrapping_multiply_add(x, y);
                }
            } else {
                for (column, sum) in sums.iter_mut().enumerate() {
                    *sum =
                        sum.wrapping_multiply_add(x, b.elements[start + column * b.column_stride]);
                }
            }
        }
    }
    Ok(())
}
