//! What an operation is to the loops: a body over contiguous blocks, with one form for every instruction set.
//!
//! Scalar operations ([`Map1`], [`Map2`]) become bodies through [`Plain`]: a loop that the compiler vectorizes for the
//! tier it is compiled for, with equal bits because IEEE operations are. Bodies over `f32` serve the 16-bit floats
//! through [`Widened`]: a block is widened, computed, and narrowed once.

use crate::broadcast::{BLOCK, Plan};
use crate::operations::{Divided, has_small_quotient, is_small};
use half::{bf16, f16};
use onl_simd::{Isa, Scalar, SimdOp, dispatch};
use onl_tensor::{Bool, Element};
use std::ops::Range;

/// Numbers that the attributes of an operator give to its body.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Parameters {
    pub alpha: f32,
    pub beta: f32,
}

/// What is made from the attributes of an operator; most operations have none.
pub(crate) trait Configured: Copy + Send + Sync {
    fn with(parameters: Parameters) -> Self;
}

/// Operations without attributes.
macro_rules! without_attributes {
    ($($name:ty),* $(,)?) => {
        $(impl $crate::body::Configured for $name {
            #[inline(always)]
            fn with(_: $crate::body::Parameters) -> Self { Self }
        })*
    };
}
pub(crate) use without_attributes;

/// A scalar operation of one operand.
pub(crate) trait Map1<A, C>: Configured {
    /// The operation; implementations are `#[inline(always)]`.
    fn apply(self, a: A) -> C;
}

/// A scalar operation of two operands of one type.
pub(crate) trait Map2<A, C>: Copy + Default + Send + Sync {
    /// Whether the second operand must not be zero.
    const DIVIDES: bool = false;
    /// The operation; implementations are `#[inline(always)]`.
    fn apply(self, a: A, b: A) -> C;
}

/// A body of one operand; `a` and `out` have equal lengths. Implementations are `#[inline(always)]`.
pub(crate) trait UnaryBody<A, C>: Configured {
    fn run<I: Isa>(self, isa: I, a: &[A], out: &mut [C]);
}

/// An operand of a run.
#[derive(Clone, Copy)]
pub(crate) enum Operand<'a, A> {
    /// One element for each output element.
    Block(&'a [A]),
    /// One element for all of them.
    One(A),
}

impl<'a, A: Copy> Operand<'a, A> {
    /// The part of an operand with stride 0 or 1 that a run of `len` elements reads.
    #[inline(always)]
    pub fn of_run(source: &'a [A], offset: usize, stride: usize, len: usize) -> Self {
        if stride == 0 {
            Operand::One(source[offset])
        } else {
            Operand::Block(&source[offset..offset + len])
        }
    }

    /// The part that `len` output elements from `start` on read.
    #[inline(always)]
    fn part(self, start: usize, len: usize) -> Self {
        match self {
            Operand::Block(elements) => Operand::Block(&elements[start..start + len]),
            one => one,
        }
    }
}

/// A body of two operands; blocks have the length of `out`. Implementations are `#[inline(always)]`.
pub(crate) trait BinaryBody<A, C>: Copy + Default + Send + Sync {
    /// Whether the second operand must not be zero.
    const DIVIDES: bool = false;
    fn run<I: Isa>(self, isa: I, a: Operand<'_, A>, b: Operand<'_, A>, out: &mut [C]);
}

/// Body of a scalar operation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Plain<O>(O);

impl<O: Configured> Configured for Plain<O> {
    #[inline(always)]
    fn with(parameters: Parameters) -> Self {
        Plain(O::with(parameters))
    }
}

impl<A: Copy, C, O: Map1<A, C>> UnaryBody<A, C> for Plain<O> {
    #[inline(always)]
    fn run<I: Isa>(self, _: I, a: &[A], out: &mut [C]) {
        for (c, &a) in out.iter_mut().zip(a) {
            *c = self.0.apply(a);
        }
    }
}

impl<A: Copy, C: Copy, O: Map2<A, C>> BinaryBody<A, C> for Plain<O> {
    const DIVIDES: bool = O::DIVIDES;

    #[inline(always)]
    fn run<I: Isa>(self, _: I, a: Operand<'_, A>, b: Operand<'_, A>, out: &mut [C]) {
        match (a, b) {
            (Operand::Block(a), Operand::Block(b)) => {
                for ((c, &a), &b) in out.iter_mut().zip(a).zip(b) {
                    *c = self.0.apply(a, b);
                }
            }
            (Operand::Block(a), Operand::One(b)) => {
                for (c, &a) in out.iter_mut().zip(a) {
                    *c = self.0.apply(a, b);
                }
            }
            (Operand::One(a), Operand::Block(b)) => {
                for (c, &b) in out.iter_mut().zip(b) {
                    *c = self.0.apply(a, b);
                }
            }
            (Operand::One(a), Operand::One(b)) => out.fill(self.0.apply(a, b)),
        }
    }
}

/// Body of a division of 64-bit integers: small ones, which are usual, go through the floats.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Division<O>(O);

