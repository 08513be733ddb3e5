//! The names V8 and JavaScriptCore give to JIT code, in all their dialects, taken apart.
//!
//! `LazyCompile:*sort /app/a.js:12:3` (node 16 and 18, without the column there), `Function:~f`,
//! `JS:^f`, with the tier marks of V8's `code-kind.cc` ([`Tier::split_mark`]); `JSC-FTL: f#AgAnQJ`
//! with the compiler and a hash of the code (Bun).

use nodespy_model::classify::category_of_file;
use nodespy_model::{Category, Tier};

/// What JIT code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JitKind {
    /// A function of JavaScript.
    JavaScript,
    /// The top level of a script or module, or evaluated text.
    Script,
    /// A builtin or stub of V8.
    Builtin,
    /// A bytecode handler of the interpreter.
    BytecodeHandler,
    /// A compiled regular expression; the name is its pattern.
    RegExp,
    /// A WebAssembly function.
    Wasm,
    /// Anything else.
    Other,
}

/// A name, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JitName {
    /// What it is.
    pub kind: JitKind,
    /// The function, or the pattern of a regular expression.
    pub name: String,
    /// The source file; empty when not known.
    pub file: String,
    /// The line it starts at; 0 when not known.
    pub line: u32,
    /// The column it starts at; 0 when not known.
    pub column: u32,
    /// Which compiler made the code.
    pub tier: Tier,
}

impl JitName {
    /// Whether both are code of one function, whatever compiled it.
    pub(crate) fn is_same_function(&self, other: &Self) -> bool {
        let place = |name: &Self| (name.kind, name.line, name.column);
        place(self) == place(other) && self.name == other.name && self.file == other.file
    }

    /// Takes a name apart. Never fails: what is not understood is a name as a whole.
    pub fn parse(text: &str) -> Self {
        let (tag, rest) = text.split_once(':').unwrap_or(("", text));
        let of = |kind, name: &str| Self {
            kind,
            name: name.to_owned(),
            file: String::new(),
            line: 0,
            column: 0,
            tier: Tier::None,
        };
        match tag {
            "JS" | "LazyCompile" | "Function" | "Callback" => {
                Self::located(JitKind::JavaScript, rest)
            }
            "Script" | "Eval" => Self::located(JitKind::Script, rest),
            "RegExp" => of(JitKind::RegExp, rest),
            "BytecodeHandler" => of(JitKind::BytecodeHandler, rest),
            "Builtin" | "Stub" | "Handler" | "LoadIC" | "StoreIC" | "KeyedLoadIC"
            | "KeyedStoreIC" | "CallIC" => of(JitKind::Builtin, rest),
            "JSC-Baseline" => Self::of_jsc(rest, Tier::Baseline),
            "JSC-DFG" | "JSC-DFGOSREntry" | "JSC-FTL" | "JSC-FTLForOSREntry" => {
                Self::of_jsc(rest, Tier::Optimized)
            }
            "JSC-YarrJIT" => of(JitKind::RegExp, rest.trim_start()),
            _ if tag.starts_with("JSC-") => of(JitKind::Builtin, rest.trim_start()),
            "wasm-function" | "Wasm" => Self::located(JitKind::Wasm, rest),
            _ if text.contains("wasm-function[") || text.starts_with("wasm") => {
                of(JitKind::Wasm, text)
            }
            _ => of(JitKind::Other, text),
        }
    }

    fn located(kind: JitKind, text: &str) -> Self {
        let (tier, rest) = Tier::split_mark(text);
        let (name, file, line, column) = split_location(rest);
        let name = match (name, kind) {
            ("", JitKind::Script) => "(script)",
            ("", _) => "(anonymous)",
            (name, _) => name,
        };
        Self {
            kind,
            name: name.to_owned(),
            file: file.to_owned(),
            line,
            column,
            tier,
        }
    }

    /// ` f#AgAnQJ`: a function, and a hash of its code. JavaScriptCore does not say where it is.
    fn of_jsc(text: &str, tier: Tier) -> Self {
        let text = text.trim_start();
        let name = match text.rsplit_once('#').map_or(text, |(name, _)| name) {
            "" => "(anonymous)",
            name => name,
        };
        Self {
            kind: JitKind::JavaScript,
            name: name.to_owned(),
            file: String::new(),
            line: 0,
            column: 0,
            tier,
        }
    }

    /// The category a frame of this code has.
    pub fn category(&self) -> Category {
        match self.kind {
            JitKind::JavaScript | JitKind::Script => category_of_file(&self.file),
            JitKind::Builtin => Category::Builtin,
            JitKind::BytecodeHandler => Category::Internal,
            JitKind::RegExp => Category::RegExp,
            JitKind::Wasm => Category::Wasm,
            JitKind::Other => Category::Unknown,
        }
    }
}

