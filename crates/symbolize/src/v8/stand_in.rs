//! A process for tests and fuzzing: memory that is made up, and nothing else.

use nodespy_model::{ImageBytes, ImageRefused, JitFile, Mapping, Origin, Process};

use super::heap::{Heap, HeapCache};
use super::layout::Layout;

/// Memory that is made up.
pub(crate) trait Memory {
    /// Fills `buffer` with the bytes from `address` on; false when there are none.
    fn fill(&self, address: u64, buffer: &mut [u8]) -> bool;
}

/// The pid of a process that has ended: its memory can't be read.
pub(crate) const ENDED: u32 = 9;

/// A process with such memory.
pub(crate) struct StandIn<M>(pub(crate) M);

impl<M: Memory> Origin for StandIn<M> {
    fn read_memory(&self, pid: u32, address: u64, buffer: &mut [u8]) -> usize {
        if pid != ENDED && self.0.fill(address, buffer) {
            buffer.len()
        } else {
            0
        }
    }

    fn open_image(&self, _: &Mapping) -> Result<ImageBytes, ImageRefused> {
        unreachable!("the heap walk opens no files")
    }

    fn open_debug_file(&self, _: u32, _: &[u8]) -> Option<std::fs::File> {
        None
    }

    fn open_jit_file(&self, _: u32, _: Option<&Mapping>) -> Option<JitFile> {
        None
    }

    fn describe(&self, _: u32) -> Option<Process> {
        None
    }
}

/// Memory that is written word by word. Its first object is the map of maps.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    base: u64,
    pub(crate) bytes: Vec<u8>,
    next_map: u64,
}

impl Words {
    /// So many bytes of nothing from `base` on. Maps take the first of them.
    pub(crate) fn new(base: u64, size: usize) -> Self {
        let mut words = Self {
            base,
            bytes: vec![0; size],
            next_map: base + 0x40,
        };
        words.put(base, base | 1);
        words
    }

    pub(crate) fn put(&mut self, address: u64, word: u64) {
        self.put_bytes(address, &word.to_ne_bytes());
    }

