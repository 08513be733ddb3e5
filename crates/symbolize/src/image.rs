//! A mapped file: its unwind rules while samples come in, its names at the end.

use std::os::unix::fs::FileExt;
use std::rc::Rc;

use nodespy_model::{
    FastMap, FileIdentity, ImageBytes, ImageRefused, LibuvAddresses, Mapping, Origin,
};

use crate::elf::{
    Elf, SymbolIndex, Symbols, data_and_function_symbols, is_debug_file_of, plt_entries,
};
use crate::embedded_builtins::{self, Builtin};
use crate::go_functions;
use crate::image_budget::{ImageBudget, OpenFile};
use crate::inlines::Inlines;
use crate::libuv;
use crate::unwind::cfi::{Cfi, Rule};
use crate::v8::{Layout, bytecode_sizes, unexported};
use crate::x86_64::epilogue::{Epilogue, INSTRUCTION_BYTES, epilogue};
use crate::x86_64::{CALL_BYTES, DIRECT_CALL_BYTES, call_distance, ends_with_call};

mod open;

/// What V8 exports of itself for debuggers.
const V8_CONSTANT: &str = "v8dbg_";
/// The virtual table of `node::worker::Worker`.
const WORKER_TABLE: &str = "_ZTVN4node6worker6WorkerE";
const V8_VERSION: &str = "_ZN2v88internal7Version6";
const V8_BYTECODE_SIZES: &str = "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE";

/// How many unwind rules of one image are remembered before the memory is given back.
const RULE_LIMIT: usize = 1 << 20;

/// How much code is read at a time when it is followed.
const CODE_WINDOW_BYTES: usize = 2048;

/// A file that is mapped as code in some process.
#[derive(Debug)]
pub(crate) struct Image {
    /// The last part of its path, for `[node+0x1234]`.
    pub(crate) name: String,
    /// Where it was first seen, or again since it was closed.
    mapping: Mapping,
    bytes: Option<ImageBytes>,
    /// Kept while the bytes are those of an open file.
    open: Option<OpenFile>,
    /// Which file it was, if that was closed to make room for others. While it is, nothing is final that was not found in it.
    closed: Option<open::Closed>,
    elf: Option<Elf>,
    /// Read when the first frame is unwound: a recording that comes with chains needs none.
    cfi: Option<Option<Cfi>>,
    rules: FastMap<u64, Rule>,
    /// Whether a call ends at an offset of the file.
    calls: FastMap<u64, bool>,
    /// What functions without tables still do before they return.
    epilogues: FastMap<u64, Option<Epilogue>>,
    symbols: Option<Symbols>,
    /// Whether they were read while its file could not be opened again.
    lacks_symbols: bool,
    inlines: Option<Option<Inlines>>,
    /// Symbols of libuv, known with the layout.
    libuv: Vec<(String, u64, u64)>,
    /// None in it when there is no V8.
    layout: Option<Option<Result<Rc<Layout>, String>>>,
    /// Whether this is musl's libc, which is its dynamic loader too.
    pub(crate) is_musl: bool,
    budget: ImageBudget,
    /// Why it has no names, to be said if a frame of it is seen.
    pub(crate) refused: Option<String>,
}

/// What a V8 exports of itself.
#[derive(Debug)]
pub(crate) struct V8Exports {
    /// Major and minor.
    pub(crate) version: (u32, u32),
    /// Without their `v8dbg_`.
    pub(crate) constants: FastMap<String, i32>,
    /// How many bytes each bytecode takes; empty when not found.
    pub(crate) bytecode_sizes: Vec<u8>,
    /// Where the virtual table of Node's workers is linked to.
    pub(crate) worker_table: Option<u64>,
    /// Symbols of libuv, which is linked into most files with a V8.
    pub(crate) libuv: Vec<(String, u64, u64)>,
}

/// What makes two mappings the same image.
pub(crate) type ImageKey = (String, FileIdentity);

impl Image {
    /// Opens the file behind a mapping through `origin`.
    pub(crate) fn open(mapping: &Mapping, origin: &dyn Origin) -> Self {
        Self::of(mapping, origin.open_image(mapping))
    }

    /// Opens the file that may be behind a mapping, for its names only.
    pub(crate) fn open_candidate(mapping: &Mapping, origin: &dyn Origin) -> Self {
        Self::of(mapping, origin.open_candidate(mapping))
    }

