use crate::VectorOps;
use half::{bf16, f16};

/// Vectors of twice as many lanes: pairs of `V`'s, low lanes first.
///
/// Every operation is done for both vectors in turn. A chain of dependent operations is thereby two independent ones
/// side by side, which hides their latency from processors that look less far ahead than the chain is long, and
/// questions to whole vectors are asked half as often.
#[derive(Debug, Clone, Copy)]
pub struct Paired<V>(pub V);

/// Methods of registers alone.
macro_rules! both {
    ($($name:ident($($argument:ident: $kind:ident),*) -> $result:ident;)*) => {$(
        #[inline(always)]
        fn $name(self, $($argument: Self::$kind),*) -> Self::$result {
            [self.0.$name($($argument[0]),*), self.0.$name($($argument[1]),*)]
        }
    )*};
}

/// Methods that make a vector of a number.
macro_rules! splat {
    ($($name:ident($number:ty) -> $result:ident;)*) => {$(
        #[inline(always)]
        fn $name(self, value: $number) -> Self::$result {
            [self.0.$name(value); 2]
        }
    )*};
}

/// Shifts by a constant.
macro_rules! shift {
    ($($name:ident($kind:ident);)*) => {$(
        #[inline(always)]
        fn $name<const BITS: i32>(self, a: Self::$kind) -> Self::$kind {
            [self.0.$name::<BITS>(a[0]), self.0.$name::<BITS>(a[1])]
        }
    )*};
}

/// Whole and partial loads and stores.
macro_rules! memory {
    ($($element:ty, $kind:ident, $lanes:ident, $load:ident, $store:ident, $load_partial:ident, $store_partial:ident;)*) => {$(
        #[inline(always)]
        fn $load(self, source: &[$element]) -> Self::$kind {
            let (low, high) = source[..2 * V::$lanes].split_at(V::$lanes);
            [self.0.$load(low), self.0.$load(high)]
        }

        #[inline(always)]
        fn $store(self, value: Self::$kind, target: &mut [$element]) {
            let (low, high) = target[..2 * V::$lanes].split_at_mut(V::$lanes);
            self.0.$store(value[0], low);
            self.0.$store(value[1], high);
        }

        #[inline(always)]
        fn $load_partial(self, source: &[$element], fill: $element) -> Self::$kind {
            let (low, high) = source.split_at(source.len().min(V::$lanes));
            [self.0.$load_partial(low, fill), self.0.$load_partial(high, fill)]
        }

        #[inline(always)]
        fn $store_partial(self, value: Self::$kind, target: &mut [$element]) {
            let (low, high) = target.split_at_mut(target.len().min(V::$lanes));
            self.0.$store_partial(value[0], low);
            self.0.$store_partial(value[1], high);
        }
    )*};
}

impl<V: VectorOps> VectorOps for Paired<V> {
    const F32_LANES: usize = 2 * V::F32_LANES;
    const F64_LANES: usize = 2 * V::F64_LANES;
    type F32 = [V::F32; 2];
    type I32 = [V::I32; 2];
    type M32 = [V::M32; 2];
    type F64 = [V::F64; 2];
    type I64 = [V::I64; 2];
    type M64 = [V::M64; 2];

    splat! {
        splat_f32(f32) -> F32;
        splat_i32(i32) -> I32;
        splat_f64(f64) -> F64;
        splat_i64(i64) -> I64;
    }

    both! {
        add_f32(a: F32, b: F32) -> F32;
        sub_f32(a: F32, b: F32) -> F32;
        mul_f32(a: F32, b: F32) -> F32;
        div_f32(a: F32, b: F32) -> F32;
        sqrt_f32(a: F32) -> F32;
        abs_f32(a: F32) -> F32;
        neg_f32(a: F32) -> F32;
        min_f32(a: F32, b: F32) -> F32;
        max_f32(a: F32, b: F32) -> F32;
        lt_f32(a: F32, b: F32) -> M32;
        le_f32(a: F32, b: F32) -> M32;
        eq_f32(a: F32, b: F32) -> M32;
        is_nan_f32(a: F32) -> M32;
        select_f32(mask: M32, a: F32, b: F32) -> F32;
        bits_f32(a: F32) -> I32;
        from_bits_f32(a: I32) -> F32;

        add_i32(a: I32, b: I32) -> I32;
        sub_i32(a: I32, b: I32) -> I32;
        and_i32(a: I32, b: I32) -> I32;
        or_i32(a: I32, b: I32) -> I32;
        xor_i32(a: I32, b: I32) -> I32;
        lt_i32(a: I32, b: I32) -> M32;
        eq_i32(a: I32, b: I32) -> M32;
        select_i32(mask: M32, a: I32, b: I32) -> I32;
        to_f32(a: I32) -> F32;
        and_m32(a: M32, b: M32) -> M32;
        or_m32(a: M32, b: M32) -> M32;
        not_m32(a: M32) -> M32;

        add_f64(a: F64, b: F64) -> F64;
        sub_f64(a: F64, b: F64) -> F64;
        mul_f64(a: F64, b: F64) -> F64;
        div_f64(a: F64, b: F64) -> F64;
        fma_f64(a: F64, b: F64, c: F64) -> F64;
        sqrt_f64(a: F64) -> F64;
        abs_f64(a: F64) -> F64;
        neg_f64(a: F64) -> F64;
        min_f64(a: F64, b: F64) -> F64;
        max_f64(a: F64, b: F64) -> F64;
        lt_f64(a: F64, b: F64) -> M64;
        le_f64(a: F64, b: F64) -> M64;
        eq_f64(a: F64, b: F64) -> M64;
        is_nan_f64(a: F64) -> M64;
        select_f64(mask: M64, a: F64, b: F64) -> F64;
        bits_f64(a: F64) -> I64;
        from_bits_f64(a: I64) -> F64;

        add_i64(a: I64, b: I64) -> I64;
        sub_i64(a: I64, b: I64) -> I64;
        and_i64(a: I64, b: I64) -> I64;
        or_i64(a: I64, b: I64) -> I64;
        xor_i64(a: I64, b: I64) -> I64;
        and_m64(a: M64, b: M64) -> M64;
        or_m64(a: M64, b: M64) -> M64;
        not_m64(a: M64) -> M64;
    }

