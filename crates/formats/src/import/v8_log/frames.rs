//! Addresses of an isolate as frames of a profile, each looked up once.

use nodespy_model::classify::{category_of_builtin, category_of_file};
use nodespy_model::{
    Category, FastMap, Frame, FrameIndex, FrameKind, FrameSpec, FunctionIndex, FunctionSpec,
    ProfileBuilder, Tier, UnnamedFunction,
};

use super::fields::unescape;
use super::isolate::{Code, CodeKind, Isolate, Library, Place, PlaceKind};
use super::source::Spot;
use crate::frame_name::parse_frame;
use crate::module_name::name_in_module;

/// What the time of the collector is under, as Chrome's DevTools call it.
const COLLECTOR: &str = "(garbage collector)";
/// What a thread without work does, as Chrome's DevTools call it.
const IDLE: &str = "(idle)";

/// The frames of an address. Small, since the addresses of all callers have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameList {
    /// The frame if it is one, as most are; else where they start in the lists of [`Frames`].
    start: u32,
    count: u16,
    /// Where the address is that these are the frames of.
    pub(super) kind: PlaceKind,
}

impl FrameList {
    fn of_one(frame: FrameIndex, kind: PlaceKind) -> Self {
        Self {
            start: frame.0,
            count: 1,
            kind,
        }
    }
}

/// The frames that were made so far.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Frames say nothing but their function.
    functions_only: bool,
    /// The function of each code that was seen in a sample.
    functions: FastMap<u32, FunctionIndex>,
    /// Pieces of this are what places in several functions stand for, outermost frame first.
    lists: Vec<FrameIndex>,
    /// Code that has positions, by code and row of its table of positions.
    rows: FastMap<(u32, Option<u32>), FrameList>,
    /// Code without positions.
    plain: FastMap<u32, FrameList>,
    native: FastMap<(u32, u64), FrameList>,
    unknown: Option<FrameList>,
    pub(super) unnamed: Vec<UnnamedFunction>,
    spots: Vec<Spot>,
}

impl Frames {
    pub(super) fn new(functions_only: bool) -> Self {
        Self {
            functions_only,
            ..Self::default()
        }
    }

    /// The frames an address stands for.
    pub(super) fn of_place<'a>(
        &mut self,
        (place, address, is_leaf): (Place, u64, bool),
        isolate: &mut Isolate<'a>,
        codes: &mut [Code<'a>],
        libraries: &[Library],
        builder: &mut ProfileBuilder,
    ) -> FrameList {
        match place {
            Place::Unknown => self.unknown(builder),
            Place::Library(library) => self.native(library, address, libraries, builder),
            Place::Code(code, offset) => match &codes[code as usize].source {
                Some(source) if source.has_calls() || !self.functions_only => {
                    self.of_source((code, offset, is_leaf), isolate, codes, builder)
                }
                _ => self.plain(code, isolate, codes, builder),
            },
        }
    }

    /// Adds the frames of a list to a path, outermost first.
    pub(super) fn extend(&self, path: &mut Vec<FrameIndex>, list: FrameList) {
        match list.count {
            1 => path.push(FrameIndex(list.start)),
            count => path.extend(&self.lists[list.start as usize..][..usize::from(count)]),
        }
    }

    fn unknown(&mut self, builder: &mut ProfileBuilder) -> FrameList {
        if let Some(list) = self.unknown {
            return list;
        }
        let frame = constant(builder, "[unknown]", Category::Unknown);
        let list = FrameList::of_one(frame, PlaceKind::Unknown);
        self.unknown = Some(list);
        list
    }

    /// The function of a code if a sample was in it.
    pub(super) fn function_seen(&self, code: u32) -> Option<FunctionIndex> {
        self.functions.get(&code).copied()
    }

