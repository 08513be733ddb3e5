//! Windows of an agent, and profiles of Pyroscope's SDKs.

use std::fmt::Write;

use nodespy_model::{Labels, ThreadRole, WeightUnit};
use nodespy_store::{
    Batch, Count, Series, StoredFrame, StoredFunction, Symbols, Window, batch_to_bytes,
};

use crate::otlp::{field, number};

/// Series, functions and windows, as many of each.
pub(crate) fn windows(count: usize) -> Vec<u8> {
    let functions = (0..count).map(|at| StoredFunction {
        name: format!("function_{at}"),
        file: "/app/server.js".to_owned(),
        ..StoredFunction::default()
    });
    let frames = (0..count as u32).map(|function| StoredFrame {
        function,
        ..StoredFrame::default()
    });
    let symbols = Symbols {
        functions: functions.collect(),
        frames: frames.collect(),
        stacks: (0..count as u32).map(|frame| vec![0, frame]).collect(),
    };
    let hashes = symbols.hashes();
    let series = (0..count).map(|at| {
        let mut labels = Labels::default();
        labels.set("pid", at.to_string());
        Series {
            service: "shop".to_owned(),
            event: "cpu".to_owned(),
            unit: WeightUnit::Nanoseconds,
            period: 1,
            labels,
        }
    });
    let windows = (0..count).map(|at| Window {
        series: at,
        start: 1_700_000_000,
        counts: vec![Count::new(hashes[at], ThreadRole::Main, 1)],
    });
    batch_to_bytes(&Batch {
        series: series.collect(),
        windows: windows.collect(),
        symbols,
    })
}

pub(crate) fn folded(count: usize) -> Vec<u8> {
    let mut text = String::new();
    for at in 0..count {
        writeln!(text, "main;f{at};g{} {}", at % 7, 1 + at % 3).unwrap();
    }
    text.into_bytes()
}

/// Lines of one function that has a long name.
pub(crate) fn pprof(count: usize) -> Vec<u8> {
    let mut bytes = field(1, &[8, 1, 16, 2]);
    for text in ["", "samples", "count", &"x".repeat(count * 8)] {
        bytes.extend(field(6, text.as_bytes()));
    }
    bytes.extend(field(
        5,
        &[number(1, 1), number(2, 3), number(4, 3)].concat(),
    ));
    for id in 1..=count {
        bytes.extend(field(2, &[number(1, id), number(2, 1)].concat()));
        let line = field(4, &[number(1, 1), number(2, id)].concat());
        bytes.extend(field(4, &[number(1, id), line].concat()));
    }
    bytes
}
