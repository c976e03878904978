use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// Largest logical CPU number (exclusive) that is accepted from the system's files. Linux builds stop far below it.
const MAX_CPUS: u32 = 1 << 16;

/// A set of logical CPU numbers, as the kernel numbers them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct CpuSet(pub BTreeSet<u32>);

impl CpuSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the kernel's list form: comma-separated numbers and ascending ranges such as `0-3,8-11`. Blank text is the
    /// empty set. Absent when any part is malformed or a number is beyond what a kernel can have.
    pub fn parse_list(text: &str) -> Option<Self> {
        let text = text.trim();
        let mut set = BTreeSet::new();
        if text.is_empty() {
            return Some(Self(set));
        }
        for part in text.split(',') {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (cpu_number(first)?, cpu_number(last)?),
                None => (cpu_number(part)?, cpu_number(part)?),
            };
            if first > last {
                return None;
            }
            set.extend(first..=last);
        }
        Some(Self(set))
    }

    /// Whether `cpu` is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// Number of CPUs in the set.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set has no CPU.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Adds `cpu`.
    pub fn insert(&mut self, cpu: u32) {
        self.0.insert(cpu);
    }

    /// Takes `cpu` out.
    pub fn remove(&mut self, cpu: u32) {
        self.0.remove(&cpu);
    }

    /// The CPUs that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        Self(self.0.intersection(&other.0).copied().collect())
    }
}

fn cpu_number(text: &str) -> Option<u32> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|&n| n < MAX_CPUS)
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl<const N: usize> From<[u32; N]> for CpuSet {
    fn from(cpus: [u32; N]) -> Self {
        Self(cpus.into())
    }
}

/// The kernel's list form, which [`CpuSet::parse_list`] reads.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|&next| next == last + 1) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}
