//! Floats that are computed with, and elements that are loaded as them.

use crate::exponential;
use onl_simd::{Isa, MAXIMUM_F32_LANES, Scalar, math};
use onl_tensor::{Element, bf16, f16};

/// f32 or f64: what reductions compute in. Functions are those of [`Isa`], with the type as a parameter.
pub(crate) trait Real: Numeric<Real = Self> + PartialOrd {
    /// A vector.
    type V<I: Isa>: Copy;
    /// A mask over the lanes of a vector.
    type M<I: Isa>: Copy;
    /// 64 virtual lanes.
    type X64<I: Isa>: Copy + AsRef<[Self::V<I>]> + AsMut<[Self::V<I>]>;

    const ZERO: Self;
    const NEGATIVE_ZERO: Self;
    const ONE: Self;
    const INFINITY: Self;
    const NEGATIVE_INFINITY: Self;

    fn from_count(count: usize) -> Self;
    fn from_f32(x: f32) -> Self;
    fn from_f64(x: f64) -> Self;
    fn narrow(self) -> f32;
    fn to_f64(self) -> f64;
    /// Rounded sum.
    fn plus(self, other: Self) -> Self;
    /// Rounded product.
    fn times(self, other: Self) -> Self;
    fn finite(self) -> bool;
    fn lanes<I: Isa>() -> usize;
    fn splat<I: Isa>(isa: I, x: Self) -> Self::V<I>;
    fn splat64<I: Isa>(isa: I, x: Self) -> Self::X64<I>;
    fn add<I: Isa>(isa: I, a: Self::V<I>, b: Self::V<I>) -> Self::V<I>;
    fn sub<I: Isa>(isa: I, a: Self::V<I>, b: Self::V<I>) -> Self::V<I>;
    fn mul<I: Isa>(isa: I, a: Self::V<I>, b: Self::V<I>) -> Self::V<I>;
    fn div<I: Isa>(isa: I, a: Self::V<I>, b: Self::V<I>) -> Self::V<I>;
    fn fma<I: Isa>(isa: I, a: Self::V<I>, b: Self::V<I>, c: Self::V<I>) -> Self::V<I>;
    fn sqrt<I: Isa>(isa: I, a: Self::V<I>) -> Self::V<I>;
    fn abs<I: Isa>(isa: I, a: Self::V<I>) -> Self::V<I>;
    fn min<I: Isa>(isa: I, a: Self::V<I>, b: Self::V<I>) -> Self::V<I>;
    fn max<I: Isa>(isa: I, a: Self::V<I>, b: Self::V<I>) -> Self::V<I>;
    fn is_nan<I: Isa>(isa: I, a: Self::V<I>) -> Self::M<I>;
    fn is_equal<I: Isa>(isa: I, a: Self::V<I>, b: Self::V<I>) -> Self::M<I>;
    fn select<I: Isa>(isa: I, mask: Self::M<I>, a: Self::V<I>, b: Self::V<I>) -> Self::V<I>;
    /// Lane i gets lane i xor `STEP`.
    fn swap<I: Isa, const STEP: usize>(isa: I, a: Self::V<I>) -> Self::V<I>;
    /// Exponentials of lanes that are at most 0, or NaN.
    fn exp<I: Isa>(isa: I, a: Self::V<I>) -> Self::V<I>;
    /// As [`exp`](Self::exp).
    fn exp64<I: Isa>(isa: I, a: Self::X64<I>) -> Self::X64<I>;
    /// Writes the exponentials of a row less `shift`, which no element exceeds. `masked` begins false and is kept from
    /// row to row.
    fn exp_row<T: Numeric<Real = Self>, I: Isa>(
        isa: I,
        source: &[T],
        shift: Self,
        target: &mut [Self],
        masked: &mut bool,
    );
    fn log<I: Isa>(isa: I, a: Self::V<I>) -> Self::V<I>;

    /// One element through a vector function.
    #[inline(always)]
    fn one(self, function: impl Fn(Scalar, Self::V<Scalar>) -> Self::V<Scalar>) -> Self {
        let isa = Scalar::new();
        let mut result = [self];
        Self::store(isa, function(isa, Self::splat(isa, self)), &mut result);
        result[0]
    }

    /// Natural logarithm.
    fn ln(self) -> Self {
        self.one(|isa, x| Self::log(isa, x))
    }

    /// Square root.
    fn root(self) -> Self {
        self.one(|isa, x| Self::sqrt(isa, x))
    }

