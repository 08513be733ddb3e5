//! Tests of the search for requests, on a heap made by hand.

use super::SampleView;
use super::functions::Functions;
use super::requests::{Requests, Search};
use super::stand_in::{Program, StandIn, with_heap};
use crate::copied::CopiedMemory;
use crate::frame::{CodeAddress, FrameSlots, Unwound};
use nodespy_model::{CopyRule, CopyRules, ObjectShape, Registers, RuleOf};

const STACK: u64 = 0x7fff_0000;
const FRAME: u64 = 0x40;

/// What is found where a function has this for its argument, and what is to be copied from now on.
fn found(program: &Program, argument: u64) -> (Option<String>, Vec<CopyRule>) {
    found_by(&mut Requests::default(), program, argument)
}

fn found_by(
    known: &mut Requests,
    program: &Program,
    argument: u64,
) -> (Option<String>, Vec<CopyRule>) {
    found_at(known, program, (2, argument))
}

/// The same where a function has so many arguments, its receiver too, and the word is the second above its frame.
fn found_at(
    known: &mut Requests,
    program: &Program,
    arguments: (u64, u64),
) -> (Option<String>, Vec<CopyRule>) {
    let (label, rules) = found_with_rules(known, program, arguments);
    (label, rules.objects)
}

fn found_with_rules(
    known: &mut Requests,
    program: &Program,
    (count, argument): (u64, u64),
) -> (Option<String>, CopyRules) {
    let mut stack = vec![0_u64; 32];
    stack[(FRAME as usize - 24) / 8] = count;
    stack[(FRAME as usize + 24) / 8] = argument;
    let bytes: Vec<u8> = stack.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut registers = Registers::default();
    registers.0[Registers::STACK_POINTER] = STACK;
    let sample = SampleView {
        pid: 1,
        tid: 1,
        copy_of: None,
        origin: &StandIn(program.memory.clone()),
        registers: &registers,
        stack: &bytes,
        copied: CopiedMemory::default(),
        has_async_callers: true,
        has_routes: true,
        stores: None,
    };
    let frame = Unwound {
        code: CodeAddress::Unknown,
        v8: Some(FrameSlots {
            frame_pointer: STACK + FRAME,
            marker: Program::BASE | 1,
            function: Program::BASE | 1,
            bytecode_array: 0,
            bytecode_offset: 0,
            feedback: 0,
        }),
    };
    let route = with_heap(&program.memory, |heap| {
        Search {
            heap,
            functions: &mut Functions::default(),
            sample: &sample,
            known,
        }
        .route(&[frame], None)
    });
    (route.map(|route| route.label()), known.take_rules())
}

fn request(program: &mut Program, more: &[(&str, u64)]) -> u64 {
    let class = program.function_of("IncomingMessage", "node:_http_incoming");
    let (method, url) = (program.string("GET"), program.string("/users/7?secret=1"));
    let own = [("url", url), ("method", method)];
    program.constructed(class, &[&own[..], more].concat())
}

#[test]
fn a_request_has_its_path_and_what_express_has_matched() {
    let mut program = Program::new();
    let plain = request(&mut program, &[]);
    assert_eq!(found(&program, plain).0.as_deref(), Some("GET /users/*"));
    let class = program.function_of("Route", "/app/route.js");
    let path = program.string("/:id");
    let route = program.constructed(class, &[("path", path)]);
    let mount = program.string("/users");
    let matched = request(&mut program, &[("route", route), ("baseUrl", mount)]);
    let (label, rules) = found(&program, matched);
    assert_eq!(label.as_deref(), Some("GET /users/:id"));
    // Of the request by its map and its constructor, and of the route by its map.
    let fields: Vec<usize> = rules.iter().map(|rule| rule.fields.len()).collect();
    assert_eq!(fields, [4, 4, 1]);
    assert!(rules[0].leads_to_request && !rules[2].leads_to_request);
}

