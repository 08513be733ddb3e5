//! The door: events in, a profile out.
//!
//! What is kept has one of three lifetimes: [`Binaries`](binaries::Binaries) are shared by all
//! processes and outlive them, a [`LiveProcess`](process::LiveProcess) is dropped once it has ended
//! and its last samples are named, a [`Batch`](batch::Batch) holds the samples of one slice and is
//! consumed by naming.
//!
//! While events come in, stacks are unwound and kept as paths of identified frames, each held once.
//! Names are given when a slice ends, when the files that name JIT code are complete. A frame is
//! attributed to the mapping in force when its sample was taken.

use nodespy_model::{Contents, Mapping, Origin, Profile, Recording};

use crate::image::Image;
use crate::source_map::{SourceMapOptions, map_sources};
use crate::unnamed::name_all;

mod batch;
mod binaries;
mod chain;
mod hottest;
mod jit_watch;
mod labels;
mod last_stack;
mod mappings;
mod naming;
mod paths;
mod pending;
mod process;
mod processes;
mod report;
mod resolver;
mod routes;
mod samples;
mod slice;
mod states;
mod store_labels;
#[cfg(test)]
mod tests;
mod threads;
mod worker_threads;

pub use resolver::Resolver;

/// How a recording is resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolveOptions {
    /// Whether native functions that were inlined get frames of their own, where debug
    /// information has them.
    pub has_inlines: bool,
    /// The source maps that show where JavaScript was written.
    pub source_maps: SourceMapOptions,
}

impl Default for ResolveOptions {
    fn default() -> Self {
        Self {
            has_inlines: true,
            source_maps: SourceMapOptions::default(),
        }
    }
}

/// Turns a recording into a profile.
pub fn resolve(recording: Recording, origin: Box<dyn Origin>, options: &ResolveOptions) -> Profile {
    let profile = named(recording, origin, options);
    match options.source_maps.given.is_empty() {
        true => profile,
        // Nothing proves that a script on this disk is the one that ran.
        false => map_sources(profile, &[], None, &options.source_maps),
    }
}

fn named(recording: Recording, origin: Box<dyn Origin>, options: &ResolveOptions) -> Profile {
    match recording.contents {
        Contents::Named(mut profile) => {
            profile.about = recording.about;
            profile.notes = recording.notes;
            *profile
        }
        Contents::PartlyNamed(profile, unnamed) => {
            let mut notes = recording.notes;
            let mut profile = name_all(*profile, &unnamed, &mut notes, &*origin);
            profile.about = recording.about;
            profile.notes = notes;
            profile
        }
        Contents::Events(events) => {
            let mut resolver = Resolver::new(origin)
                .without_heap_walk()
                .with_events(recording.events);
            resolver.has_inlines = options.has_inlines;
            resolver.batch.merge_notes(recording.notes);
            let notes = events.replay(&mut |event| resolver.take(event));
            resolver.processes.name_processes();
            let mut about = recording.about;
            let times = || resolver.batch.samples.iter().map(|sample| sample.time);
            let started = times().min().unwrap_or(0);
            about.duration = about
                .duration
                .max(times().max().unwrap_or(0).saturating_sub(started));
            let mut profile = resolver.finish(about, notes, started);
            profile.put_first(profile.main_event());
            profile.count_equal_periods();
            if profile.about.app.is_empty() {
                profile.about.app = name_of_busiest(&profile);
            }
            profile
        }
    }
}

/// The process most samples were taken of, for a recording that does not say what it is of.
fn name_of_busiest(profile: &Profile) -> String {
    let mut counts = vec![0u64; profile.processes.len()];
    for sample in &profile.samples {
        counts[profile.threads[sample.thread.at()].process.at()] += 1;
    }
    let busiest = profile
        .processes
        .iter()
        .zip(counts)
        .max_by_key(|(_, count)| *count);
    busiest.map_or_else(String::new, |(process, _)| process.name.clone())
}

/// Whether JavaScript can be named by reading V8's heap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeapSupport {
    /// No V8 is mapped.
    NoV8,
    /// This version of V8 is in the tables.
    Known((u32, u32)),
    /// This version is not; the second is the nearest that is.
    Nearest((u32, u32), (u32, u32)),
    /// There is a V8 that can't be read, for this reason.
    Refused(String),
}

/// Whether the JavaScript of a process with these mappings can be named by reading V8's heap.
pub fn heap_support(mappings: &[Mapping], origin: &dyn Origin) -> HeapSupport {
    let layout = mappings
        .iter()
        .filter(|mapping| !mapping.is_anonymous() && mapping.path.starts_with('/'))
        .find_map(|mapping| Image::open(mapping, origin).v8_layout());
    match layout {
        None => HeapSupport::NoV8,
        Some(Err(why)) => HeapSupport::Refused(why),
        Some(Ok(layout)) if layout.version == layout.nearest => HeapSupport::Known(layout.version),
        Some(Ok(layout)) => HeapSupport::Nearest(layout.version, layout.nearest),
    }
}
