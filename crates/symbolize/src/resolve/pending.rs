//! What every suspended async function waits for, as a profile of its own.

use nodespy_model::{
    About, EventType, FastMap, FrameIndex, Notes, Profile, ProfileBuilder, StackIndex, Thread,
};

use super::Resolver;
use super::naming::{js_frame, lost_caller};
use super::process::LiveProcess;
use crate::frame::Identified;

impl Resolver {
    /// The suspended async functions that no other one is suspended for, with their async callers: a sample for each stack,
    /// whose weight is how many there are. A process has a thread here only if its heap was searched. To be called between
    /// slices.
    pub fn pending(&mut self) -> Profile {
        let mut builder = ProfileBuilder::with_events(vec![EventType::default()]);
        let mut notes = Notes::default();
        for process in &mut self.processes.list {
            let pid = process.about.pid;
            let index = builder.process(process.about.clone());
            let memory_of = (pid, process.copy_of);
            let found = process.v8_mut();
            let found = found.and_then(|v8| v8.pending(memory_of, &*self.origin));
            let Some(found) = found else {
                notes.remark(format!(
                    "pending async functions of process {pid} can't be found: it has no V8 whose heap nodespy can read"
                ));
                continue;
            };
            if found.is_cut {
                notes.remark(format!(
                    "process {pid} has more memory or pending async functions than are looked at: not all are listed"
                ));
            }
            if found.stale > 0 {
                notes.remark(format!(
                    "{} pending async functions of process {pid} are left out: their promises were collected or settled meanwhile",
                    found.stale
                ));
            }
            let thread = builder.thread(Thread {
                process: index,
                tid: pid,
                ..Thread::default()
            });
            let mut counts: FastMap<StackIndex, u64> = FastMap::default();
            for frames in &found.stacks {
                let stack = named_stack(process, frames, &mut builder);
                if let Some(stack) = stack {
                    *counts.entry(stack).or_default() += 1;
                }
            }
            for (stack, count) in counts {
                builder.sample(0, thread, Some(stack), count);
            }
        }
        builder.finish(About::default(), notes)
    }
}

/// The stack of these frames, which come innermost first.
fn named_stack(
    process: &LiveProcess,
    frames: &[Identified],
    builder: &mut ProfileBuilder,
) -> Option<StackIndex> {
    let mut stack = None;
    for frame in frames.iter().rev() {
        let frame: FrameIndex = match frame {
            Identified::Js(frame) => js_frame(process, *frame, builder),
            _ => lost_caller(builder),
        };
        stack = Some(builder.stack(stack, frame));
    }
    stack
}
