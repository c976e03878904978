use crate::float8::Float8;
use crate::{CAST, Execution, MovementError};
use onl_simd::{Isa, SimdOp, dispatch};
use onl_tensor::{Bool, Element, ElementType, TensorView, TensorViewMut, bf16, f16};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Converts every element (ONNX `Cast`).
///
/// - To a float: rounded to nearest even once; integers go to f16 and bf16 by way of f32.
/// - Float to integer: truncated toward zero; out of range saturates, NaN gives 0.
/// - Integer to integer: low bits are kept.
/// - To bool: whether the element is not zero (NaN is true).
/// - To an 8-bit float: by way of f32; `saturate` says whether values beyond the largest one become it.
/// - From a string: a decimal number, plain or scientific, or `inf`, `nan` in any case; fractions are dropped for
///   integers. To a string: the shortest plain decimal that reads back as the element; `nan`, `inf`, `-inf`.
///
/// # Errors
/// [`MovementError::Cast`] for a pair that is not served (complex, sub-byte, `f8e8m0`), [`MovementError::Parse`] for
/// the first string that is no number, [`MovementError::Shapes`] when the shapes differ.
pub fn cast(
    input: TensorView<'_>,
    saturate: bool,
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
    macro_rules! by_number {
        ($element_type:expr, $t:ident => $body:expr, $otherwise:expr) => {
            match $element_type {
                ElementType::Float32 => by_number!(@ $t = f32, $body),
                ElementType::Float64 => by_number!(@ $t = f64, $body),
                ElementType::Float16 => by_number!(@ $t = f16, $body),
                ElementType::BFloat16 => by_number!(@ $t = bf16, $body),
                ElementType::UInt8 => by_number!(@ $t = u8, $body),
                ElementType::UInt16 => by_number!(@ $t = u16, $body),
                ElementType::UInt32 => by_number!(@ $t = u32, $body),
                ElementType::UInt64 => by_number!(@ $t = u64, $body),
                ElementType::Int8 => by_number!(@ $t = i8, $body),
                ElementType::Int16 => by_number!(@ $t = i16, $body),
                ElementType::Int32 => by_number!(@ $t = i32, $body),
                ElementType::Int64 => by_number!(@ $t = i64, $body),
                ElementType::Bool => by_number!(@ $t = Bool, $body),
                _ => $otherwise,
            }
        };
        (@ $t:ident = $rust:ty, $body:expr) => {{ type $t = $rust; $body }};
    }
    match (Float8::of(from), Float8::of(to)) {
        (Some(source), Some(target)) => {
            let table = decode_table(source).map(|value| target.encode(value, saturate));
            return map(input.bytes(), output.bytes_mut(), execution, |b| {
                table[usize::from(b)]
            });
        }
        (Some(source), None) => {
            let table = decode_table(source);
            return by_number!(to, T => {
                map(input.bytes(), output.as_slice_mut::<T>()?, execution, |b: u8| {
                    CastTo::<T>::cast_to(table[usize::from(b)])
                })
            }, if to == ElementType::String {
                print(input.bytes(), output.as_strings_mut()?, execution, |b| table[usize::from(b)].text())
            } else { unsupported() });
        }
        (None, Some(target)) => {
            return by_number!(from, T => {
                map(input.as_slice::<T>()?, output.bytes_mut(), execution, |x: T| {
                    target.encode(CastTo::<f32>::cast_to(x), saturate)
                })
            }, if from == ElementType::String {
                parse(input.as_strings()?, output.bytes_mut(), to, execution, |text| {
                    f32::parse_text(text).map(|x| target.encode(x, saturate))
                })
            } else { unsupported() });
        }
        (None, None) => {}
    }
    match (from, to) {
        (ElementType::String, ElementType::String) => {
            output
                .as_strings_mut()?
                .clone_from_slice(input.as_strings()?);
            Ok(())
        }
        (ElementType::String, _) => by_number!(to, T => {
            parse(input.as_strings()?, output.as_slice_mut::<T>()?, to, execution, T::parse_text)
        }, unsupported()),
        (_, ElementType::String) => by_number!(from, T => {
            print(input.as_slice::<T>()?, output.as_strings_mut()?, execution, |x: T| x.text())
        }, unsupported()),
        (ElementType::Float32, ElementType::Float16) => {
            vectors::<_, _, NarrowF16>(input, output, execution)
        }
        (ElementType::Float32, ElementType::BFloat16) => {
            vectors::<_, _, NarrowBf16>(input, output, execution)
        }
        (ElementType::Float16, ElementType::Float32) => {
            vectors::<_, _, WidenF16>(input, output, execution)
        }
        (ElementType::BFloat16, ElementType::Float32) => {
            vectors::<_, _, WidenBf16>(input, output, execution)
        }
        _ => by_number!(from, S => by_number!(to, D => {
            let (source, target) = (input.as_slice::<S>()?, output.as_slice_mut::<D>()?);
            let spec = execution.spec(source.len(), 1, 400, "");
            execution.lanes.region_over(&CAST, spec, target, 1, |chunk, part| {
                let source = &source[chunk.range];
                dispatch(execution.tier, Convert { source, target: part });
            })?;
            Ok(())
        }, unsupported()), unsupported()),
    }
}

