use crate::Compute;
use onl_cpu::IsaTier;
use onl_simd::math::{Gelu, Sigmoid, Tanh, UnaryF32, UnaryF64};
use onl_simd::{Isa, SimdOp, dispatch};

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

/// Every vector of a row; the lanes that the last one has too many hold 1.
macro_rules! each {
    (
        $row:expr, $isa:ident, $lanes:ident, $load:ident, $store:ident, $load_partial:ident, $store_partial:ident,
        |$x:ident| $body:expr
    ) => {
        let mut vectors = $row.chunks_exact_mut(I::$lanes);
        for vector in &mut vectors {
            let $x = $isa.$load(vector);
            let y = $body;
            $isa.$store(y, vector);
        }
        let rest = vectors.into_remainder();
        if !rest.is_empty() {
            let $x = $isa.$load_partial(rest, Compute::ONE);
            let y = $body;
            $isa.$store_partial(y, rest);
        }
    };
}

/// Applies an activation to a row in place; one per type of accumulation.
macro_rules! activate {
    (
        $name:ident, $apply:ident, $function:ident, $t:ty, $lanes:ident, $splat:ident, $load:ident, $store:ident,
        $load_partial:ident, $store_partial:ident, $lt:ident, $select:ident, $mul:ident
    ) => {
        struct $apply<'a>(Activation, &'a mut [$t]);

        impl SimdOp for $apply<'_> {
            type Output = ();

            #[inline(always)]
            fn eval<I: Isa>(self, isa: I) {
                let constant = |value: f32| isa.$splat(<$t>::from(value));
                match self.0 {
                    Activation::Identity => {}
                    Activation::Relu => {
                        let zero = constant(0.0);
                        each!(
                            self.1,
                            isa,
                            $lanes,
                            $load,
                            $store,
                            $load_partial,
                            $store_partial,
                            |x| { isa.$select(isa.$lt(x, zero), zero, x) }
                        );
                    }
                    Activation::LeakyRelu { slope } => {
                        let (zero, slope) = (constant(0.0), constant(slope));
                        each!(
                            self.1,
                            isa,
                            $lanes,
                            $load,
                            $store,
                            $load_partial,
                            $store_partial,
                            |x| { isa.$select(isa.$lt(x, zero), isa.$mul(slope, x), x) }
                        );
                    }
                    Activation::Clip { low, high } => {
                        let (low, high) = (constant(low), constant(high));
                        each!(
                            self.1,
                            isa,
                            $lanes,
                            $load,
                            $store,
                            $load_partial,
                            $store_partial,
                            |x| {
                                let raised = isa.$select(isa.$lt(x, low), low, x);
                                isa.$select(isa.$lt(high, raised), high, raised)
                            }
                        );
                    }
                    Activation::Sigmoid => {
                        each!(
                            self.1,
                            isa,
                            $lanes,
                            $load,
                            $store,
                            $load_partial,
                            $store_partial,
                            |x| { <Sigmoid as $function>::apply(isa, x) }
                        );
                    }
                    Activation::Tanh => {
                        each!(
                            self.1,
                            isa,
                            $lanes,
                            $load,
                            $store,
                            $load_partial,
                            $store_partial,
                            |x| { <Tanh as $function>::apply(isa, x) }
                        );
                    }
                    Activation::Gelu => {
                        each!(
                            self.1,
                            isa,
                            $lanes,
                            $load,
                            $store,
                            $load_partial,
                            $store_partial,
                            |x| { <Gelu as $function>::apply(isa, x) }
                        );
                    }
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
    UnaryF32,
    f32,
    F32_LANES,
    splat_f32,
    load_f32,
    store_f32,
    load_partial_f32,
    store_partial_f32,
    lt_f32,
    select_f32,
    mul_f32
);
activate!(
    activate_f64,
    ActivateF64,
    UnaryF64,
    f64,
    F64_LANES,
    splat_f64,
    load_f64,
    store_f64,
    load_partial_f64,
    store_partial_f64,
    lt_f64,
    select_f64,
    mul_f64
);
