//! C++ and Rust names as people write them, without arguments.

use std::fmt;

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// Mangled names nest; longer ones are shown as they are.
const LONGEST_MANGLED_BYTES: usize = 8192;
/// A mangled name can refer to its own parts, so that each doubles the one before: a longer name is
/// shown as it is.
const LONGEST_NAME_BYTES: usize = 64 << 10;

/// How deep names may nest: those of Turboshaft's reducers, templates of templates, need 100 and more.
const MAX_DEPTH: u32 = 256;

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
        let parse = ParseOptions::default().recursion_limit(MAX_DEPTH);
        let print = DemangleOptions::default().no_params().no_return_type();
        let mut name = BoundedName::default();
        if let Ok(parsed) = Symbol::new_with_options(base, &parse)
            && parsed.structured_demangle(&mut name, &print).is_ok()
        {
            return name.0;
        }
    }
    base.to_owned()
}

/// A name that refuses to become too long.
#[derive(Debug, Default)]
struct BoundedName(String);

impl fmt::Write for BoundedName {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST_NAME_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
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
        let nested = "_ZN2v88internal8compiler10turboshaft12GraphVisitorINS2_29StructuralOptimizationReducerINS2_25LateEscapeAnalysisReducerINS2_29PretenuringPropagationReducerINS2_25MemoryOptimizationReducerINS2_26MachineOptimizationReducerINS2_21EmitProjectionReducerINS2_21ValueNumberingReducerINS2_18GenericReducerBaseINS2_13TSReducerBaseINS2_11StackBottomINS_4base3tmp5list1IJS3_S4_S5_S6_S7_S8_SA_SC_EEEEEEEEEEEEEEEEEEEEEEEE14VisitAllBlocksILb0EEEvv";
        let name = demangle(nested);
        assert!(name.starts_with("v8::internal::compiler::turboshaft::GraphVisitor<"));
        assert!(name.ends_with("::VisitAllBlocks<false>"), "{name}");
        assert_eq!(demangle("uv_run"), "uv_run");
        assert_eq!(demangle("_Zgarbage"), "_Zgarbage");
        assert_eq!(demangle("memcpy@@GLIBC_2.14"), "memcpy");
    }

    #[test]
    fn a_name_whose_parts_double_stays_as_it_is() {
        // Each part is used twice by the one after it; S0_ is `a`, S2_ `b<a, a>`, S4_ the next.
        let doubled = |times: usize| {
            let parts = (0..times).map(|part| {
                let before = base36(2 * part);
                format!("1bIS{before}_S{before}_E")
            });
            format!("_Z1fI1a{}Ev", parts.collect::<String>())
        };
        assert_eq!(
            demangle(&doubled(2)),
            "f<a, b<a, a>, b<b<a, a>, b<a, a> > >"
        );
        for times in [20, 40, 200] {
            let bomb = doubled(times);
            let name = demangle(&bomb);
            assert!(name.len() <= LONGEST_NAME_BYTES, "{} bytes", name.len());
        }
    }

    fn base36(number: usize) -> String {
        let digit = |digit: usize| char::from(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[digit]);
        match number / 36 {
            0 => digit(number).to_string(),
            high => format!("{}{}", digit(high), digit(number % 36)),
        }
    }
}
