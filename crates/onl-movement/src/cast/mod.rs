mod number;
mod stage;
mod text;
mod vector;

pub use stage::ScaleRounding;

use crate::unit::Shared;
use crate::{CAST, Execution, MovementError};
use number::{CastTo, round_to_odd};
use onl_simd::dispatch;
use onl_tensor::{Element, ElementType, TensorView, TensorViewMut};
use stage::{BLOCK, Each, Reader, Writer, is_staged};
use std::sync::atomic::{AtomicUsize, Ordering};
use text::Text;

/// How values that a type does not hold become ones that it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CastRules {
    /// Whether values beyond the largest 8-bit float become it; otherwise infinity or NaN.
    pub saturate: bool,
    /// Rounding to `f8e8m0`.
    pub rounding: ScaleRounding,
}

impl Default for CastRules {
    fn default() -> Self {
        CastRules {
            saturate: true,
            rounding: ScaleRounding::default(),
        }
    }
}

/// Runs an expression with `$t` bound to the type of a number of at least a byte that is not a 16-bit float.
macro_rules! by_number {
    ($element_type:expr, $t:ident => $body:expr, $otherwise:expr) => {
        match $element_type {
            onl_tensor::ElementType::Float32 => by_number!(@ $t = f32, $body),
            onl_tensor::ElementType::Float64 => by_number!(@ $t = f64, $body),
            onl_tensor::ElementType::UInt8 => by_number!(@ $t = u8, $body),
            onl_tensor::ElementType::UInt16 => by_number!(@ $t = u16, $body),
            onl_tensor::ElementType::UInt32 => by_number!(@ $t = u32, $body),
            onl_tensor::ElementType::UInt64 => by_number!(@ $t = u64, $body),
            onl_tensor::ElementType::Int8 => by_number!(@ $t = i8, $body),
            onl_tensor::ElementType::Int16 => by_number!(@ $t = i16, $body),
            onl_tensor::ElementType::Int32 => by_number!(@ $t = i32, $body),
            onl_tensor::ElementType::Int64 => by_number!(@ $t = i64, $body),
            onl_tensor::ElementType::Bool => by_number!(@ $t = onl_tensor::Bool, $body),
            _ => $otherwise,
        }
    };
    (@ $t:ident = $rust:ty, $body:expr) => {{ type $t = $rust; $body }};
}
use by_number;

/// Converts every element (ONNX `Cast`).
///
/// - To a float: rounded to nearest even once; integers go to f16, bf16 and narrower floats by way of f32.
/// - Float to integer: truncated toward zero; out of range saturates, NaN gives 0.
/// - Integer to integer, and anything to an integer of fewer than 8 bits: low bits are kept.
/// - To bool: whether the element is not zero (NaN is true).
/// - To an 8-bit float and to `f8e8m0`: as the rules say; to `f4e2m1`: saturated, NaN gives −0.
/// - From a string: a decimal number, plain or scientific, or `inf`, `nan` in any case; fractions are dropped for
///   integers. To a string: the shortest plain decimal that reads back as the element; `nan`, `inf`, `-inf`.
///
/// # Errors
/// [`MovementError::Cast`] for a pair that is not served (complex), [`MovementError::Parse`] for the first string that
/// is no number, [`MovementError::Shapes`] when the shapes differ.
pub fn cast(
    input: TensorView<'_>,
    rules: CastRules,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let (from, to) = (input.element_type(), output.element_type());
    if input.dims() != output.dims() {
        return Err(MovementError::shapes(
            &[input.dims(), output.dims()],
            "a cast keeps the shape",
        ));
    }
    let unsupported = || Err(MovementError::Cast { from, to });
    match (from, to) {
        (ElementType::String, ElementType::String) => {
            let strings = output.as_strings_mut()?;
            strings.clone_from_slice(input.as_strings()?);
            Ok(())
        }
        (ElementType::String, to) if is_staged(to) => parse_staged(input, rules, output, execution),
        (ElementType::String, to) => by_number!(to, T => {
            parse(input.as_strings()?, output.as_slice_mut::<T>()?, to, execution)
        }, unsupported()),
        (from, ElementType::String) if is_staged(from) => print_staged(input, output, execution),
        (from, ElementType::String) => by_number!(from, T => {
            let (source, target) = (input.as_slice::<T>()?, output.as_strings_mut()?);
            let spec = execution.spec(source.len(), 1, 100_000, "");
            execution.lanes.region_over(&CAST, spec, target, 1, |chunk, part| {
                for (slot, &x) in part.iter_mut().zip(&source[chunk.range]) {
                    *slot = x.text();
                }
            })?;
            Ok(())
        }, unsupported()),
        (ElementType::Complex64 | ElementType::Complex128, _)
        | (_, ElementType::Complex64 | ElementType::Complex128) => unsupported(),
        _ if from == to || is_staged(from) || is_staged(to) => {
            staged(input, rules, output, execution)
        }
        _ => direct(input, output, execution),
    }
}

