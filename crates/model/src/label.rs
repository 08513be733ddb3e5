//! The text of a frame in folded stacks and in flame graphs made from them.

use crate::profile::{Category, FunctionIndex, Profile, ThreadIndex};

/// What stands for the stack of a sample that has none.
pub const NO_STACK: &str = "[no stack]";

/// The text of a function in a line of folded stacks, with the endings that the `js` colours of
/// FlameGraph and inferno go by: green is source, aqua is what comes with Node and V8, yellow is
/// C++, orange is the kernel.
///
/// Both tools read `_[j]` with a `/` as source and without one as a builtin. Without any ending
/// they take a single `:` for a builtin, so a path of Node itself or a regular expression, which
/// hold a `/`, goes without. Inlined code gets `_[j]` too: no `js` palette knows `_[i]`, and would paint it as a
/// builtin.
pub fn folded_label(profile: &Profile, function: FunctionIndex) -> String {
    let category = profile.function(function).category;
    let mut text = profile.name_of(function).to_owned();
    let has_source = matches!(
        category,
        Category::App | Category::Dependency | Category::NodeCore
    );
    if has_source && !profile.file_of(function).is_empty() {
        text.push(' ');
        text.push_str(&profile.location_of(function));
    }
    let mut text = folded_name(&text);
    match category {
        Category::Kernel => text.push_str("_[k]"),
        Category::App | Category::Dependency => text.push_str("_[j]"),
        category if category.is_javascript() && text.contains('/') && text.contains(':') => {}
        category if category.is_javascript() => text.push_str("_[j]"),
        _ => {}
    }
    text
}

/// The name that the folded lines of a thread start with: the process's for its main thread, as
/// `stackcollapse-perf.pl` has it; empty when neither has one.
pub fn folded_thread(profile: &Profile, thread: ThreadIndex) -> String {
    let thread = &profile.threads[thread.at()];
    let process = &profile.processes[thread.process.at()];
    let names = match thread.tid == process.pid {
        true => [&process.name, &thread.name],
        false => [&thread.name, &process.name],
    };
    let name = names.into_iter().find(|name| !name.trim().is_empty());
    name.map_or_else(String::new, |name| folded_name(name))
}

/// Any name as one frame of a folded line: `;` would end it, and a number at its end would be
/// read as a weight.
pub fn folded_name(name: &str) -> String {
    let mut text = name.trim().replace(';', ":");
    if text.is_empty() {
        return "[unknown]".to_owned();
    }
    if let Some(space) = text.rfind(char::is_whitespace) {
        let is_number = |tail: &str| {
            tail.chars()
                .all(|digit| digit.is_ascii_digit() || digit == '.')
        };
        let after = space + text[space..].chars().next().map_or(1, char::len_utf8);
        if is_number(&text[after..]) {
            text.replace_range(space..after, "_");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{About, FunctionSpec, Notes, ProfileBuilder, WeightUnit};

    fn label(name: &str, file: &str, line: u32, category: Category) -> String {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        let function = builder.function(FunctionSpec {
            name,
            file,
            line,
            column: line,
            category,
        });
        folded_label(
            &builder.finish(About::default(), Notes::default()),
            function,
        )
    }

    #[test]
    fn endings_say_what_kind_of_code_it_is() {
        assert_eq!(
            label("turn", "/app/mix.js", 19, Category::App),
            "turn /app/mix.js:19:19_[j]"
        );
        assert_eq!(
            label("next", "node:internal/timers", 4, Category::NodeCore),
            "next node:internal/timers:4:4"
        );
        assert_eq!(
            label("open", "node:fs", 4, Category::NodeCore),
            "open node:fs:4:4_[j]"
        );
        assert_eq!(label("LoadIC", "node", 0, Category::Builtin), "LoadIC_[j]");
        assert_eq!(
            label("do_syscall_64", "[kernel]", 0, Category::Kernel),
            "do_syscall_64_[k]"
        );
        assert_eq!(label("uv_run", "libuv.so", 0, Category::Native), "uv_run");
    }

    #[test]
    fn a_name_cannot_break_a_line() {
        assert_eq!(folded_name("a;b 12"), "a:b_12");
        assert_eq!(folded_name("a\u{a0}1.5"), "a_1.5");
        assert_eq!(folded_name("  "), "[unknown]");
    }
}
