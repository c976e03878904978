use crate::MovementError;
use onl_tensor::{ElementType, TensorView, TensorViewMut};
use std::marker::PhantomData;

/// What is moved: an element of a certain width, or a string.
pub(crate) trait Unit: Clone + Default + Send + Sync + 'static {
    /// Bytes of a unit whose value is its bytes; 0 for strings.
    const WIDTH: usize;
    /// The units of a tensor.
    fn of<'a>(view: &TensorView<'a>) -> Result<&'a [Self], MovementError>;
    /// The units of a tensor that is written.
    fn of_mut<'a>(view: &'a mut TensorViewMut<'_>) -> Result<&'a mut [Self], MovementError>;
    /// Copies a run, which for short runs is a few instructions and no call. Both slices have one length.
    fn copy_run(source: &[Self], target: &mut [Self]);
}

/// Runs of this many bytes and more are copied by `memcpy`, whose call no longer weighs then.
const CALL_BYTES: usize = 1024;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Copies `count` bytes.
///
/// # Safety
/// `source` is valid for reading and `target` for writing `count` bytes; they do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_bytes(source: *const u8, target: *mut u8, count: usize) {
    /// Covers `[0, count)` by blocks of one size, the last of which may overlap the one before it.
    macro_rules! blocks {
        ($size:literal) => {{
            let mut at = 0;
            while count - at >= $size {
                // SAFETY: `size ≤ count − at`, by the caller's promise valid on both sides.
                unsafe { copy_block::<$size>(source.add(at), target.add(at)) };
                at += $size;
            }
            if at < count {
                // SAFETY: `count ≥ size`, so the last block begins inside.
                unsafe {
                    copy_block::<$size>(source.add(count - $size), target.add(count - $size))
                };
            }
        }};
    }
    match count {
        0 => {}
        CALL_BYTES.. => {
            // Some processors copy many times slower to targets within a line by the string instructions that `memcpy`
            // uses, so that it begins at a line.
            let ahead = (target as usize).wrapping_neg() % LINE;
            // SAFETY: the caller's promise; a line and the part ahead of one are shorter than the block.
            unsafe {
                copy_block::<LINE>(source, target);
                std::ptr::copy_nonoverlapping(source.add(ahead), target.add(ahead), count - ahead);
            }
        }
        64.. => blocks!(64),
        32.. => blocks!(32),
        16.. => blocks!(16),
        8.. => blocks!(8),
        4.. => blocks!(4),
        2.. => blocks!(2),
        1 => blocks!(1),
    }
}

/// Copies a block of constant size, which compiles to loads and stores.
///
/// # Safety
/// `source` is valid for reading and `target` for writing `SIZE` bytes.
#[inline(always)]
unsafe fn copy_block<const SIZE: usize>(source: *const u8, target: *mut u8) {
    // SAFETY: the caller's promise; byte arrays have no alignment.
    unsafe {
        target
            .cast::<[u8; SIZE]>()
            .write_unaligned(source.cast::<[u8; SIZE]>().read_unaligned());
    }
}

macro_rules! units {
    ($($t:ty),*) => {$(
        impl Unit for $t {
            const WIDTH: usize = size_of::<$t>();
            #[inline(always)]
            fn copy_run(source: &[Self], target: &mut [Self]) {
                assert_eq!(source.len(), target.len(), "a run has one length");
                // SAFETY: both slices have this many bytes, and a mutable slice overlaps no other.
                unsafe { copy_bytes(source.as_ptr().cast(), target.as_mut_ptr().cast(), size_of_val(source)) }
            }
            fn of<'a>(view: &TensorView<'a>) -> Result<&'a [Self], MovementError> {
                Ok(bytemuck::cast_slice(view.bytes()))
            }
            fn of_mut<'a>(view: &'a mut TensorViewMut<'_>) -> Result<&'a mut [Self], MovementError> {
                Ok(bytemuck::cast_slice_mut(view.bytes_mut()))
            }
        }
    )*};
}
// Complex types are aligned to their parts only.
units!(u8, u16, u32, u64, [u32; 2], [u64; 2]);

impl Unit for String {
    const WIDTH: usize = 0;
    fn copy_run(source: &[Self], target: &mut [Self]) {
        target.clone_from_slice(source);
    }
    fn of<'a>(view: &TensorView<'a>) -> Result<&'a [Self], MovementError> {
        Ok(view.as_strings()?)
    }
    fn of_mut<'a>(view: &'a mut TensorViewMut<'_>) -> Result<&'a mut [Self], MovementError> {
        Ok(view.as_strings_mut()?)
    }
}

