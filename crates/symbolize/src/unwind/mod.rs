//! Stacks from registers and stack bytes.
//!
//! Native code is unwound by its tables ([`cfi`]); JIT code and V8's builtins have none but keep
//! frame pointers, as does everything else nobody wrote a table for. Memory outside the copied
//! part of the stack is read from the live process for native code alone: below it only the red
//! zone, above it what did not fit. Frames of JavaScript that were not copied are not guessed, and
//! none where the engine copies memory at the sampled instruction, though it may have failed to: such a stack is cut.

use nodespy_model::{Origin, Registers};

use crate::address_map::{AddressMap, ImageId, Place};
use crate::copied::CopiedMemory;
use crate::frame::{CodeAddress, FrameSlots, Unwound};
use crate::image::Image;
use crate::x86_64::{
    CODE_ADDRESSES, FRAME_RETURN_ADDRESS, FRAME_SIZE, RED_ZONE_BYTES, RETURN_ADDRESS,
    SAVED_REGISTERS, v8,
};
use cfi::{NOT_SAVED, Rule};

pub(crate) mod cfi;
mod deoptimized;
mod musl;
#[cfg(test)]
mod tests;
mod unknown_registers;

/// The deepest stack that is followed. Node's own limit is about 11,000 frames of JavaScript.
const DEPTH_LIMIT: usize = 16_384;
/// How much of the live stack is read when the copy does not reach the root.
const LIVE_LIMIT_BYTES: u64 = 2 << 20;
const LIVE_PAGE: u64 = 4096;
/// How far up a saved stack pointer is looked for (OpenSSL's SHA-512 uses 2.5 KiB).
const SAVED_POINTER_SEARCH_BYTES: u64 = 8192;

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
    /// Words of frames beyond it.
    copied: CopiedMemory<'a>,
    pid: u32,
    origin: &'a dyn Origin,
    live: Vec<(u64, Vec<u8>)>,
    has_read_beyond: bool,
}

impl StackMemory<'_> {
    /// A word of the copied stack.
    fn read_copied(&self, address: u64) -> Option<u64> {
        let inside = usize::try_from(address.checked_sub(self.copy_start)?).ok()?;
        match self.copy.get(inside..inside.checked_add(8)?) {
            Some(bytes) => Some(u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))),
            None => self.copied.word(address),
        }
    }

    /// A word of the copied stack that unwinding cannot do without. Calls of JavaScript come and go within microseconds: what
    /// stands where the copy ends is by now often another call, and nothing in it says so.
    fn read_sampled(&mut self, address: u64) -> Option<u64> {
        let word = self.read_copied(address);
        self.has_read_beyond |= word.is_none() && address >= self.copy_start;
        word
    }

    /// A word of the stack, from the live process where the copy does not hold it. Not above the copy where the engine copies more
    /// at the sampled instruction: such samples wait for up to a second, and what is not copied is of another moment by now.
    fn read(&mut self, address: u64) -> Option<u64> {
        if let Some(word) = self.read_copied(address) {
            return Some(word);
        }
        match address.checked_sub(self.copy_start) {
            Some(above) => {
                self.has_read_beyond = true;
                if above > LIVE_LIMIT_BYTES || self.copied.is_all() {
                    return None;
                }
            }
            None if self.copy_start - address > RED_ZONE_BYTES => return None,
            None => {}
        }
        let mut bytes = [0; 8];
        for (position, byte) in bytes.iter_mut().enumerate() {
            *byte = self.live_byte(address.checked_add(position as u64)?)?;
        }
        Some(u64::from_ne_bytes(bytes))
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

/// The last whole stack of a thread. A thread's outermost frames stay the same for long (`main` to
/// `uv_run`), so they complete a stack whose copy ends before its root: the same return address
/// at the same place of the same stack is the same call.
#[derive(Debug, Default)]
pub(crate) struct KnownRoot {
    frames: Vec<RootFrame>,
    /// The frames of the stack that is followed; kept for its room.
    path: Vec<RootFrame>,
}

#[derive(Debug, Clone, Copy)]
struct RootFrame {
    instruction_pointer: u64,
    stack_pointer: u64,
    frame: Unwound,
}

impl KnownRoot {
    /// The images its frames are in.
    pub(crate) fn images(&self) -> impl Iterator<Item = ImageId> + '_ {
        self.frames
            .iter()
            .filter_map(|known| match known.frame.code {
                CodeAddress::Image(image, _) => Some(image),
                CodeAddress::Jit(_) | CodeAddress::Unknown => None,
            })
    }

    /// The frames of the callers of the frame in `registers`.
    fn callers(&self, registers: &Registers) -> Option<impl Iterator<Item = Unwound> + '_> {
        let at = self.frames.iter().position(|known| {
            known.stack_pointer == registers.stack_pointer()
                && known.instruction_pointer == registers.instruction_pointer()
        })?;
        Some(self.frames[at + 1..].iter().map(|known| known.frame))
    }
}

