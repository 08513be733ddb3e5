//! Where in a record its event, its time and its thread are, without reading the rest.

use nodespy_model::FastMap;

use super::attribute::{Attribute, has};
use super::fields::u64_at;

/// The bytes of a record's head: kind, flags, size.
pub(super) const HEAD_BYTES: usize = 8;
/// The kind of a sample.
pub(super) const SAMPLE: u32 = 9;

/// Positions in the records of one event, in bytes after the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    id: Option<usize>,
    time: Option<usize>,
    /// Positions from the end of records that are not samples.
    trailer_time: Option<usize>,
    trailer_id: Option<usize>,
    trailer_bytes: usize,
}

impl Layout {
    fn of(attribute: &Attribute) -> Self {
        let mut at = 0;
        let mut id = None;
        let mut time = None;
        for field in [
            has::IDENTIFIER,
            has::IP,
            has::TID,
            has::TIME,
            has::ADDRESS,
            has::ID,
        ] {
            if attribute.has(field) {
                match field {
                    has::IDENTIFIER => id = Some(at),
                    has::ID => id = id.or(Some(at)),
                    has::TIME => time = Some(at),
                    _ => {}
                }
                at += 8;
            }
        }
        let mut layout = Self {
            id,
            time,
            trailer_time: None,
            trailer_id: None,
            trailer_bytes: 0,
        };
        if attribute.has_trailers() {
            // From the end backwards.
            for field in [
                has::IDENTIFIER,
                has::CPU,
                has::STREAM_ID,
                has::ID,
                has::TIME,
                has::TID,
            ] {
                if attribute.has(field) {
                    layout.trailer_bytes += 8;
                    match field {
                        has::IDENTIFIER | has::ID => {
                            layout.trailer_id = layout.trailer_id.or(Some(layout.trailer_bytes));
                        }
                        has::TIME => layout.trailer_time = Some(layout.trailer_bytes),
                        _ => {}
                    }
                }
            }
        }
        layout
    }
}

/// The events of a recording, and which of them a record belongs to.
#[derive(Debug, Clone, Default)]
pub(super) struct Events {
    pub(super) list: Vec<NamedEvent>,
    layouts: Vec<Layout>,
    by_id: FastMap<u64, u32>,
}

/// An event and what it is called.
#[derive(Debug, Clone, Default)]
pub(super) struct NamedEvent {
    pub(super) attribute: Attribute,
    /// Empty until the file says it or all was read.
    pub(super) name: String,
}

impl Events {
    /// Adds an event whose records carry one of `ids`.
    pub(super) fn add(&mut self, attribute: Attribute, ids: impl Iterator<Item = u64>) {
        let number = self.list.len() as u32;
        self.by_id.extend(ids.map(|id| (id, number)));
        self.layouts.push(Layout::of(&attribute));
        self.list.push(NamedEvent {
            attribute,
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
                event.name = event.attribute.default_name();
            }
        }
    }

    /// The event that a sample belongs to; the first where the record does not tell.
    pub(super) fn of_sample(&self, body: &[u8]) -> Option<usize> {
        if self.list.len() <= 1 {
            return (!self.list.is_empty()).then_some(0);
        }
        let id = self.layouts[0].id.and_then(|at| u64_at(body, at));
        match id {
            None => Some(0),
            Some(id) => self.by_id(id),
        }
    }

    /// When a sample was taken.
    pub(super) fn sample_time(&self, event: usize, body: &[u8]) -> Option<u64> {
        u64_at(body, self.layouts[event].time?)
    }

    /// When anything else happened; 0 when it was so from the start.
    pub(super) fn other_time(&self, body: &[u8]) -> u64 {
        self.trailer_layout(body)
            .and_then(|layout| u64_at(body, body.len().checked_sub(layout.trailer_time?)?))
            .unwrap_or(0)
    }

    /// The body of a record that is no sample, without its trailer.
    pub(super) fn without_trailer<'a>(&self, body: &'a [u8]) -> &'a [u8] {
        let trailer = self
            .trailer_layout(body)
            .map_or(0, |layout| layout.trailer_bytes);
        &body[..body.len().saturating_sub(trailer)]
    }

    fn trailer_layout(&self, body: &[u8]) -> Option<&Layout> {
        let first = self.layouts.first()?;
        if self.layouts.len() == 1 {
            return Some(first);
        }
        let id = first
            .trailer_id
            .and_then(|from_end| u64_at(body, body.len().checked_sub(from_end)?));
        // Records that perf made up from /proc have a trailer of zeros.
        let event = id.and_then(|id| self.by_id(id)).unwrap_or(0);
        self.layouts.get(event)
    }
}
