//! From the file's tables to functions, frames and stacks of the model.

use nodespy_model::{
    Category, FastMap, Frame, FrameIndex, FrameKind, FunctionIndex, FunctionSpec, ProfileBuilder,
    StackIndex, Tier, cut,
};

use super::meta::{Meta, tier_called};
use super::tables::{AllTables, Lib};
use super::thread::Oddities;
use crate::budget::Meter;
use crate::code_kind::category_of;
use crate::module_name::name_in_module;

/// What names need beside the tables.
pub(super) struct Names<'m, 'a> {
    pub(super) meta: &'m Meta<'a>,
    pub(super) libs: &'m [Lib<'a>],
    pub(super) meter: &'m Meter,
}

/// Frames and functions that were met. Maps, because a thread may use little of what all share.
#[derive(Default)]
struct Met {
    frames: FastMap<usize, FrameIndex>,
    functions: FastMap<(usize, Option<Category>), FunctionIndex>,
}

impl Names<'_, '_> {
    /// The stack of each row of the stack table. A parent must come before its children; one that
    /// does not is taken for none.
    pub(super) fn stacks(
        &self,
        tables: &AllTables<'_, '_>,
        builder: &mut ProfileBuilder,
        oddities: &mut Oddities,
    ) -> Vec<StackIndex> {
        let mut met = Met::default();
        let rows = tables.stacks.rows("frame");
        let mut stacks: Vec<StackIndex> = Vec::with_capacity(rows);
        for row in 0..rows {
            if let Err(excess) = self.meter.row_into(builder) {
                oddities.exceeded = oddities.exceeded.or(Some(excess));
                break;
            }
            let frame = tables.stacks.index("frame", row);
            let frame = frame.filter(|frame| *frame < tables.frames.rows("func"));
            oddities.bad_frames += u64::from(frame.is_none());
            // Beyond the table, every row is as unknown as any other.
            let frame = self.frame(tables, frame.unwrap_or(usize::MAX), &mut met, builder);
            let parent = tables.stacks.index("prefix", row);
            let known = parent.and_then(|parent| stacks.get(parent).copied());
            oddities.bad_parents += u64::from(parent.is_some() && known.is_none());
            stacks.push(builder.stack(known, frame));
        }
        stacks
    }

    fn frame(
        &self,
        tables: &AllTables<'_, '_>,
        row: usize,
        met: &mut Met,
        builder: &mut ProfileBuilder,
    ) -> FrameIndex {
        if let Some(&frame) = met.frames.get(&row) {
            return frame;
        }
        let number = |name| u32::try_from(tables.frames.get(name, row)).unwrap_or(0);
        let category = tables.frames.index("category", row);
        let category = category.and_then(|at| self.meta.categories.get(at));
        let tier = match tables.frames.index("implementation", row) {
            Some(name) => tier_called(tables.text(Some(name))),
            None => {
                let tier = tables.frames.index("subcategory", row);
                let tiers = category.map_or(&[][..], |category| &category.tiers);
                tier.and_then(|at| tiers.get(at).copied())
                    .unwrap_or(Tier::None)
            }
        };
        let kind = category.and_then(|category| category.category);
        let at = tables.frames.index("func", row).unwrap_or(usize::MAX);
        let function = *met
            .functions
            .entry((at, kind))
            .or_insert_with(|| self.function(tables, at, kind, builder));
        let frame = builder.frame_of(Frame {
            function,
            line: number("line"),
            column: number("column"),
            tier,
            kind: FrameKind::inlined_if(number("inlineDepth") > 0),
        });
        met.frames.insert(row, frame);
        frame
    }

    fn function(
        &self,
        tables: &AllTables<'_, '_>,
        row: usize,
        kind: Option<Category>,
        builder: &mut ProfileBuilder,
    ) -> FunctionIndex {
        let functions = tables.functions;
        let number = |name| u32::try_from(functions.get(name, row)).unwrap_or(0);
        let mut name = tables.text(functions.index("name", row));
        let source = match functions.index("source", row) {
            Some(source) => tables.sources.index("filename", source),
            None => functions.index("fileName", row),
        };
        let resource = functions.index("resource", row);
        let lib = resource
            .and_then(|resource| tables.resources.index("lib", resource))
            .and_then(|lib| self.libs.get(lib));
        let file = match (tables.text(source), lib) {
            ("", Some(lib)) if lib.path.is_empty() => cut(&lib.name),
            ("", Some(lib)) => cut(&lib.path),
            ("", None) => tables.text(resource.and_then(|at| tables.resources.index("name", at))),
            (source, _) => source,
        };
        // What has no name is an address in its library.
        let place;
        if let (true, Some(lib)) = (name.starts_with("0x"), lib) {
            place = name_in_module(&lib.name, name);
            name = &place;
        }
        builder.function(FunctionSpec {
            name: match name {
                "" => "[unknown]",
                name => name,
            },
            file,
            line: number("lineNumber"),
            column: number("columnNumber"),
            category: kind.unwrap_or_else(|| category_of(name, file)),
        })
    }
}
