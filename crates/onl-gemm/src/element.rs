use crate::Activation;
use crate::activation::{activate_f32, activate_f64};
use crate::tile::{Kernels, kernels_f32, kernels_f64};
use onl_cpu::IsaTier;
use onl_simd::{Isa, SimdOp, dispatch};
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
    /// Applies an activation in place, by the body of a tier that the processor runs.
    fn activate(tier: IsaTier, activation: Activation, elements: &mut [Self]);
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
            fn activate(tier: IsaTier, activation: Activation, elements: &mut [Self]) {
                $activate(tier, activation, elements);
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
            const INTERLEAVED: bool = false;
            fn bytes(elements: &[Self]) -> &[u8] {
                bytemuck::cast_slice(elements)
            }
            #[inline(always)]
            fn widen(self) -> $t {
                self
            }
            #[inline(always)]
            fn widen_slice(_: IsaTier, source: &[Self], target: &mut [$t]) {
                target.copy_from_slice(source);
            }
            #[allow(private_interfaces)]
            fn narrow_rows(_: IsaTier, rows: Rows<$t, Self>) {
                for row in 0..rows.rows {
                    // SAFETY: one row at a time.
                    let (source, target) = unsafe { rows.row(row) };
                    target.copy_from_slice(source);
                }
            }
            #[inline(always)]
            fn narrow_slice(_: IsaTier, source: &[$t], target: &mut [Self]) {
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
    /// Whether such panels hold columns of both vectors in turn.
    #[doc(hidden)]
    const INTERLEAVED: bool;
    /// The elements' memory.
    #[doc(hidden)]
    fn bytes(elements: &[Self]) -> &[u8];

    /// The element in the type of accumulation, exactly.
    fn widen(self) -> Self::Compute;
    /// As [`widen`](Self::widen), for slices of equal length, by the body of a tier that the processor runs.
    fn widen_slice(tier: IsaTier, source: &[Self], target: &mut [Self::Compute]);
    /// Rounds to nearest even; slices of equal length, by the body of a tier that the processor runs.
    fn narrow_slice(tier: IsaTier, source: &[Self::Compute], target: &mut [Self]);
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn narrow_rows(tier: IsaTier, rows: Rows<Self::Compute, Self>);
}

/// Rows of equal length, to be converted.
pub(crate) struct Rows<T, S> {
    source: *const T,
    source_stride: usize,
    target: *mut S,
    target_stride: usize,
    rows: usize,
    columns: usize,
}

impl<T, S> Rows<T, S> {
    /// Rows that begin at these pointers, as many elements apart as the strides say.
    ///
    /// # Safety
    /// While this lives, the source is valid for reading and the target for writing all rows; rows of the target
    /// overlap neither each other nor the source, and nobody else accesses them.
    pub unsafe fn new(
        (source, source_stride): (*const T, usize),
        (target, target_stride): (*mut S, usize),
        rows: usize,
        columns: usize,
    ) -> Self {
        Rows {
            source,
            source_stride,
            target,
            target_stride,
            rows,
            columns,
        }
    }

    /// # Safety
    /// `row` is below the number of rows; no other reference to its target lives.
    #[inline(always)]
    unsafe fn row<'a>(&self, row: usize) -> (&'a [T], &'a mut [S]) {
        // SAFETY: promised to `new`.
        unsafe {
            (
                std::slice::from_raw_parts(self.source.add(row * self.source_stride), self.columns),
                std::slice::from_raw_parts_mut(
                    self.target.add(row * self.target_stride),
                    self.columns,
                ),
            )
        }
    }
}

/// Conversions of slices by vectors, and the type that is stored with them.
macro_rules! half_storage {
    (
        $t:ty, $position:literal, $interleaved:literal, $widen:ident, $narrow:ident, $load:ident, $store:ident,
        $load_partial:ident, $store_partial:ident
    ) => {
        struct $widen<'a>(&'a [$t], &'a mut [f32]);

        impl SimdOp for $widen<'_> {
            type Output = ();

            #[inline(always)]
            fn eval<I: Isa>(self, isa: I) {
                let mut sources = self.0.chunks_exact(I::F32_LANES);
                let mut targets = self.1.chunks_exact_mut(I::F32_LANES);
                for (source, target) in (&mut sources).zip(&mut targets) {
                    isa.store_f32(isa.$load(source), target);
                }
                let (source, target) = (sources.remainder(), targets.into_remainder());
                if !source.is_empty() {
                    isa.store_partial_f32(isa.$load_partial(source, <$t>::ZERO), target);
                }
            }
        }

        struct $narrow<'a>(&'a [f32], &'a mut [$t]);

        impl $narrow<'_> {
            #[inline(always)]
            fn row<I: Isa>(self, isa: I) {
                let mut sources = self.0.chunks_exact(I::F32_LANES);
                let mut targets = self.1.chunks_exact_mut(I::F32_LANES);
                for (source, target) in (&mut sources).zip(&mut targets) {
                    isa.$store(isa.load_f32(source), target);
                }
                let (source, target) = (sources.remainder(), targets.into_remainder());
                if !source.is_empty() {
                    isa.$store_partial(isa.load_partial_f32(source, 0.0), target);
                }
            }
        }

        impl SimdOp for $narrow<'_> {
            type Output = ();

            #[inline(always)]
            fn eval<I: Isa>(self, isa: I) {
                self.row(isa);
            }
        }

        impl SimdOp for Rows<f32, $t> {
            type Output = ();

            #[inline(always)]
            fn eval<I: Isa>(self, isa: I) {
                for row in 0..self.rows {
                    // SAFETY: one row at a time.
                    let (source, target) = unsafe { self.row(row) };
                    $narrow(source, target).row(isa);
                }
            }
        }

        impl Storage for $t {
            type Compute = f32;
            const NATIVE: bool = false;
            const HALF: Option<usize> = Some($position);
            const INTERLEAVED: bool = $interleaved;
            fn bytes(elements: &[Self]) -> &[u8] {
                bytemuck::cast_slice(elements)
            }
            #[inline(always)]
            fn widen(self) -> f32 {
                self.to_f32()
            }
            fn widen_slice(tier: IsaTier, source: &[Self], target: &mut [f32]) {
                dispatch(tier, $widen(source, target));
            }
            fn narrow_slice(tier: IsaTier, source: &[f32], target: &mut [Self]) {
                dispatch(tier, $narrow(source, target));
            }
            #[allow(private_interfaces)]
            fn narrow_rows(tier: IsaTier, rows: Rows<f32, Self>) {
                dispatch(tier, rows);
            }
        }
    };
}

half_storage!(
    f16,
    0,
    false,
    WidenF16,
    NarrowF16,
    load_f16,
    store_f16,
    load_partial_f16,
    store_partial_f16
);
half_storage!(
    bf16,
    1,
    true,
    WidenBf16,
    NarrowBf16,
    load_bf16,
    store_bf16,
    load_partial_bf16,
    store_partial_bf16
);
