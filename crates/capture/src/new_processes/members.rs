//! The processes of a control group that is sampled as a whole, and which of them are wanted.
//!
//! A process is judged when its first event comes and again when it starts another program: what
//! becomes a server may be a shell, or the runtime's own helper, for its first milliseconds.

use nodespy_model::{Event, FastMap};

use super::Children;
use crate::target::{Target, synthesize_initial_events};

/// Takes hold of a process of the group, if it is wanted.
type Judge<'a> = &'a dyn Fn(u32) -> Option<Target>;

/// What was decided about a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Watched,
    /// Not wanted as long as it runs the program it runs.
    Aside,
    /// Not wanted whatever it runs.
    LeftOut,
}

/// The processes of a group.
#[derive(Debug)]
pub(super) struct Members {
    standing: FastMap<u32, Standing>,
    joined: Vec<Target>,
}

impl Members {
    /// Starts with those that are watched from the beginning.
    pub(super) fn starting_with(watched: impl Iterator<Item = u32>) -> Self {
        Self {
            standing: watched.map(|pid| (pid, Standing::Watched)).collect(),
            joined: Vec::new(),
        }
    }

    /// The processes that joined since the last call.
    pub(super) fn joined(&mut self) -> Vec<Target> {
        std::mem::take(&mut self.joined)
    }

    /// Hands an event on, if it is about a process that is wanted.
    pub(super) fn pass(
        &mut self,
        event: Event<'_>,
        children: Children,
        judge: Judge<'_>,
        take: &mut dyn FnMut(Event<'_>),
    ) {
        let pid = pid_of(&event);
        match event {
            Event::Fork {
                pid, parent_pid, ..
            } if pid != parent_pid => {
                if self.of_child(pid, parent_pid, children) == Some(Standing::Watched) {
                    take(event);
                }
            }
            Event::Exit { tid, .. } => {
                let is_watched = self.standing.get(&pid) == Some(&Standing::Watched);
                // The number may come back as another process.
                if tid == pid {
                    self.standing.remove(&pid);
                }
                if is_watched {
                    take(event);
                }
            }
            _ => {
                if self.is_watched(&event, judge, take) {
                    take(event);
                }
            }
        }
    }

    /// Decides about a child as far as its parent decides it.
    fn of_child(&mut self, pid: u32, parent_pid: u32, children: Children) -> Option<Standing> {
        let standing = match (self.standing.get(&parent_pid), children) {
            (Some(Standing::Watched), Children::Followed) => Some(Standing::Watched),
            (Some(Standing::Watched), Children::LeftOut) => Some(Standing::LeftOut),
            (Some(Standing::LeftOut), _) => Some(Standing::LeftOut),
            _ => None,
        };
        match standing {
            Some(standing) => self.standing.insert(pid, standing),
            None => self.standing.remove(&pid),
        };
        standing
    }

    fn is_watched(
        &mut self,
        event: &Event<'_>,
        judge: Judge<'_>,
        take: &mut dyn FnMut(Event<'_>),
    ) -> bool {
        let pid = pid_of(event);
        let is_exec = matches!(event, Event::ThreadName { is_exec: true, .. });
        match self.standing.get(&pid) {
            Some(Standing::Watched) => return true,
            Some(Standing::LeftOut) => return false,
            Some(Standing::Aside) if !is_exec => return false,
            Some(Standing::Aside) | None => {}
        }
        let Some(target) = judge(pid) else {
            self.standing.insert(pid, Standing::Aside);
            return false;
        };
        self.standing.insert(pid, Standing::Watched);
        self.joined.push(target);
        if !is_exec {
            // Its program started before it came here, or before we looked.
            let (events, _) = synthesize_initial_events(pid);
            events.into_iter().for_each(take);
        }
        true
    }
}

/// The process an event is about.
pub(crate) fn pid_of(event: &Event<'_>) -> u32 {
    match event {
        Event::Sample(sample) => sample.pid,
        Event::Mapping(mapping) => mapping.pid,
        Event::ThreadName { pid, .. } | Event::Fork { pid, .. } | Event::Exit { pid, .. } => *pid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{exit, fork, name};
    use nodespy_model::{EventIndex, RawSample, ThreadState, UserStack};

    const SERVER: u32 = 4_000_001;
    const SHELL: u32 = 4_000_002;
    const CHILD: u32 = 4_000_003;

    fn sample(pid: u32) -> Event<'static> {
        Event::Sample(RawSample {
            labels: Default::default(),
            time: 2,
            pid,
            tid: pid,
            cpu: None,
            event: EventIndex::default(),
            weight: 1,
            state: ThreadState::Unknown,
            kernel: Vec::new().into(),
            user: UserStack::Absent,
            memory: Default::default(),
            is_copied_at_sample: false,
            stands_still: false,
        })
    }

    /// The processes whose events get through, one number for each event; `wanted` are let in.
    fn passed(children: Children, wanted: &[u32], events: Vec<Event<'static>>) -> Vec<u32> {
        let mut members = Members::starting_with(std::iter::once(SERVER));
        let judge = |pid: u32| {
            let is_wanted = wanted.contains(&pid);
            is_wanted.then(|| Target::hold(std::process::id()).unwrap())
        };
        let mut through = Vec::new();
        for event in events {
            members.pass(event, children, &judge, &mut |event| {
                through.push(pid_of(&event));
            });
        }
        through
    }

    #[test]
    fn only_what_is_wanted_gets_through() {
        let events = vec![sample(SERVER), sample(SHELL), sample(CHILD), exit(SHELL)];
        let through = passed(Children::Followed, &[CHILD], events);
        assert_eq!(through, [SERVER, CHILD]);
    }

    #[test]
    fn a_shell_that_becomes_a_server_is_judged_again() {
        let (seen, asked) = (sample(SHELL), std::cell::Cell::new(0));
        let mut members = Members::starting_with(std::iter::empty());
        let judge = |_: u32| {
            asked.set(asked.get() + 1);
            (asked.get() == 2).then(|| Target::hold(std::process::id()).unwrap())
        };
        let mut through = 0;
        for event in [seen, sample(SHELL), name(SHELL, true), sample(SHELL)] {
            members.pass(event, Children::Followed, &judge, &mut |_| through += 1);
        }
        assert_eq!((through, asked.get()), (2, 2));
        assert_eq!(members.joined().len(), 1);
        assert!(members.joined().is_empty());
    }

    #[test]
    fn children_are_followed_or_left_out_as_asked() {
        let events = || vec![fork(CHILD, SERVER), sample(CHILD), name(CHILD, true)];
        assert_eq!(passed(Children::Followed, &[], events()), [CHILD; 3]);
        assert!(passed(Children::LeftOut, &[CHILD], events()).is_empty());
    }

    #[test]
    fn a_number_that_comes_back_is_another_process() {
        let events = vec![exit(SERVER), sample(SERVER), name(SERVER, true)];
        assert_eq!(passed(Children::Followed, &[], events), [SERVER]);
    }
}
