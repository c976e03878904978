use super::plan::QuantizedShape;
use super::{Instructions, PackedQuantized};
use crate::{Batch, Matrix};
use onl_tensor::{bf16, f16};

/// Matrices of 8-bit integers.
#[derive(Debug, Clone, Copy)]
pub struct QuantizedMatrix<'a> {
    /// The elements as bytes.
    pub bytes: Matrix<'a, u8>,
    /// Whether the bytes are `i8`, otherwise `u8`.
    pub signed: bool,
}

/// Zero points of an operand, of the operand's element type: element `i mod len` belongs to row (of A) or column (of B)
/// `i`, counted through all matrices. None at all means zero.
#[derive(Debug, Clone, Copy)]
pub struct ZeroPoints<'a> {
    /// The zero points as bytes.
    pub bytes: &'a [u8],
    /// Whether the bytes are `i8`, otherwise `u8`.
    pub signed: bool,
}

impl ZeroPoints<'_> {
    /// All zero.
    pub const NONE: ZeroPoints<'static> = ZeroPoints {
        bytes: &[],
        signed: false,
    };

    /// Zero point of a row or column.
    pub fn at(&self, index: usize) -> i32 {
        let byte = match self.bytes {
            [] => return 0,
            [byte] => *byte,
            bytes => bytes[index % bytes.len()],
        };
        if self.signed {
            i32::from(byte as i8)
        } else {
            i32::from(byte)
        }
    }

    /// The zero point of all rows or columns, if they are known to have the same.
    pub(super) fn uniform(&self) -> Option<i32> {
        (self.bytes.len() <= 1).then(|| self.at(0))
    }
}

/// Scales of an operand; element `i mod len` belongs to row or column `i`, counted through all matrices.
#[derive(Debug, Clone, Copy)]
pub enum Scales<'a> {
    /// As they are.
    Float32(&'a [f32]),
    /// Widened exactly.
    Float16(&'a [f16]),
    /// Widened exactly.
    BFloat16(&'a [bf16]),
}

impl Scales<'_> {
    /// Number of scales.
    pub fn len(&self) -> usize {
        match self {
            Scales::Float32(scales) => scales.len(),
            Scales::Float16(scales) => scales.len(),
            Scales::BFloat16(scales) => scales.len(),
        }
    }

    /// Whether there is none; a product needs at least one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Scale of a row or column.
    ///
    /// # Panics
    /// When there is none.
    pub fn at(&self, index: usize) -> f32 {
        let length = self.len();
        let index = if length == 1 { 0 } else { index % length };
        match self {
            Scales::Float32(scales) => scales[index],
            Scales::Float16(scales) => scales[index].to_f32(),
            Scales::BFloat16(scales) => scales[index].to_f32(),
        }
    }
}

/// How sums become bytes; see the module for the arithmetic.
#[derive(Debug, Clone, Copy)]
pub struct Requantization<'a> {
    /// Scales of the rows of A.
    pub a_scales: Scales<'a>,
    /// Scales of the columns of B.
    pub b_scales: Scales<'a>,
    /// Scale of the output.
    pub y_scale: f32,
    /// Zero point of the output, within its type.
    pub y_zero_point: i32,
    /// Whether the output is `i8`, otherwise `u8`.
    pub signed: bool,
}

/// The second operand of a product.
#[derive(Debug, Clone, Copy)]
pub enum QuantizedFactor<'a> {
    /// In memory.
    Matrix(QuantizedMatrix<'a>),
    /// Packed at preparation, for the plan's instructions and the sign of A.
    Packed(&'a PackedQuantized),
}

/// The operands of a product of 8-bit integers.
#[derive(Debug, Clone, Copy)]
pub struct QuantizedProblem<'a> {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Length of the sums.
    pub k: usize,
    /// First operand, m × k.
    pub a: QuantizedMatrix<'a>,
    /// Second operand, k × n.
    pub b: QuantizedFactor<'a>,
    /// Which matrices are multiplied.
    pub batch: Batch<'a>,
    /// Zero points of the rows of A.
    pub a_zero_points: ZeroPoints<'a>,
    /// Zero points of the columns of B.
    pub b_zero_points: ZeroPoints<'a>,
}

impl QuantizedProblem<'_> {
    /// What a plan for this problem is made from.
    pub fn shape(&self, requantized: bool) -> QuantizedShape {
        QuantizedShape {
            batches: self.batch.count(),
            a_matrices: self.batch.extent().map_or(0, |(a, _)| a),
            m: self.m,
            n: self.n,
            k: self.k,
            a_signed: self.a.signed,
            a_contiguous: self.a.bytes.column_stride == 1,
            b_constant: matches!(self.b, QuantizedFactor::Packed(_)),
            b_contiguous: match self.b {
                QuantizedFactor::Packed(_) => true,
                QuantizedFactor::Matrix(b) => b.bytes.column_stride == 1,
            },
            b_widths: match self.b {
                QuantizedFactor::Packed(packed) => packed.widths(),
                QuantizedFactor::Matrix(_) => (true, true),
            },
            requantized,
        }
    }

    /// Instructions that the packed B was made for, if B is packed.
    pub(super) fn packed_for(&self) -> Option<(Instructions, bool)> {
        match self.b {
            QuantizedFactor::Packed(packed) => Some(packed.layout()),
            QuantizedFactor::Matrix(_) => None,
        }
    }
}

/// Where contiguous row-major results go.
#[derive(Debug)]
pub enum QuantizedOutput<'a> {
    /// As 32-bit sums.
    Sums(&'a mut [i32]),
    /// As bytes.
    Bytes(&'a mut [u8], Requantization<'a>),
}
