//! The events of a recording, and which of them a record belongs to.

use nodespy_model::FastMap;
use nodespy_perf_abi::{EventAttributes, RawRecord, RecordError, RecordLayout, Sideband};

/// The events of a recording.
#[derive(Debug, Clone, Default)]
pub(super) struct Events {
    pub(super) list: Vec<NamedEvent>,
    by_id: FastMap<u64, u32>,
}

/// An event and what it is called.
#[derive(Debug, Clone)]
pub(super) struct NamedEvent {
    pub(super) layout: RecordLayout,
    /// Empty until the file says it or all was read.
    pub(super) name: String,
}

impl NamedEvent {
    pub(super) fn attributes(&self) -> &EventAttributes {
        self.layout.attributes()
    }
}

impl Events {
    /// Adds an event whose records carry one of `ids`.
    pub(super) fn add(&mut self, attributes: &EventAttributes, ids: impl Iterator<Item = u64>) {
        let number = self.list.len() as u32;
        self.by_id.extend(ids.map(|id| (id, number)));
        self.list.push(NamedEvent {
            layout: RecordLayout::new(attributes),
            name: String::new(),
        });
    }

    pub(super) fn by_id(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).map(|&number| number as usize)
    }

    /// Names the events that the file did not name.
    pub(super) fn name_the_rest(&mut self) {
        for event in &mut self.list {
            if event.name.is_empty() {
                event.name = event.attributes().default_name();
            }
        }
    }

    /// The event that a sample belongs to; the first where the record has no id.
    pub(super) fn of_sample(&self, body: &[u8]) -> Option<usize> {
        let first = self.list.first()?;
        if self.list.len() == 1 {
            return Some(0);
        }
        match first.layout.sample_id(body) {
            None => Some(0),
            Some(id) => self.by_id(id),
        }
    }

    /// When a sample was taken.
    pub(super) fn sample_time(&self, event: usize, body: &[u8]) -> Option<u64> {
        self.list[event].layout.sample_time(body)
    }

    /// When anything else happened; 0 when it was so from the start.
    pub(super) fn sideband_time(&self, body: &[u8]) -> u64 {
        self.sideband_layout(body)
            .and_then(|layout| layout.trailer_time(body))
            .unwrap_or(0)
    }

    /// Decodes a record that is no sample.
    pub(super) fn sideband<'a>(&self, record: &RawRecord<'a>) -> Result<Sideband<'a>, RecordError> {
        match self.sideband_layout(record.body) {
            Some(layout) => layout.sideband(record),
            None => Ok(Sideband::Other),
        }
    }

    fn sideband_layout(&self, body: &[u8]) -> Option<&RecordLayout> {
        let first = &self.list.first()?.layout;
        if self.list.len() == 1 {
            return Some(first);
        }
        // Records that perf made up from /proc have a trailer of zeros.
        let event = first.trailer_id(body).and_then(|id| self.by_id(id));
        self.list.get(event.unwrap_or(0)).map(|event| &event.layout)
    }
}

/// Whether an event with this name measures the use of the CPU: `cycles`, `cycles:u`,
/// `cpu-cycles`, `cpu_core/cycles/`, `cpu-clock:HpppP`, `task-clock`.
pub(super) fn is_cpu_event(name: &str) -> bool {
    let name = name.trim_end_matches('/');
    let name = name.rsplit('/').next().unwrap_or(name);
    let base = name.split(':').next().unwrap_or(name);
    matches!(base, "cycles" | "cpu-cycles" | "cpu-clock" | "task-clock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_events_are_known_by_name() {
        for name in ["cycles", "cycles:u", "cpu_core/cycles/", "cpu-clock:HpppP"] {
            assert!(is_cpu_event(name), "{name}");
        }
        for name in ["page-faults", "sched:sched_switch", "instructions"] {
            assert!(!is_cpu_event(name), "{name}");
        }
    }
}
