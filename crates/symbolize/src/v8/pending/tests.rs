use super::*;
use crate::v8::stand_in::{Program, Words, with_heap};

const PROMISE: u16 = 2063;
const REACTION: u16 = 163;
const ASYNC_FUNCTION: u16 = 2106;
const CONTEXT: u16 = 206;
const AWAIT_CONTEXT: u16 = 205;

const MEMORY: Range<u64> = Program::BASE..Program::BASE + 64 * 1024;

/// A suspended function of this name and its promise, for which nobody waits.
fn suspended(program: &mut Program, name: &str) -> (u64, u64) {
    let promise = program.object(PROMISE, 5);
    let closure = program.function(name, Program::BASE | 1);
    let context = program.object(CONTEXT, 4);
    let registers = program.object(179, 4);
    let generator = program.object(ASYNC_FUNCTION, 12);
    for (offset, word) in [
        (AsyncLayout::GENERATOR_FUNCTION, closure.function),
        (AsyncLayout::GENERATOR_CONTEXT, context),
        (AsyncLayout::GENERATOR_POSITION, 60 << 32),
        (AsyncLayout::GENERATOR_REGISTERS, registers),
        (AsyncLayout::GENERATOR_PROMISE, promise),
    ] {
        program.set(generator, offset, word);
    }
    (generator, promise)
}

/// Has a function await a promise.
fn awaits(program: &mut Program, generator: u64, promise: u64) {
    let context = program.object(AWAIT_CONTEXT, 6);
    program.set(context, AsyncLayout::CONTEXT_LENGTH, 3 << 32);
    program.set(context, AsyncLayout::slot(2), generator);
    let closure = program.function("", 7 << 32).function;
    program.set(closure, 32, context);
    let reaction = program.object(REACTION, 6);
    program.set(reaction, 24, closure);
    program.set(promise, AsyncLayout::PROMISE_REACTIONS, reaction);
}

/// The names of the stacks that are found, sorted.
fn found(memory: &Words) -> Vec<Vec<String>> {
    with_heap(memory, |heap| {
        let mut functions = Functions::default();
        let pending = find(heap, &mut functions, &[MEMORY]).unwrap();
        assert!(!pending.is_cut);
        let name = |frame: &Identified| match frame {
            Identified::Js(frame) => functions.get(frame.function).name.to_string(),
            _ => "?".to_owned(),
        };
        let names = |stack: &Vec<Identified>| stack.iter().map(name).collect();
        let mut stacks: Vec<Vec<String>> = pending.stacks.iter().map(names).collect();
        stacks.sort();
        stacks
    })
}

#[test]
fn only_the_innermost_is_listed_with_those_who_await_it() {
    let mut program = Program::new();
    let (outer, _) = suspended(&mut program, "outer");
    let (_, awaited) = suspended(&mut program, "inner");
    awaits(&mut program, outer, awaited);
    suspended(&mut program, "alone");
    let expected = [&["alone"][..], &["inner", "outer"]];
    assert_eq!(found(&program.memory), expected);
}

#[test]
fn what_runs_has_ended_or_was_moved_is_not_pending() {
    let mut program = Program::new();
    let (running, _) = suspended(&mut program, "running");
    program.set(
        running,
        AsyncLayout::GENERATOR_CONTINUATION,
        (-2_i64 as u64) << 32,
    );
    let (_, settled) = suspended(&mut program, "ended");
    program.set(settled, AsyncLayout::PROMISE_FLAGS, 1 << 32);
    let (copied, promise) = suspended(&mut program, "copied");
    let (copy, _) = suspended(&mut program, "copied");
    program.set(copy, AsyncLayout::GENERATOR_PROMISE, promise);
    assert_eq!(found(&program.memory), [["copied"]]);
    program.set(copied, 0, copy & !1);
    assert_eq!(found(&program.memory), [["copied"]]);
}

#[test]
fn functions_that_await_one_another_are_listed_once() {
    let mut program = Program::new();
    let (one, of_one) = suspended(&mut program, "one");
    let (other, of_other) = suspended(&mut program, "other");
    awaits(&mut program, one, of_other);
    awaits(&mut program, other, of_one);
    assert_eq!(found(&program.memory), [["one", "other", "one"]]);
}

#[test]
fn a_chain_that_leads_to_other_memory_is_left_out() {
    let mut program = Program::new();
    let (outer, gone) = suspended(&mut program, "outer");
    let (_, awaited) = suspended(&mut program, "inner");
    awaits(&mut program, outer, awaited);
    program.set(gone, 0, 5 << 32);
    assert_eq!(found(&program.memory), [[""; 0]; 0]);
}

/// Each word in turn becomes something else: a pointer to the map of maps or into the middle of an object, a number, garbage.
#[test]
fn damaged_memory_is_searched_without_a_crash() {
    let mut program = Program::new();
    let (outer, _) = suspended(&mut program, "outer");
    let (_, awaited) = suspended(&mut program, "inner");
    awaits(&mut program, outer, awaited);
    let middle = outer + 16;
    for at in (0x1000..0x1a00).step_by(8) {
        for word in [Program::BASE | 1, middle, outer, 5 << 32, u64::MAX, 0] {
            let mut damaged = program.memory.clone();
            damaged.put(Program::BASE + at, word);
            assert!(found(&damaged).len() <= 3);
        }
    }
}

/// Memory without end, all of it made of suspended functions.
#[derive(Clone)]
struct Endless {
    page: Words,
}

impl crate::v8::stand_in::Memory for Endless {
    fn fill(&self, address: u64, buffer: &mut [u8]) -> bool {
        let mut done = 0;
        while done < buffer.len() {
            let at = (address as usize + done) % self.page.bytes.len();
            let length = (self.page.bytes.len() - at).min(buffer.len() - done);
            buffer[done..done + length].copy_from_slice(&self.page.bytes[at..at + length]);
            done += length;
        }
        true
    }
}

#[test]
fn memory_without_end_is_searched_up_to_a_limit() {
    let mut program = Program::new();
    suspended(&mut program, "one");
    let endless = Endless {
        page: program.memory,
    };
    let memory = Program::BASE..u64::MAX;
    let pending = with_heap(&endless, |heap| {
        find(heap, &mut Functions::default(), &[memory]).unwrap()
    });
    assert!(pending.is_cut);
    // All of them have the same promise.
    assert_eq!(pending.stacks.len(), 1);
}
