use crate::constant::keeps_halves;
use crate::tile::Kernels;
use crate::{BLOCK, Compute, GemmConfig, PathChoice, Storage};
use onl_cpu::IsaTier;
use onl_executor::RegionSpec;
use std::ops::Range;

/// Sizes of a product: `batches` times A (m × k) by B (k × n).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dimensions {
    /// Number of products.
    pub batches: usize,
    /// Rows of A and of the result.
    pub m: usize,
    /// Columns of B and of the result.
    pub n: usize,
    /// Columns of A and rows of B.
    pub k: usize,
}

/// How B is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BForm {
    /// As [`PackedB`](crate::PackedB).
    Constant,
    /// In memory, with these distances between rows and between columns.
    Strided {
        /// Elements from one row to the next.
        row_stride: usize,
        /// Elements from one column to the next.
        column_stride: usize,
    },
}

/// Where register tiles find B.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Panels of accumulators, packed at preparation.
    Constant,
    /// Panels of 16-bit elements, packed at preparation and widened by the tiles.
    Halves,
    /// Panels that a group of rows packs, each into its lane's scratch, before or while its first tile runs.
    Packed,
    /// Rows in memory.
    Rows,
    /// Rows in memory, one output row, no register tiles.
    Vector,
    /// As `Vector`, of a B whose columns are contiguous.
    Columns,
}

impl Place {
    /// Whether there are no register tiles.
    pub fn is_row(self) -> bool {
        matches!(self, Place::Vector | Place::Columns)
    }
}

/// How register tiles read A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AForm {
    /// Rows in memory.
    InPlace,
    /// Rows copied into scratch.
    Rows,
    /// Slivers `[k][rows]` in scratch.
    Slivers,
}

/// Panels from which a copy of A into slivers pays.
const SLIVER_PANELS: usize = 16;
/// Panels, at least, of a chunk that begins with such a copy.
const COPYING_PANELS: usize = 8;
/// Most steps of k that are as well read in place.
const SLIVER_DEPTH: usize = 128;
/// Steps of k in a slice of a B that is transposed while it is packed for few rows: the panel stays in the
/// first-level cache.
const TRANSPOSED_SLICE: usize = 128;
/// Most rows for which it does.
const TRANSPOSED_SLICE_ROWS: usize = 4;

/// How one product is computed: made from dimensions, layout, parameters and tier, and from nothing else.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    pub(crate) dims: Dimensions,
    pub(crate) a_strides: (usize, usize),
    pub(crate) b: BForm,
    pub(crate) tier: IsaTier,
    pub(crate) place: Place,
    pub(crate) a_form: AForm,
    /// Whether B is the second operand of the transposed product: a single column is computed as a single row.
    pub(crate) swapped: bool,
    /// Steps of k in a slice.
    pub(crate) slice: usize,
    pub(crate) panels: usize,
    /// Panels between two visits to the output when k has several slices.
    pub(crate) panels_per_run: usize,
    pub(crate) rows: Cut,
    /// Groups of register tiles.
    pub(crate) groups: Cut,
    pub(crate) scratch: Scratch,
    parallel: Parallel,
}

/// `0..total` cut into parts whose sizes differ by at most one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub parts: usize,
    size: usize,
    larger: usize,
}

impl Cut {
    fn new(total: usize, most: usize) -> Cut {
        Cut::in_parts(total, total.div_ceil(most.max(1)))
    }

    pub fn in_parts(total: usize, parts: usize) -> Cut {
        Cut {
            parts,
            size: total.checked_div(parts).unwrap_or(0),
            larger: total.checked_rem(parts).unwrap_or(0),
        }
    }

    #[inline(always)]
    fn start(&self, part: usize) -> usize {
        part * self.size + part.min(self.larger)
    }

    /// Part `index`.
    #[inline(always)]
    pub fn part(&self, index: usize) -> Range<usize> {
        self.start(index)..self.start(index + 1)
    }

