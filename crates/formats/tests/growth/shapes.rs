//! Profiles of one shape and any size.

use nodespy_model::{
    About, Category, EventType, FrameIndex, FrameSpec, FunctionSpec, Notes, Process, ProcessIndex,
    Profile, ProfileBuilder, Thread, ThreadIndex, ThreadRole, WeightUnit,
};

fn process(builder: &mut ProfileBuilder, pid: u32) -> ProcessIndex {
    builder.process(Process {
        pid,
        name: format!("process {pid}"),
        ..Process::default()
    })
}

fn thread(builder: &mut ProfileBuilder, process: ProcessIndex, tid: u32) -> ThreadIndex {
    builder.thread(Thread {
        process,
        tid,
        name: format!("thread {tid}x"),
        role: ThreadRole::Other,
        ..Thread::default()
    })
}

fn frame(builder: &mut ProfileBuilder, number: usize) -> FrameIndex {
    let name = format!("function_{number}");
    builder.frame(FrameSpec {
        function: FunctionSpec {
            name: &name,
            file: "/app/server.js",
            line: 1 + number as u32,
            column: 1,
            category: Category::App,
        },
        ..FrameSpec::default()
    })
}

fn finish(builder: ProfileBuilder, samples: usize) -> Profile {
    let about = About {
        engine: "test".to_owned(),
        duration: samples as u64 * 1_000_000,
        ..About::default()
    };
    builder.finish(about, Notes::default())
}

fn time(number: usize) -> u64 {
    number as u64 * 1_000_000
}

/// A builder with one process and one thread.
fn one_thread() -> (ProfileBuilder, ThreadIndex) {
    let mut builder =
        ProfileBuilder::new(EventType::new("cpu-clock", WeightUnit::Samples).at_rate(1000));
    let process = process(&mut builder, 7);
    let thread = thread(&mut builder, process, 7);
    (builder, thread)
}

/// Samples of a few stacks.
pub(crate) fn samples(count: usize) -> Profile {
    let (mut builder, thread) = one_thread();
    for number in 0..count {
        let frame = frame(&mut builder, number % 10);
        let stack = builder.stack(None, frame);
        builder.sample(time(number), thread, Some(stack), 1);
    }
    finish(builder, count)
}

/// Threads of one process, each with its own name, function and one sample.
pub(crate) fn threads(count: usize) -> Profile {
    let mut builder =
        ProfileBuilder::new(EventType::new("cpu-clock", WeightUnit::Samples).at_rate(1000));
    let process = process(&mut builder, 7);
    for number in 0..count {
        let thread = thread(&mut builder, process, 8 + number as u32);
        let frame = frame(&mut builder, number);
        let stack = builder.stack(None, frame);
        builder.sample(time(number), thread, Some(stack), 1);
    }
    finish(builder, count)
}

/// Processes, each with one thread and one sample.
pub(crate) fn processes(count: usize) -> Profile {
    let mut builder =
        ProfileBuilder::new(EventType::new("cpu-clock", WeightUnit::Samples).at_rate(1000));
    let frame = frame(&mut builder, 0);
    let stack = builder.stack(None, frame);
    for number in 0..count {
        let pid = 8 + number as u32;
        let process = process(&mut builder, pid);
        let thread = thread(&mut builder, process, pid);
        builder.sample(time(number), thread, Some(stack), 1);
    }
    finish(builder, count)
}

/// One stack, as deep as `count`, sampled twice.
pub(crate) fn deep(count: usize) -> Profile {
    let (mut builder, thread) = one_thread();
    let mut stack = None;
    for number in 0..count {
        let frame = frame(&mut builder, number % 100);
        stack = Some(builder.stack(stack, frame));
    }
    builder.sample(time(1), thread, stack, 1);
    builder.sample(time(2), thread, stack, 1);
    finish(builder, 2)
}

/// One stack, sampled at every depth.
pub(crate) fn every_depth(count: usize) -> Profile {
    let (mut builder, thread) = one_thread();
    let mut stack = None;
    for number in 0..count {
        let frame = frame(&mut builder, number % 100);
        stack = Some(builder.stack(stack, frame));
        builder.sample(time(number), thread, stack, 1);
    }
    finish(builder, count)
}

/// Functions that are all different.
pub(crate) fn functions(count: usize) -> Profile {
    let (mut builder, thread) = one_thread();
    for number in 0..count {
        let frame = frame(&mut builder, number);
        let stack = builder.stack(None, frame);
        builder.sample(time(number), thread, Some(stack), 1);
    }
    finish(builder, count)
}

/// Different functions that one function calls in turn, over and over.
pub(crate) fn siblings(count: usize) -> Profile {
    let (mut builder, thread) = one_thread();
    let root = frame(&mut builder, 0);
    let root = builder.stack(None, root);
    for number in 0..count {
        let frame = frame(&mut builder, 1 + number / 2);
        let stack = builder.stack(Some(root), frame);
        builder.sample(time(number), thread, Some(stack), 1);
    }
    finish(builder, count)
}
