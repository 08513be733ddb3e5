//! What a profile says of its own names: how many frames of JIT code have one, from which source,
//! and what should be known of the files.

use nodespy_model::{JsRuntime, NameSource, Notes, label_key};

use super::batch::Batch;
use super::binaries::Binaries;
use super::naming::JitNamesOf;
use super::process::LiveProcess;
use crate::address_map::ImageId;
use crate::frame::Identified;
use crate::v8::Functions;
use crate::v8::shares::{LeftOut, Pools};

/// A map that grew by more than this while it was recorded is worth a remark.
const NOTABLE_GROWTH_BYTES: u64 = 1 << 20;
/// A map larger than this is worth a remark.
const NOTABLE_SIZE_BYTES: u64 = 256 << 20;

/// Frames of JIT code that have a name, counted once for each sample.
#[derive(Debug, Default)]
struct NamedFrames {
    by_source: [u64; NameSource::ALL.len()],
    /// Those that have the name of the last of several functions, which no time distinguishes.
    undated: u64,
}

/// Adds to the notes what naming a batch has shown.
pub(super) fn report(
    binaries: &Binaries,
    processes: &[LiveProcess],
    (batch, jit): (&Batch, &JitNamesOf),
    (refused, pools): (&[ImageId], &Pools),
    notes: &mut Notes,
) {
    let named = count_named(processes, batch, jit);
    for (total, named) in notes.jit_named.iter_mut().zip(named.by_source) {
        *total += named;
    }
    if named.undated > 0 {
        let of_map = named.by_source[NameSource::PerfMap.at()].max(1);
        notes.remark(format!(
            "{:.1} % of the frames that a perf map names lie where it has several functions, one \
             written over the other, and no times: the last one is shown",
            named.undated as f64 / of_map as f64 * 100.0
        ));
    }
    for &image in refused {
        let image = binaries.image(image);
        // Where the kernel runs the instructions under breakpoints: nobody's code.
        if image.name == "[uprobes]" {
            continue;
        }
        if let Some(why) = &image.refused {
            notes.remark(format!("{} is not used for names: {why}", image.name));
        }
    }
    for names in jit.values() {
        for remark in &names.remarks {
            notes.remark(remark.clone());
        }
    }
    for process in processes {
        report_process(process, notes);
    }
    let functions = processes.iter().filter_map(LiveProcess::functions);
    let left_out = functions
        .map(Functions::left_out)
        .fold(LeftOut::default(), LeftOut::and);
    for remark in left_out.remarks(pools) {
        notes.remark(remark);
    }
}

fn report_process(process: &LiveProcess, notes: &mut Notes) {
    if let Some(remark) = process.v8().and_then(|v8| v8.remark()) {
        notes.remark(remark);
    }
    if let Some(remark) = why_unnamed(process) {
        notes.remark(remark);
    }
    let Some(watch) = &process.jit else { return };
    let size = watch.file.bytes.size().unwrap_or(0);
    let before = watch.marks().first().map_or(size, |(_, size)| *size);
    let growth = size.saturating_sub(before);
    if growth >= NOTABLE_GROWTH_BYTES || size >= NOTABLE_SIZE_BYTES {
        notes.remarks.push(format!(
            "{} grew by {:.1} MB during the recording and has {:.1} MB",
            watch.file.path,
            growth as f64 / 1e6,
            size as f64 / 1e6
        ));
    }
}

/// Why functions of JavaScript have no names where what runs them is not Node, and what would
/// give them some.
fn why_unnamed(process: &LiveProcess) -> Option<String> {
    if !process.has_jit_frames || process.v8().is_some() || process.jit.is_some() {
        return None;
    }
    let label = process.about.labels.get(label_key::RUNTIME)?;
    let runtime = JsRuntime::of_label(label)?;
    Some(format!(
        "process {} is {label}: {}, so its functions have no names; to name them start it with: {}",
        process.about.pid,
        runtime.why_unnamed()?,
        runtime.start_with_names()
    ))
}

fn count_named(processes: &[LiveProcess], batch: &Batch, jit: &JitNamesOf) -> NamedFrames {
    // Where each frame of JIT code has its name from, and whether that is undated.
    let sources: Vec<Option<(NameSource, bool)>> = batch
        .frames_with_process()
        .map(|of| match of.frame {
            Identified::Jit(address) => {
                let names = jit.get(&of.process)?;
                let is_known = names.names_some_code_at(address);
                is_known.then(|| (names.source, names.is_undated(address)))
            }
            Identified::Js(frame) => {
                let functions = processes[of.process.at()].functions()?;
                let is_late = functions.is_named_late(frame.function);
                is_late.then_some((NameSource::HeapWalk, false))
            }
            _ => None,
        })
        .collect();
    // How many samples pass through each path, children added to parents.
    let mut passes = vec![0u64; batch.paths.len()];
    for sample in &batch.samples {
        if let Some(count) = passes.get_mut(sample.stack as usize) {
            *count += 1;
        }
    }
    let mut named = NamedFrames::default();
    for position in (0..passes.len()).rev() {
        let (path, count) = (batch.paths.get(position as u32), passes[position]);
        if let Some((source, is_undated)) = sources[path.frame as usize] {
            named.by_source[source.at()] += count;
            named.undated += if is_undated { count } else { 0 };
        }
        if let Some(parent) = passes.get_mut(path.parent as usize) {
            *parent += count;
        }
    }
    named
}
