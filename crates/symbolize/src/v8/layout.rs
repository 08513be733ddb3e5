//! Where things are in V8's objects, per version.
//!
//! Most of it V8 exports itself, as `v8dbg_*` constants in the dynamic symbol table, which
//! survives `strip`. What it does not export is in [`FACTS`], one row per V8 version, found with
//! `cargo run -p xtask -- v8-probe` and checked against every Node major in CI. All offsets are from
//! the untagged address of an object.

use super::async_layout::AsyncLayout;
use super::properties::PropertyLayout;

/// How code offsets are written in source position tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PositionEncoding {
    /// Zigzag, negative for expressions (until 13.x).
    Signed,
    /// Two flag bits, then the delta (14.1 and later).
    Flagged,
}

/// How a `ScopeInfo` is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScopeEncoding {
    /// The names of all variables are in it, and the receiver may have a slot (9.x).
    Listed,
    /// Many names are in a hash table (10.x and later).
    Hashed,
}

/// Where machine code is, relative to its `Code` object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeStart {
    /// Inside the object, which lies in executable memory (until 10.x).
    Inline(u64),
    /// Behind a pointer at this offset; the machine code's own object, an `InstructionStream`,
    /// has it at `header` and points back to the `Code` at 8.
    Pointer {
        /// Where in the `Code` the pointer is.
        at: u64,
        /// Where in the `InstructionStream` the machine code is.
        header: u64,
    },
}

/// What V8 does not export, per version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Major and minor version of V8.
    pub version: (u32, u32),
    /// Who ships it, for `nodespy --version`.
    pub runtime: &'static str,
    /// Where the machine code of a `Code` is.
    pub code_start: CodeStart,
    /// Its deoptimization data; in baseline code the bytecode.
    pub code_deopt: u64,
    /// Its source position table.
    pub code_positions: u64,
    /// Its flags, the lowest four bits of which are its kind.
    pub code_flags: u64,
    /// How many bytes of machine code it has.
    pub code_size: u64,
    /// The kind of a regular expression's code.
    pub kind_regexp: u32,
    /// The kind of baseline code.
    pub kind_baseline: u32,
    /// The kind of Maglev's code. Zero where there is no Maglev.
    pub kind_maglev: u32,
    /// The kind of TurboFan's code.
    pub kind_turbofan: u32,
    /// The source position table of a `BytecodeArray`.
    pub bytecode_positions: u64,
    /// Its first bytecode.
    pub bytecode_data: u64,
    /// The number of the bytecode that jumps back to the start of a loop.
    pub bytecode_loop: u8,
    /// Position of the literals in deoptimization data.
    pub deopt_literals: u64,
    /// Position of the function that was compiled.
    pub deopt_function: u64,
    /// Position of the table of inlined functions.
    pub deopt_inlining: u64,
    /// How source position tables are written.
    pub positions: PositionEncoding,
    /// How many instance types after JSFunction's are functions too.
    pub function_types: u16,
    /// Where a `Script` has what its `//# sourceURL=` comment says.
    pub script_source_url: u64,
    /// Whether baseline code hangs on a function by an object of its own, `BaselineData`.
    pub has_baseline_data: bool,
    /// How a `ScopeInfo` is laid out.
    pub scope: ScopeEncoding,
    /// How many bits the kind of a `WasmCode` takes, before those of its tier.
    pub wasm_kind_bits: u32,
}

