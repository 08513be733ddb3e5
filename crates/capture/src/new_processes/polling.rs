//! New processes, polled for a few times a second.
//!
//! Children of watched processes are followed by the kernel. Others are not, such as what
//! `docker exec` starts or the worker that pm2 starts in place of one that died.

use std::collections::HashSet;

use nodespy_model::Event;

use crate::target::{Target, proc};

/// How many polls a new process is given to become a Node process of what is wanted: it is a fork of
/// something else first.
const MAX_POLLS: u32 = 25;

/// The search among new processes.
#[derive(Debug)]
pub(super) struct Polling {
    /// Processes that are watched, or that were polled often enough.
    settled: HashSet<u32>,
    /// New processes and how often they were polled.
    fresh: Vec<(u32, u32)>,
}

impl Polling {
    /// Starts the search: what is there now is not new.
    pub(super) fn start(targets: &[Target]) -> Self {
        Self {
            settled: proc::processes()
                .into_iter()
                .chain(targets.iter().map(Target::pid))
                .collect(),
            fresh: Vec::new(),
        }
    }

    /// Takes note of an event: what becomes of the children of watched processes is settled.
    pub(super) fn see(&mut self, event: &Event<'_>) {
        if let Event::Fork { pid, .. } = event {
            self.settled.insert(*pid);
        }
    }

    /// The new processes that are wanted, held.
    pub(super) fn poll(&mut self, admit: &dyn Fn(u32) -> Option<Target>) -> Vec<Target> {
        let there = proc::processes();
        let alive: HashSet<u32> = there.iter().copied().collect();
        // A number that is free may come back as another process.
        self.settled.retain(|pid| alive.contains(pid));
        self.fresh
            .retain(|(pid, _)| alive.contains(pid) && !self.settled.contains(pid));
        for pid in there {
            let is_known =
                self.settled.contains(&pid) || self.fresh.iter().any(|(known, _)| *known == pid);
            if !is_known {
                self.fresh.push((pid, 0));
            }
        }
        let mut found = Vec::new();
        for (pid, polls) in &mut self.fresh {
            *polls += 1;
            // At the second poll, so that the event of a fork has come first.
            if *polls >= 2
                && let Some(target) = admit(*pid)
            {
                found.push(target);
                self.settled.insert(*pid);
            } else if *polls >= MAX_POLLS {
                self.settled.insert(*pid);
            }
        }
        found
    }
}
