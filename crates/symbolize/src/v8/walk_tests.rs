//! Stacks that are made up, in the heap of a node 20 that is made up: which functions are in them.

use std::rc::Rc;

use nodespy_model::{Registers, Tier};

use super::stand_in::{BASELINE, Closure, ENDED, Program, StandIn, TURBOFAN, node20_layout};
use super::{SampleView, V8};
use crate::address_map::ImageId;
use crate::copied::{Chunks, CopiedMemory};
use crate::frame::{CodeAddress, FrameSlots, Identified, Unwound};
use crate::x86_64::{is_data_address, is_return, v8 as registers};

const STACK: u64 = 0x7fff_0000;
/// A builtin, which lies in the binary.
const BUILTIN: CodeAddress = CodeAddress::Image(ImageId(0), 0x1234);

/// A sample under construction, leaf first.
struct Stack {
    frames: Vec<Unwound>,
    registers: Registers,
    words: Vec<u64>,
    context: u64,
}

impl Stack {
    fn new(program: &mut Program) -> Self {
        let mut registers = Registers::default();
        registers.0[Registers::STACK_POINTER] = STACK;
        registers.0[Registers::FRAME_POINTER] = STACK + 0x40;
        Self {
            frames: Vec::new(),
            registers,
            words: vec![0; 64],
            context: program.object(200, 4),
        }
    }

    /// A frame as V8 lays it out.
    fn frame(&mut self, code: CodeAddress, function: u64, bytecode: u64) -> &mut Self {
        let slots = FrameSlots {
            frame_pointer: STACK + 0x40 + 0x40 * self.frames.len() as u64,
            marker: self.context,
            function,
            bytecode_array: bytecode,
            bytecode_offset: 60 << 32,
            feedback: 0,
        };
        let v8 = Some(slots);
        self.frames.push(Unwound { code, v8 });
        self
    }

    /// A frame whose marker is a number: V8's entry from C++, an internal frame.
    fn entry(&mut self, code: CodeAddress) -> &mut Self {
        self.frame(code, 0, 0);
        let frame = self.frames.last_mut().unwrap();
        frame.v8.as_mut().unwrap().marker = 2;
        self
    }

    /// A frame of native code, found by unwind tables.
    fn native(&mut self) -> &mut Self {
        self.frames.push(Unwound {
            code: CodeAddress::Image(ImageId(1), 0x10),
            v8: None,
        });
        self
    }
}

/// Names and tiers of the frames of a sample; what is not JavaScript stands as it is.
fn names_in(v8: &mut V8, program: &Program, stack: &Stack) -> Vec<String> {
    names_of(v8, program, stack, (1, None))
}

/// The same of a process by its pid, and that of the one it is a copy of.
fn names_of(
    v8: &mut V8,
    program: &Program,
    stack: &Stack,
    process: (u32, Option<u32>),
) -> Vec<String> {
    names_with(v8, program, stack, process, &[])
}

/// The same with memory that was copied at the sample.
fn names_with(
    v8: &mut V8,
    program: &Program,
    stack: &Stack,
    (pid, copy_of): (u32, Option<u32>),
    copied: &[u8],
) -> Vec<String> {
    let mut chunks = Chunks::default();
    let bytes: Vec<u8> = stack.words.iter().flat_map(|it| it.to_ne_bytes()).collect();
    let sample = SampleView {
        pid,
        tid: pid,
        copy_of,
        origin: &StandIn(program.memory.clone()),
        registers: &stack.registers,
        stack: &bytes,
        copied: CopiedMemory::of(copied, &mut chunks),
        has_async_callers: true,
        has_routes: true,
        stores: None,
    };
    let mut found = Vec::new();
    v8.identify(&sample, &stack.frames, &mut found);
    let name = |frame: &Identified| match frame {
        Identified::Js(js) => {
            let mark = match js.tier {
                Tier::Interpreted => "~",
                Tier::Baseline => "^",
                Tier::Optimized => "*",
                _ => "",
            };
            format!("{mark}{}", v8.functions.get(js.function).name)
        }
        Identified::Image(ImageId(0), _) => "builtin".to_owned(),
        Identified::Image(..) => "native".to_owned(),
        Identified::Jit(_) => "jit".to_owned(),
        Identified::UnknownJs | Identified::LostCaller => "?".to_owned(),
        Identified::Kernel(_) => unreachable!("no such frame is made"),
    };
    found.iter().map(name).collect()
}

