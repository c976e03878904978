use onl_snapshot::{
    Candidate, Parameter, ParameterKind, ParameterRow, ParameterValue, Schema, TunedConfig,
};

const FMAS_PER_WORK_UNIT: &str = "parallel.fmas_per_work_unit";
const GRAIN_ELEMENTS: &str = "parallel.grain_elements";
const MINIMUM_TASKS: &str = "parallel.minimum_tasks";
const MAXIMUM_PARTICIPANTS: &str = "parallel.maximum_participants";
const PATH: &str = "algorithm.path";
const TILE_M: &str = "algorithm.tile_m";
const TILE_N: &str = "algorithm.tile_n";
const SKINNY_M_LIMIT: &str = "algorithm.skinny_m_limit";

/// Whether B is packed at a call. A constant B is always packed, at preparation; a B whose rows are not contiguous is
/// always packed at the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuantizedPath {
    /// By `skinny_m_limit`.
    Auto,
    /// Always packed.
    Packed,
    /// Interleaved in registers, for every register tile anew.
    Unpacked,
}

/// Parameters of a product of 8-bit integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuantizedConfig {
    /// Multiply-adds that one claim of a lane covers, at least.
    pub fmas_per_work_unit: usize,
    /// Elements of A that one claim of a lane copies or sums, at least.
    pub grain_elements: usize,
    /// Regions of fewer chunks run on the caller alone.
    pub minimum_tasks: usize,
    /// Most lanes; 0 leaves it to the session.
    pub maximum_participants: usize,
    /// Whether B is packed.
    pub path: QuantizedPath,
    /// Rows of a block of A, rounded up to whole register tiles.
    pub tile_m: usize,
    /// Columns of a block of B, rounded up to whole pairs of panels.
    pub tile_n: usize,
    /// Most rows for which B is not packed.
    pub skinny_m_limit: usize,
}

static SCHEMA: Schema = Schema {
    parameters: &[
        Parameter::integer(
            FMAS_PER_WORK_UNIT,
            1 << 21,
            (1 << 10, 1 << 50),
            "multiply-adds",
            "Multiply-adds that one claim of a lane covers, at least.",
        ),
        Parameter::integer(
            GRAIN_ELEMENTS,
            1 << 17,
            (1 << 6, 1 << 40),
            "elements",
            "Elements of A that one claim of a lane copies or sums before the product, at least.",
        ),
        Parameter::integer(
            MINIMUM_TASKS,
            2,
            (1, 1 << 40),
            "chunks",
            "Regions of fewer chunks run on the caller alone.",
        ),
        Parameter::integer(
            MAXIMUM_PARTICIPANTS,
            0,
            (0, 4_096),
            "lanes",
            "Most lanes that take part; 0 is the session's limit.",
        ),
        Parameter {
            name: PATH,
            kind: ParameterKind::Choice {
                default: "auto",
                values: &["auto", "packed", "unpacked"],
            },
            unit: "",
            meaning: "Whether a B that is not constant is packed at the call: by the rows of A, always, or never where rows are contiguous.",
        },
        Parameter::integer(
            TILE_M,
            144,
            (12, 4_096),
            "rows",
            "Rows of a block of A, rounded up to whole register tiles.",
        ),
        Parameter::integer(
            TILE_N,
            128,
            (16, 8_192),
            "columns",
            "Columns of a block of B, rounded up to whole pairs of panels.",
        ),
        Parameter::integer(
            SKINNY_M_LIMIT,
            4,
            (0, 1 << 20),
            "rows",
            "Most rows of A for which B is not packed, when the path is chosen by them.",
        ),
    ],
    check: |_| Ok(()),
};

impl TunedConfig for QuantizedConfig {
    fn schema() -> &'static Schema {
        &SCHEMA
    }

    fn from_row(row: &ParameterRow) -> Self {
        let size = |name| usize::try_from(row.integer(name)).unwrap_or(usize::MAX);
        QuantizedConfig {
            fmas_per_work_unit: size(FMAS_PER_WORK_UNIT),
            grain_elements: size(GRAIN_ELEMENTS),
            minimum_tasks: size(MINIMUM_TASKS),
            maximum_participants: size(MAXIMUM_PARTICIPANTS),
            path: match row.choice(PATH) {
                "packed" => QuantizedPath::Packed,
                "unpacked" => QuantizedPath::Unpacked,
                _ => QuantizedPath::Auto,
            },
            tile_m: size(TILE_M),
            tile_n: size(TILE_N),
            skinny_m_limit: size(SKINNY_M_LIMIT),
        }
    }
}

impl Default for QuantizedConfig {
    fn default() -> Self {
        QuantizedConfig::from_row(&SCHEMA.defaults())
    }
}

impl QuantizedConfig {
    /// Rows that differ from the defaults by one or two choices. The size of the second-level cache in bytes puts the
    /// more promising ones first.
    pub fn candidates(l2_bytes: Option<u64>) -> Vec<Candidate> {
        let defaults = SCHEMA.defaults();
        let row = |name: &str, values: &[(&str, i64)]| Candidate {
            name: name.to_owned(),
            values: values
                .iter()
                .fold(defaults.clone(), |row, &(parameter, value)| {
                    row.with(parameter, ParameterValue::Integer(value))
                }),
        };
        let high = row("high_blocks", &[(TILE_M, 288)]);
        let low = row("low_blocks", &[(TILE_M, 72)]);
        // A block of A of a thousand steps beside as large a block of B.
        let high_fits = l2_bytes.is_none_or(|bytes| bytes >= 1 << 20);
        let mut candidates = if high_fits {
            vec![high, low]
        } else {
            vec![low, high]
        };
        candidates.extend([
            row("wide_blocks", &[(TILE_N, 256)]),
            row("narrow_blocks", &[(TILE_N, 64)]),
            row("pack_small_m", &[(SKINNY_M_LIMIT, 2)]),
            row("unpack_larger_m", &[(SKINNY_M_LIMIT, 8)]),
            row("coarse_chunks", &[(FMAS_PER_WORK_UNIT, 1 << 23)]),
            row(
                "fine_chunks",
                &[
                    (FMAS_PER_WORK_UNIT, 1 << 18),
                    (GRAIN_ELEMENTS, 1 << 14),
                    (TILE_N, 64),
                ],
            ),
        ]);
        candidates.retain(|candidate| SCHEMA.check_row(&candidate.values).is_ok());
        candidates
    }
}
