//! Which events are of processes that are recorded, and which processes join them.

use nodespy_capture::NewProcesses;
use nodespy_capture::target::Target;
use nodespy_model::Event;

/// The filter between an engine and the resolver.
pub(crate) trait Joining {
    /// Hands an event on, if it is about a process that is recorded.
    fn pass(&mut self, event: Event<'_>, take: &mut dyn FnMut(Event<'_>));

    /// The processes that joined since the last call, held.
    fn joined(&mut self) -> Vec<Target>;
}

impl Joining for NewProcesses {
    fn pass(&mut self, event: Event<'_>, take: &mut dyn FnMut(Event<'_>)) {
        NewProcesses::pass(self, event, take);
    }

    fn joined(&mut self) -> Vec<Target> {
        NewProcesses::joined(self)
    }
}

/// No process joins.
#[derive(Debug)]
pub(crate) struct NoneJoins;

impl Joining for NoneJoins {
    fn pass(&mut self, event: Event<'_>, take: &mut dyn FnMut(Event<'_>)) {
        take(event);
    }

    fn joined(&mut self) -> Vec<Target> {
        Vec::new()
    }
}
