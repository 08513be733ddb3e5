//! JavaScript frames of a running V8, read from outside: no flag, no signal, no stop.
//!
//! The unwinder hands over, for each frame without unwind tables, the words V8 keeps below the
//! frame pointer. From them, from the heap and from the code objects this module finds the
//! functions: interpreted, baseline and optimized, with those inlined into them, each with tier
//! and current line. Design and evidence: docs/decisions/0004-walk-the-heap.md.

use std::rc::Rc;

use nodespy_model::{FastMap, Origin, Registers, Tier};

use crate::frame::{CodeAddress, FrameSlots, Identified, Unwound};
use crate::x86_64::{is_data_address, v8 as registers};
use code::{Code, CodeKind, Codes, Place};
pub(crate) use functions::{FunctionFacts, FunctionId, FunctionKind, Functions};
use heap::{Heap, HeapCache, is_pointer, small_integer};
use known_frames::{FrameKey, KnownFrames};
pub use layout::{CodeStart, Facts, PositionEncoding, ScopeEncoding};
pub(crate) use layout::{FACTS, Layout};
pub(crate) use positions::all_positions;
use recent_code::RecentCode;
use wasm::Wasm;
pub(crate) use wasm_names::parse_any as parse_any_wasm;

mod code;
mod functions;
mod heap;
mod known_frames;
mod layout;
mod maglev;
mod positions;
mod recent_code;
mod scope;
mod scripts;
mod source_text;
#[cfg(test)]
pub(crate) mod stand_in;
mod varint;
mod wasm;
mod wasm_frames;
mod wasm_names;
mod workers;

/// How many words above the stack pointer may hold the return address of a frameless builtin.
const RETURN_ADDRESS_WORDS: u64 = 12;
/// How many words above a regular expression's frame its object is looked for.
const REGEXP_SEARCH_WORDS: u64 = 64;
/// Offset of the source of a `JSRegExp` (seen in V8 9.4 to 14.6; not exported).
const REGEXP_SOURCE: u64 = 32;
/// How many functions are remembered by their bytecode.
const KNOWN_LIMIT: usize = 1 << 20;
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
    pub(crate) is_inlined: bool,
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
    by_bytecode: FastMap<u64, u64>,
    known_frames: KnownFrames,
    recent_code: RecentCode,
    /// Frames of JavaScript seen, and those of them that could be named.
    seen: u64,
    known: u64,
    /// Where the virtual table of workers is.
    worker_table: Option<u64>,
}

/// The sample that is being looked at.
pub(crate) struct SampleView<'a> {
    pub(crate) pid: u32,
    pub(crate) origin: &'a dyn Origin,
    pub(crate) registers: &'a Registers,
    /// The copied stack, from the stack pointer upwards.
    pub(crate) stack: &'a [u8],
}

impl SampleView<'_> {
    fn stack_word(&self, address: u64) -> Option<u64> {
        let inside = address.checked_sub(self.registers.stack_pointer())?;
        let inside = usize::try_from(inside).ok()?;
        let bytes = self.stack.get(inside..inside.checked_add(8)?)?;
        Some(u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
    }
}

