use crate::{Parameter, ParameterRow, ParameterValue, Schema, Search, TunedConfig};
use std::ops::RangeInclusive;

/// Parameters of a kernel whose only choice is how it is divided among lanes. Sizes count elements of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParallelConfig {
    /// Fewest elements that are divided.
    pub minimum_elements: usize,
    /// Elements per chunk.
    pub grain_elements: usize,
    /// Most lanes; 0 leaves it to the session.
    pub maximum_participants: usize,
}

/// Name of the threshold parameter of [`ParallelConfig`].
pub const MINIMUM_ELEMENTS: &str = "parallel.minimum_elements";
/// Name of the grain parameter of [`ParallelConfig`].
pub const GRAIN_ELEMENTS: &str = "parallel.grain_elements";
/// Name of the limit parameter of [`ParallelConfig`].
pub const MAXIMUM_PARTICIPANTS: &str = "parallel.maximum_participants";

static SCHEMA: Schema = Schema {
    parameters: &[
        Parameter::integer(
            MINIMUM_ELEMENTS,
            32_768,
            (1, i64::MAX),
            "elements",
            "Problems with fewer elements run on the caller alone; the largest integer means never divide.",
        ),
        Parameter::integer(
            GRAIN_ELEMENTS,
            16_384,
            (256, 1 << 40),
            "elements",
            "Elements that one claim of a lane covers.",
        ),
        Parameter::integer(
            MAXIMUM_PARTICIPANTS,
            0,
            (0, 4_096),
            "lanes",
            "Most lanes that take part; 0 is the session's limit.",
        ),
    ],
    check: |_| Ok(()),
};

impl ParallelConfig {
    /// The search for the threshold from which lanes pay: between never and always dividing, or a power of two with one
    /// of these exponents.
    pub fn crossover(exponents: RangeInclusive<u32>) -> Search {
        let with_threshold = |elements: i64| {
            SCHEMA
                .defaults()
                .with(MINIMUM_ELEMENTS, ParameterValue::Integer(elements))
        };
        Search::Crossover {
            parameter: MINIMUM_ELEMENTS,
            below: with_threshold(i64::MAX),
            above: with_threshold(1),
            grid: exponents
                .map(|exponent| 1 << exponent)
                .chain([i64::MAX])
                .collect(),
        }
    }
}

impl TunedConfig for ParallelConfig {
    fn schema() -> &'static Schema {
        &SCHEMA
    }

    fn from_row(row: &ParameterRow) -> Self {
        let size = |name| usize::try_from(row.integer(name)).unwrap_or(usize::MAX);
        ParallelConfig {
            minimum_elements: size(MINIMUM_ELEMENTS),
            grain_elements: size(GRAIN_ELEMENTS),
            maximum_participants: size(MAXIMUM_PARTICIPANTS),
        }
    }
}
