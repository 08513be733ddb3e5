//! The one model: what a person reads. Tables joined by typed indexes.

use std::num::{NonZeroU16, NonZeroU32};

use crate::about::{About, Process, Thread};
use crate::builder::FunctionSpec;
use crate::context::{ContextIndex, Contexts};
use crate::event::{EventIndex, EventType};
use crate::notes::Notes;

/// A time or a length of time in nanoseconds.
pub type Nanoseconds = u64;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// The position in its table.
            pub fn at(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index!(
    /// A string of a profile.
    StringIndex
);
index!(
    /// A function of a profile.
    FunctionIndex
);
index!(
    /// A frame of a profile.
    FrameIndex
);
index!(
    /// A thread of a profile.
    ThreadIndex
);
index!(
    /// A process of a profile.
    ProcessIndex
);

/// A stack of a profile. Held as one more than the position, so that `Option<StackIndex>` is four
/// bytes too: profiles have millions of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackIndex(NonZeroU32);

impl StackIndex {
    /// The stack at a position, which is under `u32::MAX`.
    pub fn new(position: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(position))
    }

    /// The position in its table.
    pub fn get(self) -> u32 {
        self.0.get() - 1
    }

    /// The position in its table.
    pub fn at(self) -> usize {
        self.get() as usize
    }
}

/// The number of a processor, so that `Option<Cpu>` is two bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cpu(NonZeroU16);

impl Cpu {
    /// A processor by its number; none for the largest, which no kernel gives.
    pub fn new(number: u16) -> Option<Self> {
        number.checked_add(1).and_then(NonZeroU16::new).map(Self)
    }

    /// Its number.
    pub fn get(self) -> u16 {
        self.0.get() - 1
    }
}

/// What kind of code a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Category {
    /// JavaScript of the application.
    App,
    /// JavaScript under `node_modules`.
    Dependency,
    /// JavaScript that comes with Node (`node:…`).
    NodeCore,
    /// V8's builtins, bytecode handlers and stubs.
    Builtin,
    /// WebAssembly.
    Wasm,
    /// Compiled regular expressions.
    RegExp,
    /// V8's garbage collector.
    Gc,
    /// C and C++: node, V8, libuv, libraries, addons.
    Native,
    /// The kernel.
    Kernel,
    /// Time without work, where the source records it.
    Idle,
    /// Code without a name.
    #[default]
    Unknown,
    /// Plumbing between the others: V8's entry and exit stubs, trampolines and bytecode handlers,
    /// the start of a thread in libc. In the data, but not in a view unless asked for.
    Internal,
}

impl Category {
    /// Every category, in the order they are shown and stored.
    pub const ALL: [Self; 12] = [
        Self::App,
        Self::Dependency,
        Self::NodeCore,
        Self::Builtin,
        Self::Wasm,
        Self::RegExp,
        Self::Gc,
        Self::Native,
        Self::Kernel,
        Self::Idle,
        Self::Unknown,
        Self::Internal,
    ];

    /// The words shown for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Dependency => "dependency",
            Self::NodeCore => "node core",
            Self::Builtin => "V8 builtin",
            Self::Wasm => "wasm",
            Self::RegExp => "regexp",
            Self::Gc => "GC",
            Self::Native => "native",
            Self::Kernel => "kernel",
            Self::Idle => "idle",
            Self::Unknown => "unknown",
            Self::Internal => "internal",
        }
    }

    /// Whether code of this category is JavaScript or runs on its behalf inside V8.
    pub fn is_javascript(self) -> bool {
        matches!(
            self,
            Self::App
                | Self::Dependency
                | Self::NodeCore
                | Self::Builtin
                | Self::Wasm
                | Self::RegExp
                | Self::Internal
        )
    }
}

/// Which of V8's compilers made the code of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Tier {
    /// Not JavaScript, or not known.
    #[default]
    None,
    /// Ignition, mark `~`.
    Interpreted,
    /// Sparkplug, mark `^`.
    Baseline,
    /// Maglev, mark `+`.
    Maglev,
    /// TurboFan, mark `*`.
    Optimized,
}

impl Tier {
    /// Every tier, in the order they are stored.
    pub const ALL: [Self; 5] = [
        Self::None,
        Self::Interpreted,
        Self::Baseline,
        Self::Maglev,
        Self::Optimized,
    ];

