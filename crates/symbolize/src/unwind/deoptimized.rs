//! The caller of a function that is being deoptimized.
//!
//! V8's deoptimizer (`DeoptimizationEntry_*`) takes the frame of the optimized function down, return
//! address and all, and then computes the interpreted frames that replace it. Until it has pushed
//! them the frame pointer points to a frame that is no more, below the stack pointer, where the
//! deoptimizer's own calls write over it. What is left on the stack starts with the caller's frame: it
//! is found by the pointer to its own caller's. Where in the caller the call was is lost.

use nodespy_model::Registers;

use super::{Code, StackMemory, frame_slots, step_by_frame_pointer};
use crate::address_map::ImageId;
use crate::frame::{CodeAddress, Unwound};
use crate::x86_64::{CODE_ADDRESSES, FRAME_RETURN_ADDRESS};

/// How far up the caller's frame is looked for: it may hold many values.
const SEARCH_BYTES: u64 = 16 << 10;
/// So many frames must follow one another for the first to be believed: below any function are those
/// with which V8 was entered.
const LINKS: usize = 2;

/// The frame of the caller, and the registers of its own caller.
pub(super) fn caller(
    code: &mut Code<'_>,
    image: ImageId,
    registers: &Registers,
    memory: &mut StackMemory<'_>,
) -> Option<(Unwound, Option<Registers>)> {
    let start = registers.stack_pointer();
    if registers.frame_pointer() >= start || !code.opened(image).has_v8() {
        return None;
    }
    let frame_pointer = (0..SEARCH_BYTES)
        .step_by(8)
        .filter_map(|offset| start.checked_add(offset))
        .find(|&frame| is_frame(frame, memory))?;
    let mut at_frame = *registers;
    at_frame.0[Registers::FRAME_POINTER] = frame_pointer;
    let frame = Unwound {
        code: CodeAddress::Unknown,
        v8: Some(frame_slots(&at_frame, memory)),
    };
    Some((frame, step_by_frame_pointer(&at_frame, memory)))
}

/// Whether a chain of frames starts at an address: each has a pointer further up the stack to the
/// next, and what may be a return address. Whether a call is before that says nothing: the
/// deoptimizer's own frames return to where none is.
fn is_frame(mut frame: u64, memory: &StackMemory<'_>) -> bool {
    for _ in 0..LINKS {
        let next = memory.read_copied(frame);
        let return_address = memory.read_copied(frame.saturating_add(FRAME_RETURN_ADDRESS));
        match (next, return_address) {
            (Some(next), Some(address)) if next > frame && CODE_ADDRESSES.contains(&address) => {
                frame = next;
            }
            _ => return false,
        }
    }
    true
}
