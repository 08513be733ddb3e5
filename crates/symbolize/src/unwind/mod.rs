//! Stacks from registers and stack bytes (x86-64).
//!
//! Native code is unwound by its tables ([`cfi`]); JIT code and V8's builtins have none but keep
//! frame pointers, as does everything else nobody wrote a table for. Memory outside the copied
//! part of the stack is read from the live process: below it only the red zone, above it what
//! did not fit.

use nodespy_model::{Origin, Registers};

use crate::address_map::{AddressMap, ImageId, Place};
use crate::image::Image;
use cfi::{NOT_SAVED, Rule, SAVED};

pub(crate) mod cfi;

/// The deepest stack that is followed. Node's own limit is about 11,000 frames of JavaScript.
const DEPTH_LIMIT: usize = 16_384;
/// How much of the live stack is read when the copy does not reach the root.
const LIVE_LIMIT_BYTES: u64 = 2 << 20;
const LIVE_PAGE: u64 = 4096;
/// What a function may use below the stack pointer without moving it.
const RED_ZONE: u64 = 256;

/// One frame of an unwound stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnwoundFrame {
    /// Code of an image, at the address it is linked to.
    Image(ImageId, u64),
    /// JIT code.
    Jit(u64),
}

/// How far an unwinding got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Whether the thread's root was reached.
    pub(crate) is_complete: bool,
    /// Whether more of the stack was needed than was copied.
    pub(crate) is_cut: bool,
}

/// The stack of one sample: the copy, and the live process around it.
struct StackMemory<'a> {
    copy: &'a [u8],
    copy_start: u64,
    pid: u32,
    origin: &'a dyn Origin,
    live: Vec<(u64, Vec<u8>)>,
    has_read_beyond: bool,
}

impl StackMemory<'_> {
    fn read(&mut self, address: u64) -> Option<u64> {
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        if let Some(inside) = address.checked_sub(self.copy_start) {
            let inside = usize::try_from(inside).ok()?;
            if let Some(bytes) = self.copy.get(inside..inside.checked_add(8)?) {
                return Some(word(bytes));
            }
            if inside as u64 > LIVE_LIMIT_BYTES {
                return None;
            }
            self.has_read_beyond = true;
        } else if self.copy_start - address > RED_ZONE {
            return None;
        }
        let mut bytes = [0; 8];
        for (position, byte) in bytes.iter_mut().enumerate() {
            *byte = self.live_byte(address.checked_add(position as u64)?)?;
        }
        Some(word(&bytes))
    }

    fn live_byte(&mut self, address: u64) -> Option<u8> {
        let page = address & !(LIVE_PAGE - 1);
        let known = self.live.iter().position(|(start, _)| *start == page);
        let position = match known {
            Some(position) => position,
            None => {
                let mut bytes = vec![0; LIVE_PAGE as usize];
                let read = self.origin.read_memory(self.pid, page, &mut bytes);
                bytes.truncate(read);
                self.live.push((page, bytes));
                self.live.len() - 1
            }
        };
        self.live[position]
            .1
            .get((address - page) as usize)
            .copied()
    }
}

/// Follows a stack from its leaf to its root, adding each frame to `frames`, leaf first.
pub(crate) fn unwind(
    registers: &Registers,
    copy: &[u8],
    pid: u32,
    map: &AddressMap,
    images: &mut [Image],
    origin: &dyn Origin,
    frames: &mut Vec<UnwoundFrame>,
) -> Outcome {
    let mut memory = StackMemory {
        copy,
        copy_start: registers.stack_pointer(),
        pid,
        origin,
        live: Vec::new(),
        has_read_beyond: false,
    };
    let mut registers = *registers;
    // A return address points behind its call: one byte back is inside the caller.
    let mut back = 0;
    let mut is_complete = false;
    for _ in 0..DEPTH_LIMIT {
        let Some(address) = registers.instruction_pointer().checked_sub(back) else {
            break;
        };
        let step = match map.at(address) {
            Place::File { image, file_offset } => {
                let opened = &mut images[image.0 as usize];
                let linked = opened.address_of_offset(file_offset);
                frames.push(UnwoundFrame::Image(image, linked));
                step_native(opened, linked, &registers, &mut memory)
            }
            Place::Anonymous => {
                // Nothing is mapped in the first page, nor above the user half.
                if !(0x1000..1 << 47).contains(&address) {
                    break;
                }
                frames.push(UnwoundFrame::Jit(address));
                step_by_frame_pointer(&registers, &mut memory)
            }
        };
        match step {
            Step::Caller {
                registers: caller,
                was_interrupted,
            } => {
                let moved = caller.stack_pointer() > registers.stack_pointer()
                    || (was_interrupted && caller != registers);
                if !moved {
                    break;
                }
                registers = caller;
                back = u64::from(!was_interrupted);
            }
            Step::Root => {
                is_complete = true;
                break;
            }
            Step::Lost => break,
        }
    }
    Outcome {
        is_complete,
        is_cut: memory.has_read_beyond,
    }
}

enum Step {
    Caller {
        registers: Registers,
        was_interrupted: bool,
    },
    Root,
    Lost,
}

impl Step {
    fn called(registers: Option<Registers>) -> Self {
        match registers {
            Some(registers) => Self::Caller {
                registers,
                was_interrupted: false,
            },
            None => Self::Lost,
        }
    }
}

fn step_native(
    image: &mut Image,
    address: u64,
    registers: &Registers,
    memory: &mut StackMemory<'_>,
) -> Step {
    match image.rule_at(address) {
        Rule::Root => Step::Root,
        Rule::NoTable => step_by_frame_pointer(registers, memory),
        Rule::Offset {
            register,
            offset,
            saved,
        } => Step::called(step_by_offset(register, offset, &saved, registers, memory)),
        Rule::Expression => {
            let evaluated = image
                .cfi()
                .and_then(|cfi| cfi.evaluate(address, registers, &mut |at| memory.read(at)));
            match evaluated {
                Some((caller, was_interrupted)) => Step::Caller {
                    registers: caller,
                    was_interrupted,
                },
                None => Step::Lost,
            }
        }
    }
}

fn step_by_offset(
    register: u8,
    offset: i32,
    saved: &[i32; SAVED.len()],
    registers: &Registers,
    memory: &mut StackMemory<'_>,
) -> Option<Registers> {
    let base = registers.0[usize::from(register)];
    let cfa = base.wrapping_add_signed(offset.into());
    let mut caller = *registers;
    caller.0[Registers::INSTRUCTION_POINTER] = memory.read(cfa.wrapping_sub(8))?;
    caller.0[Registers::STACK_POINTER] = cfa;
    for (&number, &offset) in SAVED.iter().zip(saved) {
        if offset == NOT_SAVED {
            continue;
        }
        // In an epilogue a register may be popped already while the table still says where it
        // was; what is below the stack pointer can't be read, and the register holds its value.
        if let Some(value) = memory.read(cfa.wrapping_add_signed(offset.into())) {
            caller.0[number] = value;
        }
    }
    Some(caller)
}

fn step_by_frame_pointer(registers: &Registers, memory: &mut StackMemory<'_>) -> Step {
    let frame = registers.frame_pointer();
    if frame == 0 {
        return Step::Lost;
    }
    let caller = (|| {
        let mut caller = *registers;
        caller.0[Registers::FRAME_POINTER] = memory.read(frame)?;
        caller.0[Registers::INSTRUCTION_POINTER] = memory.read(frame.checked_add(8)?)?;
        caller.0[Registers::STACK_POINTER] = frame.checked_add(16)?;
        Some(caller)
    })();
    Step::called(caller)
}
