//! Frames of callers that were named before in the same batch of samples.
//!
//! The memory of the process is read once a batch, so all along it the same words in a frame lead
//! to the same functions. Stacks of a busy program are mostly what they were a sample ago; only
//! what is new in them is looked up in the heap.

use nodespy_model::{FastMap, FastSet};

use crate::frame::{CodeAddress, Identified};

/// A batch with more different frames than this starts afresh.
const FRAME_LIMIT: usize = 1 << 18;

/// What the name of a caller depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FrameKey {
    pub(super) frame: CodeAddress,
    pub(super) function: u64,
    /// Its bytecode and the word that may be an offset in it; none where it has no bytecode.
    pub(super) bytecode: Option<(u64, u64)>,
}

/// The frames named so far in a batch.
#[derive(Debug, Default)]
pub(super) struct KnownFrames {
    /// Where there is bytecode. It stays where it is for as long as a frame leads to it, so this is kept for a slice.
    bytecode: FastSet<u64>,
    /// Where there is something else, in this batch.
    no_bytecode: FastSet<u64>,
    /// Return addresses in V8's builtins, by whether their frames have bytecode: what a frame holds depends on its code
    /// alone. Where there was some once, no object that is gone says otherwise; the others are kept for a slice.
    interpreted: FastSet<CodeAddress>,
    other_frames: FastSet<CodeAddress>,
    /// What a frame stands for: a part of the list.
    parts: FastMap<FrameKey, (u32, u32)>,
    list: Vec<Identified>,
}

impl KnownFrames {
    /// Forgets what may change: from now on memory is read anew.
    pub(super) fn start_batch(&mut self) {
        self.no_bytecode.clear();
        self.parts.clear();
        self.list.clear();
    }

    /// Forgets everything.
    pub(super) fn end_slice(&mut self) {
        self.start_batch();
        self.bytecode.clear();
        self.other_frames.clear();
    }

    /// Whether frames with this return address are known to have no bytecode.
    pub(super) fn is_other_frame(&self, code: CodeAddress) -> bool {
        self.other_frames.contains(&code)
    }

    /// Remembers whether a frame with this return address has bytecode.
    pub(super) fn insert_builtin(&mut self, code: CodeAddress, has_bytecode: bool) {
        let is_full = self.interpreted.len().max(self.other_frames.len()) >= FRAME_LIMIT;
        if has_bytecode && !is_full {
            self.interpreted.insert(code);
        } else if !is_full && !self.interpreted.contains(&code) {
            self.other_frames.insert(code);
        }
    }

    /// The frames that were remembered for a key.
    pub(super) fn get(&self, key: &FrameKey) -> Option<&[Identified]> {
        let &(start, end) = self.parts.get(key)?;
        Some(&self.list[start as usize..end as usize])
    }

    /// Remembers the frames that a key stands for.
    pub(super) fn insert(&mut self, key: FrameKey, frames: &[Identified]) {
        if self.list.len() + frames.len() > FRAME_LIMIT {
            self.start_batch();
        }
        let start = self.list.len() as u32;
        self.list.extend_from_slice(frames);
        self.parts.insert(key, (start, self.list.len() as u32));
    }

    /// Whether the object at an address is bytecode, which `look` finds out.
    pub(super) fn is_bytecode(&mut self, object: u64, look: impl FnOnce() -> bool) -> bool {
        if self.bytecode.contains(&object) || self.no_bytecode.contains(&object) {
            return self.bytecode.contains(&object);
        }
        let is_bytecode = look();
        let set = match is_bytecode {
            true => &mut self.bytecode,
            false => &mut self.no_bytecode,
        };
        if set.len() > FRAME_LIMIT {
            set.clear();
        }
        set.insert(object);
        is_bytecode
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_builtin_that_had_bytecode_once_may_always_have_some() {
        let mut known = KnownFrames::default();
        let [interpreter, other] = [CodeAddress::Jit(1), CodeAddress::Jit(2)];
        known.insert_builtin(interpreter, true);
        known.insert_builtin(interpreter, false);
        known.insert_builtin(other, false);
        assert!(!known.is_other_frame(interpreter));
        assert!(known.is_other_frame(other));
        known.end_slice();
        assert!(!known.is_other_frame(other));
        known.insert_builtin(interpreter, false);
        assert!(!known.is_other_frame(interpreter));
    }

    #[test]
    fn bytecode_is_looked_at_once_a_slice_and_what_is_none_once_a_batch() {
        let mut known = KnownFrames::default();
        let mut looks = Vec::new();
        let mut ask = |known: &mut KnownFrames, object| {
            known.is_bytecode(object, || {
                looks.push(object);
                object == 7
            })
        };
        for _ in 0..2 {
            assert!(ask(&mut known, 7));
            assert!(!ask(&mut known, 8));
        }
        known.start_batch();
        assert!(ask(&mut known, 7));
        assert!(!ask(&mut known, 8));
        known.end_slice();
        assert!(ask(&mut known, 7));
        assert_eq!(looks, [7, 8, 8, 7]);
    }
}
