//! Names of functions made shorter, as `stackcollapse-perf.pl` does it.

use memchr::memmem;

/// Takes away what is noise in most languages: arguments, quotes, and the semicolons that would
/// end a frame.
///
/// A Go method such as `net/http.(*Client).Do` keeps its parentheses, and so does C++'s
/// `(anonymous namespace)`.
pub(crate) fn tidy_generic(name: &mut Vec<u8>) {
    for byte in name.iter_mut().filter(|byte| **byte == b';') {
        *byte = b':';
    }
    if !is_go_method(name)
        && let Some(arguments) = arguments_at(name)
    {
        name.truncate(arguments);
    }
    name.retain(|byte| !matches!(byte, b'"' | b'\''));
}

/// Takes off the `L` that starts the name of a Java class.
pub(crate) fn tidy_java(name: &mut Vec<u8>) {
    if name.first() == Some(&b'L') && name.contains(&b'/') {
        name.remove(0);
    }
}

fn is_go_method(name: &[u8]) -> bool {
    memmem::find(name, b".(").is_some_and(|at| memmem::find(&name[at + 2..], b").").is_some())
}

fn arguments_at(name: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'(', name).find(|at| !name[at + 1..].starts_with(b"anonymous namespace)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tidied(name: &str, tidy: fn(&mut Vec<u8>)) -> String {
        let mut name = name.as_bytes().to_vec();
        tidy(&mut name);
        String::from_utf8(name).unwrap()
    }

    #[test]
    fn arguments_go_and_go_methods_stay() {
        let generic = |name| tidied(name, tidy_generic);
        assert_eq!(generic("v8::Call(v8::Isolate*, bool)"), "v8::Call");
        assert_eq!(
            generic("v8::(anonymous namespace)::Invoke(int)"),
            "v8::(anonymous namespace)::Invoke"
        );
        assert_eq!(generic("net/http.(*Client).Do"), "net/http.(*Client).Do");
        assert_eq!(generic("RegExp:[&<>\\\"\\']"), "RegExp:[&<>\\\\]");
        assert_eq!(generic("a;b"), "a:b");
    }

    #[test]
    fn java_classes_lose_their_mark() {
        assert_eq!(tidied("Lorg/x/Y:.call", tidy_java), "org/x/Y:.call");
        assert_eq!(tidied("Loop", tidy_java), "Loop");
    }
}
