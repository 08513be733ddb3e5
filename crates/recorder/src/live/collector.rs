//! Events of an engine on their way to names.

use nodespy_capture::engine::{NamedEvent, Sink};
use nodespy_model::{CopyRules, Event};
use nodespy_symbolize::Resolver;

use crate::joining::Joining;
use crate::named::NamedSamples;

/// Where the events of an engine go.
pub(super) struct Collector<'a> {
    pub(super) joining: &'a mut dyn Joining,
    pub(super) resolver: &'a mut Resolver,
    pub(super) named: &'a mut NamedSamples,
    /// How many samples were taken in the processes.
    pub(super) taken: &'a mut u64,
}

impl Sink for Collector<'_> {
    fn batch(&mut self) {
        self.resolver.start_batch();
    }

    fn event(&mut self, event: Event<'_>) {
        // What is seen from outside has no CPU.
        if matches!(&event, Event::Sample(sample) if sample.cpu.is_some()) {
            *self.taken += 1;
        }
        let resolver = &mut *self.resolver;
        self.joining.pass(event, &mut |event| resolver.take(event));
    }

    fn named(&mut self, session: usize, event: NamedEvent) {
        self.named.take(session, event);
    }

    fn take_copy_rules(&mut self) -> CopyRules {
        self.resolver.take_copy_rules()
    }
}
