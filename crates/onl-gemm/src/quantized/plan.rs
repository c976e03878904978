use super::pack::{groups, largest_groups};
use super::tile::{Kernels, MAXIMUM_ROWS};
use super::{Instructions, QuantizedConfig, QuantizedPath};
use onl_executor::RegionSpec;
use std::ops::Range;

/// What a product of 8-bit integers is planned from: `batches` times A (m × k) by B (k × n).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuantizedShape {
    /// Number of products.
    pub batches: usize,
    /// Number of different matrices of A.
    pub a_matrices: usize,
    /// Rows of A and of the result.
    pub m: usize,
    /// Columns of B and of the result.
    pub n: usize,
    /// Columns of A and rows of B.
    pub k: usize,
    /// Whether the elements of A are `i8`, otherwise `u8`.
    pub a_signed: bool,
    /// Whether elements of a row of A are adjacent.
    pub a_contiguous: bool,
    /// Whether B is packed already.
    pub b_constant: bool,
    /// Whether elements of a row of B are adjacent.
    pub b_contiguous: bool,
    /// Whether B may have strips that the instructions multiply as bytes, and strips that they do not.
    pub b_widths: (bool, bool),
    /// Whether the results are bytes.
    pub requantized: bool,
}

/// Where register tiles find B.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// Packed at preparation.
    Constant,
    /// Packed by each unit into its lane's scratch.
    Packed,
    /// Rows in memory.
    InPlace,
}

/// Row blocks that share a packed block of B at least, so that packing stays a small part of the work.
const BLOCKS_PER_PACKED_B: usize = 4;
/// Blocks of columns that a unit over B in place covers: rows of B are read in long runs.
const BLOCKS_IN_PLACE: usize = 4;
/// Alignment of every part of the scratch.
const CACHE_LINE: usize = 64;

/// How one product is computed: made from the shape, parameters and instructions, and from nothing else.
#[derive(Debug, Clone, Copy)]
pub struct QuantizedPlan {
    pub(super) shape: QuantizedShape,
    pub(super) instructions: Instructions,
    pub(super) source: Source,
    /// Whether A is copied in the form of the instructions.
    pub(super) copy_a: bool,
    /// Whether A is copied in the form of their wide kernels.
    pub(super) copy_wide_a: bool,
    /// Groups of k, the last one perhaps not full.
    pub(super) groups: usize,
    /// The same of wide kernels.
    pub(super) wide_groups: usize,
    pub(super) strips: usize,
    pub(super) column_blocks: usize,
    pub(super) row_tiles: usize,
    pub(super) row_groups: usize,
    pub(super) tiles_per_block: usize,
    pub(super) shared: SharedScratch,
    pub(super) scratch: LaneScratch,
    rows: RegionData,
    product: RegionData,
}

#[derive(Debug, Clone, Copy)]
struct RegionData {
    total: usize,
    grain: usize,
    minimum_total: usize,
    max_participants: usize,
    serial_ns: u64,
    path: &'static str,
    tiles: u64,
}

/// Offsets into the scratch that all lanes read, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SharedScratch {
    /// Bytes from one copied row of A to the next.
    pub a_stride: usize,
    /// Where copies for wide kernels begin.
    pub wide_a: usize,
    /// Bytes from one of their rows to the next.
    pub wide_a_stride: usize,
    /// Row terms: three arrays of one `i32` a row.
    pub terms: usize,
    pub total: usize,
}

/// Offsets into a lane's scratch, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LaneScratch {
    /// Columns that the following arrays have room for.
    pub columns: usize,
    pub column_sums: usize,
    pub starts: usize,
    pub zero_points: usize,
    pub scales: usize,
    /// Sums of a register tile, or of the rows of a unit over B in place.
    pub sums: usize,
    pub b: usize,
    /// 32-bit words from one packed strip to the next.
    pub strip: usize,
    /// Whether a packed strip is wide, one `i32` each.
    pub wide: usize,
    pub total: usize,
}

