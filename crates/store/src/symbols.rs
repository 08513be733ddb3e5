//! Names of stacks, and the hashes that they are known by whichever process or host they come from.

use nodespy_model::{Category, FastMap, FrameKind, Tier};
use sha2::{Digest, Sha256};

use crate::error::StoreError;

/// The deepest stack.
pub const MAX_DEPTH: usize = 1024;
/// The longest name or file of a function, in bytes.
pub const MAX_TEXT_BYTES: usize = 8192;

/// The content of a stack: 128 bits of SHA-256 over its frames, root first. Hosts that run the same code make the
/// same hashes, and no sender can make a stack that passes for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StackHash(pub [u8; 16]);

/// A named range of code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct StoredFunction {
    /// Its name.
    pub name: String,
    /// Its file or module; empty when not known.
    pub file: String,
    /// The line it starts at, from 1; 0 when not known.
    pub line: u32,
    /// The column it starts at, from 1; 0 when not known.
    pub column: u32,
    /// What kind of code it is.
    pub category: Category,
}

/// A place in a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StoredFrame {
    /// Which of the functions it comes with.
    pub function: u32,
    /// The line being run, from 1; 0 when not known.
    pub line: u32,
    /// The column being run, from 1; 0 when not known.
    pub column: u32,
    /// Which compiler made the code.
    pub tier: Tier,
    /// How it came to be on the stack.
    pub kind: FrameKind,
}

impl StoredFrame {
    /// Tier and kind as one number.
    pub(crate) fn flags(&self) -> u8 {
        let tier = Tier::ALL.iter().position(|tier| *tier == self.tier);
        let kind = FrameKind::ALL.iter().position(|kind| *kind == self.kind);
        let tier = tier.expect("every tier is listed") as u8;
        tier << 2 | kind.expect("every kind is listed") as u8
    }

    /// What [`Self::flags`] made of them.
    pub(crate) fn from_flags(flags: u8) -> Option<(Tier, FrameKind)> {
        let tier = *Tier::ALL.get(usize::from(flags >> 2))?;
        let kind = *FrameKind::ALL.get(usize::from(flags & 3))?;
        Some((tier, kind))
    }
}

/// Stacks with their frames and functions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Symbols {
    /// Functions.
    pub functions: Vec<StoredFunction>,
    /// Places in them.
    pub frames: Vec<StoredFrame>,
    /// Stacks: indexes of frames, root first.
    pub stacks: Vec<Vec<u32>>,
}

impl Symbols {
    /// The hash of each stack.
    pub fn hashes(&self) -> Vec<StackHash> {
        let hasher = SymbolHasher::new(self);
        let stacks = self.stacks.iter();
        stacks.map(|stack| hasher.stack(stack)).collect()
    }

    /// The hash of each stack of symbols that somebody else put together.
    pub fn checked_hashes(&self) -> Result<Vec<StackHash>, StoreError> {
        self.check()?;
        Ok(self.hashes())
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let functions = self.functions.len();
        let frames = self.frames.len();
        let is_long = |function: &StoredFunction| {
            function.name.len().max(function.file.len()) > MAX_TEXT_BYTES
        };
        if self.functions.iter().any(is_long) {
            return Err(StoreError::Refused(
                "names and files of functions have at most 8,192 bytes",
            ));
        }
        if self
            .frames
            .iter()
            .any(|frame| frame.function as usize >= functions)
        {
            return Err(StoreError::Refused("a frame names a function of its batch"));
        }
        for stack in &self.stacks {
            if stack.len() > MAX_DEPTH {
                return Err(StoreError::Refused("a stack has at most 1,024 frames"));
            }
            if stack.iter().any(|frame| *frame as usize >= frames) {
                return Err(StoreError::Refused("a stack names frames of its batch"));
            }
        }
        Ok(())
    }
}

/// Hashes stacks of one set of symbols; each function and frame is hashed once.
#[derive(Debug)]
pub(crate) struct SymbolHasher {
    pub(crate) functions: Vec<[u8; 16]>,
    pub(crate) frames: Vec<[u8; 16]>,
}

impl SymbolHasher {
    pub(crate) fn new(symbols: &Symbols) -> Self {
        let functions: Vec<[u8; 16]> = symbols.functions.iter().map(function_hash).collect();
        let frames = symbols.frames.iter();
        let frames = frames
            .map(|frame| frame_hash(&functions[frame.function as usize], frame))
            .collect();
        Self { functions, frames }
    }

    pub(crate) fn stack(&self, stack: &[u32]) -> StackHash {
        let root = StackHash::default();
        stack.iter().fold(root, |caller, frame| {
            called(caller, &self.frames[*frame as usize])
        })
    }
}

/// The hash of a stack that adds a frame to another.
pub(crate) fn called(caller: StackHash, frame: &[u8; 16]) -> StackHash {
    let mut hasher = Sha256::new();
    hasher.update(caller.0);
    hasher.update(frame);
    StackHash(half(hasher))
}

fn function_hash(function: &StoredFunction) -> [u8; 16] {
    let mut hasher = Sha256::new();
    // Lengths first: no end of a name can pass for the beginning of a file.
    for text in [&function.name, &function.file] {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    hasher.update(function.line.to_le_bytes());
    hasher.update(function.column.to_le_bytes());
    hasher.update([category_number(function.category)]);
    half(hasher)
}

fn frame_hash(function: &[u8; 16], frame: &StoredFrame) -> [u8; 16] {
    let mut hasher = Sha256::new();
    hasher.update(function);
    hasher.update(frame.line.to_le_bytes());
    hasher.update(frame.column.to_le_bytes());
    hasher.update([frame.flags()]);
    half(hasher)
}

fn half(hasher: Sha256) -> [u8; 16] {
    let digest = hasher.finalize();
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    half
}

/// The place of a category in [`Category::ALL`].
pub(crate) fn category_number(category: Category) -> u8 {
    let position = Category::ALL.iter().position(|known| *known == category);
    position.expect("every category is listed") as u8
}

/// Puts symbols together: what is equal is held once.
#[derive(Debug, Default)]
pub(crate) struct SymbolBuilder {
    pub(crate) symbols: Symbols,
    functions: FastMap<StoredFunction, u32>,
    frames: FastMap<StoredFrame, u32>,
}

impl SymbolBuilder {
    pub(crate) fn function(&mut self, function: StoredFunction) -> u32 {
        let next = self.functions.len() as u32;
        *self
            .functions
            .entry(function)
            .or_insert_with_key(|function| {
                self.symbols.functions.push(function.clone());
                next
            })
    }

    pub(crate) fn frame(&mut self, frame: StoredFrame) -> u32 {
        let next = self.frames.len() as u32;
        *self.frames.entry(frame).or_insert_with(|| {
            self.symbols.frames.push(frame);
            next
        })
    }

    /// Takes over a stack of other symbols.
    pub(crate) fn stack_of(&mut self, other: &Symbols, stack: usize) {
        let path = other.stacks[stack].iter();
        let path = path.map(|frame| {
            let frame = other.frames[*frame as usize];
            let function = self.function(other.functions[frame.function as usize].clone());
            self.frame(StoredFrame { function, ..frame })
        });
        let path = path.collect();
        self.symbols.stacks.push(path);
    }
}
