//! Element-wise passes whose parameters come from the rows that the elements belong to.

use crate::layout::Pattern;
use crate::real::{Numeric, Real};
use crate::{Execution, ReduceError};
use onl_executor::DisjointSlice;
use onl_profiling::RegionSite;
use onl_simd::{Isa, SimdOp, dispatch};
use std::marker::PhantomData;
use std::ops::Range;

/// Elements of a long line that one unit of work covers.
const SEGMENT: usize = 4096;

/// A result from an element and up to three parameters of its row. A type and not a closure: closures are not compiled
/// for the tier of their caller.
pub(crate) trait Step<R: Real>: Copy + Send + Sync + 'static {
    fn apply<I: Isa>(isa: I, x: R::V<I>, parameters: [R::V<I>; 3]) -> R::V<I>;
}

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident: |$isa:ident, $x:ident, [$a:ident, $b:ident, $c:ident]| $body:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name;

        impl<R: Real> Step<R> for $name {
            #[inline(always)]
            fn apply<I: Isa>($isa: I, $x: R::V<I>, [$a, $b, $c]: [R::V<I>; 3]) -> R::V<I> {
                $body
            }
        }
    )*};
}
steps! {
    /// (x − mean) · factor + summand, the last two steps fused.
    Affine: |isa, x, [mean, factor, summand]| R::fma(isa, R::sub(isa, x, mean), factor, summand);
    /// (x − mean) · factor.
    Standardize: |isa, x, [mean, factor, _c]| R::mul(isa, R::sub(isa, x, mean), factor);
    /// x / norm, and 0 where the norm is 0.
    Quotient: |isa, x, [norm, _b, _c]| {
        let zero = R::splat(isa, R::ZERO);
        R::select(isa, R::is_equal(isa, norm, zero), zero, R::div(isa, x, norm))
    };
    /// eˣ⁻ᵐ · factor.
    ScaledExponential: |isa, x, [largest, factor, _c]| R::mul(isa, R::exp(isa, R::sub(isa, x, largest)), factor);
    /// (x − m) − logarithm.
    Difference: |isa, x, [largest, logarithm, _c]| R::sub(isa, R::sub(isa, x, largest), logarithm);
}

/// A parameter of a line of elements.
#[derive(Clone, Copy)]
pub(crate) enum Parameter<'a, R> {
    One(R),
    /// As many as the line has elements.
    Each(&'a [R]),
}

impl<R: Real> Parameter<'_, R> {
    #[inline(always)]
    fn load<I: Isa>(&self, isa: I, at: usize) -> R::V<I> {
        match self {
            Parameter::One(x) => R::splat(isa, *x),
            Parameter::Each(values) => R::load(isa, &values[at..]),
        }
    }

    #[inline(always)]
    fn load_partial<I: Isa>(&self, isa: I, at: usize) -> R::V<I> {
        match self {
            Parameter::One(x) => R::splat(isa, *x),
            Parameter::Each(values) => R::load_partial(isa, &values[at..], R::ONE),
        }
    }
}

