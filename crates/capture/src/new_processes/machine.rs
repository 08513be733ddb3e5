//! Every Node process of the machine, for as long as it is up.
//!
//! A process may become Node long after it was born (`sh -c "sleep 60; exec node app.js"`), so no process is ever given
//! up: one that is new is judged every second, an older one now and then. A second of a process is lost at most.

use nodespy_model::{Event, FastMap, FastSet, Nanoseconds};

use crate::target::{Target, proc};

const SECOND: Nanoseconds = 1_000_000_000;
/// How often processes are listed.
const SCAN_INTERVAL: Nanoseconds = SECOND;
/// How long a process is new.
const NEW_FOR: Nanoseconds = 10 * SECOND;
/// How often one that is not new any more is judged.
const OLD_INTERVAL: Nanoseconds = 20 * SECOND;

/// The search among all processes.
#[derive(Debug)]
pub(super) struct Machine {
    watched: FastSet<u32>,
    others: FastMap<u32, Other>,
    next_scan: Nanoseconds,
}

/// A process that is not watched.
#[derive(Debug)]
struct Other {
    first_seen: Nanoseconds,
    next_poll: Nanoseconds,
}

impl Machine {
    pub(super) fn start(targets: &[Target]) -> Self {
        Self {
            watched: targets.iter().map(Target::pid).collect(),
            others: FastMap::default(),
            next_scan: 0,
        }
    }

    /// Takes note of an event; whether it is about what is watched. Children are judged by themselves, so their
    /// births do not matter.
    pub(super) fn see(&mut self, event: &Event<'_>) -> bool {
        match event {
            Event::Fork {
                pid, parent_pid, ..
            } => pid == parent_pid,
            Event::Exit { pid, tid, .. } => {
                // The pid may come back as another process.
                if pid == tid {
                    self.watched.remove(pid);
                }
                true
            }
            _ => true,
        }
    }

    /// The processes that are wanted and not watched yet, held.
    pub(super) fn poll(
        &mut self,
        now: Nanoseconds,
        admit: &dyn Fn(u32) -> Option<Target>,
    ) -> Vec<Target> {
        if now < self.next_scan {
            return Vec::new();
        }
        self.next_scan = now + SCAN_INTERVAL;
        let found: Vec<Target> = self
            .due(proc::processes(), now)
            .into_iter()
            .filter_map(admit)
            .collect();
        for target in &found {
            self.watched.insert(target.pid());
            self.others.remove(&target.pid());
        }
        found
    }

    /// Which of the processes there are have to be judged now.
    fn due(&mut self, there: Vec<u32>, now: Nanoseconds) -> Vec<u32> {
        let alive: FastSet<u32> = there.iter().copied().collect();
        self.watched.retain(|pid| alive.contains(pid));
        self.others.retain(|pid, _| alive.contains(pid));
        let mut due = Vec::new();
        for pid in there {
            if self.watched.contains(&pid) {
                continue;
            }
            let other = self.others.entry(pid).or_insert(Other {
                first_seen: now,
                next_poll: now,
            });
            if now >= other.next_poll {
                let is_new = now.saturating_sub(other.first_seen) < NEW_FOR;
                other.next_poll = now + if is_new { SCAN_INTERVAL } else { OLD_INTERVAL };
                due.push(pid);
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{exit, fork};

    fn machine() -> Machine {
        Machine::start(&[])
    }

    #[test]
    fn a_process_is_judged_every_second_and_later_now_and_then() {
        let mut machine = machine();
        let scans = |machine: &mut Machine, from: u64, to: u64| {
            let seconds = from..to;
            let each = seconds.filter(|second| !machine.due(vec![7], second * SECOND).is_empty());
            each.count()
        };
        assert_eq!(scans(&mut machine, 0, 10), 10);
        assert_eq!(scans(&mut machine, 11, 111), 5);
    }

    #[test]
    fn a_pid_that_comes_back_is_judged_again() {
        let mut machine = machine();
        machine.watched.insert(7);
        assert!(machine.due(vec![7], SECOND).is_empty());
        assert!(machine.see(&exit(7)));
        assert_eq!(machine.due(vec![7], 2 * SECOND), [7]);
        machine.watched.insert(7);
        assert!(machine.due(vec![], 3 * SECOND).is_empty());
        assert_eq!(machine.due(vec![7], 4 * SECOND), [7]);
    }

    #[test]
    fn births_of_children_are_not_handed_on() {
        let mut machine = machine();
        assert!(!machine.see(&fork(8, 7)));
        assert!(machine.see(&fork(7, 7)));
    }
}