    /// The same at the cost of a budget that others share.
    pub(crate) fn within(self, budget: &ImageBudget) -> Self {
        Self {
            open: open::counted(self.bytes.as_ref(), budget),
            budget: budget.clone(),
            ..self
        }
    }

    /// Stands where an image was that is not needed any more: it has neither rules nor names.
    pub(crate) fn absent() -> Self {
        Self::empty(String::new(), nowhere())
    }

    /// An image with nothing but unwind tables.
    #[cfg(test)]
    pub(crate) fn with_tables(cfi: Cfi) -> Self {
        Self {
            cfi: Some(Some(cfi)),
            ..Self::absent()
        }
    }

    /// The same with another name.
    #[cfg(test)]
    pub(crate) fn named(self, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            is_musl: is_musl(name),
            ..self
        }
    }

    /// The same with a V8.
    #[cfg(test)]
    pub(crate) fn with_v8(self, layout: Layout) -> Self {
        Self {
            layout: Some(Some(Ok(Rc::new(layout)))),
            ..self
        }
    }

    fn empty(name: String, mapping: Mapping) -> Self {
        Self {
            is_musl: is_musl(&name),
            name,
            mapping,
            bytes: None,
            open: None,
            closed: None,
            elf: None,
            cfi: None,
            rules: FastMap::default(),
            calls: FastMap::default(),
            epilogues: FastMap::default(),
            symbols: None,
            lacks_symbols: false,
            inlines: None,
            libuv: Vec::new(),
            layout: None,
            budget: ImageBudget::default(),
            refused: None,
        }
    }

    fn of(mapping: &Mapping, opened: Result<ImageBytes, ImageRefused>) -> Self {
        let name = mapping
            .path
            .trim_end_matches(" (deleted)")
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        let mut image = Self::empty(name, mapping.clone());
        match opened {
            Ok(mut bytes) => {
                image.elf = Elf::read(&mut bytes);
                image.bytes = Some(bytes);
                if image.elf.is_none() {
                    image.refused = Some("it is not an ELF file".to_owned());
                }
            }
            Err(refused) => image.refused = Some(refused.why),
        }
        image
    }

    /// Offset and size of each code segment in the file.
    pub(crate) fn code_segments(&self) -> Vec<(u64, u64)> {
        self.elf.as_ref().map_or_else(Vec::new, Elf::code_segments)
    }

    /// The address an offset of the file is linked to; the offset itself when not known.
    pub(crate) fn address_of_offset(&self, file_offset: u64) -> u64 {
        self.elf
            .as_ref()
            .and_then(|elf| elf.address_of_offset(file_offset))
            .unwrap_or(file_offset)
    }

    /// How far from where it was linked to a mapping of it lies.
    pub(crate) fn bias(&self, mapping: &Mapping) -> u64 {
        let linked = self.address_of_offset(mapping.file_offset);
        mapping.start.wrapping_sub(linked)
    }

    /// How to find the caller of the code at `address`.
    pub(crate) fn rule_at(&mut self, address: u64) -> Rule {
        if let Some(rule) = self.rules.get(&address) {
            return *rule;
        }
        let Some(cfi) = self.cfi() else {
            return Rule::NoTable;
        };
        let rule = cfi.rule_at(address);
        if self.rules.len() >= RULE_LIMIT {
            self.rules.clear();
        }
        self.rules.insert(address, rule);
        rule
    }

    /// The unwind tables, for rules that have to be evaluated each time.
    pub(crate) fn cfi(&mut self) -> Option<&mut Cfi> {
        if self.cfi.is_none() && self.closed.is_none() {
            let pool = &self.budget.tables;
            let bytes = self.bytes.as_mut();
            let sections = bytes.and_then(|bytes| Elf::read_unwind(bytes, pool));
            self.cfi = Some(sections.map(Cfi::new));
            self.refused = self.refused.take().or_else(|| pool.take_refusal());
        }
        self.cfi.as_mut()?.as_mut()
    }

    /// Where things are in the objects of the V8 in this image; none when it holds no V8, an error
    /// when it holds one that can't be read.
    pub(crate) fn v8_layout(&mut self) -> Option<Result<Rc<Layout>, String>> {
        if self.layout.is_none() && self.closed.is_none() {
            self.layout = Some(self.read_layout());
        }
        self.layout.clone().flatten()
    }

    /// Where libuv is in a process that has this image loaded so far from where it was linked to; to
    /// be asked when the layout of its V8 is known.
    pub(crate) fn libuv(&self, bias: u64) -> Option<LibuvAddresses> {
        libuv::addresses(&self.libuv, bias)
    }

    /// Whether a V8 is in this image, one that can be read or not.
    pub(crate) fn has_v8(&mut self) -> bool {
        self.v8_layout().is_some()
    }

    fn read_layout(&mut self) -> Option<Result<Rc<Layout>, String>> {
        let (elf, bytes) = (self.elf.as_ref()?, self.bytes.as_mut()?);
        let exports = v8_exports(elf, bytes).or_else(|| unexported::read(elf, bytes))?;
        self.libuv = exports.libuv;
        let constant = |name: &str| exports.constants.get(name).copied();
        let bytecode_sizes = match exports.bytecode_sizes.is_empty() {
            true => bytecode_sizes::find(elf, bytes),
            false => exports.bytecode_sizes,
        };
        let layout = Layout::new(exports.version, &constant, bytecode_sizes);
        Some(layout.map(|layout| {
            Rc::new(Layout {
                worker_table: exports.worker_table,
                ..layout
            })
        }))
    }

    /// What the function at `address` still does before it returns, by its code.
    pub(crate) fn epilogue_at(&mut self, address: u64) -> Option<Epilogue> {
        if let Some(known) = self.epilogues.get(&address) {
            return *known;
        }
        if self.closed.is_some() {
            return None;
        }
        let found = self.read_epilogue(address);
        if self.epilogues.len() >= RULE_LIMIT {
            self.epilogues.clear();
        }
        self.epilogues.insert(address, found);
        found
    }

    fn read_epilogue(&self, address: u64) -> Option<Epilogue> {
        let (elf, bytes) = (self.elf.as_ref()?, self.bytes.as_ref()?);
        let mut start = 0;
        let mut read: Vec<u8> = Vec::new();
        epilogue(address, &mut |at| {
            let inside = |start: u64, read: &[u8]| {
                let inside = usize::try_from(at.checked_sub(start)?).ok()?;
                let bytes = read.get(inside..inside.checked_add(INSTRUCTION_BYTES)?)?;
                bytes.try_into().ok()
            };
            inside(start, &read).or_else(|| {
                (start, read) = (at, elf.read_at(bytes, at, CODE_WINDOW_BYTES)?);
                inside(start, &read)
            })
        })
    }

    /// Whether the instruction that ends at this offset of the file is a call.
    pub(crate) fn is_call_before(&mut self, file_offset: u64) -> bool {
        let Some(ImageBytes::File(file)) = &self.bytes else {
            return false;
        };
        if let Some(&known) = self.calls.get(&file_offset) {
            return known;
        }
        let mut before = [0u8; CALL_BYTES];
        let is_call = file_offset
            .checked_sub(before.len() as u64)
            .is_some_and(|start| file.read_exact_at(&mut before, start).is_ok())
            && ends_with_call(&before);
        if self.calls.len() >= RULE_LIMIT {
            self.calls.clear();
        }
        self.calls.insert(file_offset, is_call);
        is_call
    }

    /// The address called by the instruction that ends at an offset of the file, if it is a call
    /// with the address in it.
    pub(crate) fn called_before(&self, file_offset: u64) -> Option<u64> {
        let Some(ImageBytes::File(file)) = &self.bytes else {
            return None;
        };
        let mut call = [0u8; DIRECT_CALL_BYTES];
        let start = file_offset.checked_sub(call.len() as u64)?;
        file.read_exact_at(&mut call, start).ok()?;
        let distance = call_distance(call)?;
        Some(
            self.address_of_offset(file_offset)
                .wrapping_add_signed(distance),
        )
    }

    /// Reads what names need: to be called before they are asked for.
    pub(crate) fn load_symbols(&mut self, origin: &dyn Origin) {
        if self.symbols.is_none() || self.lacks_symbols {
            self.reopen(origin, None);
            if self.lacks_symbols && self.closed.is_some() {
                return;
            }
            self.lacks_symbols = self.closed.is_some();
            self.symbols = Some(self.read_symbols(origin));
            let refusal = || self.budget.tables.take_refusal();
            self.refused = self.refused.take().or_else(refusal);
        }
    }

    /// Reads the unwind tables where an address has no symbol and they have to tell its function.
    pub(crate) fn load_function_of(&mut self, address: u64, origin: &dyn Origin) {
        if self.symbol_at(address).is_none() {
            self.reopen_for_tables(origin, None);
            self.cfi();
        }
    }

    /// Reads what inlined functions need: to be called before they are asked for.
    pub(crate) fn load_inlines(&mut self, origin: &dyn Origin) {
        if self.inlines.is_none() {
            self.reopen(origin, None);
            let inlines = self.read_inlines(origin);
            if inlines.is_some() || self.closed.is_none() {
                self.inlines = Some(inlines);
            }
        }
    }

    /// The symbol at `address`, which is a byte before the return address in a caller. V8's
    /// deoptimizer makes frames that return to the first instruction of a builtin: before that is
    /// padding, which no symbol covers.
    pub(crate) fn symbol_at(&self, address: u64) -> Option<SymbolIndex> {
        let symbols = self.symbols.as_ref()?;
        let is_of_function = |symbol: &SymbolIndex| match symbols.label_address(*symbol) {
            // A label names the function it is in, not those that follow.
            Some(label) => self.function_start(address).is_none_or(|at| at <= label),
            None => true,
        };
        let found = symbols.at(address).filter(is_of_function);
        found.or_else(|| symbols.starting_at(address.checked_add(1)?))
    }

    /// Where the function at `address` starts by the unwind tables, which `strip` leaves. To be
    /// asked when those have been read.
    pub(crate) fn function_start(&self, address: u64) -> Option<u64> {
        self.cfi.as_ref()?.as_ref()?.function_start(address)
    }

    /// The name of a symbol, as people write it.
    pub(crate) fn symbol_name(&self, symbol: SymbolIndex) -> Option<Rc<str>> {
        self.symbols.as_ref()?.name(symbol)
    }

    /// The functions inlined at `address`, outermost first.
    pub(crate) fn inlined_at(&self, address: u64) -> Vec<String> {
        match &self.inlines {
            Some(Some(inlines)) => inlines.at(address),
            _ => Vec::new(),
        }
    }

    fn read_inlines(&mut self, origin: &dyn Origin) -> Option<Inlines> {
        let build_id = &self.elf.as_ref()?.build_id;
        let separate = origin
            .open_debug_file(self.mapping.pid, build_id)
            .filter(|file| is_debug_file_of(file, build_id))
            .and_then(|file| Inlines::read(&file, &self.budget.debug));
        separate.or_else(|| match &self.bytes {
            Some(ImageBytes::File(file)) => Inlines::read(file, &self.budget.debug),
            _ => None,
        })
    }

    fn read_symbols(&mut self, origin: &dyn Origin) -> Symbols {
        let pool = &self.budget.tables;
        let build_id = self.elf.as_ref().map_or(&[][..], |elf| &elf.build_id);
        let separate = origin
            .open_debug_file(self.mapping.pid, build_id)
            .map(|file| Symbols::read_debug_file(file, build_id, pool))
            .filter(|symbols| !symbols.is_empty());
        let mut symbols = separate
            .or_else(|| Some(Symbols::read(self.bytes.as_mut()?, pool)))
            .unwrap_or_default();
        if let Some(bytes) = &mut self.bytes {
            symbols.add_functions(&plt_entries(bytes));
        }
        if !symbols.is_whole
            && let Some(builtins) = self.read_builtins()
        {
            symbols.add_functions(&builtins);
        }
        if !symbols.is_whole
            && let Some(functions) = self.bytes.as_mut().and_then(go_functions::read)
        {
            symbols.add_functions(&functions);
        }
        symbols
    }

    /// The builtins of the V8 in this image, as it has them for itself.
    fn read_builtins(&mut self) -> Option<Vec<Builtin>> {
        if !self.has_v8() {
            return None;
        }
        embedded_builtins::read(self.elf.as_ref()?, self.bytes.as_mut()?)
    }
}

