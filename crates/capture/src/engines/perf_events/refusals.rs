//! Why an event can't be had, and what helps.

use std::io;
use std::path::Path;

use super::names::Class;
use super::spec::{EventSource, EventSpec};
use crate::error::{CaptureError, explain_refusal};
use crate::target::proc;

/// Where the kernel lists the counters of the processor.
const CPU_PMU: &str = "/sys/bus/event_source/devices/cpu";

/// `kernel.perf_event_paranoid` as text.
pub(super) fn paranoid() -> String {
    let level = proc::perf_event_paranoid();
    level.map_or_else(|| "unknown".to_owned(), |level| level.to_string())
}

/// Turns what `perf_event_open` said about an event into what happened, why, and what to type.
pub(super) fn explain_event(pid: u32, spec: &EventSpec, source: io::Error) -> CaptureError {
    let name = spec.name();
    let is_refused = matches!(source.raw_os_error(), Some(libc::EACCES | libc::EPERM));
    let sentence = match &spec.source {
        EventSource::Cpu | EventSource::Wall | EventSource::OffCpu => {
            return explain_refusal(pid, source);
        }
        EventSource::Named(named) if named.class == Class::Hardware && !is_refused => {
            return CaptureError::refused(no_hardware(name, &source));
        }
        EventSource::Named(named) if named.class == Class::KernelOnly && is_refused => format!(
            "{name} happen inside the kernel, and kernel.perf_event_paranoid is {}: sudo sysctl \
             kernel.perf_event_paranoid=1, or run as root",
            paranoid()
        ),
        EventSource::Tracepoint(_) if is_refused => format!(
            "the tracepoint {name} needs CAP_PERFMON while kernel.perf_event_paranoid is {}: run as \
             root, or sudo sysctl kernel.perf_event_paranoid=-1",
            paranoid()
        ),
        EventSource::Tracepoint(_) if source.raw_os_error() == Some(libc::EINVAL) => {
            return CaptureError::not_found(format!("this kernel has no tracepoint {name}"));
        }
        EventSource::Uprobe(probe) if is_refused && probe.is_of_javascript => {
            "--pool-submitters sets breakpoints in the program, which needs CAP_PERFMON: run as root"
                .to_owned()
        }
        EventSource::Uprobe(_) if is_refused => {
            format!("{name} sets a breakpoint in the program, which needs CAP_PERFMON: run as root")
        }
        EventSource::Uprobe(probe) if source.raw_os_error() == Some(libc::EINVAL) => {
            return CaptureError::refused(format!(
                "the kernel sets no breakpoint at {}+{} of {}: there must begin an instruction",
                probe.symbol, probe.offset, probe.binary
            ));
        }
        _ if is_refused || source.raw_os_error() == Some(libc::ESRCH) => {
            return explain_refusal(pid, source);
        }
        _ => return CaptureError::call(format!("opening the event {name}"), source),
    };
    CaptureError::NotPermitted { sentence, source }
}

fn no_hardware(name: &str, error: &io::Error) -> String {
    if !Path::new(CPU_PMU).exists() {
        return "this machine shows no hardware counters (a virtual machine without a PMU): cycles, \
                instructions and caches can't be counted here; -e cpu samples time"
            .to_owned();
    }
    match error.raw_os_error() {
        Some(libc::EBUSY | libc::ENOSPC) => format!(
            "{name} can't be counted: all counters are taken; the NMI watchdog holds one (sudo \
             sysctl kernel.nmi_watchdog=0)"
        ),
        _ => format!("{name} is not counted by this processor ({error})"),
    }
}
