//! Several profiles in one: each thread keeps its samples, and what is equal is held once.

use crate::about::Thread;
use crate::builder::{FunctionSpec, ProfileBuilder};
use crate::context::ContextIndex;
use crate::event::EventIndex;
use crate::profile::{
    Frame, FrameIndex, FunctionIndex, Nanoseconds, ProcessIndex, Profile, Sample, StackIndex,
    ThreadIndex,
};

/// Adds the samples of `profile` to one that is being built, `later` than they were and on the
/// threads that `thread` names for its own.
pub fn add_samples(
    builder: &mut ProfileBuilder,
    profile: &Profile,
    later: Nanoseconds,
    thread: impl Fn(ThreadIndex) -> ThreadIndex,
) {
    for sample in moved_samples(builder, profile, thread) {
        builder.add_sample(Sample {
            time: sample.time.saturating_add(later),
            ..sample
        });
    }
}

/// Adds the processes and threads of `profile` to one that is being built, and returns where its
/// threads are there.
pub fn add_threads(builder: &mut ProfileBuilder, profile: &Profile) -> Vec<ThreadIndex> {
    let processes: Vec<ProcessIndex> = profile
        .processes
        .iter()
        .map(|process| builder.process(process.clone()))
        .collect();
    profile
        .threads
        .iter()
        .map(|thread| {
            builder.thread(Thread {
                process: processes[thread.process.at()],
                ..thread.clone()
            })
        })
        .collect()
}

/// Adds everything the samples of `profile` need but their threads, and returns the samples as
/// they are in the profile that is being built.
pub fn moved_samples(
    builder: &mut ProfileBuilder,
    profile: &Profile,
    thread: impl Fn(ThreadIndex) -> ThreadIndex,
) -> Vec<Sample> {
    let stacks = add_stacks(builder, profile);
    let tags = Tags::add(builder, profile);
    let moved = |sample: &Sample| {
        Some(Sample {
            thread: thread(sample.thread),
            stack: sample.stack.map(|stack| stacks[stack.at()]),
            event: tags.events[sample.event.at()]?,
            context: tags.contexts[sample.context.0 as usize],
            ..*sample
        })
    };
    profile.samples.iter().filter_map(moved).collect()
}

/// Where the events and contexts of a profile are in one that is being built.
struct Tags {
    /// None for what a full table has no room for.
    events: Vec<Option<EventIndex>>,
    contexts: Vec<ContextIndex>,
}

impl Tags {
    fn add(builder: &mut ProfileBuilder, profile: &Profile) -> Self {
        let events = profile.events.iter().map(|event| builder.event(event));
        let events = events.collect();
        let sets = profile.contexts.iter().cloned();
        let moved = sets.map(|labels| builder.context(labels));
        Self {
            events,
            contexts: std::iter::once(ContextIndex::NONE).chain(moved).collect(),
        }
    }
}

/// A copy that goes on being built, with every function as `function` says and the place that each
/// frame runs at as `place` says, line and column. What is equal now is one. Also returns where the
/// functions are there.
pub fn rewritten<'a>(
    profile: &'a Profile,
    function: impl Fn(FunctionIndex) -> FunctionSpec<'a>,
    place: impl Fn(FrameIndex) -> (u32, u32),
) -> (ProfileBuilder, Vec<FunctionIndex>) {
    let mut builder = ProfileBuilder::with_events(profile.events.clone());
    for labels in profile.contexts.iter() {
        builder.context(labels.clone());
    }
    let threads = add_threads(&mut builder, profile);
    let functions = add_functions(&mut builder, profile, function);
    let stacks = add_stacks_of(&mut builder, profile, &functions, place);
    for sample in &profile.samples {
        builder.add_sample(Sample {
            thread: threads[sample.thread.at()],
            stack: sample.stack.map(|stack| stacks[stack.at()]),
            ..*sample
        });
    }
    (builder, functions)
}

/// Adds the stacks of `profile` with their frames and functions, and returns where they are there.
pub fn add_stacks(builder: &mut ProfileBuilder, profile: &Profile) -> Vec<StackIndex> {
    let functions = add_functions(builder, profile, |function| profile.spec_of(function));
    add_stacks_of(builder, profile, &functions, |frame| {
        let frame = profile.frame(frame);
        (frame.line, frame.column)
    })
}