fn v8() -> V8 {
    V8::new(Rc::new(node20_layout(vec![1; 3 * 180])), 0)
}

fn names(program: &Program, stack: &Stack) -> Vec<String> {
    names_in(&mut v8(), program, stack)
}

/// A function that runs optimized code, and where that starts.
fn optimized(program: &mut Program, name: &str) -> (Closure, u64) {
    let bytecode = program.bytecode();
    let closure = program.function(name, bytecode);
    let data = program.deopt_data(closure.shared);
    (closure, program.code(TURBOFAN, data))
}

#[test]
fn callers_of_every_tier_are_named_up_to_the_entry() {
    let mut program = Program::new();
    let (hot, code) = optimized(&mut program, "hot");
    let bytecode = program.bytecode();
    let warm = program.function("warm", bytecode);
    let baseline = program.code(BASELINE, bytecode);
    let cold_bytecode = program.bytecode();
    let cold = program.function("cold", cold_bytecode);
    let mut stack = Stack::new(&mut program);
    stack
        .native()
        .frame(CodeAddress::Jit(code + 0x20), hot.function, 0)
        .frame(CodeAddress::Jit(baseline + 0x20), warm.function, bytecode)
        .frame(BUILTIN, cold.function, cold_bytecode)
        .entry(BUILTIN)
        .native();
    assert_eq!(
        names(&program, &stack),
        ["native", "*hot", "^warm", "~cold", "builtin", "native"]
    );
}

#[test]
fn a_bytecode_handler_runs_for_the_function_whose_bytecode_it_has() {
    let mut program = Program::new();
    let bytecode = program.bytecode();
    let cold = program.function("cold", bytecode);
    let mut stack = Stack::new(&mut program);
    stack.registers.0[registers::BYTECODE_ARRAY] = bytecode;
    stack.frame(BUILTIN, cold.function, bytecode);
    assert_eq!(names(&program, &stack), ["builtin", "~cold"]);
}

#[test]
fn a_builtin_without_a_frame_was_called_by_the_code_on_top_of_the_stack() {
    let mut program = Program::new();
    let (hot, code) = optimized(&mut program, "hot");
    let mut stack = Stack::new(&mut program);
    stack.words[2] = code + 0x31;
    stack.frame(BUILTIN, hot.function, 0);
    assert_eq!(names(&program, &stack), ["builtin", "*hot"]);
    // A number on the stack that is no return address leads nowhere.
    stack.words[2] = code + 0x1000;
    assert_eq!(names(&program, &stack), ["builtin", "hot"]);
}

#[test]
fn the_frame_of_a_builtin_itself_is_named_once() {
    let mut program = Program::new();
    let sort = program.function("sort", 77 << 32);
    let mut stack = Stack::new(&mut program);
    stack
        .frame(BUILTIN, sort.function, 0)
        .frame(BUILTIN, sort.function, 0);
    assert_eq!(names(&program, &stack), ["builtin", "builtin"]);
}

#[test]
fn a_function_that_has_no_frame_yet_comes_before_its_caller() {
    let mut program = Program::new();
    let (_, leaf) = optimized(&mut program, "leaf");
    let (caller, code) = optimized(&mut program, "caller");
    let mut stack = Stack::new(&mut program);
    stack.words[0] = code + 0x11;
    stack.frame(CodeAddress::Jit(leaf + 1), caller.function, 0);
    assert_eq!(names(&program, &stack), ["*leaf", "*caller"]);
}

