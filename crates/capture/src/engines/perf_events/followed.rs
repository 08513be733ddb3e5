//! The processes that are recorded where events are of whole CPUs.
//!
//! Every process of the machine has samples and sideband records then. They are judged here, in the order of time, so a child
//! is known by its parent before its first sample. The eBPF program drops the samples of those that were judged and are not
//! wanted; what it lets through is judged all the same, so a pid that the program does not know yet costs a sample in the ring and
//! never one in the profile.

use nodespy_model::{Event, FastMap, Nanoseconds};
use nodespy_perf_abi::Sideband;

use crate::monotonic_now;
use crate::new_processes::pid_of;
use crate::sys::pid_bits::PidBits;
use crate::target::{proc, synthesize_initial_events};

/// What was decided about a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Recorded,
    /// From when it starts its program.
    Launched,
    Other,
}

/// Which processes are recorded.
#[derive(Debug)]
pub(super) struct Followed {
    standing: FastMap<u32, Standing>,
    /// When processes were asked for that were there by then: their forks may be read only later.
    asked_for: FastMap<u32, Nanoseconds>,
    follow_children: bool,
    /// Those whose samples the program drops; none where no program runs, in tests.
    dropped: Option<PidBits>,
}

impl Followed {
    /// Starts with no process: what there is should be told by [`Self::leave_out`] and [`Self::record`].
    pub(super) fn new(follow_children: bool, dropped: Option<PidBits>) -> Self {
        Self {
            standing: FastMap::default(),
            asked_for: FastMap::default(),
            follow_children,
            dropped,
        }
    }

    /// Records a process from now on, or from when it starts its program.
    pub(super) fn record(&mut self, pid: u32, on_exec: bool) {
        let standing = match on_exec {
            true => Standing::Launched,
            false => Standing::Recorded,
        };
        self.decide(pid, standing);
        self.asked_for.insert(pid, monotonic_now());
    }

    /// Leaves a process out.
    pub(super) fn leave_out(&mut self, pid: u32) {
        self.decide(pid, Standing::Other);
    }

    /// Hands an event on, if it is about a process that is recorded.
    pub(super) fn pass(&mut self, event: Event<'_>, take: &mut dyn FnMut(Event<'_>)) {
        let pid = pid_of(&event);
        match event {
            Event::Fork {
                parent_pid, time, ..
            } if pid != parent_pid && !self.was_asked_for_after(pid, time) => {
                let parent = self.standing_of(parent_pid, take);
                self.decide(pid, self.of_child(parent));
            }
            Event::ThreadName { is_exec: true, .. }
                if self.standing.get(&pid) == Some(&Standing::Launched) =>
            {
                self.decide(pid, Standing::Recorded);
            }
            Event::Exit { tid, .. } => {
                let standing = self.standing.get(&pid).copied();
                // The pid may come back as another process.
                if tid == pid {
                    self.forget(pid);
                }
                if standing == Some(Standing::Recorded) {
                    take(event);
                }
                return;
            }
            _ => {}
        }
        if self.standing_of(pid, take) == Standing::Recorded {
            take(event);
        }
    }

    /// Whether a process was asked for after it was made, so that who made it does not matter.
    fn was_asked_for_after(&self, pid: u32, time: Nanoseconds) -> bool {
        let asked_for = self.asked_for.get(&pid);
        asked_for.is_some_and(|asked_for| *asked_for > time)
    }

    /// Whether a record is about a process that is left out for sure, and says nothing about any other.
    pub(super) fn is_of_others(&self, record: &Sideband<'_>) -> bool {
        match record {
            Sideband::Mmap(mmap) => self.is_other(mmap.pid),
            Sideband::Comm(comm) => self.is_other(comm.pid),
            Sideband::Fork(task) => task.pid == task.ppid && self.is_other(task.pid),
            Sideband::Exit(task) => task.pid != task.tid && self.is_other(task.pid),
            _ => false,
        }
    }

    /// Whether a process is known to be no part of what is recorded.
    pub(super) fn is_other(&self, pid: u32) -> bool {
        is_unseen(pid) || self.standing.get(&pid) == Some(&Standing::Other)
    }

    /// What was decided about a process, or is now: where its fork was not seen, its parent says what it is.
    fn standing_of(&mut self, pid: u32, take: &mut dyn FnMut(Event<'_>)) -> Standing {
        if is_unseen(pid) {
            return Standing::Other;
        }
        if let Some(standing) = self.standing.get(&pid) {
            return *standing;
        }
        // Of one that has ended nothing more is said, so nothing is kept.
        let Some(status) = proc::read_status(pid).filter(|status| !status.is_zombie) else {
            return Standing::Other;
        };
        let parent = self.standing.get(&status.parent_pid);
        let standing = self.of_child(parent.copied().unwrap_or(Standing::Other));
        self.decide(pid, standing);
        if standing == Standing::Recorded {
            let (events, _) = synthesize_initial_events(pid);
            events.into_iter().for_each(take);
        }
        standing
    }

    fn of_child(&self, parent: Standing) -> Standing {
        match parent == Standing::Recorded && self.follow_children {
            true => Standing::Recorded,
            false => Standing::Other,
        }
    }

    fn decide(&mut self, pid: u32, standing: Standing) {
        if is_unseen(pid) {
            return;
        }
        self.standing.insert(pid, standing);
        if let Some(dropped) = &self.dropped {
            match standing {
                Standing::Other => dropped.set(pid),
                _ => dropped.clear(pid),
            }
        }
    }

    fn forget(&mut self, pid: u32) {
        self.standing.remove(&pid);
        self.asked_for.remove(&pid);
        if let Some(dropped) = &self.dropped {
            dropped.clear(pid);
        }
    }
}

