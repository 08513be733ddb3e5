//! The dump as JSON, described in docs/json.md.

use nodespy_model::{FrameIndex, Pool, Process, Profile, Sample, Thread};
use nodespy_view::dump::{DumpedThread, activity, pending_stacks};
use serde_json::{Value, json};

const VERSION: u32 = 1;

pub(super) fn of(
    profile: &Profile,
    threads: &[DumpedThread],
    pending: Option<&Profile>,
    is_nonblocking: bool,
) -> Value {
    let processes: Vec<Value> = profile
        .processes
        .iter()
        .enumerate()
        .map(|(position, process)| {
            let pending = pending.and_then(|pending| pending_of(pending, process.pid));
            process_of(profile, threads, pending, (position, process))
        })
        .collect();
    let held: u64 = threads.iter().filter_map(|thread| thread.held).sum();
    json!({
        "schema": "nodespy.dump",
        "version": VERSION,
        "nodespy_version": profile.about.nodespy_version,
        "host": profile.about.host,
        "started_unix_ns": profile.about.started_unix,
        "mode": if is_nonblocking { "nonblocking" } else { "stop" },
        "stopped_ns": held,
        "processes": processes,
        "stacks": profile.notes.unwound_stacks,
        "incomplete_stacks": profile.notes.incomplete_stacks,
        "js_frames": profile.notes.jit_frames,
        "js_frames_named": profile.notes.jit_named.iter().sum::<u64>(),
        "notes": profile.notes.sentences().collect::<Vec<_>>(),
    })
}

fn process_of(
    profile: &Profile,
    threads: &[DumpedThread],
    pending: Option<Value>,
    (position, process): (usize, &Process),
) -> Value {
    let rows: Vec<Value> = threads
        .iter()
        .filter(|thread| thread.pid == process.pid)
        .filter_map(|dumped| {
            let (sample, thread) = profile.samples.iter().find_map(|sample| {
                let thread = &profile.threads[sample.thread.at()];
                let is_it = thread.process.at() == position && thread.tid == dumped.tid;
                is_it.then_some((sample, thread))
            })?;
            Some(thread_of(profile, dumped, sample, thread))
        })
        .collect();
    json!({
        "pid": process.pid,
        "name": process.name,
        "command": process.command,
        "node_version": process.node_version,
        "pool": process.pool.as_ref().map(pool_of),
        "threads": rows,
        "pending": pending,
    })
}

/// The suspended async functions of a process; none where its heap was not searched.
fn pending_of(pending: &Profile, pid: u32) -> Option<Value> {
    let stacks = pending_stacks(pending, pid)?;
    let stacks = stacks.iter().map(|stack| {
        let frames = pending.frames_of(stack.stack);
        let frames: Vec<Value> = frames.map(|frame| frame_of(pending, frame)).collect();
        json!({ "count": stack.count, "frames": frames })
    });
    Some(stacks.collect())
}

fn pool_of(pool: &Pool) -> Value {
    let jobs = pool.jobs.iter();
    let jobs: Vec<Value> = jobs
        .map(|jobs| json!({ "kind": jobs.kind, "waiting": jobs.waiting, "about": jobs.about }))
        .collect();
    json!({
        "threads": pool.threads,
        "busy": pool.busy,
        "waiting": pool.waiting,
        "dns_waiting": pool.slow_waiting,
        "waiting_jobs": jobs,
    })
}

fn thread_of(profile: &Profile, dumped: &DumpedThread, sample: &Sample, thread: &Thread) -> Value {
    let frames: Option<Vec<Value>> = sample.stack.map(|stack| {
        profile
            .frames_of(stack)
            .map(|frame| frame_of(profile, frame))
            .collect()
    });
    let activity = sample
        .stack
        .and_then(|stack| activity(profile, thread.role, stack, dumped.is_running));
    json!({
        "tid": thread.tid,
        "name": thread.name,
        "role": thread.role.label(),
        "state": dumped.state,
        "stopped_ns": dumped.held,
        "remark": dumped.remark,
        "activity": activity.as_ref().map(|activity| activity.word()),
        "summary": activity.as_ref().map(|activity| activity.sentence()),
        "frames": frames,
    })
}

/// A frame; numbers and words that are not known are null.
fn frame_of(profile: &Profile, index: FrameIndex) -> Value {
    let frame = profile.frame(index);
    let function = profile.function(frame.function);
    let known = |number: u32| (number > 0).then_some(number);
    let word = |text: &'static str| (!text.is_empty()).then_some(text);
    json!({
        "function": profile.name_of(frame.function),
        "file": function.file.map(|file| profile.strings.get(file)),
        "line": known(frame.line),
        "column": known(frame.column),
        "function_line": known(function.line),
        "function_column": known(function.column),
        "category": function.category.label(),
        "tier": word(frame.tier.label()),
        "inlined": frame.kind.is_inlined(),
        "async": frame.kind.is_async(),
    })
}
