//! Tests of the search for stores, on a heap made by hand.

use super::functions::Functions;
use super::stand_in::{Program, StandIn, with_heap};
use super::stores::{Search, StoreValues, Stores, slot_in};
use super::{SampleView, StoreOptions};
use crate::copied::CopiedMemory;
use crate::frame::{CodeAddress, FrameSlots, Unwound};
use nodespy_model::{CopyRules, ObjectShape, Registers};

const JS_MAP: u16 = 2108;
const PROMISE: u16 = 2063;
const STACK: u64 = 0x7fff_0000;
const STUB: u64 = 36;
const ENTRY: u64 = 2;
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// What the stores say of a thread whose isolate is this object, and which runs a job of this promise.
fn found(program: &Program, isolate: u64, promise: u64) -> (StoreValues, CopyRules) {
    let frame = |marker, function| slots(0, marker, function);
    let frames = [frame(STUB, promise), frame(STUB, 0), frame(ENTRY, 0)];
    found_in(program, isolate, &[], &frames)
}

/// The same with this stack.
fn found_in(
    program: &Program,
    isolate: u64,
    stack: &[u64],
    frames: &[Unwound],
) -> (StoreValues, CopyRules) {
    let mut registers = Registers::default();
    registers.0[13] = (isolate & !3) + 128;
    registers.0[Registers::STACK_POINTER] = STACK;
    let options = StoreOptions {
        traces: true,
        keys: vec!["tenant".to_owned(), "shard".to_owned()],
    };
    let stack: Vec<u8> = stack.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let sample = SampleView {
        pid: 1,
        tid: 7,
        copy_of: None,
        origin: &StandIn(program.memory.clone()),
        registers: &registers,
        stack: &stack,
        copied: CopiedMemory::default(),
        has_async_callers: true,
        has_routes: true,
        stores: Some(&options),
    };
    let mut known = Stores::default();
    let values = with_heap(&program.memory, |heap| {
        Search {
            heap,
            functions: &mut Functions::default(),
            sample: &sample,
            known: &mut known,
            options: &options,
        }
        .values(frames)
    });
    (values.unwrap(), known.take_rules())
}

fn slots(frame: u64, marker: u64, function: u64) -> Unwound {
    Unwound {
        code: CodeAddress::Jit(64),
        v8: Some(FrameSlots {
            frame_pointer: STACK + frame,
            marker,
            function,
            bytecode_array: 0,
            bytecode_offset: 0,
            feedback: 0,
        }),
    }
}

/// The tenant of a stack of functions, leaf first, each with a name, a file, a receiver and two arguments.
fn tenant_in(program: &mut Program, functions: &[(&str, &str, [u64; 3])]) -> Option<String> {
    const FRAME_WORDS: usize = 8;
    let mut stack = vec![0; FRAME_WORDS * (functions.len() + 1)];
    let mut frames = Vec::new();
    for (position, (name, url, words)) in functions.iter().enumerate() {
        let function = program.function_of(name, url);
        let at = FRAME_WORDS * position;
        stack[at + 2..at + 2 + words.len()].copy_from_slice(words);
        frames.push(slots(8 * at as u64, Program::BASE | 1, function));
    }
    frames.push(slots(8 * stack.len() as u64, ENTRY, 0));
    found_in(program, 0, &stack, &frames).0.keys[0].take()
}

/// A `Map` with these entries.
fn map(program: &mut Program, entries: &[(u64, u64)]) -> u64 {
    let class = program.object(0, 8);
    let constructor = program.function_of("Map", "");
    let map = program.constructed_with(class, constructor, &[]);
    program.set(class, 8, 4 | 4 << 8 | u64::from(JS_MAP) << 32);
    let table = program.object(179, 5 + 2 + 3 * entries.len() as u64);
    for (position, count) in [entries.len() as u64, 0, 2].into_iter().enumerate() {
        program.set(table, 16 + 8 * position as u64, count << 32);
    }
    for (position, (key, value)) in (0..).zip(entries) {
        let at = 8 * (5 + 2 + 3 * position);
        program.set(table, at, *key);
        program.set(table, at + 8, *value);
    }
    program.set(map, 24, table);
    map
}

fn object(program: &mut Program, properties: &[(&str, u64)]) -> u64 {
    let class = program.function_of("Object", "");
    program.constructed(class, properties)
}

