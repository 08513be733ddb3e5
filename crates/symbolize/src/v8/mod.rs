//! JavaScript frames of a running V8, read from outside: no flag, no signal, no stop.
//!
//! The unwinder hands over, for each frame without unwind tables, the words V8 keeps below the
//! frame pointer. From them, from the heap and from the code objects this module finds the
//! functions: interpreted, baseline and optimized, with those inlined into them, each with tier
//! and current line. Design and evidence: docs/decisions/0004-walk-the-heap.md.

use std::rc::Rc;

use nodespy_model::{AsyncCallers, CopyRules, FrameKind, Origin, Registers, Tier};

use crate::copied::CopiedMemory;
use crate::frame::{Identified, Unwound};
use crate::route::Route;
use aging::Aging;
use async_callers::Callers;
use async_chain::Chain;
use code::Codes;
pub(crate) use functions::{FunctionFacts, FunctionId, FunctionKind, Functions};
use heap::{Heap, HeapCache};
use known_frames::KnownFrames;
pub use layout::{CodeStart, Facts, PositionEncoding, ScopeEncoding};
pub(crate) use layout::{FACTS, Layout};
pub(crate) use pending::Pending;
pub(crate) use positions::all_positions;
use recent_code::RecentCode;
use requests::Requests;
use shares::Pools;
pub use stores::StoreOptions;
pub(crate) use stores::StoreValues;
use stores::Stores;
use walk::Walk;
use wasm::Wasm;
pub(crate) use wasm_names::parse_any as parse_any_wasm;

mod aging;
mod async_callers;
mod async_chain;
#[cfg(test)]
mod async_chain_tests;
mod async_layout;
pub(crate) mod bytecode_sizes;
mod code;
mod code_tables;
mod dictionary;
mod functions;
mod heap;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod hostile;
mod known_frames;
mod layout;
mod maglev;
mod microtasks;
mod pending;
mod positions;
mod properties;
mod push;
mod recent_code;
mod renderings;
mod request_classes;
mod requests;
#[cfg(test)]
mod requests_tests;
mod sampled;
mod scope;
mod scopes;
mod scripts;
mod shared;
pub(crate) mod shares;
mod source_text;
#[cfg(any(test, feature = "fuzzing"))]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) mod stand_in;
mod store_classes;
mod stores;
#[cfg(test)]
mod stores_tests;
mod texts;
pub(crate) mod unexported;
mod varint;
mod walk;
#[cfg(test)]
mod walk_tests;
mod wasm;
mod wasm_frames;
mod wasm_learn;
mod wasm_names;
mod workers;

/// How many functions are remembered by their bytecode.
const KNOWN_LIMIT: usize = 1 << 20;
/// After how many slices what is known by its address is swept: a minute of a recording.
const SWEEP_SLICES: u32 = 60;
/// How many frames are looked at before a layout is judged, and how many of them must be named.
const JUDGED_AFTER: u64 = 300;
const FITTING_SHARE: f64 = 0.95;

/// A frame of JavaScript, or of WebAssembly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct JsFrame {
    pub(crate) function: FunctionId,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) tier: Tier,
    pub(crate) kind: FrameKind,
}

/// What is known of the V8 in one process.
#[derive(Debug)]
pub(crate) struct V8 {
    pub(crate) layout: Rc<Layout>,
    heap: HeapCache,
    codes: Codes,
    wasm: Wasm,
    pub(crate) functions: Functions,
    /// Functions by their bytecode, learned from frames whose function could be read.
    by_bytecode: Aging<u64, u64>,
    known_frames: KnownFrames,
    recent_code: RecentCode,
    async_callers: Callers,
    requests: Requests,
    stores: Stores,
    /// Frames of JavaScript seen, and those of them that could be named.
    seen: u64,
    known: u64,
    /// Where the virtual table of workers is.
    worker_table: Option<u64>,
    /// How many slices have ended since the last sweep.
    unswept_slices: u32,
}

/// Who has asked for what runs.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// How far its async callers were followed.
    pub(crate) callers: AsyncCallers,
    pub(crate) route: Option<Route>,
    pub(crate) stores: Option<StoreValues>,
}

/// The sample that is being looked at.
pub(crate) struct SampleView<'a> {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// The process that it was forked off, as long as it runs no program of its own.
    pub(crate) copy_of: Option<u32>,
    pub(crate) origin: &'a dyn Origin,
    pub(crate) registers: &'a Registers,
    /// The copied stack, from the stack pointer upwards.
    pub(crate) stack: &'a [u8],
    /// Other memory that was copied.
    pub(crate) copied: CopiedMemory<'a>,
    /// Whether async callers are looked for.
    pub(crate) has_async_callers: bool,
    /// Whether the request is looked for that it runs for.
    pub(crate) has_routes: bool,
    /// What is wanted of the stores of AsyncLocalStorage, if anything.
    pub(crate) stores: Option<&'a StoreOptions>,
}

