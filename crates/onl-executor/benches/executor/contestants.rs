//! Who forks and joins: the executor in its wait modes, rayon, `std::thread::scope` and libgomp.
//!
//! A region is the same for all: two lanes, both of which have to arrive before it ends.

use crate::processes::{self, Samples};
use crate::work::time_after_gaps;
use onl_executor::{CpuExecutor, RegionSpec, Run, RunOptions, WaitMode};
use onl_profiling::{RegionSite, region_site};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Microseconds that the caller computes between two regions.
pub(crate) const GAPS_US: [u64; 5] = [0, 20, 100, 500, 2000];

pub(crate) const LATENCY: &str = "latency";
pub(crate) const BALANCED: &str = "balanced";
pub(crate) const FRUGAL: &str = "frugal";
pub(crate) const RAYON_INSIDE: &str = "rayon::join inside";
pub(crate) const RAYON_OUTSIDE: &str = "rayon::join outside";
pub(crate) const SCOPE: &str = "std::thread::scope";
pub(crate) const LIBGOMP: &str = "libgomp default";
pub(crate) const LIBGOMP_PASSIVE: &str = "libgomp passive";

/// Everyone, in the order of the table.
pub(crate) const ALL: [&str; 8] = [
    LATENCY,
    BALANCED,
    FRUGAL,
    RAYON_INSIDE,
    RAYON_OUTSIDE,
    SCOPE,
    LIBGOMP,
    LIBGOMP_PASSIVE,
];

static SITE: RegionSite = region_site!("bench.both_lanes");

/// A region that both lanes have to join.
pub(crate) fn region_of_both(run: &Run<'_>) {
    let arrived = AtomicBool::new(false);
    let result = run.lanes().region(&SITE, RegionSpec::new(2, 1), |chunk| {
        if chunk.lane == 1 {
            arrived.store(true, Ordering::Relaxed);
        } else {
            wait_for(&arrived);
        }
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

fn wait_for(arrived: &AtomicBool) {
    while !arrived.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

/// Enters a run the way a session does whose plan has regions.
pub(crate) fn enter(executor: &CpuExecutor) -> Run<'_> {
    let options = RunOptions {
        expects_regions: true,
        ..RunOptions::default()
    };
    executor
        .enter_with(options)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The wait mode of a name.
pub(crate) fn wait_mode(name: &str) -> Option<WaitMode> {
    [WaitMode::Latency, WaitMode::Balanced, WaitMode::Frugal]
        .into_iter()
        .find(|mode| mode.name() == name)
}

/// Regions after gaps of this length that take less than half a second.
fn regions(gap_us: u64) -> usize {
    (400_000 / (gap_us + 50)).clamp(150, 4000) as usize
}

/// Measures one contestant in this process. Arguments: its name, and GAP_MICROSECONDS:REGIONS ...
pub(crate) fn child(arguments: &[String]) -> Result<(), String> {
    let [name, plan @ ..] = arguments else {
        return Err("a contestant needs a name".to_owned());
    };
    let plan = plan
        .iter()
        .map(|item| {
            let (gap, regions) = item.split_once(':')?;
            Some((gap.parse().ok()?, regions.parse().ok()?))
        })
        .collect::<Option<Vec<(u64, usize)>>>()
        .ok_or("a plan is GAP_MICROSECONDS:REGIONS ...")?;
    let measure_all = |region: &mut dyn FnMut()| {
        for &(gap, regions) in &plan {
            let samples = time_after_gaps(Duration::from_micros(gap), regions, &mut *region);
            processes::emit(&gap.to_string(), &samples);
        }
    };
    if let Some(mode) = wait_mode(name) {
        let executor = CpuExecutor::with_wait_mode(2, mode);
        let run = enter(&executor);
        measure_all(&mut || region_of_both(&run));
        return Ok(());
    }
    let join = || {
        let arrived = AtomicBool::new(false);
        rayon::join(
            || wait_for(&arrived),
            || arrived.store(true, Ordering::Relaxed),
        );
    };
    let pool = || {
        rayon::ThreadPoolBuilder::new()
            .num_threads(2)
            .build()
            .map_err(|error| error.to_string())
    };
    match name.as_str() {
        RAYON_INSIDE => pool()?.install(|| measure_all(&mut || join())),
        RAYON_OUTSIDE => {
            let pool = pool()?;
            measure_all(&mut || pool.install(join));
        }
        SCOPE => measure_all(&mut || {
            let arrived = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| arrived.store(true, Ordering::Relaxed));
                wait_for(&arrived);
            });
        }),
        _ => return Err(format!("'{name}' is no contestant")),
    }
    Ok(())
}

/// The libgomp program, compiled for this run of the benchmark.
pub(crate) struct Libgomp {
    folder: PathBuf,
    program: Result<PathBuf, String>,
}

impl Libgomp {
    /// Compiles it with `$CC`, or `cc`.
    pub(crate) fn compile() -> Self {
        let folder =
            std::env::temp_dir().join(format!("onl-executor-bench-{}", std::process::id()));
        let program = Self::compile_into(&folder);
        Libgomp { folder, program }
    }

    fn compile_into(folder: &std::path::Path) -> Result<PathBuf, String> {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let source = folder.join("libgomp.c");
        std::fs::write(&source, include_str!("libgomp.c"))
            .map_err(|error| format!("{}: {error}", source.display()))?;
        let program = folder.join("libgomp");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let output = Command::new(&compiler)
            .args(["-O2", "-fopenmp", "-o"])
            .arg(&program)
            .arg(&source)
            .output()
            .map_err(|error| format!("C compiler '{compiler}': {error}"))?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            let first = message.lines().next().unwrap_or_default();
            return Err(format!("'{compiler} -fopenmp' fails: {first}"));
        }
        Ok(program)
    }

    fn command(&self, passive: bool) -> Result<Command, String> {
        let mut command = Command::new(self.program.as_ref().map_err(Clone::clone)?);
        for (name, _) in std::env::vars_os() {
            let known = name.to_string_lossy();
            if known.starts_with("OMP_") || known.starts_with("GOMP_") {
                command.env_remove(&name);
            }
        }
        if passive {
            command.env("OMP_WAIT_POLICY", "passive");
        }
        Ok(command)
    }
}

impl Drop for Libgomp {
    fn drop(&mut self) {
        // What is left in a folder for temporary files is the system's to remove.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Measures a contestant in a process of its own; samples are added under the gap's number.
pub(crate) fn compete(
    name: &str,
    libgomp: &Libgomp,
    divisor: usize,
    samples: &mut Samples,
) -> Result<(), String> {
    let plan = GAPS_US.map(|gap| format!("{gap}:{}", (regions(gap) / divisor).max(50)));
    let mut command = match name {
        LIBGOMP => libgomp.command(false)?,
        LIBGOMP_PASSIVE => libgomp.command(true)?,
        _ => processes::own(&["contestant", name])?,
    };
    command.args(&plan);
    processes::collect(command, samples)
}
