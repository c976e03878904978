//! The measured contract of the executor: what a region, a run and an idle lane cost, beside the pools that one would
//! use instead, and whether each claim holds.
//!
//! ```text
//! cargo bench -p onl-executor [--bench executor -- [--quick] [--only SECTION,...]]
//! ```
//!
//! A claim is `met` or `short`; neither fails the command. A machine that is not quiet proves nothing, so the
//! machine is probed before and after every section, and the summary says which claims a quiet machine measured: one
//! claim holds when three of five quiet runs meet it. Whatever starts threads that may spin is measured in a process
//! of its own, a copy of this program, and contestants take turns.
#![allow(clippy::disallowed_methods)] // the peers create threads, and the probe of the machine needs some of its own

mod claims;
mod contestants;
mod fork_join;
mod idle;
mod machine;
mod neighbours;
mod processes;
mod profiling;
mod speedup;
mod statistics;
mod work;

use claims::Claim;
use std::time::Instant;

/// How thoroughly to measure.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    /// Fewer rounds: to see that everything works, not to decide a claim.
    quick: bool,
}

impl Settings {
    /// A number of repetitions, a quarter of it for a quick look.
    pub(crate) fn rounds(self, full: usize) -> usize {
        if self.quick { (full / 4).max(1) } else { full }
    }
}

struct Section {
    name: &'static str,
    measure: fn(Settings) -> Vec<Claim>,
}

const SECTIONS: [Section; 5] = [
    Section {
        name: "fork_join",
        measure: fork_join::measure,
    },
    Section {
        name: "speedup",
        measure: speedup::measure,
    },
    Section {
        name: "neighbours",
        measure: neighbours::measure,
    },
    Section {
        name: "idle",
        measure: idle::measure,
    },
    Section {
        name: "profiling",
        measure: profiling::measure,
    },
];

/// What a copy of this program does for its parent.
fn run_as_child(arguments: &[String]) -> Result<(), String> {
    let (what, rest) = arguments.split_first().ok_or("nothing to measure")?;
    match what.as_str() {
        "contestant" => contestants::child(rest),
        "cold" => fork_join::cold_child(rest),
        "speedup" => speedup::child(rest),
        "neighbours" => neighbours::child(rest),
        "neighbour" => neighbours::be_a_neighbour(),
        "idle" => idle::child(rest),
        "profiling" => profiling::child(rest),
        other => Err(format!("'{other}' is not measured")),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments
        .first()
        .is_some_and(|first| first == processes::CHILD)
    {
        if let Err(error) = run_as_child(&arguments[1..]) {
            eprintln!("{error}");
            std::process::exit(1);
        }
        return;
    }
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    // `cargo bench` says `--bench`. `cargo test --benches` does not, and only asks whether this builds and starts.
    if has("--test") || !has("--bench") {
        return;
    }
    let settings = Settings {
        quick: has("--quick"),
    };
    let only: Vec<&str> = arguments
        .iter()
        .position(|argument| argument == "--only")
        .and_then(|position| arguments.get(position + 1))
        .map_or_else(Vec::new, |names| names.split(',').collect());
    let names = SECTIONS.map(|section| section.name);
    if let Some(unknown) = only.iter().find(|name| !names.contains(name)) {
        eprintln!(
            "there is no section '{unknown}'; the sections are {}",
            names.join(", ")
        );
        std::process::exit(2);
    }
    run(settings, &only);
}

/// Measures the sections of these names, all when there are none.
fn run(settings: Settings, only: &[&str]) {
    let began = Instant::now();
    machine::describe();
    let mut results = Vec::new();
    let mut before = machine::probe();
    println!("quiet: {before}");
    for section in SECTIONS
        .iter()
        .filter(|section| only.is_empty() || only.contains(&section.name))
    {
        println!("\n== {} ==", section.name);
        let times = machine::ProcessorTimes::now();
        let claims = (section.measure)(settings);
        let steal = times.steal_since();
        let after = machine::probe();
        let quiet = before.is_quiet() && after.is_quiet() && machine::is_little(steal);
        println!(
            "quiet: {after}; steal during the section {}; the section counts as {}",
            machine::percent(steal),
            if quiet { "quiet" } else { "not quiet" }
        );
        for claim in claims {
            results.push((section.name, claim, quiet));
        }
        before = after;
    }
    println!("\n== summary ==");
    claims::print_summary(&results);
    println!(
        "{:.0} s{}",
        began.elapsed().as_secs_f64(),
        if settings.quick {
            "; a quick look decides no claim"
        } else {
            ""
        }
    );
}