/// An isolate whose stores are these, by storages of this file.
fn isolate(program: &mut Program, file: &str, stores: &[u64]) -> u64 {
    let class = program.function_of("AsyncLocalStorage", file);
    let storages: Vec<(u64, u64)> = stores
        .iter()
        .map(|store| (program.constructed(class, &[]), *store))
        .collect();
    let frame = map(program, &storages);
    let isolate = program.object(0, 200);
    program.set(isolate, 632, frame);
    isolate
}

const NODES: &str = "node:internal/async_local_storage/async_context_frame";

#[test]
fn text_and_numbers_of_stores_are_found() {
    let mut program = Program::new();
    let tenant = program.string("acme");
    let store = object(&mut program, &[("tenant", tenant), ("other", tenant)]);
    let key = program.string("shard");
    let second = map(&mut program, &[(tenant, tenant), (key, 42 << 32)]);
    let isolate = isolate(&mut program, NODES, &[store, second]);
    let (values, rules) = found(&program, isolate, 0);
    assert_eq!(
        values.keys,
        [Some("acme".to_owned()), Some("42".to_owned())]
    );
    assert_eq!((values.trace_id, values.span_id), (None, None));
    // The stores of the thread, its `Map`, that of the second store, and the property of the first.
    assert_eq!(rules.slots[0].address, (isolate & !3) + 632);
    let of = |shape| rules.objects.iter().filter(move |rule| rule.shape == shape);
    assert_eq!(of(ObjectShape::Map).count(), 2);
    let fields: Vec<usize> = of(ObjectShape::Fields)
        .map(|rule| rule.fields.len())
        .collect();
    assert_eq!(fields, [1]);
}

/// In native code the register of the isolate holds anything.
#[test]
fn a_register_that_is_no_isolate_has_no_stores() {
    let program = Program::new();
    for register in [0x1000, u64::MAX - 0xff, u64::MAX - 0x87] {
        let (values, rules) = found(&program, register & !7, 0);
        assert_eq!(values.keys, [None, None]);
        assert!(rules.slots.is_empty());
    }
    assert_eq!(slot_in(u64::MAX - 7, (13, 6)), Some(u64::MAX));
    assert_eq!(slot_in(0x1000, (13, 6)), Some(0x1000 + 632));
}

#[test]
fn a_map_whose_keys_are_not_nodes_own_is_no_store() {
    let mut program = Program::new();
    let tenant = program.string("acme");
    let store = object(&mut program, &[("tenant", tenant)]);
    let isolate = isolate(&mut program, "/app/fake.js", &[store]);
    let (values, rules) = found(&program, isolate, 0);
    assert_eq!(values.keys, [None, None]);
    assert!(rules.slots.is_empty());
}

#[test]
fn what_two_stores_disagree_about_is_not_known() {
    let mut program = Program::new();
    let (one, other) = (program.string("acme"), program.string("globex"));
    let stores = [one, other].map(|tenant| object(&mut program, &[("tenant", tenant)]));
    let both = isolate(&mut program, NODES, &stores);
    assert_eq!(found(&program, both, 0).0.keys[0], None);
    let same = isolate(&mut program, NODES, &[stores[0], stores[0]]);
    let tenant = found(&program, same, 0).0.keys[0].clone();
    assert_eq!(tenant.as_deref(), Some("acme"));
}

fn open_telemetry(program: &mut Program, trace: &str) -> u64 {
    let (trace, span) = (program.string(trace), program.string(SPAN));
    let span_context = object(program, &[("traceId", trace), ("spanId", span)]);
    let span = object(program, &[("_spanContext", span_context)]);
    let key = program.string("a symbol");
    let baggage = object(program, &[]);
    let context = map(program, &[(key, baggage), (key, span)]);
    object(program, &[("_currentContext", context)])
}

#[test]
fn the_span_of_open_telemetry_is_found() {
    let mut program = Program::new();
    let store = open_telemetry(&mut program, TRACE);
    let thread = isolate(&mut program, NODES, &[store]);
    let values = found(&program, thread, 0).0;
    assert_eq!(values.trace_id.as_deref(), Some(TRACE));
    assert_eq!(values.span_id.as_deref(), Some(SPAN));
    let store = open_telemetry(&mut program, "no identifier");
    let thread = isolate(&mut program, NODES, &[store]);
    assert_eq!(found(&program, thread, 0).0.trace_id, None);
}

