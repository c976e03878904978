//! Writers that are killed, steps that fail, locks that cannot be had.

mod support;

use onl_snapshot::{
    KernelKey, ParallelConfig, ParameterValue, SizeDomain, TunedConfig as _, ValueSource,
};
use onl_tuning::statistics::SplitMix64;
use onl_tuning::*;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{execution, key};
use tempfile::TempDir;

const JOB: &str = "ONL_TUNING_TEST_JOB";
const WRITERS: usize = 8;
const ROUNDS: u64 = 200;
/// Kernels that one writer cycles through; a writer owns its kernels.
const KERNELS: u64 = 3;

fn row(kernel: String, count: u64) -> CachedRow {
    let count = i64::try_from(count).unwrap();
    CachedRow {
        key: KernelKey {
            kernel: kernel.into(),
            ..key("")
        },
        execution: execution(4),
        kind: RowKind::Promoted,
        values: ParallelConfig::schema().defaults().with(
            onl_snapshot::MINIMUM_ELEMENTS,
            ParameterValue::Integer(count),
        ),
        domain: SizeDomain::ALL,
        evidence: "ab".repeat(32),
        unknown: toml::Table::new(),
    }
}

fn count(row: &CachedRow) -> u64 {
    row.values
        .integer(onl_snapshot::MINIMUM_ELEMENTS)
        .unsigned_abs()
}

/// Starts this program again to do a job.
fn start(job: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "job", "--nocapture", "--test-threads", "1"])
        .env(JOB, job)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Not a test of its own: what the processes do that the tests start.
#[test]
fn job() {
    let Ok(job) = std::env::var(JOB) else {
        return;
    };
    let parts: Vec<&str> = job.split('|').collect();
    let folder = CacheFolder::at(parts[1]);
    let say = |line: String| {
        // One write, so that a killed process never leaves half a line.
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    };
    match parts[0] {
        "write" => {
            let mut next: u64 = parts[3].parse().unwrap();
            loop {
                let kernel = format!("Kernel_{}_{}", parts[2], next % KERNELS);
                folder.update(&[row(kernel, next)], &[]).unwrap();
                say(format!("committed {next}\n"));
                next += 1;
            }
        }
        "hold" => {
            let lock = fs::File::create(Path::new(parts[1]).join("choices.lock")).unwrap();
            lock.lock().unwrap();
            say("held\n".to_owned());
            std::thread::sleep(Duration::from_secs(600));
        }
        other => panic!("unknown job {other}"),
    }
}

/// The lines of a process that say something, up to its end.
fn said(text: &str) -> impl Iterator<Item = &str> {
    // The harness writes the name of the test before the first line of it.
    text.lines()
        .filter_map(|line| line.find("committed ").map(|at| &line[at + 10..]))
}

/// A folder in memory where the system has one: a killed process loses nothing that the system holds, so writing to a
/// disk would only make the rounds slower.
fn quick_folder() -> TempDir {
    TempDir::new_in("/dev/shm").unwrap_or_else(|_| TempDir::new().unwrap())
}