/// Whether a process has no pid in our namespace; the kernel's idle threads have none either.
fn is_unseen(pid: u32) -> bool {
    pid == 0 || pid == u32::MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{exit, fork, name};

    /// Pids above what the kernel gives.
    const SERVER: u32 = 5_000_001;
    const CHILD: u32 = 5_000_002;
    const SHELL: u32 = 5_000_003;

    fn followed(follow_children: bool) -> Followed {
        let mut followed = Followed::new(follow_children, None);
        followed.record(SERVER, false);
        followed.leave_out(SHELL);
        followed
    }

    /// The pids of the events that get through.
    fn passed(mut followed: Followed, events: Vec<Event<'static>>) -> Vec<u32> {
        let mut through = Vec::new();
        for event in events {
            followed.pass(event, &mut |event| through.push(pid_of(&event)));
        }
        through
    }

    #[test]
    fn children_are_recorded_where_they_are_followed() {
        let events = || {
            vec![
                fork(CHILD, SERVER),
                name(CHILD, true),
                exit(CHILD),
                exit(SERVER),
            ]
        };
        let all = [CHILD, CHILD, CHILD, SERVER];
        assert_eq!(passed(followed(true), events()), all);
        assert_eq!(passed(followed(false), events()), [SERVER]);
    }

    #[test]
    fn other_processes_and_their_children_do_not_get_through() {
        let events = vec![name(SHELL, false), fork(CHILD, SHELL), name(CHILD, true)];
        assert!(passed(followed(true), events).is_empty());
    }

    #[test]
    fn a_pid_that_comes_back_is_another_process() {
        let events = vec![
            exit(SHELL),
            fork(SHELL, SERVER),
            exit(SHELL),
            name(SHELL, true),
        ];
        assert_eq!(passed(followed(true), events), [SHELL, SHELL]);
    }

    #[test]
    fn a_process_that_was_asked_for_is_recorded_whoever_made_it() {
        let mut followed = followed(true);
        followed.record(CHILD, false);
        // It was found before its fork was read.
        let events = vec![fork(CHILD, SHELL), name(CHILD, true)];
        assert_eq!(passed(followed, events), [CHILD, CHILD]);
    }

    #[test]
    fn a_pid_that_was_asked_for_and_comes_back_is_another_process() {
        let mut followed = followed(true);
        followed.record(CHILD, false);
        let later = Event::Fork {
            pid: CHILD,
            tid: CHILD,
            parent_pid: SHELL,
            time: Nanoseconds::MAX,
        };
        assert!(passed(followed, vec![later, name(CHILD, true)]).is_empty());
    }

    #[test]
    fn a_command_is_recorded_from_when_it_starts_its_program() {
        let mut launching = followed(true);
        launching.record(CHILD, true);
        let events = vec![name(CHILD, false), name(CHILD, true), name(CHILD, false)];
        assert_eq!(passed(launching, events), [CHILD, CHILD]);
    }

    #[test]
    fn what_has_no_pid_here_is_left_out() {
        let events = vec![name(0, true), name(u32::MAX, true), fork(0, SERVER)];
        assert!(passed(followed(true), events).is_empty());
    }
}
