//! A line of a stack: `    7fef0002c88f JS:+sort /app/mix.js:14:21+0xcf (/tmp/perf-6235.map)`.

use memchr::memrchr;

use super::header::is_space;

/// An address, what is there and the file it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameLine<'a> {
    /// The address, as hexadecimal digits.
    pub(crate) address: &'a [u8],
    /// The name with its offset.
    pub(crate) name: &'a [u8],
    /// The file, or a word in brackets.
    pub(crate) module: &'a [u8],
}

impl<'a> FrameLine<'a> {
    /// The parts that the original's greedy pattern `(\w+)\s*(.+) \((.*)\)` matches.
    pub(crate) fn as_original(line: &'a [u8]) -> Option<Self> {
        let start = line.iter().position(|byte| !is_space(*byte))?;
        let close = memrchr(b')', line)?;
        let open = last_opening(&line[..close])?;
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let word_end = start
            + line[start..]
                .iter()
                .take_while(|byte| is_word(byte))
                .count();
        let after = word_end
            + line[word_end..]
                .iter()
                .take_while(|byte| is_space(**byte))
                .count();
        // At least one byte is the name, even if the pattern must give back what it took.
        let name_start = after.min(open.checked_sub(1)?);
        let address_end = word_end.min(name_start);
        (address_end > start).then(|| Self {
            address: &line[start..address_end],
            name: &line[name_start..open],
            module: &line[open + 2..close],
        })
    }

    /// The parts as perf writes them: a file that is gone is `(/lib/x.so (deleted))`.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        let line = line.trim_ascii();
        let digits = line
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        let (address, rest) = line.split_at(digits);
        if address.is_empty() || !rest.first().is_some_and(|byte| is_space(*byte)) {
            return None;
        }
        let rest = rest.strip_suffix(b")")?;
        let searched = rest.strip_suffix(b" (deleted)").unwrap_or(rest);
        let open = last_opening(searched)?;
        Some(Self {
            address,
            name: rest[..open].trim_ascii(),
            module: &searched[open + 2..],
        })
    }

    /// The name without `+0x1f` at its end, and whether that was there.
    pub(crate) fn name_without_offset(&self) -> (&'a [u8], bool) {
        let digits = self
            .name
            .iter()
            .rev()
            .take_while(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            .count();
        let before = &self.name[..self.name.len() - digits];
        match before.strip_suffix(b"+0x") {
            Some(name) if digits > 0 => (name, true),
            _ => (self.name, false),
        }
    }

    /// Whether the code was put there by a compiler at run time: V8's, as perf maps and the
    /// files that `perf inject --jit` writes have it.
    pub(crate) fn is_jit(&self) -> bool {
        is_numbered(self.module, b"/tmp/perf-", b".map")
            || (is_numbered(self.module, b"/jitted-", b"") && self.module.ends_with(b".so"))
    }

    /// Whether the code is the kernel's or a module's of it.
    pub(crate) fn is_kernel(&self) -> bool {
        let file = file_name(self.module);
        let is_kernel = self.module.starts_with(b"[")
            || file.ends_with(b"vmlinux")
            || file.starts_with(b"vmlinux-")
            || file.ends_with(b".ko");
        is_kernel && memchr::memmem::find(self.module, b"unknown").is_none()
    }
}

/// The last ` (` of a text.
fn last_opening(text: &[u8]) -> Option<usize> {
    let mut end = text.len();
    loop {
        let at = memrchr(b'(', &text[..end])?;
        if at > 0 && text[at - 1] == b' ' {
            return Some(at - 1);
        }
        end = at;
    }
}

/// Whether `start`, a number and `end` follow one another somewhere in `text`.
fn is_numbered(text: &[u8], start: &[u8], end: &[u8]) -> bool {
    memchr::memmem::find_iter(text, start).any(|at| {
        let rest = &text[at + start.len()..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        digits > 0 && rest[digits..].starts_with(end)
    })
}

/// What comes after the last slash of a path.
pub(crate) fn file_name(path: &[u8]) -> &[u8] {
    memrchr(b'/', path).map_or(path, |slash| &path[slash + 1..])
}

/// Whether a text is an address with something that has a file.
pub(crate) fn looks_like_frame(text: &[u8]) -> bool {
    FrameLine::parse(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn original(line: &str) -> Option<(&str, &str, &str)> {
        FrameLine::as_original(line.as_bytes()).map(text)
    }

    fn sensible(line: &str) -> Option<(&str, &str, &str)> {
        FrameLine::parse(line.as_bytes()).map(text)
    }

    fn text(frame: FrameLine<'_>) -> (&str, &str, &str) {
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        (text(frame.address), text(frame.name), text(frame.module))
    }

    #[test]
    fn the_last_parentheses_are_the_module() {
        let line = "\t  dd777 v8::Call(v8::Isolate*, bool)+0x1 (/tmp/node)";
        let parts = ("dd777", "v8::Call(v8::Isolate*, bool)+0x1", "/tmp/node");
        assert_eq!(original(line), Some(parts));
        assert_eq!(sensible(line), Some(parts));
    }

    #[test]
    fn a_deleted_file_confuses_only_the_original() {
        let line = "  7f12 read (/lib/libc.so (deleted))";
        assert_eq!(sensible(line), Some(("7f12", "read", "/lib/libc.so")));
        assert_eq!(
            original(line),
            Some(("7f12", "read (/lib/libc.so", "deleted)"))
        );
    }

    #[test]
    fn a_missing_name_is_what_the_pattern_gives_back() {
        assert_eq!(original("  7f12 (mod)"), Some(("7f1", "2", "mod")));
        assert_eq!(original("  7f12  (mod)"), Some(("7f12", " ", "mod")));
        assert_eq!(original("  7 (mod)"), None);
        assert_eq!(original("  7f12 name"), None);
        assert_eq!(sensible("  7f12 (mod)"), Some(("7f12", "", "mod")));
    }

    #[test]
    fn offsets_are_taken_off() {
        let name = |line: &'static str| {
            let frame = FrameLine::parse(line.as_bytes()).unwrap();
            let (name, has_offset) = frame.name_without_offset();
            (std::str::from_utf8(name).unwrap(), has_offset)
        };
        assert_eq!(name("1 main+0x1f (x)"), ("main", true));
        assert_eq!(name("1 main+0x (x)"), ("main+0x", false));
        assert_eq!(name("1 main+0xG1 (x)"), ("main+0xG1", false));
    }

    #[test]
    fn the_file_tells_whose_code_it_is() {
        let module = |module| FrameLine {
            address: b"1",
            name: b"f",
            module,
        };
        for kernel in [
            &b"[kernel.kallsyms]"[..],
            b"[nf_conntrack]",
            b"/boot/vmlinux-5.4.14",
            b"/lib/modules/4.1/build/vmlinux",
            b"/lib/modules/5.4/mlx5_core.ko",
        ] {
            assert!(module(kernel).is_kernel());
        }
        assert!(!module(b"[unknown]").is_kernel() && !module(b"/bin/node").is_kernel());
        assert!(module(b"/tmp/perf-12.map").is_jit());
        assert!(module(b"/tmp/x/jitted-12-3.so").is_jit());
        assert!(!module(b"/tmp/perf-.map").is_jit());
    }
}