#[test]
fn a_prologue_is_named_by_the_register_that_holds_the_function() {
    let mut program = Program::new();
    let bytecode = program.bytecode();
    let leaf = program.function("leaf", bytecode);
    // Baseline code whose bytecode no script leads to.
    let code = program.code(BASELINE, bytecode);
    let (caller, _) = optimized(&mut program, "caller");
    let mut stack = Stack::new(&mut program);
    stack.registers.0[registers::FUNCTION] = leaf.function;
    stack.frame(CodeAddress::Jit(code + 1), caller.function, 0);
    assert_eq!(names(&program, &stack), ["^leaf", "caller"]);
    // Later the register is used for something else.
    stack.frames[0].code = CodeAddress::Jit(code + 0x20);
    assert_eq!(names(&program, &stack), ["^caller"]);
}

#[test]
fn a_function_that_the_collector_has_moved_is_followed() {
    let mut program = Program::new();
    let (hot, code) = optimized(&mut program, "hot");
    let young = program.object(2066, 8);
    // In place of its map there is where it is now, without a tag.
    program.set(young, 0, hot.function & !3);
    let mut stack = Stack::new(&mut program);
    stack
        .native()
        .frame(CodeAddress::Jit(code + 0x20), young, 0);
    assert_eq!(names(&program, &stack), ["native", "*hot"]);
}

#[test]
fn garbage_in_the_function_slot_gives_no_name_but_code_and_bytecode_do() {
    let mut program = Program::new();
    let (_, code) = optimized(&mut program, "hot");
    let bytecode = program.bytecode();
    let warm = program.function("warm", bytecode);
    let lonely = program.bytecode();
    let not_a_function = program.object(262, 4);
    let not_a_map = program.object(2066, 8);
    program.set(not_a_map, 0, warm.function);
    let garbage = [
        0x5555_5555_0001,
        0x8000_0000_0000_0001,
        not_a_function,
        not_a_map,
    ];
    for function in garbage {
        let mut v8 = v8();
        let mut stack = Stack::new(&mut program);
        stack
            .native()
            .frame(CodeAddress::Jit(code + 0x20), function, 0)
            .frame(BUILTIN, function, lonely)
            .frame(CodeAddress::Jit(0x6666_0000), function, 0);
        let found = names_in(&mut v8, &program, &stack);
        let is_pointer = is_data_address(function);
        let last = if is_pointer { "?" } else { "jit" };
        let interpreted = if is_pointer { "~[unknown]" } else { "builtin" };
        assert_eq!(found, ["native", "*hot", interpreted, last], "{function:x}");
        // A frame that can be read tells whose bytecode it is.
        let mut readable = Stack::new(&mut program);
        readable.native().frame(BUILTIN, warm.function, bytecode);
        names_in(&mut v8, &program, &readable);
        let mut dead = Stack::new(&mut program);
        dead.native().frame(BUILTIN, not_a_function, bytecode);
        assert_eq!(names_in(&mut v8, &program, &dead), ["native", "~warm"]);
    }
}

#[test]
fn code_of_another_function_than_the_frame_says_is_searched_for_again() {
    let mut program = Program::new();
    let (old, code) = optimized(&mut program, "old");
    let mut v8 = v8();
    let mut stack = Stack::new(&mut program);
    stack
        .native()
        .frame(CodeAddress::Jit(code + 0x20), old.function, 0);
    assert_eq!(names_in(&mut v8, &program, &stack), ["native", "*old"]);
    // The same address is another function's code by now.
    let bytecode = program.bytecode();
    let new = program.function("new", bytecode);
    let data = program.deopt_data(new.shared);
    let object = program.object(245, 10);
    let stream = code - 16;
    program.memory.put(stream + 8, object);
    for (offset, word) in [
        (16, data),
        (24, data),
        (40, code),
        (48, TURBOFAN),
        (56, 0x100),
    ] {
        program.set(object, offset, word);
    }
    v8.start_batch();
    let mut stack = Stack::new(&mut program);
    stack
        .native()
        .frame(CodeAddress::Jit(code + 0x20), new.function, 0);
    assert_eq!(names_in(&mut v8, &program, &stack), ["native", "*new"]);
}

