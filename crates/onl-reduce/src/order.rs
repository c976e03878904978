//! Elements as integers that compare as the elements do: what selections (ArgMax, Hardmax, TopK) work on.

use bytemuck::{Pod, Zeroable};
use onl_tensor::{ElementType, TensorView, TensorViewMut};
use std::ops::BitXor;

/// An integer that stands for an element.
pub(crate) trait Key: Copy + Ord + BitXor<Output = Self> + Send + Sync + 'static {
    const LOWEST: Self;
    const HIGHEST: Self;
    const ZERO: Self;
    /// Bits of an infinity of the float type of this size; bf16 of the 16-bit types.
    const INFINITY: Self;
    /// Bits of an infinity of f16.
    const HALF_INFINITY: Self;
}

macro_rules! keys {
    ($($t:ty: $infinity:expr, $half:expr);*) => {$(
        impl Key for $t {
            const LOWEST: Self = <$t>::MIN;
            const HIGHEST: Self = <$t>::MAX;
            const ZERO: Self = 0;
            const INFINITY: Self = $infinity;
            const HALF_INFINITY: Self = $half;
        }
    )*};
}
keys!(
    i8: 0, 0; i16: 0x7f80, 0x7c00; i32: 0x7f80_0000, 0; i64: 0x7ff0_0000_0000_0000, 0
);

/// Which elements have the highest keys.
#[derive(Clone, Copy)]
pub(crate) struct Order<K> {
    /// All bits set when the smallest elements come first; the sign bit is the other way round for unsigned integers.
    flip: K,
    /// Key of a NaN.
    nan: K,
    /// Bits of infinity.
    infinity: K,
}

impl<K: Key> Order<K> {
    /// The largest elements first, or the smallest; a NaN before or after all others.
    pub(crate) fn new(element_type: ElementType, largest: bool, nan_first: bool) -> Self {
        use ElementType::{Float16, UInt8, UInt16, UInt32, UInt64};
        let flip = if largest {
            K::ZERO
        } else {
            K::LOWEST ^ K::HIGHEST
        };
        let unsigned = matches!(element_type, UInt8 | UInt16 | UInt32 | UInt64);
        Order {
            flip: if unsigned { flip ^ K::LOWEST } else { flip },
            nan: if nan_first { K::HIGHEST } else { K::LOWEST },
            infinity: if element_type == Float16 {
                K::HALF_INFINITY
            } else {
                K::INFINITY
            },
        }
    }
}

/// Elements as they are stored. Equal elements have equal keys; ±0 are equal.
pub(crate) trait Ordered: Pod + Send + Sync + 'static {
    type Key: Key;

    fn key(self, order: Order<Self::Key>) -> Self::Key;
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Ordered for $t {
            type Key = $t;

            #[inline(always)]
            fn key(self, order: Order<$t>) -> $t {
                self ^ order.flip
            }
        }
    )*};
}
integers!(i8 i16 i32 i64);

/// The bits of a float.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
pub(crate) struct Float<K>(K);

/// The magnitude, negated below zero: both zeros give 0, and no number gives an extreme integer, which is left for NaN.
macro_rules! floats {
    ($($key:ty)*) => {$(
        impl Ordered for Float<$key> {
            type Key = $key;

            #[inline(always)]
            fn key(self, order: Order<$key>) -> $key {
                let magnitude = self.0 & <$key>::MAX;
                let sign = self.0 >> (<$key>::BITS - 1);
                let key = ((magnitude ^ sign).wrapping_sub(sign)) ^ order.flip;
                if magnitude > order.infinity { order.nan } else { key }
            }
        }
    )*};
}
floats!(i16 i32 i64);

/// Elements of a tensor as they are stored; `T` has their size.
pub(crate) fn stored<'a, T: Ordered>(view: &TensorView<'a>) -> &'a [T] {
    bytemuck::cast_slice(view.bytes())
}

/// As [`stored`], to be written.
pub(crate) fn stored_mut<'a, T: Ordered>(view: &'a mut TensorViewMut<'_>) -> &'a mut [T] {
    bytemuck::cast_slice_mut(view.bytes_mut())
}

/// Calls a function that is generic over how elements are stored, its first type parameter.
macro_rules! for_ordered {
    ($element_type:expr, $operation:expr, $function:ident($($argument:expr),*)) => {{
        use $crate::order::Float;
        use onl_tensor::ElementType::*;
        match $element_type {
            Float32 => $function::<Float<i32>>($($argument),*),
            Float64 => $function::<Float<i64>>($($argument),*),
            Float16 | BFloat16 => $function::<Float<i16>>($($argument),*),
            Int8 | UInt8 => $function::<i8>($($argument),*),
            Int16 | UInt16 => $function::<i16>($($argument),*),
            Int32 | UInt32 => $function::<i32>($($argument),*),
            Int64 | UInt64 => $function::<i64>($($argument),*),
            element_type => Err($crate::ReduceError::ElementType {
                operation: $operation,
                element_type,
            }),
        }
    }};
}
pub(crate) use for_ordered;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_compare_as_numbers() {
        let ascending = [
            f32::NEG_INFINITY,
            f32::MIN,
            -1.0,
            -1e-45,
            0.0,
            1e-45,
            1.0,
            f32::MAX,
            f32::INFINITY,
        ];
        let key = |x: f32, order| Float(x.to_bits() as i32).key(order);
        let up = Order::new(ElementType::Float32, true, true);
        let down = Order::new(ElementType::Float32, false, false);
        for pair in ascending.windows(2) {
            assert!(key(pair[0], up) < key(pair[1], up));
            assert!(key(pair[0], down) > key(pair[1], down));
        }
        assert_eq!(key(-0.0, up), key(0.0, up));
        assert_eq!(key(-0.0, down), key(0.0, down));
        assert!(key(f32::INFINITY, up) < key(f32::NAN, up));
        assert!(key(f32::INFINITY, down) > key(-f32::NAN, down));
        let half = Order::new(ElementType::Float16, true, true);
        let short = |bits: u16| Float(bits as i16).key(half);
        assert!(short(0xfc00) < short(0x8000) && short(0x7c00) < short(0x7c01));
        let bytes = Order::new(ElementType::UInt8, false, true);
        assert!((200u8 as i8).key(bytes) < 3i8.key(bytes));
        let signed = Order::new(ElementType::Int64, false, true);
        assert!((-5i64).key(signed) > 5i64.key(signed));
    }
}
