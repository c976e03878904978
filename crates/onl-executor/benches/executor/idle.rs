//! What an executor costs while nobody uses it.

use crate::Settings;
use crate::claims::Claim;
use crate::contestants::{self, enter, region_of_both, wait_mode};
use crate::processes::{self, Samples};
use onl_executor::CpuExecutor;
use std::process::Stdio;
use std::time::{Duration, Instant};

const MODES: [&str; 2] = [contestants::FRUGAL, contestants::BALANCED];
const MOST_PERCENT: f64 = 0.1;
/// Longer than a balanced lane spins at most.
const AFTER: Duration = Duration::from_millis(10);

pub(crate) fn measure(settings: Settings) -> Vec<Claim> {
    let seconds = settings.rounds(5).to_string();
    println!("processor time of a process with an idle executor of two lanes, over {seconds} s");
    // Sleeping processes do not disturb each other.
    let started = MODES.map(|mode| {
        let mut command = processes::own(&["idle", mode, &seconds])?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())
    });
    MODES
        .into_iter()
        .zip(started)
        .map(|(mode, child)| {
            let text = format!("{mode}: idle processor time, of one processor");
            let mut samples = Samples::new();
            let collected = child.and_then(|child| processes::collect_child(child, &mut samples));
            match (collected, samples.get(mode).and_then(|used| used.first())) {
                (Ok(()), Some(percent)) => {
                    println!("{mode:<22}{percent:>10.4} %");
                    Claim::new(
                        text,
                        format!("{percent:.4} %"),
                        format!("< {MOST_PERCENT} %"),
                        *percent < MOST_PERCENT,
                    )
                }
                (collected, _) => {
                    let reason = collected.err().unwrap_or_else(|| "no figure".to_owned());
                    Claim::not_available(text, format!("< {MOST_PERCENT} %"), &reason)
                }
            }
        })
        .collect()
}

/// Measures in this process. Arguments: wait mode, seconds.
pub(crate) fn child(arguments: &[String]) -> Result<(), String> {
    let [name, seconds] = arguments else {
        return Err("a wait mode and seconds are needed".to_owned());
    };
    let mode = wait_mode(name).ok_or("no such wait mode")?;
    let seconds = seconds.parse().map_err(|_| "seconds are a whole number")?;
    let executor = CpuExecutor::with_wait_mode(2, mode);
    region_of_both(&enter(&executor));
    std::thread::sleep(AFTER);
    let start = Instant::now();
    let used_before = processor_time().ok_or("no clock of the process's processor time")?;
    std::thread::sleep(Duration::from_secs(seconds));
    let used = processor_time().unwrap_or_default() - used_before;
    let percent = 100.0 * used.as_secs_f64() / start.elapsed().as_secs_f64();
    processes::emit(name, &[percent]);
    Ok(())
}

/// Processor time of all threads of this process.
#[cfg(unix)]
fn processor_time() -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes one `timespec`.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanoseconds = u32::try_from(time.tv_nsec).ok()?;
    (status == 0).then(|| Duration::new(seconds, nanoseconds))
}

/// No such clock.
#[cfg(not(unix))]
fn processor_time() -> Option<Duration> {
    None
}
