//! Rows of A copied into the form that instructions read; compiled once per tier.

use super::tile::Form;

/// Sum of the elements of a row in the form of `form`, modulo 2³².
#[inline(always)]
pub(super) fn row_sum(source: &[u8], signed: bool, form: Form) -> i32 {
    if signed {
        let sum = source
            .iter()
            .fold(0i32, |sum, &x| sum.wrapping_add(i32::from(x as i8)));
        sum.wrapping_add(form.offset(signed).wrapping_mul(source.len() as i32))
    } else {
        let sum = source
            .iter()
            .fold(0u32, |sum, &x| sum.wrapping_add(u32::from(x)));
        (sum as i32).wrapping_add(form.offset(signed).wrapping_mul(source.len() as i32))
    }
}

/// Copies a row; `target` has whole groups, and what the row does not fill becomes zero.
#[inline(always)]
pub(super) fn copy_row(source: &[u8], signed: bool, form: Form, target: &mut [u8]) {
    let used = source.len() * form.bytes();
    let (row, rest) = target.split_at_mut(used);
    rest.fill(0);
    match form {
        Form::UnsignedWords => {
            let flip = form.flip(signed);
            for (target, &x) in row.chunks_exact_mut(2).zip(source) {
                target.copy_from_slice(&u16::from(x ^ flip).to_le_bytes());
            }
        }
        Form::Words => {
            for (target, &x) in row.chunks_exact_mut(2).zip(source) {
                let wide = if signed {
                    i16::from(x as i8)
                } else {
                    i16::from(x)
                };
                target.copy_from_slice(&wide.to_le_bytes());
            }
        }
        _ => {
            let flip = form.flip(signed);
            for (target, &x) in row.iter_mut().zip(source) {
                *target = x ^ flip;
            }
        }
    }
}