/// The frame at a frame pointer, if it is one of JavaScript.
#[derive(Debug, Clone, Copy)]
struct JsSlots {
    /// Its `SharedFunctionInfo`, when the function could be read.
    shared: Option<u64>,
    /// Its `BytecodeArray`, when it runs bytecode.
    bytecode: Option<u64>,
    /// The offset of the bytecode it is at.
    bytecode_offset: Option<u64>,
    /// Whether the function in the frame was read, which tells it without a doubt.
    is_read: bool,
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
            by_bytecode: FastMap::default(),
            known_frames: KnownFrames::default(),
            recent_code: RecentCode::default(),
            seen: 0,
            known: 0,
        }
    }

    /// The same for a process that is a copy of this one.
    pub(crate) fn for_copy(&self) -> Self {
        let mut copy = Self::new(Rc::clone(&self.layout), 0);
        copy.worker_table = self.worker_table;
        copy
    }

    /// The name of the worker that the thread of a sample runs: empty when it has none, nothing
    /// when it runs no worker.
    pub(crate) fn worker_name(&mut self, sample: &SampleView<'_>) -> Option<String> {
        let table = self.worker_table?;
        let mut heap = Heap {
            pid: sample.pid,
            origin: sample.origin,
            layout: &self.layout,
            cache: &mut self.heap,
        };
        workers::worker_name(&mut heap, table, sample.stack)
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
    }

    /// To be called when the frames of all samples so far have their names.
    pub(crate) fn end_slice(&mut self) {
        self.known_frames.start_batch();
        if self.functions.is_large() {
            self.functions = Functions::default();
            self.recent_code = RecentCode::default();
            self.wasm.forget_functions();
        }
    }

    /// Finds out what the frames of a sample are, leaf first.
    pub(crate) fn identify(
        &mut self,
        sample: &SampleView<'_>,
        walked: &[Unwound],
        named: &mut Vec<Identified>,
    ) {
        if self.is_misfit() {
            named.extend(walked.iter().map(|walked| Identified::from(walked.code)));
            return;
        }
        let before = self.functions.script_count();
        self.walk(sample, walked, named);
        // A script seen further down may tell whose bytecode it was.
        let is_unknown = |frame: &Identified| self.is_unknown(*frame);
        if self.functions.script_count() > before && named.iter().any(is_unknown) {
            named.clear();
            self.walk(sample, walked, named);
        }
        for frame in named.iter() {
            self.seen += u64::from(frame.is_js());
            self.known += u64::from(matches!(frame, Identified::Js(_)) && !self.is_unknown(*frame));
        }
    }
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

    fn walk(&mut self, sample: &SampleView<'_>, walked: &[Unwound], named: &mut Vec<Identified>) {
        let mut walk = Walk {
            heap: Heap {
                pid: sample.pid,
                origin: sample.origin,
                layout: &self.layout,
                cache: &mut self.heap,
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
        for (position, frame) in walked.iter().enumerate() {
            walk.frame(frame, position == 0);
        }
    }
}

/// One pass over the frames of a sample.
struct Walk<'a, 'named> {
    heap: Heap<'a>,
    codes: &'a mut Codes,
    wasm: &'a mut Wasm,
    functions: &'a mut Functions,
    by_bytecode: &'a mut FastMap<u64, u64>,
    known_frames: &'a mut KnownFrames,
    recent_code: &'a mut RecentCode,
    sample: &'a SampleView<'a>,
    named: &'named mut Vec<Identified>,
}

impl Walk<'_, '_> {
    fn frame(&mut self, walked: &Unwound, is_leaf: bool) {
        let Some(slots) = &walked.v8 else {
            self.named.push(Identified::from(walked.code));
            return;
        };
        let bytecode = self.bytecode(slots);
        // What is at the leaf depends on registers and on the top of the stack.
        let key = (!is_leaf).then(|| FrameKey {
            frame: walked.code,
            function: slots.function,
            bytecode: bytecode.map(|bytecode| (bytecode, slots.bytecode_offset)),
        });
        let is_js = is_pointer(slots.marker);
        if let Some(key) = key.filter(|_| is_js)
            && let Some(known) = self.known_frames.get(&key)
        {
            self.named.extend_from_slice(known);
            return;
        }
        let before = self.named.len();
        let js = self.js_slots(slots, bytecode);
        self.name_frame(walked.code, slots, js, is_leaf);
        if let CodeAddress::Jit(address) = walked.code {
            self.recall(address, before);
        }
        if let Some(key) = key
            && js.is_some_and(|js| js.is_read)
            && self.named[before..]
                .iter()
                .all(|frame| self.is_settled(*frame))
        {
            self.known_frames.insert(key, &self.named[before..]);
        }
    }

    /// Takes what the code at `address` stood for a moment ago where it can't be named now, or
    /// remembers the frames from `before` on that it stands for.
    fn recall(&mut self, address: u64, before: usize) {
        let frames = &self.named[before..];
        if matches!(frames, [Identified::UnknownJs]) {
            if let Some(known) = self.recent_code.get(address) {
                self.named.truncate(before);
                self.named.extend_from_slice(known);
            }
        } else if frames.iter().all(|frame| self.is_settled(*frame)) {
            self.recent_code.insert(address, frames);
        }
    }

    /// Whether a frame is the same wherever it comes from the same words, in all of the batch.
    fn is_settled(&self, frame: Identified) -> bool {
        match frame {
            Identified::Js(frame) => matches!(
                self.functions.get(frame.function).kind,
                FunctionKind::JavaScript | FunctionKind::Builtin
            ),
            Identified::UnknownJs => false,
            _ => true,
        }
    }

    fn name_frame(
        &mut self,
        frame: CodeAddress,
        slots: &FrameSlots,
        js: Option<JsSlots>,
        is_leaf: bool,
    ) {
        if let CodeAddress::Jit(address) = frame
            && self.wasm_frame(address, slots, js.as_ref(), is_leaf)
        {
            return;
        }
        match (frame, is_leaf) {
            (CodeAddress::Jit(address), true) => self.jit_leaf(frame, address, slots, js),
            (CodeAddress::Jit(address), false) => self.jit_caller(frame, address, slots, js),
            (CodeAddress::Image(..), true) => self.builtin_leaf(frame, slots, js),
            (CodeAddress::Image(..), false) => self.builtin_caller(frame, js),
        }
    }

    /// The bytecode in a frame, where there is any.
    fn bytecode(&mut self, slots: &FrameSlots) -> Option<u64> {
        let object = slots.bytecode_array;
        let heap = &mut self.heap;
        let kind = heap.layout.type_bytecode_array;
        (is_pointer(object)
            && self
                .known_frames
                .is_bytecode(object, || heap.is(object, kind)))
        .then_some(object)
    }

    /// Reads the words of a frame; none when it is not one of JavaScript.
    fn js_slots(&mut self, slots: &FrameSlots, bytecode: Option<u64>) -> Option<JsSlots> {
        let FrameSlots {
            marker,
            function,
            bytecode_offset,
            ..
        } = *slots;
        // A context where other frames have a small number, and a function.
        if !is_pointer(marker) || !is_pointer(function) {
            return None;
        }
        let read = self.shared_of_function(function);
        let shared = read.or_else(|| bytecode.and_then(|_| self.shared_of_feedback(slots)));
        let data = self.heap.layout.bytecode_data;
        let offset = small_integer(bytecode_offset)
            .and_then(|offset| u64::try_from(offset).ok()?.checked_sub(data - 1));
        if shared.is_none() && bytecode.is_none() {
            // The function is dead and its memory may hold anything by now; only code can still
            // tell who this is.
            return Some(JsSlots {
                shared: None,
                bytecode: None,
                bytecode_offset: None,
                is_read: false,
            });
        }
        let shared = match (shared, bytecode) {
            (Some(shared), Some(bytecode)) => {
                self.by_bytecode.insert(bytecode, shared);
                self.functions
                    .learn_bytecode(&mut self.heap, bytecode, shared);
                Some(shared)
            }
            (None, Some(bytecode)) => self.shared_of_bytecode(bytecode),
            (shared, None) => shared,
        };
        Some(JsSlots {
            shared,
            bytecode,
            bytecode_offset: offset.filter(|_| bytecode.is_some()),
            is_read: read.is_some(),
        })
    }

    fn shared_of_function(&mut self, function: u64) -> Option<u64> {
        let function = self.heap.current(function)?;
        let kind = self.heap.type_of(function)?;
        if !self.heap.layout.function_types.contains(&kind) {
            return None;
        }
        let shared = self
            .heap
            .field(function, self.heap.layout.function_shared)?;
        let shared = self.heap.current(shared)?;
        self.heap
            .is(shared, self.heap.layout.type_shared)
            .then_some(shared)
    }

    /// The function whose feedback vector is in a frame. It stays where it is when a young closure
    /// is moved. V8 does not export where in the vector the function is; its type tells.
    fn shared_of_feedback(&mut self, slots: &FrameSlots) -> Option<u64> {
        let kind = self.heap.layout.type_feedback_vector;
        let vector = [slots.bytecode_offset, slots.feedback]
            .into_iter()
            .find(|&word| is_pointer(word) && self.heap.is(word, kind))?;
        (1..8).find_map(|slot| {
            let field = self.heap.field(vector, slot * 8)?;
            self.heap
                .is(field, self.heap.layout.type_shared)
                .then_some(field)
        })
    }

    /// The function with this bytecode: one that was seen with it, if it still has it, or one of
    /// a script that was seen.
    fn shared_of_bytecode(&mut self, bytecode: u64) -> Option<u64> {
        if let Some(&shared) = self.by_bytecode.get(&bytecode)
            && self.has_bytecode(shared, bytecode)
        {
            return Some(shared);
        }
        let shared = self
            .functions
            .shared_with_bytecode(&mut self.heap, bytecode)?;
        self.by_bytecode.insert(bytecode, shared);
        Some(shared)
    }

    fn has_bytecode(&mut self, shared: u64, bytecode: u64) -> bool {
        let heap = &mut self.heap;
        heap.is(shared, heap.layout.type_shared)
            && heap
                .field(shared, heap.layout.shared_data)
                .and_then(|data| code::bytecode_of(heap, data))
                == Some(bytecode)
    }

    fn is_builtin(&mut self, shared: u64) -> bool {
        self.functions
            .of_shared(&mut self.heap, shared)
            .is_some_and(|id| self.functions.get(id).kind == FunctionKind::Builtin)
    }

    fn push_js(&mut self, shared: u64, offset: Option<u32>, tier: Tier, is_inlined: bool) {
        let Some(function) = self.functions.of_shared(&mut self.heap, shared) else {
            self.named.push(Identified::UnknownJs);
            return;
        };
        let (line, column) = offset
            .and_then(|offset| self.functions.place_in(&mut self.heap, function, offset))
            .unwrap_or((0, 0));
        self.named.push(Identified::Js(JsFrame {
            function,
            line,
            column,
            tier,
            is_inlined,
        }));
    }

    fn push_interpreted(&mut self, js: &JsSlots, offset: Option<u64>) {
        let Some(shared) = js.shared else {
            log::trace!("unknown interpreted function: {js:x?}");
            let function = js
                .bytecode
                .and_then(|bytecode| self.functions.placeholder(bytecode));
            self.named
                .push(function.map_or(Identified::UnknownJs, |function| {
                    Identified::Js(JsFrame {
                        function,
                        line: 0,
                        column: 0,
                        tier: Tier::Interpreted,
                        is_inlined: false,
                    })
                }));
            return;
        };
        let place = js
            .bytecode
            .zip(offset.or(js.bytecode_offset))
            .and_then(|(bytecode, offset)| code::bytecode_place(&mut self.heap, bytecode, offset));
        self.push_js(shared, place, Tier::Interpreted, false);
    }

    /// Pushes the functions an instruction of compiled code belongs to.
    fn push_compiled(&mut self, code: &Code, address: u64, js: Option<&JsSlots>) {
        let places = if code.kind == CodeKind::Baseline {
            // Baseline code does not know its function, only its bytecode.
            let shared = js
                .and_then(|js| js.shared)
                .or_else(|| self.shared_of_baseline(code));
            let bytecode = js.and_then(|js| js.bytecode);
            let offset = self
                .codes
                .baseline_place(&mut self.heap, code, address, bytecode);
            shared
                .map(|shared| Place {
                    shared,
                    offset,
                    is_inlined: false,
                })
                .into_iter()
                .collect()
        } else {
            let function = js.and_then(|js| js.shared);
            self.codes.places(&mut self.heap, code, address, function)
        };
        if places.is_empty() {
            log::trace!(
                "unknown {:?} code at {address:x}: {code:x?} {js:x?}",
                code.kind
            );
            self.named.push(Identified::UnknownJs);
            return;
        }
        for place in places {
            self.push_js(
                place.shared,
                place.offset,
                code.kind.tier(),
                place.is_inlined,
            );
        }
    }

    fn shared_of_baseline(&mut self, code: &Code) -> Option<u64> {
        let bytecode = code::baseline_bytecode(&mut self.heap, code)?;
        self.shared_of_bytecode(bytecode)
    }

    /// The function compiled code belongs to, not counting inlined ones.
    fn shared_of_code(&mut self, code: &Code) -> Option<u64> {
        code::code_function(&mut self.heap, code).or_else(|| self.shared_of_baseline(code))
    }

    /// The code at an address, which should belong to the function of its frame.
    fn code_of_frame(&mut self, address: u64, js: Option<&JsSlots>) -> Option<Code> {
        let code = self.codes.find(&mut self.heap, address)?;
        let expected = js.and_then(|js| js.shared);
        let found = code::code_function(&mut self.heap, &code);
        if expected.is_some() && found.is_some() && expected != found {
            return self.codes.find_anew(&mut self.heap, address);
        }
        Some(code)
    }

    fn jit_caller(
        &mut self,
        raw: CodeAddress,
        address: u64,
        slots: &FrameSlots,
        js: Option<JsSlots>,
    ) {
        let FrameSlots {
            marker,
            frame_pointer,
            ..
        } = *slots;
        let code = self.code_of_frame(address, js.as_ref());
        match (code, js) {
            (Some(code), _) if code.kind == CodeKind::RegExp => self.push_regexp(frame_pointer),
            (Some(code), js) if code.kind.tier() != Tier::None => {
                self.push_compiled(&code, address, js.as_ref());
            }
            // A trampoline of its own, as --interpreted-frames-native-stack makes them.
            (_, Some(js)) if js.bytecode.is_some() => self.push_interpreted(&js, None),
            (_, Some(js)) => match js.shared {
                Some(shared) => self.push_js(shared, None, Tier::None, false),
                None => {
                    log::trace!("unknown function at {address:x}, marker {marker:x}");
                    self.named.push(Identified::UnknownJs);
                }
            },
            (Some(code), None) => {
                log::trace!(
                    "code {:x} of kind {:?} with marker {marker:x}",
                    code.start,
                    code.kind
                );
                self.named.push(Identified::from(raw));
            }
            (None, None) => self.push_foreign(raw, slots),
        }
    }

    /// Pushes a regular expression with its source. The code does not tell whose it is, but the
    /// builtin that called it has the object in its frame.
    fn push_regexp(&mut self, frame_pointer: u64) {
        let kind = self.heap.layout.type_regexp;
        let source = (2..REGEXP_SEARCH_WORDS).find_map(|word| {
            let object = self
                .sample
                .stack_word(frame_pointer.checked_add(word * 8)?)?;
            if !is_pointer(object) {
                return None;
            }
            let object = self.heap.current(object)?;
            if !self.heap.is(object, kind) {
                return None;
            }
            let source = self.heap.field(object, REGEXP_SOURCE)?;
            self.heap.string(source)
        });
        let function = self.functions.of_regexp(source.as_deref());
        self.named.push(Identified::Js(JsFrame {
            function,
            line: 0,
            column: 0,
            tier: Tier::None,
            is_inlined: false,
        }));
    }

    /// Code that is no object of the heap: WebAssembly, or nothing of V8's.
    fn push_foreign(&mut self, raw: CodeAddress, slots: &FrameSlots) {
        if self.is_wasm(slots) {
            let function = Wasm::unknown(&mut self.heap, self.functions, slots.function);
            self.push_wasm(function, Tier::None);
        } else {
            self.named.push(Identified::from(raw));
        }
    }

    fn jit_leaf(
        &mut self,
        raw: CodeAddress,
        address: u64,
        slots: &FrameSlots,
        js: Option<JsSlots>,
    ) {
        let Some(code) = self.codes.find(&mut self.heap, address) else {
            return self.jit_caller(raw, address, slots, js);
        };
        if code.kind.tier() == Tier::None {
            return self.jit_caller(raw, address, slots, js);
        }
        let mut own = self.shared_of_code(&code);
        if own.is_none() && address.saturating_sub(code.start) < registers::PROLOGUE_BYTES {
            // Its frame is not set up, but the function is still where its caller has put it.
            own = self.shared_of_function(self.sample.registers.0[registers::FUNCTION]);
        }
        let frame_function = js.and_then(|js| js.shared);
        if own.is_none() || own == frame_function {
            return self.push_compiled(&code, address, js.as_ref());
        }
        // The frame is not set up yet, or taken down already: what is at the frame pointer is the
        // caller's.
        let leaf = JsSlots {
            shared: own,
            bytecode: None,
            bytecode_offset: None,
            is_read: false,
        };
        self.push_compiled(&code, address, Some(&leaf));
        if let Some(js) = js.filter(|js| js.shared.is_some()) {
            self.push_caller_of_frameless(&js, 2, self.sample.registers.frame_pointer());
        }
    }

    /// Pushes the function whose frame is at the frame pointer while a callee without a frame of
    /// its own runs: the return address near the top of the stack tells where in it.
    fn push_caller_of_frameless(&mut self, js: &JsSlots, words: u64, frame_pointer: u64) {
        let start = self.sample.registers.stack_pointer();
        let found = (0..words)
            .map(|word| start.saturating_add(word * 8))
            .take_while(|&slot| slot < frame_pointer)
            .find_map(|slot| {
                let address = self.sample.stack_word(slot)?.checked_sub(1)?;
                if !is_data_address(address) {
                    return None;
                }
                let code = self.codes.find(&mut self.heap, address)?;
                let own = match self.shared_of_code(&code) {
                    // Baseline code may lead to no function, but its frame has bytecode.
                    None if code.kind == CodeKind::Baseline => js.bytecode.and(js.shared)?,
                    own => own?,
                };
                // Where the function is dead its code still tells who this was.
                js.shared
                    .is_none_or(|shared| shared == own)
                    .then_some((code, address))
            });
        match (found, js.shared) {
            (Some((code, address)), _) => self.push_compiled(&code, address, Some(js)),
            (None, _) if js.bytecode.is_some() => self.push_interpreted(js, None),
            (None, Some(shared)) => self.push_js(shared, None, Tier::None, false),
            // No code leads here, so this is the frame of the builtin itself, called as a closure
            // that is dead by now, like those promises use.
            (None, None) => {}
        }
    }

    fn builtin_leaf(&mut self, raw: CodeAddress, slots: &FrameSlots, js: Option<JsSlots>) {
        self.named.push(Identified::from(raw));
        if self.wasm.is_in_use() && self.liftoff_setup(slots, js.as_ref()) {
            return;
        }
        let Some(js) = js else {
            return self.push_wasm_caller(0..RETURN_ADDRESS_WORDS, slots);
        };
        if js.shared.is_some_and(|shared| self.is_builtin(shared)) {
            // The builtin's own frame: the next one is its caller's.
            return;
        }
        let registers = &self.sample.registers.0;
        if let Some(bytecode) = js.bytecode
            && bytecode == registers[registers::BYTECODE_ARRAY]
        {
            // In a bytecode handler the offset in the frame is stale; the register has it, unless
            // what the handler has called uses the register for itself: then the frame has it.
            let data = self.heap.layout.bytecode_data;
            let offset = registers[registers::BYTECODE_OFFSET]
                .checked_sub(data - 1)
                .filter(|&offset| code::has_bytecode_at(&mut self.heap, bytecode, offset));
            return self.push_interpreted(&js, offset);
        }
        self.push_caller_of_frameless(&js, RETURN_ADDRESS_WORDS, slots.frame_pointer);
    }

    fn builtin_caller(&mut self, raw: CodeAddress, js: Option<JsSlots>) {
        match js {
            Some(js) if js.bytecode.is_some() => self.push_interpreted(&js, None),
            Some(js) => match js.shared {
                Some(shared) if !self.is_builtin(shared) => {
                    self.push_js(shared, None, Tier::None, false);
                }
                _ => self.named.push(Identified::from(raw)),
            },
            None => self.named.push(Identified::from(raw)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
                262, 261, 167, 245, 252, 191, 2066, 0, 1, 3, 5, 249, 2131, 159, 2156,
            ][(state >> 16) as usize % 15]
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
                            // Every fourth claims to be WebAssembly.
                            marker: if frame % 4 == 0 { 8 } else { at(frame) },
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
                let sample = SampleView {
                    pid: 1,
                    origin: &origin,
                    registers: &registers,
                    stack: &stack,
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
