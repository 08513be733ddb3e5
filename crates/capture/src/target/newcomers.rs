//! Processes that join a container, an app or the like while it is watched.
//!
//! Where the kernel samples a whole control group, everybody in it comes with its events, and those
//! that are not wanted are kept back ([`members`]). Elsewhere children of watched processes are
//! followed by the kernel, and others are looked for among the processes that are new ([`looking`]).

mod looking;
mod members;

use nodespy_model::Event;

use super::cgroup::Group;
use super::resident::Resident;
use super::wanted::Wanted;
use super::{Target, looks_like_node};
use looking::Looking;
use members::Members;

/// What becomes of the children of watched processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Children {
    /// They are watched too, whatever they run.
    Followed,
    /// They are watched if they are wanted themselves.
    Judged,
    /// They are left out.
    LeftOut,
}

/// The watch for processes that join.
#[derive(Debug)]
pub struct Newcomers {
    wanted: Wanted,
    children: Children,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// Only certain processes are wanted.
    Nobody,
    Looking(Looking),
    Members(Members, Group),
}

impl Newcomers {
    /// Starts the watch. To be called before sampling starts, so that nobody is missed.
    pub fn watch(wanted: Wanted, targets: &[Target], children: Children) -> Self {
        let way = match wanted.can_grow() {
            true => Way::Looking(Looking::start(targets)),
            false => Way::Nobody,
        };
        Self {
            wanted: wanted.settled_on(targets),
            children,
            way,
        }
    }

    /// From now on events come from everybody in `group`, and tell of those who join it.
    pub fn rely_on(&mut self, group: Group, targets: &[Target]) {
        let watched = targets.iter().map(Target::pid);
        self.way = Way::Members(Members::starting_with(watched), group);
    }

    /// Hands an event on, if it is about a process that is watched.
    pub fn pass(&mut self, event: Event<'_>, take: &mut dyn FnMut(Event<'_>)) {
        match &mut self.way {
            Way::Nobody => take(event),
            Way::Looking(looking) => {
                if self.children != Children::Judged {
                    looking.see(&event);
                }
                take(event);
            }
            Way::Members(members, group) => {
                let judge = |pid| member(pid, &self.wanted, group);
                members.pass(event, self.children, &judge, take);
            }
        }
    }

    /// The processes that joined since the last call, held.
    pub fn joined(&mut self) -> Vec<Target> {
        match &mut self.way {
            Way::Nobody => Vec::new(),
            Way::Looking(looking) => looking.look(&|pid| admitted(pid, &self.wanted)),
            Way::Members(members, _) => members.joined(),
        }
    }
}

/// A new process, if it is wanted.
fn admitted(pid: u32, wanted: &Wanted) -> Option<Target> {
    let (resident, target) = candidate(pid, wanted.any)?;
    wanted.admits(&resident).then_some(target)
}

/// A process of the group that is sampled, if it is wanted: in the group is where everybody is.
fn member(pid: u32, wanted: &Wanted, group: &Group) -> Option<Target> {
    let (resident, target) = candidate(pid, wanted.any)?;
    (group.holds_process(pid) && !resident.is_pm2_itself).then_some(target)
}

fn candidate(pid: u32, any: bool) -> Option<(Resident, Target)> {
    if pid == std::process::id() || !any && !looks_like_node(pid) {
        return None;
    }
    let resident = Resident::of(pid)?;
    let target = Target::hold_started(pid, resident.start_time).ok()?;
    Some((resident, target))
}
