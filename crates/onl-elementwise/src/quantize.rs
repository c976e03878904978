//! `QuantizeLinear` and `DequantizeLinear`: elements with a scale and a zero point for all, for each index of an axis, or
//! for each block along an axis.
//!
//! Quantization computes `x / scale` in f32 from exactly widened operands, rounds the quotient to the precision that is
//! asked for if that has 16 bits, clamps it to the output's range less the zero point (NaN becomes the lower end), rounds
//! it to an integer, ties to even, and adds the zero point. Dequantization computes `(x − zero point) · scale` in f32,
//! the difference exact for types of up to 16 bits and a converted `i32` otherwise, and rounds once to a 16-bit output.

use crate::{ElementwiseError, region};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use onl_executor::Lanes;
use onl_profiling::{RegionSite, region_site};
use onl_simd::{Isa, SimdOp, dispatch};
use onl_snapshot::ParallelConfig;
use onl_tensor::{ElementType, TensorView, TensorViewMut};

/// Regions of both operations.
pub static QUANTIZE: RegionSite = region_site!("elementwise.quantize");

/// Elements that are converted at a time.
const BLOCK: usize = 256;

/// Which element of scale and zero point belongs to an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granularity {
    /// One for all.
    Tensor,
    /// One for each index of an axis of `axis` elements, whose indices are `inner` elements apart.
    Axis {
        /// Size of the axis.
        axis: usize,
        /// Elements of one index.
        inner: usize,
    },
    /// One for each block of `block` indices of an axis, at every position of the other axes.
    Blocked {
        /// Size of the axis.
        axis: usize,
        /// Elements of one index.
        inner: usize,
        /// Indices of a block, at least 1.
        block: usize,
    },
}

impl Granularity {
    /// Parameters that `total` elements need.
    pub fn parameters(self, total: usize) -> usize {
        match self {
            Granularity::Tensor => 1,
            Granularity::Axis { axis, .. } => axis,
            Granularity::Blocked { axis, block, .. } => {
                total.checked_div(axis).unwrap_or(0) * axis.div_ceil(block)
            }
        }
    }

    /// The run of elements from `position` whose parameters lie together: its end, the first parameter, and how far
    /// the parameters of neighbours are apart (0 or 1).
    fn run(self, position: usize, total: usize) -> (usize, usize, usize) {
        match self {
            Granularity::Tensor => (total, 0, 0),
            Granularity::Axis { axis, inner: 1 } => {
                ((position / axis + 1) * axis, position % axis, 1)
            }
            Granularity::Axis { axis, inner } => {
                let row = position / inner;
                ((row + 1) * inner, row % axis, 0)
            }
            Granularity::Blocked { axis, inner, block } => {
                let row = position / inner;
                let (outer, index) = (row / axis, row % axis);
                let parameter = outer * axis.div_ceil(block) + index / block;
                if inner == 1 {
                    let end = ((index / block + 1) * block).min(axis);
                    (outer * axis + end, parameter, 0)
                } else {
                    ((row + 1) * inner, parameter * inner + position % inner, 1)
                }
            }
        }
    }
}

/// Types of floats and integers that are read as f32.
fn is_readable(element_type: ElementType) -> bool {
    use ElementType::*;
    matches!(element_type, Float32 | Float16 | BFloat16 | Int32) || range(element_type).is_some()
}

/// Range of a quantized type.
fn range(element_type: ElementType) -> Option<(i32, i32)> {
    Some(match element_type {
        ElementType::Int8 => (-128, 127),
        ElementType::UInt8 => (0, 255),
        ElementType::Int16 => (-32_768, 32_767),
        ElementType::UInt16 => (0, 65_535),
        ElementType::Int4 => (-8, 7),
        ElementType::UInt4 => (0, 15),
        _ => return None,
    })
}

/// Half of a byte, low half first.
fn nibble(bytes: &[u8], index: usize, signed: bool) -> i32 {
    let value = bytes[index / 2] >> (index % 2 * 4) & 15;
    if signed {
        i32::from((value << 4) as i8 >> 4)
    } else {
        i32::from(value)
    }
}