impl QuantizedPlan {
    /// A plan for a shape; the instructions are available on this processor.
    pub fn new(
        shape: QuantizedShape,
        config: &QuantizedConfig,
        instructions: Instructions,
    ) -> QuantizedPlan {
        let kernels = instructions.kernels(shape.a_signed);
        // An empty result may stand beside dimensions of any size.
        let empty = shape.batches == 0 || shape.m == 0 || shape.n == 0;
        let (m, n, k) = if empty {
            (0, 0, 0)
        } else {
            (shape.m, shape.n, shape.k)
        };
        let (source, path) = choose_source(&shape, config);
        // A B in place is multiplied as it may be at worst.
        let wide = instructions.wide_kernels();
        let in_place = source == Source::InPlace;
        let uses_narrow = wide.is_none() || !in_place && shape.b_widths.0;
        let copy_wide_a = wide.is_some() && (in_place || shape.b_widths.1);
        let copy_a = uses_narrow
            && (in_place || !shape.a_contiguous || !kernels.a_form.is_native(shape.a_signed));
        let wide_groups = wide.map_or(0, |wide| groups(k, wide));
        let most_groups = largest_groups(k, instructions, shape.a_signed);
        let groups = groups(k, kernels);

        let strips = n.div_ceil(kernels.strip());
        let strips_per_block = config.tile_n.div_ceil(kernels.strip()).max(1);
        let column_tiles = strips.div_ceil(strips_per_block);
        let (height, column_blocks) = match source {
            Source::InPlace => (kernels.strips.len(), column_tiles.div_ceil(BLOCKS_IN_PLACE)),
            _ => (kernels.rows(), column_tiles),
        };
        let row_tiles = m.div_ceil(height);
        let tiles_per_block = match source {
            Source::InPlace => 1,
            _ => config.tile_m.div_ceil(height).max(1),
        };
        let row_blocks = row_tiles.div_ceil(tiles_per_block);
        let unit_columns = strips.div_ceil(column_blocks.max(1)) * kernels.strip();
        let blocks_per_group = match source {
            Source::Packed => {
                let block_fmas = (tiles_per_block * height)
                    .saturating_mul(unit_columns)
                    .saturating_mul(k)
                    .max(1);
                (config.fmas_per_work_unit / block_fmas).max(BLOCKS_PER_PACKED_B)
            }
            _ => 1,
        };
        let row_groups = row_blocks.div_ceil(blocks_per_group);

        let total = shape
            .batches
            .saturating_mul(column_blocks)
            .saturating_mul(row_groups);
        let fmas = [m, n, k]
            .iter()
            .fold(shape.batches, |product, &x| product.saturating_mul(x));
        let unit_fmas = (fmas / total.max(1)).max(1);
        let grain = (config.fmas_per_work_unit / unit_fmas).clamp(1, total.max(1));
        let tiles = [shape.batches, row_blocks, column_tiles]
            .iter()
            .fold(1u64, |product, &count| product.saturating_mul(count as u64));
        let minimum = |grain: usize| {
            (config.minimum_tasks.max(1) - 1)
                .saturating_mul(grain)
                .saturating_add(1)
        };
        let row_grain = (config.grain_elements / k.max(1)).max(1);
        let a_rows = if empty {
            0
        } else {
            shape.a_matrices.saturating_mul(m)
        };
        QuantizedPlan {
            shape,
            instructions,
            source,
            copy_a,
            copy_wide_a,
            groups,
            wide_groups,
            strips,
            column_blocks,
            row_tiles,
            row_groups,
            tiles_per_block,
            shared: SharedScratch::new(
                a_rows,
                if copy_a { groups } else { 0 },
                if copy_wide_a { wide_groups } else { 0 },
            ),
            scratch: LaneScratch::new(
                source,
                kernels,
                unit_columns,
                most_groups,
                shape.requantized,
            ),
            rows: RegionData {
                total: a_rows,
                grain: row_grain,
                minimum_total: minimum(row_grain),
                max_participants: config.maximum_participants,
                serial_ns: (a_rows as u64).saturating_mul(k as u64) / 16,
                path: if copy_a || copy_wide_a {
                    "copied"
                } else {
                    "summed"
                },
                tiles: 0,
            },
            product: RegionData {
                total,
                grain,
                minimum_total: minimum(grain),
                max_participants: config.maximum_participants,
                serial_ns: fmas as u64 / instructions.fmas_per_nanosecond(),
                path,
                tiles,
            },
        }
    }

