//! What a control group lets its processes have of the CPU, and how often it stopped them.

use std::path::{Path, PathBuf};

use nodespy_model::Nanoseconds;

use super::Cgroups;
use super::mount::mounts;
use crate::target::proc::read_text;

/// How much a control group has stopped its processes, since it exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Periods in which a thread was runnable.
    pub periods: u64,
    /// Periods in which the quota was used up.
    pub throttled_periods: u64,
    /// Time during which threads were runnable and throttled.
    pub throttled_time: Nanoseconds,
}

impl Throttling {
    /// What was added since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            periods: self.periods.saturating_sub(before.periods),
            throttled_periods: self
                .throttled_periods
                .saturating_sub(before.throttled_periods),
            throttled_time: self.throttled_time.saturating_sub(before.throttled_time),
        }
    }
}

/// The folder of the control group that limits the CPU of a process, kept for a second look.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuUse {
    folder: PathBuf,
    /// How many CPUs its processes may use together.
    pub quota_cpus: f64,
}

impl CpuUse {
    /// The tightest limit on a process, its own group's or one above; none when there is no limit.
    pub fn of(groups: &Cgroups) -> Option<Self> {
        let mounts = mounts();
        let mut tightest: Option<Self> = None;
        for line in &groups.lines {
            let folders = mounts
                .iter()
                .filter(|mount| mount.holds(&line.controllers, "cpu"))
                .flat_map(|mount| mount.folders_of(&line.path));
            for folder in folders {
                let Some(quota_cpus) = quota_of(&folder) else {
                    continue;
                };
                if tightest
                    .as_ref()
                    .is_none_or(|known| quota_cpus < known.quota_cpus)
                {
                    tightest = Some(Self { folder, quota_cpus });
                }
            }
        }
        tightest
    }

    /// How much the group has stopped its processes until now; none when it is gone.
    pub fn throttling(&self) -> Option<Throttling> {
        read_text(&self.folder.join("cpu.stat"), 64 << 10).map(|text| parse_stat(&text))
    }
}

/// How many CPUs a group may use; none without a limit.
fn quota_of(folder: &Path) -> Option<f64> {
    let read = |name: &str| read_text(&folder.join(name), 256);
    if let Some(text) = read("cpu.max") {
        return parse_quota(&text);
    }
    let quota = read("cpu.cfs_quota_us")?;
    let period = read("cpu.cfs_period_us")?;
    parse_quota(&format!("{} {}", quota.trim(), period.trim()))
}

/// `50000 100000`: half a CPU. `max 100000` or `-1 100000`: no limit.
fn parse_quota(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next()?.parse().ok()?;
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

fn parse_stat(text: &str) -> Throttling {
    let mut stat = Throttling::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(' ') else {
            continue;
        };
        let value: u64 = value.trim().parse().unwrap_or(0);
        match key {
            "nr_periods" => stat.periods = value,
            "nr_throttled" => stat.throttled_periods = value,
            "throttled_usec" => stat.throttled_time = value.saturating_mul(1000),
            // The first version counts nanoseconds.
            "throttled_time" => stat.throttled_time = value,
            _ => {}
        }
    }
    stat
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_of_both_versions_are_read() {
        assert_eq!(parse_quota("50000 100000\n"), Some(0.5));
        assert_eq!(parse_quota("max 100000\n"), None);
        assert_eq!(parse_quota("-1 100000"), None);
        assert_eq!(parse_quota("1"), None);
    }

    #[test]
    fn throttled_time_is_counted_in_nanoseconds() {
        let second = "usage_usec 9\nnr_periods 100\nnr_throttled 40\nthrottled_usec 2500\n";
        let expected = Throttling {
            periods: 100,
            throttled_periods: 40,
            throttled_time: 2_500_000,
        };
        assert_eq!(parse_stat(second), expected);
        let first = "nr_periods 100\nnr_throttled 40\nthrottled_time 2500000\n";
        assert_eq!(parse_stat(first), expected);
        let before = Throttling {
            periods: 60,
            ..Throttling::default()
        };
        assert_eq!(expected.since(before).periods, 40);
    }
}
