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
    /// ln Σ eˣ, computed as m + ln Σ eˣ⁻ᵐ with the maximum m; m itself when that is not finite.
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
    #[inline(always)]
    pub(crate) fn finish<R: Real, I: Isa>(
        self,
        isa: I,
        total: R::V<I>,
        count: R::V<I>,
        shift: R::V<I>,
    ) -> R::V<I> {
        match self {
            ReduceKind::Mean => R::div(isa, total, count),
            ReduceKind::L2 => R::sqrt(isa, total),
            ReduceKind::LogSum => R::log(isa, total),
            ReduceKind::LogSumExp => {
                // Only of finite numbers is the difference to themselves 0.
                let zero = R::splat(isa, R::ZERO);
                let finite = R::is_equal(isa, R::sub(isa, shift, shift), zero);
                R::select(isa, finite, R::add(isa, shift, R::log(isa, total)), shift)
            }
            _ => total,
        }
    }

    /// Whether [`finish`](Self::finish) changes a total.
    pub(crate) fn has_finish(self) -> bool {
        matches!(
            self,
            ReduceKind::Mean | ReduceKind::L2 | ReduceKind::LogSum | ReduceKind::LogSumExp
        )
    }
}

/// The inner operation of a reduction.
pub(crate) trait Operation<R: Real>: Copy + Send + Sync + 'static {
    /// What a lane starts from: combining it with x gives x.
    const START: R;
    /// Whether the total of one element is that element.
    const PLAIN: bool = false;
    /// Whether the body is so small that it may be repeated for the lanes of a subtree.
    const SMALL: bool = true;

    /// What missing elements of the last vector are: accumulating it changes nothing.
    fn fill(shift: R) -> R;
    /// A lane's total with one element more. `shift` is a parameter of the output element.
    fn accumulate<I: Isa>(isa: I, total: R::V<I>, x: R::V<I>, shift: R::V<I>) -> R::V<I>;
    /// As [`accumulate`](Self::accumulate) with a vector that is filled up; `there` is 1 where it has an element and 0
    /// elsewhere.
    #[inline(always)]
    fn accumulate_part<I: Isa>(
        isa: I,
        total: R::V<I>,
        x: R::V<I>,
        shift: R::V<I>,
        there: R::V<I>,
    ) -> R::V<I> {
        let _ = there;
        Self::accumulate(isa, total, x, shift)
    }
    /// A lane's total with its first element.
    #[inline(always)]
    fn first<I: Isa>(isa: I, x: R::V<I>, shift: R::V<I>) -> R::V<I> {
        if Self::PLAIN {
            x
        } else {
            Self::accumulate(isa, R::splat(isa, Self::START), x, shift)
        }
    }
    /// 64 virtual lanes, each with one element more.
    #[inline(always)]
    fn accumulate64<I: Isa>(isa: I, totals: &mut R::X64<I>, x: R::X64<I>, shift: R::V<I>) {
        for (total, &x) in totals.as_mut().iter_mut().zip(x.as_ref()) {
            *total = Self::accumulate(isa, *total, x, shift);
        }
    }
    /// Two totals.
    fn combine<I: Isa>(isa: I, a: R::V<I>, b: R::V<I>) -> R::V<I>;
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident: $start:ident, $plain:literal, |$parameter:ident| $fill:expr,
       |$isa:ident, $total:ident, $x:ident, $shift:ident| $accumulate:expr,
       |$a:ident, $b:ident| $combine:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name;

        impl<R: Real> Operation<R> for $name {
            const START: R = R::$start;
            const PLAIN: bool = $plain;

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
    Sum: NEGATIVE_ZERO, true, |_shift| R::NEGATIVE_ZERO, |isa, total, x, _shift| R::add(isa, total, x), |a, b| R::add(isa, a, b);
    Product: ONE, true, |_shift| R::ONE, |isa, total, x, _shift| R::mul(isa, total, x), |a, b| R::mul(isa, a, b);
    AbsoluteSum: ZERO, false, |_shift| R::ZERO, |isa, total, x, _shift| R::add(isa, total, R::abs(isa, x)), |a, b| R::add(isa, a, b);
    SquareSum: ZERO, false, |_shift| R::ZERO, |isa, total, x, _shift| R::fma(isa, x, x, total), |a, b| R::add(isa, a, b);
    /// Σ (x − shift)². An infinite shift gives ∞ or NaN for every element, the filled ones too.
    CentredSquareSum: ZERO, false, |shift| if shift.finite() { shift } else { R::ZERO }, |isa, total, x, shift| {
        let d = R::sub(isa, x, shift);
        R::fma(isa, d, d, total)
    }, |a, b| R::add(isa, a, b);
    /// As [`Maximum`] of a row without NaN; of another row, any element of it or −∞.
    Largest: NEGATIVE_INFINITY, true, |_shift| R::NEGATIVE_INFINITY, |isa, total, x, _shift| R::max(isa, total, x),
        |a, b| R::max(isa, a, b);
    Maximum: NEGATIVE_INFINITY, true, |_shift| R::NEGATIVE_INFINITY, |isa, total, x, _shift| maximum::<R, I>(isa, total, x),
        |a, b| maximum::<R, I>(isa, a, b);
    Minimum: INFINITY, true, |_shift| R::INFINITY, |isa, total, x, _shift| minimum::<R, I>(isa, total, x),
        |a, b| minimum::<R, I>(isa, a, b);
}

/// Σ eˣ⁻ˢʰⁱᶠᵗ for a shift that no element exceeds.
#[derive(Clone, Copy)]
pub(crate) struct ExponentialSum;

impl<R: Real> Operation<R> for ExponentialSum {
    const START: R = R::ZERO;
    const SMALL: bool = false;

    /// With an ordinary exponential, which is left out of the sum.
    #[inline(always)]
    fn fill(shift: R) -> R {
        shift
    }

    #[inline(always)]
    fn accumulate<I: Isa>(isa: I, total: R::V<I>, x: R::V<I>, shift: R::V<I>) -> R::V<I> {
        R::add(isa, total, R::exp(isa, R::sub(isa, x, shift)))
    }

    #[inline(always)]
    fn accumulate_part<I: Isa>(
        isa: I,
        total: R::V<I>,
        x: R::V<I>,
        shift: R::V<I>,
        there: R::V<I>,
    ) -> R::V<I> {
        let x = R::exp(isa, R::sub(isa, x, shift));
        // An infinite shift makes NaN of the filled lanes too, as of every other.
        R::add(isa, total, R::mul(isa, x, there))
    }

    #[inline(always)]
    fn accumulate64<I: Isa>(isa: I, totals: &mut R::X64<I>, mut x: R::X64<I>, shift: R::V<I>) {
        for vector in x.as_mut() {
            *vector = R::sub(isa, *vector, shift);
        }
        let x = R::exp64(isa, x);
        for (total, &x) in totals.as_mut().iter_mut().zip(x.as_ref()) {
            *total = R::add(isa, *total, x);
        }
    }

    #[inline(always)]
    fn combine<I: Isa>(isa: I, a: R::V<I>, b: R::V<I>) -> R::V<I> {
        R::add(isa, a, b)
    }
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