    /// Bytes of scratch for a team of `lanes`; the memory is aligned to a cache line.
    pub fn workspace(&self, lanes: usize) -> usize {
        self.scratch
            .total
            .saturating_mul(lanes)
            .saturating_add(self.shared.total)
    }

    /// Name of the algorithm: `packed_constant`, `packed`, `skinny` or `unpacked`.
    pub fn path(&self) -> &'static str {
        self.product.path
    }

    /// The region of rows of A.
    pub(super) fn rows_region(&self) -> RegionSpec {
        self.rows.spec()
    }

    /// The region that the product opens.
    pub fn region(&self) -> RegionSpec {
        self.product.spec()
    }

    /// Rows of a register tile.
    pub(super) fn tile_rows(&self, tile: usize) -> Range<usize> {
        let (height, taller) = (self.shape.m / self.row_tiles, self.shape.m % self.row_tiles);
        let start = |tile: usize| tile * height + tile.min(taller);
        start(tile)..start(tile + 1)
    }
}

impl RegionData {
    fn spec(&self) -> RegionSpec {
        RegionSpec {
            total: self.total,
            grain: self.grain,
            minimum_total: self.minimum_total,
            max_participants: self.max_participants,
            serial_ns: self.serial_ns,
            path: self.path,
            tiles: self.tiles,
        }
    }
}

fn choose_source(shape: &QuantizedShape, config: &QuantizedConfig) -> (Source, &'static str) {
    if shape.b_constant {
        return (Source::Constant, "packed_constant");
    }
    match config.path {
        _ if !shape.b_contiguous => (Source::Packed, "packed"),
        QuantizedPath::Packed => (Source::Packed, "packed"),
        QuantizedPath::Unpacked => (Source::InPlace, "unpacked"),
        QuantizedPath::Auto if shape.m <= config.skinny_m_limit => (Source::InPlace, "skinny"),
        QuantizedPath::Auto => (Source::Packed, "packed"),
    }
}

fn whole_lines(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(CACHE_LINE).unwrap_or(bytes)
}

impl SharedScratch {
    /// Scratch for rows of so many groups, and of so many wide ones.
    fn new(rows: usize, groups: usize, wide_groups: usize) -> SharedScratch {
        // One line more keeps rows out of the same sets of a first-level cache.
        let stride = |groups| match groups {
            0 => 0,
            _ => whole_lines(4 * groups) + CACHE_LINE,
        };
        let (a_stride, wide_a_stride) = (stride(groups), stride(wide_groups));
        let wide_a = a_stride.saturating_mul(rows);
        let terms = wide_a.saturating_add(wide_a_stride.saturating_mul(rows));
        SharedScratch {
            a_stride,
            wide_a,
            wide_a_stride,
            terms,
            total: whole_lines(terms.saturating_add(rows.saturating_mul(12))),
        }
    }
}

impl LaneScratch {
    fn new(
        source: Source,
        kernels: &Kernels,
        columns: usize,
        groups: usize,
        requantized: bool,
    ) -> LaneScratch {
        let array = whole_lines(columns.saturating_mul(4));
        let sums = match source {
            Source::InPlace => columns * (kernels.strips.len() + 1),
            _ if requantized => MAXIMUM_ROWS * kernels.panel(),
            _ => 0,
        };
        let mut scratch = LaneScratch {
            columns,
            starts: array,
            zero_points: 2 * array,
            scales: 3 * array,
            sums: 4 * array,
            ..LaneScratch::default()
        };
        scratch.wide = scratch.sums + whole_lines(4 * sums);
        scratch.b = scratch.wide + array;
        scratch.strip = kernels.strip().saturating_mul(groups);
        let b = match source {
            Source::Packed => columns.saturating_mul(groups).saturating_mul(4),
            _ => 0,
        };
        scratch.total = scratch.b.saturating_add(whole_lines(b));
        scratch
    }
}
