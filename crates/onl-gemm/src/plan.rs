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
pub(crate) enum Source {
    /// Packed at preparation.
    Constant,
    /// Packed by each unit into its lane's scratch.
    Packed,
    /// Rows in memory.
    InPlace,
    /// Rows in memory, one output row, no register tiles.
    Vector,
}

/// Rows that a unit covers at most, unless one block is taller: bounds the scratch of a lane.
const MAXIMUM_UNIT_ROWS: usize = 1024;
/// Row blocks that share a packed block of B at least, so that packing stays a small part of the work.
const BLOCKS_PER_PACKED_B: usize = 4;
/// Blocks of columns that one pass over a vector product covers: rows of B are read in long runs.
const BLOCKS_PER_VECTOR_UNIT: usize = 8;
/// Distance between rows of A, in bytes, whose multiples put tall tiles into too few sets of a first-level cache.
const ALIASING_BYTES: usize = 2048;

/// How one product is computed: made from dimensions, layout, parameters and tier, and from nothing else.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    pub(crate) dims: Dimensions,
    pub(crate) a_strides: (usize, usize),
    pub(crate) b: BForm,
    pub(crate) tier: IsaTier,
    pub(crate) source: Source,
    pub(crate) copy_a: bool,
    /// Steps of k in a slice.
    pub(crate) slice: usize,
    pub(crate) panels: usize,
    pub(crate) column_blocks: usize,
    pub(crate) row_tiles: usize,
    pub(crate) row_groups: usize,
    pub(crate) tiles_per_block: usize,
    pub(crate) scratch: Scratch,
    spec: RegionSpecData,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct RegionSpecData {
    total: usize,
    grain: usize,
    minimum_total: usize,
    max_participants: usize,
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
        let Dimensions { batches, k, .. } = dims;
        // An empty result may stand beside dimensions of any size.
        let empty = batches == 0 || dims.m == 0 || dims.n == 0;
        let (m, n) = if empty { (0, 0) } else { (dims.m, dims.n) };
        let kernels = S::Compute::kernels(tier);
        let (height, width) = (kernels.rows(), kernels.columns());
        let bytes = size_of::<S::Compute>();
        let (source, path) = choose_source::<S>(dims, b, config);
        let copy_a = source != Source::Vector
            && (!S::NATIVE
                || a_strides.1 != 1
                || (m >= 8
                    && n >= 2 * width
                    && a_strides
                        .0
                        .wrapping_mul(bytes)
                        .is_multiple_of(ALIASING_BYTES)));

        let slice = config.tile_k.clamp(1, BLOCK).min(k.max(1));
        let panels = n.div_ceil(width);
        let panels_per_block = config.tile_n.div_ceil(width).max(1);
        let column_tiles = panels.div_ceil(panels_per_block);
        let column_blocks = match source {
            Source::Vector => column_tiles.div_ceil(BLOCKS_PER_VECTOR_UNIT),
            _ => column_tiles,
        };
        let row_tiles = m.div_ceil(height);
        let tiles_per_block = config.tile_m.div_ceil(height).max(1);
        let row_blocks = row_tiles.div_ceil(tiles_per_block);
        let unit_columns = (panels.div_ceil(column_blocks.max(1)) * width).min(n);
        let blocks_per_group = match source {
            Source::Packed => {
                let block_fmas = (tiles_per_block * height)
                    .saturating_mul(unit_columns)
                    .saturating_mul(k)
                    .max(1);
                let limit = (MAXIMUM_UNIT_ROWS / (tiles_per_block * height)).max(1);
                (config.fmas_per_work_unit / block_fmas)
                    .max(BLOCKS_PER_PACKED_B)
                    .min(limit)
            }
            _ => 1,
        };
        let row_groups = row_blocks.div_ceil(blocks_per_group);

        let total = batches
            .saturating_mul(column_blocks)
            .saturating_mul(row_groups);
        let fmas = batches
            .saturating_mul(m)
            .saturating_mul(n)
            .saturating_mul(k);
        let unit_fmas = (fmas / total.max(1)).max(1);
        let grain = (config.fmas_per_work_unit / unit_fmas).clamp(1, total.max(1));
        let unit_rows = row_tiles.div_ceil(row_groups.max(1)) * height;
        let block_rows = tiles_per_block.min(row_tiles) * height;
        let scratch = Scratch::new::<S>(
            source,
            copy_a,
            slice,
            k,
            block_rows,
            unit_rows,
            unit_columns,
            width,
            !n.is_multiple_of(width),
        );
        let tiles = [batches, row_blocks, column_tiles, k.div_ceil(slice)]
            .iter()
            .fold(1u64, |product, &count| product.saturating_mul(count as u64));
        Plan {
            dims,
            a_strides,
            b,
            tier,
            source,
            copy_a,
            slice,
            panels,
            column_blocks,
            row_tiles,
            row_groups,
            tiles_per_block,
            scratch,
            spec: RegionSpecData {
                total,
                grain,
                minimum_total: (config.minimum_tasks.max(1) - 1)
                    .saturating_mul(grain)
                    .saturating_add(1),
                max_participants: config.maximum_participants,
                serial_ns: estimate_ns(fmas, bytes, tier),
                path,
                tiles,
            },
        }
    }

    /// Bytes of scratch for a team of `lanes`; the memory is aligned to a cache line.
    pub fn workspace(&self, lanes: usize) -> usize {
        self.lane_bytes().saturating_mul(lanes)
    }

    /// Name of the algorithm: `packed_constant`, `packed`, `unpacked`, `small`, `skinny` or `vector`.
    pub fn path(&self) -> &'static str {
        self.spec.path
    }

    /// The region that the product opens.
    pub fn region(&self) -> RegionSpec {
        RegionSpec {
            total: self.spec.total,
            grain: self.spec.grain,
            minimum_total: self.spec.minimum_total,
            max_participants: self.spec.max_participants,
            serial_ns: self.spec.serial_ns,
            path: self.spec.path,
            tiles: self.spec.tiles,
        }
    }

    /// Bytes of one lane's scratch. The element size is that of the accumulators of the plan's type.
    pub(crate) fn lane_bytes(&self) -> usize {
        self.scratch.total
    }
}