#[test]
fn a_constructor_stands_for_its_maps_where_each_request_has_its_own() {
    let mut program = Program::new();
    let class = program.function_of("IncomingMessage", "node:_http_incoming");
    let (method, url) = (program.string("GET"), program.string("/users/7"));
    let mut known = Requests::default();
    let handed_on = (0..80).map(|_| {
        // With a map of its own, as each one has in the made-up heap.
        let request = program.constructed(class, &[("url", url), ("method", method)]);
        let (label, rules) = found_by(&mut known, &program, request);
        assert_eq!(label.as_deref(), Some("GET /users/*"));
        rules.len()
    });
    let handed_on: Vec<usize> = handed_on.collect();
    assert_eq!((handed_on[0], handed_on[63]), (2, 1));
    assert!(handed_on[64..].iter().all(|&rules| rules == 0));
    // They have to be read while they live all the same.
    let another = program.constructed(class, &[("url", url), ("method", method)]);
    assert!(
        found_with_rules(&mut known, &program, (2, another))
            .1
            .has_new_maps
    );
}

#[test]
fn a_constructor_too_far_from_a_map_does_not_stand_for_it() {
    let mut program = Program::new();
    let class = program.function_of("IncomingMessage", "node:_http_incoming");
    let (method, url) = (program.string("GET"), program.string("/users/7"));
    let (mut known, own) = (Requests::default(), [("url", url), ("method", method)]);
    for _ in 0..super::requests::MAX_MAPS_OF_CLASS {
        let request = program.constructed(class, &own);
        found_by(&mut known, &program, request);
    }
    // Each map comes from the one before, by a property that was added.
    let mut came_from = class;
    for hops in 1..12 {
        let map = program.object(0, 8);
        let request = program.constructed_with(map, came_from, &own);
        let rules = found_by(&mut known, &program, request).1;
        assert_eq!(rules.len(), usize::from(hops >= 8), "{hops}");
        came_from = map;
    }
}

#[test]
fn what_a_router_has_left_of_a_url_is_no_path() {
    let mut program = Program::new();
    let whole = program.string("/shop/users/7");
    let mounted = request(&mut program, &[("originalUrl", whole)]);
    let label = found(&program, mounted).0;
    assert_eq!(label.as_deref(), Some("GET /shop/users/*"));
    // Where the whole one is not to be had.
    let mounted = request(&mut program, &[("originalUrl", 0)]);
    assert_eq!(found(&program, mounted).0, None);
}

#[test]
fn a_response_leads_to_its_request() {
    let mut program = Program::new();
    let request = request(&mut program, &[]);
    let class = program.function_of("ServerResponse", "node:_http_server");
    let response = program.constructed(class, &[("req", request)]);
    let label = found(&program, response).0;
    assert_eq!(label.as_deref(), Some("GET /users/*"));
}

#[test]
fn what_only_looks_like_a_request_is_none() {
    let mut program = Program::new();
    let (method, url) = (program.string("GET"), program.string("/users"));
    let class = program.function_of("IncomingMessage", "/app/fake.js");
    let fake = program.constructed(class, &[("url", url), ("method", method)]);
    let (label, rules) = found(&program, fake);
    assert_eq!(label, None);
    assert!(rules.len() == 1 && rules[0].fields.is_empty(), "{rules:?}");
    // A response that leads to itself.
    let class = program.function_of("ServerResponse", "node:_http_server");
    let response = program.constructed(class, &[("req", 0)]);
    program.set(response, 24, response);
    assert_eq!(found(&program, response).0, None);
}

#[test]
fn a_map_in_the_place_of_one_that_died_is_another_class() {
    let mut program = Program::new();
    let map = program.object(0, 8);
    let class = program.function_of("IncomingMessage", "node:_http_incoming");
    let (method, url) = (program.string("GET"), program.string("/users"));
    let request = program.constructed_with(map, class, &[("url", url), ("method", method)]);
    let mut known = Requests::default();
    let (label, first) = found_by(&mut known, &program, request);
    assert_eq!(label.as_deref(), Some("GET /users"));
    // As V8 9.4 does it with the maps of express' requests, of which each has its own.
    let class = program.function_of("Object", "");
    let parameters = program.constructed_with(map, class, &[("text", url), ("more", method)]);
    let (label, second) = found_by(&mut known, &program, parameters);
    assert_eq!(label, None);
    let of_map = |rules: &[CopyRule]| rules.iter().find(|rule| rule.key == map).cloned();
    let (first, second) = (of_map(&first).unwrap(), of_map(&second).unwrap());
    assert!(first.leads_to_request && !second.leads_to_request);
    assert_ne!(first.fingerprint, second.fingerprint);
}

