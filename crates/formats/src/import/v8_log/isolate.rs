//! One isolate of V8 as its log describes it: code, functions, libraries and scripts, and what an
//! address stands for right now.

use nodespy_model::{FastMap, Tier};

use super::code_map::CodeMap;
use super::known_addresses::KnownAddresses;
use super::source::{Script, Source, UNKNOWN_CODE};

/// How much memory V8 11 sets aside for code on x64 (checked on node 20.20.2, V8 11.3).
const CODE_RANGE_BYTES: u64 = 512 << 20;
/// To how many bytes V8 11 aligns the copy of its builtins at the end of that.
const BUILTINS_ALIGNMENT: u64 = 256 << 10;

/// What kind of code V8 made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeKind {
    /// A function of JavaScript or WebAssembly, or the top level of a module.
    Function,
    /// The top level of a script.
    Script,
    RegExp,
    BytecodeHandler,
    /// Builtins, stubs, inline caches.
    Builtin,
}

/// A code object.
#[derive(Debug)]
pub(super) struct Code<'a> {
    pub(super) kind: CodeKind,
    pub(super) tier: Tier,
    /// As the log has it, escaped.
    pub(super) name: &'a [u8],
    pub(super) source: Option<Box<Source<'a>>>,
}

/// A file that is mapped as code.
#[derive(Debug)]
pub(super) struct Library {
    pub(super) path: String,
    pub(super) start: u64,
    /// Where its code segments end.
    pub(super) ends: Vec<u64>,
}

/// What an address stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// This far into that code.
    Code(u32, u64),
    /// That library.
    Library(u32),
    Unknown,
}

/// The same without saying which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaceKind {
    Code,
    Library,
    Unknown,
}

/// What is known of an isolate.
#[derive(Debug, Default)]
pub(super) struct Isolate<'a> {
    pub(super) v8_version: Option<(u64, u64)>,
    /// Names are in quotes.
    pub(super) has_quotes: bool,
    code: CodeMap<u32>,
    /// The newest code of each function, by the address of its SharedFunctionInfo.
    functions: FastMap<u64, u32>,
    libraries: CodeMap<u32>,
    pub(super) scripts: FastMap<u32, Script<'a>>,
    /// Callers that were looked up, as long as [`Self::place`] still says the same of them.
    pub(super) known: KnownAddresses,
    code_range: Option<u64>,
    /// The lowest and the highest address of a builtin.
    builtins: Option<(u64, u64)>,
    newest: Option<(u64, u32)>,
}

impl<'a> Isolate<'a> {
    /// Code `id` was made at an address, for the function at `function`.
    pub(super) fn add_code(
        &mut self,
        id: u32,
        kind: CodeKind,
        (start, size): (u64, u64),
        function: Option<u64>,
    ) {
        self.put_code(id, start, size);
        self.newest = Some((start, id));
        if let Some(function) = function {
            self.functions.insert(function, id);
        }
        if matches!(kind, CodeKind::Builtin | CodeKind::BytecodeHandler) {
            let end = start.saturating_add(size);
            let (low, high) = self.builtins.unwrap_or((start, end));
            self.builtins = Some((low.min(start), high.max(end)));
            // It may run elsewhere, as may all others after it.
            self.known.forget_outside(0, u64::MAX);
        }
    }

    fn put_code(&mut self, id: u32, start: u64, size: u64) {
        let known = &mut self.known;
        known.forget_outside(start, start.saturating_add(size));
        self.code
            .insert(start, size, id, |gone| known.forget_code(gone));
    }

    /// Code was moved; false if none was there.
    pub(super) fn move_code(&mut self, from: u64, to: u64) -> bool {
        let Some((id, size)) = self.remove_code(from) else {
            return false;
        };
        self.put_code(id, to, size);
        true
    }

    /// Code is gone: which, and how large it was.
    pub(super) fn remove_code(&mut self, start: u64) -> Option<(u32, u64)> {
        self.newest = None;
        let (id, size) = self.code.remove(start)?;
        self.known.forget_code(id);
        Some((id, size))
    }

