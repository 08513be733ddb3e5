//! Processes that map and fork.

use std::fs::File;

use nodespy_model::{
    Contents, Event, ImageBytes, ImageRefused, JitFile, Mapping, Origin, Process, Recording,
};
use nodespy_symbolize::{ResolveOptions, resolve};

/// Nothing is on this disk.
struct Nowhere;

impl Origin for Nowhere {
    fn open_image(&self, _: &Mapping) -> Result<ImageBytes, ImageRefused> {
        Err(ImageRefused {
            why: "it is nowhere".to_owned(),
        })
    }

    fn open_debug_file(&self, _: u32, _: &[u8]) -> Option<File> {
        None
    }

    fn open_jit_file(&self, _: u32, _: Option<&Mapping>) -> Option<JitFile> {
        None
    }

    fn read_memory(&self, _: u32, _: u64, _: &mut [u8]) -> usize {
        0
    }

    fn describe(&self, _: u32) -> Option<Process> {
        None
    }
}

/// A process with `count` mappings, and as many children that have them too.
pub(crate) fn map_and_fork(count: usize) {
    let mapping = |number: u64| {
        let start = 0x40_0000 + number * 0x2000;
        Event::Mapping(Mapping {
            pid: 1,
            start,
            end: start + 0x1000,
            file_offset: number * 0x1000,
            path: "/app/addon.node".to_owned(),
            file: Default::default(),
            time: 1 + number,
        })
    };
    let fork = |number: u64| Event::Fork {
        pid: 2 + number as u32,
        tid: 2 + number as u32,
        parent_pid: 1,
        time: 1_000_000 + number,
    };
    let mappings = (0..count as u64).map(mapping);
    let events: Vec<Event<'static>> = mappings.chain((0..count as u64).map(fork)).collect();
    let recording = Recording {
        contents: Contents::Events(Box::new(events)),
        ..Recording::default()
    };
    resolve(recording, Box::new(Nowhere), &ResolveOptions::default());
}