/// An object without a prototype, whose properties are in a dictionary.
fn bare(program: &mut Program, entries: &[(u64, u64)]) -> u64 {
    const ODDBALL: u16 = 131;
    const OWN_WORDS: u64 = 6;
    let (map, null) = (program.object(0, 8), program.object(ODDBALL, 4));
    let object = program.constructed_with(map, null, &[]);
    program.set(map, 16, 1 << 21);
    program.set(map, 24, null);
    let capacity = 8;
    let words = OWN_WORDS + 3 * capacity;
    let dictionary = program.object(179, 2 + words);
    program.set(dictionary, 8, words << 32);
    program.set(dictionary, 32, capacity << 32);
    for (position, (name, value)) in (0..).zip(entries) {
        // Every other entry is free.
        let at = 16 + 8 * (OWN_WORDS + 6 * position);
        program.set(dictionary, at, *name);
        program.set(dictionary, at + 8, *value);
    }
    program.set(object, 8, dictionary);
    object
}

#[test]
fn headers_of_http2_that_were_received_are_a_request() {
    let mut program = Program::new();
    let [method, path, cookie, description] =
        [":method", ":path", "cookie", "sensitiveHeaders"].map(|name| program.string(name));
    let [get, users, secret] =
        ["GET", "/users/7?secret=1", "secret"].map(|text| program.string(text));
    let symbol = program.object(128, 4);
    program.set(symbol, 16, description);
    let sent = [(path, users), (cookie, secret), (method, get)];
    let received = bare(&mut program, &[&sent[..], &[(symbol, secret)]].concat());
    let (label, rules) = found(&program, received);
    assert_eq!(label.as_deref(), Some("GET /users/*"));
    // Of the cookie nothing is copied.
    let names = rules.iter().filter(|rule| rule.of == RuleOf::Name);
    let names: Vec<u64> = names.map(|rule| rule.key).collect();
    assert_eq!(names, [path, method]);
    assert_eq!(rules[0].shape, ObjectShape::Dictionary);
    let sent = bare(&mut program, &sent);
    assert_eq!(found(&program, sent).0, None);
}

#[test]
fn a_dictionary_that_lies_is_none() {
    let mut program = Program::new();
    let key = program.string(":path");
    let object = bare(&mut program, &[(key, key)]);
    let dictionary = program.word(object, 8);
    for (offset, word) in [(32, u64::MAX << 32), (32, 1 << 50), (8, 0), (8, u64::MAX)] {
        let mut program = program.clone();
        program.set(dictionary, offset, word);
        assert_eq!(found(&program, object).0, None);
    }
}

#[test]
fn what_is_above_the_arguments_is_the_callers() {
    let mut program = Program::new();
    let other = request(&mut program, &[]);
    let mut known = Requests::default();
    assert_eq!(found_at(&mut known, &program, (1, other)).0, None);
    assert!(found_at(&mut known, &program, (2, other)).0.is_some());
}

/// An object whose properties V8 keeps in a dictionary.
fn with_dictionary(program: &mut Program, class: u64, entries: &[(u64, u64)]) -> u64 {
    let bare = bare(program, entries);
    let map = program.object(0, 8);
    let object = program.constructed_with(map, class, &[]);
    program.set(map, 16, 1 << 21);
    program.set(object, 8, program.word(bare, 8));
    object
}