    pub(crate) fn put_bytes(&mut self, address: u64, bytes: &[u8]) {
        let at = (address - self.base) as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Starts an object of this type; returns the pointer to it.
    pub(crate) fn object(&mut self, address: u64, kind: u16) -> u64 {
        let map = self.next_map;
        self.next_map += 0x20;
        self.put(map, self.base | 1);
        self.put(map + 8, u64::from(kind) << 32);
        self.put(address, map | 1);
        address | 1
    }
}

impl Memory for Words {
    fn fill(&self, address: u64, buffer: &mut [u8]) -> bool {
        let inside = address.checked_sub(self.base).map(|at| at as usize);
        let bytes = inside.and_then(|at| self.bytes.get(at..at.checked_add(buffer.len())?));
        if let Some(bytes) = bytes {
            buffer.copy_from_slice(bytes);
        }
        bytes.is_some()
    }
}

/// Looks at memory as at the heap of node 20.
pub(crate) fn with_heap<M: Memory + Clone, T>(
    memory: &M,
    look: impl FnOnce(&mut Heap<'_>) -> T,
) -> T {
    with_heap_of(&node20_layout(Vec::new()), memory, look)
}

/// The same with another layout.
pub(crate) fn with_heap_of<M: Memory + Clone, T>(
    layout: &Layout,
    memory: &M,
    look: impl FnOnce(&mut Heap<'_>) -> T,
) -> T {
    let origin = StandIn(memory.clone());
    let mut cache = HeapCache::default();
    let mut heap = Heap {
        pid: 1,
        copy_of: None,
        origin: &origin,
        layout,
        cache: &mut cache,
        copied: Default::default(),
    };
    look(&mut heap)
}

/// The layout of node 20.
pub(crate) fn node20_layout(bytecode_sizes: Vec<u8>) -> Layout {
    Layout::new((11, 3), &node20, bytecode_sizes).expect("the layout of node 20 is known")
}

/// The constants of node 20, as far as they are asked for.
fn node20(name: &str) -> Option<i32> {
    Some(match name {
        "TaggedSize" => 8,
        "type_JSFunction__JS_FUNCTION_TYPE" => 2066,
        "class_JSFunction__shared__SharedFunctionInfo" => 24,
        "class_SharedFunctionInfo__name_or_scope_info__Object" => 16,
        "class_SharedFunctionInfo__script_or_debug_info__HeapObject" => 32,
        "type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE" => 262,
        "type_ScopeInfo__SCOPE_INFO_TYPE" => 261,
        "type_Script__SCRIPT_TYPE" => 167,
        "type_DebugInfo__DEBUG_INFO_TYPE" => 153,
        "type_Code__CODE_TYPE" => 245,
        "type_InstructionStream__INSTRUCTION_STREAM_TYPE" => 252,
        "type_BytecodeArray__BYTECODE_ARRAY_TYPE" => 191,
        "type_InterpreterData__INTERPRETER_DATA_TYPE" => 159,
        "type_JSRegExp__JS_REG_EXP_TYPE" => 2131,
        "type_FeedbackVector__FEEDBACK_VECTOR_TYPE" => 249,
        "FirstNonstringType" => 128,
        "scopeinfo_idx_first_vars" => 3,
        "frametype_WasmFrame" => 4,
        "type_WasmModuleObject__WASM_MODULE_OBJECT_TYPE" => 2156,
        "type_JSPromise__JS_PROMISE_TYPE" => 2063,
        "type_PromiseCapability__PROMISE_CAPABILITY_TYPE" => 161,
        "type_PromiseReaction__PROMISE_REACTION_TYPE" => 163,
        "type_JSAsyncFunctionObject__JS_ASYNC_FUNCTION_OBJECT_TYPE" => 2106,
        "type_JSAsyncGeneratorObject__JS_ASYNC_GENERATOR_OBJECT_TYPE" => 2107,
        "type_AsyncGeneratorRequest__ASYNC_GENERATOR_REQUEST_TYPE" => 148,
        "type_PromiseResolveThenableJobTask__PROMISE_RESOLVE_THENABLE_JOB_TASK_TYPE" => 146,
        "FirstContextType" => 205,
        "LastContextType" => 216,
        "class_JSFunction__context__Context" => 32,
        "frametype_StubFrame" => 18,
        "type_JSObject__JS_OBJECT_TYPE" => 1057,
        "type_Symbol__SYMBOL_TYPE" => 128,
        "type_JSMap__JS_MAP_TYPE" => 2108,
        "type_Oddball__ODDBALL_TYPE" => 131,
        "class_DescriptorArray__header_size__uintptr_t" => 24,
        "prop_location_mask" => 32,
        "prop_index_mask" => 536_346_624,
        "prop_index_shift" => 19,
        "bit_field3_number_of_own_descriptors_mask" => 1_047_552,
        "bit_field3_number_of_own_descriptors_shift" => 10,
        "bit_field3_is_dictionary_map_shift" => 21,
        _ => return None,
    })
}

/// How node 20 numbers kinds of code.
pub(crate) const BASELINE: u64 = 11;
pub(crate) const TURBOFAN: u64 = 13;

/// A function of a [`Program`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Closure {
    /// Its `JSFunction`.
    pub(crate) function: u64,
    /// Its `SharedFunctionInfo`.
    pub(crate) shared: u64,
}

/// The heap of a node 20, object by object.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) memory: Words,
    next: u64,
}

impl Program {
    pub(crate) const BASE: u64 = 0x20_0000;

    pub(crate) fn new() -> Self {
        Self {
            memory: Words::new(Self::BASE, 256 * 1024),
            // Behind the maps.
            next: Self::BASE + 0x8000,
        }
    }

