//! What code without a symbol is called: its module and the offset in it.

use std::fmt::Display;

/// The longest name of a file on Linux. A module is named in every place of it that was sampled.
const MAX_MODULE_BYTES: usize = 255;

/// `[libuv.so.1+0x1234]`; `place` alone where the module is not known either.
pub(crate) fn name_in_module(path: &str, place: impl Display) -> String {
    let module = path.rsplit('/').next().unwrap_or_default();
    let module = module.trim_matches(['[', ']']);
    let mut end = module.len().min(MAX_MODULE_BYTES);
    while !module.is_char_boundary(end) {
        end -= 1;
    }
    match &module[..end] {
        "" => place.to_string(),
        module => format!("[{module}+{place}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_its_file_and_not_endless() {
        assert_eq!(
            name_in_module("/lib/libuv.so.1", "0x12"),
            "[libuv.so.1+0x12]"
        );
        assert_eq!(name_in_module("[vdso]", "0x12"), "[vdso+0x12]");
        assert_eq!(name_in_module("", "0x12"), "0x12");
        let long = name_in_module(&"é".repeat(5000), "0x12");
        assert_eq!(long, format!("[{}+0x12]", "é".repeat(127)));
    }
}
