//! The state of the machine around a measurement: evidence, and the reason to refuse to measure.

use onl_cpu::CpuSystem;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::time::Duration;

/// A figure of the system, or why there is none. A figure that is missing is never zero.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading<T> {
    /// The figure.
    Value(T),
    /// The system does not have it.
    #[default]
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
    /// Load average over one minute; evidence only, it outlives the work that caused it.
    pub load_1min: Reading<f64>,
    /// Share of the last ten seconds, in percent, in which some task waited for a processor; evidence only.
    pub cpu_pressure_percent: Reading<f64>,
    /// Clock ticks in which a processor had nothing to do, since boot.
    pub idle_ticks: Reading<u64>,
    /// Clock ticks that the hypervisor gave to others, since boot.
    pub steal_ticks: Reading<u64>,
    /// Clock ticks of all kinds, since boot.
    pub total_ticks: Reading<u64>,
    /// Processors of the control group's quota, as [`EnvironmentProbe::quota_cpus`] gave it before measuring.
    #[serde(default)]
    pub quota_cpus: Reading<f64>,
    /// Shortest advance of the calibration's clock, seen before measuring.
    #[serde(default)]
    pub clock_step_ns: Reading<u64>,
    /// Frequency governor of the first processor; evidence only.
    #[serde(default)]
    pub governor: Reading<String>,
    /// Whether the processor may exceed its nominal frequency; evidence only.
    #[serde(default)]
    pub turbo: Reading<bool>,
    /// Whether the processor says that it is virtual; evidence only.
    #[serde(default)]
    pub hypervisor: Reading<bool>,
}

impl Environment {
    /// An environment of which nothing is known.
    pub const UNKNOWN: Environment = Environment {
        processors: Reading::Unsupported,
        load_1min: Reading::Unsupported,
        cpu_pressure_percent: Reading::Unsupported,
        idle_ticks: Reading::Unsupported,
        steal_ticks: Reading::Unsupported,
        total_ticks: Reading::Unsupported,
        quota_cpus: Reading::Unsupported,
        clock_step_ns: Reading::Unsupported,
        governor: Reading::Unsupported,
        turbo: Reading::Unsupported,
        hypervisor: Reading::Unsupported,
    };

    /// Share of processor time that the hypervisor gave to others since an earlier moment; `None` when either moment
    /// does not know or no time passed.
    pub fn steal_since(&self, earlier: &Environment) -> Option<f64> {
        self.share_since(earlier, |e| e.steal_ticks)
    }

    /// Share of processor time in which some task ran or the hypervisor gave it away since an earlier moment; `None`
    /// as for [`steal_since`](Self::steal_since).
    pub fn busy_since(&self, earlier: &Environment) -> Option<f64> {
        let idle = self.share_since(earlier, |e| e.idle_ticks)?;
        Some(1.0 - idle)
    }

    fn share_since(
        &self,
        earlier: &Environment,
        ticks: fn(&Environment) -> Reading<u64>,
    ) -> Option<f64> {
        let since = |ticks: fn(&Environment) -> Reading<u64>| {
            ticks(self).value()?.checked_sub(ticks(earlier).value()?)
        };
        let total = since(|e| e.total_ticks)?;
        let part = since(ticks)?;
        (total > 0).then(|| part as f64 / total as f64)
    }
}

/// Gives the state of the machine; tests replace it.
pub trait EnvironmentProbe {
    /// The state now.
    fn observe(&self) -> Environment;

    /// Processors of the control group's quota; unsupported without one.
    fn quota_cpus(&self) -> Reading<f64> {
        Reading::Unsupported
    }

    /// Does nothing for a while, so that what the processors do meanwhile is the work of others.
    fn pause(&self, _duration: Duration) {}

    /// Lets others show how busy they are; a machine that was watched a moment ago need not be watched again.
    fn watch(&self, duration: Duration) {
        self.pause(duration);
    }
}

/// Why an execution cannot be measured under a quota: its lanes would be stopped in turn. `None` when it can.
pub(crate) fn quota_refusal(quota: Reading<f64>, participants: u32) -> Option<String> {
    let quota = quota.value()?;
    (quota < f64::from(participants)).then(|| {
        format!(
            "the control group allows {quota:.1} processors, the execution has {participants} participants; tune with \
             fewer threads or raise the quota"
        )
    })
}