    pub(super) fn move_function(&mut self, from: u64, to: u64) {
        if let Some(code) = self.functions.remove(&from) {
            self.functions.insert(to, code);
        }
    }

    /// The code that starts at an address.
    pub(super) fn code_starting_at(&self, start: u64) -> Option<u32> {
        match self.newest {
            Some((newest, id)) if newest == start => Some(id),
            _ => self.code.starting_at(start),
        }
    }

    /// The newest code of a function, or [`UNKNOWN_CODE`].
    pub(super) fn code_of_function(&self, function: u64) -> u32 {
        let code = self.functions.get(&function);
        code.copied().unwrap_or(UNKNOWN_CODE)
    }

    /// Library `id` is mapped from `start` to `end`.
    pub(super) fn add_library(&mut self, id: u32, start: u64, end: u64) {
        self.known.forget_all();
        self.libraries
            .insert(start, end.saturating_sub(start), id, |_| {});
    }

    /// V8 set memory aside for code.
    pub(super) fn set_code_range(&mut self, start: u64) {
        self.known.forget_all();
        self.code_range = Some(start);
    }

    /// What an address stands for right now.
    pub(super) fn place(&self, address: u64) -> Place {
        let code = self.code.at(address);
        self.place_of(address, code)
    }

    /// The same, and whether it is outside of all code, though it may be a copy of some.
    pub(super) fn place_and_outside(&self, address: u64) -> (Place, bool) {
        let code = self.code.at(address);
        (self.place_of(address, code), code.is_none())
    }

    /// What an address stands for where there is this code, and how far into it the address is.
    fn place_of(&self, address: u64, code: Option<(u32, u64)>) -> Place {
        let code = code.or_else(|| {
            let original = self.original_of_builtin(address)?;
            self.code.at(original)
        });
        if let Some((id, offset)) = code {
            return Place::Code(id, offset);
        }
        match self.libraries.at(address) {
            Some((library, _)) => Place::Library(library),
            None => Place::Unknown,
        }
    }

    /// Where a builtin was logged that runs at `address`. V8 11 runs a copy of its builtins at the
    /// end of the memory for code, and logs where the original is: inside the program.
    fn original_of_builtin(&self, address: u64) -> Option<u64> {
        let (Some((11, _)), Some(range), Some((low, high))) =
            (self.v8_version, self.code_range, self.builtins)
        else {
            return None;
        };
        self.libraries.at(low)?;
        let end = range.checked_add(CODE_RANGE_BYTES)?;
        let copy = end.checked_sub(high - low)? / BUILTINS_ALIGNMENT * BUILTINS_ALIGNMENT;
        let offset = address.checked_sub(copy).filter(|_| address < end)?;
        low.checked_add(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtins_of_v8_11_run_where_they_were_copied_to() {
        let mut isolate = Isolate {
            v8_version: Some((11, 3)),
            ..Isolate::default()
        };
        isolate.add_library(0, 0x40_0000, 0x260_1000);
        isolate.set_code_range(0x7fb0_dafc_0000);
        // The first and the last builtin of node 20.20.2.
        isolate.add_code(7, CodeKind::Builtin, (0x18c_4000, 768), None);
        isolate.add_code(8, CodeKind::Builtin, (0x1a5_5a80, 56), None);
        assert_eq!(isolate.place(0x7fb0_fae0_0010), Place::Code(7, 16));
        assert_eq!(isolate.place(0x18c_4010), Place::Code(7, 16));
        assert_eq!(isolate.place(0x7fb0_fadf_ffff), Place::Unknown);
        isolate.v8_version = Some((12, 4));
        assert_eq!(isolate.place(0x7fb0_fae0_0010), Place::Unknown);
    }

    #[test]
    fn code_hides_the_library_it_is_in() {
        let mut isolate = Isolate::default();
        isolate.add_library(3, 0x1000, 0x9000);
        isolate.add_code(5, CodeKind::Builtin, (0x2000, 0x100), None);
        assert_eq!(isolate.place(0x2000), Place::Code(5, 0));
        assert_eq!(isolate.place(0x2100), Place::Library(3));
        assert_eq!(isolate.place(0x9000), Place::Unknown);
    }
}