fn is_musl(name: &str) -> bool {
    let starts = ["ld-musl-", "libc.musl-"];
    starts.iter().any(|start| name.starts_with(start))
}

/// What the V8 in a file exports of itself; none when there is no V8.
pub(crate) fn v8_exports(elf: &Elf, bytes: &mut ImageBytes) -> Option<V8Exports> {
    let mut symbols = data_and_function_symbols(bytes, |name| {
        name.starts_with(V8_CONSTANT)
            || name.starts_with(V8_VERSION)
            || [V8_BYTECODE_SIZES, WORKER_TABLE].contains(&name)
            || libuv::is_of_libuv(name)
    });
    let ImageBytes::File(file) = bytes else {
        return None;
    };
    let integer = |address: u64| -> Option<i32> {
        let mut bytes = [0; 4];
        // What is not in the file lies in memory that starts as zero.
        if let Some(offset) = elf.offset_of_address(address) {
            file.read_exact_at(&mut bytes, offset).ok()?;
        }
        Some(i32::from_le_bytes(bytes))
    };
    let find = |name: &str| symbols.iter().find(|(known, ..)| known == name);
    let version = |part| {
        let (_, address, _) = find(&format!("{V8_VERSION}{part}_E"))?;
        u32::try_from(integer(*address)?).ok()
    };
    let version = (version("major")?, version("minor")?);
    let sizes = find(V8_BYTECODE_SIZES)
        .filter(|(_, _, size)| *size <= 3 * 256)
        .and_then(|(_, address, size)| {
            let mut bytes = vec![0; *size as usize];
            let offset = elf.offset_of_address(*address)?;
            file.read_exact_at(&mut bytes, offset).ok()?;
            Some(bytes)
        });
    let mut constants = FastMap::default();
    for (name, address, _) in &symbols {
        if let Some(name) = name.strip_prefix(V8_CONSTANT)
            && let Some(value) = integer(*address)
        {
            // The first table to name a constant is the one that survives `strip`.
            constants.entry(name.to_owned()).or_insert(value);
        }
    }
    let worker_table = find(WORKER_TABLE).map(|(_, address, _)| *address);
    symbols.retain(|(name, ..)| libuv::is_of_libuv(name));
    Some(V8Exports {
        version,
        constants,
        bytecode_sizes: sizes.unwrap_or_default(),
        worker_table,
        libuv: symbols,
    })
}

