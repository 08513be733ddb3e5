//! What an engine copies of objects at each sample, where it can: the memory is gone later.

use crate::raw::RuntimeAddress;

/// How many fields of an object are copied at most.
pub const MAX_COPIED_FIELDS: usize = 7;

/// What is copied of the objects of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyRule {
    /// The V8 map of these objects, or their constructor, which stands for all maps that came from it.
    pub key: RuntimeAddress,
    /// Tells the map from another that V8 puts in its place later: the rule is for one that has this, or for
    /// [`Self::ANY`].
    pub fingerprint: u64,
    /// Whether one of them is a request, or leads to one, so that no other is looked for.
    pub leads_to_request: bool,
    /// What is copied, at most [`MAX_COPIED_FIELDS`]; nothing of objects that are not wanted.
    pub fields: Vec<CopiedField>,
}

impl CopyRule {
    /// The fingerprint of what is not a map.
    pub const ANY: u64 = 0;
}

/// A field of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CopiedField {
    /// Its position in words, from the start of what it is in.
    pub word: u8,
    /// Whether it is in the array of properties that the object has outside of itself.
    pub is_in_properties: bool,
    /// Whether its value is a string, whose characters are copied; else an object, of which the fields are.
    pub is_text: bool,
}

impl CopiedField {
    /// The last word that can be copied.
    pub const LAST_WORD: u8 = 63;
    const OF_PROPERTIES: u8 = 64;
    const IS_TEXT: u8 = 128;

    /// As the eBPF program reads it. No field is 0: the first word of an object is its map.
    pub fn encoded(self) -> u8 {
        let mut byte = self.word & Self::LAST_WORD;
        if self.is_in_properties {
            byte |= Self::OF_PROPERTIES;
        }
        if self.is_text {
            byte |= Self::IS_TEXT;
        }
        byte
    }
}
