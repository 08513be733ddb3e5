//! Frames of callers that were named before in the same batch of samples.
//!
//! The memory of the process is read once a batch, so all along it the same words in a frame lead
//! to the same functions. Stacks of a busy program are mostly what they were a sample ago; only
//! what is new in them is looked up in the heap.

use nodespy_model::FastMap;

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
    /// Whether the object at an address is bytecode.
    is_bytecode: FastMap<u64, bool>,
    /// What a frame stands for: a piece of the list.
    pieces: FastMap<FrameKey, (u32, u32)>,
    list: Vec<Identified>,
}

impl KnownFrames {
    /// Forgets everything: from now on memory is read anew.
    pub(super) fn start_batch(&mut self) {
        self.is_bytecode.clear();
        self.pieces.clear();
        self.list.clear();
    }

    /// The frames that were remembered for a key.
    pub(super) fn get(&self, key: &FrameKey) -> Option<&[Identified]> {
        let &(start, end) = self.pieces.get(key)?;
        Some(&self.list[start as usize..end as usize])
    }

    /// Remembers the frames that a key stands for.
    pub(super) fn insert(&mut self, key: FrameKey, frames: &[Identified]) {
        if self.list.len() + frames.len() > FRAME_LIMIT {
            self.start_batch();
        }
        let start = self.list.len() as u32;
        self.list.extend_from_slice(frames);
        self.pieces.insert(key, (start, self.list.len() as u32));
    }

    /// Whether the object at an address is bytecode, which `look` finds out.
    pub(super) fn is_bytecode(&mut self, object: u64, look: impl FnOnce() -> bool) -> bool {
        if self.is_bytecode.len() > FRAME_LIMIT {
            self.is_bytecode.clear();
        }
        *self.is_bytecode.entry(object).or_insert_with(look)
    }
}
