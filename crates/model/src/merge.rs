//! Several profiles in one: each thread keeps its samples, and what is equal is held once.

use crate::about::Thread;
use crate::builder::{FunctionSpec, ProfileBuilder};
use crate::profile::{
    Frame, FrameIndex, Function, FunctionIndex, Nanoseconds, ProcessIndex, Profile, Sample,
    StackIndex, ThreadIndex,
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
pub(crate) fn moved_samples(
    builder: &mut ProfileBuilder,
    profile: &Profile,
    thread: impl Fn(ThreadIndex) -> ThreadIndex,
) -> Vec<Sample> {
    let stacks = add_stacks(builder, profile);
    let moved = |sample: &Sample| Sample {
        thread: thread(sample.thread),
        stack: sample.stack.map(|stack| stacks[stack.at()]),
        ..*sample
    };
    profile.samples.iter().map(moved).collect()
}

pub(crate) fn add_stacks(builder: &mut ProfileBuilder, profile: &Profile) -> Vec<StackIndex> {
    let functions = add_functions(builder, profile);
    let frames: Vec<FrameIndex> = profile
        .frames
        .iter()
        .map(|frame| {
            builder.frame_of(Frame {
                function: functions[frame.function.at()],
                ..*frame
            })
        })
        .collect();
    let stacks = builder.stacks_from(&profile.stacks, &frames);
    for (function, reason) in &profile.deopt_reasons {
        builder.deopt_reason(functions[function.at()], profile.strings.get(*reason));
    }
    for source in &profile.sources {
        builder.source(profile.strings.get(source.file), source.text.clone());
    }
    stacks
}

fn add_functions(builder: &mut ProfileBuilder, profile: &Profile) -> Vec<FunctionIndex> {
    let text = |index| profile.strings.get(index);
    profile
        .functions
        .iter()
        .map(|function: &Function| {
            builder.function(FunctionSpec {
                name: text(function.name),
                file: function.file.map_or("", text),
                line: function.line,
                column: function.column,
                category: function.category,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{About, FrameSpec, Notes, Process, WeightUnit, function_weights};

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
        let heaviest = function_weights(&both, |_| true)[0];
        assert_eq!(both.name_of(heaviest.function), "a");
        assert_eq!(heaviest.total_weight, 20);
        assert_eq!(both.samples[2].time, 110);
        assert_eq!(both.samples[2].thread, threads[1]);
    }
}
