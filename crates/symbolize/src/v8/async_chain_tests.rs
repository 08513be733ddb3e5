//! Tests of the chain of async callers, on a heap made by hand.

use super::async_chain::*;
use super::async_layout::AsyncLayout;
use crate::frame::{CodeAddress, FrameSlots, Unwound};
use crate::v8::stand_in::{Program, with_heap};
use nodespy_model::AsyncCallers;

const PROMISE: u16 = 2063;
const REACTION: u16 = 163;
const ASYNC_FUNCTION: u16 = 2106;
const AWAIT_CONTEXT: u16 = 205;
const THENABLE_TASK: u16 = 146;
const STUB: u64 = 36;

/// A promise with this for its reactions.
fn promise(program: &mut Program, reactions: u64) -> u64 {
    let promise = program.object(PROMISE, 5);
    program.set(promise, AsyncLayout::PROMISE_REACTIONS, reactions);
    promise
}

/// A suspended function of this name, which gives back this promise.
fn suspended(program: &mut Program, name: &str, promise: u64) -> (u64, u64) {
    let closure = program.function(name, Program::BASE | 1);
    let generator = program.object(ASYNC_FUNCTION, 12);
    program.set(generator, AsyncLayout::GENERATOR_FUNCTION, closure.function);
    program.set(generator, AsyncLayout::GENERATOR_POSITION, 60 << 32);
    program.set(generator, AsyncLayout::GENERATOR_PROMISE, promise);
    (generator, closure.shared)
}

/// The context of an `await` of a function.
fn await_context(program: &mut Program, generator: u64) -> u64 {
    let context = program.object(AWAIT_CONTEXT, 6);
    program.set(context, AsyncLayout::CONTEXT_LENGTH, 3 << 32);
    program.set(context, AsyncLayout::slot(2), generator);
    context
}

/// A promise that a function awaits.
fn awaited(program: &mut Program, generator: u64) -> u64 {
    let context = await_context(program, generator);
    let closure = program.function("", 7 << 32).function;
    program.set(closure, 32, context);
    let reaction = program.object(REACTION, 6);
    program.set(reaction, 24, closure);
    promise(program, reaction)
}

fn frame(marker: u64, function: u64) -> Unwound {
    Unwound {
        code: CodeAddress::Unknown,
        v8: Some(FrameSlots {
            frame_pointer: 0x7000_0000,
            marker,
            function,
            bytecode_array: 0,
            bytecode_offset: 0,
            feedback: 0,
        }),
    }
}

/// The stack of a microtask that resumes a function, from the closure outwards.
fn microtask(program: &mut Program, generator: u64) -> Vec<Unwound> {
    let context = await_context(program, generator);
    let closure = program.function("", 7 << 32).function;
    let marked = [(context, closure), (STUB, 0), (STUB, 0), (ENTRY_MARKER, 0)];
    marked.map(|(marker, word)| frame(marker, word)).to_vec()
}

fn found(program: &Program, frames: &[Unwound]) -> Chain {
    with_heap(&program.memory, |heap| find(heap, frames, &|_| None)).unwrap()
}

#[test]
fn those_who_await_are_found_up_to_the_outermost() {
    let mut program = Program::new();
    let own = promise(&mut program, 0);
    let (outer, outer_shared) = suspended(&mut program, "outer", own);
    let own = awaited(&mut program, outer);
    let (middle, middle_shared) = suspended(&mut program, "middle", own);
    let own = awaited(&mut program, middle);
    let (inner, _) = suspended(&mut program, "inner", own);
    let frames = microtask(&mut program, inner);
    let chain = found(&program, &frames);
    let shared: Vec<u64> = chain.callers.iter().map(|caller| caller.shared).collect();
    assert_eq!(shared, [middle_shared, outer_shared]);
    assert_eq!(chain.callers[0].bytecode_offset, Some(60 - 53));
    assert_eq!((chain.after, chain.end), (0, ChainEnd::Whole));
}

#[test]
fn a_settled_promise_ends_the_chain_and_a_circle_breaks_it() {
    let mut program = Program::new();
    let own = promise(&mut program, 0);
    program.set(own, AsyncLayout::PROMISE_FLAGS, 1 << 32);
    let (inner, _) = suspended(&mut program, "inner", own);
    let frames = microtask(&mut program, inner);
    assert_eq!(found(&program, &frames).end, ChainEnd::Settled);
    let own = awaited(&mut program, inner);
    program.set(inner, AsyncLayout::GENERATOR_PROMISE, own);
    assert_eq!(found(&program, &frames).end, ChainEnd::Broken);
}

