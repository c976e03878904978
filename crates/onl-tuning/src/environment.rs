//! The state of the machine around a measurement: evidence, and the reason to refuse to measure.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;

/// A figure of the system, or why there is none. A figure that is missing is never zero.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading<T> {
    /// The figure.
    Value(T),
    /// The system does not have it.
    Unsupported,
    /// The system has it and does not show it to this process.
    Denied,
}

impl<T: Copy> Reading<T> {
    /// The figure, if there is one.
    pub fn value(self) -> Option<T> {
        match self {
            Reading::Value(value) => Some(value),
            Reading::Unsupported | Reading::Denied => None,
        }
    }
}

/// State of the machine at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Processors that the system schedules on.
    pub processors: Reading<u32>,
    /// Load average over one minute.
    pub load_1min: Reading<f64>,
    /// Share of the last ten seconds, in percent, in which some task waited for a processor.
    pub cpu_pressure_percent: Reading<f64>,
    /// Clock ticks that the hypervisor gave to others, since boot.
    pub steal_ticks: Reading<u64>,
    /// Clock ticks of all kinds, since boot.
    pub total_ticks: Reading<u64>,
}

impl Environment {
    /// An environment of which nothing is known.
    pub const UNKNOWN: Environment = Environment {
        processors: Reading::Unsupported,
        load_1min: Reading::Unsupported,
        cpu_pressure_percent: Reading::Unsupported,
        steal_ticks: Reading::Unsupported,
        total_ticks: Reading::Unsupported,
    };

    /// Share of processor time that the hypervisor gave to others since an earlier moment; `None` when either moment
    /// does not know or no time passed.
    pub fn steal_since(&self, earlier: &Environment) -> Option<f64> {
        let steal = self
            .steal_ticks
            .value()?
            .checked_sub(earlier.steal_ticks.value()?)?;
        let total = self
            .total_ticks
            .value()?
            .checked_sub(earlier.total_ticks.value()?)?;
        (total > 0).then(|| steal as f64 / total as f64)
    }
}

/// Gives the state of the machine; tests replace it.
pub trait EnvironmentProbe {
    /// The state now.
    fn observe(&self) -> Environment;
}

/// Limits beyond which nothing is decided.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentLimits {
    /// Most load per processor over one minute.
    pub load_per_processor: f64,
    /// Most waiting for processors, in percent.
    pub cpu_pressure_percent: f64,
    /// Most share of processor time given to others while measuring.
    pub steal: f64,
    /// Fewest ticks over which a share of steal means something.
    pub steal_minimum_ticks: u64,
}

impl Default for EnvironmentLimits {
    fn default() -> Self {
        EnvironmentLimits {
            load_per_processor: 4.0,
            cpu_pressure_percent: 80.0,
            steal: 0.2,
            steal_minimum_ticks: 50,
        }
    }
}

impl EnvironmentLimits {
    /// Why the machine is too noisy to begin; `None` when it is not, or nothing is known.
    pub fn refuses_start(&self, now: &Environment) -> Option<String> {
        if let (Some(load), Some(n)) = (now.load_1min.value(), now.processors.value())
            && load > self.load_per_processor * f64::from(n)
        {
            let limit = self.load_per_processor * f64::from(n);
            return Some(format!(
                "the load of one minute is {load:.1}, the limit {limit:.1}; stop other work and try again"
            ));
        }
        if let Some(pressure) = now.cpu_pressure_percent.value()
            && pressure > self.cpu_pressure_percent
        {
            return Some(format!(
                "tasks waited for a processor {pressure:.0} % of the last ten seconds, the limit is {:.0} %; stop other \
                 work and try again",
                self.cpu_pressure_percent
            ));
        }
        None
    }

    /// Why what was measured between two moments is too noisy.
    pub fn refuses_interval(&self, before: &Environment, after: &Environment) -> Option<String> {
        let ticks = |e: &Environment| e.total_ticks.value().unwrap_or(0);
        if ticks(after).saturating_sub(ticks(before)) < self.steal_minimum_ticks {
            return None;
        }
        let steal = after.steal_since(before)?;
        (steal > self.steal).then(|| {
            format!(
                "the hypervisor gave {:.0} % of the processor time to others, the limit is {:.0} %; try again at a \
                 quieter time",
                100.0 * steal,
                100.0 * self.steal
            )
        })
    }
}

/// Reads the state from the `/proc` file system of Linux (`proc(5)`); elsewhere every figure is unsupported.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEnvironment;

impl EnvironmentProbe for SystemEnvironment {
    fn observe(&self) -> Environment {
        let ticks = read("/proc/stat", |text| {
            let line = text.lines().find(|line| line.starts_with("cpu "))?;
            let fields: Vec<u64> = line
                .split_whitespace()
                .skip(1)
                .map(|field| field.parse().ok())
                .collect::<Option<_>>()?;
            // user, nice, system, idle, iowait, irq, softirq, steal; guest times are part of user.
            let total = fields.get(..8)?.iter().sum::<u64>();
            Some((*fields.get(7)?, total))
        });
        let part = |reading: Reading<(u64, u64)>, pick: fn((u64, u64)) -> u64| match reading {
            Reading::Value(pair) => Reading::Value(pick(pair)),
            Reading::Unsupported => Reading::Unsupported,
            Reading::Denied => Reading::Denied,
        };
        Environment {
            processors: match std::thread::available_parallelism() {
                Ok(n) => Reading::Value(u32::try_from(n.get()).unwrap_or(u32::MAX)),
                Err(_) => Reading::Unsupported,
            },
            load_1min: read("/proc/loadavg", |text| {
                text.split_whitespace().next()?.parse().ok()
            }),
            cpu_pressure_percent: read("/proc/pressure/cpu", |text| {
                let line = text.lines().find(|line| line.starts_with("some "))?;
                let field = line.split_whitespace().find(|f| f.starts_with("avg10="))?;
                field.strip_prefix("avg10=")?.parse().ok()
            }),
            steal_ticks: part(ticks, |(steal, _)| steal),
            total_ticks: part(ticks, |(_, total)| total),
        }
    }
}

fn read<T>(path: &str, parse: impl FnOnce(&str) -> Option<T>) -> Reading<T> {
    match fs::read_to_string(path) {
        Ok(text) => parse(&text).map_or(Reading::Unsupported, Reading::Value),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Reading::Denied,
        Err(_) => Reading::Unsupported,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(load: f64, steal: u64, total: u64) -> Environment {
        Environment {
            processors: Reading::Value(2),
            load_1min: Reading::Value(load),
            cpu_pressure_percent: Reading::Denied,
            steal_ticks: Reading::Value(steal),
            total_ticks: Reading::Value(total),
        }
    }

    #[test]
    fn limits_refuse_load_and_steal_and_accept_what_is_unknown() {
        let limits = EnvironmentLimits::default();
        assert!(limits.refuses_start(&environment(7.9, 0, 0)).is_none());
        assert!(limits.refuses_start(&environment(8.1, 0, 0)).is_some());
        assert!(limits.refuses_start(&Environment::UNKNOWN).is_none());
        let before = environment(0.0, 100, 1_000);
        let steal = |s, t| limits.refuses_interval(&before, &environment(0.0, s, t));
        assert!(steal(110, 1_100).is_none());
        assert!(steal(130, 1_100).is_some());
        assert!(steal(120, 1_020).is_none(), "too few ticks");
        assert_eq!(before.steal_since(&Environment::UNKNOWN), None);
    }
}
