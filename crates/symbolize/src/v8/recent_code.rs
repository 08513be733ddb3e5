//! What addresses of compiled code stood for a moment ago.
//!
//! V8 frees code that it no longer needs. A sample that is read late may find nothing at the address it
//! was taken at, and a dead closure in its frame: 217 frames of a recording of express on Node 24,
//! read 200 ms late. Hot code was named in the batch before, while it was there.

use std::ops::Range;

use nodespy_model::FastMap;

use crate::frame::Identified;

/// More frames than this in a batch are not remembered.
const FRAME_LIMIT: usize = 1 << 17;

/// The frames of addresses that were named in this batch and in the one before.
#[derive(Debug, Default)]
pub(super) struct RecentCode {
    current: Named,
    previous: Named,
}

/// Addresses and what they stand for. Every sample with a leaf of compiled code adds one, so all frames
/// are in one list, whose room is used again.
#[derive(Debug, Default)]
struct Named {
    frames: Vec<Identified>,
    /// Where in the list the frames of an address are.
    places: FastMap<u64, Range<usize>>,
}

impl Named {
    fn get(&self, address: u64) -> Option<&[Identified]> {
        let place = self.places.get(&address)?;
        self.frames.get(place.clone())
    }

    fn insert(&mut self, address: u64, frames: &[Identified]) {
        if self.get(address) == Some(frames) || self.frames.len() >= FRAME_LIMIT {
            return;
        }
        let start = self.frames.len();
        self.frames.extend_from_slice(frames);
        self.places.insert(address, start..self.frames.len());
    }

    fn clear(&mut self) {
        self.frames.clear();
        self.places.clear();
    }
}

impl RecentCode {
    /// Forgets what was not seen in the batch that has ended: other code may be there by now.
    pub(super) fn start_batch(&mut self) {
        std::mem::swap(&mut self.current, &mut self.previous);
        self.current.clear();
    }

    /// Remembers what the code at an address stands for: a function with those inlined into it.
    pub(super) fn insert(&mut self, address: u64, frames: &[Identified]) {
        if is_one_function(frames) {
            self.current.insert(address, frames);
        }
    }

    /// What the code at an address stood for when it was last seen.
    pub(super) fn get(&self, address: u64) -> Option<&[Identified]> {
        let frames = self.current.get(address);
        frames.or_else(|| self.previous.get(address))
    }
}

/// Whether all frames but the outermost are inlined: a caller that was found on the stack depends on
/// more than the address.
fn is_one_function(frames: &[Identified]) -> bool {
    let is_inlined = |frame: &Identified| matches!(frame, Identified::Js(js) if js.is_inlined);
    let is_function = |frame: &Identified| matches!(frame, Identified::Js(js) if !js.is_inlined);
    frames.split_last().is_some_and(|(outermost, inlined)| {
        is_function(outermost) && inlined.iter().all(is_inlined)
    })
}

#[cfg(test)]
mod tests {
    use nodespy_model::Tier;

    use super::super::JsFrame;
    use super::super::functions::FunctionId;
    use super::*;

    fn frame(function: u32, is_inlined: bool) -> Identified {
        Identified::Js(JsFrame {
            function: FunctionId(function),
            line: 1,
            column: 1,
            tier: Tier::Optimized,
            is_inlined,
        })
    }

    #[test]
    fn code_is_remembered_for_the_next_batch_and_no_longer() {
        let mut recent = RecentCode::default();
        recent.insert(0x1000, &[frame(1, true), frame(2, false)]);
        assert_eq!(recent.get(0x1000).map(<[_]>::len), Some(2));
        recent.start_batch();
        assert_eq!(recent.get(0x1000).map(<[_]>::len), Some(2));
        assert!(recent.get(0x1001).is_none());
        recent.start_batch();
        assert!(recent.get(0x1000).is_none());
    }

    #[test]
    fn an_address_stands_for_what_was_named_last() {
        let mut recent = RecentCode::default();
        for function in [1, 1, 2] {
            recent.insert(0x1000, &[frame(function, false)]);
        }
        assert_eq!(recent.get(0x1000), Some(&[frame(2, false)][..]));
        assert_eq!(recent.current.frames.len(), 2, "the same is not kept twice");
    }

    #[test]
    fn only_what_the_address_alone_decides_is_remembered() {
        let mut recent = RecentCode::default();
        recent.insert(1, &[]);
        recent.insert(2, &[Identified::UnknownJs]);
        // A function without a frame of its own, and the caller found on the stack.
        recent.insert(3, &[frame(1, false), frame(2, false)]);
        recent.insert(4, &[frame(1, true)]);
        for address in 1..=4 {
            assert!(recent.get(address).is_none(), "{address}");
        }
    }
}