fn choose_source<S: Storage>(
    dims: Dimensions,
    b: BForm,
    config: &GemmConfig,
) -> (Source, &'static str) {
    let in_place = match b {
        BForm::Constant => return (Source::Constant, "packed_constant"),
        BForm::Strided { column_stride, .. } => {
            S::NATIVE && (column_stride == 1 || dims.n == 1 && dims.m == 1)
        }
    };
    let skinny = dims.m <= config.skinny_m_limit;
    match config.path {
        _ if !in_place => (Source::Packed, "packed"),
        PathChoice::Packed => (Source::Packed, "packed"),
        PathChoice::Unpacked if dims.m == 1 => (Source::Vector, "vector"),
        PathChoice::Unpacked => (Source::InPlace, "unpacked"),
        PathChoice::Auto if skinny && dims.m == 1 => (Source::Vector, "vector"),
        PathChoice::Auto if skinny => (Source::InPlace, "skinny"),
        PathChoice::Auto if dims.k.saturating_mul(dims.n) < config.pack_b_minimum_elements => {
            (Source::InPlace, "small")
        }
        PathChoice::Auto => (Source::Packed, "packed"),
    }
}

impl Scratch {
    fn new<S: Storage>(
        source: Source,
        copy_a: bool,
        slice: usize,
        k: usize,
        block_rows: usize,
        unit_rows: usize,
        unit_columns: usize,
        width: usize,
        ragged: bool,
    ) -> Scratch {
        let line = 64 / size_of::<S::Compute>();
        let whole = |elements: usize| elements.next_multiple_of(line);
        let split = k > BLOCK;
        let mut scratch = Scratch {
            a_stride: whole(slice) + line,
            sums_stride: whole(unit_columns),
            ..Scratch::default()
        };
        let a = if copy_a {
            block_rows.saturating_mul(scratch.a_stride)
        } else {
            0
        };
        let b = match source {
            Source::Constant | Source::Vector => 0,
            Source::Packed => unit_columns.next_multiple_of(width).saturating_mul(slice),
            Source::InPlace => {
                if ragged {
                    width * slice
                } else {
                    0
                }
            }
        };
        let rows = if source == Source::Vector {
            1
        } else {
            unit_rows
        };
        let area = rows.saturating_mul(scratch.sums_stride);
        let sums = if S::NATIVE { 0 } else { area };
        let partials = if split && (slice < BLOCK || source == Source::Vector) {
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

/// A coarse estimate for the decision whether parked lanes are worth waking.
fn estimate_ns(fmas: usize, bytes: usize, tier: IsaTier) -> u64 {
    let per_nanosecond = match tier {
        IsaTier::Avx512 => 40,
        IsaTier::Avx2 => 30,
        IsaTier::Neon => 15,
        IsaTier::Scalar => 1,
    };
    (fmas as u64).saturating_mul(bytes as u64) / (4 * per_nanosecond)
}

/// Part `index` of `0..total` cut into `parts` parts whose sizes differ by at most one.
pub(crate) fn part(total: usize, parts: usize, index: usize) -> Range<usize> {
    let start = |index: usize| index * (total / parts) + index.min(total % parts);
    start(index)..start(index + 1)
}