/// The chunk in which the function of a closure was copied.
fn copied_closure(program: &Program, closure: u64) -> Vec<u8> {
    let words = [0, 8, 16, 24].map(|offset| program.word(closure, offset));
    let header = (closure & !3) | (words.len() as u64) << 48;
    let chunk = [header].into_iter().chain(words);
    chunk.flat_map(|it| it.to_ne_bytes()).collect()
}

/// What a stack is, where the function of its last frame was copied at the sample and where it was not.
fn names_with_and_without(program: &Program, stack: &Stack, closure: u64) -> [Vec<String>; 2] {
    let copied = copied_closure(program, closure);
    [&copied[..], &[]].map(|copied| names_with(&mut v8(), program, stack, (1, None), copied))
}

#[test]
fn a_frame_is_its_functions_whatever_code_took_the_place_of_its_own() {
    let mut program = Program::new();
    let (old, _) = optimized(&mut program, "old");
    let (_, code) = optimized(&mut program, "new");
    let mut stack = Stack::new(&mut program);
    stack
        .native()
        .frame(CodeAddress::Jit(code + 0x20), old.function, 0);
    assert_eq!(
        names_with_and_without(&program, &stack, old.function),
        [["native", "old"], ["native", "*new"]]
    );
    // Baseline code knows its bytecode alone.
    let [first, second] = [program.bytecode(), program.bytecode()];
    let old = program.function("old", first);
    let code = program.code(BASELINE, second);
    let mut stack = Stack::new(&mut program);
    stack
        .native()
        .frame(CodeAddress::Jit(code + 0x20), old.function, first);
    assert_eq!(
        names_with_and_without(&program, &stack, old.function),
        [["native", "~old"], ["native", "^old"]]
    );
    let code = program.code(BASELINE, first);
    stack.frames[1].code = CodeAddress::Jit(code + 0x20);
    assert_eq!(
        names_with_and_without(&program, &stack, old.function),
        [["native", "^old"], ["native", "^old"]]
    );
}

#[test]
fn a_function_that_was_moved_since_it_was_copied_keeps_its_code() {
    let mut program = Program::new();
    let function = |program: &mut Program| {
        let closure = program.function_of("hot", "file:///app.js");
        let shared = program.word(closure, 24);
        (closure, shared)
    };
    let (closure, _) = function(&mut program);
    let (_, moved) = function(&mut program);
    let data = program.deopt_data(moved);
    let code = program.code(TURBOFAN, data);
    let mut stack = Stack::new(&mut program);
    stack
        .native()
        .frame(CodeAddress::Jit(code + 0x20), closure, 0);
    assert_eq!(
        names_with_and_without(&program, &stack, closure),
        [["native", "*hot"], ["native", "*hot"]]
    );
}

#[test]
fn code_at_the_leaf_that_took_the_place_of_another_is_not_called_by_it() {
    let mut program = Program::new();
    let (old, _) = optimized(&mut program, "old");
    let (_, code) = optimized(&mut program, "new");
    let at = |offset| CodeAddress::Jit(code + offset);
    let mut stack = Stack::new(&mut program);
    stack.frame(at(0x80), old.function, 0);
    let called = ["*new", "old"];
    assert_eq!(
        names_with_and_without(&program, &stack, old.function),
        [&["old"][..], &called]
    );
    // It may have no frame of its own yet, or no more: then it is its caller's.
    stack.frames[0].code = at(0x10);
    assert_eq!(
        names_with_and_without(&program, &stack, old.function),
        [called, called]
    );
    stack.frames[0].code = at(0x80);
    let return_byte = (0..=u8::MAX).find(|byte| is_return(*byte)).unwrap();
    program.memory.put_bytes(code + 0x8f, &[return_byte]);
    assert_eq!(
        names_with_and_without(&program, &stack, old.function),
        [called, called]
    );
}