fn decode_table(format: Float8) -> [f32; 256] {
    std::array::from_fn(|byte| format.decode(byte as u8))
}

/// Converts by a function of one element.
fn map<S: Copy + Sync, D: Send>(
    source: &[S],
    target: &mut [D],
    execution: &Execution<'_>,
    convert: impl Fn(S) -> D + Sync,
) -> Result<(), MovementError> {
    let spec = execution.spec(source.len(), 1, 3000, "");
    execution
        .lanes
        .region_over(&CAST, spec, target, 1, |chunk, part| {
            for (slot, &x) in part.iter_mut().zip(&source[chunk.range]) {
                *slot = convert(x);
            }
        })?;
    Ok(())
}

fn print<S: Copy + Sync>(
    source: &[S],
    target: &mut [String],
    execution: &Execution<'_>,
    text: impl Fn(S) -> String + Sync,
) -> Result<(), MovementError> {
    map(source, target, execution, text)
}

fn parse<D: Send>(
    source: &[String],
    target: &mut [D],
    to: ElementType,
    execution: &Execution<'_>,
    number: impl Fn(&str) -> Option<D> + Sync,
) -> Result<(), MovementError> {
    let first = AtomicUsize::new(usize::MAX);
    let spec = execution.spec(source.len(), 1, 50_000, "");
    execution
        .lanes
        .region_over(&CAST, spec, target, 1, |chunk, part| {
            for (position, slot) in chunk.range.zip(part) {
                match number(source[position].trim()) {
                    Some(value) => *slot = value,
                    None => {
                        first.fetch_min(position, Ordering::Relaxed);
                    }
                }
            }
        })?;
    match first.into_inner() {
        usize::MAX => Ok(()),
        position => Err(MovementError::Parse {
            text: source[position].clone(),
            position,
            to,
        }),
    }
}

/// Element-wise conversion, compiled for a tier.
struct Convert<'a, S, D> {
    source: &'a [S],
    target: &'a mut [D],
}

impl<S: CastTo<D>, D: Element> SimdOp for Convert<'_, S, D> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        for (slot, x) in self.target.iter_mut().zip(self.source) {
            *slot = x.cast_to();
        }
    }
}

/// One vector step of a conversion between f32 and a 16-bit float.
trait VectorStep<S, D>: 'static {
    fn step<I: Isa>(isa: I, source: &[S], target: &mut [D]);
}

struct NarrowF16;
struct NarrowBf16;
struct WidenF16;
struct WidenBf16;