/// Copies `rows` runs of `width` elements that lie `source_step` apart in the source and `target_step` in the target.
/// Narrow runs are copied element by element in loops of constant length, which needs no decision per run.
///
/// # Safety
/// All runs are valid for reading in the source and for writing in the target, and do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_rows<T: Unit>(
    source: *const T,
    source_step: isize,
    target: *mut T,
    target_step: usize,
    width: usize,
    rows: usize,
) {
    macro_rules! narrow {
        ($($width:literal),*) => {
            match width {
                $($width => {
                    for row in 0..rows {
                        for k in 0..$width {
                            // SAFETY: the caller's promise.
                            unsafe {
                                let from = &*source.offset(row as isize * source_step).add(k);
                                (*target.add(row * target_step + k)).clone_from(from);
                            }
                        }
                    }
                })*
                _ => {
                    for row in 0..rows {
                        // SAFETY: the caller's promise.
                        unsafe {
                            let from = source.offset(row as isize * source_step);
                            let from = std::slice::from_raw_parts(from, width);
                            let to = std::slice::from_raw_parts_mut(target.add(row * target_step), width);
                            T::copy_run(from, to);
                        }
                    }
                }
            }
        };
    }
    narrow!(1, 2, 3, 4, 5, 6, 7, 8);
}

/// Fills `target` with repetitions of `pattern`, from what is already written once that is longer.
#[inline(always)]
pub(crate) fn repeat<T: Unit>(pattern: &[T], target: &mut [T]) {
    /// Elements that are copied at once at most, from the level-2 cache.
    const PIECE: usize = 16_384;
    let first = pattern.len().min(target.len());
    T::copy_run(&pattern[..first], &mut target[..first]);
    let mut filled = first;
    // A whole number of patterns, so that every piece begins with one.
    let most = (PIECE / first.max(1)).max(1) * first;
    while filled < target.len() {
        let (written, rest) = target.split_at_mut(filled);
        let count = written.len().min(most).min(rest.len());
        T::copy_run(&written[..count], &mut rest[..count]);
        filled += count;
    }
}

/// Runs an expression with `$unit` bound to the unit of an element type.
macro_rules! by_unit {
    ($element_type:expr, $unit:ident => $body:expr) => {{
        let element_type = $element_type;
        match (element_type, element_type.bits()) {
            (onl_tensor::ElementType::String, _) => {
                type $unit = String;
                $body
            }
            (onl_tensor::ElementType::Complex64, _) => {
                type $unit = [u32; 2];
                $body
            }
            (_, 8) => {
                type $unit = u8;
                $body
            }
            (_, 16) => {
                type $unit = u16;
                $body
            }
            (_, 32) => {
                type $unit = u32;
                $body
            }
            (_, 64) => {
                type $unit = u64;
                $body
            }
            (_, 128) => {
                type $unit = [u64; 2];
                $body
            }
            _ => Err($crate::MovementError::SubByte { element_type }),
        }
    }};
}
pub(crate) use by_unit;

/// A slice that lanes write through pointers: blocks of several rows are no slice of their own.
pub(crate) struct Shared<'a, T> {
    start: *mut T,
    elements: PhantomData<&'a mut [T]>,
}

// SAFETY: the only access is `start`, a pointer whose users give every element to one lane at a time.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    /// Shares out `elements` for the life of the borrow.
    pub(crate) fn new(elements: &'a mut [T]) -> Self {
        Shared {
            start: elements.as_mut_ptr(),
            elements: PhantomData,
        }
    }

    /// Pointer to the first element.
    pub(crate) fn start(&self) -> *mut T {
        self.start
    }
}

/// Whether an output has the input's type and the shape that the operation gives.
pub(crate) fn check_output(
    input: ElementType,
    output: &TensorViewMut<'_>,
    dims: &[usize],
) -> Result<(), MovementError> {
    if output.element_type() != input {
        return Err(onl_tensor::TensorError::ElementType {
            expected: input,
            actual: output.element_type(),
        }
        .into());
    }
    if output.dims() != dims {
        return Err(MovementError::shapes(
            &[output.dims(), dims],
            "the output must have the second shape",
        ));
    }
    Ok(())
}