impl SampleView<'_> {
    fn stack_word(&self, address: u64) -> Option<u64> {
        let inside = address.checked_sub(self.registers.stack_pointer())?;
        let inside = usize::try_from(inside).ok()?;
        match self.stack.get(inside..inside.checked_add(8)?) {
            Some(bytes) => Some(u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))),
            None => self.copied.word(address),
        }
    }
}

impl V8 {
    /// `bias` is how far from where it was linked to the image is loaded.
    pub(crate) fn new(layout: Rc<Layout>, bias: u64) -> Self {
        Self {
            worker_table: layout.worker_table.map(|linked| linked.wrapping_add(bias)),
            layout,
            heap: HeapCache::default(),
            codes: Codes::default(),
            wasm: Wasm::default(),
            functions: Functions::default(),
            by_bytecode: Aging::default(),
            known_frames: KnownFrames::default(),
            recent_code: RecentCode::default(),
            async_callers: Callers::default(),
            requests: Requests::default(),
            stores: Stores::default(),
            seen: 0,
            known: 0,
            unswept_slices: 0,
        }
    }

    /// The same with what others share.
    pub(crate) fn within(mut self, pools: &Pools) -> Self {
        self.functions = Functions::new(pools);
        self
    }

    /// The same for a process that is a copy of this one.
    pub(crate) fn for_copy(&self) -> Self {
        let mut copy = Self::new(Rc::clone(&self.layout), 0);
        copy.functions = self.functions.of_another();
        copy.worker_table = self.worker_table;
        copy
    }

    /// The name of the worker that the thread of a sample runs: empty when it has none, nothing
    /// when it runs no worker.
    pub(crate) fn worker_name(&mut self, sample: &SampleView<'_>) -> Option<String> {
        let table = self.worker_table?;
        let mut heap = Heap {
            pid: sample.pid,
            copy_of: sample.copy_of,
            origin: sample.origin,
            layout: &self.layout,
            cache: &mut self.heap,
            copied: sample.copied,
        };
        // The worker is far up the stack, which stays as it is while the thread lives.
        let start = sample.registers.stack_pointer();
        match sample.stack.len() < workers::STACK_BYTES {
            true => workers::worker_name(&mut heap, table, &live_stack(sample, start)),
            false => workers::worker_name(&mut heap, table, sample.stack),
        }
    }

    /// Whether a guessed layout turned out not to fit this process. That of a known version is never
    /// given up: every object is checked for its type, and a V8 that is starting or read late has
    /// many frames that can't be named yet.
    pub(crate) fn is_misfit(&self) -> bool {
        self.is_guess()
            && self.seen >= JUDGED_AFTER
            && (self.known as f64) < self.seen as f64 * FITTING_SHARE
    }

    /// Whether this version of V8 has no row in the table, so that the nearest one stands in.
    fn is_guess(&self) -> bool {
        self.layout.version != self.layout.nearest
    }

    /// What the reader should know of the layout: that it was a guess, and how well it fits.
    pub(crate) fn remark(&self) -> Option<String> {
        let (major, minor) = self.layout.version;
        let (near_major, near_minor) = self.layout.nearest;
        let share = self.known as f64 * 100.0 / self.seen.max(1) as f64;
        if self.is_misfit() {
            return Some(format!(
                "V8 {major}.{minor} is laid out in a way nodespy does not know (the table of \
                 {near_major}.{near_minor} named {share:.0} % of {} frames), so its heap was not \
                 used for names; start node with --perf-basic-prof for JavaScript names",
                self.seen
            ));
        }
        (self.is_guess() && self.seen > 0).then(|| {
            format!(
                "V8 {major}.{minor} is not in nodespy's tables; that of {near_major}.{near_minor} \
                 was tried and named {share:.1} % of its JavaScript frames"
            )
        })
    }

    /// To be called before each batch of samples: memory is read anew.
    pub(crate) fn start_batch(&mut self) {
        if self.by_bytecode.len() >= KNOWN_LIMIT {
            self.by_bytecode.clear();
        }
        self.heap.start_batch();
        self.codes.start_batch();
        self.functions.start_batch();
        self.wasm.start_batch();
        self.known_frames.start_batch();
        self.recent_code.start_batch();
        self.async_callers.start_batch();
        self.requests.start_batch();
        self.stores.start_batch();
    }

    /// To be called when the frames of all samples so far have their names.
    pub(crate) fn end_slice(&mut self) {
        self.heap.end_slice();
        self.known_frames.end_slice();
        self.codes.end_slice();
        self.functions.end_slice();
        if self.functions.is_large() {
            self.functions.forget_all();
            self.recent_code = RecentCode::default();
            self.async_callers = Callers::default();
            self.wasm.forget_functions();
        }
        self.unswept_slices += 1;
        if self.unswept_slices >= SWEEP_SLICES {
            self.unswept_slices = 0;
            self.sweep();
        }
    }