impl VectorStep<f32, f16> for NarrowF16 {
    #[inline(always)]
    fn step<I: Isa>(isa: I, source: &[f32], target: &mut [f16]) {
        isa.store_f16(isa.load_f32(source), target);
    }
}
impl VectorStep<f32, bf16> for NarrowBf16 {
    #[inline(always)]
    fn step<I: Isa>(isa: I, source: &[f32], target: &mut [bf16]) {
        isa.store_bf16(isa.load_f32(source), target);
    }
}
impl VectorStep<f16, f32> for WidenF16 {
    #[inline(always)]
    fn step<I: Isa>(isa: I, source: &[f16], target: &mut [f32]) {
        isa.store_f32(isa.load_f16(source), target);
    }
}
impl VectorStep<bf16, f32> for WidenBf16 {
    #[inline(always)]
    fn step<I: Isa>(isa: I, source: &[bf16], target: &mut [f32]) {
        isa.store_f32(isa.load_bf16(source), target);
    }
}

struct Vectors<'a, S, D, V> {
    source: &'a [S],
    target: &'a mut [D],
    step: std::marker::PhantomData<V>,
}

impl<S: Element, D: Element, V: VectorStep<S, D>> SimdOp for Vectors<'_, S, D, V> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let lanes = I::F32_LANES;
        let mut source = self.source.chunks_exact(lanes);
        let mut target = self.target.chunks_exact_mut(lanes);
        for (s, t) in source.by_ref().zip(target.by_ref()) {
            V::step(isa, s, t);
        }
        let (s, t) = (source.remainder(), target.into_remainder());
        let mut padded_source = [S::zeroed(); 64];
        let mut padded_target = [D::zeroed(); 64];
        padded_source[..s.len()].copy_from_slice(s);
        V::step(isa, &padded_source[..lanes], &mut padded_target[..lanes]);
        t.copy_from_slice(&padded_target[..t.len()]);
    }
}

fn vectors<S: Element, D: Element, V: VectorStep<S, D>>(
    input: TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let (source, target) = (input.as_slice::<S>()?, output.as_slice_mut::<D>()?);
    let spec = execution.spec(source.len(), 1, 200, "");
    execution
        .lanes
        .region_over(&CAST, spec, target, 1, |chunk, part| {
            let op = Vectors::<S, D, V> {
                source: &source[chunk.range],
                target: part,
                step: std::marker::PhantomData,
            };
            dispatch(execution.tier, op);
        })?;
    Ok(())
}

/// Conversion of one number.
pub(crate) trait CastTo<D>: Element {
    fn cast_to(self) -> D;
}

/// Nearest f32 whose later rounding to fewer bits gives what rounding `x` at once would: truncated, with the last
/// bit set when bits were lost.
fn round_to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    if f64::from(nearest) == x || !nearest.is_finite() {
        return nearest;
    }
    let bits = nearest.to_bits();
    let truncated = if f64::from(nearest.abs()) > x.abs() {
        bits - 1
    } else {
        bits
    };
    f32::from_bits(truncated | 1)
}

macro_rules! primitive_casts {
    ($($s:ty),*) => {$( primitive_casts!(@ $s => f32 f64 u8 u16 u32 u64 i8 i16 i32 i64); )*};
    (@ $s:ty => $($d:ty)*) => {
        $(impl CastTo<$d> for $s {
            #[inline(always)]
            fn cast_to(self) -> $d { self as $d }
        })*
        impl CastTo<Bool> for $s {
            #[inline(always)]
            fn cast_to(self) -> Bool { Bool((self != 0 as $s) as u8) }
        }
    };
}
primitive_casts!(f32, f64, u8, u16, u32, u64, i8, i16, i32, i64);

