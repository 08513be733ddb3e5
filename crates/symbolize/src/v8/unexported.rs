//! A V8 that exports nothing of itself: the one in Deno.
//!
//! `rusty_v8`, which Deno is built with, has its version in the file as text. What other V8s export as
//! `v8dbg_*` is known for one version of it, found by looking at objects of a running Deno; another version
//! is tried with it, and given up unless it names nearly all frames (`V8::is_misfit`).

use memchr::memmem;
use nodespy_model::ImageBytes;

use crate::elf::{Elf, search_extents};
use crate::image::V8Exports;

/// What the version of this V8 ends with.
const SUFFIX: &[u8] = b"-rusty";
/// No V8 is smaller; smaller files need not be read.
const MIN_BYTES: u64 = 32 << 20;
/// And no larger one is searched.
const MAX_BYTES: u64 = 1 << 29;
/// The longest version, `15.0.245.2`, and some.
const VERSION_BYTES: usize = 24;

/// Of V8 15.0, as in Deno 2.9. Types of structures that code holds are those of 14.6; what comes behind
/// them is ten less.
const CONSTANTS: [(&str, i32); 24] = [
    ("TaggedSize", 8),
    ("FirstNonstringType", 128),
    ("LastJSFunctionType", 2080),
    ("class_JSFunction__shared__SharedFunctionInfo", 32),
    (
        "class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_",
        24,
    ),
    ("class_SharedFunctionInfo__script__Tagged_HeapObject_", 40),
    ("scopeinfo_idx_first_vars", 5),
    ("frametype_WasmFrame", 24),
    ("CodeKindBaseline", 11),
    ("class_BytecodeArray__data__uintptr_t", 64),
    ("class_Code__flags__uint32_t", 52),
    ("class_Code__instruction_size__int", 56),
    ("class_Code__instruction_start__Address", 40),
    ("class_InstructionStream__instruction_start__uintptr_t", 32),
    ("type_DebugInfo__DEBUG_INFO_TYPE", 153),
    ("type_Script__SCRIPT_TYPE", 166),
    ("type_BytecodeArray__BYTECODE_ARRAY_TYPE", 185),
    ("type_Code__CODE_TYPE", 186),
    ("type_InterpreterData__INTERPRETER_DATA_TYPE", 187),
    ("type_InstructionStream__INSTRUCTION_STREAM_TYPE", 192),
    ("type_FeedbackVector__FEEDBACK_VECTOR_TYPE", 261),
    ("type_ScopeInfo__SCOPE_INFO_TYPE", 276),
    ("type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE", 278),
    ("type_JSFunction__JS_FUNCTION_TYPE", 2064),
];
/// Where regular expressions are, which only name their code.
const REGEXP: (&str, i32) = ("type_JSRegExp__JS_REG_EXP_TYPE", 2137);
const WRAPPER: (&str, i32) = (
    "type_SharedFunctionInfoWrapper__SHARED_FUNCTION_INFO_WRAPPER_TYPE",
    195,
);

/// What is known of the V8 in a file that exports nothing; none when there is no such V8.
pub(crate) fn read(elf: &Elf, bytes: &ImageBytes) -> Option<V8Exports> {
    let version = version(elf, bytes)?;
    let constants = CONSTANTS.into_iter().chain([REGEXP, WRAPPER]);
    Some(V8Exports {
        version,
        constants: constants
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        bytecode_sizes: Vec::new(),
        worker_table: None,
        libuv: Vec::new(),
    })
}

fn version(elf: &Elf, bytes: &ImageBytes) -> Option<(u32, u32)> {
    let extents = elf.extents();
    let size: u64 = extents.iter().map(|extent| extent.size).sum();
    if !(MIN_BYTES..MAX_BYTES).contains(&size) {
        return None;
    }
    let data = extents.into_iter().filter(|extent| !extent.is_code);
    let read = |address, size| elf.read_at(bytes, address, size);
    let suffix = memmem::Finder::new(SUFFIX);
    search_extents(data, read, VERSION_BYTES + SUFFIX.len(), |_, chunk| {
        let mut found = suffix.find_iter(chunk);
        found.find_map(|at| version_before(&chunk[..at]))
    })
}

/// Major and minor of a version of four parts at the end of some text.
fn version_before(text: &[u8]) -> Option<(u32, u32)> {
    let near = &text[text.len().saturating_sub(VERSION_BYTES)..];
    let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let start = near.iter().rposition(|byte| !is_part(byte))? + 1;
    let version = std::str::from_utf8(&near[start..]).ok()?;
    let parts: Vec<u32> = version
        .split('.')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    match parts[..] {
        [major, minor, _, _] => Some((major, minor)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v8::Layout;

    #[test]
    fn the_version_is_what_stands_before_the_suffix() {
        assert_eq!(version_before(b"v8 15.0.245.2"), Some((15, 0)));
        assert_eq!(version_before(b"\0xx14.6.202.33"), Some((14, 6)));
        for none in ["", "v8", "15.0.245.2", " 15.0.245", " 1.2.3.4.5", " ..."] {
            assert_eq!(version_before(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn all_that_a_layout_needs_is_known() {
        let constants: Vec<(&str, i32)> = CONSTANTS.into_iter().chain([REGEXP]).collect();
        let get = |name: &str| {
            let found = constants.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| *value)
        };
        let layout = Layout::new((15, 0), &get, Vec::new()).unwrap();
        assert_eq!(layout.function_types, 2064..=2080);
    }
}