/// Elements `first..` of any readable type as f32.
#[inline(always)]
fn read(element_type: ElementType, bytes: &[u8], first: usize, target: &mut [f32]) {
    macro_rules! plain {
        ($t:ty, $convert:expr) => {{
            let elements: &[$t] = bytemuck::cast_slice(bytes);
            for (slot, &x) in target.iter_mut().zip(&elements[first..]) {
                *slot = $convert(x);
            }
        }};
    }
    match element_type {
        ElementType::Float32 => plain!(f32, |x| x),
        ElementType::Float16 => plain!(f16, f16::to_f32),
        ElementType::BFloat16 => plain!(bf16, bf16::to_f32),
        ElementType::Int32 => plain!(i32, |x| x as f32),
        ElementType::Int8 => plain!(i8, f32::from),
        ElementType::UInt8 => plain!(u8, f32::from),
        ElementType::Int16 => plain!(i16, f32::from),
        ElementType::UInt16 => plain!(u16, f32::from),
        _ => {
            let signed = element_type == ElementType::Int4;
            for (index, slot) in target.iter_mut().enumerate() {
                *slot = nibble(bytes, first + index, signed) as f32;
            }
        }
    }
}

/// A block of parameters beside a block of elements: `count` elements from `first`, `step` apart.
#[inline(always)]
fn read_parameters(
    operand: Option<(ElementType, &[u8])>,
    (first, step): (usize, usize),
    target: &mut [f32],
) {
    match operand {
        None => target.fill(0.0),
        Some((element_type, bytes)) if step == 0 => {
            let mut one = [0.0];
            read(element_type, bytes, first, &mut one);
            target.fill(one[0]);
        }
        Some((element_type, bytes)) => read(element_type, bytes, first, target),
    }
}

/// Which of the two operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantization {
    /// From floats to integers; the quotient is rounded to this type.
    Quantize(ElementType),
    /// From integers to floats.
    Dequantize,
}

/// Operands of a quantization or dequantization.
#[derive(Debug, Clone, Copy)]
pub struct QuantizeOperands<'a> {
    /// Elements.
    pub input: TensorView<'a>,
    /// Scales.
    pub scale: TensorView<'a>,
    /// Zero points, as many as scales; zero when omitted.
    pub zero_point: Option<TensorView<'a>>,
    /// Which belongs to which.
    pub granularity: Granularity,
}

struct Part<'a> {
    operation: Quantization,
    operands: QuantizeOperands<'a>,
    output_type: ElementType,
    start: usize,
    end: usize,
    /// Bytes of the elements of the part.
    output: &'a mut [u8],
}

const MAGIC: f32 = 12_582_912.0;

impl Part<'_> {
    #[inline(always)]
    fn quantize(
        &mut self,
        precision: ElementType,
        x: &mut [f32],
        scale: &[f32],
        zero_point: &[f32],
        at: usize,
    ) {
        let (low, high) = range(self.output_type).unwrap_or((0, 0));
        let (low, high) = (low as f32, high as f32);
        for (x, &scale) in x.iter_mut().zip(scale) {
            *x /= scale;
        }
        match precision {
            ElementType::Float16 => x.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32()),
            ElementType::BFloat16 => x.iter_mut().for_each(|x| *x = bf16::from_f32(*x).to_f32()),
            _ => {}
        }
        let mut rounded = [0i32; BLOCK];
        for ((rounded, &x), &zero_point) in rounded.iter_mut().zip(&*x).zip(zero_point) {
            let (low, high) = (low - zero_point, high - zero_point);
            let x = if x > low { x } else { low };
            let x = if x < high { x } else { high };
            // The sum lies where the last bit of an f32 counts ones: the addition rounds.
            let integer = (x + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()) as i32;
            *rounded = integer + zero_point as i32;
        }
        let rounded = &rounded[..x.len()];
        macro_rules! store {
            ($t:ty) => {{
                let elements: &mut [$t] = bytemuck::cast_slice_mut(self.output);
                for (slot, &x) in elements[at..].iter_mut().zip(rounded) {
                    *slot = x as $t;
                }
            }};
        }
        match self.output_type {
            ElementType::Int8 | ElementType::UInt8 => store!(u8),
            ElementType::Int16 | ElementType::UInt16 => store!(u16),
            _ => {
                for (index, &x) in rounded.iter().enumerate() {
                    let byte = &mut self.output[(at + index) / 2];
                    let shift = (at + index) % 2 * 4;
                    *byte = *byte & !(15 << shift) | (x as u8 & 15) << shift;
                }
            }
        }
    }

    #[inline(always)]
    fn dequantize(&mut self, x: &mut [f32], scale: &[f32], zero_point: &[f32], at: usize) {
        for ((x, &scale), &zero_point) in x.iter_mut().zip(scale).zip(zero_point) {
            *x = (*x - zero_point) * scale;
        }
        macro_rules! store {
            ($t:ty, $convert:expr) => {{
                let elements: &mut [$t] = bytemuck::cast_slice_mut(self.output);
                for (slot, &x) in elements[at..].iter_mut().zip(&*x) {
                    *slot = $convert(x);
                }
            }};
        }
        match self.output_type {
            ElementType::Float16 => store!(f16, f16::from_f32),
            ElementType::BFloat16 => store!(bf16, bf16::from_f32),
            _ => store!(f32, |x| x),
        }
    }
}

