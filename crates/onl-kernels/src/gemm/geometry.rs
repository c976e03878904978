//! Shapes of `MatMul`: vectors promoted, batch dimensions broadcast, as `numpy.matmul` does.

use crate::{InferError, KernelError, infer};
use onl_gemm::Batch;
use onl_ir::Dim;
use onl_tensor::Shape;
use smallvec::SmallVec;

type Dims = SmallVec<[usize; 6]>;

/// The products that two shapes ask for.
#[derive(Debug, PartialEq)]
pub(super) struct Geometry {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// Matrices of B.
    pub b_matrices: usize,
    pub output: Shape,
    dims: Dims,
    a_strides: Dims,
    b_strides: Dims,
}

impl Geometry {
    /// The products of A and B of these shapes. When B is one matrix, batch dimensions of A are rows.
    pub fn new(a: &[usize], b: &[usize]) -> Result<Geometry, KernelError> {
        let fail = |reason: String| {
            Err(KernelError::Shapes {
                shapes: vec![a.to_vec(), b.to_vec()],
                reason,
            })
        };
        if a.is_empty() || b.is_empty() {
            return fail(
                "MatMul takes no scalars; give vectors, matrices or batches of matrices".to_owned(),
            );
        }
        let (a_batch, m, a_k) = split_rows(a);
        let (b_batch, b_k, n) = match b {
            [k] => (&b[..0], *k, 1),
            [batch @ .., k, n] => (batch, *k, *n),
            [] => (&b[..0], 0, 0),
        };
        if a_k != b_k {
            return fail(format!(
                "the last dimension of A ({a_k}) must equal the rows of B ({b_k})"
            ));
        }
        let rank = a_batch.len().max(b_batch.len());
        let mut geometry = Geometry {
            m,
            n,
            k: a_k,
            b_matrices: count(b_batch),
            output: Shape::scalar(),
            dims: SmallVec::from_elem(1, rank),
            a_strides: SmallVec::from_elem(0, rank),
            b_strides: SmallVec::from_elem(0, rank),
        };
        let (mut a_matrix, mut b_matrix) = (1usize, 1usize);
        for axis in (0..rank).rev() {
            let size = |batch: &[usize]| {
                (axis + batch.len())
                    .checked_sub(rank)
                    .map_or(1, |i| batch[i])
            };
            let (x, y) = (size(a_batch), size(b_batch));
            if x != y && x != 1 && y != 1 {
                return fail(format!("batch sizes {x} and {y} cannot be broadcast"));
            }
            geometry.dims[axis] = if x == 1 { y } else { x };
            if x != 1 {
                geometry.a_strides[axis] = a_matrix;
            }
            if y != 1 {
                geometry.b_strides[axis] = b_matrix;
            }
            a_matrix = a_matrix.saturating_mul(x);
            b_matrix = b_matrix.saturating_mul(y);
        }
        geometry.output = geometry.dims.iter().copied().collect();
        if a.len() > 1 {
            geometry.output.push(m);
        }
        if b.len() > 1 {
            geometry.output.push(n);
        }
        if geometry.b_matrices == 1 {
            geometry.m = geometry.m.saturating_mul(count(&geometry.dims));
            geometry.dims.clear();
            geometry.a_strides.clear();
            geometry.b_strides.clear();
        }
        Ok(geometry)
    }

    /// Which matrices are multiplied.
    pub fn batch(&self) -> Batch<'_> {
        Batch {
            dims: &self.dims,
            a_strides: &self.a_strides,
            b_strides: &self.b_strides,
        }
    }

    /// Multiply-adds of all products.
    pub fn fmas(&self) -> usize {
        [self.m, self.n, self.k]
            .iter()
            .fold(self.batch().count(), |product, &x| {
                product.saturating_mul(x)
            })
    }
}

/// Product of sizes; an empty tensor may have sizes whose product does not fit.
pub(super) fn count(dims: &[usize]) -> usize {
    if dims.contains(&0) {
        return 0;
    }
    dims.iter()
        .fold(1, |count: usize, &dim| count.saturating_mul(dim))
}

fn split_rows(a: &[usize]) -> (&[usize], usize, usize) {
    match a {
        [k] => (&a[..0], 1, *k),
        [batch @ .., m, k] => (batch, *m, *k),
        [] => (a, 0, 0),
    }
}

/// Output dimensions as far as the inputs' are known.
pub(super) fn infer_dims(a: &[Dim], b: &[Dim]) -> Result<Vec<Dim>, InferError> {
    let (Some(a_k), Some(b_k)) = (a.last(), b.get(b.len().saturating_sub(2))) else {
        return Err(InferError::Shapes("MatMul takes no scalars".to_owned()));
    };
    if let (Some(x), Some(y)) = (a_k.known(), b_k.known())
        && x != y
    {
        return Err(InferError::Shapes(format!(
            "the last dimension of A ({x}) must equal the rows of B ({y})"
        )));
    }
    let batch = |dims: &[Dim]| dims[..dims.len().saturating_sub(2)].to_vec();
    let mut output = infer::broadcast_dims(&batch(a), &batch(b))?;
    if a.len() > 1 {
        output.push(a[a.len() - 2].clone());
    }
    if b.len() > 1 {
        output.push(b[b.len() - 1].clone());
    }
    Ok(output)
}
