//! Multidirectional broadcasting, resolved at call time to runs along one axis.

use crate::ElementwiseError;
use onl_tensor::Shape;
use smallvec::SmallVec;
use std::ops::Range;

/// Elements of a stack block: short rows are gathered, and 16-bit floats widened, this many at a time.
pub(crate) const BLOCK: usize = 512;

/// Rows below this length are gathered into blocks before a body runs over them.
const SHORT_ROW: usize = 64;

/// Shape of the result of ONNX multidirectional broadcasting.
///
/// # Errors
/// [`ElementwiseError::Shapes`] when two sizes of an axis differ and neither is 1.
pub fn broadcast_shape(shapes: &[&[usize]]) -> Result<Shape, ElementwiseError> {
    let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    let mut result = Shape::new(&[]);
    for axis in 0..rank {
        let mut size = 1;
        for shape in shapes {
            let Some(own) = (axis + shape.len()).checked_sub(rank).map(|i| shape[i]) else {
                continue;
            };
            if own == size || own == 1 {
                continue;
            }
            if size != 1 {
                return Err(ElementwiseError::Shapes {
                    shapes: shapes.iter().map(|s| s.to_vec()).collect(),
                    reason: format!(
                        "sizes {size} and {own} of output axis {axis} differ and neither is 1"
                    ),
                });
            }
            size = own;
        }
        result.push(size);
    }
    Ok(result)
}

/// How `N` operands are read to fill one output: axes of the output, adjacent ones merged where every operand
/// allows it, with each operand's stride in elements (0 where it is repeated). Axes go from the innermost outwards;
/// along axis 0 every operand has stride 0 or 1.
#[derive(Debug, Clone)]
pub(crate) struct Plan<const N: usize> {
    dims: SmallVec<[usize; 6]>,
    strides: SmallVec<[[usize; N]; 6]>,
}

impl<const N: usize> Plan<N> {
    /// A plan for operands that broadcast to `output`.
    pub fn new(output: &[usize], operands: [&[usize]; N]) -> Self {
        let mut plan = Plan {
            dims: SmallVec::new(),
            strides: SmallVec::new(),
        };
        // Elements of each operand inside the axes seen so far.
        let mut inside = [1usize; N];
        for back in 0..output.len() {
            let size = output[output.len() - 1 - back];
            let mut stride = [0; N];
            for (k, operand) in operands.iter().enumerate() {
                let own = operand
                    .len()
                    .checked_sub(1 + back)
                    .map_or(1, |i| operand[i]);
                if own != 1 {
                    stride[k] = inside[k];
                    inside[k] = inside[k].wrapping_mul(own);
                }
            }
            if size == 1 {
                continue;
            }
            match (plan.dims.last_mut(), plan.strides.last()) {
                (Some(dim), Some(inner))
                    if (0..N).all(|k| stride[k] == inner[k].wrapping_mul(*dim)) =>
                {
                    *dim = dim.wrapping_mul(size);
                }
                _ => {
                    plan.dims.push(size);
                    plan.strides.push(stride);
                }
            }
        }
        if plan.dims.is_empty() {
            plan.dims.push(1);
            plan.strides.push([1; N]);
        }
        plan
    }

    /// Stride of an operand along a run.
    #[inline(always)]
    pub fn inner_stride(&self, operand: usize) -> usize {
        self.strides[0][operand]
    }

    /// Whether runs are so short that blocks are gathered instead.
    pub fn has_short_rows(&self) -> bool {
        self.dims.len() > 1 && self.dims[0] < SHORT_ROW
    }

    /// Whether an operand is read in the order of the output, without repetition.
    pub fn is_flat(&self, operand: usize) -> bool {
        let mut expected = 1;
        self.dims.iter().zip(&self.strides).all(|(dim, stride)| {
            let fits = stride[operand] == expected;
            expected *= dim;
            fits
        })
    }

    /// Number of output elements after which an operand's reads repeat for ever; the whole output when they do not.
    pub fn period(&self, operand: usize) -> usize {
        let axes = (0..self.dims.len())
            .rev()
            .find(|&axis| self.strides[axis][operand] != 0)
            .map_or(0, |axis| axis + 1);
        self.dims[..axes].iter().product()
    }

    /// How blocks of an operand are made.
    fn feed(&self, operand: usize) -> Feed {
        if self.is_flat(operand) {
            Feed::Flat
        } else if self.period(operand) <= BLOCK {
            Feed::Periodic
        } else {
            Feed::Gathered
        }
    }