/// Adds the stacks of `profile`, whose functions are `functions` here, and what is known of them.
fn add_stacks_of(
    builder: &mut ProfileBuilder,
    profile: &Profile,
    functions: &[FunctionIndex],
    place: impl Fn(FrameIndex) -> (u32, u32),
) -> Vec<StackIndex> {
    let frames: Vec<FrameIndex> = profile
        .frames
        .iter()
        .enumerate()
        .map(|(position, frame)| {
            let (line, column) = place(FrameIndex(position as u32));
            builder.frame_of(Frame {
                function: functions[frame.function.at()],
                line,
                column,
                ..*frame
            })
        })
        .collect();
    let stacks = builder.stacks_from(&profile.stacks, &frames);
    for (function, reason) in &profile.deopt_reasons {
        builder.deopt_reason(functions[function.at()], profile.strings.get(*reason));
    }
    for (function, place) in &profile.generated_places {
        builder.generated_place(functions[function.at()], profile.strings.get(*place));
    }
    for source in &profile.sources {
        builder.source(profile.strings.get(source.file), source.text.clone());
    }
    stacks
}

fn add_functions<'a>(
    builder: &mut ProfileBuilder,
    profile: &'a Profile,
    function: impl Fn(FunctionIndex) -> FunctionSpec<'a>,
) -> Vec<FunctionIndex> {
    (0..profile.functions.len())
        .map(|position| builder.function(function(FunctionIndex(position as u32))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{About, FrameSpec, Notes, Process, WeightUnit};

    fn profile(names: &[&str]) -> Profile {
        let mut builder = ProfileBuilder::new(WeightUnit::Nanoseconds);
        let process = builder.process(Process::default());
        let thread = builder.thread(Thread {
            process,
            ..Thread::default()
        });
        let mut stack = None;
        for name in names {
            let frame = builder.frame(FrameSpec {
                function: FunctionSpec {
                    name,
                    ..FunctionSpec::default()
                },
                ..FrameSpec::default()
            });
            stack = Some(builder.stack(stack, frame));
            builder.sample(10, thread, stack, 5);
        }
        builder.finish(About::default(), Notes::default())
    }

    #[test]
    fn what_is_equal_is_held_once_and_no_weight_is_lost() {
        let (first, second) = (profile(&["a", "b"]), profile(&["a", "c"]));
        let mut builder = ProfileBuilder::new(WeightUnit::Nanoseconds);
        let process = builder.process(Process::default());
        let threads = [1, 2].map(|tid| {
            builder.thread(Thread {
                process,
                tid,
                ..Thread::default()
            })
        });
        add_samples(&mut builder, &first, 0, |_| threads[0]);
        add_samples(&mut builder, &second, 100, |_| threads[1]);
        let both = builder.finish(About::default(), Notes::default());
        assert_eq!(both.total_weight(), 20);
        assert_eq!(both.functions.len(), 3);
        assert_eq!(both.stacks.len(), 3);
        // `a` calls both `b` and `c`.
        let root = both.frame(both.stacks[0].frame);
        assert_eq!(both.name_of(root.function), "a");
        assert!(
            both.stacks[1..]
                .iter()
                .all(|stack| stack.parent == Some(StackIndex::new(0)))
        );
        assert_eq!(both.samples[2].time, 110);
        assert_eq!(both.samples[2].thread, threads[1]);
    }

    #[test]
    fn functions_that_become_equal_become_one() {
        let profile = profile(&["a", "b", "c"]);
        let renamed = |index: FunctionIndex| FunctionSpec {
            name: match profile.name_of(index) {
                "c" => "b",
                name => name,
            },
            file: "/src/all.ts",
            ..profile.spec_of(index)
        };
        let (mut builder, functions) = rewritten(&profile, renamed, |_| (7, 1));
        assert_eq!(functions[1], functions[2]);
        builder.generated_place(functions[1], "/dist/all.js:1:20");
        builder.generated_place(functions[2], "/dist/all.js:1:50");
        let written = builder.finish(About::default(), Notes::default());
        assert_eq!(written.functions.len(), 2);
        assert_eq!(written.frames.len(), 2);
        assert_eq!(written.stacks.len(), 3);
        assert_eq!(written.total_weight(), profile.total_weight());
        assert!(written.frames.iter().all(|frame| frame.line == 7));
    }
}