#[test]
fn eight_writers_killed_at_random_lose_no_committed_row() {
    let temporary = quick_folder();
    let path = temporary.path().join("cache");
    let folder = CacheFolder::at(&path);
    let mut random = SplitMix64(0x5eed);
    // Per writer, what it will write next, and per kernel what was committed last.
    let mut next = [1_u64; WRITERS];
    let mut committed: BTreeMap<String, u64> = BTreeMap::new();
    let mut commits = 0_usize;
    for round in 0..ROUNDS {
        let mut writers: Vec<Child> = (0..WRITERS)
            .map(|w| start(&format!("write|{}|{w}|{}", path.display(), next[w])))
            .collect();
        // Some writer is at work when the killing begins, however slow the machine is.
        let watched = (random.next_u64() % WRITERS as u64) as usize;
        let mut reader = BufReader::new(writers[watched].stdout.take().unwrap());
        let mut first = String::new();
        while !first.contains("committed") {
            let read = reader.read_line(&mut first).unwrap();
            assert!(read > 0, "round {round}: writer {watched} ended: {first}");
        }
        std::thread::sleep(Duration::from_micros(random.next_u64() % 8_000));
        let mut order: Vec<usize> = (0..WRITERS).collect();
        for i in (1..WRITERS).rev() {
            order.swap(i, (random.next_u64() % (i as u64 + 1)) as usize);
        }
        for w in order {
            writers[w].kill().unwrap();
            std::thread::sleep(Duration::from_micros(random.next_u64() % 800));
        }
        for (w, writer) in writers.iter_mut().enumerate() {
            let mut text = String::new();
            if w == watched {
                text.push_str(&first);
                reader.read_to_string(&mut text).unwrap();
            } else {
                let mut out = writer.stdout.take().unwrap();
                out.read_to_string(&mut text).unwrap();
            }
            writer.wait().unwrap();
            for number in said(&text) {
                let number: u64 = number.parse().unwrap();
                committed.insert(format!("Kernel_{w}_{}", number % KERNELS), number);
                next[w] = number + 1;
                commits += 1;
            }
            // It may have committed one more before it could say so.
            next[w] += 1;
        }

        let report = folder.load();
        assert_eq!(report.state, FileState::Read, "round {round}");
        assert_eq!(report.diagnostics(), [""; 0], "round {round}");
        for (kernel, number) in &committed {
            let found = report.choices.rows.iter().find(|r| r.key.kernel == *kernel);
            let found = found.map(count);
            assert!(
                found.is_some_and(|found| found >= *number),
                "round {round}: {kernel} has {found:?}, {number} was committed"
            );
        }
        // Nobody holds the lock.
        folder
            .clone()
            .with_lock_patience(Duration::ZERO)
            .check_writable()
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
    assert!(commits >= ROUNDS as usize, "{commits} commits");
    // What killed writers leave behind does not pile up.
    let files = fs::read_dir(&path).unwrap().count();
    assert!(files <= 5, "{files} files");
    println!("{commits} commits in {ROUNDS} rounds");
}

#[test]
fn a_lock_of_a_dead_process_does_not_block() {
    let temporary = TempDir::new().unwrap();
    let folder = CacheFolder::at(temporary.path()).with_lock_patience(Duration::from_millis(30));
    let mut holder = start(&format!("hold|{}", temporary.path().display()));
    let mut reader = BufReader::new(holder.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("held") {
        assert!(reader.read_line(&mut line).unwrap() > 0, "{line}");
    }
    let update = || folder.update(&[row("Abs".to_owned(), 1)], &[]);
    assert!(matches!(update(), Err(CacheError::Locked { .. })));
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(update().unwrap().changed);
}

#[test]
fn a_folder_that_cannot_be_locked_is_readable_and_says_why_it_is_not_changed() {
    let temporary = TempDir::new().unwrap();
    let folder = CacheFolder::at(temporary.path());
    folder.update(&[row("Abs".to_owned(), 7)], &[]).unwrap();
    let before = fs::read(folder.choices_path()).unwrap();
    fs::remove_file(temporary.path().join("choices.lock")).unwrap();
    fs::create_dir(temporary.path().join("choices.lock")).unwrap();
    let start = Instant::now();
    let error = folder
        .update(&[row("Abs".to_owned(), 8)], &[])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("choices.lock") && error.contains("nothing was saved"),
        "{error}"
    );
    assert!(folder.check_writable().is_err());
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "it does not wait"
    );
    assert_eq!(fs::read(folder.choices_path()).unwrap(), before);
    let registry = TuningRegistry::new();
    registry
        .register(key("Abs"), ParallelConfig::schema())
        .unwrap();
    let outcome = load_kernel_tuning_cache(&registry, &folder, &execution(4)).unwrap();
    assert_eq!(outcome.loaded, [key("Abs")]);
    let snapshot = registry.snapshot(&execution(4));
    let source = snapshot.row(&key("Abs")).unwrap().source;
    assert_eq!(source, ValueSource::ExactExecution);
}

#[test]
fn after_a_failure_at_any_step_the_choices_and_a_previous_file_are_whole() {
    for step in UpdateStep::ALL {
        let temporary = TempDir::new().unwrap();
        let folder = CacheFolder::at(temporary.path());
        folder.update(&[row("Abs".to_owned(), 1)], &[]).unwrap();
        let first = fs::read(folder.choices_path()).unwrap();
        folder.update(&[row("Abs".to_owned(), 2)], &[]).unwrap();
        let second = fs::read(folder.choices_path()).unwrap();
        let failing = folder.clone().interrupted_after(step);
        assert!(failing.update(&[row("Abs".to_owned(), 3)], &[]).is_err());
        let now = fs::read(folder.choices_path()).unwrap();
        let previous = fs::read(folder.previous_path()).unwrap();
        let renamed = step == UpdateStep::Renamed;
        assert_eq!(now != second, renamed, "{step:?}");
        let kept = renamed || step == UpdateStep::PreviousKept;
        assert_eq!(previous, if kept { second } else { first }, "{step:?}");
        assert_eq!(
            count(&folder.load().choices.rows[0]),
            2 + u64::from(renamed)
        );
        // A later writer meets neither a lock nor a file in its way.
        folder.update(&[row("Abs".to_owned(), 4)], &[]).unwrap();
        assert_eq!(count(&folder.load().choices.rows[0]), 4, "{step:?}");
        assert_eq!(fs::read(folder.previous_path()).unwrap(), now, "{step:?}");
    }
}

#[test]
fn what_is_no_regular_file_is_reported_and_never_waited_for() {
    let make: [(&str, fn(&Path)); 2] = [
        ("a folder", |path| fs::create_dir(path).unwrap()),
        ("a pipe", |path| {
            // Where there is no such command there is nothing to test.
            let _ = Command::new("mkfifo").arg(path).status();
        }),
    ];
    for (name, make) in make {
        let temporary = TempDir::new().unwrap();
        let folder = CacheFolder::at(temporary.path());
        make(&folder.choices_path());
        if !folder.choices_path().exists() {
            continue;
        }
        let report = folder.load();
        assert!(
            matches!(report.state, FileState::Unreadable { .. }),
            "{name}: {report:?}"
        );
        assert!(report.diagnostics()[0].contains("not a regular file"));
        let error = folder.update(&[row("Abs".to_owned(), 1)], &[]).unwrap_err();
        assert!(error.to_string().contains("nothing was saved"), "{name}");
    }
}
