//! The names of frames as V8, perf and FlameGraph's tools write them, taken apart.
//!
//! `LazyCompile:*turn /app/mix.js:19:15_[j]` is a function, where it was declared, who compiled it
//! and what kind of code it is. Text formats share this, so that one function has one name in all
//! of them.

use nodespy_model::classify::category_of_file;
use nodespy_model::{Category, FrameKind, FrameSpec, FunctionSpec, Tier};

/// How V8 and perf start the names of code that V8 made.
const CODE_KINDS: &[(&str, Category)] = &[
    ("LazyCompile:", Category::App),
    ("Function:", Category::App),
    ("Script:", Category::App),
    ("Eval:", Category::App),
    ("JS:", Category::App),
    ("RegExp:", Category::RegExp),
    ("BytecodeHandler:", Category::Builtin),
    ("Builtin:", Category::Builtin),
    ("Builtins_", Category::Builtin),
    ("Handler:", Category::Builtin),
    ("Stub:", Category::Builtin),
    ("wasm-function", Category::Wasm),
];

/// The frame that a name stands for.
pub(crate) fn parse_frame(text: &str) -> FrameSpec<'_> {
    let text = text.trim();
    let (text, ending) = match text
        .len()
        .checked_sub(4)
        .and_then(|at| text.split_at_checked(at))
    {
        Some((text, ending)) if ending.starts_with("_[") && ending.ends_with(']') => (text, ending),
        _ => (text, ""),
    };
    if ending == "_[k]" {
        return named(text, Category::Kernel);
    }
    let is_jit = matches!(ending, "_[j]" | "_[i]");
    let kind = CODE_KINDS.iter().find(|(start, _)| text.starts_with(start));
    let (tier, name) = match kind {
        Some((start, Category::App)) => Tier::split_mark(&text[start.len()..]),
        _ => (Tier::None, text),
    };
    let may_have_place = kind.is_none_or(|(_, category)| *category == Category::App);
    let place = parse_place(name).filter(|place| {
        may_have_place
            && (is_jit || kind.is_some() || place.category != Category::App || place.is_script())
    });
    if let Some(place) = place {
        return FrameSpec {
            function: FunctionSpec {
                name: match place.name {
                    "" => "(anonymous)",
                    name => name,
                },
                file: place.file,
                line: place.line,
                column: place.column,
                category: place.category,
            },
            tier,
            kind: FrameKind::inlined_if(ending == "_[i]"),
            ..FrameSpec::default()
        };
    }
    let category = match kind {
        Some((_, category)) => *category,
        None if is_jit && name.contains('/') => Category::App,
        None if is_jit => Category::Builtin,
        None if matches!(name, "" | "[unknown]" | "[no stack]") => Category::Unknown,
        None => Category::Native,
    };
    FrameSpec {
        tier,
        kind: FrameKind::inlined_if(ending == "_[i]"),
        ..named(name, category)
    }
}

/// The frame that a name in a perf map or jitdump stands for: code that was made at run time.
pub(crate) fn parse_jit_frame(text: &str) -> FrameSpec<'_> {
    const KINDS: &[(&str, Category)] = &[
        ("RegExp:", Category::RegExp),
        ("BytecodeHandler:", Category::Internal),
        ("Builtin:", Category::Builtin),
        ("Handler:", Category::Builtin),
        ("Stub:", Category::Builtin),
        ("Wasm:", Category::Wasm),
    ];
    let text = text.trim();
    let kind = KINDS
        .iter()
        .find_map(|(start, category)| Some((text.strip_prefix(start)?, *category)));
    if let Some((name, category)) = kind {
        return named(name, category);
    }
    let frame = parse_frame(text);
    match frame.function.category {
        // What has no place in a file is one of V8's own words, if it looks like one.
        Category::App if frame.function.file.is_empty() => FrameSpec {
            function: FunctionSpec {
                category: match frame.function.name.starts_with('(') {
                    true => crate::code_kind::category_of(frame.function.name, ""),
                    false => Category::App,
                },
                ..frame.function
            },
            ..frame
        },
        Category::Native => named(text, Category::Unknown),
        _ => frame,
    }
}

