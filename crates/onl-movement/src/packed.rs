//! Elements narrower than a byte, moved one by one: the first of a byte lies in its low bits, unused bits are zero.

use crate::strided::{Layout, Rows};
use crate::{Execution, MovementError};
use onl_profiling::RegionSite;

/// The code of an element.
#[inline]
pub(crate) fn code_at(bytes: &[u8], bits: usize, element: usize) -> u8 {
    let per_byte = 8 / bits;
    bytes[element / per_byte] >> (element % per_byte * bits) & (u8::MAX >> (8 - bits))
}

/// Writes `count` codes of `bits` bits. `walk` begins at an element and gives the codes from there on.
pub(crate) fn write_codes<W: FnMut() -> u8>(
    bits: usize,
    count: usize,
    target: &mut [u8],
    execution: &Execution<'_>,
    site: &'static RegionSite,
    walk: impl Fn(usize) -> W + Sync,
) -> Result<(), MovementError> {
    let per_byte = 8 / bits;
    let spec = execution.spec(target.len(), per_byte, 3000, "packed");
    execution
        .lanes
        .region_over(site, spec, target, 1, |chunk, part| {
            let mut element = chunk.range.start * per_byte;
            let mut next = walk(element);
            for byte in part {
                *byte = 0;
                for place in 0..per_byte.min(count - element) {
                    *byte |= next() << (place * bits);
                }
                element += per_byte;
            }
        })?;
    Ok(())
}

/// Fills an output of `bits`-bit elements from a layout of the source.
pub(crate) fn copy_packed(
    bits: usize,
    source: &[u8],
    layout: &Layout,
    target: &mut [u8],
    execution: &Execution<'_>,
    site: &'static RegionSite,
) -> Result<(), MovementError> {
    write_codes(bits, layout.len(), target, execution, site, |element| {
        let mut rows = Rows::at(&layout.sizes, &layout.strides, layout.offset, element);
        move || {
            let code = code_at(source, bits, rows.start as usize);
            rows.advance();
            code
        }
    })
}
