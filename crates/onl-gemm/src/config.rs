use onl_snapshot::{
    Candidate, Parameter, ParameterKind, ParameterRow, ParameterValue, Schema, TunedConfig,
};

const FMAS_PER_WORK_UNIT: &str = "parallel.fmas_per_work_unit";
const MINIMUM_TASKS: &str = "parallel.minimum_tasks";
const MAXIMUM_PARTICIPANTS: &str = "parallel.maximum_participants";
const PATH: &str = "algorithm.path";
const TILE_M: &str = "algorithm.tile_m";
const TILE_N: &str = "algorithm.tile_n";
const TILE_K: &str = "algorithm.tile_k";
const PACK_B_MINIMUM_ELEMENTS: &str = "algorithm.pack_b_minimum_elements";
const SKINNY_M_LIMIT: &str = "algorithm.skinny_m_limit";
const CHUNKS_PER_PARTICIPANT: &str = "parallel.chunks_per_participant";
const BLOCKS_PER_PACKED_B: &str = "algorithm.blocks_per_packed_b";
const WIDEN_M_LIMIT: &str = "algorithm.widen_m_limit";

/// Whether B is packed at a call. A constant B is always packed, at preparation; a B whose rows are not contiguous,
/// or of a 16-bit type, is always packed at the call, but for a single row of A whose B has contiguous columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathChoice {
    /// By `pack_b_minimum_elements` and `skinny_m_limit`.
    Auto,
    /// Always packed.
    Packed,
    /// Read in place.
    Unpacked,
}

/// Parameters of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GemmConfig {
    /// Multiply-adds that one claim of a lane covers, at least.
    pub fmas_per_work_unit: usize,
    /// Products of fewer chunks run on the caller alone.
    pub minimum_tasks: usize,
    /// Claims that a lane makes, on average, when products are large.
    pub chunks_per_participant: usize,
    /// Most lanes; 0 leaves it to the session.
    pub maximum_participants: usize,
    /// Whether B is packed.
    pub path: PathChoice,
    /// Rows of a block of A, rounded up to whole register tiles.
    pub tile_m: usize,
    /// Columns of a block of B, rounded up to whole panels.
    pub tile_n: usize,
    /// Steps of k between two visits to the output.
    pub tile_k: usize,
    /// Smallest `k · n` of which B is packed.
    pub pack_b_minimum_elements: usize,
    /// Most rows for which B is read in place whatever its size.
    pub skinny_m_limit: usize,
    /// Blocks of A that use a panel which is packed at a call.
    pub blocks_per_packed_b: usize,
    /// Most rows of a block for which panels of 16-bit elements are widened in registers.
    pub widen_m_limit: usize,
}

/// Parameters of every product.
const EVERY: [Parameter; 7] = [
    Parameter::integer(
        FMAS_PER_WORK_UNIT,
        1 << 18,
        (1 << 10, 1 << 50),
        "multiply-adds",
        "Multiply-adds that one claim of a lane covers, at least.",
    ),
    Parameter::integer(
        MINIMUM_TASKS,
        2,
        (1, 1 << 40),
        "chunks",
        "Products of fewer chunks run on the caller alone.",
    ),
    Parameter::integer(
        CHUNKS_PER_PARTICIPANT,
        4,
        (1, 64),
        "chunks",
        "Claims that a lane makes, on average, when products are large.",
    ),
    Parameter::integer(
        MAXIMUM_PARTICIPANTS,
        0,
        (0, 4_096),
        "lanes",
        "Most lanes that take part; 0 is the session's limit.",
    ),
    Parameter::integer(
        TILE_M,
        144,
        (12, 4_096),
        "rows",
        "Rows of a block of A, rounded up to whole register tiles.",
    ),
    Parameter::integer(
        TILE_N,
        1_024,
        (16, 8_192),
        "columns",
        "Columns between two visits to the output where k has several slices, rounded up to whole panels.",
    ),
    Parameter::integer(
        TILE_K,
        1_024,
        (64, 4_096),
        "steps",
        "Steps of k between two visits to the output; blocks of the specification are cut, never joined.",
    ),
];

/// Parameters of products whose B can be read in place.
const OF_NATIVE: [Parameter; 4] = [
    Parameter {
        name: PATH,
        kind: ParameterKind::Choice {
            default: "auto",
            values: &["auto", "packed", "unpacked"],
        },
        unit: "",
        meaning: "Whether a B that is not constant is packed at the call: by size, always, or never where rows are contiguous.",
    },
    Parameter::integer(
        PACK_B_MINIMUM_ELEMENTS,
        1_024,
        (0, 1 << 50),
        "elements",
        "Smallest B that is packed when the path is chosen by size.",
    ),
    Parameter::integer(
        SKINNY_M_LIMIT,
        12,
        (0, 1 << 20),
        "rows",
        "Most rows of A for which B is read in place whatever its size, when the path is chosen by size.",
    ),
    Parameter::integer(
        BLOCKS_PER_PACKED_B,
        4,
        (1, 64),
        "blocks",
        "Blocks of A that use a panel which is packed at a call.",
    ),
];

/// Parameters of products of 16-bit types.
const OF_WIDENED: [Parameter; 1] = [Parameter::integer(
    WIDEN_M_LIMIT,
    64,
    (0, 1 << 20),
    "rows",
    "Most rows of a block for which tiles widen 16-bit constants; above, panels are widened once for all tiles.",
)];