/// The mapping of what is nowhere.
fn nowhere() -> Mapping {
    Mapping {
        pid: 0,
        start: 0,
        end: 0,
        file_offset: 0,
        path: String::new(),
        file: FileIdentity::default(),
        time: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::symbols;
    use crate::unwind::cfi::tests::tables;

    /// Symbols, and tables of functions from 0x1000 to 0x1100 and from 0x2000 to 0x2010.
    fn image(of: &[(&str, u64, u64)]) -> Image {
        Image {
            symbols: Some(symbols(of)),
            ..Image::with_tables(tables())
        }
    }

    fn name_at(image: &Image, address: u64) -> Option<String> {
        let name = image.symbol_name(image.symbol_at(address)?)?;
        Some(name.to_string())
    }

    #[test]
    fn a_return_address_that_starts_a_builtin_belongs_to_it() {
        let image = image(&[("Before", 0x4000, 0x30), ("Continue", 0x4040, 0x20)]);
        assert_eq!(name_at(&image, 0x402f).as_deref(), Some("Before"));
        assert_eq!(name_at(&image, 0x403e), None);
        assert_eq!(name_at(&image, 0x403f).as_deref(), Some("Continue"));
        assert_eq!(name_at(&image, u64::MAX), None);
        // A call may be the last instruction of a function.
        let image = self::image(&[("calls", 0x4000, 0x40), ("next", 0x4040, 0x20)]);
        assert_eq!(name_at(&image, 0x403f).as_deref(), Some("calls"));
    }

    #[test]
    fn a_label_does_not_name_the_functions_behind_its_own() {
        let image = image(&[("label", 0x1010, 0)]);
        assert_eq!(name_at(&image, 0x1080).as_deref(), Some("label"));
        assert_eq!(name_at(&image, 0x2008), None);
        // Where no table covers the code, nothing speaks against it.
        assert_eq!(name_at(&image, 0x1200).as_deref(), Some("label"));
    }
}
