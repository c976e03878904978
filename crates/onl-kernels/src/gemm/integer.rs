//! `MatMul` of integers: modulo 2 to the number of bits, by rows.

use super::geometry::Geometry;
use super::{INTEGERS, Prepared, check_arity, element_type};
use crate::{KernelError, KernelIo, PrepareContext, PreparedKernel};
use onl_executor::{Lanes, RegionSpec};
use onl_gemm::{Matrix, WrappingElement, wrapping_product};
use onl_ir::NodeView;
use onl_profiling::{RegionSite, region_site};
use onl_snapshot::{KernelKey, ParallelConfig, Tuned};
use onl_tensor::ElementType;
use std::marker::PhantomData;

pub(super) static REGION: RegionSite = region_site!("gemm.integer_rows");
pub(super) const IMPLEMENTATION: &str = "rows";
pub(super) const REVISION: u32 = 1;

struct IntegerMatMul<T> {
    /// Sizes count multiply-adds.
    config: Tuned<ParallelConfig>,
    _element: PhantomData<T>,
}

pub(super) fn prepare(node: &NodeView<'_>, context: &PrepareContext<'_>) -> Prepared {
    check_arity(node, 2, 2)?;
    let element_type = element_type(node, INTEGERS)?;
    let config = context.snapshot.config(&KernelKey::builtin(
        "MatMul",
        IMPLEMENTATION,
        element_type,
        REVISION,
    ));
    Ok(match element_type {
        ElementType::Int64 => Box::new(IntegerMatMul::<i64> {
            config,
            _element: PhantomData,
        }),
        ElementType::UInt32 => Box::new(IntegerMatMul::<u32> {
            config,
            _element: PhantomData,
        }),
        ElementType::UInt64 => Box::new(IntegerMatMul::<u64> {
            config,
            _element: PhantomData,
        }),
        _ => Box::new(IntegerMatMul::<i32> {
            config,
            _element: PhantomData,
        }),
    })
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
