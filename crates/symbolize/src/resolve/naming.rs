//! Names for identified frames, asked of each source in order. Naming only reads: what it needs of
//! images, of the kernel and of files of JIT names was loaded before.

use nodespy_model::classify::{category_of_file, category_of_native};
use nodespy_model::{
    Category, FastMap, FastSet, Frame, FrameIndex, FrameKind, FrameSpec, FunctionSpec, Nanoseconds,
    ProcessIndex, ProfileBuilder, Tier,
};

use super::batch::{Batch, FrameOf};
use super::binaries::Binaries;
use super::process::LiveProcess;
use crate::address_map::ImageId;
use crate::elf::SymbolIndex;
use crate::frame::Identified;
use crate::jit::JitNames;
use crate::v8::{FunctionKind, JsFrame};

/// What JIT files say of the frames of a batch.
pub(super) type JitNamesOf = FastMap<ProcessIndex, JitNames>;

/// A frame that has its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) frame: FrameIndex,
    /// Whether it is the same at any time.
    pub(super) is_timeless: bool,
}

impl Named {
    fn timeless(frame: FrameIndex) -> Self {
        Self {
            frame,
            is_timeless: true,
        }
    }
}

/// The sources of names of one batch.
pub(super) struct Naming<'a> {
    pub(super) binaries: &'a Binaries,
    pub(super) processes: &'a [LiveProcess],
    pub(super) batch: &'a Batch,
    pub(super) jit: &'a JitNamesOf,
    has_inlines: bool,
    /// Names that do not depend on the time, by the number of the frame.
    timeless: Vec<Option<FrameIndex>>,
    /// What is inlined into a frame, outermost first, by the number of the frame.
    inlined: FastMap<u32, Vec<FrameIndex>>,
    /// Frames of symbols: a function has many addresses.
    by_symbol: FastMap<(ImageId, SymbolIndex), FrameIndex>,
    /// Symbols whose name can't be read.
    unreadable: FastSet<(ImageId, SymbolIndex)>,
    /// Frames of JIT code, by process, name and line.
    by_jit_name: FastMap<(ProcessIndex, u32, u32), FrameIndex>,
    /// Images that are not used for names, though there are frames of them.
    pub(super) refused: Vec<ImageId>,
}

impl<'a> Naming<'a> {
    pub(super) fn new(
        binaries: &'a Binaries,
        processes: &'a [LiveProcess],
        batch: &'a Batch,
        jit: &'a JitNamesOf,
        has_inlines: bool,
    ) -> Self {
        Self {
            binaries,
            processes,
            batch,
            jit,
            has_inlines,
            timeless: vec![None; batch.frame_count()],
            inlined: FastMap::default(),
            by_symbol: FastMap::default(),
            unreadable: FastSet::default(),
            by_jit_name: FastMap::default(),
            refused: Vec::new(),
        }
    }

    /// The name of a frame, by its number, at a time.
    pub(super) fn name(
        &mut self,
        number: u32,
        time: Nanoseconds,
        builder: &mut ProfileBuilder,
    ) -> Named {
        if let Some(known) = self.timeless[number as usize] {
            return Named::timeless(known);
        }
        let of = self.batch.frame(number);
        let named = self.named(of, time, builder);
        if !named.is_timeless {
            return named;
        }
        self.timeless[number as usize] = Some(named.frame);
        if let (true, Identified::Image(image, address)) = (self.has_inlines, of.frame) {
            self.add_inlined(number, (image, address), builder);
        }
        named
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
        number: u32,
        (image, address): (ImageId, u64),
        builder: &mut ProfileBuilder,
    ) {
        let image = self.binaries.image(image);
        let names = image.inlined_at(address);
        if names.is_empty() {
            return;
        }
        let frames = names.iter().map(|name| {
            builder.frame(FrameSpec {
                function: FunctionSpec {
                    name,
                    file: &image.name,
                    category: category_of_native(name),
                    ..Default::default()
                },
                kind: FrameKind::Inlined,
                ..Default::default()
            })
        });
        self.inlined.insert(number, frames.collect());
    }

    fn named(&mut self, of: FrameOf, time: Nanoseconds, builder: &mut ProfileBuilder) -> Named {
        match of.frame {
            Identified::Kernel(address) => Named::timeless(self.kernel_frame(address, builder)),
            Identified::Image(image, address) => {
                Named::timeless(self.image_frame(image, address, builder))
            }
            Identified::Jit(address) => self.jit_frame(of.process, address, time, builder),
            Identified::Js(frame) => {
                let process = &self.processes[of.process.at()];
                Named::timeless(js_frame(process, frame, builder))
            }
            Identified::UnknownJs => Named::timeless(unknown_frame(builder)),
            Identified::LostCaller => Named::timeless(lost_caller(builder)),
        }
    }

