//! Stacks that are made up: bytes for the stack, tables for one function.

use nodespy_model::{Mapping, Origin, Registers};

use super::cfi::tests::tables;
use super::{Code, KnownRoot, Outcome, unwind};
use crate::address_map::{AddressMap, ImageId};
use crate::copied::{Chunks, CopiedMemory};
use crate::frame::{CodeAddress, Unwound};
use crate::image::Image;
use crate::v8::stand_in::{Memory, StandIn, node20_layout};

const STACK: u64 = 0x7fff_0000;
/// Where the image is mapped: offset and linked address of a place are the same there.
const IMAGE: u64 = 0x40_0000;
const JIT: u64 = 0x9000_0000;

/// The live stack of a process.
struct LiveStack(Vec<u8>);

impl Memory for LiveStack {
    fn fill(&self, address: u64, buffer: &mut [u8]) -> bool {
        for (position, byte) in buffer.iter_mut().enumerate() {
            let at = (address + position as u64).wrapping_sub(STACK) as usize;
            *byte = self.0.get(at).copied().unwrap_or(0);
        }
        true
    }
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn at(word: u64) -> u64 {
    STACK + word * 8
}

fn registers(instruction: u64, stack: u64, frame: u64) -> Registers {
    let mut registers = Registers::default();
    registers.0[Registers::INSTRUCTION_POINTER] = instruction;
    registers.0[Registers::STACK_POINTER] = stack;
    registers.0[Registers::FRAME_POINTER] = frame;
    registers
}

/// Unwinds a stack of which the first `copied` words were copied.
fn unwound(
    registers: Registers,
    words: &[u64],
    copied: usize,
    root: &mut KnownRoot,
) -> (Vec<Unwound>, Outcome) {
    let image = Image::with_tables(tables()).with_v8(node20_layout(Vec::new()));
    unwound_in(image, registers, words, copied, root)
}

fn unwound_in(
    image: Image,
    registers: Registers,
    words: &[u64],
    copied: usize,
    root: &mut KnownRoot,
) -> (Vec<Unwound>, Outcome) {
    unwound_with(image, registers, (words, copied), (&[], false), root)
}

/// With chunks of memory that were copied beside the stack.
fn unwound_with(
    image: Image,
    registers: Registers,
    (words, copied): (&[u64], usize),
    (memory, is_copied_at_sample): (&[u64], bool),
    root: &mut KnownRoot,
) -> (Vec<Unwound>, Outcome) {
    let mapping = Mapping {
        pid: 1,
        start: IMAGE,
        end: IMAGE + 0x10000,
        file_offset: 0,
        path: "/bin/x".to_owned(),
        file: Default::default(),
        time: 0,
    };
    let mut map = AddressMap::default();
    map.insert(&mapping, Some(ImageId(0)));
    let origin = StandIn(LiveStack(bytes(words)));
    let (memory, mut chunks) = (bytes(memory), Chunks::default());
    let mut frames = Vec::new();
    let outcome = unwind(
        &registers,
        (
            &bytes(&words[..copied]),
            CopiedMemory::of(&memory, &mut chunks).or_nothing(is_copied_at_sample),
        ),
        &mut Code {
            pid: 1,
            map: &map,
            images: &mut [image],
            origin: &origin as &dyn Origin,
        },
        root,
        &mut frames,
    );
    (frames, outcome)
}

fn code(frames: &[Unwound]) -> Vec<CodeAddress> {
    frames.iter().map(|frame| frame.code).collect()
}

fn image(address: u64) -> CodeAddress {
    CodeAddress::Image(ImageId(0), address)
}

/// JIT code, called by the function with tables, called by the root.
const WORDS: [u64; 12] = [
    0,
    0xbc_0000_0000,
    0xf1,
    0xc1,
    // The frame of JIT code: its caller's frame pointer and return address.
    STACK + 9 * 8,
    IMAGE + 0x1081,
    0,
    0,
    0,
    // The frame of the function.
    0,
    IMAGE + 0x2005,
    0,
];

#[test]
fn jit_code_is_unwound_by_frame_pointers_and_native_code_by_tables() {
    let registers = registers(JIT, at(0), at(4));
    let (frames, outcome) = unwound(registers, &WORDS, 12, &mut KnownRoot::default());
    let expected = [CodeAddress::Jit(JIT), image(0x1080), image(0x2004)];
    assert_eq!(code(&frames), expected);
    assert!(outcome.is_complete && !outcome.is_cut);
    let slots = frames[0].v8.unwrap();
    assert_eq!((slots.marker, slots.function), (0xc1, 0xf1));
    assert_eq!(slots.bytecode_array, 0);
    assert!(
        frames[1].v8.is_none(),
        "V8 has no frame where there is a table"
    );
}

#[test]
fn native_frames_that_were_not_copied_are_read_from_the_live_stack() {
    let registers = registers(JIT, at(0), at(4));
    let (frames, outcome) = unwound(registers, &WORDS, 6, &mut KnownRoot::default());
    assert_eq!(frames.len(), 3);
    assert!(outcome.is_complete && outcome.is_cut);
}

/// What was copied at the sampled instruction is all there is of the stack: what stands there a second later is another call.
#[test]
fn native_frames_are_not_read_late_where_memory_was_copied_at_the_sample() {
    let with = |memory: &[u64]| {
        let image = Image::with_tables(tables()).with_v8(node20_layout(Vec::new()));
        let registers = registers(JIT, at(0), at(4));
        let root = &mut KnownRoot::default();
        unwound_with(image, registers, (&WORDS, 6), (memory, true), root)
    };
    let mut rest = vec![at(6) | 6 << 48];
    rest.extend(&WORDS[6..]);
    let (frames, outcome) = with(&rest);
    assert_eq!(frames.len(), 3);
    assert!(outcome.is_complete && !outcome.is_cut);
    // Something else was copied; the record was lost, or the thread was in the kernel, where the program can't copy.
    for memory in [&[at(900) | 1 << 48, 7][..], &[]] {
        let (frames, outcome) = with(memory);
        assert_eq!(frames.len(), 2, "cut");
        assert!(!outcome.is_complete && outcome.is_cut);
    }
}

/// Two calls of JIT code, of which the outer one was not copied.
#[test]
fn frames_of_javascript_that_were_not_copied_end_the_stack() {
    let words = [
        0,
        0,
        at(4),
        JIT + 0x20,
        at(9),
        IMAGE + 0x1081,
        0,
        0,
        0,
        0,
        IMAGE + 0x2005,
        0,
    ];
    let leaf = registers(JIT, at(0), at(2));
    let (frames, outcome) = unwound(leaf, &words, 12, &mut KnownRoot::default());
    assert_eq!(frames.len(), 4);
    assert!(outcome.is_complete && !outcome.is_cut);
    let (frames, outcome) = unwound(leaf, &words, 4, &mut KnownRoot::default());
    let expected = [CodeAddress::Jit(JIT), CodeAddress::Jit(JIT + 0x1f)];
    assert_eq!(code(&frames), expected);
    assert!(!outcome.is_complete && outcome.is_cut);
}

#[test]
fn a_stack_whose_end_is_gone_is_completed_by_the_last_whole_one() {
    let mut root = KnownRoot::default();
    let registers = registers(JIT, at(0), at(4));
    unwound(registers, &WORDS, 12, &mut root);
    let mut words = WORDS;
    // The function has returned meanwhile.
    words[10] = 7;
    let (frames, outcome) = unwound(registers, &words, 9, &mut root);
    let expected = [CodeAddress::Jit(JIT), image(0x1080), image(0x2004)];
    assert_eq!(code(&frames), expected);
    assert!(outcome.is_complete && outcome.is_cut);
    let (frames, outcome) = unwound(registers, &words, 9, &mut KnownRoot::default());
    assert!(!outcome.is_complete);
    assert_eq!(code(&frames)[..2], expected[..2]);
}

#[test]
fn a_stack_that_leads_to_itself_ends() {
    let words = [0, at(0), JIT, at(0), JIT];
    let registers = registers(JIT, at(0), at(1));
    let (frames, outcome) = unwound(registers, &words, 5, &mut KnownRoot::default());
    assert!(frames.len() < 4, "{frames:?}");
    assert!(!outcome.is_complete);
}

/// The stack of a builtin that has taken down the frame of its caller. What is left are the frames of
/// JIT code, called by JIT code, called by the function with tables, called by the root.
const DEOPTIMIZED: [u64; 18] = [
    0xa1,
    0xa2,
    // Looks like a frame, but leads to none.
    STACK + 8 * 8,
    JIT,
    0xf1,
    0xc1,
    STACK + 10 * 8,
    JIT + 0x20,
    0xf2,
    0xc5,
    STACK + 15 * 8,
    IMAGE + 0x1081,
    0,
    0,
    0,
    0,
    IMAGE + 0x2005,
    0,
];

#[test]
fn the_caller_of_a_function_that_is_deoptimized_is_found() {
    let builtin = registers(IMAGE + 0x5000, at(0), at(0) - 0x40);
    let (frames, outcome) = unwound(builtin, &DEOPTIMIZED, 18, &mut KnownRoot::default());
    let expected = [
        image(0x5000),
        CodeAddress::Unknown,
        CodeAddress::Jit(JIT + 0x1f),
        image(0x1080),
        image(0x2004),
    ];
    assert_eq!(code(&frames), expected, "{frames:x?}");
    assert_eq!(frames[1].v8.unwrap().function, 0xf1);
    assert_eq!(frames[2].v8.unwrap().function, 0xf2);
    assert!(outcome.is_complete);
}

/// JIT code, called by a function of musl that started the program and has no frame.
#[test]
fn a_program_starts_in_musl() {
    let words = [0, 0, 0, 0, at(7), IMAGE + 0x5001, 0, at(9), at(10), 0, 0, 0];
    let leaf = registers(JIT, at(0), at(4));
    let unwound = |name| {
        let image = Image::with_tables(tables()).named(name);
        unwound_in(image, leaf, &words, 12, &mut KnownRoot::default())
    };
    let (frames, outcome) = unwound("ld-musl-x86_64.so.1");
    assert_eq!(code(&frames), [CodeAddress::Jit(JIT), image(0x5000)]);
    assert!(outcome.is_complete);
    let (frames, outcome) = unwound("libother.so");
    assert_eq!(frames.len(), 3, "{frames:x?}");
    assert!(!outcome.is_complete);
}