/// One row per V8 version, checked on node 16.20.2, 18.20.8, 20.20.2, 22.23.3, 24.21.0, 25.9.0
/// and 26.10.0, and Deno 2.9.6.
pub(crate) static FACTS: &[Facts] = &[
    Facts {
        version: (9, 4),
        runtime: "Node.js 16",
        code_start: CodeStart::Inline(96),
        code_deopt: 16,
        code_positions: 24,
        code_flags: 48,
        code_size: 40,
        kind_regexp: 3,
        kind_baseline: 11,
        kind_maglev: 0,
        kind_turbofan: 13,
        bytecode_positions: 32,
        bytecode_data: 54,
        bytecode_loop: 136,
        deopt_literals: 2,
        deopt_function: 6,
        deopt_inlining: 7,
        positions: PositionEncoding::Signed,
        function_types: 14,
        script_source_url: 104,
        has_baseline_data: true,
        scope: ScopeEncoding::Listed,
        wasm_kind_bits: 3,
    },
    Facts {
        version: (10, 2),
        runtime: "Node.js 18",
        code_start: CodeStart::Inline(128),
        code_deopt: 16,
        code_positions: 24,
        code_flags: 48,
        code_size: 40,
        kind_regexp: 3,
        kind_baseline: 11,
        kind_maglev: 0,
        kind_turbofan: 13,
        bytecode_positions: 32,
        bytecode_data: 56,
        bytecode_loop: 137,
        deopt_literals: 2,
        deopt_function: 6,
        deopt_inlining: 7,
        positions: PositionEncoding::Signed,
        function_types: 15,
        script_source_url: 104,
        has_baseline_data: false,
        scope: ScopeEncoding::Hashed,
        wasm_kind_bits: 2,
    },
    Facts {
        version: (11, 3),
        runtime: "Node.js 20",
        code_start: CodeStart::Pointer { at: 40, header: 16 },
        code_deopt: 16,
        code_positions: 24,
        code_flags: 48,
        code_size: 56,
        kind_regexp: 3,
        kind_baseline: 11,
        kind_maglev: 12,
        kind_turbofan: 13,
        bytecode_positions: 32,
        bytecode_data: 54,
        bytecode_loop: 137,
        deopt_literals: 2,
        deopt_function: 6,
        deopt_inlining: 7,
        positions: PositionEncoding::Signed,
        function_types: 15,
        script_source_url: 112,
        has_baseline_data: false,
        scope: ScopeEncoding::Hashed,
        wasm_kind_bits: 2,
    },
    Facts {
        version: (12, 4),
        runtime: "Node.js 22",
        code_start: CodeStart::Pointer { at: 40, header: 32 },
        code_deopt: 8,
        code_positions: 16,
        code_flags: 48,
        code_size: 52,
        kind_regexp: 3,
        kind_baseline: 10,
        kind_maglev: 11,
        kind_turbofan: 12,
        bytecode_positions: 24,
        bytecode_data: 64,
        bytecode_loop: 142,
        deopt_literals: 2,
        deopt_function: 6,
        deopt_inlining: 7,
        positions: PositionEncoding::Signed,
        function_types: 16,
        script_source_url: 112,
        has_baseline_data: false,
        scope: ScopeEncoding::Hashed,
        wasm_kind_bits: 2,
    },
    Facts {
        version: (13, 6),
        runtime: "Node.js 24",
        code_start: CodeStart::Pointer { at: 40, header: 32 },
        code_deopt: 8,
        code_positions: 16,
        code_flags: 52,
        code_size: 56,
        kind_regexp: 3,
        kind_baseline: 10,
        kind_maglev: 11,
        kind_turbofan: 12,
        bytecode_positions: 24,
        bytecode_data: 64,
        bytecode_loop: 146,
        deopt_literals: 3,
        deopt_function: 7,
        deopt_inlining: 8,
        positions: PositionEncoding::Signed,
        function_types: 16,
        script_source_url: 112,
        has_baseline_data: false,
        scope: ScopeEncoding::Hashed,
        wasm_kind_bits: 2,
    },
    Facts {
        version: (14, 1),
        runtime: "Node.js 25",
        code_start: CodeStart::Pointer { at: 40, header: 32 },
        code_deopt: 8,
        code_positions: 16,
        code_flags: 52,
        code_size: 56,
        kind_regexp: 3,
        kind_baseline: 10,
        kind_maglev: 11,
        kind_turbofan: 12,
        bytecode_positions: 24,
        bytecode_data: 64,
        bytecode_loop: 149,
        deopt_literals: 3,
        deopt_function: 7,
        deopt_inlining: 8,
        positions: PositionEncoding::Flagged,
        function_types: 16,
        script_source_url: 112,
        has_baseline_data: false,
        scope: ScopeEncoding::Hashed,
        wasm_kind_bits: 2,
    },
    Facts {
        version: (14, 6),
        runtime: "Node.js 26",
        code_start: CodeStart::Pointer { at: 40, header: 32 },
        code_deopt: 8,
        code_positions: 16,
        code_flags: 52,
        code_size: 56,
        kind_regexp: 4,
        kind_baseline: 11,
        kind_maglev: 12,
        kind_turbofan: 13,
        bytecode_positions: 24,
        bytecode_data: 64,
        bytecode_loop: 149,
        deopt_literals: 3,
        deopt_function: 7,
        deopt_inlining: 8,
        positions: PositionEncoding::Flagged,
        function_types: 16,
        script_source_url: 112,
        has_baseline_data: false,
        scope: ScopeEncoding::Hashed,
        wasm_kind_bits: 3,
    },
    Facts {
        version: (15, 0),
        runtime: "Deno 2",
        code_start: CodeStart::Pointer { at: 40, header: 32 },
        code_deopt: 8,
        code_positions: 16,
        code_flags: 52,
        code_size: 56,
        kind_regexp: 4,
        kind_baseline: 11,
        kind_maglev: 12,
        kind_turbofan: 13,
        bytecode_positions: 24,
        bytecode_data: 64,
        bytecode_loop: 151,
        deopt_literals: 3,
        deopt_function: 7,
        deopt_inlining: 8,
        positions: PositionEncoding::Flagged,
        function_types: 16,
        script_source_url: 112,
        has_baseline_data: false,
        scope: ScopeEncoding::Hashed,
        wasm_kind_bits: 3,
    },
];

