//! How an elementwise problem is divided among lanes.

use onl_executor::RegionSpec;
use onl_profiling::{RegionSite, region_site};
use onl_snapshot::ParallelConfig;

/// Regions of operations with one operand.
pub static UNARY: RegionSite = region_site!("elementwise.unary");
/// Regions of operations with two operands.
pub static BINARY: RegionSite = region_site!("elementwise.binary");
/// Regions of operations with any number of operands.
pub static VARIADIC: RegionSite = region_site!("elementwise.variadic");
/// Regions of `Where`.
pub static SELECT: RegionSite = region_site!("elementwise.select");

/// Chunks that a divided problem has at least, when it is not tiny.
const MINIMUM_CHUNKS: usize = 8;
/// Smallest chunk, in elements, that [`MINIMUM_CHUNKS`] may lead to.
const SMALLEST_CHUNK: usize = 256;
/// Chunk boundaries that come from [`MINIMUM_CHUNKS`] are multiples of this: a whole number of cache lines of every
/// element type.
const ALIGNMENT: usize = 64;

/// The division of `total` output elements under a row of parameters.
///
/// Below `minimum_elements` there is one chunk. From there on a chunk has `grain_elements`, or an eighth of the
/// problem if that is less (rounded up to 64 elements, and not below 256): a threshold below the grain would otherwise
/// admit problems of a single chunk, which no second lane can take part in. Boundaries thus depend on the problem and
/// the parameters only.
pub fn division(total: usize, config: &ParallelConfig, nanoseconds_per_element: f64) -> RegionSpec {
    let grain = if total < config.minimum_elements {
        total
    } else {
        let eighth = total
            .div_ceil(MINIMUM_CHUNKS)
            .next_multiple_of(ALIGNMENT)
            .max(SMALLEST_CHUNK);
        config.grain_elements.min(eighth)
    };
    RegionSpec {
        minimum_total: config.minimum_elements,
        max_participants: config.maximum_participants,
        serial_ns: (total as f64 * nanoseconds_per_element) as u64,
        ..RegionSpec::new(total, grain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(total: usize, minimum: usize, grain: usize) -> (usize, usize) {
        let spec = division(
            total,
            &ParallelConfig {
                minimum_elements: minimum,
                grain_elements: grain,
                maximum_participants: 0,
            },
            1.0,
        );
        (spec.grain, spec.chunks())
    }

    #[test]
    fn division_cases() {
        for (case, total, minimum, grain, expected) in [
            (
                "below the threshold there is one chunk",
                32_767,
                32_768,
                16_384,
                (32_767, 1),
            ),
            (
                "at the threshold an eighth",
                32_768,
                32_768,
                16_384,
                (4_096, 8),
            ),
            (
                "large problems take the grain",
                1 << 20,
                32_768,
                16_384,
                (16_384, 64),
            ),
            (
                "a threshold of one still gives two chunks",
                512,
                1,
                16_384,
                (256, 2),
            ),
            ("a small grain is kept", 4_096, 1, 256, (256, 16)),
            ("eighths are rounded up to 64", 8_200, 1, 16_384, (1_088, 8)),
            ("never divided", 1 << 23, usize::MAX, 16_384, (1 << 23, 1)),
            ("nothing to do", 0, 1, 16_384, (1, 0)),
        ] {
            assert_eq!(chunks(total, minimum, grain), expected, "{case}");
        }
    }
}