#[test]
fn a_job_has_the_stores_of_its_promise() {
    let mut program = Program::new();
    let tenant = program.string("acme");
    let store = object(&mut program, &[("tenant", tenant)]);
    let constructor = program.function_of("Promise", "");
    let class = program.object(0, 8);
    let promise = program.constructed_with(class, constructor, &[("kResourceStore", store)]);
    program.set(class, 8, 4 | 3 << 8 | u64::from(PROMISE) << 32);
    let nothing = program.object(0, 200);
    let values = found(&program, nothing, promise).0;
    assert_eq!(values.keys[0].as_deref(), Some("acme"));
    // One that keeps none.
    assert_eq!(found(&program, nothing, store).0.keys[0], None);
}

#[test]
fn a_table_that_lies_about_its_size_is_not_read() {
    let mut program = Program::new();
    let tenant = program.string("acme");
    let store = object(&mut program, &[("tenant", tenant)]);
    for count in [u64::MAX << 32, 13 << 32, 1] {
        let isolate = isolate(&mut program, NODES, &[store]);
        let frame = program.word(isolate, 632);
        let table = program.word(frame, 24);
        program.set(table, 16, count);
        assert_eq!(found(&program, isolate, 0).0.keys[0], None, "{count:x}");
    }
}

/// A string of two, which is flat once its first part has all of it.
fn concatenated(program: &mut Program, first: u64, second: u64, length: u64) -> u64 {
    let string = program.object(8 | 1, 4);
    program.set(string, 8, length << 32);
    program.set(string, 16, first);
    program.set(string, 24, second);
    string
}

#[test]
fn text_that_was_put_together_is_read_in_all_its_parts() {
    let mut program = Program::new();
    let (one, two) = (program.string("customer-"), program.string("42"));
    let (end, empty) = (program.string("-eu"), program.string(""));
    let inner = concatenated(&mut program, one, two, 11);
    let whole = concatenated(&mut program, inner, end, 14);
    let flat = concatenated(&mut program, one, empty, 9);
    for (tenant, expected) in [(whole, "customer-42-eu"), (flat, "customer-")] {
        let store = object(&mut program, &[("tenant", tenant)]);
        let isolate = isolate(&mut program, NODES, &[store]);
        let found = found(&program, isolate, 0).0.keys[0].clone();
        assert_eq!(found.as_deref(), Some(expected));
    }
}

#[test]
fn text_outside_of_the_heap_is_read() {
    let mut program = Program::new();
    let text = program.string("/users/7");
    let external = program.object(8 | 2, 4);
    program.set(external, 8, 8 << 32);
    program.set(external, 24, (text & !3) + 16);
    let store = object(&mut program, &[("tenant", external)]);
    let isolate = isolate(&mut program, NODES, &[store]);
    let found = found(&program, isolate, 0).0.keys[0].clone();
    assert_eq!(found.as_deref(), Some("/users/7"));
}

#[test]
fn a_callback_has_the_stores_of_its_resource() {
    let mut program = Program::new();
    let tenant = program.string("acme");
    let store = object(&mut program, &[("tenant", tenant)]);
    let resource = object(&mut program, &[("kResourceStore", store)]);
    let parser = object(&mut program, &[("resource_symbol", resource)]);
    let callback = ("callback", "/app/a.js", [0; 3]);
    let of_timer = ("callback", "/app/a.js", [resource, 0, 0]);
    let hooks = "node:internal/async_hooks";
    let trampoline = ("callbackTrampoline", hooks, [0, 7 << 32, resource]);
    let scope = ("runInAsyncScope", "node:async_hooks", [resource, 0, 0]);
    let timers = ("listOnTimeout", "node:internal/timers", [0; 3]);
    let parsed = (
        "parserOnHeadersComplete",
        "node:_http_common",
        [parser, 0, 0],
    );
    let run = ("run", "node:async_hooks", [parser, store, 0]);
    let ticks = (
        "processTicksAndRejections",
        "node:internal/process/task_queues",
        [0; 3],
    );
    let fake = ("callbackTrampoline", "/app/b.js", [0, 7 << 32, resource]);
    let mut tenant = |functions: &[_]| tenant_in(&mut program, functions);
    let acme = Some("acme".to_owned());
    for known in [
        &[callback, trampoline][..],
        &[callback, scope, ticks],
        &[of_timer, timers],
        &[callback, parsed],
        &[callback, run],
        &[callback, run, ticks],
    ] {
        assert_eq!(tenant(known), acme);
    }
    for unknown in [
        &[callback, ticks, trampoline][..],
        &[callback, timers, trampoline],
        &[of_timer, callback],
        &[callback, fake],
    ] {
        assert_eq!(tenant(unknown), None);
    }
}
