//! Limits that control groups, version 1 and 2, put on this process.

use crate::cpu_set::CpuSet;
use crate::source::SystemRoot;

/// What the control groups of this process allow.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct CpuLimits {
    /// Processor time per wall time, in processors: the tightest of the group and its parents.
    pub quota: Option<f64>,
    /// CPUs that every group with a list allows.
    pub cpuset: Option<CpuSet>,
}

/// A mounted hierarchy: where it is and which part of it is seen there.
struct Mount {
    point: String,
    seen: String,
    /// `None` for version 2, the controllers for version 1.
    controllers: Option<Vec<String>>,
}

impl CpuLimits {
    /// Reads the limits of the process that `<root>/proc/self` stands for.
    pub fn read(root: &SystemRoot) -> Self {
        let mut limits = Self::default();
        let mounts = mounts(root);
        for line in root.text("proc/self/cgroup").unwrap_or_default().lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            if controllers.is_empty() {
                for folder in folders(root, &mounts, None, path) {
                    limits.tighten_quota(
                        root.line(format!("{folder}/cpu.max"))
                            .and_then(|text| quota_v2(&text)),
                    );
                    limits.tighten_cpuset(root.text(format!("{folder}/cpuset.cpus.effective")));
                }
                continue;
            }
            let controllers: Vec<&str> = controllers.split(',').collect();
            if controllers.contains(&"cpu") {
                for folder in folders(root, &mounts, Some("cpu"), path) {
                    limits.tighten_quota(quota_v1(root, &folder));
                }
            }
            if controllers.contains(&"cpuset") {
                for folder in folders(root, &mounts, Some("cpuset"), path) {
                    limits.tighten_cpuset(root.text(format!("{folder}/cpuset.cpus")));
                    limits.tighten_cpuset(root.text(format!("{folder}/cpuset.effective_cpus")));
                }
            }
        }
        limits
    }

    fn tighten_quota(&mut self, quota: Option<f64>) {
        if let Some(quota) = quota {
            self.quota = Some(self.quota.map_or(quota, |tightest| tightest.min(quota)));
        }
    }

    fn tighten_cpuset(&mut self, text: Option<String>) {
        let set = text
            .and_then(|text| CpuSet::parse_list(&text))
            .filter(|set| !set.is_empty());
        if let Some(set) = set {
            self.cpuset = Some(match self.cpuset.take() {
                Some(tightest) => tightest.intersection(&set),
                None => set,
            });
        }
    }
}

/// Folders of the group `path` and of all its parents that are visible.
fn folders(
    root: &SystemRoot,
    mounts: &[Mount],
    controller: Option<&str>,
    path: &str,
) -> Vec<String> {
    let mut folders = Vec::new();
    for mount in mounts {
        let fits = match (&mount.controllers, controller) {
            (None, None) => true,
            (Some(controllers), Some(controller)) => {
                controllers.iter().any(|present| present == controller)
            }
            _ => false,
        };
        if !fits {
            continue;
        }
        // A container may see the host's path of its group while only that group is mounted.
        let below = components(path);
        let seen = components(&mount.seen);
        let below = below.strip_prefix(seen.as_slice()).unwrap_or(&below);
        for depth in (0..=below.len()).rev() {
            let mut folder = mount.point.clone();
            for part in &below[..depth] {
                folder.push('/');
                folder.push_str(part);
            }
            if root.is_folder(&folder) {
                folders.push(folder);
            }
        }
    }
    folders
}

/// Parts of a group's path. A path that leads out of the namespace (`/../x`) names groups that are not visible.
fn components(path: &str) -> Vec<&str> {
    let parts: Vec<&str> = path
        .trim()
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    if parts.contains(&"..") {
        Vec::new()
    } else {
        parts
    }
}

/// Mounted hierarchies by the process's mount table, else at the customary places.
fn mounts(root: &SystemRoot) -> Vec<Mount> {
    let table = root.text("proc/self/mountinfo").unwrap_or_default();
    let mounts: Vec<Mount> = table.lines().filter_map(mount).collect();
    if !mounts.is_empty() {
        return mounts;
    }
    let at = |folder: &str, controllers: Option<&[&str]>| Mount {
        point: format!("/sys/fs/cgroup{folder}"),
        seen: "/".to_owned(),
        controllers: controllers.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
    };
    vec![
        at("", None),
        at("/unified", None),
        at("/cpu", Some(&["cpu"])),
        at("/cpu,cpuacct", Some(&["cpu"])),
        at("/cpuacct,cpu", Some(&["cpu"])),
        at("/cpuset", Some(&["cpuset"])),
    ]
}

/// A line of `mountinfo` (proc_pid_mountinfo(5)): number, parent, device, seen part, mount point, options, optional
/// fields, `-`, type, source, options of the file system.
fn mount(line: &str) -> Option<Mount> {
    let (mount, system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (seen, point) = (mount.next()?, mount.next()?);
    let mut system = system.split(' ');
    let controllers = match system.next()? {
        "cgroup2" => None,
        "cgroup" => Some(system.nth(1)?.split(',').map(str::to_owned).collect()),
        _ => return None,
    };
    Some(Mount {
        point: point.to_owned(),
        seen: seen.to_owned(),
        controllers,
    })
}

/// `cpu.max`: quota and period in microseconds, or `max`.
fn quota_v2(text: &str) -> Option<f64> {
    let mut parts = text.split_ascii_whitespace();
    let quota: u64 = parts.next()?.parse().ok()?;
    let period: u64 = parts.next()?.parse().ok()?;
    processors(quota, period)
}

/// `cpu.cfs_quota_us` (−1 when unlimited) and `cpu.cfs_period_us`.
fn quota_v1(root: &SystemRoot, folder: &str) -> Option<f64> {
    let quota: u64 = root.number(format!("{folder}/cpu.cfs_quota_us"))?;
    let period: u64 = root.number(format!("{folder}/cpu.cfs_period_us"))?;
    processors(quota, period)
}

fn processors(quota: u64, period: u64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}
