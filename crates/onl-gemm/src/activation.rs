use onl_cpu::IsaTier;
use onl_simd::math::{
    FunctionF32, FunctionF64, Gelu, Of, Sigmoid, Tanh, map_in_place_f32, map_in_place_f64,
};
use onl_simd::{Isa, SimdOp, VectorOps, dispatch};

/// The last step of an epilogue, in the type of accumulation. NaN stays NaN.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Activation {
    /// x.
    #[default]
    Identity,
    /// 0 where x < 0, else x.
    Relu,
    /// `slope · x` where x < 0, else x.
    LeakyRelu {
        /// Factor of negative elements.
        slope: f32,
    },
    /// x, but not below `low`, and then not above `high`.
    Clip {
        /// Lower limit.
        low: f32,
        /// Upper limit.
        high: f32,
    },
    /// 1 / (1 + exp(−x)).
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// x · (1 + erf(x / √2)) / 2.
    Gelu,
}

/// 0 where x < 0, else x.
#[derive(Clone, Copy)]
struct Relu;

/// `slope · x` where x < 0, else x.
#[derive(Clone, Copy)]
struct LeakyRelu {
    slope: f32,
}

/// x, but not below `low`, and then not above `high`.
#[derive(Clone, Copy)]
struct Clip {
    low: f32,
    high: f32,
}

/// The functions without a transcendental part for a type of accumulation, and an activation of a row in place.
macro_rules! activate {
    (
        $name:ident, $apply:ident, $function:ident, $t:ty, $vector:ident, $splat:ident, $lt:ident, $select:ident,
        $mul:ident, $map:ident
    ) => {
        impl $function for Relu {
            #[inline(always)]
            fn apply<V: VectorOps>(self, ops: V, x: V::$vector) -> V::$vector {
                let zero = ops.$splat(0.0);
                ops.$select(ops.$lt(x, zero), zero, x)
            }
        }

        impl $function for LeakyRelu {
            #[inline(always)]
            fn apply<V: VectorOps>(self, ops: V, x: V::$vector) -> V::$vector {
                let slope = ops.$splat(<$t>::from(self.slope));
                ops.$select(ops.$lt(x, ops.$splat(0.0)), ops.$mul(slope, x), x)
            }
        }

        impl $function for Clip {
            #[inline(always)]
            fn apply<V: VectorOps>(self, ops: V, x: V::$vector) -> V::$vector {
                let (low, high) = (
                    ops.$splat(<$t>::from(self.low)),
                    ops.$splat(<$t>::from(self.high)),
                );
                let raised = ops.$select(ops.$lt(x, low), low, x);
                ops.$select(ops.$lt(high, raised), high, raised)
            }
        }

        struct $apply<'a>(Activation, &'a mut [$t]);

        impl SimdOp for $apply<'_> {
            type Output = ();

            #[inline(always)]
            fn eval<I: Isa>(self, isa: I) {
                match self.0 {
                    Activation::Identity => {}
                    Activation::Relu => $map(isa, Relu, self.1),
                    Activation::LeakyRelu { slope } => $map(isa, LeakyRelu { slope }, self.1),
                    Activation::Clip { low, high } => $map(isa, Clip { low, high }, self.1),
                    Activation::Sigmoid => $map(isa, Of::<Sigmoid>::default(), self.1),
                    Activation::Tanh => $map(isa, Of::<Tanh>::default(), self.1),
                    Activation::Gelu => $map(isa, Of::<Gelu>::default(), self.1),
                }
            }
        }

        /// Applies an activation to a row in place.
        ///
        /// # Panics
        /// When the processor does not run the tier.
        pub(crate) fn $name(tier: IsaTier, activation: Activation, row: &mut [$t]) {
            dispatch(tier, $apply(activation, row));
        }
    };
}

activate!(
    activate_f32,
    ActivateF32,
    FunctionF32,
    f32,
    F32,
    splat_f32,
    lt_f32,
    select_f32,
    mul_f32,
    map_in_place_f32
);
activate!(
    activate_f64,
    ActivateF64,
    FunctionF64,
    f64,
    F64,
    splat_f64,
    lt_f64,
    select_f64,
    mul_f64,
    map_in_place_f64
);
