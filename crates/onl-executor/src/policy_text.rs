//! Policies as text: on command lines, in files and in the execution identity.

use crate::policy::Affinity;
use crate::wait::WaitMode;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// A text that names no part of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{text}' is no {what}; expected {expected}")]
pub struct PolicyTextError {
    what: &'static str,
    text: String,
    expected: &'static str,
}

/// Longest time that a fixed wait may spin.
const LONGEST_FIXED: Duration = Duration::from_secs(60);

/// `latency`, `balanced`, `frugal`, or `fixed:` with microseconds, as `fixed:200us`.
impl fmt::Display for WaitMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitMode::Fixed(spin) => write!(f, "fixed:{}us", spin.as_micros()),
            other => f.pad(other.name()),
        }
    }
}

impl FromStr for WaitMode {
    type Err = PolicyTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fixed = || {
            let microseconds = text.strip_prefix("fixed:")?.strip_suffix("us")?;
            let spin = Duration::from_micros(microseconds.parse().ok()?);
            (spin <= LONGEST_FIXED).then_some(WaitMode::Fixed(spin))
        };
        match text {
            "latency" => Ok(WaitMode::Latency),
            "balanced" => Ok(WaitMode::Balanced),
            "frugal" => Ok(WaitMode::Frugal),
            _ => fixed().ok_or_else(|| PolicyTextError {
                what: "wait mode",
                text: text.to_owned(),
                expected: "latency, balanced, frugal, or fixed:<microseconds>us up to a minute",
            }),
        }
    }
}

/// The name of the class, or the CPUs of an explicit set separated by commas, the caller's first.
impl fmt::Display for Affinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Affinity::Explicit(cpus) => {
                let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
                f.pad(&cpus.join(","))
            }
            other => f.pad(other.name()),
        }
    }
}

impl FromStr for Affinity {
    type Err = PolicyTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Affinity::None),
            "physical_cores" => Ok(Affinity::PhysicalCores),
            "performance_cores" => Ok(Affinity::PerformanceCores),
            "physical_then_smt" => Ok(Affinity::PhysicalThenSmt),
            _ => text
                .split(',')
                .map(str::parse)
                .collect::<Result<Vec<u32>, _>>()
                .map(Affinity::Explicit)
                .map_err(|_| PolicyTextError {
                    what: "affinity",
                    text: text.to_owned(),
                    expected: "none, physical_cores, performance_cores, physical_then_smt, or CPUs as 2,3, the \
                               caller's first",
                }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_what_they_were_made_from() {
        for mode in [
            WaitMode::Latency,
            WaitMode::Balanced,
            WaitMode::Frugal,
            WaitMode::Fixed(Duration::ZERO),
            WaitMode::Fixed(LONGEST_FIXED),
        ] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        for affinity in [
            Affinity::None,
            Affinity::PhysicalCores,
            Affinity::PerformanceCores,
            Affinity::PhysicalThenSmt,
            Affinity::Explicit(vec![4, 0, 7]),
        ] {
            assert_eq!(affinity.to_string().parse(), Ok(affinity));
        }
    }

    #[test]
    fn other_texts_are_errors_that_say_what_is_expected() {
        for text in [
            "",
            "Latency",
            "fixed",
            "fixed:5",
            "fixed:-1us",
            "fixed:60000001us",
        ] {
            let error = text.parse::<WaitMode>().unwrap_err().to_string();
            assert!(error.contains("latency, balanced, frugal"), "{error}");
        }
        for text in ["", "1,", "1,x", "-1", "cores", "4294967296"] {
            let error = text.parse::<Affinity>().unwrap_err().to_string();
            assert!(error.contains("physical_cores"), "{error}");
        }
    }
}