const fn joined<const N: usize>(more: &[Parameter]) -> [Parameter; N] {
    let mut all = [EVERY[0]; N];
    let mut index = 0;
    while index < N {
        all[index] = if index < EVERY.len() {
            EVERY[index]
        } else {
            more[index - EVERY.len()]
        };
        index += 1;
    }
    all
}

static PARAMETERS: [Parameter; EVERY.len() + OF_NATIVE.len()] = joined(&OF_NATIVE);
static WIDENED_PARAMETERS: [Parameter; EVERY.len() + OF_WIDENED.len()] = joined(&OF_WIDENED);

static SCHEMA: Schema = Schema {
    parameters: &PARAMETERS,
    check: |_| Ok(()),
};

static WIDENED_SCHEMA: Schema = Schema {
    parameters: &WIDENED_PARAMETERS,
    check: |_| Ok(()),
};

impl TunedConfig for GemmConfig {
    fn schema() -> &'static Schema {
        &SCHEMA
    }

    fn from_row(row: &ParameterRow) -> Self {
        // A row of one schema leaves out what can be chosen in the other alone.
        let defaults = [SCHEMA.defaults().0, WIDENED_SCHEMA.defaults().0];
        let all = defaults.into_iter().flatten().chain(row.0.clone());
        let row = ParameterRow(all.collect());
        let size = |name| usize::try_from(row.integer(name)).unwrap_or(usize::MAX);
        GemmConfig {
            fmas_per_work_unit: size(FMAS_PER_WORK_UNIT),
            minimum_tasks: size(MINIMUM_TASKS),
            chunks_per_participant: size(CHUNKS_PER_PARTICIPANT),
            maximum_participants: size(MAXIMUM_PARTICIPANTS),
            path: match row.choice(PATH) {
                "packed" => PathChoice::Packed,
                "unpacked" => PathChoice::Unpacked,
                _ => PathChoice::Auto,
            },
            tile_m: size(TILE_M),
            tile_n: size(TILE_N),
            tile_k: size(TILE_K),
            pack_b_minimum_elements: size(PACK_B_MINIMUM_ELEMENTS),
            skinny_m_limit: size(SKINNY_M_LIMIT),
            blocks_per_packed_b: size(BLOCKS_PER_PACKED_B),
            widen_m_limit: size(WIDEN_M_LIMIT),
        }
    }
}

impl Default for GemmConfig {
    fn default() -> Self {
        GemmConfig::from_row(&SCHEMA.defaults())
    }
}

impl GemmConfig {
    /// Schema of products of 16-bit types, whose B is always packed because packing widens it.
    pub fn widened_schema() -> &'static Schema {
        &WIDENED_SCHEMA
    }

    /// Rows of a schema that differ from its defaults by one or two choices. Cache sizes in bytes put the more
    /// promising ones first; `element_bytes` is the size of an accumulator.
    pub fn candidates(
        schema: &Schema,
        element_bytes: usize,
        l2_bytes: Option<u64>,
    ) -> Vec<Candidate> {
        let defaults = schema.defaults();
        let row = |name: &str, values: &[(&str, i64)]| Candidate {
            name: name.to_owned(),
            values: values
                .iter()
                .fold(defaults.clone(), |row, &(parameter, value)| {
                    row.with(parameter, ParameterValue::Integer(value))
                }),
        };
        let deep = row("deep_low_blocks", &[(TILE_K, 2_048), (TILE_M, 72)]);
        let shallow = row("shallow_blocks", &[(TILE_K, 512)]);
        // A block of A should leave half of the second-level cache to panels of B and to the output.
        let deep_fits = l2_bytes.is_none_or(|bytes| 2 * 72 * 2_048 * element_bytes as u64 <= bytes);
        let mut candidates = if deep_fits {
            vec![deep, shallow]
        } else {
            vec![shallow, deep]
        };
        candidates.extend([
            row("high_blocks", &[(TILE_M, 252)]),
            row("low_blocks", &[(TILE_M, 72)]),
            row("narrow_runs", &[(TILE_N, 256)]),
            row("wide_runs", &[(TILE_N, 4_096)]),
            row("pack_for_few_rows", &[(SKINNY_M_LIMIT, 4)]),
            row(
                "pack_large_b_only",
                &[(PACK_B_MINIMUM_ELEMENTS, 1 << 16), (SKINNY_M_LIMIT, 16)],
            ),
            row("packed_b_for_one_block", &[(BLOCKS_PER_PACKED_B, 1)]),
            row("widen_few_rows", &[(WIDEN_M_LIMIT, 24)]),
            row("widen_many_rows", &[(WIDEN_M_LIMIT, 256)]),
            row("few_chunks", &[(CHUNKS_PER_PARTICIPANT, 1)]),
            row("many_chunks", &[(CHUNKS_PER_PARTICIPANT, 16)]),
            row("coarse_chunks", &[(FMAS_PER_WORK_UNIT, 1 << 21)]),
            row("fine_chunks", &[(FMAS_PER_WORK_UNIT, 1 << 16)]),
            row("serial", &[(MAXIMUM_PARTICIPANTS, 1)]),
        ]);
        candidates.retain(|candidate| schema.check_row(&candidate.values).is_ok());
        candidates
    }
}