    /// The word shown for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Interpreted => "interpreted",
            Self::Baseline => "baseline",
            Self::Maglev => "maglev",
            Self::Optimized => "optimized",
        }
    }

    /// The mark that V8 puts before the names of functions.
    pub fn mark(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Interpreted => "~",
            Self::Baseline => "^",
            Self::Maglev => "+",
            Self::Optimized => "*",
        }
    }

    /// Splits V8's mark off the front of a name: `*sort`, `o+'sort`. `o` before a mark means
    /// on-stack replacement, which only the optimizing compilers do; `'` after it is part of the mark.
    pub fn split_mark(name: &str) -> (Self, &str) {
        let marked = name
            .strip_prefix('o')
            .filter(|rest| rest.starts_with(['+', '*']))
            .unwrap_or(name);
        let tier = match marked.as_bytes().first() {
            Some(b'~') => Self::Interpreted,
            Some(b'^') => Self::Baseline,
            Some(b'+') => Self::Maglev,
            Some(b'*') => Self::Optimized,
            _ => return (Self::None, name),
        };
        let rest = &marked[1..];
        (tier, rest.strip_prefix('\'').unwrap_or(rest))
    }
}

/// A named range of source or machine code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Function {
    /// Its name.
    pub name: StringIndex,
    /// The source file of JavaScript, or the module (library, `[kernel]`) of native code.
    pub file: Option<StringIndex>,
    /// The line it starts at, from 1; 0 when not known.
    pub line: u32,
    /// The column it starts at, from 1; 0 when not known.
    pub column: u32,
    /// What kind of code it is.
    pub category: Category,
}

/// How a frame came to be on a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum FrameKind {
    /// It was called.
    #[default]
    Physical,
    /// The compiler put the function's code into its caller's.
    Inlined,
    /// It is suspended and awaits what its callee computes. It has no CPU time of its own.
    Async,
}

impl FrameKind {
    /// Every kind, in the order they are stored.
    pub const ALL: [Self; 3] = [Self::Physical, Self::Inlined, Self::Async];

    /// Inlined, or called.
    pub fn inlined_if(is_inlined: bool) -> Self {
        match is_inlined {
            true => Self::Inlined,
            false => Self::Physical,
        }
    }

    /// Whether the compiler put the function's code into its caller's.
    pub fn is_inlined(self) -> bool {
        self == Self::Inlined
    }

    /// Whether it is suspended and awaits what its callee computes.
    pub fn is_async(self) -> bool {
        self == Self::Async
    }

    /// What frames of two kinds are that are shown as one.
    pub fn merged(self, other: Self) -> Self {
        match self == other {
            true => self,
            false => Self::Physical,
        }
    }
}

/// A place in a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The function.
    pub function: FunctionIndex,
    /// The line being run, from 1; 0 when not known.
    pub line: u32,
    /// The column being run, from 1; 0 when not known.
    pub column: u32,
    /// Which compiler made the code.
    pub tier: Tier,
    /// How it came to be on the stack.
    pub kind: FrameKind,
}

/// A path of frames: a parent path plus one frame. Parents come before children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stack {
    /// The path of the caller; none at the root.
    pub parent: Option<StackIndex>,
    /// The frame it adds.
    pub frame: FrameIndex,
}

/// One observation of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// When, from the start of the recording.
    pub time: Nanoseconds,
    /// What it counts for, in its event's unit.
    pub weight: u64,
    /// Which thread.
    pub thread: ThreadIndex,
    /// Where it was; none when nothing is known.
    pub stack: Option<StackIndex>,
    /// What it is tagged with.
    pub context: ContextIndex,
    /// What made it.
    pub event: EventIndex,
    /// On which processor, where that is known.
    pub cpu: Option<Cpu>,
}

impl Sample {
    /// Puts samples in order of time; those of one time stay as they are.
    pub fn sort_by_time(samples: &mut [Self]) {
        samples.sort_by_key(|sample| sample.time);
    }
}

/// The text of a source file, where it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The file, as functions name it.
    pub file: StringIndex,
    /// What it holds, line ends and all: unlike names it may span lines.
    pub text: String,
}

/// Strings, each held once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StringTable {
    pub(crate) bytes: String,
    pub(crate) ends: Vec<u32>,
}

impl StringTable {
    /// The string at `index`.
    pub fn get(&self, index: StringIndex) -> &str {
        let start = match index.at() {
            0 => 0,
            position => self.ends[position - 1] as usize,
        };
        &self.bytes[start..self.ends[index.at()] as usize]
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many bytes all of them have.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|position| self.get(StringIndex(position as u32)))
    }
}

