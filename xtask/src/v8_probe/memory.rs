//! The memory of the Node that is looked at, object by object.

use nodespy_capture::LiveOrigin;
use nodespy_model::Origin;
use nodespy_symbolize::v8_facts::Exports;

use crate::Failure;

/// No array that is looked at is longer.
const ARRAY_LIMIT: i64 = 4096;

/// Instance types V8 exports.
pub(super) struct Types {
    pub(super) code: u16,
    pub(super) instruction_stream: Option<u16>,
    pub(super) shared: u16,
    pub(super) shared_wrapper: Option<u16>,
    pub(super) bytecode_array: u16,
    pub(super) function: u16,
}

impl Types {
    fn of(exports: &Exports) -> Result<Self, Failure> {
        let find = |name: &str| {
            exports
                .constant(&format!("type_{name}"))
                .and_then(|value| u16::try_from(value).ok())
        };
        let need = |name: &str| find(name).ok_or(format!("it does not export v8dbg_type_{name}"));
        Ok(Self {
            code: need("Code__CODE_TYPE")?,
            instruction_stream: find("InstructionStream__INSTRUCTION_STREAM_TYPE"),
            shared: need("SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE")?,
            shared_wrapper: find("SharedFunctionInfoWrapper__SHARED_FUNCTION_INFO_WRAPPER_TYPE"),
            bytecode_array: need("BytecodeArray__BYTECODE_ARRAY_TYPE")?,
            function: need("JSFunction__JS_FUNCTION_TYPE")?,
        })
    }
}

/// The memory of the process, by object. Pointers carry their tag.
pub(super) struct Memory {
    pid: u32,
    origin: LiveOrigin,
    pub(super) types: Types,
}

impl Memory {
    /// The memory of a process with a V8 that exports this.
    pub(super) fn of(pid: u32, exports: &Exports) -> Result<Self, Failure> {
        Ok(Self {
            pid,
            origin: LiveOrigin::new(),
            types: Types::of(exports)?,
        })
    }

    pub(super) fn read(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        (self.origin.read_memory(self.pid, address, &mut bytes) == length).then_some(bytes)
    }

    pub(super) fn word(&self, address: u64) -> Option<u64> {
        let bytes = self.read(address, 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
    }

    pub(super) fn half(&self, address: u64) -> Option<u32> {
        let bytes = self.read(address, 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().expect("four bytes")))
    }

    pub(super) fn field(&self, object: u64, at: u64) -> Option<u64> {
        (object & 1 == 1).then(|| self.word((object & !3) + at))?
    }

    pub(super) fn type_of(&self, object: u64) -> Option<u16> {
        let map = self.field(object, 0)?;
        let meta = self.field(map, 0)?;
        // Only a map has a map whose map is itself.
        if self.field(meta, 0)? != meta {
            return None;
        }
        let bytes = self.read((map & !3) + 12, 2)?;
        Some(u16::from_ne_bytes(bytes.try_into().expect("two bytes")))
    }

    pub(super) fn is(&self, object: u64, kind: u16) -> bool {
        self.type_of(object) == Some(kind)
    }

    pub(super) fn length(&self, array: u64) -> Option<i64> {
        self.type_of(array)?;
        let length = self.field(array, 8)?;
        let length = (length & 0xffff_ffff == 0).then_some((length as i64) >> 32)?;
        (0..=ARRAY_LIMIT).contains(&length).then_some(length)
    }

    pub(super) fn elements(&self, array: u64) -> Vec<u64> {
        let length = self.length(array).unwrap_or(0) as u64;
        (0..length)
            .map_while(|index| self.field(array, 16 + index * 8))
            .collect()
    }

    pub(super) fn bytes(&self, array: u64) -> Option<Vec<u8>> {
        let length = self.length(array)?;
        self.read((array & !3) + 16, length as usize)
    }

    /// Whether this is the function, or wraps it.
    pub(super) fn is_shared(&self, object: u64, shared: u64) -> bool {
        let object = object & !2;
        object == shared
            || (self.types.shared_wrapper.is_some()
                && self.type_of(object) == self.types.shared_wrapper
                && self.field(object, 8) == Some(shared))
    }

    /// The first `Code` that can be reached from an object in a few steps.
    pub(super) fn reach_code(&self, object: u64, steps: u32) -> Option<u64> {
        let fields: Vec<u64> = (1..16)
            .filter_map(|slot| self.field(object, slot * 8))
            .filter(|&field| field & 3 == 1 && self.type_of(field).is_some())
            .collect();
        let found = fields
            .iter()
            .copied()
            .find(|&field| self.is(field, self.types.code));
        found.or_else(|| {
            let steps = steps.checked_sub(1)?;
            fields
                .iter()
                .find_map(|&field| self.reach_code(field, steps))
        })
    }
}
