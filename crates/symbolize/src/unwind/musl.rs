//! Frames of musl's libc, which has neither unwind tables nor frame pointers.
//!
//! Where a function's return address is, its own code says ([`crate::x86_64::epilogue`]); the frame
//! pointer is whatever the function keeps there. A return address is believed if a call is before it.

use nodespy_model::Registers;

use super::{Code, StackMemory, Step, step_by_frame_pointer};
use crate::address_map::{ImageId, Place};
use crate::x86_64::{RETURN_ADDRESS, SAVED_REGISTERS};

/// From a frame of musl to its caller. `address` is where it goes on; `has_called` says that it called the
/// frame before, and was not interrupted.
pub(super) fn step(
    code: &mut Code<'_>,
    (image, address): (ImageId, u64),
    has_called: bool,
    registers: &Registers,
    memory: &mut StackMemory<'_>,
) -> Step {
    if let Some(caller) = caller(code, (image, address), registers, memory) {
        return Step::called(Some(caller));
    }
    let guess = step_by_frame_pointer(registers, memory);
    match has_called && is_start(code, guess.as_ref()) {
        true => Step::Root,
        false => Step::called(guess),
    }
}

fn caller(
    code: &mut Code<'_>,
    (image, address): (ImageId, u64),
    registers: &Registers,
    memory: &mut StackMemory<'_>,
) -> Option<Registers> {
    let epilogue = code.opened(image).epilogue_at(address)?;
    let above = |offset: i64| registers.stack_pointer().wrapping_add_signed(offset);
    let slot = above(epilogue.return_address);
    let return_address = memory.read(slot)?;
    if !code.follows_call(return_address) {
        return None;
    }
    let mut caller = *registers;
    for (&number, &offset) in SAVED_REGISTERS.iter().zip(&epilogue.saved) {
        if let Some(value) = offset.and_then(|offset| memory.read_copied(above(offset))) {
            caller.0[number] = value;
        }
    }
    caller.0[Registers::INSTRUCTION_POINTER] = return_address;
    caller.0[Registers::STACK_POINTER] = slot.wrapping_add_signed(-RETURN_ADDRESS);
    Some(caller)
}

/// Whether a frame without a caller is the one that starts a program or thread: it never returns. Anything
/// else that musl calls back was called by code of some file; what is in the frame pointer leads nowhere.
fn is_start(code: &Code<'_>, guess: Option<&Registers>) -> bool {
    guess.is_none_or(|caller| {
        let address = caller.instruction_pointer().wrapping_sub(1);
        !matches!(code.map.at(address), Place::File { .. })
    })
}