/// A program with a stack of an optimized and an interpreted function.
fn running() -> (Program, Stack, Closure) {
    let mut program = Program::new();
    let (hot, code) = optimized(&mut program, "hot");
    let bytecode = program.bytecode();
    let cold = program.function("cold", bytecode);
    let mut stack = Stack::new(&mut program);
    stack
        .native()
        .frame(CodeAddress::Jit(code + 0x20), hot.function, 0)
        .frame(BUILTIN, cold.function, bytecode);
    (program, stack, hot)
}

#[test]
fn frames_of_a_process_that_has_ended_are_what_they_were_a_moment_ago() {
    let (mut program, mut stack, hot) = running();
    let mut v8 = v8();
    v8.start_batch();
    let alive = names_in(&mut v8, &program, &stack);
    assert_eq!(alive, ["native", "*hot", "~cold"]);
    // Batches without samples come in between.
    (0..3).for_each(|_| v8.start_batch());
    let ended = (ENDED, None);
    assert_eq!(names_of(&mut v8, &program, &stack, ended), alive);
    // Elsewhere in the same function, and in one that was not seen.
    let other = program.function("other", 0);
    stack
        .frame(CodeAddress::Jit(0x12_3456), hot.function, 0)
        .frame(BUILTIN, other.function, 0);
    let last = names_of(&mut v8, &program, &stack, ended).split_off(3);
    assert_eq!(last, ["hot", "builtin"]);
    // Where the memory is there, it is not the closure's any more.
    v8.start_batch();
    program.set(hot.function, 0, 0);
    assert_eq!(names_in(&mut v8, &program, &stack)[3], "?");
}

#[test]
fn a_closure_that_was_copied_tells_the_function_of_a_process_that_has_ended() {
    let (mut program, mut stack, hot) = running();
    let mut v8 = v8();
    v8.start_batch();
    names_in(&mut v8, &program, &stack);
    v8.start_batch();
    // Another closure of the same function, as the collector makes one when it moves it.
    let moved = program.function("moved", 0).function;
    stack.frame(CodeAddress::Jit(0x12_3456), moved, 0);
    let shared = v8.layout.function_shared;
    let mut words = vec![0; shared as usize / 8 + 1];
    words[shared as usize / 8] = hot.shared;
    let header = (moved & !3) | (words.len() as u64) << 48;
    words.insert(0, header);
    let copied: Vec<u8> = words.iter().flat_map(|it| it.to_ne_bytes()).collect();
    let ended = (ENDED, None);
    assert_eq!(names_of(&mut v8, &program, &stack, ended)[3], "?");
    assert_eq!(
        names_with(&mut v8, &program, &stack, ended, &copied)[3],
        "hot"
    );
    // While the process is there, it is read.
    v8.start_batch();
    let alive = (1, None);
    assert_eq!(
        names_with(&mut v8, &program, &stack, alive, &copied)[3],
        "?"
    );
}

#[test]
fn a_child_that_runs_another_program_by_now_is_read_in_its_parent() {
    let (program, stack, _) = running();
    let whole = ["native", "*hot", "~cold"];
    assert_eq!(
        names_of(&mut v8(), &program, &stack, (ENDED, Some(1))),
        whole
    );
    let lost = names_of(&mut v8(), &program, &stack, (ENDED, None));
    assert_eq!(lost, ["native", "?", "builtin"]);
}

#[test]
fn what_was_not_seen_for_long_is_forgotten_and_read_again() {
    let (program, stack, _) = running();
    let mut v8 = v8();
    for _ in 0..2 {
        v8.start_batch();
        let found = names_in(&mut v8, &program, &stack);
        assert_eq!(found, ["native", "*hot", "~cold"]);
        assert_ne!((v8.codes.count(), v8.by_bytecode.len()), (0, 0));
        (0..2 * super::SWEEP_SLICES).for_each(|_| v8.end_slice());
        assert_eq!((v8.codes.count(), v8.by_bytecode.len()), (0, 0));
        assert_eq!(v8.functions.known_by_address(), 0);
    }
}
