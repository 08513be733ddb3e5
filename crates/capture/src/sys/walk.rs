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
        let mut most = 0;
        for seed in 0..300 {
            let mut memory = Lies::new(seed);
            let registers = memory.registers();
            let options = ProgramOptions::new(512, EVERYTHING, None);
            let slot = Some(0x20_0000 + 8 * seed);
            let words = walk.copy(&mut memory, &registers, options, slot);
            assert!(words.len() <= 7169, "{seed}");
            most = most.max(memory.reads);
        }
        assert!(most < 1000, "{most} reads");
    }

    /// A stack without frame pointers, of so many words, and the words of it that were copied; its first bytes were copied with the
    /// sample.
    fn copied_of_bare(options: ProgramOptions, words: u64) -> Vec<u64> {
        let mut registers = Registers::default();
        registers.0[Registers::STACK_POINTER] = STACK;
        registers.0[Registers::FRAME_POINTER] = 7;
        let stack = (0..words).map(|word| (STACK + 8 * word, 0x1_0000_0000 + word));
        let below = (1..=6).map(|word| (STACK - 8 * word, 0));
        let mut memory = Words(stack.chain(below).collect(), 0);
        let mut walk = Walk::new();
        let mut copied = walk.copy(&mut memory, &registers, options, None);
        let (mut found, mut next) = (Vec::new(), STACK + 4096);
        while let [header, rest @ ..] = copied
            && !rest.is_empty()
        {
            let length = (header >> 48) as usize;
            assert_eq!(header & 0xffff_ffff_ffff, next);
            next += 8 * length as u64;
            found.extend(&rest[..length]);
            copied = &rest[length..];
        }
        assert!(
            copied.iter().all(|&counts| counts == 0),
            "nothing failed and there was room for all"
        );
        found
    }

    #[test]
    fn a_stack_without_frame_pointers_is_copied_up_to_its_end() {
        // From a page on: 2,048 words are 16 KiB.
        let expected: Vec<u64> = (512..2048).map(|word| 0x1_0000_0000 + word).collect();
        let options = ProgramOptions::new(4096, CopiedAtSample::default(), None);
        assert_eq!(copied_of_bare(options, 2048), expected);
        // 80 chunks of 63 words at most.
        assert_eq!(copied_of_bare(options, 8192).len(), 80 * 63);
        // None where rings have no room for them.
        assert_eq!(copied_of_bare(options.without_bare(), 2048), [0; 0]);
    }

    /// Like OpenSSL's code: the leaf has 12 KiB and no frame, its callers have frames.
    #[test]
    fn a_leaf_without_frame_pointers_is_copied_up_to_the_first_frame() {
        let functions = std::array::from_fn(|frame| (0x20_0001 + 0x100 * frame as u64, 6));
        let mut memory = frames_of(functions, STACK + 0x3000, 1024);
        memory
            .0
            .extend((0..0x600).map(|word| (STACK + 8 * word, 3)));
        memory.0.insert(STACK + 0x2f00, STACK + 0x3000 + 128);
        let mut registers = Registers::default();
        registers.0[Registers::STACK_POINTER] = STACK;
        registers.0[Registers::FRAME_POINTER] = 7;
        let options = ProgramOptions::new(4096, CopiedAtSample::default(), None);
        let mut walk = Walk::new();
        let copied = walk.copy(&mut memory, &registers, options, None);
        for address in (STACK + 4096..STACK + 0x2f40).step_by(8 * 63) {
            assert!(copied.contains(&(address | 63 << 48)), "{address:x}");
        }
        let frames = copied.iter().filter(|&&word| word >> 48 == 8).count();
        assert_eq!(frames, 8);
    }

    /// A promise that no one awaits yet but the last of 15 tasks, whose ring goes on from its start after twelve.
    #[test]
    fn the_last_task_behind_the_end_of_the_ring_is_found() {
        const PROMISE: u64 = 0x20_0001;
        const TASK: u64 = 0x21_0001;
        const QUEUE: u64 = 0x22_0000;
        const RING: u64 = 0x23_0000;
        let mut memory: std::collections::BTreeMap<u64, u64> =
            (0..1024).map(|word| (STACK - 64 + 8 * word, 0)).collect();
        // What frames have where V8 keeps context and function: the job, the loop that runs microtasks, the entry into V8.
        let slots = [(0x10, PROMISE), (0x12, QUEUE), (2, 0), (0, 0), (0, 0)];
        for (frame, (marker, function)) in (STACK + 128..).step_by(64).zip(slots) {
            memory.extend([(frame, frame + 64), (frame + 8, 0x40_0000)]);
            memory.extend([(frame - 8, marker), (frame - 16, function)]);
        }
        memory.insert(STACK + 128 + 4 * 64, 0);
        let mut put = |address: u64, words: &[u64]| {
            memory.extend((address..).step_by(8).zip(words.iter().copied()));
        };
        let object = 0x50_0001;
        put(
            PROMISE - 1,
            &[object, object, object, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        );
        put(TASK - 1, &[object, 0, object, PROMISE, 0, 0]);
        put(QUEUE, &[0, 15, 16, 4, RING]);
        put(RING, &[0, 0, TASK, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let mut registers = Registers::default();
        registers.0[Registers::STACK_POINTER] = STACK;
        registers.0[Registers::FRAME_POINTER] = STACK + 128;
        let options = ProgramOptions::new(4096, EVERYTHING, None);
        let mut walk = Walk::new();
        let copied = walk.copy(&mut Words(memory, 0), &registers, options, None);
        assert!(copied.contains(&((TASK - 1) | 6 << 48)), "{copied:x?}");
    }

    /// Memory that has a word at every address.
    struct Everywhere(fn(u64) -> u64, usize);

    impl WalkedMemory for Everywhere {
        fn read(&mut self, address: u64, buffer: &mut [u8]) -> bool {
            self.1 += 1;
            let words = (address..).step_by(8).zip(buffer.chunks_mut(8));
            words.for_each(|(at, bytes)| {
                bytes.copy_from_slice(&(self.0)(at).to_ne_bytes()[..bytes.len()]);
            });
            true
        }

        fn fields(&mut self, _: u64) -> Option<FieldsValue> {
            None
        }
    }

    /// How often memory is read that has these words.
    fn reads_of(word_at: fn(u64) -> u64) -> usize {
        let mut memory = Everywhere(word_at, 0);
        let mut registers = Registers::default();
        registers.0[Registers::STACK_POINTER] = STACK;
        registers.0[Registers::FRAME_POINTER] = STACK + 16;
        let options = ProgramOptions::new(4096, EVERYTHING, None);
        Walk::new().copy(&mut memory, &registers, options, None);
        memory.1
    }

    #[test]
    fn a_stack_that_is_made_of_frames_is_read_for_a_bounded_time() {
        // Each word is the frame of another way, which has no end. It took 13,362 reads.
        let frames = reads_of(|at| match at % 16 {
            0 => at + 4096,
            _ => 0x40_0000,
        });
        assert!(frames < 1100, "{frames} reads");
        // Each word leads to two frames and then nowhere. It took 6,161 reads.
        let probes = reads_of(|at| match (at.wrapping_sub(STACK), at % 16) {
            (0..0x8000, _) => (at + 0x4_0000) & !15,
            (0x4_0000..0x9_0000, 0) => at + 0x4_0000,
            (0x4_0000..0x9_0000, _) => 0x40_0000,
            _ => 0,
        });
        assert!((4096..4300).contains(&probes), "{probes} reads");
    }
}
