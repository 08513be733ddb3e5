//! What an engine copies of objects at each sample, where it can: the memory is gone later.

use crate::raw::RuntimeAddress;

/// How many fields of an object are copied at most.
pub const MAX_COPIED_FIELDS: usize = 7;

/// What is to be copied from now on, beside what was asked for before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyRules {
    /// What is copied of objects.
    pub objects: Vec<CopyRule>,
    /// Where threads have the stores of AsyncLocalStorage.
    pub slots: Vec<StoreSlot>,
    /// Whether objects that a rule covers had V8 maps that were not known yet: each has to be read in the process while it
    /// lives.
    pub has_new_maps: bool,
}

impl CopyRules {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.slots.is_empty() && !self.has_new_maps
    }

    /// Whether what is copied next leads to more: nothing does that comes from an object of which nothing is copied.
    pub fn lead_further(&self) -> bool {
        !self.slots.is_empty() || self.objects.iter().any(CopyRule::leads_further)
    }

    /// Takes in others.
    pub fn append(&mut self, mut others: Self) {
        self.objects.append(&mut others.objects);
        self.slots.append(&mut others.slots);
        self.has_new_maps |= others.has_new_maps;
    }
}

/// Where a thread has the stores of AsyncLocalStorage: a word that holds a `Map` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreSlot {
    /// The thread.
    pub tid: u32,
    /// Where the word is.
    pub address: RuntimeAddress,
}

/// What a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleOf {
    /// Objects that may be requests, or what requests have.
    Request,
    /// Stores of AsyncLocalStorage, or what is in one.
    Store,
    /// What dictionaries have under a name.
    Name,
}

/// How objects have what is copied of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectShape {
    /// In fields.
    Fields,
    /// They are each a `Map`, whose entries are copied.
    Map,
    /// In a dictionary, of which that is copied that has a rule for its name.
    Dictionary,
    /// They are each the context of a function, whose variables are copied.
    Context,
}

/// What is copied of the objects of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyRule {
    /// What it is for: a rule is looked up for nothing else.
    pub of: RuleOf,
    /// The V8 map of these objects, or their constructor, which stands for all maps that came from it; or a name.
    pub key: RuntimeAddress,
    /// Tells the map from another that V8 puts in its place later: the rule is for one that has this, or for
    /// [`Self::ANY`].
    pub fingerprint: u64,
    /// Whether one of them is a request, or leads to one, so that no other is looked for.
    pub leads_to_request: bool,
    /// How they have what is copied.
    pub shape: ObjectShape,
    /// What is copied, at most [`MAX_COPIED_FIELDS`]; nothing of objects that are not wanted.
    pub fields: Vec<CopiedField>,
}

impl CopyRule {
    /// The fingerprint of what is not a map.
    pub const ANY: u64 = 0;

    fn leads_further(&self) -> bool {
        !self.fields.is_empty() || self.shape != ObjectShape::Fields || self.of == RuleOf::Name
    }
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

    /// The part of an encoded field that says where it is.
    pub fn place_of(encoded: u8) -> u8 {
        encoded & !Self::IS_TEXT
    }
}
