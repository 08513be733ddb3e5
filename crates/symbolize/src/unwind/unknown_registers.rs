//! The frame pointer of a thread of which only stack and instruction pointer are known.
//!
//! Of a thread that waits in the kernel nothing else can be learned without stopping it. Its libc
//! frames are unwound without a frame pointer, and Node's C++ keeps one in every frame: the frame
//! looked for starts with a pointer further up the stack, followed by a return address behind a
//! call of the very function we are in.

use super::{Code, StackMemory};
use crate::address_map::{ImageId, Place};
use crate::x86_64::{FRAME_ALIGNMENT, FRAME_RETURN_ADDRESS};
use nodespy_model::Registers;

/// How far up a frame is looked for; `uv__io_poll` alone holds 12 KiB.
const SEARCH_BYTES: u64 = 64 << 10;

/// The frame pointer of the function at `address`, found on the stack.
pub(super) fn find_frame_pointer(
    code: &mut Code<'_>,
    (image, address): (ImageId, u64),
    registers: &Registers,
    memory: &StackMemory<'_>,
) -> Option<u64> {
    let start = registers.stack_pointer().next_multiple_of(FRAME_ALIGNMENT);
    let function = code.image(image).cfi()?.function_start(address);
    let frames = || {
        (0..SEARCH_BYTES)
            .step_by(FRAME_ALIGNMENT as usize)
            .filter_map(|offset| {
                let frame = start.checked_add(offset)?;
                let caller = memory.read_copied(frame)?;
                let return_address =
                    memory.read_copied(frame.checked_add(FRAME_RETURN_ADDRESS)?)?;
                (caller > frame && memory.read_copied(caller).is_some())
                    .then_some((frame, return_address))
            })
    };
    // What earlier, deeper calls left behind looks like frames too: one that is proven to belong to
    // a call of this function is better than the first.
    let proven = frames().find(|(_, return_address)| {
        function.is_some() && code.called_before(*return_address) == function.map(|at| (image, at))
    });
    proven
        .or_else(|| frames().find(|(_, return_address)| code.follows_call(*return_address)))
        .map(|(frame, _)| frame)
}

impl Code<'_> {
    /// The function that the call before `address` calls, where the call says so itself.
    fn called_before(&mut self, address: u64) -> Option<(ImageId, u64)> {
        let Place::File { image, file_offset } = self.map.at(address.checked_sub(1)?) else {
            return None;
        };
        let called = self.opened(image).called_before(file_offset + 1)?;
        Some((image, called))
    }
}