    shift! {
        shl_i32(I32);
        shr_i32(I32);
        sar_i32(I32);
        shl_i64(I64);
        shr_i64(I64);
    }

    memory! {
        f32, F32, F32_LANES, load_f32, store_f32, load_partial_f32, store_partial_f32;
        f16, F32, F32_LANES, load_f16, store_f16, load_partial_f16, store_partial_f16;
        bf16, F32, F32_LANES, load_bf16, store_bf16, load_partial_bf16, store_partial_bf16;
        f64, F64, F64_LANES, load_f64, store_f64, load_partial_f64, store_partial_f64;
    }

    #[inline(always)]
    unsafe fn load_ptr_f32(self, source: *const f32) -> Self::F32 {
        // SAFETY: valid for twice as many elements by contract.
        unsafe {
            [
                self.0.load_ptr_f32(source),
                self.0.load_ptr_f32(source.add(V::F32_LANES)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn store_ptr_f32(self, value: Self::F32, target: *mut f32) {
        // SAFETY: valid for twice as many elements by contract.
        unsafe {
            self.0.store_ptr_f32(value[0], target);
            self.0.store_ptr_f32(value[1], target.add(V::F32_LANES));
        }
    }

    #[inline(always)]
    unsafe fn load_ptr_f64(self, source: *const f64) -> Self::F64 {
        // SAFETY: valid for twice as many elements by contract.
        unsafe {
            [
                self.0.load_ptr_f64(source),
                self.0.load_ptr_f64(source.add(V::F64_LANES)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn store_ptr_f64(self, value: Self::F64, target: *mut f64) {
        // SAFETY: valid for twice as many elements by contract.
        unsafe {
            self.0.store_ptr_f64(value[0], target);
            self.0.store_ptr_f64(value[1], target.add(V::F64_LANES));
        }
    }

    #[inline(always)]
    fn fma_f32(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32 {
        let results = [
            self.0.fma_f32(a[0], b[0], c[0]),
            self.0.fma_f32(a[1], b[1], c[1]),
        ];
        self.0.side_by_side_f32(results)
    }

    #[inline(always)]
    fn lookup8_f32(self, table: &[f32; 8], index: Self::I32) -> Self::F32 {
        [
            self.0.lookup8_f32(table, index[0]),
            self.0.lookup8_f32(table, index[1]),
        ]
    }

    #[inline(always)]
    fn any_m32(self, a: Self::M32) -> bool {
        self.0.any_m32(self.0.or_m32(a[0], a[1]))
    }

    #[inline(always)]
    fn any_m64(self, a: Self::M64) -> bool {
        self.0.any_m64(self.0.or_m64(a[0], a[1]))
    }

    #[inline(always)]
    fn widen_f64(self, a: Self::F32) -> (Self::F64, Self::F64) {
        let (first, second) = (self.0.widen_f64(a[0]), self.0.widen_f64(a[1]));
        if V::F32_LANES == V::F64_LANES {
            // One lane each, which stands in both of its results.
            let both = [first.0, second.0];
            (both, both)
        } else {
            ([first.0, first.1], [second.0, second.1])
        }
    }

    #[inline(always)]
    fn narrow_f64(self, low: Self::F64, high: Self::F64) -> Self::F32 {
        if V::F32_LANES == V::F64_LANES {
            [
                self.0.narrow_f64(low[0], low[0]),
                self.0.narrow_f64(low[1], low[1]),
            ]
        } else {
            [
                self.0.narrow_f64(low[0], low[1]),
                self.0.narrow_f64(high[0], high[1]),
            ]
        }
    }
}