/// Limits beyond which nothing is decided.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentLimits {
    /// Most share of all processors that others may use while this process waits.
    pub others: f64,
    /// Most share of processor time given to others while measuring.
    pub steal: f64,
    /// Fewest ticks over which a share of steal means something.
    pub steal_minimum_ticks: u64,
}

impl Default for EnvironmentLimits {
    fn default() -> Self {
        EnvironmentLimits {
            others: 0.85,
            steal: 0.2,
            steal_minimum_ticks: 50,
        }
    }
}

impl EnvironmentLimits {
    /// Why the machine is too noisy to begin, from the states before and after a pause of this process; `None` when it
    /// is not, or nothing is known.
    pub fn refuses_start(&self, before: &Environment, after: &Environment) -> Option<String> {
        let busy = after.busy_since(before)?;
        (busy > self.others).then(|| {
            format!(
                "other work keeps the processors {:.0} % busy, the limit is {:.0} %; stop it and try again",
                100.0 * busy,
                100.0 * self.others
            )
        })
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

const GOVERNOR: &str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
const NO_TURBO: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";
const BOOST: &str = "/sys/devices/system/cpu/cpufreq/boost";

fn flag(text: &str) -> Option<bool> {
    match text.trim() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// Reads the state from the `/proc` and `/sys` file systems of Linux (`proc(5)`, `sysfs(5)`); elsewhere every figure is unsupported.
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
            Some([fields[3] + fields[4], fields[7], total])
        });
        let part = |index: usize| match ticks {
            Reading::Value(ticks) => Reading::Value(ticks[index]),
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
            idle_ticks: part(0),
            steal_ticks: part(1),
            total_ticks: part(2),
            quota_cpus: Reading::Unsupported,
            clock_step_ns: Reading::Unsupported,
            governor: read(GOVERNOR, |text| Some(text.trim().to_owned())),
            turbo: match read(NO_TURBO, flag) {
                Reading::Value(no_turbo) => Reading::Value(!no_turbo),
                _ => read(BOOST, flag),
            },
            hypervisor: read("/proc/cpuinfo", |text| {
                let flags = text.lines().find(|line| line.starts_with("flags"))?;
                Some(flags.split_whitespace().any(|f| f == "hypervisor"))
            }),
        }
    }

    fn quota_cpus(&self) -> Reading<f64> {
        CpuSystem::current()
            .quota
            .map_or(Reading::Unsupported, Reading::Value)
    }

    fn pause(&self, duration: Duration) {
        std::thread::sleep(duration);
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

    fn environment(idle: u64, steal: u64, total: u64) -> Environment {
        Environment {
            processors: Reading::Value(2),
            load_1min: Reading::Value(99.0),
            cpu_pressure_percent: Reading::Denied,
            idle_ticks: Reading::Value(idle),
            steal_ticks: Reading::Value(steal),
            total_ticks: Reading::Value(total),
            ..Environment::UNKNOWN
        }
    }

    #[test]
    fn limits_refuse_other_work_and_steal_and_accept_what_is_unknown() {
        let limits = EnvironmentLimits::default();
        let before = environment(500, 100, 1_000);
        let start = |idle| limits.refuses_start(&before, &environment(idle, 100, 1_100));
        assert!(start(600).is_none(), "idle");
        assert!(start(516).is_none());
        assert!(start(514).is_some());
        assert!(limits.refuses_start(&before, &before).is_none());
        let unknown = Environment::UNKNOWN;
        assert!(limits.refuses_start(&unknown, &unknown).is_none());
        let steal = |s, t| limits.refuses_interval(&before, &environment(500, s, t));
        assert!(steal(110, 1_100).is_none());
        assert!(steal(130, 1_100).is_some());
        assert!(steal(120, 1_020).is_none(), "too few ticks");
        assert_eq!(before.steal_since(&Environment::UNKNOWN), None);
    }

    #[test]
    fn a_quota_below_the_participants_is_refused() {
        let reason = quota_refusal(Reading::Value(1.5), 2).unwrap();
        assert!(reason.contains("1.5") && reason.contains('2'), "{reason}");
        assert_eq!(quota_refusal(Reading::Value(2.0), 2), None);
        assert_eq!(quota_refusal(Reading::Unsupported, 64), None);
    }

    #[test]
    fn the_system_is_read_without_inventing_figures() {
        let now = SystemEnvironment.observe();
        if let (Some(idle), Some(total)) = (now.idle_ticks.value(), now.total_ticks.value()) {
            assert!(idle <= total && total > 0);
        }
        assert!(now.processors.value().is_none_or(|n| n > 0));
    }
}
