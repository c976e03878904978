//! `MatMulInteger` and `QLinearMatMul`: products of `i8` and `u8`, shaped as `numpy.matmul`.
//!
//! The arithmetic is that of `onl_gemm`'s quantized products: sums modulo 2³², requantization in `f32` with scales of
//! 16-bit types widened. Zero points and scales of A are scalars, vectors of one element a row, or as A with a last
//! dimension of 1; those of B likewise by columns; batch dimensions are those of the operand, or all 1. The output's
//! scale and zero point are scalars. Specifications: `MatMulInteger` of operator set 10, `QLinearMatMul` of 10 and 21;
//! 16-bit scales came with 21. Its 8-bit floats are not served.

mod examples;
#[cfg(test)]
mod tests;

use super::geometry::{Geometry, Turn, count, infer_dims};
use super::{Prepared, check_arity};
use crate::{
    Coverage, InferContext, InferError, KernelEntry, KernelError, KernelIo, PrepareContext,
    PrepareError, PreparedKernel, SearchContext, ShapeDependence, TypeSource,
};
use onl_executor::Lanes;
use onl_gemm::{
    GemmError, Instructions, Matrix, PackedQuantized, QUANTIZED_PRODUCT_REGION,
    QUANTIZED_ROWS_REGION, QuantizedConfig, QuantizedFactor, QuantizedMatrix, QuantizedOutput,
    QuantizedPlan, QuantizedProblem, Requantization, Scales, ZeroPoints, quantized_product,
};
use onl_ir::NodeView;
use onl_profiling::RegionSite;
use onl_snapshot::{KernelKey, Search, Tuned, TunedConfig};
use onl_tensor::{ElementType, TensorView};

const BYTES: &[ElementType] = &[ElementType::Int8, ElementType::UInt8];
const FLOAT_SCALES: &[ElementType] = &[ElementType::Float32];
const ANY_SCALES: &[ElementType] = &[
    ElementType::Float32,
    ElementType::Float16,
    ElementType::BFloat16,
];
const IMPLEMENTATION: &str = "packed";
const REVISION: u32 = 2;
/// Operator set from which scales may have 16 bits.
const SHORT_SCALES: i64 = 21;

/// Multiply-adds of the calibrated examples: products that one lane may keep, that lanes share, and that leave the
/// second-level cache.
const SIZES: &[usize] = &[64 * 64 * 64, 192 * 192 * 192, 512 * 512 * 512];

static REGIONS: &[&RegionSite] = &[&QUANTIZED_PRODUCT_REGION, &QUANTIZED_ROWS_REGION];

/// Where an operator has its inputs.
#[derive(Debug, Clone, Copy)]
struct Inputs {
    b: usize,
    a_zero_point: usize,
    b_zero_point: usize,
    /// Scales of A, B and the output, and the output's zero point.
    requantization: Option<[usize; 4]>,
    required: usize,
    most: usize,
}

const INTEGER: Inputs = Inputs {
    b: 1,
    a_zero_point: 2,
    b_zero_point: 3,
    requantization: None,
    required: 2,
    most: 4,
};

const LINEAR: Inputs = Inputs {
    b: 3,
    a_zero_point: 2,
    b_zero_point: 5,
    requantization: Some([1, 4, 6, 7]),
    required: 8,
    most: 8,
};

pub(super) fn entries() -> [KernelEntry; 2] {
    let integer = KernelEntry {
        domain: "ai.onnx",
        op_type: "MatMulInteger",
        opsets: (10, i64::MAX),
        type_source: TypeSource::Input(0),
        element_types: BYTES,
        implementation: IMPLEMENTATION,
        revision: REVISION,
        prepare: |node, context| prepare("MatMulInteger", INTEGER, node, context),
        infer: |context| infer(INTEGER, context),
        shape_dependence: ShapeDependence::Shapes,
        coverage: Coverage::Calibratable {
            schema: QuantizedConfig::schema,
            sizes: SIZES,
            search,
        },
        regions: REGIONS,
        examples: examples::integer,
    };
    let linear = KernelEntry {
        op_type: "QLinearMatMul",
        prepare: |node, context| prepare("QLinearMatMul", LINEAR, node, context),
        infer: |context| infer(LINEAR, context),
        examples: examples::linear,
        ..integer.clone()
    };
    [integer, linear]
}

fn search(context: &SearchContext) -> Search {
    Search::Candidates(QuantizedConfig::candidates(context.l2_bytes))
}

/// Types that a node's inputs fix.
#[derive(Debug, Clone, Copy)]
struct Types {
    a: ElementType,
    b: ElementType,
    output: ElementType,
}

fn input_type(node: &NodeView<'_>, index: usize) -> Result<ElementType, PrepareError> {
    node.input_element_type(index)
        .ok_or(PrepareError::MissingInput { index })
}

