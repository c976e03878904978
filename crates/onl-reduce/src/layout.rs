//! How the axes of a tensor divide into kept and reduced ones.

use onl_tensor::row_major_strides;
use smallvec::SmallVec;

pub(crate) type Axes = SmallVec<[usize; 8]>;

/// Sizes and strides of some axes, outermost first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Grid {
    pub sizes: Axes,
    pub strides: Axes,
}

impl Grid {
    /// Number of places.
    pub(crate) fn len(&self) -> usize {
        self.sizes.iter().product()
    }

    /// Source element of a place.
    #[inline]
    pub(crate) fn offset(&self, place: usize) -> usize {
        let mut rest = place;
        let mut offset = 0;
        for axis in (0..self.sizes.len()).rev() {
            offset += rest % self.sizes[axis] * self.strides[axis];
            rest /= self.sizes[axis];
        }
        offset
    }

    /// Source elements of the places from `first` on.
    pub(crate) fn offsets(&self, first: usize, target: &mut [usize]) {
        let mut index: Axes = SmallVec::from_elem(0, self.sizes.len());
        let mut rest = first;
        for axis in (0..self.sizes.len()).rev() {
            index[axis] = rest % self.sizes[axis];
            rest /= self.sizes[axis];
        }
        let mut offset = self.offset(first);
        for slot in target {
            *slot = offset;
            for axis in (0..self.sizes.len()).rev() {
                index[axis] += 1;
                offset += self.strides[axis];
                if index[axis] < self.sizes[axis] {
                    break;
                }
                offset -= self.sizes[axis] * self.strides[axis];
                index[axis] = 0;
            }
        }
    }

    fn push(&mut self, size: usize, stride: usize) {
        self.sizes.push(size);
        self.strides.push(stride);
    }
}

/// Axes as `(kept, size)`, outermost first; neighbours of one kind are merged and axes of size 1 are dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pattern {
    axes: SmallVec<[(bool, usize); 8]>,
}

impl Pattern {
    pub(crate) fn new(dims: &[usize], reduce: &[bool]) -> Self {
        let mut pattern = Pattern::default();
        for (&size, &reduced) in dims.iter().zip(reduce) {
            match pattern.axes.last_mut() {
                _ if size == 1 => {}
                Some((kept, merged)) if *kept != reduced => *merged *= size,
                _ => pattern.axes.push((!reduced, size)),
            }
        }
        pattern
    }

    /// Elements of the innermost axis.
    pub(crate) fn line(&self) -> usize {
        self.axes.last().map_or(1, |a| a.1)
    }

    /// Whether the innermost axis is kept: neighbouring elements then belong to neighbouring rows.
    pub(crate) fn inner_kept(&self) -> bool {
        self.axes.last().is_some_and(|a| a.0)
    }

    /// Walks lines in order from one on.
    pub(crate) fn lines_from(&self, line: usize) -> Lines<'_> {
        let (outer, mut step) = match self.axes.split_last() {
            Some(((kept, size), outer)) => (outer, if *kept { *size } else { 1 }),
            None => (&[] as &[_], 1),
        };
        let mut lines = Lines {
            axes: outer,
            index: SmallVec::from_elem(0, outer.len()),
            steps: SmallVec::from_elem(0, outer.len()),
            row: 0,
        };
        let mut rest = line;
        for (axis, (kept, size)) in outer.iter().enumerate().rev() {
            lines.index[axis] = rest % size;
            rest /= size;
            if *kept {
                lines.steps[axis] = step;
                step *= size;
                lines.row += lines.index[axis] * lines.steps[axis];
            }
        }
        lines
    }
}

/// A walk over lines.
pub(crate) struct Lines<'a> {
    axes: &'a [(bool, usize)],
    index: Axes,
    /// How far apart rows are along an axis; 0 for a reduced one.
    steps: Axes,
    /// Row, counted over the kept axes, of the first element of the line.
    pub row: usize,
}

impl Lines<'_> {
    #[inline]
    pub(crate) fn advance(&mut self) {
        for axis in (0..self.axes.len()).rev() {
            self.index[axis] += 1;
            self.row += self.steps[axis];
            if self.index[axis] < self.axes[axis].1 {
                return;
            }
            self.row -= self.index[axis] * self.steps[axis];
            self.index[axis] = 0;
        }
    }
}

/// Kept and reduced axes, merged where they are neighbours; axes of size 1 are dropped.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub kept: Grid,
    pub reduced: Grid,
    /// Whether the innermost axis is a reduced one.
    pub inner_reduced: bool,
}

impl Layout {
    pub(crate) fn new(dims: &[usize], reduce: &[bool]) -> Self {
        let strides = row_major_strides(dims);
        let mut merged: SmallVec<[(bool, usize, usize); 8]> = SmallVec::new();
        for axis in 0..dims.len() {
            if dims[axis] == 1 {
                continue;
            }
            match merged.last_mut() {
                Some((reduced, size, stride)) if *reduced == reduce[axis] => {
                    *size *= dims[axis];
                    *stride = strides[axis];
                }
                _ => merged.push((reduce[axis], dims[axis], strides[axis])),
            }
        }
        let mut layout = Layout {
            kept: Grid::default(),
            reduced: Grid::default(),
            inner_reduced: merged.last().is_none_or(|m| m.0),
        };
        for (reduced, size, stride) in merged {
            let grid = if reduced {
                &mut layout.reduced
            } else {
                &mut layout.kept
            };
            grid.push(size, stride);
        }
        layout
    }
}
