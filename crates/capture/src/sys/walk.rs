//! The eBPF program's walk in user space: `bpf/reader.c`, over memory that its caller can read.

use std::ffi::{c_int, c_void};

use nodespy_model::Registers;

use super::bpf::{FieldsValue, ProgramOptions};

/// What the walk asks for.
pub(crate) trait WalkedMemory {
    /// Reads memory of the process; false where not all of it could be.
    fn read(&mut self, address: u64, buffer: &mut [u8]) -> bool;
    /// What is copied of objects with a map or a constructor.
    fn fields(&mut self, key: u64) -> Option<FieldsValue>;
}

/// The room that a walk takes.
#[derive(Debug)]
pub(crate) struct Walk {
    scratch: Vec<u64>,
}

/// `struct callbacks` of reader.c.
#[repr(C)]
struct Callbacks {
    context: *mut c_void,
    read: unsafe extern "C" fn(*mut c_void, *mut u8, u32, u64) -> c_int,
    fields: unsafe extern "C" fn(*mut c_void, u64, *mut FieldsValue) -> c_int,
}

unsafe extern "C" {
    safe fn nodespy_scratch_bytes() -> u64;
    fn nodespy_walked_words(scratch: *const u64) -> *const u64;
    fn nodespy_walk(
        scratch: *mut u64,
        callbacks: *const Callbacks,
        options: *const ProgramOptions,
        slot: u64,
        stack_pointer: u64,
        frame_pointer: u64,
    ) -> u32;
}

impl Walk {
    pub(crate) fn new() -> Self {
        let bytes = usize::try_from(nodespy_scratch_bytes()).expect("some hundred KiB");
        Self {
            scratch: vec![0; bytes.div_ceil(8)],
        }
    }

    /// Copies what a sample with these registers needs, as chunks of memory. `slot` is where its thread has the stores of
    /// AsyncLocalStorage, where that is known.
    pub(crate) fn copy<M: WalkedMemory>(
        &mut self,
        memory: &mut M,
        registers: &Registers,
        options: ProgramOptions,
        slot: Option<u64>,
    ) -> &[u64] {
        let callbacks = Callbacks {
            context: (&raw mut *memory).cast(),
            read: read::<M>,
            fields: fields::<M>,
        };
        let scratch = self.scratch.as_mut_ptr();
        // SAFETY: `scratch` has the size that the walk asked for and zeroes are a valid one; the callbacks are called
        // during this call only, with the context that they are made for. The words it returns are in `scratch`, and as
        // many as it says were written: the kernel's verifier has proven the same of the same source.
        unsafe {
            let words = nodespy_walk(
                scratch,
                &raw const callbacks,
                &raw const options,
                slot.unwrap_or(0),
                registers.0[Registers::STACK_POINTER],
                registers.0[Registers::FRAME_POINTER],
            );
            std::slice::from_raw_parts(nodespy_walked_words(scratch), words as usize)
        }
    }
}

/// # Safety
/// `context` is a `M` that nothing else refers to, and `to` has room for so many bytes.
unsafe extern "C" fn read<M: WalkedMemory>(
    context: *mut c_void,
    to: *mut u8,
    bytes: u32,
    from: u64,
) -> c_int {
    // SAFETY: as promised by the caller; the bytes are those of the walk's scratch, which were initialized.
    let (memory, buffer) = unsafe {
        let buffer = std::slice::from_raw_parts_mut(to, bytes as usize);
        (&mut *context.cast::<M>(), buffer)
    };
    match memory.read(from, buffer) {
        true => 0,
        false => -libc::EFAULT,
    }
}