#[test]
fn a_request_with_a_dictionary_is_one() {
    let mut program = Program::new();
    let class = program.function_of("IncomingMessage", "node:_http_incoming");
    let other = program.function_of("IncomingMessage", "/app/fake.js");
    let [method, url, cookies] = ["method", "url", "cookies"].map(|name| program.string(name));
    let [get, users] = ["GET", "/users/7?secret=1"].map(|text| program.string(text));
    let entries = [(url, users), (cookies, users), (method, get)];
    let slow = with_dictionary(&mut program, class, &entries);
    let (label, rules) = found(&program, slow);
    assert_eq!(label.as_deref(), Some("GET /users/*"));
    assert_eq!(rules[0].shape, ObjectShape::Dictionary);
    let names = rules.iter().filter(|rule| rule.of == RuleOf::Name);
    let names: Vec<u64> = names.map(|rule| rule.key).collect();
    assert_eq!(names, [url, method]);
    let fake = with_dictionary(&mut program, other, &entries);
    assert_eq!(found(&program, fake).0, None);
}

/// What Next keeps of a request that this page has matched.
fn next_meta(program: &mut Program, page: &str) -> u64 {
    let class = program.function_of("Object", "");
    let text = program.string(page);
    let definition = program.constructed(class, &[("pathname", text), ("bundlePath", text)]);
    let matched = program.constructed(class, &[("definition", definition), ("params", 0)]);
    program.constructed(class, &[("initURL", text), ("match", matched)])
}

#[test]
fn a_request_of_next_has_the_page_that_it_has_matched() {
    let mut program = Program::new();
    let meta = next_meta(&mut program, "/users/[id]");
    let own = request(&mut program, &[("NextInternalRequestMeta", meta)]);
    let label = found(&program, own).0;
    assert_eq!(label.as_deref(), Some("GET /users/[id]"));
    // Next's own request, of a bundle.
    let class = program.function_of("h", "/app/.next/server/app/page.js");
    let properties = [("_req", own), ("NextInternalRequestMeta", meta)];
    let wrapper = program.constructed(class, &properties);
    let label = found(&program, wrapper).0;
    assert_eq!(label.as_deref(), Some("GET /users/[id]"));
    // A page that is no path.
    let meta = next_meta(&mut program, "secret");
    let own = request(&mut program, &[("NextInternalRequestMeta", meta)]);
    assert_eq!(found(&program, own).0.as_deref(), Some("GET /users/*"));
}

/// A function around which there is a variable.
fn closure_over(program: &mut Program, variable: u64) -> u64 {
    const FUNCTION_CONTEXT: u16 = 210;
    let context = program.object(FUNCTION_CONTEXT, 6);
    program.set(context, 8, 4 << 32);
    program.set(context, 16 + 8 * 3, variable);
    let closure = program.function("report", Program::BASE | 1).function;
    program.set(closure, 32, context);
    closure
}

fn rendering(program: &mut Program, on_error: u64) -> u64 {
    let class = program.function_of("nL", "/app/react.js");
    let tasks = [("pingedTasks", 0), ("abortableTasks", 0)];
    program.constructed(class, &[&tasks[..], &[("onError", on_error)]].concat())
}

#[test]
fn a_rendering_is_for_the_request_of_its_callbacks() {
    let mut program = Program::new();
    let request = request(&mut program, &[]);
    let report = closure_over(&mut program, request);
    let direct = rendering(&mut program, report);
    let (label, rules) = found(&program, direct);
    assert_eq!(label.as_deref(), Some("GET /users/*"));
    // Of the rendering, of functions and of their contexts.
    assert!(rules[0].leads_to_request);
    assert_eq!(rules[1].fields.len(), 1);
    assert_eq!(rules[2].shape, ObjectShape::Context);
    // By way of a function among the variables, and not of another.
    let handler = closure_over(&mut program, report);
    let second = rendering(&mut program, handler);
    assert!(found(&program, second).0.is_some());
    let handler = closure_over(&mut program, handler);
    let third = rendering(&mut program, handler);
    assert_eq!(found(&program, third).0, None);
    // One that leads to itself, and to others without an end.
    let endless = rendering(&mut program, 0);
    let around = closure_over(&mut program, endless);
    program.set(endless, 8 * 5, around);
    assert_eq!(found(&program, endless).0, None);
    let outer = rendering(&mut program, around);
    assert_eq!(found(&program, outer).0, None);
}