/// One line of elements.
#[inline(always)]
pub(crate) fn line<T: Numeric, S: Step<T::Real>, I: Isa>(
    isa: I,
    source: &[T],
    target: &mut [T],
    parameters: &[Parameter<'_, T::Real>; 3],
) {
    let width = <T::Real as Real>::lanes::<I>();
    let length = source.len();
    let target = &mut target[..length];
    let whole = length / width * width;
    if let [Parameter::One(a), Parameter::One(b), Parameter::One(c)] = *parameters {
        let parameters = [
            T::Real::splat(isa, a),
            T::Real::splat(isa, b),
            T::Real::splat(isa, c),
        ];
        let lines = source.chunks_exact(width);
        for (source, target) in lines.zip(target.chunks_exact_mut(width)) {
            let x = T::load(isa, source);
            T::store(isa, S::apply(isa, x, parameters), target);
        }
        if whole == length {
            return;
        }
        if whole > 0 {
            // The last whole vector overlaps the one before, and gives the same there.
            let last = length - width;
            let x = T::load(isa, &source[last..]);
            T::store(isa, S::apply(isa, x, parameters), &mut target[last..]);
        } else {
            let x = T::load_partial(isa, source, T::Real::ONE);
            T::store_partial(isa, S::apply(isa, x, parameters), target);
        }
        return;
    }
    let [a, b, c] = parameters;
    let mut at = 0;
    let lines = source.chunks_exact(width);
    for (source, target) in lines.zip(target.chunks_exact_mut(width)) {
        let parameters = [a.load(isa, at), b.load(isa, at), c.load(isa, at)];
        let x = T::load(isa, source);
        T::store(isa, S::apply(isa, x, parameters), target);
        at += width;
    }
    if whole < length {
        let parameters = [
            a.load_partial(isa, whole),
            b.load_partial(isa, whole),
            c.load_partial(isa, whole),
        ];
        let x = T::load_partial(isa, &source[whole..], T::Real::ONE);
        T::store_partial(isa, S::apply(isa, x, parameters), &mut target[whole..]);
    }
}

/// Applies a step to a whole tensor. Each parameter has one value per row, that is, per place of the kept axes, or is
/// empty, which stands for 0.
pub(crate) fn apply<T: Numeric, S: Step<T::Real>>(
    site: &'static RegionSite,
    source: &[T],
    target: &mut [T],
    pattern: &Pattern,
    parameters: [&[T::Real]; 3],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let length = pattern.line();
    let lines = source.len().checked_div(length).unwrap_or(0);
    let segments = length.div_ceil(SEGMENT);
    let path = if pattern.inner_kept() {
        "apply_columns"
    } else {
        "apply_rows"
    };
    let spec = execution.spec(lines * segments, length.min(SEGMENT), 150, path);
    let target = DisjointSlice::new(target);
    execution.lanes.region(site, spec, |chunk| {
        let units = Units::<T, S> {
            source,
            target: &target,
            pattern,
            parameters,
            segments,
            range: chunk.range,
            step: PhantomData,
        };
        dispatch(execution.tier, units);
    })?;
    Ok(())
}

/// Segments of lines.
struct Units<'a, T: Numeric, S> {
    source: &'a [T],
    target: &'a DisjointSlice<'a, T>,
    pattern: &'a Pattern,
    parameters: [&'a [T::Real]; 3],
    segments: usize,
    range: Range<usize>,
    step: PhantomData<S>,
}

impl<T: Numeric, S: Step<T::Real>> SimdOp for Units<'_, T, S> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let length = self.pattern.line();
        let kept = self.pattern.inner_kept();
        let mut lines = self.pattern.lines_from(self.range.start / self.segments);
        let mut segment = self.range.start % self.segments;
        let mut start = self.range.start / self.segments * length;
        for _ in self.range {
            let row = lines.row;
            let within = segment * SEGMENT..length.min((segment + 1) * SEGMENT);
            let elements = start + within.start..start + within.end;
            segment += 1;
            if segment == self.segments {
                segment = 0;
                start += length;
                lines.advance();
            }
            // SAFETY: each unit of the region is run once and owns its segment of a line.
            let target = unsafe { self.target.part(elements.clone()) };
            let source = &self.source[elements];
            if kept {
                // The row of a line whose axis is kept is that of its first element.
                let parameters = self.parameters.map(|values| match values {
                    [] => Parameter::One(T::Real::ZERO),
                    values => Parameter::Each(&values[row + within.start..row + within.end]),
                });
                line::<T, S, I>(isa, source, target, &parameters);
            } else {
                let parameters = self.parameters.map(|values| {
                    Parameter::One(values.get(row).copied().unwrap_or(T::Real::ZERO))
                });
                line::<T, S, I>(isa, source, target, &parameters);
            }
        }
    }
}