/// The code of one process.
pub(crate) struct Code<'a> {
    pub(crate) pid: u32,
    pub(crate) map: &'a AddressMap,
    pub(crate) images: &'a mut [Image],
    pub(crate) origin: &'a dyn Origin,
}

/// Follows a stack from its leaf to its root, adding each frame to `frames`, leaf first.
pub(crate) fn unwind(
    registers: &Registers,
    (copy, copied): (&[u8], CopiedMemory<'_>),
    code: &mut Code<'_>,
    root: &mut KnownRoot,
    frames: &mut Vec<Unwound>,
) -> Outcome {
    root.path.clear();
    let mut memory = StackMemory {
        copy,
        copy_start: registers.stack_pointer(),
        copied,
        pid: code.pid,
        origin: code.origin,
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
        let step = match code.map.at(address) {
            Place::File { image, file_offset } => {
                let file = code.image(image);
                let linked = file.address_of_offset(file_offset);
                let rule = file.rule_at(linked);
                let is_musl = file.is_musl && rule == Rule::NoTable;
                let may_be_v8 = rule == Rule::NoTable && !is_musl;
                frames.push(Unwound {
                    code: CodeAddress::Image(image, linked),
                    v8: may_be_v8.then(|| frame_slots(&registers, &memory)),
                });
                match is_musl {
                    true => {
                        let place = (image, linked.saturating_add(back));
                        musl::step(code, place, back != 0, &registers, &mut memory)
                    }
                    false => step_native(code, (image, linked), rule, &registers, &mut memory),
                }
            }
            Place::Anonymous => {
                if !CODE_ADDRESSES.contains(&address) {
                    break;
                }
                frames.push(Unwound {
                    code: CodeAddress::Jit(address),
                    v8: Some(frame_slots(&registers, &memory)),
                });
                Step::called(step_by_frame_pointer(&registers, &mut memory))
            }
        };
        root.path.push(RootFrame {
            instruction_pointer: registers.instruction_pointer(),
            stack_pointer: registers.stack_pointer(),
            frame: *frames.last().expect("just added"),
        });
        // Not for JIT code: in a recursion the same place can be another call.
        let is_native = root.path.last().is_some_and(|last| last.frame.v8.is_none());
        if memory.has_read_beyond
            && is_native
            && let Some(callers) = root.callers(&registers)
        {
            frames.extend(callers);
            is_complete = true;
            break;
        }
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
            Step::Deoptimized { frame, caller } => {
                frames.push(frame);
                root.path.push(RootFrame {
                    instruction_pointer: 0,
                    stack_pointer: registers.stack_pointer(),
                    frame,
                });
                let Some(caller) = caller else { break };
                registers = caller;
                back = 1;
            }
            Step::Root => {
                is_complete = true;
                break;
            }
            Step::Lost => break,
        }
    }
    if is_complete && !memory.has_read_beyond {
        std::mem::swap(&mut root.frames, &mut root.path);
    }
    if !is_complete {
        log::trace!(
            "lost at {:x?} after {} frames, sp {:x}, bp {:x}, {} bytes copied from {:x}",
            registers.instruction_pointer(),
            frames.len(),
            registers.stack_pointer(),
            registers.frame_pointer(),
            memory.copy.len(),
            memory.copy_start
        );
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
    /// The frame is taken down: the one above it, and who called that.
    Deoptimized {
        frame: Unwound,
        caller: Option<Registers>,
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

fn frame_slots(registers: &Registers, memory: &StackMemory<'_>) -> FrameSlots {
    let frame = registers.frame_pointer();
    let below = |offset| {
        frame
            .checked_sub(offset)
            .and_then(|address| memory.read_copied(address))
            .unwrap_or(0)
    };
    FrameSlots {
        frame_pointer: frame,
        marker: below(v8::MARKER),
        function: below(v8::FRAME_FUNCTION),
        bytecode_array: below(v8::FRAME_BYTECODE),
        bytecode_offset: below(v8::FRAME_BYTECODE_OFFSET),
        feedback: below(v8::FRAME_FEEDBACK),
    }
}

fn step_native(
    code: &mut Code<'_>,
    (image, address): (ImageId, u64),
    rule: Rule,
    registers: &Registers,
    memory: &mut StackMemory<'_>,
) -> Step {
    match rule {
        Rule::Root => Step::Root,
        // By the ABI a frame pointer of zero marks the outermost frame (the dynamic loader's start
        // has no table).
        Rule::NoTable if registers.frame_pointer() == 0 => Step::Root,
        Rule::NoTable => match deoptimized::caller(code, image, registers, memory) {
            Some((frame, caller)) => Step::Deoptimized { frame, caller },
            None => Step::called(step_by_frame_pointer(registers, memory)),
        },
        Rule::Offset {
            register,
            offset,
            saved,
        } => {
            let mut registers = *registers;
            let needs_frame_pointer = usize::from(register) == Registers::FRAME_POINTER;
            if needs_frame_pointer && registers.frame_pointer() == 0 {
                registers.0[Registers::FRAME_POINTER] = unknown_registers::find_frame_pointer(
                    code,
                    (image, address),
                    &registers,
                    memory,
                )
                .unwrap_or(0);
            }
            Step::called(step_by_offset(register, offset, &saved, &registers, memory))
        }
        Rule::Expression => step_by_expression(code, image, address, registers, memory),
    }
}

/// Evaluates a rule that holds an expression. OpenSSL's AVX2 code keeps the caller's stack
/// pointer in the red zone, below what the kernel copies and gone when we read it live; the same
/// pointer is also saved further up, where it can be recognised.
fn step_by_expression(
    code: &mut Code<'_>,
    image: ImageId,
    address: u64,
    registers: &Registers,
    memory: &mut StackMemory<'_>,
) -> Step {
    let evaluate = |code: &mut Code<'_>, cfa, read: &mut dyn FnMut(u64) -> Option<u64>| {
        let cfi = code.image(image).cfi()?;
        cfi.evaluate(address, registers, cfa, read)
    };
    let mut evaluated = evaluate(code, None, &mut |at| memory.read_copied(at));
    if evaluated.is_none()
        && let Some(cfa) = find_saved_stack_pointer(code, registers, memory)
    {
        evaluated = evaluate(code, Some(cfa), &mut |at| memory.read(at));
    }
    if evaluated.is_none() {
        evaluated = evaluate(code, None, &mut |at| memory.read(at));
    }
    match evaluated {
        Some((caller, was_interrupted)) => Step::Caller {
            registers: caller,
            was_interrupted,
        },
        None => Step::Lost,
    }
}

/// Looks up the stack for a pointer to a return address not far above itself: where a function
/// that moves its stack around has put the stack pointer it was called with.
fn find_saved_stack_pointer(
    code: &mut Code<'_>,
    registers: &Registers,
    memory: &StackMemory<'_>,
) -> Option<u64> {
    let start = registers.stack_pointer();
    (0..SAVED_POINTER_SEARCH_BYTES)
        .step_by(8)
        .find_map(|offset| {
            let slot = start.checked_add(offset)?;
            let pointer = memory.read_copied(slot)?;
            let is_near = pointer > slot && pointer - slot < SAVED_POINTER_SEARCH_BYTES;
            let return_address = memory.read_copied(pointer).filter(|_| is_near)?;
            code.follows_call(return_address)
                .then_some(pointer.wrapping_add_signed(-RETURN_ADDRESS))
        })
}

impl Code<'_> {
    /// An image with its unwind tables.
    fn image(&mut self, image: ImageId) -> &mut Image {
        let image = &mut self.images[image.0 as usize];
        image.reopen_for_tables(self.origin, Some(self.pid));
        image
    }

    /// An image with its file open, for its code.
    fn opened(&mut self, image: ImageId) -> &mut Image {
        let image = &mut self.images[image.0 as usize];
        image.reopen(self.origin, Some(self.pid));
        image
    }

    /// Whether the instruction before `address` is a call, in code that comes from a file.
    fn follows_call(&mut self, address: u64) -> bool {
        match address.checked_sub(1).map(|inside| self.map.at(inside)) {
            Some(Place::File { image, file_offset }) => {
                self.opened(image).is_call_before(file_offset + 1)
            }
            _ => false,
        }
    }
}

fn step_by_offset(
    register: u8,
    offset: i32,
    saved: &[i32; SAVED_REGISTERS.len()],
    registers: &Registers,
    memory: &mut StackMemory<'_>,
) -> Option<Registers> {
    let base = registers.0[usize::from(register)];
    let cfa = base.wrapping_add_signed(offset.into());
    let mut caller = *registers;
    caller.0[Registers::INSTRUCTION_POINTER] =
        memory.read(cfa.wrapping_add_signed(RETURN_ADDRESS))?;
    caller.0[Registers::STACK_POINTER] = cfa;
    for (&number, &offset) in SAVED_REGISTERS.iter().zip(saved) {
        if offset == NOT_SAVED {
            continue;
        }
        // In an epilogue a register may be popped already while the table still says where it
        // was; what is below the stack pointer can't be read, and the register holds its value.
        if let Some(value) = memory.read_copied(cfa.wrapping_add_signed(offset.into())) {
            caller.0[number] = value;
        }
    }
    Some(caller)
}

fn step_by_frame_pointer(registers: &Registers, memory: &mut StackMemory<'_>) -> Option<Registers> {
    let frame = registers.frame_pointer();
    if frame == 0 {
        return None;
    }
    let mut caller = *registers;
    caller.0[Registers::FRAME_POINTER] = memory.read_sampled(frame)?;
    caller.0[Registers::INSTRUCTION_POINTER] =
        memory.read_sampled(frame.checked_add(FRAME_RETURN_ADDRESS)?)?;
    caller.0[Registers::STACK_POINTER] = frame.checked_add(FRAME_SIZE)?;
    Some(caller)
}
