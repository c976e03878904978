//! What a calibration shows while it runs: a bar on a terminal, nothing elsewhere.

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use onl::tuning::Progress;
use onl::tuning::process::{KeyResult, Outcome};
use std::cell::RefCell;
use std::time::Duration;

/// A bar with kernel, step, best so far and time left.
pub struct Bar {
    bar: ProgressBar,
    taken_over: usize,
    best: RefCell<Best>,
}

#[derive(Default)]
struct Best {
    promoted: usize,
    /// Kernel with the smallest ratio to its default.
    leader: Option<(String, f64)>,
}

impl Best {
    fn add(&mut self, result: &KeyResult) {
        if let Outcome::Promoted { ratio, .. } = &result.outcome {
            self.promoted += 1;
            if self
                .leader
                .as_ref()
                .is_none_or(|(_, r)| ratio.estimate < *r)
            {
                let name = format!("{}/{}", result.key.kernel, result.key.element_type);
                self.leader = Some((name, ratio.estimate));
            }
        }
    }

    fn text(&self) -> String {
        match &self.leader {
            Some((name, ratio)) => {
                format!("{} promoted, best {name} {ratio:.2}", self.promoted)
            }
            None => "none promoted".to_owned(),
        }
    }
}

impl Bar {
    /// A bar of so many kernels, of which some results were taken over.
    pub fn new(total: usize, taken_over: &[KeyResult]) -> Result<Self> {
        let bar = ProgressBar::new(total as u64);
        bar.set_style(
            ProgressStyle::with_template("{bar:24} {pos}/{len} kernels, {prefix}: {wide_msg}")
                .context("the progress bar has a legal template")?,
        );
        let mut best = Best::default();
        for result in taken_over {
            best.add(result);
        }
        Ok(Bar {
            bar,
            taken_over: taken_over.len(),
            best: RefCell::new(best),
        })
    }

    /// Shows what is being done.
    pub fn show(&self, p: &Progress<'_>) {
        self.bar.set_position((self.taken_over + p.done) as u64);
        self.bar.set_prefix(left(p.remaining_ns));
        let best = self.best.borrow().text();
        self.bar
            .set_message(format!("{} {}; {best}", p.key, p.step));
    }

    /// Counts a finished kernel.
    pub fn finished(&self, result: &KeyResult) {
        self.best.borrow_mut().add(result);
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Time left, in whole seconds.
fn left(ns: u64) -> String {
    let seconds = Duration::from_nanos(ns).as_secs_f64().ceil() as u64;
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("about {seconds} s left"),
        (minutes, seconds) => format!("about {minutes} min {seconds:02} s left"),
    }
}
