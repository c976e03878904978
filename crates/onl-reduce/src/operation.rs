use crate::real::Real;
use onl_simd::Isa;

/// Which reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReduceKind {
    /// Σ x.
    Sum,
    /// Σ x / n; integers divide toward zero.
    Mean,
    /// Largest element; NaN if there is one.
    Max,
    /// Smallest element; NaN if there is one.
    Min,
    /// Π x.
    Prod,
    /// Σ |x|.
    L1,
    /// √(Σ x²).
    L2,
    /// Σ x².
    SumSquare,
    /// ln Σ x.
    LogSum,
    /// ln Σ eˣ, computed as m + ln Σ eˣ⁻ᵐ with the maximum m, or 0 when that is not finite.
    LogSumExp,
}

impl ReduceKind {
    /// Operator type without `Reduce`.
    pub const fn name(self) -> &'static str {
        match self {
            ReduceKind::Sum => "Sum",
            ReduceKind::Mean => "Mean",
            ReduceKind::Max => "Max",
            ReduceKind::Min => "Min",
            ReduceKind::Prod => "Prod",
            ReduceKind::L1 => "L1",
            ReduceKind::L2 => "L2",
            ReduceKind::SumSquare => "SumSquare",
            ReduceKind::LogSum => "LogSum",
            ReduceKind::LogSumExp => "LogSumExp",
        }
    }

    /// What a reduction of nothing gives before [`finish`](Self::finish).
    pub(crate) fn empty<R: Real>(self) -> R {
        match self {
            ReduceKind::Prod => R::ONE,
            ReduceKind::Max => R::NEGATIVE_INFINITY,
            ReduceKind::Min => R::INFINITY,
            _ => R::ZERO,
        }
    }

    /// The result from the merged blocks of a row of `count` elements. `shift` is what was subtracted before
    /// exponentials.
    pub(crate) fn finish<R: Real>(self, total: R, count: usize, shift: R) -> R {
        match self {
            ReduceKind::Mean => total.over(R::from_count(count)),
            ReduceKind::L2 => total.root(),
            ReduceKind::LogSum => total.ln(),
            ReduceKind::LogSumExp => {
                let logarithm = total.ln();
                logarithm.one(|isa, x| R::add(isa, R::splat(isa, shift), x))
            }
            _ => total,
        }
    }
}

/// The inner operation of a reduction.
pub(crate) trait Operation<R: Real>: Copy + Send + Sync + 'static {
    /// What a lane starts from: combining it with x gives x.
    const START: R;

    /// What missing elements of the last vector are: accumulating it changes nothing.
    fn fill(shift: R) -> R;
    /// A lane's total with one element more. `shift` is a parameter of the output element.
    fn accumulate<I: Isa>(isa: I, total: R::V<I>, x: R::V<I>, shift: R::V<I>) -> R::V<I>;
    /// Two totals.
    fn combine<I: Isa>(isa: I, a: R::V<I>, b: R::V<I>) -> R::V<I>;
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident: $start:ident, |$parameter:ident| $fill:expr,
       |$isa:ident, $total:ident, $x:ident, $shift:ident| $accumulate:expr,
       |$a:ident, $b:ident| $combine:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name;

        impl<R: Real> Operation<R> for $name {
            const START: R = R::$start;

            #[inline(always)]
            fn fill($parameter: R) -> R {
                $fill
            }

            #[inline(always)]
            fn accumulate<I: Isa>($isa: I, $total: R::V<I>, $x: R::V<I>, $shift: R::V<I>) -> R::V<I> {
                $accumulate
            }

            #[inline(always)]
            fn combine<I: Isa>($isa: I, $a: R::V<I>, $b: R::V<I>) -> R::V<I> {
                $combine
            }
        }
    )*};
}

operations! {
    Sum: NEGATIVE_ZERO, |_shift| R::NEGATIVE_ZERO, |isa, total, x, _shift| R::add(isa, total, x), |a, b| R::add(isa, a, b);
    Product: ONE, |_shift| R::ONE, |isa, total, x, _shift| R::mul(isa, total, x), |a, b| R::mul(isa, a, b);
    AbsoluteSum: ZERO, |_shift| R::ZERO, |isa, total, x, _shift| R::add(isa, total, R::abs(isa, x)), |a, b| R::add(isa, a, b);
    SquareSum: ZERO, |_shift| R::ZERO, |isa, total, x, _shift| R::fma(isa, x, x, total), |a, b| R::add(isa, a, b);
    /// Σ (x − shift)². An infinite shift gives ∞ or NaN for every element, the filled ones too.
    CentredSquareSum: ZERO, |shift| if shift.finite() { shift } else { R::ZERO }, |isa, total, x, shift| {
        let d = R::sub(isa, x, shift);
        R::fma(isa, d, d, total)
    }, |a, b| R::add(isa, a, b);
    /// Σ eˣ⁻ˢʰⁱᶠᵗ.
    ExponentialSum: ZERO, |_shift| R::NEGATIVE_INFINITY, |isa, total, x, shift| {
        R::add(isa, total, R::exp(isa, R::sub(isa, x, shift)))
    }, |a, b| R::add(isa, a, b);
    Maximum: NEGATIVE_INFINITY, |_shift| R::NEGATIVE_INFINITY, |isa, total, x, _shift| maximum::<R, I>(isa, total, x),
        |a, b| maximum::<R, I>(isa, a, b);
    Minimum: INFINITY, |_shift| R::INFINITY, |isa, total, x, _shift| minimum::<R, I>(isa, total, x),
        |a, b| minimum::<R, I>(isa, a, b);
}

/// `a > b ? a : b`, and NaN when either is: a plain selection gives `b` then, which keeps a NaN of `b` only.
#[inline(always)]
pub(crate) fn maximum<R: Real, I: Isa>(isa: I, a: R::V<I>, b: R::V<I>) -> R::V<I> {
    R::select(isa, R::is_nan(isa, a), a, R::max(isa, a, b))
}

/// `a < b ? a : b`, and NaN when either is.
#[inline(always)]
pub(crate) fn minimum<R: Real, I: Isa>(isa: I, a: R::V<I>, b: R::V<I>) -> R::V<I> {
    R::select(isa, R::is_nan(isa, a), a, R::min(isa, a, b))
}