    fn plain(
        &mut self,
        code: u32,
        isolate: &Isolate<'_>,
        codes: &[Code<'_>],
        builder: &mut ProfileBuilder,
    ) -> FrameList {
        if let Some(&list) = self.plain.get(&code) {
            return list;
        }
        let function = self.function(code, isolate, codes, builder);
        let frame = builder.frame_of(self.kept(Frame {
            function,
            line: 0,
            column: 0,
            tier: codes[code as usize].tier,
            kind: FrameKind::Physical,
        }));
        let list = FrameList::of_one(frame, PlaceKind::Code);
        self.plain.insert(code, list);
        list
    }

    fn native(
        &mut self,
        library: u32,
        address: u64,
        libraries: &[Library],
        builder: &mut ProfileBuilder,
    ) -> FrameList {
        if let Some(&list) = self.native.get(&(library, address)) {
            return list;
        }
        let Library { path, start, .. } = &libraries[library as usize];
        let offset = address.saturating_sub(*start);
        let name = name_in_module(path, format_args!("0x{offset:x}"));
        let frame = builder.frame(FrameSpec {
            function: FunctionSpec {
                name: &name,
                file: path,
                category: Category::Native,
                ..FunctionSpec::default()
            },
            ..FrameSpec::default()
        });
        let function = builder.so_far().frame(frame).function;
        self.unnamed.push(UnnamedFunction {
            function,
            library: library as usize,
            address,
        });
        let list = FrameList::of_one(frame, PlaceKind::Library);
        self.native.insert((library, address), list);
        list
    }

    /// Frames of code that says which place of which function each byte comes from.
    fn of_source<'a>(
        &mut self,
        (code, offset, is_leaf): (u32, u64, bool),
        isolate: &mut Isolate<'a>,
        codes: &mut [Code<'a>],
        builder: &mut ProfileBuilder,
    ) -> FrameList {
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        // A caller's address is the one after the call; bytecode is named by the call itself.
        let is_after_call = !is_leaf && codes[code as usize].tier != Tier::Interpreted;
        let offset = offset.saturating_sub(u32::from(is_after_call));
        let source = codes[code as usize].source.as_mut();
        let row = source.and_then(|source| source.row_at(offset));
        if let Some(&list) = self.rows.get(&(code, row)) {
            return list;
        }
        let list = self.of_row(code, row, isolate, codes, builder);
        self.rows.insert((code, row), list);
        list
    }

    /// Frames of a row of a table of positions.
    fn of_row<'a>(
        &mut self,
        code: u32,
        row: Option<u32>,
        isolate: &mut Isolate<'a>,
        codes: &mut [Code<'a>],
        builder: &mut ProfileBuilder,
    ) -> FrameList {
        let tier = codes[code as usize].tier;
        let mut spots = std::mem::take(&mut self.spots);
        spots.clear();
        if let (Some(source), Some(row)) = (&codes[code as usize].source, row) {
            source.spots_of(row, &mut spots);
        }
        if spots.is_empty() {
            spots.push(Spot {
                position: 0,
                inlined: None,
            });
        }
        if self.functions_only && spots.len() == 1 {
            self.spots = spots;
            return self.plain(code, isolate, codes, builder);
        }
        let start = self.lists.len();
        let has_position = !self.functions_only && (spots.len() > 1 || spots[0].position != 0);
        for spot in spots.iter().rev() {
            let of = spot.inlined.unwrap_or(code);
            let function = self.function(of, isolate, codes, builder);
            let source = codes[of as usize].source.as_ref().filter(|_| has_position);
            let script = source.and_then(|source| isolate.scripts.get_mut(&source.script));
            let (line, column) =
                script.map_or((0, 0), |script| script.line_and_column(spot.position));
            self.lists.push(builder.frame_of(self.kept(Frame {
                function,
                line,
                column,
                tier,
                kind: FrameKind::inlined_if(spot.inlined.is_some()),
            })));
        }
        self.spots = spots;
        if let [frame] = self.lists[start..] {
            self.lists.pop();
            return FrameList::of_one(frame, PlaceKind::Code);
        }
        FrameList {
            start: start as u32,
            count: (self.lists.len() - start) as u16,
            kind: PlaceKind::Code,
        }
    }

    /// What is kept of a frame.
    fn kept(&self, frame: Frame) -> Frame {
        match self.functions_only {
            true => Frame {
                line: 0,
                column: 0,
                tier: Tier::None,
                kind: FrameKind::Physical,
                ..frame
            },
            false => frame,
        }
    }

    fn function(
        &mut self,
        code: u32,
        isolate: &Isolate<'_>,
        codes: &[Code<'_>],
        builder: &mut ProfileBuilder,
    ) -> FunctionIndex {
        if let Some(&function) = self.functions.get(&code) {
            return function;
        }
        let Code { kind, name, .. } = &codes[code as usize];
        let function = function_of_code(*kind, &unescape(name, isolate.has_quotes), builder);
        self.functions.insert(code, function);
        function
    }
}

/// The frame that stands for the garbage collector.
pub(crate) fn collector_frame(builder: &mut ProfileBuilder) -> FrameIndex {
    constant(builder, COLLECTOR, Category::Gc)
}

/// The frame that stands for waiting for work.
pub(crate) fn idle_frame(builder: &mut ProfileBuilder) -> FrameIndex {
    constant(builder, IDLE, Category::Idle)
}

fn constant(builder: &mut ProfileBuilder, name: &str, category: Category) -> FrameIndex {
    builder.frame(FrameSpec {
        function: FunctionSpec {
            name,
            category,
            ..FunctionSpec::default()
        },
        ..FrameSpec::default()
    })
}

/// The function that code was made from.
pub(crate) fn function_of_code(
    kind: CodeKind,
    name: &str,
    builder: &mut ProfileBuilder,
) -> FunctionIndex {
    let of_category = |name: &str, category, builder: &mut ProfileBuilder| {
        builder.function(FunctionSpec {
            name,
            category,
            ..FunctionSpec::default()
        })
    };
    match kind {
        CodeKind::RegExp => of_category(name, Category::RegExp, builder),
        CodeKind::Builtin => of_category(name, category_of_builtin(name), builder),
        CodeKind::BytecodeHandler => {
            // As the symbol of the handler is called in the program.
            let name = format!("{name}Handler");
            of_category(&name, Category::Internal, builder)
        }
        CodeKind::Function | CodeKind::Script if name.contains("wasm-function[") => {
            of_category(name, Category::Wasm, builder)
        }
        CodeKind::Script => builder.function(FunctionSpec {
            name: "(script)",
            file: name,
            line: 1,
            column: 1,
            category: category_of_file(name),
        }),
        CodeKind::Function => {
            let text = format!("JS:{name}");
            let mut spec = parse_frame(&text).function;
            if matches!(spec.name, "" | "[unknown]") {
                spec.name = "(anonymous)";
            }
            spec.category = category_of_file(spec.file);
            builder.function(spec)
        }
    }
}
