//! Functions where they were written: source maps are asked once for each function, not every second.

use nodespy_model::{
    Category, FastMap, FrameSpec, FunctionSpec, Profile, ProfileBuilder, Thread, WeightUnit,
};
use nodespy_recorder::Slice;
use nodespy_symbolize::SourceMapOptions;

use super::capture::{FunctionCount, FunctionKey};

/// More functions than this are shown where they run.
const MAX_FUNCTIONS: usize = 100_000;

/// What source maps said of the functions so far.
#[derive(Debug, Default)]
pub(super) struct MappedFunctions {
    known: FastMap<FunctionKey, (FunctionKey, Category)>,
}

impl MappedFunctions {
    /// Puts the functions of a slice where they were written.
    pub(super) fn apply(&mut self, slice: &Slice<'_>, functions: &mut [FunctionCount]) {
        self.learn(slice, functions);
        for counted in functions {
            if let Some((function, category)) = self.known.get(&counted.function) {
                counted.function.clone_from(function);
                counted.category = *category;
            }
        }
    }

    /// Asks the source maps about functions that are new.
    fn learn(&mut self, slice: &Slice<'_>, functions: &[FunctionCount]) {
        let is_script = |counted: &&FunctionCount| {
            matches!(counted.category, Category::App | Category::Dependency)
        };
        let room = MAX_FUNCTIONS.saturating_sub(self.known.len());
        let new: Vec<&FunctionCount> = functions
            .iter()
            .filter(is_script)
            .filter(|counted| !self.known.contains_key(&counted.function))
            .take(room)
            .collect();
        if new.is_empty() {
            return;
        }
        let mapped = slice.map_sources(
            profile_of(&slice.profile, &new),
            &SourceMapOptions::default(),
        );
        for (counted, sample) in new.iter().zip(&mapped.samples) {
            let Some(stack) = sample.stack else { continue };
            let index = mapped.function_of(stack);
            let function = mapped.function(index);
            let key = FunctionKey {
                name: mapped.name_of(index).to_owned(),
                file: mapped.file_of(index).to_owned(),
                line: function.line,
                column: function.column,
            };
            let known = (key, function.category);
            self.known.insert(counted.function.clone(), known);
        }
    }
}

/// A profile of the same processes with a sample for each function, in their order.
fn profile_of(slice: &Profile, functions: &[&FunctionCount]) -> Profile {
    let mut builder = ProfileBuilder::new(WeightUnit::Samples);
    let processes = slice.processes.iter().cloned();
    let processes: Vec<_> = processes.map(|process| builder.process(process)).collect();
    let process = processes.first().copied().unwrap_or_default();
    let thread = builder.thread(Thread {
        process,
        ..Thread::default()
    });
    for (time, counted) in (0..).zip(functions) {
        let frame = builder.frame(FrameSpec {
            function: FunctionSpec {
                name: &counted.function.name,
                file: &counted.function.file,
                line: counted.function.line,
                column: counted.function.column,
                category: counted.category,
            },
            ..FrameSpec::default()
        });
        let stack = builder.stack(None, frame);
        builder.sample(time, thread, Some(stack), 1);
    }
    builder.finish(slice.about.clone(), slice.notes.clone())
}
