//! Names for raw frames, asked of each source in order.

use std::rc::Rc;

use nodespy_model::classify::{category_of_file, category_of_native};
use nodespy_model::{
    Category, FastMap, FrameIndex, FrameSpec, FunctionSpec, Mapping, NameSource, Nanoseconds,
    ProcessIndex, ProfileBuilder,
};

use super::jit_watch::JitWatch;
use super::{HeapWalk, RawFrame, Resolver, frame_at, plain_frame};
use crate::address_map::ImageId;
use crate::demangle::demangle;
use crate::elf::SymbolIndex;
use crate::jit::{self, JitNames};
use crate::kernel::KernelSymbols;
use crate::v8::{FunctionKind, JsFrame};

/// A map that grew by more than this while it was recorded is worth a remark.
const NOTABLE_GROWTH_BYTES: u64 = 1 << 20;
/// A map larger than this is worth a remark.
const NOTABLE_SIZE_BYTES: u64 = 256 << 20;

/// What a raw frame is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameName {
    /// At any time.
    Always(FrameIndex),
    /// At the time that was asked for.
    AtThisTime(FrameIndex),
}

/// The sources of names of one recording.
pub(super) struct Naming {
    jit: FastMap<ProcessIndex, JitNames>,
    /// Names that do not depend on the time, by the number of the frame.
    timeless: Vec<Option<FrameIndex>>,
    /// What is inlined into a frame, outermost first, by the number of the frame.
    inlined: FastMap<u32, Vec<FrameIndex>>,
    /// Readable names of symbols; none where it can't be read.
    demangled: FastMap<(ImageId, SymbolIndex), Option<String>>,
    /// Frames of symbols: a function has many addresses.
    by_symbol: FastMap<(ImageId, SymbolIndex), FrameIndex>,
    /// Frames of JIT code, by process, name and line.
    by_jit_name: FastMap<(ProcessIndex, u32, u32), FrameIndex>,
    refused: Vec<ImageId>,
    named: [u64; NameSource::ALL.len()],
    /// How many frames have the name of the last of several functions, which no time tells apart.
    undated: u64,
}

impl Naming {
    /// Gets ready to name `frames`: reads what the files of JIT names say of them.
    pub(super) fn begin(resolver: &mut Resolver, frames: &[RawFrame]) -> Self {
        let mut wanted: FastMap<ProcessIndex, Vec<u64>> = FastMap::default();
        for frame in frames {
            if let RawFrame::Jit(process, address) = frame {
                wanted.entry(*process).or_default().push(*address);
            }
        }
        open_only_jit_file(resolver, wanted.keys().copied());
        let mut jit = FastMap::default();
        for (process, mut addresses) in wanted {
            addresses.sort_unstable();
            addresses.dedup();
            let state = &mut resolver.processes[process.at()];
            let Some(watch) = &mut state.jit else {
                continue;
            };
            match jit::read(&mut watch.file, &addresses, &watch.marks) {
                Ok(names) => {
                    jit.insert(process, names);
                }
                Err(error) => resolver.notes.remark(format!(
                    "{} can't be read ({error}): JIT code of process {} has no names",
                    watch.file.path, state.about.pid
                )),
            }
        }
        Self {
            jit,
            timeless: Vec::new(),
            inlined: FastMap::default(),
            demangled: FastMap::default(),
            by_symbol: FastMap::default(),
            by_jit_name: FastMap::default(),
            refused: Vec::new(),
            named: [0; NameSource::ALL.len()],
            undated: 0,
        }
    }

    /// The frame for a raw frame by its number.
    pub(super) fn name(
        &mut self,
        resolver: &mut Resolver,
        number: u32,
        time: Nanoseconds,
        builder: &mut ProfileBuilder,
    ) -> FrameName {
        let at = number as usize;
        if let Some(Some(known)) = self.timeless.get(at) {
            return FrameName::Always(*known);
        }
        let (frame, is_stable) = self.frame(resolver, resolver.frames[at], time, builder);
        if !is_stable {
            return FrameName::AtThisTime(frame);
        }
        if self.timeless.len() <= at {
            self.timeless.resize(resolver.frames.len(), None);
        }
        self.timeless[at] = Some(frame);
        if let (true, RawFrame::Image(image, address)) = (resolver.has_inlines, resolver.frames[at])
        {
            self.add_inlined(resolver, number, (image, address), builder);
        }
        FrameName::Always(frame)
    }