    /// An object of this type with room for some words.
    pub(crate) fn object(&mut self, kind: u16, words: u64) -> u64 {
        let address = self.next;
        self.next += (words * 8).next_multiple_of(16) + 16;
        self.memory.object(address, kind)
    }

    /// Sets the field of an object at an offset.
    pub(crate) fn set(&mut self, object: u64, offset: u64, word: u64) {
        self.memory.put((object & !3) + offset, word);
    }

    /// The field of an object at an offset.
    #[cfg(test)]
    pub(crate) fn word(&self, object: u64, offset: u64) -> u64 {
        let mut bytes = [0; 8];
        assert!(self.memory.fill((object & !3) + offset, &mut bytes));
        u64::from_ne_bytes(bytes)
    }

    pub(crate) fn bytecode(&mut self) -> u64 {
        let bytecode = self.object(191, 16);
        self.set(bytecode, 8, 20 << 32);
        bytecode
    }

    /// A string of Latin letters.
    pub(crate) fn string(&mut self, text: &str) -> u64 {
        let string = self.object(8, 4 + text.len() as u64 / 8);
        self.set(string, 8, (text.len() as u64) << 32);
        self.memory.put_bytes((string & !3) + 16, text.as_bytes());
        string
    }

    /// A function of a file, which has no bytecode.
    pub(crate) fn function_of(&mut self, name: &str, url: &str) -> u64 {
        let function = self.function(name, Self::BASE | 1);
        let script = self.object(167, 16);
        let url = self.string(url);
        self.set(script, 16, url);
        self.set(function.shared, 32, script);
        function.function
    }

    /// An object that a function constructs, with these properties in it.
    pub(crate) fn constructed(&mut self, constructor: u64, properties: &[(&str, u64)]) -> u64 {
        let map = self.object(0, 8);
        self.constructed_with(map, constructor, properties)
    }

    /// The same with this for its map, whatever it was before.
    pub(crate) fn constructed_with(
        &mut self,
        map: u64,
        constructor: u64,
        properties: &[(&str, u64)],
    ) -> u64 {
        let count = properties.len() as u64;
        let object = self.object(1057, 3 + count);
        let descriptors = self.object(241, 3 + 3 * count);
        self.set(map, 0, Self::BASE | 1);
        self.set(map, 8, (3 + count) | 3 << 8 | 1057 << 32);
        self.set(map, 16, count << 10);
        self.set(map, 32, constructor);
        self.set(map, 40, descriptors);
        self.set(object, 0, map);
        for (position, (name, value)) in (0..).zip(properties) {
            let key = self.string(name);
            self.set(descriptors, 24 + 24 * position, key);
            self.set(descriptors, 32 + 24 * position, position << (32 + 19));
            self.set(object, 8 * (3 + position), *value);
        }
        object
    }

    /// A function whose data is bytecode, code, or the number of a builtin.
    pub(crate) fn function(&mut self, name: &str, data: u64) -> Closure {
        let text = self.string(name);
        let shared = self.object(262, 8);
        self.set(shared, 8, data);
        self.set(shared, 16, text);
        let function = self.object(2066, 8);
        self.set(function, 24, shared);
        Closure { function, shared }
    }

    /// Machine code of this kind; returns where it starts. Its deoptimization data, or bytecode,
    /// is `data`.
    pub(crate) fn code(&mut self, kind: u64, data: u64) -> u64 {
        let positions = self.object(179, 2);
        let code = self.object(245, 10);
        let stream = self.object(252, 0x40);
        let start = (stream & !3) + 16;
        self.set(stream, 8, code);
        for (offset, word) in [
            (16, data),
            (24, positions),
            (40, start),
            (48, kind),
            (56, 0x100),
        ] {
            self.set(code, offset, word);
        }
        start
    }

    /// The deoptimization data of code that was compiled from a function.
    pub(crate) fn deopt_data(&mut self, shared: u64) -> u64 {
        let data = self.object(179, 16);
        self.set(data, 8, 9 << 32);
        self.set(data, 16 + 6 * 8, shared);
        data
    }
}
