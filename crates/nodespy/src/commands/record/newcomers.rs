//! Processes that join a container, an app or the like while it is recorded.
//!
//! Children of recorded processes are followed by the kernel. Others are not, such as what
//! `docker exec` starts or the worker that pm2 starts in place of one that died: they are looked for
//! among the processes that are new, a few times a second.

use std::collections::HashSet;

use nodespy_capture::target::{Resident, Target, Wanted, looks_like_node, proc};
use nodespy_model::Event;

use crate::cli::TargetArgs;

/// How many looks a new process is given to become a Node process of what is wanted: it is a fork of
/// something else first.
const LOOKS: u32 = 25;

/// The watch for new processes.
pub(super) struct Newcomers {
    wanted: Wanted,
    /// Processes that are recorded, or that have been looked at often enough.
    settled: HashSet<u32>,
    /// New processes and how often they have been looked at.
    fresh: Vec<(u32, u32)>,
}

impl Newcomers {
    /// Starts the watch, unless only certain processes are wanted.
    pub(super) fn watch(arguments: &TargetArgs, targets: &[Target]) -> Option<Self> {
        let wanted = arguments.wanted();
        let can_grow = wanted.container.is_some()
            || wanted.pod.is_some()
            || wanted.cgroup.is_some()
            || wanted.pm2.is_some()
            || wanted.all;
        can_grow.then(|| Self {
            wanted,
            settled: proc::processes()
                .into_iter()
                .chain(targets.iter().map(Target::pid))
                .collect(),
            fresh: Vec::new(),
        })
    }

    /// Takes note of an event: the children of recorded processes are followed already.
    pub(super) fn see(&mut self, event: &Event<'_>) {
        if let Event::Fork { pid, .. } = event {
            self.settled.insert(*pid);
        }
    }

    /// The new processes that are wanted, held.
    pub(super) fn look(&mut self) -> Vec<Target> {
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
        for (pid, looks) in &mut self.fresh {
            *looks += 1;
            // At the second look, so that the news of a fork has come first.
            if *looks >= 2
                && let Some(target) = admitted(*pid, &self.wanted)
            {
                found.push(target);
                self.settled.insert(*pid);
            } else if *looks >= LOOKS {
                self.settled.insert(*pid);
            }
        }
        found
    }
}

fn admitted(pid: u32, wanted: &Wanted) -> Option<Target> {
    if !wanted.any && !looks_like_node(pid) {
        return None;
    }
    let resident = Resident::of(pid)?;
    let target = Target::hold_started(pid, resident.start_time).ok()?;
    wanted.admits(&resident).then_some(target)
}
