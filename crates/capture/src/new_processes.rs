//! Processes that join a container, an app or the like while it is watched.
//!
//! Where the kernel samples a whole control group, every process in it comes with its events, and those
//! that are not wanted are kept back ([`members`]). Elsewhere children of watched processes are
//! followed by the kernel, and others are searched for among the processes that are new ([`polling`]). Where every Node
//! process of the machine is wanted for as long as it is up, all processes are searched again and again ([`machine`]).

mod machine;
mod members;
mod polling;

use nodespy_model::Event;

use crate::target::{Group, Resident, Target, Wanted, looks_like_node};
use machine::Machine;
use members::Members;
pub(crate) use members::pid_of;
use polling::Polling;

/// What becomes of the children of watched processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Children {
    /// They are watched too, whatever they run.
    Followed,
    /// They are left out.
    LeftOut,
    /// Each is watched if it is wanted itself.
    Judged,
}

/// The watch for processes that join.
#[derive(Debug)]
pub struct NewProcesses {
    wanted: Wanted,
    children: Children,
    search: Search,
}

#[derive(Debug)]
enum Search {
    /// Only certain processes are wanted.
    None,
    Polling(Polling),
    Machine(Machine),
    Members(Members, Group),
}

impl NewProcesses {
    /// Starts the watch. To be called before sampling starts, so that none is missed.
    pub fn watch(wanted: Wanted, targets: &[Target], children: Children) -> Self {
        let search = match (wanted.can_grow(), children) {
            (true, Children::Judged) => Search::Machine(Machine::start(targets)),
            (true, _) => Search::Polling(Polling::start(targets)),
            (false, _) => Search::None,
        };
        Self {
            wanted: wanted.settled_on(targets),
            children,
            search,
        }
    }

    /// From now on events come from every process in `group`, and report those that join it.
    pub fn rely_on(&mut self, group: Group, targets: &[Target]) {
        let watched = targets.iter().map(Target::pid);
        self.search = Search::Members(Members::starting_with(watched), group);
    }

    /// Hands an event on, if it is about a process that is watched.
    pub fn pass(&mut self, event: Event<'_>, take: &mut dyn FnMut(Event<'_>)) {
        match &mut self.search {
            Search::None => take(event),
            Search::Polling(polling) => {
                polling.see(&event);
                take(event);
            }
            Search::Machine(machine) => {
                if machine.see(&event) {
                    take(event);
                }
            }
            Search::Members(members, group) => {
                let judge = |pid| member(pid, &self.wanted, group);
                members.pass(event, self.children, &judge, take);
            }
        }
    }

    /// The processes that joined since the last call, held.
    pub fn joined(&mut self) -> Vec<Target> {
        match &mut self.search {
            Search::None => Vec::new(),
            Search::Polling(polling) => polling.poll(&|pid| admitted(pid, &self.wanted)),
            Search::Machine(machine) => {
                machine.poll(crate::monotonic_now(), &|pid| admitted(pid, &self.wanted))
            }
            Search::Members(members, _) => members.joined(),
        }
    }
}

/// A new process, if it is wanted.
fn admitted(pid: u32, wanted: &Wanted) -> Option<Target> {
    let (resident, target) = candidate(pid, wanted.any)?;
    wanted.admits(&resident).then_some(target)
}

/// A process of the group that is sampled, if it is wanted.
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