/// An integer of a type's width whose conversions to integers are those of the type; booleans are 0 or 1.
const fn unsigned(element_type: ElementType) -> ElementType {
    match element_type {
        ElementType::Bool | ElementType::Int8 => ElementType::UInt8,
        ElementType::Int16 => ElementType::UInt16,
        ElementType::Int32 => ElementType::UInt32,
        ElementType::Int64 => ElementType::UInt64,
        other => other,
    }
}

/// Converts between two types of which none is staged, in one loop over both.
fn direct(
    input: TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    use ElementType::*;
    let (mut from, mut to) = (input.element_type(), output.element_type());
    let is_float = |element_type| matches!(element_type, Float32 | Float64);
    if from == Bool {
        from = UInt8;
    }
    if !is_float(from) && !is_float(to) && to != Bool {
        // The sign of an integer matters where it is widened only.
        to = unsigned(to);
        if from.bits() >= to.bits() {
            from = unsigned(from);
        }
    }
    let (source, target) = (input.bytes(), output.bytes_mut());
    macro_rules! pairs {
        ($($from:ident $s:ty => $($to:ident $d:ty),*;)*) => {
            match (from, to) {
                $($(($from, $to) => convert::<$s, $d>(source, target, execution),)*)*
                _ => Err(MovementError::Cast { from, to }),
            }
        };
    }
    pairs! {
        Float32 f32 => Float64 f64, UInt8 u8, UInt16 u16, UInt32 u32, UInt64 u64, Int8 i8, Int16 i16, Int32 i32, Int64 i64, Bool onl_tensor::Bool;
        Float64 f64 => Float32 f32, UInt8 u8, UInt16 u16, UInt32 u32, UInt64 u64, Int8 i8, Int16 i16, Int32 i32, Int64 i64, Bool onl_tensor::Bool;
        UInt8 u8 => Float32 f32, Float64 f64, UInt8 u8, UInt16 u16, UInt32 u32, UInt64 u64, Bool onl_tensor::Bool;
        UInt16 u16 => Float32 f32, Float64 f64, UInt8 u8, UInt16 u16, UInt32 u32, UInt64 u64, Bool onl_tensor::Bool;
        UInt32 u32 => Float32 f32, Float64 f64, UInt8 u8, UInt16 u16, UInt32 u32, UInt64 u64, Bool onl_tensor::Bool;
        UInt64 u64 => Float32 f32, Float64 f64, UInt8 u8, UInt16 u16, UInt32 u32, UInt64 u64, Bool onl_tensor::Bool;
        Int8 i8 => Float32 f32, Float64 f64, UInt16 u16, UInt32 u32, UInt64 u64, Bool onl_tensor::Bool;
        Int16 i16 => Float32 f32, Float64 f64, UInt32 u32, UInt64 u64, Bool onl_tensor::Bool;
        Int32 i32 => Float32 f32, Float64 f64, UInt64 u64, Bool onl_tensor::Bool;
        Int64 i64 => Float32 f32, Float64 f64, Bool onl_tensor::Bool;
    }
}

/// Converts every element of `source`'s bytes into one of `target`'s.
fn convert<S: CastTo<D>, D: Element>(
    source: &[u8],
    target: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let source: &[S] = bytemuck::cast_slice(source);
    let target: &mut [D] = bytemuck::cast_slice_mut(target);
    let spec = execution.spec(source.len(), 1, 300, "");
    execution
        .lanes
        .region_over(&CAST, spec, target, 1, |chunk, target| {
            let source = &source[chunk.range];
            let convert = CastTo::<D>::cast_to;
            dispatch(
                execution.tier,
                Each {
                    source,
                    target,
                    convert,
                },
            );
        })?;
    Ok(())
}

/// Runs a body for blocks of elements, or for all blocks of a chunk at once (`whole`), each with the bytes of its
/// output.
fn blocks(
    count: usize,
    output: &mut TensorViewMut<'_>,
    writer: &Writer,
    whole: bool,
    picoseconds: u64,
    execution: &Execution<'_>,
    body: impl Fn(std::ops::Range<usize>, &mut [u8]) + Sync,
) -> Result<(), MovementError> {
    let bytes = output.bytes_mut();
    assert_eq!(
        writer.range(0, count),
        0..bytes.len(),
        "bytes of the elements"
    );
    let target = Shared::new(bytes);
    let spec = execution.spec(count.div_ceil(BLOCK), BLOCK, picoseconds, "blocks");
    execution.lanes.region(&CAST, spec, |chunk| {
        let step = if whole { chunk.range.len() } else { 1 };
        for block in chunk.range.step_by(step) {
            let elements = block * BLOCK..((block + step) * BLOCK).min(count);
            let range = writer.range(elements.start, elements.len());
            // SAFETY: inside the output, as was checked; blocks begin at whole bytes, so their bytes are disjoint.
            let part = unsafe {
                std::slice::from_raw_parts_mut(target.start().add(range.start), range.len())
            };
            body(elements, part);
        }
    })?;
    Ok(())
}