fn named(name: &str, category: Category) -> FrameSpec<'_> {
    FrameSpec {
        function: FunctionSpec {
            name: match name {
                "" => "[unknown]",
                name => name,
            },
            category,
            ..FunctionSpec::default()
        },
        ..FrameSpec::default()
    }
}

/// A name with the place it was declared at.
struct Place<'a> {
    name: &'a str,
    file: &'a str,
    line: u32,
    column: u32,
    category: Category,
}

impl Place<'_> {
    fn is_script(&self) -> bool {
        let (_, extension) = self.file.rsplit_once('.').unwrap_or_default();
        matches!(
            extension,
            "js" | "mjs" | "cjs" | "jsx" | "ts" | "mts" | "cts" | "tsx"
        )
    }
}

/// Splits `name file:line:column` or `name file:line`.
fn parse_place(text: &str) -> Option<Place<'_>> {
    let (rest, last) = text.rsplit_once(':')?;
    let last: u32 = last.parse().ok()?;
    let (rest, line, column) = match rest.rsplit_once(':') {
        Some((before, middle)) => match middle.parse() {
            Ok(line) => (before, line, last),
            Err(_) => (rest, last, 0),
        },
        None => (rest, last, 0),
    };
    // Names and paths may both hold spaces: the path starts where something looks like its start.
    let start = [" /", " node:", " file:", " internal/"]
        .iter()
        .filter_map(|start| rest.find(start))
        .min()
        .or_else(|| rest.rfind(' '));
    let (name, file) = match start {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => ("", rest),
    };
    (!file.is_empty()).then_some(Place {
        name: name.trim(),
        file,
        line,
        column,
        category: category_of_file(file),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_as_v8_and_perf_write_them() {
        let parse = |text| {
            let frame = parse_frame(text);
            let function = frame.function;
            (
                function.name,
                function.file,
                function.line,
                function.column,
                function.category,
                frame.tier,
            )
        };
        assert_eq!(
            parse("JS:^turn /my app/mix.js:19:15_[j]"),
            (
                "turn",
                "/my app/mix.js",
                19,
                15,
                Category::App,
                Tier::Baseline
            )
        );
        assert_eq!(
            parse("LazyCompile:*Async$go /x/node_modules/a/b.js:39_[j]"),
            (
                "Async$go",
                "/x/node_modules/a/b.js",
                39,
                0,
                Category::Dependency,
                Tier::Optimized
            )
        );
        assert_eq!(
            parse("get ready node:internal/timers:4:4"),
            (
                "get ready",
                "node:internal/timers",
                4,
                4,
                Category::NodeCore,
                Tier::None
            )
        );
        assert_eq!(
            parse("Script:~ /app/x.js:1:1_[j]"),
            (
                "(anonymous)",
                "/app/x.js",
                1,
                1,
                Category::App,
                Tier::Interpreted
            )
        );
        assert_eq!(parse("JS:~emit events.js:1:1_[j]").4, Category::NodeCore);
        let mine = "JS:~f /my_node_modules/a.js:1:1_[j]";
        assert_eq!(parse(mine).4, Category::App);
        assert_eq!(parse("JS:+'sort /app/mix.js:14:21").0, "sort");
        assert_eq!(parse("JS:o*'sort /app/mix.js:14:21").5, Tier::Optimized);
        assert_eq!(parse("do_syscall_64_[k]").4, Category::Kernel);
        assert_eq!(parse("Builtins_LoadIC").4, Category::Builtin);
        assert_eq!(parse("v8::internal::Heap::Scavenge").4, Category::Native);
        assert_eq!(parse("RegExp:a:1_[j]").4, Category::RegExp);
        assert_eq!(parse("[unknown]").4, Category::Unknown);
        assert_eq!(parse("é_[j").4, Category::Native);
    }
}
