//! A heap that lies: the one of the tests, with words of the caller's in it.
//!
//! Random memory is refused at the first tag. What starts whole and is damaged word by word gets
//! past the checks of types, to the lengths, offsets and links behind them.

use std::rc::Rc;

use nodespy_model::Registers;

use super::StoreOptions;
use super::stand_in::{BASELINE, Program, StandIn, TURBOFAN, node20_layout};
use super::{SampleView, V8};
use crate::address_map::ImageId;
use crate::copied::{Chunks, CopiedMemory};
use crate::frame::{CodeAddress, FrameSlots, Unwound};

const STACK: u64 = 0x7fff_0000;
const STACK_WORDS: usize = 64;
/// A change is where (two bytes) and what (eight).
const CHANGE_BYTES: usize = 10;
/// Set in "where": "what" is an offset to point to, so that most changes are pointers.
const IS_POINTER: u16 = 0x8000;

/// Walks a stack of JavaScript with these changes to its heap, stack, registers and frames. Each
/// walk is done twice, because the second one meets what the first has remembered.
pub(crate) fn walk_damaged(changes: &[u8]) {
    let mut world = World::whole();
    for change in changes.chunks_exact(CHANGE_BYTES) {
        let at = u16::from_ne_bytes([change[0], change[1]]);
        let word = u64::from_ne_bytes(change[2..].try_into().expect("eight bytes"));
        match at & IS_POINTER {
            0 => world.change(at, word),
            _ => world.change(at & !IS_POINTER, Program::BASE + (word & 0xffff)),
        }
    }
    let mut v8 = V8::new(Rc::new(node20_layout(vec![1; 3 * 180])), 0);
    let stores = StoreOptions {
        traces: true,
        keys: vec!["a".to_owned()],
    };
    for turn in 0..2 {
        v8.start_batch();
        let stack: Vec<u8> = world.stack.iter().flat_map(|it| it.to_ne_bytes()).collect();
        let mut chunks = Chunks::default();
        let sample = SampleView {
            pid: 1,
            tid: 1,
            copy_of: None,
            origin: &StandIn(world.program.memory.clone()),
            registers: &world.registers,
            stack: &stack,
            // What is copied lies as well; the second time nothing was.
            copied: match turn {
                0 => CopiedMemory::of(&stack, &mut chunks),
                _ => CopiedMemory::default(),
            },
            has_async_callers: true,
            has_routes: true,
            stores: Some(&stores),
        };
        v8.worker_name(&sample);
        v8.identify(&sample, &world.frames, &mut Vec::new());
    }
    v8.end_slice();
}

struct World {
    program: Program,
    stack: Vec<u64>,
    registers: Registers,
    frames: Vec<Unwound>,
}

impl World {
    /// A function of each tier that calls the next.
    fn whole() -> Self {
        let mut program = Program::new();
        let bytecode = program.bytecode();
        let hot = program.function("hot", bytecode);
        let data = program.deopt_data(hot.shared);
        let optimized = program.code(TURBOFAN, data);
        let warm = program.function("warm", bytecode);
        let baseline = program.code(BASELINE, bytecode);
        let cold = program.function("cold", bytecode);
        let context = program.object(200, 4);
        let script = program.object(167, 16);
        program.set(cold.shared, 32, script);
        let class = program.function_of("IncomingMessage", "node:_http_incoming");
        let (method, url) = (program.string("GET"), program.string("/users/7?x"));
        let request = program.constructed(class, &[("url", url), ("method", method)]);
        let mut stack = vec![context; STACK_WORDS];
        // The innermost function has it for an argument.
        stack[(0x40 - 24) / 8] = 2;
        stack[(0x40 + 24) / 8] = request;
        let mut registers = Registers::default();
        registers.0[Registers::STACK_POINTER] = STACK;
        registers.0[Registers::FRAME_POINTER] = STACK + 0x40;
        let builtin = CodeAddress::Image(ImageId(0), 0x1234);
        let calls = [
            (CodeAddress::Jit(optimized + 0x20), hot.function, 0),
            (CodeAddress::Jit(baseline + 0x20), warm.function, bytecode),
            (builtin, cold.function, bytecode),
        ];
        let frame = |(position, (code, function, bytecode_array)): (usize, _)| Unwound {
            code,
            v8: Some(FrameSlots {
                frame_pointer: STACK + 0x40 + 0x40 * position as u64,
                marker: context,
                function,
                bytecode_array,
                bytecode_offset: 60 << 32,
                feedback: 0,
            }),
        };
        Self {
            program,
            stack,
            registers,
            frames: calls.into_iter().enumerate().map(frame).collect(),
        }
    }

    /// Changes the word with this number: of the heap, then the stack, the registers, the frames.
    fn change(&mut self, at: u16, word: u64) {
        let mut at = usize::from(at);
        let heap = &mut self.program.memory.bytes;
        if let Some(bytes) = heap.get_mut(at * 8..at * 8 + 8) {
            bytes.copy_from_slice(&word.to_ne_bytes());
            return;
        }
        at -= heap.len() / 8;
        if let Some(slot) = self.stack.get_mut(at) {
            *slot = word;
            return;
        }
        at -= STACK_WORDS;
        if let Some(register) = self.registers.0.get_mut(at) {
            *register = word;
            return;
        }
        at -= self.registers.0.len();
        let Some(frame) = self.frames.get_mut(at / 8) else {
            return;
        };
        let slots = frame.v8.as_mut().expect("each is made with slots");
        match at % 8 {
            0 => slots.frame_pointer = word,
            1 => slots.marker = word,
            2 => slots.function = word,
            3 => slots.bytecode_array = word,
            4 => slots.bytecode_offset = word,
            5 => slots.feedback = word,
            _ => frame.code = CodeAddress::Jit(word),
        }
    }
}