#[test]
fn only_a_microtask_has_a_chain() {
    let mut program = Program::new();
    let own = promise(&mut program, 0);
    let (inner, _) = suspended(&mut program, "inner", own);
    let mut frames = microtask(&mut program, inner);
    frames.pop();
    assert_eq!(
        with_heap(&program.memory, |heap| find(heap, &frames, &|_| None)),
        None
    );
    let frames = [frame(STUB, 0), frame(ENTRY_MARKER, 0)];
    assert_eq!(found(&program, &frames).end, ChainEnd::Lost);
}

/// A queue of microtasks whose ring has these tasks from a position on.
fn queue(program: &mut Program, start: u64, tasks: &[u64]) -> u64 {
    const CAPACITY: u64 = 8;
    let (queue, ring) = (program.object(0, 5), program.object(0, CAPACITY));
    let words = [tasks.len() as u64, CAPACITY, start, ring & !3];
    for (position, word) in (1..).zip(words) {
        program.set(queue, 8 * position, word);
    }
    for (position, task) in (start..).zip(tasks) {
        program.set(ring, 8 * (position % CAPACITY), *task);
    }
    queue & !3
}

/// A task that resolves a promise with another, as V8 11 has it.
fn thenable_task(program: &mut Program, resolved: u64, with: u64) -> u64 {
    let task = program.object(THENABLE_TASK, 6);
    program.set(task, 16, resolved);
    program.set(task, 24, with);
    task
}

#[test]
fn who_has_returned_a_promise_is_found_in_the_queue() {
    let mut program = Program::new();
    let own = promise(&mut program, 0);
    let (outer, outer_shared) = suspended(&mut program, "outer", own);
    // `return inner()`: nobody awaits the promise of inner yet.
    let returned = awaited(&mut program, outer);
    let own = promise(&mut program, 0);
    let (inner, _) = suspended(&mut program, "inner", own);
    let other = promise(&mut program, 0);
    let tasks = [
        program.object(REACTION, 6),
        thenable_task(&mut program, other, other),
        thenable_task(&mut program, returned, own),
    ];
    let mut frames = microtask(&mut program, inner);
    let callers = |program: &Program, frames: &[Unwound]| {
        let chain = found(program, frames);
        let shared: Vec<u64> = chain.callers.iter().map(|caller| caller.shared).collect();
        (shared, chain.end)
    };
    assert_eq!(callers(&program, &frames), (vec![], ChainEnd::Whole));
    // Also where it goes on at the start of the ring.
    for start in [0, 6] {
        let queue = queue(&mut program, start, &tasks);
        frames[2] = frame(STUB, queue);
        let expected = (vec![outer_shared], ChainEnd::Whole);
        assert_eq!(callers(&program, &frames), expected);
        // One that lies.
        for (offset, word) in [(8, u64::MAX), (16, 0), (24, u64::MAX), (32, u64::MAX)] {
            let mut program = program.clone();
            program.set(queue, offset, word);
            assert_eq!(callers(&program, &frames), (vec![], ChainEnd::Whole));
        }
        // One that ends where numbers do.
        let mut program = program.clone();
        program.set(queue, 16, u64::MAX);
        program.set(queue, 24, u64::MAX - 1);
        callers(&program, &frames);
    }
}

#[test]
fn a_callback_that_was_queued_continues_nothing() {
    let mut program = Program::new();
    let closure = program.function("callback", Program::BASE | 1).function;
    let context = program.object(AWAIT_CONTEXT + 1, 4);
    let marked = [(context, closure), (STUB, 0), (ENTRY_MARKER, 0)];
    let frames = marked.map(|(marker, word)| frame(marker, word));
    let chain = found(&program, &frames);
    assert_eq!((chain.after, chain.end), (1, ChainEnd::Queued));
    assert_eq!(chain.counted(), AsyncCallers::default());
}

#[test]
fn a_callback_of_then_has_its_variables() {
    let mut program = Program::new();
    let callback = program.function("answer", Program::BASE | 1).function;
    let context = program.object(AWAIT_CONTEXT + 1, 4);
    program.set(callback, 32, context);
    let reaction = program.object(REACTION, 6);
    program.set(reaction, 24, callback);
    let derived = promise(&mut program, 0);
    program.set(reaction, 32, derived);
    let own = promise(&mut program, reaction);
    let (inner, _) = suspended(&mut program, "inner", own);
    let frames = microtask(&mut program, inner);
    let holders = found(&program, &frames).holders;
    assert_eq!(
        holders,
        [Holder::Generator(inner), Holder::Context(context)]
    );
}
