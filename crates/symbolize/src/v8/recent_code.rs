//! What addresses of compiled code, and the words of frames, stood for a moment ago.
//!
//! V8 frees code that it no longer needs. A sample that is read late may find nothing at the address it
//! was taken at, and a dead closure in its frame: 217 frames of a recording of express on Node 24,
//! read 200 ms late. Of a worker or a process that has ended since the sample there is nothing left to
//! read at all. Hot code and the callers of it were named in the batch before, while they were there.

use std::hash::Hash;
use std::ops::Range;

use nodespy_model::{FastMap, FrameKind, Tier};

use super::JsFrame;
use super::functions::FunctionId;
use crate::frame::{CodeAddress, FrameSlots, Identified};

/// More frames than this in a batch are not remembered.
const FRAME_LIMIT: usize = 1 << 17;

/// The frames that were named in the last batch that had any, and in the one before.
#[derive(Debug, Default)]
pub(super) struct RecentCode {
    code: Recent<u64>,
    callers: Recent<FrameWords>,
    /// The functions of closures, by address.
    closures: Recent<u64>,
}

/// The frame of a caller, as it is on the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FrameWords {
    code: CodeAddress,
    function: u64,
    bytecode_array: u64,
    bytecode_offset: u64,
}

impl FrameWords {
    pub(super) fn new(code: CodeAddress, slots: &FrameSlots) -> Self {
        Self {
            code,
            function: slots.function,
            bytecode_array: slots.bytecode_array,
            bytecode_offset: slots.bytecode_offset,
        }
    }
}

#[derive(Debug)]
struct Recent<K> {
    current: Named<K>,
    previous: Named<K>,
}

/// What keys stand for. Every sample with a leaf of compiled code adds one, so all frames are in one
/// list, whose room is used again.
#[derive(Debug)]
struct Named<K> {
    frames: Vec<Identified>,
    /// Where in the list the frames of a key are.
    places: FastMap<K, Range<usize>>,
}

impl<K> Default for Named<K> {
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            places: FastMap::default(),
        }
    }
}

impl<K> Default for Recent<K> {
    fn default() -> Self {
        Self {
            current: Named::default(),
            previous: Named::default(),
        }
    }
}

impl<K: Hash + Eq> Named<K> {
    fn get(&self, key: &K) -> Option<&[Identified]> {
        let place = self.places.get(key)?;
        self.frames.get(place.clone())
    }

    fn insert(&mut self, key: K, frames: &[Identified]) {
        if self.get(&key) == Some(frames) || self.frames.len() >= FRAME_LIMIT {
            return;
        }
        let start = self.frames.len();
        self.frames.extend_from_slice(frames);
        self.places.insert(key, start..self.frames.len());
    }

    fn clear(&mut self) {
        self.frames.clear();
        self.places.clear();
    }
}

impl<K: Hash + Eq> Recent<K> {
    /// A batch without samples of the process says nothing of what has changed.
    fn start_batch(&mut self) {
        if !self.current.frames.is_empty() {
            std::mem::swap(&mut self.current, &mut self.previous);
            self.current.clear();
        }
    }

    fn get(&self, key: &K) -> Option<&[Identified]> {
        let frames = self.current.get(key);
        frames.or_else(|| self.previous.get(key))
    }
}

impl RecentCode {
    /// Forgets what was not seen in the batch that has ended: other code may be there by now.
    pub(super) fn start_batch(&mut self) {
        self.code.start_batch();
        self.callers.start_batch();
        self.closures.start_batch();
    }

    /// Remembers what the code at an address stands for: a function with those inlined into it.
    pub(super) fn insert(&mut self, address: u64, frames: &[Identified]) {
        if is_one_function(frames) {
            self.code.current.insert(address, frames);
        }
    }

    /// What the code at an address stood for when it was last seen.
    pub(super) fn get(&self, address: u64) -> Option<&[Identified]> {
        self.code.get(&address)
    }

    /// Remembers what a caller is.
    pub(super) fn insert_caller(&mut self, words: FrameWords, frames: &[Identified]) {
        self.callers.current.insert(words, frames);
    }

    /// Remembers the function of a closure, wherever in it a frame is.
    pub(super) fn insert_closure(&mut self, closure: u64, function: FunctionId) {
        self.closures
            .current
            .insert(closure, &[somewhere_in(function)]);
    }

    /// The function of a closure when it was last seen.
    pub(super) fn closure(&self, closure: u64) -> Option<&[Identified]> {
        self.closures.get(&closure)
    }

    /// What a caller with these words was when it was last seen.
    pub(super) fn caller(&self, words: &FrameWords) -> Option<&[Identified]> {
        self.callers.get(words)
    }
}

/// A frame of which nothing is known but its function.
pub(super) fn somewhere_in(function: FunctionId) -> Identified {
    Identified::Js(JsFrame {
        function,
        line: 0,
        column: 0,
        tier: Tier::None,
        kind: FrameKind::Physical,
    })
}

/// Whether all frames but the outermost are inlined: a caller that was found on the stack depends on
/// more than the address.
fn is_one_function(frames: &[Identified]) -> bool {
    let is_inlined =
        |frame: &Identified| matches!(frame, Identified::Js(js) if js.kind.is_inlined());
    let is_function =
        |frame: &Identified| matches!(frame, Identified::Js(js) if !js.kind.is_inlined());
    frames.split_last().is_some_and(|(outermost, inlined)| {
        is_function(outermost) && inlined.iter().all(is_inlined)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: u32, is_inlined: bool) -> Identified {
        Identified::Js(JsFrame {
            function: FunctionId(function),
            line: 1,
            column: 1,
            tier: Tier::Optimized,
            kind: FrameKind::inlined_if(is_inlined),
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
        // Nothing of the process was seen, so nothing is forgotten.
        recent.start_batch();
        assert_eq!(recent.get(0x1000).map(<[_]>::len), Some(2));
        recent.insert(0x2000, &[frame(3, false)]);
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
        let kept = recent.code.current.frames.len();
        assert_eq!(kept, 2, "the same is not kept twice");
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