    /// What is inlined into a frame that has a name.
    pub(super) fn inlined(&self, number: u32) -> &[FrameIndex] {
        match self.inlined.is_empty() {
            true => &[],
            false => self.inlined.get(&number).map_or(&[], Vec::as_slice),
        }
    }

    fn add_inlined(
        &mut self,
        resolver: &mut Resolver,
        number: u32,
        (image, address): (ImageId, u64),
        builder: &mut ProfileBuilder,
    ) {
        let opened = &mut resolver.images[image.0 as usize];
        let names = opened.inlined_at(address, &*resolver.origin);
        if names.is_empty() {
            return;
        }
        let frames = names.iter().map(|name| {
            builder.frame(FrameSpec {
                function: FunctionSpec {
                    name,
                    file: &opened.name,
                    category: category_of_native(name),
                    ..Default::default()
                },
                is_inlined: true,
                ..Default::default()
            })
        });
        self.inlined.insert(number, frames.collect());
    }

    /// The frame for a raw frame, and whether it is the same at any time.
    fn frame(
        &mut self,
        resolver: &mut Resolver,
        frame: RawFrame,
        time: Nanoseconds,
        builder: &mut ProfileBuilder,
    ) -> (FrameIndex, bool) {
        match frame {
            RawFrame::Kernel(address) => (self.kernel_frame(resolver, address, builder), true),
            RawFrame::Image(image, address) => {
                (self.image_frame(resolver, image, address, builder), true)
            }
            RawFrame::Jit(process, address) => self.jit_frame(process, address, time, builder),
            RawFrame::Js(process, frame) => (js_frame(resolver, process, frame, builder), true),
            RawFrame::UnknownJs => (
                constant_frame(builder, "[unknown]", Category::Unknown),
                true,
            ),
        }
    }

    fn kernel_frame(
        &mut self,
        resolver: &mut Resolver,
        address: u64,
        builder: &mut ProfileBuilder,
    ) -> FrameIndex {
        let kernel = kernel_symbols(resolver);
        let (name, module) = match kernel.at(address) {
            Some((name, module)) => (name.to_owned(), module),
            None => ("[kernel]".to_owned(), None),
        };
        let file = module.map_or_else(|| "[kernel]".to_owned(), |module| format!("[{module}]"));
        plain_frame(
            builder,
            FunctionSpec {
                name: &name,
                file: &file,
                category: Category::Kernel,
                ..Default::default()
            },
        )
    }

    fn image_frame(
        &mut self,
        resolver: &mut Resolver,
        image: ImageId,
        address: u64,
        builder: &mut ProfileBuilder,
    ) -> FrameIndex {
        let opened = &mut resolver.images[image.0 as usize];
        let symbol = opened.symbol_at(address, &*resolver.origin);
        let symbol = symbol.map(|symbol| (image, symbol));
        if let Some(known) = symbol.and_then(|symbol| self.by_symbol.get(&symbol)) {
            return *known;
        }
        let (name, module) = self.image_name(resolver, image, address);
        let category = if name.starts_with('[') {
            Category::Unknown
        } else {
            category_of_native(&name)
        };
        let frame = plain_frame(
            builder,
            FunctionSpec {
                name: &name,
                file: &module,
                category,
                ..Default::default()
            },
        );
        // Where the name can't be read, every address has a name of its own.
        let named = symbol.filter(|symbol| matches!(self.demangled.get(symbol), Some(Some(_))));
        if let Some(symbol) = named {
            self.by_symbol.insert(symbol, frame);
        }
        frame
    }

    /// The readable name of an address of an image, and the image's own name.
    fn image_name(
        &mut self,
        resolver: &mut Resolver,
        image: ImageId,
        address: u64,
    ) -> (String, String) {
        let opened = &mut resolver.images[image.0 as usize];
        let module = opened.name.clone();
        if opened.refused.is_some() && !self.refused.contains(&image) {
            self.refused.push(image);
        }
        let symbol = opened.symbol_at(address, &*resolver.origin);
        let name = symbol.and_then(|symbol| {
            let demangled = self.demangled.entry((image, symbol));
            let name =
                demangled.or_insert_with(|| opened.symbol_name(symbol).map(|name| demangle(&name)));
            name.clone()
        });
        let name =
            name.unwrap_or_else(|| format!("[{}+0x{address:x}]", module.trim_matches(['[', ']'])));
        (name, module)
    }

