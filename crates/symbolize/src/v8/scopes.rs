//! What a callback runs for, before Node 24: the resource of async_hooks that has the stores of AsyncLocalStorage.
//!
//! For each callback Node enters a scope, in few functions of its own, whose frames have the resource. The innermost is the one whose
//! stores `getStore()` returns; `run` changes them there. Where it is not known which resource that is nothing is said.

use super::heap::is_pointer;
use super::properties::PropertyLayout;
use super::stores::{STORAGE_FOLDER, Search};
use crate::frame::{FrameSlots, Unwound};

/// The frame by which C++ enters V8.
const ENTRY_MARKER: u64 = 2;
/// Of how many frames the program copies what they have, and how much: the receiver and the first arguments.
const MAX_SCOPES: usize = 48;
const SCOPE_WORDS: u64 = 3;
/// Where a frame has its receiver.
const RECEIVER: u64 = 16;

/// What was entered last before the code of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entered {
    /// The scope of a callback, with its resource.
    Callback(u64),
    /// That of one whose resource is not known.
    Unknown,
    /// None since C++ has entered V8: the job of a promise, or something else.
    Nothing,
}

/// The innermost scope of a stack.
#[derive(Debug)]
pub(super) struct Scope {
    pub(super) entered: Entered,
    /// The stores of `run`, of each AsyncLocalStorage the innermost.
    pub(super) runs: Vec<u64>,
}

/// What functions of Node do.
enum Enters {
    /// Has the resource at this position, 0 is the receiver.
    With(u64),
    /// Calls back with the resource for the receiver.
    ByReceiver,
    /// Calls back; where the resource is was not found out.
    Somehow,
    /// Runs a function with the store that is its first argument.
    Run,
}

impl Enters {
    fn of(name: &str, url: &str) -> Option<Self> {
        Some(match (name, url) {
            ("callbackTrampoline", "node:internal/async_hooks") => Self::With(2),
            ("runInAsyncScope", "node:async_hooks") => Self::With(0),
            (
                "parserOnHeaders"
                | "parserOnHeadersComplete"
                | "parserOnBody"
                | "parserOnMessageComplete",
                "node:_http_common",
            ) => Self::With(0),
            (
                "listOnTimeout" | "processTimers" | "processImmediate",
                "node:internal/timers" | "node:timers",
            ) => Self::ByReceiver,
            ("processTicksAndRejections" | "runNextTicks", "node:internal/process/task_queues") => {
                Self::Somehow
            }
            ("run", url) if url == "node:async_hooks" || url.starts_with(STORAGE_FOLDER) => {
                Self::Run
            }
            _ => return None,
        })
    }
}

impl Search<'_, '_> {
    /// The innermost scope of a stack.
    pub(super) fn scope(&mut self, layout: &PropertyLayout, frames: &[Unwound]) -> Scope {
        let slots = frames.iter().filter_map(|frame| frame.v8.as_ref());
        let slots = slots.take_while(|slots| slots.marker != ENTRY_MARKER);
        let functions = slots.filter(|it| is_pointer(it.marker) && is_pointer(it.function));
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut entered = Entered::Nothing;
        let mut callee = None;
        for slots in functions.take(MAX_SCOPES) {
            // What is no store is known to be none from now on.
            for position in 0..SCOPE_WORDS {
                let word = self.scope_word(slots, position);
                word.and_then(|word| self.class_of(layout, word));
            }
            let enters = self.enters(slots).filter(|_| entered == Entered::Nothing);
            match enters {
                Some(Enters::With(position)) => {
                    entered = known(self.scope_word(slots, position));
                }
                Some(Enters::ByReceiver) => {
                    let receiver = callee.and_then(|callee| self.scope_word(callee, 0));
                    entered = known(receiver);
                }
                Some(Enters::Somehow) => entered = Entered::Unknown,
                Some(Enters::Run) => {
                    let (storage, store) = (self.scope_word(slots, 0), self.scope_word(slots, 1));
                    if let Some(run) = storage.zip(store)
                        && !runs.iter().any(|(storage, _)| *storage == run.0)
                    {
                        runs.push(run);
                    }
                }
                None => {}
            }
            callee = Some(slots);
        }
        let runs = runs.into_iter().map(|(_, store)| store).collect();
        Scope { entered, runs }
    }

    /// The receiver of a frame, or one of its first arguments.
    fn scope_word(&self, slots: &FrameSlots, position: u64) -> Option<u64> {
        let at = slots.frame_pointer.checked_add(RECEIVER + 8 * position)?;
        self.sample.stack_word(at)
    }

    fn enters(&mut self, slots: &FrameSlots) -> Option<Enters> {
        let shared = self.heap.layout.function_shared;
        let shared = self.heap.field(slots.function, shared)?;
        let function = self.functions.of_shared(self.heap, shared)?;
        let facts = self.functions.get(function);
        Enters::of(&facts.name, &facts.url)
    }
}

fn known(resource: Option<u64>) -> Entered {
    match resource {
        Some(resource) if is_pointer(resource) => Entered::Callback(resource),
        _ => Entered::Unknown,
    }
}