    /// Forgets functions and code that were not seen since the last sweep, such as those of workers that
    /// have ended. What is still there is read again when it is next seen.
    fn sweep(&mut self) {
        self.by_bytecode.sweep();
        self.requests.sweep();
        self.stores.sweep();
        self.codes.sweep();
        self.functions.sweep();
    }

    /// What is to be copied of objects at samples from now on.
    pub(crate) fn take_copy_rules(&mut self) -> CopyRules {
        let mut rules = self.stores.take_rules();
        rules.append(self.requests.take_rules());
        rules
    }

    /// Finds out what the frames of a sample are, leaf first, and what they run for.
    pub(crate) fn identify(
        &mut self,
        sample: &SampleView<'_>,
        walked: &[Unwound],
        named: &mut Vec<Identified>,
    ) -> Asked {
        if self.is_misfit() {
            named.extend(walked.iter().map(|walked| Identified::from(walked.code)));
            return Asked::default();
        }
        let before = self.functions.script_count();
        let mut followed = self.walk(sample, walked, named);
        // A script seen further down may tell whose bytecode it was.
        let is_unknown = |frame: &Identified| self.is_unknown(*frame);
        if self.functions.script_count() > before && named.iter().any(is_unknown) {
            named.clear();
            followed = self.walk(sample, walked, named);
        }
        for frame in named.iter() {
            self.seen += u64::from(frame.is_js());
            self.known += u64::from(matches!(frame, Identified::Js(_)) && !self.is_unknown(*frame));
        }
        followed
    }
}

impl V8 {
    /// The suspended async functions of a process; none where they can't be told from other objects.
    pub(crate) fn pending(
        &mut self,
        (pid, copy_of): (u32, Option<u32>),
        origin: &dyn Origin,
    ) -> Option<Pending> {
        if self.is_misfit() {
            return None;
        }
        self.start_batch();
        let mut heap = Heap {
            pid,
            copy_of,
            origin,
            layout: &self.layout,
            cache: &mut self.heap,
            copied: CopiedMemory::default(),
        };
        pending::find(&mut heap, &mut self.functions, &origin.data_ranges(pid))
    }
}

/// The stack of a thread as it is now.
fn live_stack(sample: &SampleView<'_>, start: u64) -> Vec<u8> {
    let mut bytes = vec![0; workers::STACK_BYTES];
    let read = sample.origin.read_memory(sample.pid, start, &mut bytes);
    bytes.truncate(read);
    bytes
}

impl V8 {
    /// Whether this is JavaScript without a name, so far.
    fn is_unknown(&self, frame: Identified) -> bool {
        match frame {
            Identified::Js(frame) => self.functions.is_placeholder(frame.function),
            Identified::UnknownJs => true,
            _ => false,
        }
    }

