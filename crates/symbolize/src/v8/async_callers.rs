//! Async callers as frames.

use nodespy_model::{FastMap, FrameKind, Tier};

use super::JsFrame;
use super::async_chain::{self, AsyncCaller, Chain, ChainEnd};
use super::functions::Functions;
use super::heap::Heap;
use super::walk::Walk;
use crate::frame::Identified;

/// The frames of suspended functions, as long as a batch is looked at.
#[derive(Debug, Default)]
pub(super) struct Callers {
    frames: FastMap<AsyncCaller, Identified>,
}

impl Callers {
    /// To be called before each batch of samples: another function may have the same address.
    pub(super) fn start_batch(&mut self) {
        self.frames.clear();
    }
}

impl Walk<'_, '_> {
    /// Pushes the async callers of the frame before.
    pub(super) fn push_async_callers(&mut self, known: &mut Callers, chain: &Chain) {
        for caller in &chain.callers {
            let frame = match known.frames.get(caller) {
                Some(&frame) => frame,
                None => {
                    let frame = async_frame(&mut self.heap, self.functions, caller);
                    known.frames.insert(*caller, frame);
                    frame
                }
            };
            self.named.push(frame);
        }
        if matches!(chain.end, ChainEnd::Settled | ChainEnd::Broken) {
            self.named.push(Identified::LostCaller);
        }
    }
}

/// The frame of a suspended function, at the line of its `await`.
pub(super) fn async_frame(
    heap: &mut Heap<'_>,
    functions: &mut Functions,
    caller: &AsyncCaller,
) -> Identified {
    let Some(function) = functions.of_shared(heap, caller.shared) else {
        return Identified::LostCaller;
    };
    let place = async_chain::place(heap, caller)
        .and_then(|offset| functions.place_in(heap, function, offset));
    let (line, column) = place.unwrap_or((0, 0));
    Identified::Js(JsFrame {
        function,
        line,
        column,
        tier: Tier::None,
        kind: FrameKind::Async,
    })
}
