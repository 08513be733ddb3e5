//! What kind of code a function is, for formats that hold its name and its file apart and do not
//! say it themselves.

use nodespy_model::Category;
use nodespy_model::classify::{category_of_file, category_of_native};

/// The category of a function by its name and its source file or module.
pub(crate) fn category_of(name: &str, file: &str) -> Category {
    match name {
        "(garbage collector)" | "Garbage Collection" => return Category::Gc,
        "(idle)" => return Category::Idle,
        "" | "[unknown]" | "(unknown)" => return Category::Unknown,
        _ if is_address(name) => return Category::Unknown,
        _ => {}
    }
    if is_kernel(file) {
        Category::Kernel
    } else if name.starts_with("RegExp:") {
        Category::RegExp
    } else if name.starts_with("wasm-function") {
        Category::Wasm
    } else if is_script(file) {
        category_of_file(file)
    } else {
        category_of_native(name)
    }
}

/// `0x1234`: what stands where neither name nor module is known.
fn is_address(name: &str) -> bool {
    name.strip_prefix("0x")
        .is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

fn is_kernel(file: &str) -> bool {
    let last = file.rsplit('/').next().unwrap_or_default();
    file.starts_with("[kernel")
        || file.starts_with("[guest.kernel")
        || last.starts_with("vmlinux")
        || last.ends_with(".ko")
        || last.ends_with(".ko.xz")
}

/// Whether a file is a source of JavaScript or WebAssembly rather than a library.
pub(crate) fn is_script(file: &str) -> bool {
    const STARTS: [&str; 7] = [
        "node:",
        "internal/",
        "file://",
        "http://",
        "https://",
        "wasm:",
        "webpack:",
    ];
    const EXTENSIONS: [&str; 9] = ["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "wasm"];
    let (_, extension) = file.rsplit_once('.').unwrap_or_default();
    STARTS.iter().any(|start| file.starts_with(start)) || EXTENSIONS.contains(&extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_files_tell_the_kind_of_code() {
        for (name, file, category) in [
            ("total", "/shop/cart.js", Category::App),
            (
                "format",
                "/shop/node_modules/money/index.js",
                Category::Dependency,
            ),
            ("next", "node:internal/timers", Category::NodeCore),
            ("uv_run", "/usr/bin/node", Category::Native),
            ("Builtins_StringAdd", "/usr/bin/node", Category::Builtin),
            ("do_syscall_64", "[kernel.kallsyms]", Category::Kernel),
            ("(garbage collector)", "", Category::Gc),
            ("(idle)", "", Category::Idle),
            ("[node+0x1f]", "/usr/bin/node", Category::Native),
            ("0x1f", "", Category::Unknown),
            ("main.main", "/go/src/main.go", Category::Native),
        ] {
            assert_eq!(category_of(name, file), category, "{name} {file}");
        }
    }
}