    /// Size of the largest part.
    fn largest(&self) -> usize {
        self.size + usize::from(self.larger > 0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Parallel {
    units: usize,
    smallest_grain: usize,
    /// Units of a chunk that make turning A into slivers, which every chunk begins with, a small part of its work.
    copying_grain: usize,
    chunks_per_participant: usize,
    minimum_tasks: usize,
    maximum_participants: usize,
    serial_ns: u64,
    path: &'static str,
    tiles: u64,
}

/// Offsets and sizes of a lane's scratch, in accumulators; every part begins on a cache line.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Scratch {
    pub a_stride: usize,
    pub b: usize,
    pub sums: usize,
    /// Whether the sums are those of one register tile.
    pub tile_sums: bool,
    pub partials: usize,
    /// Elements from one row of sums or partials to the next.
    pub sums_stride: usize,
    pub total: usize,
}

impl Plan {
    /// A plan for operands of type `S`; `a_strides` are A's elements from row to row and from column to column.
    pub fn new<S: Storage>(
        dims: Dimensions,
        a_strides: (usize, usize),
        b: BForm,
        config: &GemmConfig,
        tier: IsaTier,
    ) -> Plan {
        let swapped = dims.n == 1 && dims.m > 1 && b != BForm::Constant;
        let (m, n, inner_a, inner_b) = match b {
            BForm::Strided {
                row_stride,
                column_stride,
            } if swapped => (
                1,
                dims.m,
                (column_stride, row_stride),
                BForm::Strided {
                    row_stride: a_strides.1,
                    column_stride: a_strides.0,
                },
            ),
            _ => (dims.m, dims.n, a_strides, b),
        };
        let Dimensions { batches, k, .. } = dims;
        // An empty result may stand beside dimensions of any size.
        let empty = batches == 0 || m == 0 || n == 0;
        let (m, n) = if empty { (0, 0) } else { (m, n) };
        let kernels = S::Compute::kernels(tier);
        let width = kernels.columns();
        let panels = n.div_ceil(width);
        let (place, mut path) = choose_place::<S>(m, n, k, inner_b, config, tier);
        let height = tile_height(place, n, kernels);
        let a_form = choose_a_form::<S>(place, m, k, panels, inner_a, kernels);
        let transposed = place == Place::Packed
            && m <= TRANSPOSED_SLICE_ROWS
            && matches!(inner_b, BForm::Strided { column_stride, .. } if column_stride != 1);
        let slice = if place.is_row() {
            BLOCK
        } else if transposed {
            TRANSPOSED_SLICE
        } else {
            config.tile_k
        };
        let slice = slice.clamp(1, BLOCK).min(k.max(1));
        let rows = match place {
            _ if place.is_row() => Cut::new(1, 1),
            _ => Cut::new(m, height),
        };
        let tiles_per_block = config.tile_m.div_ceil(height).max(1);
        let tiles_per_group = match place {
            Place::Packed => tiles_per_block.saturating_mul(config.blocks_per_packed_b),
            _ => tiles_per_block,
        };
        let groups = Cut::new(rows.parts, tiles_per_group);
        let panels_per_run = config.tile_n.div_ceil(width).max(1).min(panels.max(1));
        let place = match place {
            Place::Halves if rows.largest() * groups.largest() > config.widen_m_limit => {
                path = "packed_constant_widened";
                Place::Packed
            }
            place => place,
        };

        let units = batches.saturating_mul(groups.parts).saturating_mul(panels);
        let fmas = batches
            .saturating_mul(m)
            .saturating_mul(n)
            .saturating_mul(k);
        let unit_fmas = (fmas / units.max(1)).max(1);
        let scratch = Scratch::new::<S>(
            place,
            a_form,
            slice,
            k,
            rows.largest().saturating_mul(groups.largest()),
            rows.largest(),
            panels_per_run * width,
            width,
        );
        let tiles = [
            batches,
            groups.parts,
            panels.div_ceil(panels_per_run),
            k.div_ceil(slice),
        ]
        .iter()
        .fold(1u64, |product, &count| product.saturating_mul(count as u64));
        let bytes =
            size_of::<S>().saturating_mul(batches.saturating_mul(k).saturating_mul(if m == 1 {
                n
            } else {
                0
            }));
        Plan {
            dims,
            a_strides,
            b,
            tier,
            place,
            a_form,
            swapped,
            slice,
            panels,
            panels_per_run,
            rows,
            groups,
            scratch,
            parallel: Parallel {
                units,
                smallest_grain: config
                    .fmas_per_work_unit
                    .div_ceil(unit_fmas)
                    .clamp(1, units.max(1)),
                copying_grain: match a_form {
                    AForm::InPlace | AForm::Rows => 1,
                    AForm::Slivers => COPYING_PANELS,
                },
                chunks_per_participant: config.chunks_per_participant.max(1),
                minimum_tasks: config.minimum_tasks,
                maximum_participants: config.maximum_participants,
                serial_ns: estimate_ns(fmas, bytes, size_of::<S::Compute>(), tier),
                path,
                tiles,
            },
        }
    }

    /// Bytes of scratch for a team of `lanes`; the memory is aligned to a cache line.
    pub fn workspace(&self, lanes: usize) -> usize {
        self.scratch.total.saturating_mul(lanes)
    }

    /// Name of the algorithm: `packed_constant`, `packed_constant_widened`, `packed`, `unpacked`, `small`, `skinny` or
    /// `vector`.
    pub fn path(&self) -> &'static str {
        self.parallel.path
    }

    /// The region that the product opens on a team of `lanes`. A lone lane gets everything as one chunk, others chunks
    /// of an equal number of panels.
    pub fn region(&self, lanes: usize) -> RegionSpec {
        let Parallel {
            units,
            smallest_grain,
            copying_grain,
            chunks_per_participant,
            ..
        } = self.parallel;
        let participants = match self.parallel.maximum_participants {
            0 => lanes,
            limit => lanes.min(limit),
        };
        let grain = if participants <= 1 {
            units.max(1)
        } else {
            units
                .div_ceil(participants.saturating_mul(chunks_per_participant))
                .max(copying_grain.min(units.div_ceil(participants)))
                .max(smallest_grain)
        };
        RegionSpec {
            total: units,
            grain,
            minimum_total: (self.parallel.minimum_tasks.max(1) - 1)
                .saturating_mul(smallest_grain)
                .saturating_add(1),
            max_participants: self.parallel.maximum_participants,
            serial_ns: self.parallel.serial_ns,
            path: self.parallel.path,
            tiles: self.parallel.tiles,
        }
    }
}

fn choose_place<S: Storage>(
    m: usize,
    n: usize,
    k: usize,
    b: BForm,
    config: &GemmConfig,
    tier: IsaTier,
) -> (Place, &'static str) {
    let in_place = match b {
        BForm::Constant if keeps_halves::<S>(tier) => return (Place::Halves, "packed_constant"),
        BForm::Constant => return (Place::Constant, "packed_constant"),
        BForm::Strided { column_stride, .. } => S::NATIVE && column_stride == 1,
    };
    let row = m == 1
        && matches!(
            b,
            BForm::Strided {
                column_stride: 1,
                ..
            }
        )
        && (S::NATIVE || keeps_halves::<S>(tier));
    let columns = S::NATIVE && m == 1 && matches!(b, BForm::Strided { row_stride: 1, .. });
    let skinny = m <= config.skinny_m_limit;
    match config.path {
        PathChoice::Unpacked if columns && !in_place => (Place::Columns, "vector"),
        PathChoice::Auto if columns && !in_place && skinny => (Place::Columns, "vector"),
        PathChoice::Unpacked if row => (Place::Vector, "vector"),
        PathChoice::Auto if row && skinny => (Place::Vector, "vector"),
        _ if !in_place => (Place::Packed, "packed"),
        PathChoice::Packed => (Place::Packed, "packed"),
        PathChoice::Unpacked => (Place::Rows, "unpacked"),
        PathChoice::Auto if skinny => (Place::Rows, "skinny"),
        PathChoice::Auto if k.saturating_mul(n) < config.pack_b_minimum_elements => {
            (Place::Rows, "small")
        }
        PathChoice::Auto => (Place::Packed, "packed"),
    }
}

/// Rows of the tallest register tile.
fn tile_height<T>(place: Place, n: usize, kernels: &Kernels<T>) -> usize {
    match place {
        Place::Rows if !kernels.strided_wide.is_empty() && n >= 2 * kernels.columns() => {
            kernels.strided_wide.len()
        }
        Place::Rows => kernels.strided.len(),
        _ => kernels.rows(),
    }
}

fn choose_a_form<S: Storage>(
    place: Place,
    m: usize,
    k: usize,
    panels: usize,
    a_strides: (usize, usize),
    kernels: &Kernels<S::Compute>,
) -> AForm {
    let in_place = S::NATIVE && a_strides.1 == 1;

    let panelled = matches!(place, Place::Constant | Place::Packed);
    if place.is_row() && S::NATIVE {
        AForm::InPlace
    } else if panelled
        && !kernels.sliver.is_empty()
        && m >= kernels.rows()
        && panels >= SLIVER_PANELS
        && (k > SLIVER_DEPTH || !in_place)
    {
        AForm::Slivers
    } else if in_place {
        AForm::InPlace
    } else {
        AForm::Rows
    }
}

impl Scratch {
    fn new<S: Storage>(
        place: Place,
        a_form: AForm,
        slice: usize,
        k: usize,
        group_rows: usize,
        tile_rows: usize,
        run_columns: usize,
        width: usize,
    ) -> Scratch {
        let line = 64 / size_of::<S::Compute>();
        let whole = |elements: usize| elements.next_multiple_of(line);
        let tile_sums = !S::NATIVE && slice >= k && !place.is_row();
        // A register tile of several panels has up to four.
        let widest = if tile_sums { 4 * width } else { run_columns };
        let mut scratch = Scratch {
            a_stride: whole(slice) + line,
            sums_stride: whole(widest),
            tile_sums,
            ..Scratch::default()
        };
        let a = match a_form {
            AForm::InPlace => 0,
            AForm::Rows => group_rows.saturating_mul(scratch.a_stride),
            // A line more: copies of slivers write a vector beyond their end.
            AForm::Slivers => group_rows.saturating_mul(slice).saturating_add(line),
        };
        let b = match place {
            Place::Constant | Place::Halves | Place::Vector | Place::Columns => 0,
            Place::Packed | Place::Rows => width * slice,
        };
        let rows = match place {
            _ if place.is_row() => 1,
            _ if tile_sums => tile_rows,
            _ => group_rows,
        };
        let area = rows.saturating_mul(scratch.sums_stride);
        let sums = if S::NATIVE { 0 } else { area };
        let partials = if k > BLOCK && (slice < BLOCK || place.is_row()) {
            area
        } else {
            0
        };
        scratch.b = whole(a);
        scratch.sums = scratch.b.saturating_add(whole(b));
        scratch.partials = scratch.sums.saturating_add(sums);
        scratch.total = whole(scratch.partials.saturating_add(partials))
            .saturating_mul(size_of::<S::Compute>());
        scratch
    }
}

/// A coarse estimate, for the decision whether parked lanes are worth waking: arithmetic, or reading a B that is used
/// once.
fn estimate_ns(fmas: usize, b_bytes: usize, element_bytes: usize, tier: IsaTier) -> u64 {
    const BYTES_PER_NANOSECOND: u64 = 25;
    let f32_per_nanosecond = match tier {
        IsaTier::Avx512 => 80,
        IsaTier::Avx2 => 40,
        IsaTier::Neon => 20,
        IsaTier::Scalar => 1,
    };
    let arithmetic = (fmas as u64).saturating_mul(element_bytes as u64) / (4 * f32_per_nanosecond);
    arithmetic.max(b_bytes as u64 / BYTES_PER_NANOSECOND)
}
