//! Shapes of `MatMul` and `FusedMatMul`: vectors promoted, batch dimensions broadcast, as `numpy.matmul` does.

use crate::{InferError, KernelError, infer};
use onl_gemm::{Batch, Matrix};
use onl_ir::Dim;
use onl_tensor::Shape;
use smallvec::SmallVec;

type Dims = SmallVec<[usize; 6]>;

/// How an operand of `FusedMatMul` is turned before it is multiplied; `MatMul` turns none. Vectors are never turned.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Turn {
    /// The last two dimensions change places.
    pub transpose: bool,
    /// The first dimension moves behind all batch dimensions; before `transpose`.
    pub batch_first: bool,
}

/// Where the matrices of an operand lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Layout {
    pub row_stride: usize,
    pub column_stride: usize,
    pub batch_stride: usize,
}

impl Layout {
    pub fn of<'a, T>(&self, elements: &'a [T]) -> Matrix<'a, T> {
        Matrix {
            elements,
            row_stride: self.row_stride,
            column_stride: self.column_stride,
            batch_stride: self.batch_stride,
        }
    }
}

/// An operand: batch dimensions, rows, columns and layout.
pub(super) struct Side<'a> {
    pub batch: &'a [usize],
    pub rows: usize,
    pub columns: usize,
    pub layout: Layout,
}

impl<'a> Side<'a> {
    /// `None` for a scalar. A vector is a row on the left, a column on the right.
    pub fn new(dims: &'a [usize], turn: Turn, left: bool) -> Option<Self> {
        let (batch, rows, columns, strides) = match dims {
            [] => return None,
            [length] if left => (&dims[..0], 1, *length, (*length, 1)),
            [length] => (&dims[..0], *length, 1, (1, 1)),
            [first, batch @ .., last] if turn.batch_first => (
                batch,
                *first,
                *last,
                (count(batch).saturating_mul(*last), 1),
            ),
            [batch @ .., rows, columns] => (batch, *rows, *columns, (*columns, 1)),
        };
        let plain = !turn.batch_first || dims.len() < 3;
        let mut side = Side {
            batch,
            rows,
            columns,
            layout: Layout {
                row_stride: strides.0,
                column_stride: strides.1,
                batch_stride: if plain {
                    rows.saturating_mul(columns)
                } else {
                    columns
                },
            },
        };
        if turn.transpose && dims.len() > 1 {
            std::mem::swap(&mut side.rows, &mut side.columns);
            let Layout {
                row_stride,
                column_stride,
                ..
            } = &mut side.layout;
            std::mem::swap(row_stride, column_stride);
        }
        Some(side)
    }
}

/// The products that two shapes ask for.
#[derive(Debug, PartialEq)]
pub(super) struct Geometry {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: Layout,
    pub b: Layout,
    pub output: Shape,
    dims: Dims,
    a_strides: Dims,
    b_strides: Dims,
}

impl Geometry {
    /// The products of A and B of these shapes. When B is one matrix, batch dimensions of A are rows.
    pub fn new(a: &[usize], b: &[usize]) -> Result<Geometry, KernelError> {
        Self::turned(a, b, [Turn::default(); 2])
    }

    /// As [`new`](Self::new), of operands that are turned first.
    pub fn turned(a: &[usize], b: &[usize], turns: [Turn; 2]) -> Result<Geometry, KernelError> {
        let fail = |reason: String| {
            Err(KernelError::Shapes {
                shapes: vec![a.to_vec(), b.to_vec()],
                reason,
            })
        };
        let (Some(left), Some(right)) =
            (Side::new(a, turns[0], true), Side::new(b, turns[1], false))
        else {
            return fail(
                "MatMul takes no scalars; give vectors, matrices or batches of matrices".to_owned(),
            );
        };
        let (m, n, k) = (left.rows, right.columns, left.columns);
        if k != right.rows {
            return fail(format!(
                "A has {k} columns and B has {} rows; they must be equal",
                right.rows
            ));
        }
        let rank = left.batch.len().max(right.batch.len());
        let mut geometry = Geometry {
            m,
            n,
            k,
            a: left.layout,
            b: right.layout,
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
            let (x, y) = (size(left.batch), size(right.batch));
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
        if count(right.batch) == 1 && turns[0] == Turn::default() {
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

/// The order of dimensions in which a turned operand is read.
fn turned_dims(dims: &[Dim], turn: Turn) -> Vec<Dim> {
    let mut dims = dims.to_vec();
    let rank = dims.len();
    if turn.batch_first && rank > 2 {
        dims[..rank - 1].rotate_left(1);
    }
    if turn.transpose && rank > 1 {
        dims.swap(rank - 2, rank - 1);
    }
    dims
}

/// Output dimensions as far as the inputs' are known.
pub(super) fn infer_dims(a: &[Dim], b: &[Dim], turns: [Turn; 2]) -> Result<Vec<Dim>, InferError> {
    let (a, b) = (&turned_dims(a, turns[0])[..], &turned_dims(b, turns[1])[..]);
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