    fn walk(
        &mut self,
        sample: &SampleView<'_>,
        walked: &[Unwound],
        named: &mut Vec<Identified>,
    ) -> Asked {
        let mut walk = Walk {
            heap: Heap {
                pid: sample.pid,
                copy_of: sample.copy_of,
                origin: sample.origin,
                layout: &self.layout,
                cache: &mut self.heap,
                copied: sample.copied,
            },
            codes: &mut self.codes,
            wasm: &mut self.wasm,
            functions: &mut self.functions,
            by_bytecode: &mut self.by_bytecode,
            known_frames: &mut self.known_frames,
            recent_code: &mut self.recent_code,
            sample,
            named,
        };
        let chain = match sample.has_async_callers || sample.has_routes {
            true => async_chain::find(&mut walk.heap, walked, &|address| {
                sample.stack_word(address)
            }),
            false => None,
        };
        let route = match sample.has_routes {
            true => requests::Search {
                heap: &mut walk.heap,
                functions: walk.functions,
                sample,
                known: &mut self.requests,
            }
            .route(walked, chain.as_ref()),
            false => None,
        };
        let stores = sample.stores.and_then(|options| {
            let mut search = stores::Search {
                heap: &mut walk.heap,
                functions: walk.functions,
                sample,
                known: &mut self.stores,
                options,
            };
            search.values(walked)
        });
        let chain = chain.filter(|_| sample.has_async_callers);
        for (position, frame) in walked.iter().enumerate() {
            walk.frame(frame, position == 0);
            if let Some(chain) = chain.as_ref().filter(|chain| chain.after == position) {
                walk.push_async_callers(&mut self.async_callers, chain);
            }
        }
        Asked {
            callers: chain.as_ref().map(Chain::counted).unwrap_or_default(),
            route,
            stores,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{CodeAddress, FrameSlots};
    use stand_in::{Memory, StandIn, node20_layout};

    /// A process whose memory is made of pointers into itself: every object has a map, most maps
    /// are maps, types and lengths are whatever comes.
    struct Hostile {
        seed: u64,
    }

    const BASE: u64 = 0x10_0000;
    const SIZE: u64 = 1 << 16;

    impl Hostile {
        fn word(&self, address: u64) -> u64 {
            let mut state = (address / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.seed;
            state ^= state >> 29;
            state = state.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            state ^= state >> 32;
            match state % 8 {
                // The map of maps, which is its own map.
                0..=2 => BASE | 1,
                3 | 4 => (BASE + (state >> 8) % SIZE) & !7 | 1,
                5 => (state >> 8 & 0xff) << 32,
                6 => u64::from(self.type_at(state)) << 32,
                _ => state,
            }
        }

        fn type_at(&self, state: u64) -> u16 {
            [
                262, 261, 167, 245, 252, 191, 2066, 0, 1, 3, 5, 249, 2131, 159, 2156, 2063, 161,
                163, 2106, 2107, 2105, 148, 205, 206,
            ][(state >> 16) as usize % 24]
        }
    }

    impl Memory for Hostile {
        fn fill(&self, address: u64, buffer: &mut [u8]) -> bool {
            if !(BASE - SIZE..=BASE + 4 * SIZE).contains(&address) {
                return false;
            }
            for (position, byte) in buffer.iter_mut().enumerate() {
                let at = address + position as u64;
                let word = if at & !7 == BASE {
                    BASE | 1
                } else {
                    self.word(at & !7)
                };
                *byte = word.to_ne_bytes()[(at % 8) as usize];
            }
            true
        }
    }

    #[test]
    fn memory_that_lies_costs_neither_a_crash_nor_much_time() {
        for seed in 0..8 {
            let origin = StandIn(Hostile { seed });
            let mut v8 = V8::new(Rc::new(node20_layout(vec![1; 3 * 180])), 0);
            for round in 0..3u64 {
                v8.start_batch();
                let at =
                    |offset: u64| (BASE + (seed * 811 + round * 4099 + offset * 8) % SIZE) & !7 | 1;
                let walked: Vec<Unwound> = (0..20)
                    .map(|frame| Unwound {
                        code: CodeAddress::Jit(BASE + frame * 1021 % SIZE),
                        v8: Some(FrameSlots {
                            frame_pointer: 0x7000_0000 + frame * 64,
                            // Some claim to be WebAssembly, some a stub, some the entry to V8.
                            marker: match frame % 8 {
                                0 => 8,
                                3 | 4 => 36,
                                5 => 2,
                                _ => at(frame),
                            },
                            function: at(frame * 3),
                            bytecode_array: at(frame * 5),
                            bytecode_offset: at(frame * 7),
                            feedback: at(frame * 11),
                        }),
                    })
                    .collect();
                let mut registers = Registers::default();
                registers.0[Registers::STACK_POINTER] = 0x7000_0000;
                let stack: Vec<u8> = (0..2048u64)
                    .flat_map(|word| origin.0.word(word * 8).to_ne_bytes())
                    .collect();
                let stores = StoreOptions {
                    traces: true,
                    keys: vec!["tenant".to_owned()],
                };
                registers.0[13] = BASE + 128 + 8 * (seed + round);
                let sample = SampleView {
                    pid: 1,
                    tid: 1,
                    copy_of: None,
                    origin: &origin,
                    registers: &registers,
                    stack: &stack,
                    copied: CopiedMemory::default(),
                    has_async_callers: true,
                    has_routes: true,
                    stores: Some(&stores),
                };
                let mut named = Vec::new();
                v8.identify(&sample, &walked, &mut named);
                assert!(named.len() >= walked.len());
            }
        }
    }

    #[test]
    fn a_guessed_layout_that_leaves_one_frame_in_twenty_unnamed_is_not_trusted() {
        let judged = |version, seen, known| {
            let mut layout = node20_layout(Vec::new());
            layout.version = version;
            let mut v8 = V8::new(Rc::new(layout), 0);
            (v8.seen, v8.known) = (seen, known);
            v8.is_misfit()
        };
        let unknown = (99, 1);
        assert!(!judged(unknown, JUDGED_AFTER - 1, 0));
        assert!(!judged(unknown, 1000, 950));
        assert!(judged(unknown, 1000, 949));
        let known = node20_layout(Vec::new()).nearest;
        assert!(!judged(known, 1000, 0));
    }

    #[test]
    fn pointer_compression_is_refused_with_a_sentence() {
        let refused = Layout::new(
            (14, 6),
            &|name| (name == "TaggedSize").then_some(4),
            Vec::new(),
        );
        assert!(refused.unwrap_err().contains("pointer compression"));
    }
}