/// Where things are in V8's objects.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) version: (u32, u32),
    /// The version whose row of the table was used.
    pub(crate) nearest: (u32, u32),
    pub(crate) function_shared: u64,
    pub(crate) function_types: std::ops::RangeInclusive<u16>,
    pub(crate) shared_data: u64,
    pub(crate) shared_name: u64,
    pub(crate) shared_script: u64,
    pub(crate) type_shared: u16,
    pub(crate) type_shared_wrapper: Option<u16>,
    pub(crate) type_scope_info: u16,
    pub(crate) type_script: u16,
    pub(crate) type_debug_info: u16,
    pub(crate) type_code: u16,
    pub(crate) type_instruction_stream: Option<u16>,
    pub(crate) type_bytecode_array: u16,
    pub(crate) type_interpreter_data: u16,
    pub(crate) type_regexp: u16,
    pub(crate) type_feedback_vector: u16,
    /// What scripts see of a WebAssembly module, and of an instance of one.
    pub(crate) type_wasm_module: Option<u16>,
    pub(crate) type_wasm_instance: Option<u16>,
    pub(crate) script_native_module: u64,
    /// What a script has of functions: where other scripts have their WebAssembly instances.
    pub(crate) script_functions: u64,
    pub(crate) first_nonstring_type: u16,
    pub(crate) scope_first_variable: u64,
    pub(crate) code_start: CodeStart,
    pub(crate) code_deopt: u64,
    pub(crate) code_positions: u64,
    pub(crate) code_flags: u64,
    pub(crate) code_size: u64,
    pub(crate) kind_regexp: u32,
    pub(crate) kind_baseline: u32,
    pub(crate) kind_maglev: u32,
    pub(crate) kind_turbofan: u32,
    pub(crate) bytecode_positions: u64,
    pub(crate) bytecode_data: u64,
    pub(crate) bytecode_loop: u8,
    pub(crate) deopt_literals: u64,
    pub(crate) deopt_function: u64,
    pub(crate) deopt_inlining: u64,
    pub(crate) positions: PositionEncoding,
    pub(crate) script_source_url: u64,
    pub(crate) has_baseline_data: bool,
    pub(crate) scope: ScopeEncoding,
    pub(crate) wasm_kind_bits: u32,
    /// Frame markers: WebAssembly.
    pub(crate) frame_wasm: u64,
    /// How many bytes each bytecode takes, by operand scale and bytecode; empty when not found.
    pub(crate) bytecode_sizes: Vec<u8>,
    /// What awaits and is awaited; none where V8 does not export it.
    pub(crate) async_objects: Option<AsyncLayout>,
    /// None where the V8 does not say how properties are listed.
    pub(crate) properties: Option<PropertyLayout>,
    /// Where the virtual table of Node's workers is linked to.
    pub(crate) worker_table: Option<u64>,
}

