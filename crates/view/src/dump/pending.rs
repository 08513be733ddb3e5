//! What the suspended async functions of a process await.

use nodespy_model::{Profile, StackIndex};

use super::{Dump, place_of};
use crate::wording::count;

/// How many stacks are shown.
const MAX_STACKS: usize = 100;

/// Suspended async functions that are at the same place and have the same async callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingStack {
    /// The innermost one and its async callers.
    pub stack: StackIndex,
    /// How many there are.
    pub count: u64,
}

/// The pending stacks of a process, the most frequent first; none where its heap was not searched.
pub fn pending_stacks(pending: &Profile, pid: u32) -> Option<Vec<PendingStack>> {
    let is_its = |process: usize| pending.processes[process].pid == pid;
    let thread = pending
        .threads
        .iter()
        .position(|thread| is_its(thread.process.at()))?;
    let samples = pending.samples.iter();
    let its = samples.filter(|sample| sample.thread.at() == thread);
    let mut stacks: Vec<PendingStack> = its
        .filter_map(|sample| {
            Some(PendingStack {
                stack: sample.stack?,
                count: sample.weight,
            })
        })
        .collect();
    // Equally frequent ones in the order of their text: where they are in the heap is chance.
    let text = |stack: &PendingStack| -> Vec<String> {
        let frames = pending.frames_of(stack.stack);
        let texts = frames.map(|frame| {
            let name = pending.name_of(pending.frame(frame).function);
            format!("{name} {}", place_of(pending, frame))
        });
        texts.collect()
    };
    stacks.sort_by_cached_key(|stack| (u64::MAX - stack.count, text(stack)));
    Some(stacks)
}

impl Dump<'_> {
    /// The pending async functions of a process.
    pub(super) fn pending(&mut self, pending: &Profile, pid: u32) {
        let Some(stacks) = pending_stacks(pending, pid) else {
            return;
        };
        self.lines.push(String::new());
        let title = self.paint.bold("pending async functions");
        if stacks.is_empty() {
            self.lines.push(format!("{title}  none"));
            return;
        }
        let functions = stacks.iter().map(|stack| stack.count).sum();
        self.lines.push(format!(
            "{title}  {}, each followed by those that await it",
            count(functions)
        ));
        let mut section = Dump {
            profile: pending,
            paint: self.paint,
            width: self.width,
            lines: Vec::new(),
        };
        for stack in stacks.iter().take(MAX_STACKS) {
            section.lines.push(format!("  {} ×", count(stack.count)));
            section.stack(stack.stack);
        }
        self.lines.append(&mut section.lines);
        if let Some(more) = stacks.get(MAX_STACKS..).filter(|more| !more.is_empty()) {
            let more = count(more.len() as u64);
            self.lines
                .push(format!("  … {more} more stacks (--json has them)"));
        }
    }
}