    /// Quotient.
    fn over(self, divisor: Self) -> Self {
        self.one(|isa, x| Self::div(isa, x, Self::splat(isa, divisor)))
    }
}

/// An element type that is loaded as a [`Real`] and stored rounded once.
pub(crate) trait Numeric: Element {
    type Real: Real;

    fn widen(self) -> Self::Real;
    /// The elements as what they are computed in, when that is the same type.
    fn as_reals(elements: &mut [Self]) -> Option<&mut [Self::Real]>;
    fn round(x: Self::Real) -> Self;
    /// The first lanes of `source`, which has at least as many.
    fn load<I: Isa>(isa: I, source: &[Self]) -> <Self::Real as Real>::V<I>;
    /// All of `source`, at most as many as lanes; the rest is filled.
    fn load_partial<I: Isa>(
        isa: I,
        source: &[Self],
        fill: Self::Real,
    ) -> <Self::Real as Real>::V<I>;
    fn store<I: Isa>(isa: I, x: <Self::Real as Real>::V<I>, target: &mut [Self]);
    fn store_partial<I: Isa>(isa: I, x: <Self::Real as Real>::V<I>, target: &mut [Self]);
}

#[inline(always)]
fn exp64_double<I: Isa>(isa: I, mut x: I::F64x64) -> I::F64x64 {
    for vector in x.as_mut() {
        *vector = math::double::exp(isa, *vector);
    }
    x
}

