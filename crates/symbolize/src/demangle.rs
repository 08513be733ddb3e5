//! C++ and Rust names as people write them, without arguments.

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// Mangled names nest; longer ones are shown as they are.
const LONGEST_MANGLED_BYTES: usize = 8192;

/// The readable form of a symbol, or the symbol itself.
pub(crate) fn demangle(symbol: &str) -> String {
    // `@GLIBC_2.34`-like versions and compilers' clone marks are not part of the name.
    let base = symbol.split('@').next().unwrap_or(symbol);
    if base.len() > LONGEST_MANGLED_BYTES {
        return base.to_owned();
    }
    if (base.starts_with("_R") || (base.starts_with("_ZN") && base.contains("17h")))
        && let Ok(name) = rustc_demangle::try_demangle(base)
    {
        return format!("{name:#}");
    }
    if base.starts_with("_Z") {
        let parse = ParseOptions::default().recursion_limit(96);
        let print = DemangleOptions::default().no_params().no_return_type();
        if let Ok(parsed) = Symbol::new_with_options(base, &parse)
            && let Ok(name) = parsed.demangle_with_options(&print)
        {
            return name;
        }
    }
    base.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_readable() {
        assert_eq!(
            demangle(
                "_ZN2v88internal4Heap14CollectGarbageENS0_15AllocationSpaceENS0_23GarbageCollectionReasonENS_15GCCallbackFlagsE"
            ),
            "v8::internal::Heap::CollectGarbage"
        );
        assert_eq!(
            demangle("_ZN4core3fmt5write17h0123456789abcdefE"),
            "core::fmt::write"
        );
        assert_eq!(demangle("uv_run"), "uv_run");
        assert_eq!(demangle("_Zgarbage"), "_Zgarbage");
        assert_eq!(demangle("memcpy@@GLIBC_2.14"), "memcpy");
    }
}
