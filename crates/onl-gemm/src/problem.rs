use crate::Activation;
use onl_executor::RegionError;
use onl_tensor::TensorError;
use thiserror::Error;

/// A matrix in memory, or one per batch entry: element (i, j) of matrix `b` is
/// `elements[b · batch_stride + i · row_stride + j · column_stride]`. A transpose swaps the strides.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a, S> {
    /// Elements of all matrices.
    pub elements: &'a [S],
    /// Elements from one row to the next.
    pub row_stride: usize,
    /// Elements from one column to the next.
    pub column_stride: usize,
    /// Elements from one matrix to the next.
    pub batch_stride: usize,
}

impl<'a, S> Matrix<'a, S> {
    /// Contiguous row-major matrices of `rows` × `columns`.
    pub fn row_major(elements: &'a [S], rows: usize, columns: usize) -> Self {
        Matrix {
            elements,
            row_stride: columns,
            column_stride: 1,
            batch_stride: rows.saturating_mul(columns),
        }
    }

    /// The transposes of contiguous row-major matrices: `rows` × `columns` are the dimensions of the result.
    pub fn transposed(elements: &'a [S], rows: usize, columns: usize) -> Self {
        Matrix {
            elements,
            row_stride: 1,
            column_stride: rows,
            batch_stride: rows.saturating_mul(columns),
        }
    }

    /// Whether `matrices` matrices of `rows` × `columns` lie inside the elements.
    pub(crate) fn covers(&self, matrices: usize, rows: usize, columns: usize) -> bool {
        if matrices == 0 || rows == 0 || columns == 0 {
            return true;
        }
        let last = |count: usize, stride: usize| (count - 1).checked_mul(stride);
        let end = last(matrices, self.batch_stride)
            .zip(last(rows, self.row_stride))
            .and_then(|(x, y)| x.checked_add(y))
            .zip(last(columns, self.column_stride))
            .and_then(|(x, y)| x.checked_add(y));
        end.is_some_and(|end| end < self.elements.len())
    }
}

/// Batch dimensions of a product and which matrix of A and of B each entry takes. Strides count matrices; 0 repeats
/// a matrix along a dimension.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// Sizes of the batch dimensions, outermost first.
    pub dims: &'a [usize],
    /// Matrices of A from one index of a dimension to the next.
    pub a_strides: &'a [usize],
    /// Matrices of B from one index of a dimension to the next.
    pub b_strides: &'a [usize],
}

impl Batch<'_> {
    /// A single product.
    pub const ONE: Batch<'static> = Batch {
        dims: &[],
        a_strides: &[],
        b_strides: &[],
    };

    /// Number of products.
    pub fn count(&self) -> usize {
        if self.dims.contains(&0) {
            return 0;
        }
        self.dims
            .iter()
            .fold(1, |count: usize, &dim| count.saturating_mul(dim))
    }

    /// The matrices of A and B that entry `index` multiplies.
    pub fn matrices(&self, index: usize) -> (usize, usize) {
        let mut rest = index;
        let (mut a, mut b) = (0, 0);
        for axis in (0..self.dims.len()).rev() {
            let position = rest % self.dims[axis];
            rest /= self.dims[axis];
            a += position * self.a_strides[axis];
            b += position * self.b_strides[axis];
        }
        (a, b)
    }

    /// One more than the largest matrix of A and of B that an entry takes; 0 when there is no entry.
    pub(crate) fn extent(&self) -> Option<(usize, usize)> {
        if self.a_strides.len() != self.dims.len() || self.b_strides.len() != self.dims.len() {
            return None;
        }
        if self.dims.contains(&0) {
            return Some((0, 0));
        }
        let last = |strides: &[usize]| {
            self.dims
                .iter()
                .zip(strides)
                .try_fold(1usize, |sum, (&dim, &stride)| {
                    (dim - 1)
                        .checked_mul(stride)
                        .and_then(|x| sum.checked_add(x))
                })
        };
        last(self.a_strides).zip(last(self.b_strides))
    }
}

/// An addend that is broadcast over the product: element (i, j) is `elements[i · row_stride + j · column_stride]`,
/// the same for every batch entry.
#[derive(Debug, Clone, Copy)]
pub struct Addend<'a, S> {
    /// Elements.
    pub elements: &'a [S],
    /// 0, or elements from one row to the next.
    pub row_stride: usize,
    /// 0 or 1.
    pub column_stride: usize,
}

/// What is done to a product before it is stored, in the type of accumulation, each operation rounded once:
/// `alpha · product`; `fma(beta, c, ·)` with an addend; `· + residual` with a residual; the activation. Then one
/// rounding to the storage type.
#[derive(Debug, Clone, Copy)]
pub struct Epilogue<'a, S> {
    /// Factor of the product; 1 changes nothing.
    pub alpha: f32,
    /// Factor of the addend; 1 makes the fused multiply-add a plain addition.
    pub beta: f32,
    /// Addend: a matrix, a bias of rows or of columns, or a scalar.
    pub c: Option<Addend<'a, S>>,
    /// What is added without a factor: as many matrices as there are batch entries, rows contiguous.
    pub residual: Option<Matrix<'a, S>>,
    /// Last step.
    pub activation: Activation,
}

impl<S: 'static> Epilogue<'_, S> {
    /// The product as it is.
    pub const NONE: Epilogue<'static, S> = Epilogue {
        alpha: 1.0,
        beta: 1.0,
        c: None,
        residual: None,
        activation: Activation::Identity,
    };

    /// Whether sums are stored as they are, in the type of accumulation.
    pub(crate) fn changes_nothing(&self) -> bool {
        self.alpha == 1.0
            && self.c.is_none()
            && self.residual.is_none()
            && self.activation == Activation::Identity
    }
}

impl<S: 'static> Default for Epilogue<'_, S> {
    fn default() -> Self {
        Self::NONE
    }
}

/// Why a product could not be computed.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum GemmError {
    /// An operand's memory is smaller than its dimensions and strides reach.
    #[error("operand {operand} has {length} elements, fewer than its dimensions and strides reach")]
    Operand {
        /// `A`, `B`, `C`, `residual`, `output` or `batch`.
        operand: &'static str,
        /// Elements given.
        length: usize,
    },
    /// The plan was made for another problem.
    #[error(
        "the plan was made for another problem; make a plan from the same dimensions and strides"
    )]
    Plan,
    /// The scratch memory is smaller than the plan needs.
    #[error(
        "scratch memory of {actual} bytes is too small, the plan needs {needed}; ask the plan for its size"
    )]
    Workspace {
        /// Bytes that the plan needs.
        needed: usize,
        /// Bytes given.
        actual: usize,
    },
    /// A lane panicked.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// Memory for a packed operand could not be had.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}