/// Splits `name file:line:column`. Names may hold spaces (`get size`) and so may files.
fn split_location(text: &str) -> (&str, &str, u32, u32) {
    let (rest, last) = split_number(text);
    let (rest, line, column) = match (last, split_number(rest)) {
        (0, _) => (text, 0, 0),
        (line, (_, 0)) => (rest, line, 0),
        (column, (rest, line)) => (rest, line, column),
    };
    let starts = [
        " /",
        " file:",
        " node:",
        " internal/",
        " wasm:",
        " evalmachine",
        " [",
        " webpack",
    ];
    let split = starts
        .iter()
        .filter_map(|start| rest.find(start))
        .min()
        .or_else(|| rest.rfind(' ').filter(|_| line != 0));
    match split {
        Some(at) => (&rest[..at], &rest[at + 1..], line, column),
        None if line != 0 => ("", rest, line, column),
        None => (rest, "", 0, 0),
    }
}

/// Takes `:123` off the end; 0 when there is none.
fn split_number(text: &str) -> (&str, u32) {
    let Some((rest, digits)) = text.rsplit_once(':') else {
        return (text, 0);
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse() {
        Ok(number) if is_number && number > 0 => (rest, number),
        _ => (text, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (JitKind, String, String, u32, u32, Tier) {
        let name = JitName::parse(text);
        (
            name.kind,
            name.name,
            name.file,
            name.line,
            name.column,
            name.tier,
        )
    }

    #[test]
    fn every_dialect_is_taken_apart() {
        use JitKind::{Builtin, BytecodeHandler, JavaScript, Other, RegExp, Script};
        let cases = [
            (
                "JSC-FTL: seventyPercent#AgAnQJ",
                JavaScript,
                "seventyPercent",
                "",
                0,
                0,
                Tier::Optimized,
            ),
            (
                "JSC-Baseline: #BqEwQK",
                JavaScript,
                "(anonymous)",
                "",
                0,
                0,
                Tier::Baseline,
            ),
            (
                "JSC-YarrJIT: /^a#b$/",
                RegExp,
                "/^a#b$/",
                "",
                0,
                0,
                Tier::None,
            ),
            (
                "JSC-InlineCache: GetByVal",
                Builtin,
                "GetByVal",
                "",
                0,
                0,
                Tier::None,
            ),
            (
                "LazyCompile:*sort /app/a.js:12:3",
                JavaScript,
                "sort",
                "/app/a.js",
                12,
                3,
                Tier::Optimized,
            ),
            (
                "LazyCompile:*sortWork cpu.js:12",
                JavaScript,
                "sortWork",
                "cpu.js",
                12,
                0,
                Tier::Optimized,
            ),
            (
                "Function:~f /a b/c.js:1:2",
                JavaScript,
                "f",
                "/a b/c.js",
                1,
                2,
                Tier::Interpreted,
            ),
            (
                "JS:^f file:///app/x.mjs:3:9",
                JavaScript,
                "f",
                "file:///app/x.mjs",
                3,
                9,
                Tier::Baseline,
            ),
            (
                "JS:+'FastBuffer node:internal/buffer:960:1",
                JavaScript,
                "FastBuffer",
                "node:internal/buffer",
                960,
                1,
                Tier::Maglev,
            ),
            (
                "JS:o*loop /x.js:7:1",
                JavaScript,
                "loop",
                "/x.js",
                7,
                1,
                Tier::Optimized,
            ),
            (
                "JS:o+loop /x.js:7:1",
                JavaScript,
                "loop",
                "/x.js",
                7,
                1,
                Tier::Maglev,
            ),
            (
                "JS:*'hot /x.js:7:1",
                JavaScript,
                "hot",
                "/x.js",
                7,
                1,
                Tier::Optimized,
            ),
            (
                "JS:+' node:internal/validators:471:42",
                JavaScript,
                "(anonymous)",
                "node:internal/validators",
                471,
                42,
                Tier::Maglev,
            ),
            (
                "JS:~get size /x.js:7:1",
                JavaScript,
                "get size",
                "/x.js",
                7,
                1,
                Tier::Interpreted,
            ),
            (
                "JS:onclick /x.js:7:1",
                JavaScript,
                "onclick",
                "/x.js",
                7,
                1,
                Tier::None,
            ),
            (
                "Script:~ /app/main.js:1:1",
                Script,
                "(script)",
                "/app/main.js",
                1,
                1,
                Tier::Interpreted,
            ),
            (
                "Eval:~ node:internal/x:1:1",
                Script,
                "(script)",
                "node:internal/x",
                1,
                1,
                Tier::Interpreted,
            ),
            (
                "RegExp:^/api/v0/(\\d+)",
                RegExp,
                "^/api/v0/(\\d+)",
                "",
                0,
                0,
                Tier::None,
            ),
            (
                "Builtin:ArrayMap",
                JitKind::Builtin,
                "ArrayMap",
                "",
                0,
                0,
                Tier::None,
            ),
            (
                "BytecodeHandler:LdaSmi",
                BytecodeHandler,
                "LdaSmi",
                "",
                0,
                0,
                Tier::None,
            ),
            (
                "something else",
                Other,
                "something else",
                "",
                0,
                0,
                Tier::None,
            ),
        ];
        for (text, kind, name, file, line, column, tier) in cases {
            let expected = (kind, name.to_owned(), file.to_owned(), line, column, tier);
            assert_eq!(parts(text), expected, "{text}");
        }
    }
}