    fn jit_frame(
        &mut self,
        process: ProcessIndex,
        address: u64,
        time: Nanoseconds,
        builder: &mut ProfileBuilder,
    ) -> (FrameIndex, bool) {
        let unknown = FunctionSpec {
            name: "[unknown]",
            category: Category::Unknown,
            ..Default::default()
        };
        let Some(names) = self.jit.get(&process) else {
            return (plain_frame(builder, unknown), true);
        };
        let is_stable = !names.is_reused(address);
        let Some(entry) = names.entry_at(address, time) else {
            return (plain_frame(builder, unknown), true);
        };
        let key = (process, entry.name, entry.line);
        let frame = *self.by_jit_name.entry(key).or_insert_with(|| {
            let name = &names.names[entry.name as usize];
            let function = FunctionSpec {
                name: &name.name,
                file: &name.file,
                line: name.line,
                column: name.column,
                category: name.category(),
            };
            frame_at(builder, function, name.tier, entry.line)
        });
        (frame, is_stable)
    }

    /// A name for one line of a terminal.
    pub(super) fn short_name(
        &mut self,
        resolver: &mut Resolver,
        frame: RawFrame,
    ) -> Option<String> {
        match frame {
            RawFrame::Kernel(address) => {
                let kernel = kernel_symbols(resolver);
                kernel.at(address).map(|(name, _)| name.to_owned())
            }
            RawFrame::Image(image, address) => Some(self.image_name(resolver, image, address).0),
            RawFrame::Jit(process, address) => {
                let (name, _) = self.jit.get(&process)?.at(address, Nanoseconds::MAX)?;
                Some(name.name.clone())
            }
            RawFrame::Js(process, frame) => {
                let HeapWalk::On(v8) = &resolver.processes[process.at()].v8 else {
                    return None;
                };
                Some(v8.functions.get(frame.function).name.clone())
            }
            RawFrame::UnknownJs => None,
        }
    }

    /// Counts how many JIT frames have names and says what should be known of the files.
    pub(super) fn report(mut self, resolver: &mut Resolver) {
        self.count_named(resolver);
        for (total, named) in resolver.notes.jit_named.iter_mut().zip(self.named) {
            *total += named;
        }
        if self.undated > 0 {
            let of_map = self.named[NameSource::PerfMap.at()].max(1);
            resolver.notes.remark(format!(
                "{:.1} % of the frames that a perf map names lie where it has several functions, one \
                 written over the other, and no times: the last one is shown",
                self.undated as f64 / of_map as f64 * 100.0
            ));
        }
        for image in &self.refused {
            let image = &resolver.images[image.0 as usize];
            if let Some(why) = &image.refused {
                let remark = format!("{} is not used for names: {why}", image.name);
                resolver.notes.remark(remark);
            }
        }
        for names in self.jit.values() {
            for remark in &names.remarks {
                resolver.notes.remark(remark.clone());
            }
        }
        for state in &resolver.processes {
            if let HeapWalk::On(v8) = &state.v8
                && let Some(remark) = v8.remark()
            {
                resolver.notes.remark(remark);
            }
            let Some(watch) = &state.jit else { continue };
            let size = watch
                .file
                .file
                .metadata()
                .map_or(0, |metadata| metadata.len());
            let before = watch.marks.first().map_or(size, |(_, size)| *size);
            let growth = size.saturating_sub(before);
            if growth >= NOTABLE_GROWTH_BYTES || size >= NOTABLE_SIZE_BYTES {
                resolver.notes.remarks.push(format!(
                    "{} grew by {:.1} MB during the recording and has {:.1} MB",
                    watch.file.path,
                    growth as f64 / 1e6,
                    size as f64 / 1e6
                ));
            }
        }
    }

    fn count_named(&mut self, resolver: &Resolver) {
        let source_of = |frame: &RawFrame| match frame {
            RawFrame::Jit(process, address) => self
                .jit
                .get(process)
                .filter(|names| names.entries.contains_key(address))
                .map(|names| (names.source.at(), names.is_undated(*address))),
            _ => None,
        };
        let sources: Vec<Option<(usize, bool)>> = resolver.frames.iter().map(source_of).collect();
        // How many samples pass through each raw stack, children added to parents.
        let mut passes = vec![0u64; resolver.paths.len()];
        for sample in &resolver.samples {
            if let Some(count) = passes.get_mut(sample.stack as usize) {
                *count += 1;
            }
        }
        for position in (0..passes.len()).rev() {
            let stack = resolver.paths.get(position as u32);
            if let Some((source, is_undated)) = sources[stack.frame as usize] {
                self.named[source] += passes[position];
                self.undated += if is_undated { passes[position] } else { 0 };
            }
            if let RawFrame::Js(process, frame) = resolver.frames[stack.frame as usize]
                && let HeapWalk::On(v8) = &resolver.processes[process.at()].v8
                && v8.functions.is_named_late(frame.function)
            {
                self.named[NameSource::HeapWalk.at()] += passes[position];
            }
            let count = passes[position];
            if let Some(parent) = passes.get_mut(stack.parent as usize) {
                *parent += count;
            }
        }
    }
}