macro_rules! through_f32 {
    ($narrow:ty: from $($s:ty),*; to $($d:ty),*) => {
        $(impl CastTo<$narrow> for $s {
            #[inline(always)]
            fn cast_to(self) -> $narrow { <$narrow>::from_f32(self as f32) }
        })*
        $(impl CastTo<$d> for $narrow {
            #[inline(always)]
            fn cast_to(self) -> $d { self.to_f32() as $d }
        })*
        impl CastTo<$narrow> for f64 {
            #[inline(always)]
            fn cast_to(self) -> $narrow { <$narrow>::from_f32(round_to_odd(self)) }
        }
        impl CastTo<$narrow> for Bool {
            #[inline(always)]
            fn cast_to(self) -> $narrow { <$narrow>::from_f32(f32::from(self.0)) }
        }
        impl CastTo<Bool> for $narrow {
            #[inline(always)]
            fn cast_to(self) -> Bool { Bool((self.to_f32() != 0.0) as u8) }
        }
        impl CastTo<$narrow> for $narrow {
            #[inline(always)]
            fn cast_to(self) -> $narrow { self }
        }
    };
}
through_f32!(f16: from f32, u8, u16, u32, u64, i8, i16, i32, i64; to f32, f64, u8, u16, u32, u64, i8, i16, i32, i64);
through_f32!(bf16: from f32, u8, u16, u32, u64, i8, i16, i32, i64; to f32, f64, u8, u16, u32, u64, i8, i16, i32, i64);

impl CastTo<bf16> for f16 {
    #[inline(always)]
    fn cast_to(self) -> bf16 {
        bf16::from_f32(self.to_f32())
    }
}
impl CastTo<f16> for bf16 {
    #[inline(always)]
    fn cast_to(self) -> f16 {
        f16::from_f32(self.to_f32())
    }
}

macro_rules! bool_casts {
    ($($d:ty),*) => {$(
        impl CastTo<$d> for Bool {
            #[inline(always)]
            fn cast_to(self) -> $d { self.0 as $d }
        }
    )*};
}
bool_casts!(f32, f64, u8, u16, u32, u64, i8, i16, i32, i64);
impl CastTo<Bool> for Bool {
    #[inline(always)]
    fn cast_to(self) -> Bool {
        self
    }
}

/// A number as text and back.
trait Text: Sized {
    fn text(self) -> String;
    fn parse_text(text: &str) -> Option<Self>;
}

macro_rules! float_text {
    ($($t:ty),*) => {$(
        impl Text for $t {
            fn text(self) -> String {
                if self.is_nan() { "nan".to_owned() } else { self.to_string() }
            }
            fn parse_text(text: &str) -> Option<Self> { text.parse().ok() }
        }
    )*};
}
float_text!(f32, f64);

macro_rules! short_float_text {
    ($($t:ty),*) => {$(
        impl Text for $t {
            fn text(self) -> String { self.to_f32().text() }
            fn parse_text(text: &str) -> Option<Self> {
                f64::parse_text(text).map(CastTo::<$t>::cast_to)
            }
        }
    )*};
}
short_float_text!(f16, bf16);

macro_rules! integer_text {
    ($($t:ty),*) => {$(
        impl Text for $t {
            fn text(self) -> String { self.to_string() }
            fn parse_text(text: &str) -> Option<Self> {
                match text.parse::<i128>() {
                    Ok(value) => Some(value.clamp(<$t>::MIN.into(), <$t>::MAX.into()) as $t),
                    Err(_) => text.parse::<f64>().ok().map(|value| value as $t),
                }
            }
        }
    )*};
}
integer_text!(u8, u16, u32, u64, i8, i16, i32, i64);

impl Text for Bool {
    fn text(self) -> String {
        if self.0 != 0 { "True" } else { "False" }.to_owned()
    }
    fn parse_text(text: &str) -> Option<Self> {
        match text {
            _ if text.eq_ignore_ascii_case("true") => Some(Bool(1)),
            _ if text.eq_ignore_ascii_case("false") => Some(Bool(0)),
            _ => text.parse::<f64>().ok().map(CastTo::<Bool>::cast_to),
        }
    }
}

#[cfg(test)]
mod tests;
