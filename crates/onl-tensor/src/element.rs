use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};
use std::fmt;

/// Every element type of `onnx.TensorProto.DataType` through IR version 13.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum ElementType {
    Float32 = 1,
    UInt8 = 2,
    Int8 = 3,
    UInt16 = 4,
    Int16 = 5,
    Int32 = 6,
    Int64 = 7,
    String = 8,
    Bool = 9,
    Float16 = 10,
    Float64 = 11,
    UInt32 = 12,
    UInt64 = 13,
    Complex64 = 14,
    Complex128 = 15,
    BFloat16 = 16,
    Float8E4M3FN = 17,
    Float8E4M3FNUZ = 18,
    Float8E5M2 = 19,
    Float8E5M2FNUZ = 20,
    UInt4 = 21,
    Int4 = 22,
    Float4E2M1 = 23,
    Float8E8M0 = 24,
    UInt2 = 25,
    Int2 = 26,
}

impl ElementType {
    /// All element types in the order of their ONNX numbers.
    pub const ALL: [ElementType; 26] = {
        use ElementType::*;
        [
            Float32,
            UInt8,
            Int8,
            UInt16,
            Int16,
            Int32,
            Int64,
            String,
            Bool,
            Float16,
            Float64,
            UInt32,
            UInt64,
            Complex64,
            Complex128,
            BFloat16,
            Float8E4M3FN,
            Float8E4M3FNUZ,
            Float8E5M2,
            Float8E5M2FNUZ,
            UInt4,
            Int4,
            Float4E2M1,
            Float8E8M0,
            UInt2,
            Int2,
        ]
    };

    /// The type with this `TensorProto.DataType` number, if there is one.
    pub fn from_onnx(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.onnx_number() == number)
    }

    /// The number of this type in `TensorProto.DataType`.
    pub const fn onnx_number(self) -> i32 {
        self as i32
    }

    /// Bits of one element in storage; 0 for strings, whose size varies.
    pub const fn bits(self) -> usize {
        use ElementType::*;
        match self {
            String => 0,
            UInt2 | Int2 => 2,
            UInt4 | Int4 | Float4E2M1 => 4,
            UInt8 | Int8 | Bool | Float8E4M3FN | Float8E4M3FNUZ | Float8E5M2 | Float8E5M2FNUZ
            | Float8E8M0 => 8,
            UInt16 | Int16 | Float16 | BFloat16 => 16,
            Float32 | Int32 | UInt32 => 32,
            Float64 | Int64 | UInt64 | Complex64 => 64,
            Complex128 => 128,
        }
    }

    /// Alignment in bytes that a typed view of this type needs.
    pub const fn alignment(self) -> usize {
        match self {
            ElementType::Complex64 => 4,
            ElementType::Complex128 => 8,
            _ => {
                let bytes = self.bits() / 8;
                if bytes == 0 { 1 } else { bytes }
            }
        }
    }

    /// Name used in keys, tables and files, as ONNX spells it in lower case (`float32` as `f32`, and so on).
    pub const fn name(self) -> &'static str {
        use ElementType::*;
        match self {
            Float32 => "f32",
            UInt8 => "u8",
            Int8 => "i8",
            UInt16 => "u16",
            Int16 => "i16",
            Int32 => "i32",
            Int64 => "i64",
            String => "string",
            Bool => "bool",
            Float16 => "f16",
            Float64 => "f64",
            UInt32 => "u32",
            UInt64 => "u64",
            Complex64 => "complex64",
            Complex128 => "complex128",
            BFloat16 => "bf16",
            Float8E4M3FN => "f8e4m3fn",
            Float8E4M3FNUZ => "f8e4m3fnuz",
            Float8E5M2 => "f8e5m2",
            Float8E5M2FNUZ => "f8e5m2fnuz",
            UInt4 => "u4",
            Int4 => "i4",
            Float4E2M1 => "f4e2m1",
            Float8E8M0 => "f8e8m0",
            UInt2 => "u2",
            Int2 => "i2",
        }
    }

    /// The type with this [`name`](Self::name), if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }

    /// Whether the type is one of the IEEE-like float types of 16 bits and more.
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            Self::Float32 | Self::Float64 | Self::Float16 | Self::BFloat16
        )
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A boolean element as ONNX stores it: one byte, 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Zeroable, Pod)]
#[repr(transparent)]
pub struct Bool(pub u8);

impl From<bool> for Bool {
    fn from(value: bool) -> Self {
        Bool(value as u8)
    }
}

impl From<Bool> for bool {
    fn from(value: Bool) -> Self {
        value.0 != 0
    }
}

/// A complex element: real part first.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(C)]
pub struct Complex<T> {
    /// Real part.
    pub re: T,
    /// Imaginary part.
    pub im: T,
}

// SAFETY: two equal plain-old-data fields in `repr(C)` leave no padding.
unsafe impl<T: Pod> Zeroable for Complex<T> {}
// SAFETY: as above; every bit pattern of `T` is valid, so every one of the pair is.
unsafe impl<T: Pod> Pod for Complex<T> {}

/// A Rust type that stores one element of an ONNX type of at least one byte.
pub trait Element: Pod + Send + Sync + PartialEq + fmt::Debug + 'static {
    /// The ONNX type of this element.
    const TYPE: ElementType;
}

macro_rules! elements {
    ($($rust:ty => $onnx:ident),* $(,)?) => {
        $(impl Element for $rust { const TYPE: ElementType = ElementType::$onnx; })*
    };
}

elements! {
    f32 => Float32, f64 => Float64, f16 => Float16, bf16 => BFloat16,
    u8 => UInt8, u16 => UInt16, u32 => UInt32, u64 => UInt64,
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64,
    Bool => Bool, Complex<f32> => Complex64, Complex<f64> => Complex128,
}