    fn kernel_frame(&self, address: u64, builder: &mut ProfileBuilder) -> FrameIndex {
        let (name, module) = self
            .binaries
            .kernel_function(address)
            .unwrap_or(("[kernel]", None));
        let file = module.map_or_else(|| "[kernel]".to_owned(), |module| format!("[{module}]"));
        native_frame(builder, (name, &file), Category::Kernel)
    }

    fn image_frame(
        &mut self,
        image: ImageId,
        address: u64,
        builder: &mut ProfileBuilder,
    ) -> FrameIndex {
        let opened = self.binaries.image(image);
        let symbol = opened.symbol_at(address).map(|symbol| (image, symbol));
        if let Some(known) = symbol.and_then(|symbol| self.by_symbol.get(&symbol)) {
            return *known;
        }
        if opened.refused.is_some() && !self.refused.contains(&image) {
            self.refused.push(image);
        }
        let readable = symbol.filter(|symbol| !self.unreadable.contains(symbol));
        let name = readable.and_then(|(_, symbol)| opened.symbol_name(symbol));
        let Some(name) = name else {
            self.unreadable.extend(symbol);
            let start = opened.function_start(address).unwrap_or(address);
            let name = address_name(&opened.name, start);
            return native_frame(builder, (&name, &opened.name), Category::Unknown);
        };
        let category = match name.starts_with('[') {
            true => Category::Unknown,
            false => category_of_native(&name),
        };
        let frame = native_frame(builder, (&name, &opened.name), category);
        self.by_symbol.extend(symbol.map(|symbol| (symbol, frame)));
        frame
    }

    fn jit_frame(
        &mut self,
        process: ProcessIndex,
        address: u64,
        time: Nanoseconds,
        builder: &mut ProfileBuilder,
    ) -> Named {
        let names = self.jit.get(&process);
        let found = names.and_then(|names| Some((names, names.entry_at(address, time)?)));
        let Some((names, entry)) = found else {
            return Named::timeless(unknown_frame(builder));
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
        Named {
            frame,
            is_timeless: !names.is_reused(address),
        }
    }
}

/// The frame of a function that was found in V8's heap.
pub(super) fn js_frame(
    process: &LiveProcess,
    frame: JsFrame,
    builder: &mut ProfileBuilder,
) -> FrameIndex {
    let Some(facts) = process.facts(frame.function) else {
        return unknown_frame(builder);
    };
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
        kind: frame.kind,
    })
}

/// What a function without a symbol is called, by where it starts, or an address of no known function.
pub(super) fn address_name(image: &str, address: u64) -> String {
    format!("[{}+0x{address:x}]", image.trim_matches(['[', ']']))
}

fn unknown_frame(builder: &mut ProfileBuilder) -> FrameIndex {
    let unknown = FunctionSpec {
        name: "[unknown]",
        category: Category::Unknown,
        ..Default::default()
    };
    plain_frame(builder, unknown)
}

/// An async caller that is not known.
pub(super) fn lost_caller(builder: &mut ProfileBuilder) -> FrameIndex {
    builder.frame(FrameSpec {
        function: FunctionSpec {
            name: "[caller not known]",
            category: Category::Unknown,
            ..Default::default()
        },
        kind: FrameKind::Async,
        ..Default::default()
    })
}

fn native_frame(
    builder: &mut ProfileBuilder,
    (name, file): (&str, &str),
    category: Category,
) -> FrameIndex {
    let function = FunctionSpec {
        name,
        file,
        category,
        ..Default::default()
    };
    plain_frame(builder, function)
}

/// The frame of a name that is not JavaScript.
fn plain_frame(builder: &mut ProfileBuilder, function: FunctionSpec<'_>) -> FrameIndex {
    builder.frame(FrameSpec {
        function,
        tier: Tier::None,
        ..Default::default()
    })
}

/// A frame of a function at a line.
fn frame_at(
    builder: &mut ProfileBuilder,
    function: FunctionSpec<'_>,
    tier: Tier,
    line: u32,
) -> FrameIndex {
    let function = builder.function(function);
    builder.frame_of(Frame {
        function,
        line,
        column: 0,
        tier,
        kind: FrameKind::Physical,
    })
}
