//! Time in which a CPU quota kept the processes from running: no sample is taken then, so no flame
//! graph can show it.

use nodespy_capture::target::{Cgroups, CpuUse, Target, Throttling, container_of};
use nodespy_model::{Nanoseconds, printable};

/// A throttled share of the recording below this is not worth a word.
const LEAST_SHARE: f64 = 0.01;

/// The limits that hold for some processes, and how much they had stopped them at the start.
pub(crate) struct Throttled {
    groups: Vec<Group>,
}

struct Group {
    limit: CpuUse,
    before: Throttling,
    /// Whose limit it is, in words.
    owner: String,
}

impl Throttled {
    /// Notes where the counters stand.
    pub(crate) fn watch(targets: &[Target]) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        for target in targets {
            let cgroups = Cgroups::of(target.pid());
            let Some(limit) = CpuUse::of(&cgroups) else {
                continue;
            };
            let is_known = groups.iter().any(|group| group.limit == limit);
            if let (false, Some(before)) = (is_known, limit.throttling()) {
                let owner = match cgroups.container() {
                    Some(mark) => format!("container {}", container_of(&mark).title()),
                    None => format!("process {}", target.pid()),
                };
                groups.push(Group {
                    limit,
                    before,
                    owner,
                });
            }
        }
        Self { groups }
    }

    /// What was throttled since, in sentences that start with whose quota it is.
    pub(crate) fn remarks(&self, duration: Nanoseconds) -> Vec<String> {
        let groups = self.groups.iter();
        groups.filter_map(|group| group.remark(duration)).collect()
    }
}

impl Group {
    fn remark(&self, duration: Nanoseconds) -> Option<String> {
        // The group is gone with its container; what it did until then is not known.
        let now = self.limit.throttling()?;
        sentence(
            &self.owner,
            self.limit.quota_cpus,
            now.since(self.before),
            duration,
        )
    }
}

fn sentence(
    owner: &str,
    quota_cpus: f64,
    added: Throttling,
    duration: Nanoseconds,
) -> Option<String> {
    let share = added.throttled_time as f64 / duration.max(1) as f64;
    (share >= LEAST_SHARE && added.throttled_periods > 0).then(|| {
        format!(
            "{} ({quota_cpus:.2} CPUs) stopped it for {:.1} s of {:.1} s, in {:.0} % \
             of the periods: it was ready to run but not allowed to, which no flame graph shows",
            printable(owner),
            added.throttled_time as f64 / 1e9,
            duration as f64 / 1e9,
            added.throttled_periods as f64 * 100.0 / added.periods.max(1) as f64
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_is_reported_when_there_was_any() {
        let added = Throttling {
            periods: 100,
            throttled_periods: 64,
            throttled_time: 3_200_000_000,
        };
        let text = sentence("container web", 0.5, added, 10_000_000_000).unwrap();
        assert!(
            text.starts_with(
                "container web (0.50 CPUs) stopped it for 3.2 s of 10.0 s, in 64 % of"
            ),
            "{text}"
        );
        assert_eq!(
            sentence("x", 0.5, Throttling::default(), 10_000_000_000),
            None
        );
    }
}