/// Opens the file of JIT names that does not say whose it is, where only one process lacks one.
fn open_only_jit_file(resolver: &mut Resolver, wanted: impl Iterator<Item = ProcessIndex>) {
    let mut without = wanted.filter(|process| {
        let state = &mut resolver.processes[process.at()];
        if state.jit.is_none() {
            let pid = state.about.pid;
            state.jit = super::watch_jit_file(&*resolver.origin, pid, state.dump.as_ref());
        }
        state.jit.is_none()
    });
    if let (Some(only), None) = (without.next(), without.next()) {
        drop(without);
        let file = resolver.origin.open_only_jit_file();
        resolver.processes[only.at()].jit = file.map(JitWatch::new);
    }
}

/// The frame of a function that was found in V8's heap.
fn js_frame(
    resolver: &Resolver,
    process: ProcessIndex,
    frame: JsFrame,
    builder: &mut ProfileBuilder,
) -> FrameIndex {
    let HeapWalk::On(v8) = &resolver.processes[process.at()].v8 else {
        return constant_frame(builder, "[unknown]", Category::Unknown);
    };
    let facts = v8.functions.get(frame.function);
    let category = match facts.kind {
        FunctionKind::JavaScript => category_of_file(&facts.url),
        FunctionKind::Builtin => Category::Builtin,
        FunctionKind::RegExp => Category::RegExp,
        FunctionKind::Wasm => Category::Wasm,
        FunctionKind::Placeholder => Category::Unknown,
    };
    builder.frame(FrameSpec {
        function: FunctionSpec {
            name: &facts.name,
            file: &facts.url,
            line: facts.line,
            column: facts.column,
            category,
        },
        line: frame.line,
        column: frame.column,
        tier: frame.tier,
        is_inlined: frame.is_inlined,
    })
}

fn constant_frame(builder: &mut ProfileBuilder, name: &str, category: Category) -> FrameIndex {
    plain_frame(
        builder,
        FunctionSpec {
            name,
            category,
            ..Default::default()
        },
    )
}

/// The kernel's functions from a copy of its list, if that names every frame: the kernel takes a
/// sixth of the time of a small recording to write the list anew.
fn copied_kernel_symbols(resolver: &Resolver, kernel: Option<&Mapping>) -> Option<KernelSymbols> {
    let copy = resolver.origin.copied_kernel_symbols(kernel?)?;
    let mut symbols = KernelSymbols::read(copy).without_modules();
    if !symbols.move_to(&resolver.kernel_mappings) {
        return None;
    }
    let is_named = |frame: &RawFrame| match frame {
        RawFrame::Kernel(address) => symbols.is_sure_of(*address),
        _ => true,
    };
    resolver.frames.iter().all(is_named).then_some(symbols)
}

/// The kernel's functions, read once: the list has some 200,000 of them.
fn kernel_symbols(resolver: &mut Resolver) -> Rc<KernelSymbols> {
    if let Some(known) = &resolver.kernel {
        return Rc::clone(known);
    }
    let kernel = resolver
        .kernel_mappings
        .iter()
        .find(|mapping| mapping.path.starts_with("[kernel.kallsyms]"));
    if let Some(symbols) = copied_kernel_symbols(resolver, kernel) {
        let symbols = Rc::new(symbols);
        resolver.kernel = Some(Rc::clone(&symbols));
        return symbols;
    }
    let mut symbols = match resolver.origin.kernel_symbols(kernel) {
        Ok(table) => KernelSymbols::read(table),
        Err(refused) => {
            let remark = format!("kernel frames have no names: {}", refused.why);
            resolver.notes.remark(remark);
            KernelSymbols::default()
        }
    };
    symbols.move_to(&resolver.kernel_mappings);
    if symbols.is_hidden {
        resolver.notes.remark(
            "kernel frames have no names: the kernel hides its addresses (run as root with \
             kernel.kptr_restrict at most 1, or: sudo sysctl kernel.kptr_restrict=0 \
             kernel.perf_event_paranoid=1)",
        );
    }
    let symbols = Rc::new(symbols);
    resolver.kernel = Some(Rc::clone(&symbols));
    symbols
}