impl Layout {
    /// The layout of the V8 whose constants `get` returns (without their `v8dbg_`); an error says
    /// why it can't be used.
    pub(crate) fn new(
        version: (u32, u32),
        get: &dyn Fn(&str) -> Option<i32>,
        bytecode_sizes: Vec<u8>,
    ) -> Result<Self, String> {
        if get("TaggedSize").is_some_and(|size| size != 8) {
            return Err(
                "it is built with pointer compression, which nodespy can't read".to_owned(),
            );
        }
        let facts = FACTS
            .iter()
            .min_by_key(|facts| {
                let of = |version: (u32, u32)| i64::from(version.0) * 100 + i64::from(version.1);
                (of(facts.version) - of(version)).abs()
            })
            .expect("the table has rows");
        let need = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| get(name))
                .and_then(|value| u64::try_from(value).ok())
                .ok_or_else(|| format!("it does not export v8dbg_{}", names[0]))
        };
        let optional = |name: &str, fact: u64| {
            get(name)
                .and_then(|value| u64::try_from(value).ok())
                .unwrap_or(fact)
        };
        let kind = |name: &str| -> Result<u16, String> {
            u16::try_from(need(&[name])?).map_err(|_| format!("v8dbg_{name} is no type"))
        };
        let optional_kind = |name: &str| get(name).and_then(|value| u16::try_from(value).ok());
        let first_function = kind("type_JSFunction__JS_FUNCTION_TYPE")?;
        let last_function = optional_kind("LastJSFunctionType")
            .unwrap_or(first_function.saturating_add(facts.function_types));
        let code_start = match facts.code_start {
            CodeStart::Inline(fact) => {
                CodeStart::Inline(optional("class_Code__instruction_start__uintptr_t", fact))
            }
            CodeStart::Pointer { at, header } => CodeStart::Pointer {
                at: optional("class_Code__instruction_start__Address", at),
                header: optional(
                    "class_InstructionStream__instruction_start__uintptr_t",
                    header,
                ),
            },
        };
        Ok(Self {
            version,
            nearest: facts.version,
            function_shared: need(&["class_JSFunction__shared__SharedFunctionInfo"])?,
            function_types: first_function..=last_function,
            shared_data: optional("class_SharedFunctionInfo__function_data__Object", 8),
            shared_name: need(&[
                "class_SharedFunctionInfo__name_or_scope_info__Object",
                "class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_",
                "class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_",
            ])?,
            shared_script: need(&[
                "class_SharedFunctionInfo__script_or_debug_info__HeapObject",
                "class_SharedFunctionInfo__script__Tagged_HeapObject_",
            ])?,
            type_shared: kind("type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE")?,
            type_shared_wrapper: optional_kind(
                "type_SharedFunctionInfoWrapper__SHARED_FUNCTION_INFO_WRAPPER_TYPE",
            ),
            type_scope_info: kind("type_ScopeInfo__SCOPE_INFO_TYPE")?,
            type_script: kind("type_Script__SCRIPT_TYPE")?,
            type_debug_info: kind("type_DebugInfo__DEBUG_INFO_TYPE")?,
            type_code: kind("type_Code__CODE_TYPE")?,
            type_instruction_stream: optional_kind(
                "type_InstructionStream__INSTRUCTION_STREAM_TYPE",
            ),
            type_bytecode_array: kind("type_BytecodeArray__BYTECODE_ARRAY_TYPE")?,
            type_interpreter_data: kind("type_InterpreterData__INTERPRETER_DATA_TYPE")?,
            type_regexp: kind("type_JSRegExp__JS_REG_EXP_TYPE")?,
            type_feedback_vector: kind("type_FeedbackVector__FEEDBACK_VECTOR_TYPE")?,
            type_wasm_module: optional_kind("type_WasmModuleObject__WASM_MODULE_OBJECT_TYPE"),
            type_wasm_instance: optional_kind("type_WasmInstanceObject__WASM_INSTANCE_OBJECT_TYPE"),
            script_native_module: need(&[
                "class_Script__wasm_managed_native_module__Object",
                "class_Script__wasm_managed_native_module__Tagged_Object_",
            ])
            .unwrap_or(80),
            script_functions: need(&[
                "class_Script__wasm_weak_instance_list__WeakArrayList",
                "class_Script__wasm_weak_instance_list__Tagged_WeakArrayList_",
            ])
            .unwrap_or(88),
            first_nonstring_type: kind("FirstNonstringType")?,
            scope_first_variable: need(&["scopeinfo_idx_first_vars"])?,
            code_start,
            code_deopt: optional(
                "class_Code__deoptimization_data__FixedArray",
                facts.code_deopt,
            ),
            code_positions: optional(
                "class_Code__source_position_table__ByteArray",
                facts.code_positions,
            ),
            code_flags: optional("class_Code__flags__uint32_t", facts.code_flags),
            code_size: optional("class_Code__instruction_size__int", facts.code_size),
            kind_regexp: facts.kind_regexp,
            kind_baseline: optional("CodeKindBaseline", facts.kind_baseline.into()) as u32,
            kind_maglev: facts.kind_maglev,
            kind_turbofan: facts.kind_turbofan,
            bytecode_positions: facts.bytecode_positions,
            bytecode_data: optional("class_BytecodeArray__data__uintptr_t", facts.bytecode_data),
            bytecode_loop: facts.bytecode_loop,
            deopt_literals: optional("DeoptimizationDataLiteralArrayIndex", facts.deopt_literals),
            deopt_function: ["", "Wrapped"]
                .iter()
                .find_map(|word| get(&format!("DeoptimizationData{word}SharedFunctionInfoIndex")))
                .and_then(|index| u64::try_from(index).ok())
                .unwrap_or(facts.deopt_function),
            deopt_inlining: optional(
                "DeoptimizationDataInliningPositionsIndex",
                facts.deopt_inlining,
            ),
            positions: facts.positions,
            script_source_url: facts.script_source_url,
            has_baseline_data: facts.has_baseline_data,
            scope: facts.scope,
            wasm_kind_bits: facts.wasm_kind_bits,
            frame_wasm: need(&["frametype_WasmFrame"])?,
            bytecode_sizes,
            async_objects: AsyncLayout::new(version, get),
            properties: PropertyLayout::new(get),
            worker_table: None,
        })
    }
}