impl<O: Map2<i64, i64>> BinaryBody<i64, i64> for Division<O>
where
    Divided<O>: Map2<i64, i64>,
{
    const DIVIDES: bool = true;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I, a: Operand<'_, i64>, b: Operand<'_, i64>, out: &mut [i64]) {
        let small = |operand: Operand<'_, i64>| match operand {
            Operand::Block(elements) => elements.iter().fold(true, |all, &x| all & is_small(x)),
            Operand::One(element) => is_small(element),
        };
        if small(a) && small(b) {
            Plain(Divided::<O>::default()).run(isa, a, b, out);
        } else {
            Plain(self.0).run(isa, a, b, out);
        }
    }
}

/// Body of a remainder of floats: quotients of few bits, which are usual, go through `f64`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Remainder<O>(O);

impl<O: Map2<f32, f32>> BinaryBody<f32, f32> for Remainder<O>
where
    Divided<O>: Map2<f32, f32>,
{
    #[inline(always)]
    fn run<I: Isa>(self, isa: I, a: Operand<'_, f32>, b: Operand<'_, f32>, out: &mut [f32]) {
        /// Elements that share a decision.
        const PART: usize = 256;
        for (i, out) in out.chunks_mut(PART).enumerate() {
            let (a, b) = (a.part(i * PART, out.len()), b.part(i * PART, out.len()));
            let small = match (a, b) {
                (Operand::Block(a), Operand::Block(b)) => a
                    .iter()
                    .zip(b)
                    .fold(true, |all, (&a, &b)| all & has_small_quotient(a, b)),
                (Operand::Block(a), Operand::One(b)) => a
                    .iter()
                    .fold(true, |all, &a| all & has_small_quotient(a, b)),
                (Operand::One(a), Operand::Block(b)) => b
                    .iter()
                    .fold(true, |all, &b| all & has_small_quotient(a, b)),
                (Operand::One(a), Operand::One(b)) => has_small_quotient(a, b),
            };
            if small {
                Plain(Divided::<O>::default()).run(isa, a, b, out);
            } else {
                Plain(self.0).run(isa, a, b, out);
            }
        }
    }
}

/// A 16-bit float that is computed as `f32`.
pub(crate) trait Half: Element {
    fn load<I: Isa>(isa: I, source: &[Self]) -> I::F32;
    fn store<I: Isa>(isa: I, value: I::F32, target: &mut [Self]);
}

impl Half for f16 {
    #[inline(always)]
    fn load<I: Isa>(isa: I, source: &[Self]) -> I::F32 {
        isa.load_f16(source)
    }

    #[inline(always)]
    fn store<I: Isa>(isa: I, value: I::F32, target: &mut [Self]) {
        isa.store_f16(value, target);
    }
}

impl Half for bf16 {
    #[inline(always)]
    fn load<I: Isa>(isa: I, source: &[Self]) -> I::F32 {
        isa.load_bf16(source)
    }

    #[inline(always)]
    fn store<I: Isa>(isa: I, value: I::F32, target: &mut [Self]) {
        isa.store_bf16(value, target);
    }
}

/// Widens `source` into the first elements of `target`.
#[inline(always)]
pub(crate) fn widen<I: Isa, H: Half>(isa: I, source: &[H], target: &mut [f32]) {
    let whole = source.len() / I::F32_LANES * I::F32_LANES;
    for i in (0..whole).step_by(I::F32_LANES) {
        isa.store_f32(H::load(isa, &source[i..]), &mut target[i..]);
    }
    for i in whole..source.len() {
        target[i] = H::load(Scalar::new(), &source[i..]);
    }
}

/// Narrows the first elements of `source` into `target`.
#[inline(always)]
pub(crate) fn narrow<I: Isa, H: Half>(isa: I, source: &[f32], target: &mut [H]) {
    let whole = target.len() / I::F32_LANES * I::F32_LANES;
    for i in (0..whole).step_by(I::F32_LANES) {
        H::store(isa, isa.load_f32(&source[i..]), &mut target[i..]);
    }
    for i in whole..target.len() {
        H::store(Scalar::new(), source[i], &mut target[i..]);
    }
}

/// Elements that [`Widened`] widens at a time: few, since every run pays for clearing the buffers.
const WIDE: usize = 256;

/// Widened elements, aligned so that no vector lies across cache lines.
#[repr(align(64))]
struct Wide([f32; WIDE]);

impl Wide {
    #[inline(always)]
    fn new() -> Self {
        Wide([0.0; WIDE])
    }
}

/// Body over 16-bit floats from a body over `f32`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Widened<K>(K);

impl<K: Configured> Configured for Widened<K> {
    #[inline(always)]
    fn with(parameters: Parameters) -> Self {
        Widened(K::with(parameters))
    }
}

impl<H: Half, K: UnaryBody<f32, f32>> UnaryBody<H, H> for Widened<K> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I, a: &[H], out: &mut [H]) {
        let (mut wide, mut result) = (Wide::new(), Wide::new());
        for (a, out) in a.chunks(WIDE).zip(out.chunks_mut(WIDE)) {
            let n = a.len();
            widen(isa, a, &mut wide.0);
            // The form compiled for f32, which all types that are widened to it share.
            let op = UnaryChunk {
                body: self.0,
                a: &wide.0[..n],
                out: &mut result.0[..n],
            };
            dispatch(I::TIER, op);
            narrow(isa, &result.0, out);
        }
    }
}