impl SimdOp for Part<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(mut self, _: I) {
        let QuantizeOperands {
            input,
            scale,
            zero_point,
            granularity,
        } = self.operands;
        let total = input.len();
        let (mut x, mut scales, mut zero_points) = ([0f32; BLOCK], [0f32; BLOCK], [0f32; BLOCK]);
        let mut position = self.start;
        while position < self.end {
            let (end, parameter, step) = granularity.run(position, total);
            let count = (end.min(self.end) - position).min(BLOCK);
            let at = position - self.start;
            let parameters = (parameter, step);
            read(
                input.element_type(),
                input.bytes(),
                position,
                &mut x[..count],
            );
            read_parameters(
                Some((scale.element_type(), scale.bytes())),
                parameters,
                &mut scales[..count],
            );
            read_parameters(
                zero_point.as_ref().map(|z| (z.element_type(), z.bytes())),
                parameters,
                &mut zero_points[..count],
            );
            let (x, scales, zero_points) =
                (&mut x[..count], &scales[..count], &zero_points[..count]);
            match self.operation {
                Quantization::Quantize(precision) => {
                    self.quantize(precision, x, scales, zero_points, at);
                }
                Quantization::Dequantize => self.dequantize(x, scales, zero_points, at),
            }
            position += count;
        }
    }
}

/// Computes `output`, of the shape of the input.
///
/// # Errors
/// [`ElementwiseError::ElementType`] for types that the operation does not take, [`ElementwiseError::Shapes`] when the
/// lengths of operands do not fit the granularity, [`ElementwiseError::Region`] when a lane panicked.
pub fn quantize(
    operation: Quantization,
    operands: QuantizeOperands<'_>,
    output: &mut TensorViewMut<'_>,
    tier: IsaTier,
    config: &ParallelConfig,
    lanes: Lanes<'_>,
) -> Result<(), ElementwiseError> {
    let QuantizeOperands {
        input,
        scale,
        zero_point,
        granularity,
    } = operands;
    let output_type = output.element_type();
    let is_float = |t| {
        matches!(
            t,
            ElementType::Float32 | ElementType::Float16 | ElementType::BFloat16
        )
    };
    let output_fits = match operation {
        Quantization::Quantize(_) => range(output_type).is_some(),
        Quantization::Dequantize => is_float(output_type),
    };
    for (element_type, fits) in [
        (output_type, output_fits),
        (input.element_type(), is_readable(input.element_type())),
        (scale.element_type(), is_readable(scale.element_type())),
        (
            zero_point.map_or(ElementType::Int8, |z| z.element_type()),
            zero_point.is_none_or(|z| is_readable(z.element_type())),
        ),
    ] {
        if !fits {
            return Err(ElementwiseError::ElementType {
                operation: "quantization",
                element_type,
            });
        }
    }
    let parameters = granularity.parameters(input.len());
    let fits = input.len() == output.len()
        && scale.len() >= parameters
        && zero_point.is_none_or(|z| z.len() >= parameters);
    if !fits {
        return Err(ElementwiseError::Shapes {
            shapes: vec![input.dims().to_vec(), scale.dims().to_vec()],
            reason: "the scale must have one element for each part of the input".to_owned(),
        });
    }
    // Two elements of four bits share a byte; lanes never do.
    let per_unit = if output_type.bits() < 8 { 2 } else { 1 };
    let total = input.len();
    let spec = region::division(total.div_ceil(per_unit), config, 0.3);
    let unit_bytes = output_type.bits() * per_unit / 8;
    lanes.region_over(
        &QUANTIZE,
        spec,
        output.bytes_mut(),
        unit_bytes,
        |chunk, output| {
            let part = Part {
                operation,
                operands,
                output_type,
                start: chunk.range.start * per_unit,
                end: (chunk.range.end * per_unit).min(total),
                output,
            };
            dispatch(tier, part);
        },
    )?;
    Ok(())
}
