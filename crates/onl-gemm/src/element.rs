use crate::tile::{Kernels, kernels_f32, kernels_f64};
use crate::Activation;
use crate::activation::{activate_f32, activate_f64};
use half::slice::HalfFloatSliceExt;
use onl_cpu::IsaTier;
use onl_tensor::{Element, bf16, f16};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
}

/// Element type in which products are accumulated: `f32` or `f64`.
pub trait Compute: Storage<Compute = Self> {
    /// +0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;

    /// An `f32` in this type, exactly.
    fn from_f32(value: f32) -> Self;
    /// `self · factor + addend` with one rounding.
    fn mul_add(self, factor: Self, addend: Self) -> Self;
    /// `self · factor`, rounded.
    fn mul(self, factor: Self) -> Self;
    /// `self + addend`, rounded.
    fn add(self, addend: Self) -> Self;
    /// Bits, for comparisons that tell zeros and NaNs apart.
    fn bits(self) -> u64;
    /// Applies an activation to a row in place, by the body of a tier that the processor runs.
    fn activate(tier: IsaTier, activation: Activation, row: &mut [Self]);
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn kernels(tier: IsaTier) -> &'static Kernels<Self>;
}

macro_rules! compute {
    ($t:ty, $kernels:ident, $activate:ident) => {
        impl Compute for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            #[inline(always)]
            fn from_f32(value: f32) -> Self {
                <$t>::from(value)
            }
            #[inline(always)]
            fn mul_add(self, factor: Self, addend: Self) -> Self {
                <$t>::mul_add(self, factor, addend)
            }
            #[inline(always)]
            fn mul(self, factor: Self) -> Self {
                self * factor
            }
            #[inline(always)]
            fn add(self, addend: Self) -> Self {
                self + addend
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
            fn activate(tier: IsaTier, activation: Activation, row: &mut [Self]) {
                $activate(tier, activation, row);
            }
            #[allow(private_interfaces)]
            fn kernels(tier: IsaTier) -> &'static Kernels<Self> {
                $kernels(tier)
            }
        }

        impl Storage for $t {
            type Compute = $t;
            const NATIVE: bool = true;
            const HALF: Option<usize> = None;
            const WIDEN_TALL: bool = false;
            const INTERLEAVED: bool = false;
            fn bytes(elements: &[Self]) -> &[u8] {
                bytemuck::cast_slice(elements)
            }
            #[inline(always)]
            fn widen(self) -> $t {
                self
            }
            #[inline(always)]
            fn widen_slice(source: &[Self], target: &mut [$t]) {
                target.copy_from_slice(source);
            }
            #[inline(always)]
            fn narrow_slice(source: &[$t], target: &mut [Self]) {
                target.copy_from_slice(source);
            }
        }
    };
}

compute!(f32, kernels_f32, activate_f32);
compute!(f64, kernels_f64, activate_f64);

/// Element type of operands and results: `f32`, `f64`, `f16`, `bf16`. The 16-bit types are widened to `f32` while
/// packing, and results are rounded once, to nearest even.
pub trait Storage: Element + sealed::Sealed {
    /// Type of accumulation.
    type Compute: Compute;
    /// Whether storage and accumulation are the same type.
    const NATIVE: bool;
    /// Position among the tables of tiles over panels of 16-bit elements.
    #[doc(hidden)]
    const HALF: Option<usize>;
    /// Whether widening in the tiles costs more than widening a panel once for many rows.
    #[doc(hidden)]
    const WIDEN_TALL: bool;
    /// Whether such panels hold columns of both vectors in turn.
    #[doc(hidden)]
    const INTERLEAVED: bool;
    /// The elements' memory.
    #[doc(hidden)]
    fn bytes(elements: &[Self]) -> &[u8];

    /// The element in the type of accumulation, exactly.
    fn widen(self) -> Self::Compute;
    /// As [`widen`](Self::widen), for slices of equal length.
    fn widen_slice(source: &[Self], target: &mut [Self::Compute]);
    /// Rounds to nearest even; slices of equal length.
    fn narrow_slice(source: &[Self::Compute], target: &mut [Self]);
}

macro_rules! half_storage {
    ($t:ty, $position:literal, $interleaved:literal, $widen:expr, $narrow:expr) => {
        impl Storage for $t {
            type Compute = f32;
            const NATIVE: bool = false;
            const HALF: Option<usize> = Some($position);
            const WIDEN_TALL: bool = !$interleaved;
            const INTERLEAVED: bool = $interleaved;
            fn bytes(elements: &[Self]) -> &[u8] {
                bytemuck::cast_slice(elements)
            }
            #[inline(always)]
            fn widen(self) -> f32 {
                self.to_f32()
            }
            fn widen_slice(source: &[Self], target: &mut [f32]) {
                $widen(source, target);
            }
            fn narrow_slice(source: &[f32], target: &mut [Self]) {
                $narrow(source, target);
            }
        }
    };
}

half_storage!(
    f16,
    0,
    false,
    |source: &[f16], target: &mut [f32]| source.convert_to_f32_slice(target),
    |source: &[f32], target: &mut [f16]| target.convert_from_f32_slice(source)
);
half_storage!(bf16, 1, true, widen_bf16, narrow_bf16);

fn widen_bf16(source: &[bf16], target: &mut [f32]) {
    for (x, y) in source.iter().zip(target) {
        *y = f32::from_bits(u32::from(x.to_bits()) << 16);
    }
}

/// To nearest even; NaN quieted.
fn narrow_bf16(source: &[f32], target: &mut [bf16]) {
    for (x, y) in source.iter().zip(target) {
        let bits = x.to_bits();
        let rounded = (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16;
        let quieted = (bits >> 16) as u16 | 0x40;
        *y = bf16::from_bits(if x.is_nan() { quieted } else { rounded });
    }
}