/// An operand's part of a block of at most [`WIDE`] elements from `start` on, widened.
#[inline(always)]
fn widen_operand<'b, I: Isa, H: Half>(
    isa: I,
    operand: Operand<'_, H>,
    start: usize,
    len: usize,
    buffer: &'b mut Wide,
) -> Operand<'b, f32> {
    match operand {
        Operand::Block(source) => {
            widen(isa, &source[start..start + len], &mut buffer.0);
            Operand::Block(&buffer.0[..len])
        }
        Operand::One(value) => Operand::One(H::load(Scalar::new(), &[value])),
    }
}

impl<H: Half, K: BinaryBody<f32, f32>> BinaryBody<H, H> for Widened<K> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I, a: Operand<'_, H>, b: Operand<'_, H>, out: &mut [H]) {
        let (mut x, mut y, mut result) = (Wide::new(), Wide::new(), Wide::new());
        for (i, out) in out.chunks_mut(WIDE).enumerate() {
            let n = out.len();
            let a = widen_operand(isa, a, i * WIDE, n, &mut x);
            let b = widen_operand(isa, b, i * WIDE, n, &mut y);
            self.0.run(isa, a, b, &mut result.0[..n]);
            narrow(isa, &result.0, out);
        }
    }
}

impl<H: Half, K: BinaryBody<f32, Bool>> BinaryBody<H, Bool> for Widened<K> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I, a: Operand<'_, H>, b: Operand<'_, H>, out: &mut [Bool]) {
        let (mut x, mut y) = (Wide::new(), Wide::new());
        for (i, out) in out.chunks_mut(WIDE).enumerate() {
            let n = out.len();
            let a = widen_operand(isa, a, i * WIDE, n, &mut x);
            let b = widen_operand(isa, b, i * WIDE, n, &mut y);
            self.0.run(isa, a, b, out);
        }
    }
}

/// A body of one operand over one chunk.
pub(crate) struct UnaryChunk<'a, A, C, K> {
    pub body: K,
    pub a: &'a [A],
    pub out: &'a mut [C],
}

impl<A, C, K: UnaryBody<A, C>> SimdOp for UnaryChunk<'_, A, C, K> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        self.body.run(isa, self.a, self.out);
    }
}

/// A body of two operands over one chunk: gives the smallest output position at which it divides by zero. Elements
/// from the run of that position on are not written.
pub(crate) struct BinaryChunk<'a, A, C, K> {
    pub body: K,
    pub plan: &'a Plan<2>,
    pub a: &'a [A],
    pub b: &'a [A],
    pub range: Range<usize>,
    pub out: &'a mut [C],
}

impl<A: bytemuck::Pod + PartialEq, C: Copy, K: BinaryBody<A, C>> SimdOp
    for BinaryChunk<'_, A, C, K>
{
    type Output = Option<usize>;

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) -> Option<usize> {
        let BinaryChunk {
            body,
            plan,
            a,
            b,
            range,
            out,
        } = self;
        let first = range.start;
        if plan.has_short_rows() {
            let (mut a_buffer, mut b_buffer) = ([A::zeroed(); BLOCK], [A::zeroed(); BLOCK]);
            let mut blocks = plan.blocks(range);
            while let Some(block) = blocks.advance() {
                let a = Operand::Block(blocks.operand(0, a, &block, &mut a_buffer));
                let b = Operand::Block(blocks.operand(1, b, &block, &mut b_buffer));
                if K::DIVIDES
                    && let Some(i) = first_zero(b)
                {
                    return Some(block.start + i);
                }
                body.run(isa, a, b, &mut out[block.start - first..block.end - first]);
            }
            return None;
        }
        for run in plan.runs(range) {
            let a = Operand::of_run(a, run.offsets[0], plan.inner_stride(0), run.len);
            let b = Operand::of_run(b, run.offsets[1], plan.inner_stride(1), run.len);
            if K::DIVIDES
                && let Some(i) = first_zero(b)
            {
                return Some(run.position + i);
            }
            body.run(isa, a, b, &mut out[run.position - first..][..run.len]);
        }
        None
    }
}

/// Index of the first zero of an operand.
#[inline(always)]
fn first_zero<A: bytemuck::Zeroable + PartialEq>(operand: Operand<'_, A>) -> Option<usize> {
    /// Elements that are looked through without a branch, so that the compiler vectorizes the loop.
    const PART: usize = 256;
    let is_zero = |x: &A| *x == A::zeroed();
    match operand {
        Operand::Block(elements) => {
            let parts = elements.chunks(PART);
            let part = parts
                .map(|part| part.iter().fold(false, |found, x| found | is_zero(x)))
                .position(|found| found)?;
            let start = part * PART;
            Some(start + elements[start..].iter().position(is_zero)?)
        }
        Operand::One(element) => is_zero(&element).then_some(0),
    }
}