/// Converts by way of a buffer of f32, which one of the types needs.
fn staged(
    input: TensorView<'_>,
    rules: CastRules,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let (from, to, tier) = (input.element_type(), output.element_type(), execution.tier);
    let (reader, writer) = (Reader::new(from, to), Writer::new(to, rules));
    let bytes = input.bytes();
    let width = from.bits() / 8;
    // Pairs that need no buffer.
    let is_short = |t| matches!(t, ElementType::Float16 | ElementType::BFloat16);
    let whole = from == to
        || from == ElementType::Float32 && is_short(to)
        || is_short(from) && to == ElementType::Float32;
    blocks(
        input.len(),
        output,
        &writer,
        whole,
        500,
        execution,
        |elements, part| {
            let source = || &bytes[elements.start * width..elements.end * width];
            match (from, to) {
                _ if from == to => {
                    let range = writer.range(elements.start, elements.len());
                    part.copy_from_slice(&bytes[range]);
                }
                (ElementType::Float32, ElementType::Float16 | ElementType::BFloat16) => {
                    writer.write(bytemuck::cast_slice(source()), part, tier);
                }
                (ElementType::Float16 | ElementType::BFloat16, ElementType::Float32) => {
                    reader.read(bytes, elements.start, bytemuck::cast_slice_mut(part), tier);
                }
                _ => {
                    let mut buffer = [0.0; BLOCK];
                    let buffer = &mut buffer[..elements.len()];
                    reader.read(bytes, elements.start, buffer, tier);
                    writer.write(buffer, part, tier);
                }
            }
        },
    )
}

/// The smallest position of a string that is no number.
struct FirstText(AtomicUsize);

impl FirstText {
    fn new() -> Self {
        FirstText(AtomicUsize::new(usize::MAX))
    }

    fn keep<T>(&self, position: usize, number: Option<T>) -> Option<T> {
        if number.is_none() {
            self.0.fetch_min(position, Ordering::Relaxed);
        }
        number
    }

    fn check(self, source: &[String], to: ElementType) -> Result<(), MovementError> {
        match self.0.into_inner() {
            usize::MAX => Ok(()),
            position => Err(MovementError::Parse {
                text: source[position].clone(),
                position,
                to,
            }),
        }
    }
}

/// Picoseconds that parsing a string takes.
const PARSE: u64 = 50_000;

fn parse<D: Text + Send>(
    source: &[String],
    target: &mut [D],
    to: ElementType,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let first = FirstText::new();
    let spec = execution.spec(source.len(), 1, PARSE, "");
    execution
        .lanes
        .region_over(&CAST, spec, target, 1, |chunk, part| {
            for (position, slot) in chunk.range.zip(part) {
                let number = D::parse_text(source[position].trim());
                if let Some(value) = first.keep(position, number) {
                    *slot = value;
                }
            }
        })?;
    first.check(source, to)
}

fn parse_staged(
    input: TensorView<'_>,
    rules: CastRules,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let (source, to) = (input.as_strings()?, output.element_type());
    let (first, writer) = (FirstText::new(), Writer::new(to, rules));
    blocks(
        source.len(),
        output,
        &writer,
        false,
        PARSE,
        execution,
        |elements, part| {
            let mut buffer = [0.0; BLOCK];
            for (slot, position) in buffer.iter_mut().zip(elements.clone()) {
                let number = f64::parse_text(source[position].trim());
                *slot = first.keep(position, number).map_or(0.0, round_to_odd);
            }
            writer.write(&buffer[..elements.len()], part, execution.tier);
        },
    )?;
    first.check(source, to)
}

fn print_staged(
    input: TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let (reader, bytes) = (
        Reader::new(input.element_type(), ElementType::String),
        input.bytes(),
    );
    let target = output.as_strings_mut()?;
    let count = target.len();
    let target = Shared::new(target);
    let spec = execution.spec(count.div_ceil(BLOCK), BLOCK, 100_000, "blocks");
    execution.lanes.region(&CAST, spec, |chunk| {
        for block in chunk.range {
            let elements = block * BLOCK..((block + 1) * BLOCK).min(count);
            let mut buffer = [0.0; BLOCK];
            let buffer = &mut buffer[..elements.len()];
            reader.read(bytes, elements.start, buffer, execution.tier);
            for (position, x) in elements.zip(buffer.iter()) {
                // SAFETY: inside the output; every block is run once.
                unsafe { *target.start().add(position) = x.text() };
            }
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests;