    /// Blocks over a range of the output for operands with short rows.
    pub fn blocks(&self, range: Range<usize>) -> Blocks<'_, N> {
        let feeds = std::array::from_fn(|k| self.feed(k));
        // Periods are products of innermost axes, so the longest is a multiple of the others.
        let period = (0..N)
            .filter(|&k| matches!(feeds[k], Feed::Periodic))
            .map(|k| self.period(k))
            .max()
            .unwrap_or(1)
            .max(1);
        Blocks {
            plan: self,
            feeds,
            length: BLOCK / period * period,
            next: range.start,
            range,
        }
    }

    /// Runs over a range of the output.
    pub fn runs(&self, range: Range<usize>) -> Runs<'_, N> {
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.dims.len());
        let mut offsets = [0; N];
        let mut rest = range.start;
        if !range.is_empty() {
            for (axis, &dim) in self.dims.iter().enumerate() {
                index[axis] = rest % dim;
                rest /= dim;
                for k in 0..N {
                    offsets[k] += index[axis] * self.strides[axis][k];
                }
            }
        }
        Runs {
            plan: self,
            index,
            offsets,
            position: range.start,
            end: range.end,
        }
    }

    /// Copies what an operand contributes to the output elements from `start` on. Whole rows along axis 1 are copied
    /// without looking at the outer axes.
    pub fn gather<T: Copy>(&self, operand: usize, source: &[T], start: usize, target: &mut [T]) {
        let row = self.dims[0];
        let repeated = self.inner_stride(operand) == 0;
        let (rows, row_stride) = match self.dims.get(1) {
            Some(&rows) => (rows, self.strides[1][operand]),
            None => (1, 0),
        };
        let mut done = 0;
        while done < target.len() {
            let mut rest = start + done;
            let mut offset = 0;
            for (&dim, stride) in self.dims.iter().zip(&self.strides) {
                offset += rest % dim * stride[operand];
                rest /= dim;
            }
            let column = (start + done) % row;
            let left = target.len() - done;
            if column != 0 || left < row {
                let part = &mut target[done..][..left.min(row - column)];
                done += part.len();
                if repeated {
                    part.fill(source[offset]);
                } else {
                    part.copy_from_slice(&source[offset..offset + part.len()]);
                }
                continue;
            }
            let whole = (left / row).min(rows - (start + done) / row % rows);
            let part = &mut target[done..][..whole * row];
            done += part.len();
            let part = part.chunks_exact_mut(row).enumerate();
            if repeated {
                for (i, part) in part {
                    part.fill(source[offset + i * row_stride]);
                }
            } else if row >= SHORT_ROW {
                for (i, part) in part {
                    let offset = offset + i * row_stride;
                    part.copy_from_slice(&source[offset..offset + row]);
                }
            } else {
                // A call of the copy function costs more than a few elements.
                for (i, part) in part {
                    let offset = offset + i * row_stride;
                    for (element, &own) in part.iter_mut().zip(&source[offset..offset + row]) {
                        *element = own;
                    }
                }
            }
        }
    }
}

/// A stretch of the output along which every operand has stride 0 or 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<const N: usize> {
    /// First output element.
    pub position: usize,
    /// Output elements.
    pub len: usize,
    /// First element of each operand.
    pub offsets: [usize; N],
}

/// Iterator over runs: one division per axis at the start, additions afterwards.
pub(crate) struct Runs<'p, const N: usize> {
    plan: &'p Plan<N>,
    index: SmallVec<[usize; 6]>,
    offsets: [usize; N],
    position: usize,
    end: usize,
}

impl<const N: usize> Iterator for Runs<'_, N> {
    type Item = Run<N>;

    fn next(&mut self) -> Option<Run<N>> {
        if self.position >= self.end {
            return None;
        }
        let Plan { dims, strides } = self.plan;
        let len = (dims[0] - self.index[0]).min(self.end - self.position);
        let run = Run {
            position: self.position,
            len,
            offsets: self.offsets,
        };
        self.position += len;
        self.index[0] += len;
        for k in 0..N {
            self.offsets[k] += len * strides[0][k];
        }
        let mut axis = 0;
        while self.index[axis] == dims[axis] && axis + 1 < dims.len() {
            self.index[axis] = 0;
            self.index[axis + 1] += 1;
            for k in 0..N {
                self.offsets[k] -= dims[axis] * strides[axis][k];
                self.offsets[k] += strides[axis + 1][k];
            }
            axis += 1;
        }
        Some(run)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feed {
    /// The operand's own elements, in place.
    Flat,
    /// One gathered block serves all blocks, since block lengths are multiples of the period.
    Periodic,
    /// Gathered anew for each block.
    Gathered,
}

/// Division of a range of the output into blocks of at most [`BLOCK`] elements.
pub(crate) struct Blocks<'p, const N: usize> {
    plan: &'p Plan<N>,
    feeds: [Feed; N],
    length: usize,
    range: Range<usize>,
    next: usize,
}

impl<const N: usize> Blocks<'_, N> {
    /// The next block as a range of the output.
    pub fn advance(&mut self) -> Option<Range<usize>> {
        let block = self.next..(self.next + self.length).min(self.range.end);
        self.next = block.end;
        (!block.is_empty()).then_some(block)
    }

    /// What an operand contributes to a block, in place or in `buffer`, which is the operand's own for all blocks.
    pub fn operand<'s, T: Copy>(
        &self,
        operand: usize,
        source: &'s [T],
        block: &Range<usize>,
        buffer: &'s mut [T; BLOCK],
    ) -> &'s [T] {
        match self.feeds[operand] {
            Feed::Flat => &source[block.clone()],
            Feed::Periodic if block.start != self.range.start => &buffer[..block.len()],
            _ => {
                let target = &mut buffer[..block.len()];
                self.plan.gather(operand, source, block.start, target);
                target
            }
        }
    }
}
