//! What the kernel is asked to count for an event that a user named.

use std::ffi::CString;
use std::fs;
use std::io;
use std::sync::Arc;

use nodespy_perf_abi::TracepointFormat;

use super::spec::{EventSource, EventSpec, Tracepoint, Uprobe};
use super::tracefs;
use crate::error::CaptureError;
use crate::sys::perf_event::Counted;

/// The PMU of uprobes: its number differs from machine to machine.
const UPROBE_PMU: &str = "/sys/bus/event_source/devices/uprobe/type";

pub(super) fn counted(spec: &EventSpec) -> Result<Counted, CaptureError> {
    let (kind, config) = match &spec.source {
        // Hardware cycles are tried first.
        EventSource::Cpu | EventSource::Wall => return Ok(Counted::CYCLES),
        // What is polled from outside, the kernel does not sample.
        EventSource::OffCpu => return Ok(Counted::NOTHING),
        EventSource::Named(named) => (named.kind, named.config),
        EventSource::Tracepoint(Tracepoint::Id(id)) => return Ok(Counted::tracepoint(*id)),
        EventSource::Tracepoint(Tracepoint::Name { system, name }) => {
            return Ok(Counted::tracepoint(tracefs::id_of(system, name)?));
        }
        EventSource::Uprobe(probe) => return of_uprobe(probe),
    };
    Ok(Counted {
        kind,
        config,
        place: None,
    })
}

/// The arguments of a tracepoint that is known by name.
pub(super) fn format_of(spec: &EventSpec) -> Option<Arc<TracepointFormat>> {
    let EventSource::Tracepoint(Tracepoint::Name { system, name }) = &spec.source else {
        return None;
    };
    let text = tracefs::format_of(system, name)
        .inspect_err(|why| log::info!("{system}:{name} has no arguments: {why}"))
        .ok()?;
    let format = TracepointFormat::parse(&text);
    (!format.fields().is_empty()).then(|| Arc::new(format))
}

/// The number of the PMU of uprobes.
pub(crate) fn uprobe_pmu() -> io::Result<u32> {
    let text = fs::read_to_string(UPROBE_PMU)?;
    text.trim().parse().map_err(io::Error::other)
}

fn of_uprobe(probe: &Uprobe) -> Result<Counted, CaptureError> {
    let no_uprobes = |_| CaptureError::refused("this kernel has no uprobes".to_owned());
    let kind = uprobe_pmu().map_err(no_uprobes)?;
    let missing = || {
        CaptureError::refused(format!(
            "{}:{} was not looked for",
            probe.binary, probe.symbol
        ))
    };
    let place = probe.place.as_ref().ok_or_else(missing)?;
    let file = CString::new(place.file.as_os_str().as_encoded_bytes()).map_err(|_| missing())?;
    Ok(Counted {
        kind,
        // The kernel raises the counter at this place (`ref_ctr_offset`).
        config: u64::from(probe.is_return) | place.semaphore << 32,
        place: Some((file, place.offset)),
    })
}