macro_rules! reals {
    ($t:ident, $v:ident, $m:ident, $x64:ident, $lanes:ident, $exp:path, $exp64:path, $exp_row:ident, $log:path;
     $($method:ident = $isa_method:ident ($($argument:ident),*);)*
     [$splat:ident $splat64:ident $is_nan:ident $is_equal:ident $select:ident $swap:ident
      $load:ident $load_partial:ident $store:ident $store_partial:ident]) => {
        impl Real for $t {
            type V<I: Isa> = I::$v;
            type M<I: Isa> = I::$m;
            type X64<I: Isa> = I::$x64;

            const ZERO: Self = 0.0;
            const NEGATIVE_ZERO: Self = -0.0;
            const ONE: Self = 1.0;
            const INFINITY: Self = $t::INFINITY;
            const NEGATIVE_INFINITY: Self = $t::NEG_INFINITY;

            fn from_count(count: usize) -> Self { count as $t }
            fn from_f32(x: f32) -> Self { x as $t }
            fn from_f64(x: f64) -> Self { x as $t }
            fn narrow(self) -> f32 { self as f32 }
            fn to_f64(self) -> f64 { f64::from(self) }
            #[inline(always)]
            fn plus(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn times(self, other: Self) -> Self { self * other }
            fn finite(self) -> bool { self.is_finite() }
            #[inline(always)]
            fn lanes<I: Isa>() -> usize { I::$lanes }
            #[inline(always)]
            fn splat<I: Isa>(isa: I, x: Self) -> Self::V<I> { isa.$splat(x) }
            #[inline(always)]
            fn splat64<I: Isa>(isa: I, x: Self) -> Self::X64<I> { isa.$splat64(x) }
            $(#[inline(always)]
            fn $method<I: Isa>(isa: I, $($argument: Self::V<I>),*) -> Self::V<I> {
                isa.$isa_method($($argument),*)
            })*
            #[inline(always)]
            fn is_nan<I: Isa>(isa: I, a: Self::V<I>) -> Self::M<I> { isa.$is_nan(a) }
            #[inline(always)]
            fn is_equal<I: Isa>(isa: I, a: Self::V<I>, b: Self::V<I>) -> Self::M<I> { isa.$is_equal(a, b) }
            #[inline(always)]
            fn select<I: Isa>(isa: I, mask: Self::M<I>, a: Self::V<I>, b: Self::V<I>) -> Self::V<I> {
                isa.$select(mask, a, b)
            }
            #[inline(always)]
            fn swap<I: Isa, const STEP: usize>(isa: I, a: Self::V<I>) -> Self::V<I> {
                isa.$swap::<STEP>(a)
            }
            #[inline(always)]
            fn exp<I: Isa>(isa: I, a: Self::V<I>) -> Self::V<I> { $exp(isa, a) }
            #[inline(always)]
            fn exp64<I: Isa>(isa: I, a: Self::X64<I>) -> Self::X64<I> { $exp64(isa, a) }
            #[inline(always)]
            fn exp_row<T: Numeric<Real = Self>, I: Isa>(
                isa: I, source: &[T], shift: Self, target: &mut [Self], masked: &mut bool,
            ) {
                exponential::$exp_row(isa, source, shift, target, masked);
            }
            #[inline(always)]
            fn log<I: Isa>(isa: I, a: Self::V<I>) -> Self::V<I> { $log(isa, a) }
        }

        impl Numeric for $t {
            type Real = $t;
            fn widen(self) -> $t { self }
            fn as_reals(elements: &mut [$t]) -> Option<&mut [$t]> { Some(elements) }
            fn round(x: $t) -> $t { x }
            #[inline(always)]
            fn load<I: Isa>(isa: I, source: &[$t]) -> I::$v { isa.$load(source) }
            #[inline(always)]
            fn load_partial<I: Isa>(isa: I, source: &[$t], fill: $t) -> I::$v {
                isa.$load_partial(source, fill)
            }
            #[inline(always)]
            fn store<I: Isa>(isa: I, x: I::$v, target: &mut [$t]) { isa.$store(x, target) }
            #[inline(always)]
            fn store_partial<I: Isa>(isa: I, x: I::$v, target: &mut [$t]) {
                isa.$store_partial(x, target)
            }
        }
    };
}

reals! {
    f32, F32, M32, F32x64, F32_LANES, exponential::exp, exponential::exp64, row, math::log;
    add = add_f32(a, b); sub = sub_f32(a, b); mul = mul_f32(a, b); div = div_f32(a, b);
    fma = fma_f32(a, b, c); sqrt = sqrt_f32(a); abs = abs_f32(a); min = min_f32(a, b); max = max_f32(a, b);
    [splat_f32 splat_f32x64 is_nan_f32 eq_f32 select_f32 swap_f32
     load_f32 load_partial_f32 store_f32 store_partial_f32]
}
reals! {
    f64, F64, M64, F64x64, F64_LANES, math::double::exp, exp64_double, row_f64, math::double::log;
    add = add_f64(a, b); sub = sub_f64(a, b); mul = mul_f64(a, b); div = div_f64(a, b);
    fma = fma_f64(a, b, c); sqrt = sqrt_f64(a); abs = abs_f64(a); min = min_f64(a, b); max = max_f64(a, b);
    [splat_f64 splat_f64x64 is_nan_f64 eq_f64 select_f64 swap_f64
     load_f64 load_partial_f64 store_f64 store_partial_f64]
}

macro_rules! short_floats {
    ($t:ident, $load:ident, $store:ident, $store_partial:ident) => {
        impl Numeric for $t {
            type Real = f32;
            fn widen(self) -> f32 {
                self.to_f32()
            }
            fn as_reals(_: &mut [$t]) -> Option<&mut [f32]> {
                None
            }
            fn round(x: f32) -> $t {
                $t::from_f32(x)
            }
            #[inline(always)]
            fn load<I: Isa>(isa: I, source: &[$t]) -> I::F32 {
                isa.$load(source)
            }
            #[inline(always)]
            fn load_partial<I: Isa>(isa: I, source: &[$t], fill: f32) -> I::F32 {
                // A fill may be any f32, which the narrow type need not hold.
                let mut lanes = [fill; MAXIMUM_F32_LANES];
                for (lane, x) in lanes.iter_mut().zip(source) {
                    *lane = x.to_f32();
                }
                isa.load_f32(&lanes)
            }
            #[inline(always)]
            fn store<I: Isa>(isa: I, x: I::F32, target: &mut [$t]) {
                isa.$store(x, target)
            }
            #[inline(always)]
            fn store_partial<I: Isa>(isa: I, x: I::F32, target: &mut [$t]) {
                isa.$store_partial(x, target)
            }
        }
    };
}
short_floats!(f16, load_f16, store_f16, store_partial_f16);
short_floats!(bf16, load_bf16, store_bf16, store_partial_bf16);

/// Calls a function that is generic over the element type, its first type parameter.
macro_rules! for_floats {
    ($element_type:expr, $operation:expr, $function:ident($($argument:expr),*)) => {
        match $element_type {
            ElementType::Float32 => $function::<f32>($($argument),*),
            ElementType::Float64 => $function::<f64>($($argument),*),
            ElementType::Float16 => $function::<f16>($($argument),*),
            ElementType::BFloat16 => $function::<bf16>($($argument),*),
            element_type => Err(ReduceError::ElementType {
                operation: $operation,
                element_type,
            }),
        }
    };
}
pub(crate) use for_floats;