fn one_of(
    node: &NodeView<'_>,
    index: usize,
    allowed: &[ElementType],
) -> Result<ElementType, PrepareError> {
    let element_type = input_type(node, index)?;
    if allowed.contains(&element_type) {
        return Ok(element_type);
    }
    let names: Vec<&str> = allowed.iter().map(|t| t.name()).collect();
    Err(PrepareError::ElementType {
        index,
        element_type,
        allowed: format!("served: {}", names.join(", ")),
    })
}

/// Checks the element types of all inputs.
fn types(node: &NodeView<'_>, inputs: Inputs) -> Result<Types, PrepareError> {
    let (a, b) = (one_of(node, 0, BYTES)?, one_of(node, inputs.b, BYTES)?);
    for (index, operand) in [(inputs.a_zero_point, a), (inputs.b_zero_point, b)] {
        if node.input(index).is_some() {
            one_of(node, index, &[operand])?;
        }
    }
    let output = match inputs.requantization {
        None => ElementType::Int32,
        Some([a_scale, b_scale, y_scale, y_zero_point]) => {
            let allowed = if node.opset < SHORT_SCALES {
                FLOAT_SCALES
            } else {
                ANY_SCALES
            };
            let scale = one_of(node, a_scale, allowed)?;
            one_of(node, b_scale, &[scale])?;
            one_of(node, y_scale, &[scale])?;
            one_of(node, y_zero_point, BYTES)?
        }
    };
    Ok(Types { a, b, output })
}

fn infer(inputs: Inputs, context: &mut InferContext<'_>) -> Result<(), InferError> {
    check_arity(&context.node, inputs.required, inputs.most)?;
    let output = match inputs.requantization {
        None => ElementType::Int32,
        Some([.., y_zero_point]) => context.element_type(y_zero_point)?,
    };
    let dims = match (context.dims(0), context.dims(inputs.b)) {
        (Some(a), Some(b)) => Some(infer_dims(a, b, [Turn::default(); 2])?),
        _ => None,
    };
    context.set_output(0, output, dims);
    Ok(())
}

struct QuantizedMatMul {
    inputs: Inputs,
    types: Types,
    config: Tuned<QuantizedConfig>,
    instructions: Instructions,
    packed: Option<PackedQuantized>,
}

fn prepare(
    op_type: &'static str,
    inputs: Inputs,
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Prepared {
    check_arity(node, inputs.required, inputs.most)?;
    let types = types(node, inputs)?;
    let instructions = Instructions::of_tier(context.tier);
    let packed = match context.constant_input(node, inputs.b) {
        Some(b) => pack(&b.view(), instructions, is_signed(types.a))?,
        None => None,
    };
    Ok(Box::new(QuantizedMatMul {
        inputs,
        types,
        config: context.snapshot.config(&KernelKey::builtin(
            op_type,
            IMPLEMENTATION,
            types.a,
            REVISION,
        )),
        instructions,
        packed,
    }))
}

fn is_signed(element_type: ElementType) -> bool {
    element_type == ElementType::Int8
}

/// Packs a constant B; scalars stay for [`Geometry::new`] to refuse.
fn pack(
    b: &TensorView<'_>,
    instructions: Instructions,
    a_signed: bool,
) -> Result<Option<PackedQuantized>, PrepareError> {
    let (matrices, k, n) = match b.dims() {
        [] => return Ok(None),
        [k] => (1, *k, 1),
        [batch @ .., k, n] => (count(batch), *k, *n),
    };
    let matrix = QuantizedMatrix {
        bytes: Matrix::row_major(b.bytes(), k, n),
        signed: is_signed(b.element_type()),
    };
    match PackedQuantized::new(&matrix, matrices, k, n, instructions, a_signed) {
        Ok(packed) => Ok(Some(packed)),
        Err(GemmError::Tensor(error)) => Err(error.into()),
        Err(error) => Err(PrepareError::Other(error.to_string())),
    }
}

impl QuantizedMatMul {
    /// The problem on these operands, without zero points; B may be left out where only its shape counts.
    fn problem<'a>(
        &'a self,
        geometry: &'a Geometry,
        a: &'a [u8],
        b: &'a [u8],
    ) -> QuantizedProblem<'a> {
        let Geometry { m, n, k, .. } = *geometry;
        let b = match &self.packed {
            Some(packed) => QuantizedFactor::Packed(packed),
            None => QuantizedFactor::Matrix(QuantizedMatrix {
                bytes: Matrix::row_major(b, k, n),
                signed: is_signed(self.types.b),
            }),
        };
        QuantizedProblem {
            m,
            n,
            k,
            a: QuantizedMatrix {
                bytes: Matrix::row_major(a, m, k),
                signed: is_signed(self.types.a),
            },
            b,
            batch: geometry.batch(),
            a_zero_points: ZeroPoints::NONE,
            b_zero_points: ZeroPoints::NONE,
        }
    }

    fn plan(&self, geometry: &Geometry, problem: &QuantizedProblem<'_>) -> QuantizedPlan {
        let config = self.config.at(geometry.fmas() as u64);
        let requantized = self.inputs.requantization.is_some();
        QuantizedPlan::new(problem.shape(requantized), config, self.instructions)
    }
}

