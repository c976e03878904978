//! `MatMul` and `Gemm` of integers: modulo 2 to the number of bits, by rows.
//!
//! `Gemm` scales by factors of 1 exactly. Other factors are applied in `f64`, `alpha · product + beta · C` with each
//! operation rounded, and the result is truncated towards zero and clamped to the type.

use super::general::{Attributes, addend, check, matrix};
use super::geometry::Geometry;
use super::{INTEGERS, Prepared, check_arity, element_type};
use crate::{KernelError, KernelIo, PrepareContext, PreparedKernel};
use onl_executor::{Lanes, RegionSpec};
use onl_gemm::{Dimensions, Matrix, WrappingElement, wrapping_product};
use onl_ir::NodeView;
use onl_profiling::{RegionSite, region_site};
use onl_snapshot::{KernelKey, ParallelConfig, Tuned};
use onl_tensor::ElementType;
use std::marker::PhantomData;

pub(super) static REGION: RegionSite = region_site!("gemm.integer_rows");
pub(super) const IMPLEMENTATION: &str = "rows";
pub(super) const REVISION: u32 = 3;

struct IntegerMatMul<T> {
    /// Sizes count multiply-adds.
    config: Tuned<ParallelConfig>,
    _element: PhantomData<T>,
}

struct IntegerGemm<T> {
    attributes: Attributes,
    config: Tuned<ParallelConfig>,
    _element: PhantomData<T>,
}

/// Instantiates a generic function for the element type of input 0.
macro_rules! for_integer {
    ($node:expr, $make:path, $($argument:expr),*) => {{
        let element_type = element_type($node, INTEGERS)?;
        match element_type {
            ElementType::Int64 => $make(PhantomData::<i64>, element_type, $($argument),*),
            ElementType::UInt32 => $make(PhantomData::<u32>, element_type, $($argument),*),
            ElementType::UInt64 => $make(PhantomData::<u64>, element_type, $($argument),*),
            _ => $make(PhantomData::<i32>, element_type, $($argument),*),
        }
    }};
}

fn config(
    op_type: &'static str,
    element_type: ElementType,
    context: &PrepareContext<'_>,
) -> Tuned<ParallelConfig> {
    context.snapshot.config(&KernelKey::builtin(
        op_type,
        IMPLEMENTATION,
        element_type,
        REVISION,
    ))
}

pub(super) fn prepare(node: &NodeView<'_>, context: &PrepareContext<'_>) -> Prepared {
    check_arity(node, 2, 2)?;
    for_integer!(node, prepare_matmul_for, context)
}

fn prepare_matmul_for<T: WrappingElement>(
    element: PhantomData<T>,
    element_type: ElementType,
    context: &PrepareContext<'_>,
) -> Prepared {
    Ok(Box::new(IntegerMatMul::<T> {
        config: config("MatMul", element_type, context),
        _element: element,
    }))
}

pub(super) fn prepare_gemm(node: &NodeView<'_>, context: &PrepareContext<'_>) -> Prepared {
    check(node)?;
    for_integer!(node, prepare_gemm_for, node, context)
}

fn prepare_gemm_for<T: WrappingElement>(
    element: PhantomData<T>,
    element_type: ElementType,
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Prepared {
    Ok(Box::new(IntegerGemm::<T> {
        attributes: Attributes::read(node)?,
        config: config("Gemm", element_type, context),
        _element: element,
    }))
}

impl<T: WrappingElement> PreparedKernel for IntegerGemm<T> {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (a, b) = (io.input(0)?, io.input(1)?);
        let Dimensions { m, n, k, .. } = self.attributes.dimensions(a.dims(), b.dims())?;
        let Attributes {
            alpha,
            beta,
            transpose_a,
            transpose_b,
        } = self.attributes;
        let c = io
            .optional_input(2)
            .map(|c| addend::<T>(c, m, n))
            .transpose()?;
        let a = matrix(a.as_slice::<T>()?, m, k, transpose_a);
        let b = matrix(b.as_slice::<T>()?, k, n, transpose_b);
        let mut output = io.output(0, T::TYPE, &[m, n])?;
        let output = output.as_slice_mut::<T>()?;
        if output.is_empty() {
            return Ok(());
        }
        let fmas = m.saturating_mul(n).saturating_mul(k);
        let config = self.config.at(fmas as u64);
        let row = n.saturating_mul(k).max(1);
        let spec = RegionSpec {
            minimum_total: config.minimum_elements.div_ceil(row),
            max_participants: config.maximum_participants,
            ..RegionSpec::new(m, config.grain_elements / row)
        };
        lanes.region_over(&REGION, spec, output, n, |chunk, part| {
            wrapping_product(&a, &b, chunk.range.start, k, n, part)
                .expect("operands have their dimensions");
            for (row, sums) in chunk.range.zip(part.chunks_exact_mut(n)) {
                for (column, sum) in sums.iter_mut().enumerate() {
                    let c = c.map_or(T::default(), |c| {
                        c.elements[row * c.row_stride + column * c.column_stride]
                    });
                    *sum = if alpha == 1.0 && beta == 1.0 {
                        sum.wrapping_multiply_add(T::ONE, c)
                    } else {
                        let scaled = f64::from(alpha) * sum.to_f64() + f64::from(beta) * c.to_f64();
                        T::from_f64(scaled)
                    };
                }
            }
        })?;
        Ok(())
    }
}

impl<T: WrappingElement> PreparedKernel for IntegerMatMul<T> {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (a, b) = (io.input(0)?, io.input(1)?);
        let geometry = Geometry::new(a.dims(), b.dims())?;
        let Geometry { m, n, k, .. } = geometry;
        let (a, b) = (a.as_slice::<T>()?, b.as_slice::<T>()?);
        let mut output = io.output(0, T::TYPE, &geometry.output)?;
        let output = output.as_slice_mut::<T>()?;
        if output.is_empty() {
            return Ok(());
        }
        let config = self.config.at(geometry.fmas() as u64);
        let row = n.saturating_mul(k).max(1);
        let batch = geometry.batch();
        let spec = RegionSpec {
            minimum_total: config.minimum_elements.div_ceil(row),
            max_participants: config.maximum_participants,
            ..RegionSpec::new(batch.count() * m, config.grain_elements / row)
        };
        lanes.region_over(&REGION, spec, output, n, |chunk, part| {
            for (row, sums) in chunk.range.zip(part.chunks_exact_mut(n)) {
                let (a_matrix, b_matrix) = batch.matrices(row / m);
                let a = Matrix::row_major(&a[a_matrix * m * k..(a_matrix + 1) * m * k], m, k);
                let b = Matrix::row_major(&b[b_matrix * k * n..(b_matrix + 1) * k * n], k, n);
                wrapping_product(&a, &b, row % m, k, n, sums)
                    .expect("operands were cut to their dimensions");
            }
        })?;
        Ok(())
    }
}
