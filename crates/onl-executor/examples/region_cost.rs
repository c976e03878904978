//! Runs a number of regions that are divided among nobody, for counting the instructions of a region:
//! `region_cost REGIONS`. `cargo xtask profiling-cost` runs it.

use onl_executor::{CpuExecutor, RegionSpec};
use onl_profiling::{RegionSite, region_site};
use std::hint::black_box;

static SITE: RegionSite = region_site!("example.region_cost");

fn main() {
    let regions: u64 = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    let executor = CpuExecutor::with_lanes(1);
    let run = executor.enter();
    let lanes = run.lanes();
    for _ in 0..regions {
        let result = lanes.region(&SITE, black_box(RegionSpec::new(4, 1)), |chunk| {
            black_box(chunk.index);
        });
        if let Err(error) = result {
            eprintln!("{error}");
        }
    }
}