impl PreparedKernel for QuantizedMatMul {
    fn workspace(&self, input_dims: &[&[usize]], lanes: usize) -> usize {
        let (Some(a), Some(b)) = (input_dims.first(), input_dims.get(self.inputs.b)) else {
            return 0;
        };
        Geometry::new(a, b).map_or(0, |geometry| {
            let problem = self.problem(&geometry, &[], &[]);
            self.plan(&geometry, &problem).workspace(lanes)
        })
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (a, b) = (io.input(0)?, io.input(self.inputs.b)?);
        let geometry = Geometry::new(a.dims(), b.dims())?;
        let mut problem = self.problem(&geometry, a.bytes(), b.bytes());
        let zero_points = |index, side: Side<'_>, element_type| match io.optional_input(index) {
            None => Ok(ZeroPoints::NONE),
            Some(view) => {
                side.check(index, &view)?;
                Ok::<_, KernelError>(ZeroPoints {
                    bytes: view.bytes(),
                    signed: is_signed(element_type),
                })
            }
        };
        let (rows, columns) = (Side::Rows(a.dims()), Side::Columns(b.dims()));
        problem.a_zero_points = zero_points(self.inputs.a_zero_point, rows, self.types.a)?;
        problem.b_zero_points = zero_points(self.inputs.b_zero_point, columns, self.types.b)?;
        let requantization = match self.inputs.requantization {
            None => None,
            Some([a_scale, b_scale, y_scale, y_zero_point]) => {
                let (y_scales, y_zero_points) = (io.input(y_scale)?, io.input(y_zero_point)?);
                Side::Single.check(y_scale, &y_scales)?;
                Side::Single.check(y_zero_point, &y_zero_points)?;
                let (a_scales, b_scales) = (io.input(a_scale)?, io.input(b_scale)?);
                rows.check(a_scale, &a_scales)?;
                columns.check(b_scale, &b_scales)?;
                let signed = is_signed(self.types.output);
                Some(Requantization {
                    a_scales: scales(&a_scales)?,
                    b_scales: scales(&b_scales)?,
                    y_scale: scales(&y_scales)?.at(0),
                    y_zero_point: ZeroPoints {
                        bytes: y_zero_points.bytes(),
                        signed,
                    }
                    .at(0),
                    signed,
                })
            }
        };
        let plan = self.plan(&geometry, &problem);
        let (mut output, workspace) =
            io.output_and_workspace(0, self.types.output, &geometry.output)?;
        if output.bytes_mut().is_empty() {
            return Ok(());
        }
        let output = match requantization {
            None => QuantizedOutput::Sums(output.as_slice_mut()?),
            Some(requantization) => QuantizedOutput::Bytes(output.bytes_mut(), requantization),
        };
        Ok(quantized_product(
            &plan, &problem, output, workspace, lanes,
        )?)
    }
}

fn scales<'a>(view: &TensorView<'a>) -> Result<Scales<'a>, KernelError> {
    Ok(match view.element_type() {
        ElementType::Float16 => Scales::Float16(view.as_slice()?),
        ElementType::BFloat16 => Scales::BFloat16(view.as_slice()?),
        _ => Scales::Float32(view.as_slice()?),
    })
}

/// What a zero point or scale has one element for.
#[derive(Debug, Clone, Copy)]
enum Side<'a> {
    /// Everything.
    Single,
    /// Rows of an A of these dimensions, or everything.
    Rows(&'a [usize]),
    /// Columns of a B of these dimensions, or everything.
    Columns(&'a [usize]),
}

impl Side<'_> {
    fn check(self, index: usize, view: &TensorView<'_>) -> Result<(), KernelError> {
        let dims = view.dims();
        if dims.iter().all(|&dim| dim == 1) {
            return Ok(());
        }
        let (operand, batch, fits, expected) = match self {
            Side::Single => ("the output", &[][..], false, "a scalar"),
            Side::Rows(a) => {
                let m = if a.len() > 1 { a[a.len() - 2] } else { 1 };
                let batch = &a[..a.len().saturating_sub(2)];
                let fits = dims == [m] || a.len() > 1 && dims.ends_with(&[m, 1]);
                (
                    "A",
                    batch,
                    fits,
                    "a scalar, one element a row, or A's dimensions with a last one of 1",
                )
            }
            Side::Columns(b) => {
                let n = if b.len() > 1 { b[b.len() - 1] } else { 1 };
                let batch = &b[..b.len().saturating_sub(2)];
                let fits = dims == [n] || b.len() > 1 && dims.ends_with(&[1, n]);
                (
                    "B",
                    batch,
                    fits,
                    "a scalar, one element a column, or B's dimensions with one row",
                )
            }
        };
        let own = &dims[..dims.len().saturating_sub(2)];
        let batch_fits =
            own == batch || own.iter().all(|&dim| dim == 1) && own.len() <= batch.len();
        if fits && batch_fits {
            return Ok(());
        }
        Err(KernelError::InvalidInput {
            index,
            reason: format!("dimensions {dims:?} do not belong to {operand}; give {expected}"),
        })
    }
}