/// # Safety
/// `context` is a `M` that nothing else refers to, and `found` has room for what is found.
unsafe extern "C" fn fields<M: WalkedMemory>(
    context: *mut c_void,
    key: u64,
    found: *mut FieldsValue,
) -> c_int {
    // SAFETY: as promised by the caller.
    let memory = unsafe { &mut *context.cast::<M>() };
    let Some(fields) = memory.fields(key) else {
        return 0;
    };
    // SAFETY: as promised by the caller.
    unsafe { found.write(fields) };
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::{EVERYTHING, Lies};
    use crate::sys::bpf::CopiedAtSample;

    /// Words at addresses that are written; nothing elsewhere. And how often they were read.
    struct Words(std::collections::BTreeMap<u64, u64>, usize);

    impl WalkedMemory for Words {
        fn read(&mut self, address: u64, buffer: &mut [u8]) -> bool {
            self.1 += 1;
            let words = (address..).step_by(8).zip(buffer.chunks_mut(8));
            words.into_iter().all(|(address, word)| {
                let known = self.0.get(&address);
                known.is_some_and(|known| {
                    word.copy_from_slice(&known.to_ne_bytes()[..word.len()]);
                    true
                })
            })
        }

        fn fields(&mut self, _: u64) -> Option<FieldsValue> {
            None
        }
    }

    const STACK: u64 = 0x7fff_0000;

    /// Eight frames of 64 bytes, each with a context and a function of its own, which has as many words as are mapped there. So
    /// are the words of the stack.
    fn frames_of(functions: [(u64, u64); 8], stack: u64, words: u64) -> Words {
        let mapped = (0..words).map(|word| (stack - 64 + 8 * word, 0));
        let mut memory: std::collections::BTreeMap<u64, u64> = mapped.collect();
        let frames = (stack + 128..).step_by(64);
        for (at, (function, words)) in frames.zip(functions) {
            let next = if function == functions[7].0 {
                0
            } else {
                at + 64
            };
            memory.extend([
                (at, next),
                (at + 8, 0x40_0000),
                (at - 8, 0x30_0001),
                (at - 16, function),
            ]);
            memory.extend((0..words).map(|word| (function - 1 + 8 * word, 0x50_0001 + word)));
        }
        Words(memory, 0)
    }

    fn expect_copied(functions: [(u64, u64); 8]) {
        expect_copied_on(functions, STACK, 1024);
    }

    /// Returns how often memory was read.
    fn expect_copied_on(functions: [(u64, u64); 8], stack: u64, words: u64) -> usize {
        let mut registers = Registers::default();
        registers.0[Registers::STACK_POINTER] = stack;
        registers.0[Registers::FRAME_POINTER] = stack + 128;
        let mut walk = Walk::new();
        let options = ProgramOptions::new(4096, CopiedAtSample::default(), None);
        let mut reads = 0;
        for _ in 0..2 {
            let mut memory = frames_of(functions, stack, words);
            let copied = walk.copy(&mut memory, &registers, options, None);
            for (function, words) in functions {
                let header = (function - 1) | words << 48;
                let chunk = copied.iter().position(|&word| word == header);
                assert_eq!(copied[chunk.unwrap() + 2], 0x50_0002, "{function:x}");
            }
            reads = memory.1;
        }
        reads
    }

    #[test]
    fn the_functions_of_frames_are_copied() {
        let functions = std::array::from_fn(|frame| (0x20_0001 + 0x100 * frame as u64, 6));
        expect_copied(functions);
    }

    #[test]
    fn an_object_before_memory_that_is_not_mapped_is_copied() {
        let mut functions = std::array::from_fn(|frame| (0x20_0001 + 0x100 * frame as u64, 6));
        functions[5] = (0x20_0fe1, 4);
        expect_copied(functions);
    }

    #[test]
    fn frames_that_lie_together_are_read_at_once() {
        let functions = std::array::from_fn(|frame| (0x20_0001 + 0x100 * frame as u64, 6));
        // Once for all frames, and for each function.
        assert_eq!(expect_copied_on(functions, STACK, 1024), 9);
    }

    #[test]
    fn frames_before_the_end_of_the_stack_are_walked() {
        let functions = std::array::from_fn(|frame| (0x20_0001 + 0x100 * frame as u64, 6));
        let page_end = STACK + 4096;
        expect_copied_on(functions, page_end - 1024, (1024 + 64) / 8);
    }

    #[test]
    fn memory_that_lies_ends_the_walk() {
        let mut walk = Walk::new();
        for seed in 0..300 {
            let mut memory = Lies::new(seed);
            let registers = memory.registers();
            let options = ProgramOptions::new(512, EVERYTHING, None);
            let slot = Some(0x20_0000 + 8 * seed);
            let words = walk.copy(&mut memory, &registers, options, slot);
            assert!(words.len() <= 7169 && memory.reads < 200_000, "{seed}");
        }
    }
}
