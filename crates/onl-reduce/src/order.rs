//! Elements as integers that compare as the elements do: what selections (ArgMax, Hardmax, TopK) work on.

use onl_tensor::{Element, bf16, f16};
use std::ops::BitXor;

/// An integer that stands for an element.
pub(crate) trait Key: Copy + Ord + BitXor<Output = Self> + Send + Sync + 'static {
    const LOWEST: Self;
    const HIGHEST: Self;
    const ZERO: Self;
}

macro_rules! keys {
    ($($t:ty)*) => {$(
        impl Key for $t {
            const LOWEST: Self = <$t>::MIN;
            const HIGHEST: Self = <$t>::MAX;
            const ZERO: Self = 0;
        }
    )*};
}
keys!(i8 i16 i32 i64 u8 u16 u32 u64);

/// Which elements have the highest keys.
#[derive(Clone, Copy)]
pub(crate) struct Order<K> {
    /// All bits set when the smallest elements come first.
    flip: K,
    /// Key of a NaN.
    nan: K,
}

impl<K: Key> Order<K> {
    /// The largest elements first, or the smallest; a NaN before or after all others.
    pub(crate) fn new(largest: bool, nan_first: bool) -> Self {
        Order {
            flip: if largest {
                K::ZERO
            } else {
                K::LOWEST ^ K::HIGHEST
            },
            nan: if nan_first { K::HIGHEST } else { K::LOWEST },
        }
    }
}

/// An element with a key. Equal elements have equal keys; ±0 are equal.
pub(crate) trait Ordered: Element {
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
integers!(i8 i16 i32 i64 u8 u16 u32 u64);

/// The magnitude, negated below zero: both zeros give 0, and no number gives an extreme integer, which is left for NaN.
macro_rules! floats {
    ($($t:ty: $key:ty, $infinity:expr;)*) => {$(
        impl Ordered for $t {
            type Key = $key;

            #[inline(always)]
            fn key(self, order: Order<$key>) -> $key {
                let bits = self.to_bits() as $key;
                let magnitude = bits & <$key>::MAX;
                let sign = bits >> (<$key>::BITS - 1);
                let key = ((magnitude ^ sign).wrapping_sub(sign)) ^ order.flip;
                if magnitude > $infinity { order.nan } else { key }
            }
        }
    )*};
}
floats! {
    f32: i32, 0x7f80_0000;
    f64: i64, 0x7ff0_0000_0000_0000;
    f16: i16, 0x7c00;
    bf16: i16, 0x7f80;
}

/// Calls a generic function for the element type of a selection.
macro_rules! for_ordered {
    ($element_type:expr, $operation:expr, $function:ident($($argument:expr),*)) => {
        match $element_type {
            onl_tensor::ElementType::Float32 => $function::<f32>($($argument),*),
            onl_tensor::ElementType::Float64 => $function::<f64>($($argument),*),
            onl_tensor::ElementType::Float16 => $function::<onl_tensor::f16>($($argument),*),
            onl_tensor::ElementType::BFloat16 => $function::<onl_tensor::bf16>($($argument),*),
            onl_tensor::ElementType::Int8 => $function::<i8>($($argument),*),
            onl_tensor::ElementType::Int16 => $function::<i16>($($argument),*),
            onl_tensor::ElementType::Int32 => $function::<i32>($($argument),*),
            onl_tensor::ElementType::Int64 => $function::<i64>($($argument),*),
            onl_tensor::ElementType::UInt8 => $function::<u8>($($argument),*),
            onl_tensor::ElementType::UInt16 => $function::<u16>($($argument),*),
            onl_tensor::ElementType::UInt32 => $function::<u32>($($argument),*),
            onl_tensor::ElementType::UInt64 => $function::<u64>($($argument),*),
            element_type => Err($crate::ReduceError::ElementType {
                operation: $operation,
                element_type,
            }),
        }
    };
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
        let up = Order::new(true, true);
        let down = Order::new(false, false);
        for pair in ascending.windows(2) {
            assert!(pair[0].key(up) < pair[1].key(up));
            assert!(pair[0].key(down) > pair[1].key(down));
        }
        assert_eq!((-0.0f32).key(up), 0.0f32.key(up));
        assert_eq!((-0.0f32).key(down), 0.0f32.key(down));
        assert!(f32::INFINITY.key(up) < f32::NAN.key(up));
        assert!(f32::INFINITY.key(down) > (-f32::NAN).key(down));
        assert!(
            f16::NEG_INFINITY.key(Order::new(true, true))
                < f16::NEG_ZERO.key(Order::new(true, true))
        );
        assert!(bf16::ONE.key(Order::new(true, true)) < bf16::INFINITY.key(Order::new(true, true)));
        assert!(200u8.key(Order::new(false, true)) < 3u8.key(Order::new(false, true)));
        assert!((-5i64).key(Order::new(false, true)) > 5i64.key(Order::new(false, true)));
    }
}