/// A resolved profile. Made by [`crate::ProfileBuilder`], which keeps its invariants.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    /// What was recorded, how and when.
    pub about: About,
    /// What is lost, cut or guessed.
    pub notes: Notes,
    /// What makes samples: one event or several, the one that views show first.
    pub events: Vec<EventType>,
    /// What samples are tagged with.
    pub contexts: Contexts,
    /// Every string.
    pub strings: StringTable,
    /// Every function.
    pub functions: Vec<Function>,
    /// Every frame.
    pub frames: Vec<Frame>,
    /// Every stack, parents first.
    pub stacks: Vec<Stack>,
    /// Every process.
    pub processes: Vec<Process>,
    /// Every thread.
    pub threads: Vec<Thread>,
    /// Every sample, in order of time.
    pub samples: Vec<Sample>,
    /// Why V8 dropped optimized code of a function, where the source says so: each pair once.
    pub deopt_reasons: Vec<(FunctionIndex, StringIndex)>,
    /// Where a function is in the code that ran, as `file:line:column`, where a source map says
    /// where it was written: each pair once.
    pub generated_places: Vec<(FunctionIndex, StringIndex)>,
    /// The text of source files, where it was asked for: each file once.
    pub sources: Vec<Source>,
}

impl Profile {
    /// The function at `index`.
    pub fn function(&self, index: FunctionIndex) -> &Function {
        &self.functions[index.at()]
    }

    /// The frame at `index`.
    pub fn frame(&self, index: FrameIndex) -> &Frame {
        &self.frames[index.at()]
    }

    /// The function of a stack's innermost frame.
    pub fn function_of(&self, stack: StackIndex) -> FunctionIndex {
        self.frame(self.stacks[stack.at()].frame).function
    }

    /// The name of a function.
    pub fn name_of(&self, index: FunctionIndex) -> &str {
        self.strings.get(self.function(index).name)
    }

    /// The file or module of a function; empty when not known.
    pub fn file_of(&self, index: FunctionIndex) -> &str {
        self.function(index)
            .file
            .map_or("", |file| self.strings.get(file))
    }

    /// A function as it would be interned.
    pub fn spec_of(&self, index: FunctionIndex) -> FunctionSpec<'_> {
        let function = self.function(index);
        FunctionSpec {
            name: self.name_of(index),
            file: self.file_of(index),
            line: function.line,
            column: function.column,
            category: function.category,
        }
    }

    /// Where a function is, as `file:line:column`, `file:line` or the module; empty when not known.
    pub fn location_of(&self, index: FunctionIndex) -> String {
        let function = self.function(index);
        let file = self.file_of(index);
        match (function.line, function.column) {
            (0, _) => file.to_owned(),
            (line, 0) => format!("{file}:{line}"),
            (line, column) => format!("{file}:{line}:{column}"),
        }
    }

    /// The frames of a stack from the leaf to the root.
    pub fn frames_of(&self, stack: StackIndex) -> impl Iterator<Item = FrameIndex> + '_ {
        let mut next = Some(stack);
        std::iter::from_fn(move || {
            let stack = self.stacks[next?.at()];
            next = stack.parent;
            Some(stack.frame)
        })
    }

    /// The sum of all weights. The profile has one event: weights of two are never added.
    pub fn total_weight(&self) -> u64 {
        self.assert_one_event();
        self.samples
            .iter()
            .fold(0, |sum, sample| sum.saturating_add(sample.weight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_32_bytes() {
        assert_eq!(size_of::<Sample>(), 32);
    }

    #[test]
    fn every_mark_of_v8_is_split_off_a_name() {
        for (text, tier, name) in [
            ("~sort", Tier::Interpreted, "sort"),
            ("^sort", Tier::Baseline, "sort"),
            ("+sort", Tier::Maglev, "sort"),
            ("*sort", Tier::Optimized, "sort"),
            ("+'sort", Tier::Maglev, "sort"),
            ("o*sort", Tier::Optimized, "sort"),
            ("o+'sort", Tier::Maglev, "sort"),
            ("*", Tier::Optimized, ""),
            ("~ /app/main.js:1:1", Tier::Interpreted, " /app/main.js:1:1"),
        ] {
            assert_eq!(Tier::split_mark(text), (tier, name), "{text}");
        }
    }

    #[test]
    fn a_name_without_a_mark_stays_whole() {
        for name in ["", "sort", "onclick", "o", "o~f", "'sort", "é*"] {
            assert_eq!(Tier::split_mark(name), (Tier::None, name));
        }
    }

    #[test]
    fn what_a_tier_writes_is_read_back() {
        for tier in Tier::ALL {
            assert_eq!(Tier::split_mark(tier.mark()), (tier, ""));
        }
    }
}
