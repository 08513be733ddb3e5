//! What is sent to a server may cost twice as much when it doubles, not four times.

// The counting allocator and a clock of the thread.
#![allow(unsafe_code)]

#[path = "../../../formats/tests/support/counting.rs"]
mod counting;
#[path = "../../../formats/tests/support/growth.rs"]
mod growth;
mod otlp;
mod windows;

use counting::{Cost, cost_of};
use growth::{DOUBLINGS, assert_none, faults};
use nodespy_formats::{ImportOptions, import};
use nodespy_model::Contents;
use nodespy_store::{batch_from_bytes, batch_of};

fn assert_is_linear(
    what: &str,
    count: usize,
    generate: impl Fn(usize) -> Vec<u8>,
    read: impl Fn(&[u8]),
) {
    let costs: Vec<(usize, Cost)> = (0..=DOUBLINGS)
        .map(|doubling| {
            let bytes = generate(count << doubling);
            (bytes.len(), cost_of(|| read(&bytes)))
        })
        .collect();
    assert_none(&faults(what, &costs));
}

fn decode(request: &[u8]) {
    nodespy_otlp::decode(request, None).unwrap();
}

#[test]
fn otlp_requests_cost_what_they_are() {
    assert_is_linear("samples", 1_000, otlp::samples, decode);
    assert_is_linear("attributes and samples", 1_000, otlp::attributes, decode);
    assert_is_linear(
        "processes of a long service",
        250,
        otlp::long_service,
        decode,
    );
    assert_is_linear("functions of a long name", 100, otlp::long_function, decode);
    assert_is_linear("locations of a long type", 1_000, otlp::long_type, decode);
}

#[test]
fn windows_cost_what_they_are() {
    assert_is_linear("windows", 500, windows::windows, |bytes| {
        batch_from_bytes(bytes)
            .unwrap()
            .symbols
            .checked_hashes()
            .unwrap();
    });
}

#[test]
fn profiles_of_pyroscope_cost_what_they_are() {
    let read = |from: &'static str| {
        move |bytes: &[u8]| {
            let options = ImportOptions::from(Some(from));
            let recording = import(bytes.to_vec().into(), &options).unwrap();
            let Contents::Named(profile) = recording.contents else {
                panic!("it comes with names");
            };
            batch_of(&profile);
        }
    };
    assert_is_linear("folded stacks", 2_000, windows::folded, read("folded"));
    assert_is_linear(
        "frames of a long name",
        1_000,
        windows::pprof,
        read("pprof"),
    );
}
