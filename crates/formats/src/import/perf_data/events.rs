//! The events of a recording, and which of them a record belongs to.

use nodespy_model::{EventIndex, EventType, FastMap, MAX_EVENTS, WeightUnit};
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

    /// The events of the model, and which of them each of the file's is. Those of one name are one:
    /// perf opens an event for each kind of processor.
    pub(super) fn types(&self) -> (Vec<EventType>, Vec<EventIndex>) {
        let mut types: Vec<EventType> = Vec::new();
        let mut places = Vec::with_capacity(self.list.len());
        for event in &self.list {
            let event = event_type(event);
            let known = types
                .iter()
                .position(|it| (&it.name, it.unit) == (&event.name, event.unit));
            // A file with more events than that is not perf's.
            let place = known.unwrap_or(types.len()).min(MAX_EVENTS - 1);
            if place == types.len() {
                types.push(event);
            }
            places.push(EventIndex(place as u16));
        }
        (types, places)
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

/// An event as the model has it. Its weights are periods, which count occurrences; where samples
/// have none and their rate alone was fixed, they are samples.
fn event_type(event: &NamedEvent) -> EventType {
    let attributes = event.attributes();
    let mut found = EventType::new(&event.name, WeightUnit::Events).at_rate(attributes.rate_hz());
    if !attributes.has_period() && attributes.is_freq {
        found.unit = WeightUnit::Samples;
    } else if found.is_clock() {
        found.unit = WeightUnit::Nanoseconds;
    }
    found
}
