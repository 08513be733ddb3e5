//! A process for tests: memory that is made up, and nothing else.

use nodespy_model::{ImageBytes, ImageRefused, JitFile, Mapping, Origin, Process};

use super::heap::{Heap, HeapCache};
use super::layout::Layout;

/// Memory that is made up.
pub(crate) trait Memory {
    /// Fills `buffer` with the bytes from `address` on; false when there are none.
    fn fill(&self, address: u64, buffer: &mut [u8]) -> bool;
}

/// A process with such memory.
pub(crate) struct StandIn<M>(pub(crate) M);

impl<M: Memory> Origin for StandIn<M> {
    fn read_memory(&self, _: u32, address: u64, buffer: &mut [u8]) -> usize {
        if self.0.fill(address, buffer) {
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
#[derive(Clone)]
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
pub(crate) fn with_heap<T>(memory: &Words, look: impl FnOnce(&mut Heap<'_>) -> T) -> T {
    let layout = node20_layout(Vec::new());
    let origin = StandIn(memory.clone());
    let mut cache = HeapCache::default();
    let mut heap = Heap {
        pid: 1,
        origin: &origin,
        layout: &layout,
        cache: &mut cache,
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
        _ => return None,
    })
}
