//! What works on a process, and what to type where something does not.

mod ebpf;

use std::io;

use nodespy_model::EventIndex;

use super::mapping::{LARGEST_RING_BYTES, share_ring};
use super::{EventSpec, ROOMY_RING_BYTES, SMALL_STACK_BYTES, STACK_BYTES};
use crate::engines::{Finding, Verdict};
use crate::error::{CaptureError, explain_refusal};
use crate::sys::perf_event::{Counted, Every, PerfEvent, Sampling, Subject};
use crate::sys::ring::page_size;
use crate::target::{Group, proc};

/// The largest ring that may be mapped for one event, for `nodespy check`.
fn largest_ring(event: PerfEvent) -> usize {
    let events = [event];
    let mut size = LARGEST_RING_BYTES;
    while size > page_size() {
        if share_ring(&events, size).is_ok() {
            return size;
        }
        size /= 2;
    }
    0
}

/// The least that can be asked for.
pub(super) const PROBE: Sampling = Sampling {
    event: EventIndex(0),
    is_of_javascript: false,
    counted: Counted::CPU_CLOCK,
    weight: 1,
    format: None,
    every: Every::Rate(99),
    has_period: false,
    include_kernel: false,
    exclude_kernel: true,
    stack_bytes: SMALL_STACK_BYTES,
    follow_children: false,
    start_on_exec: false,
    wakeup_bytes: 1 << 20,
    one_in: None,
};

/// Whether process `pid` can be sampled at all, by opening one event on it and closing it again.
pub fn probe_quickly(pid: u32) -> Result<(), CaptureError> {
    let cpu = proc::online_cpus()[0];
    match PerfEvent::sampling(Subject::Thread(pid), cpu, &PROBE) {
        Ok(_) => Ok(()),
        Err(error) => Err(explain_refusal(pid, error)),
    }
}

/// What works on process `pid`, and what to type where something does not.
pub fn probe(pid: u32) -> Vec<Finding> {
    let cpus = proc::online_cpus();
    let try_open = |counted, include_kernel: bool| {
        let sampling = Sampling {
            counted,
            include_kernel,
            exclude_kernel: !include_kernel,
            stack_bytes: STACK_BYTES,
            follow_children: true,
            ..PROBE
        };
        PerfEvent::sampling(Subject::Thread(pid), cpus[0], &sampling)
    };
    let ebpf = ebpf::probe(pid);
    let ring_bytes = try_open(Counted::CPU_CLOCK, false).map_or(0, largest_ring);
    vec![
        probe_user(pid, try_open(Counted::CPU_CLOCK, false)),
        probe_kernel(try_open(Counted::CPU_CLOCK, true)),
        probe_hardware(try_open(Counted::CYCLES, false)),
        ring_finding(ring_bytes, ebpf.verdict == Verdict::Good),
        ebpf,
    ]
}

/// Whether a control group can be sampled as a whole.
pub fn probe_group(group: &Group) -> Finding {
    let subject = "new processes";
    let path = nodespy_model::printable(group.path());
    let cpu = proc::online_cpus()[0];
    match PerfEvent::sampling(Subject::Group(group.as_fd()), cpu, &PROBE) {
        Ok(_) => Finding {
            subject,
            verdict: Verdict::Good,
            detail: format!("sampled from their start, with the whole control group {path}"),
            remedy: None,
        },
        Err(error) => Finding {
            subject,
            verdict: Verdict::Limited,
            detail: format!(
                "found a few tenths of a second late: the control group {path} can't be sampled as \
                 a whole ({error})"
            ),
            remedy: Some(format!("sudo nodespy record --cgroup '{path}'")),
        },
    }
}

fn probe_user(pid: u32, opened: io::Result<PerfEvent>) -> Finding {
    match opened {
        Ok(_) => Finding {
            subject: "sampling",
            verdict: Verdict::Good,
            detail: "perf events can be opened on the process".to_owned(),
            remedy: None,
        },
        Err(error) => Finding {
            subject: "sampling",
            verdict: Verdict::Bad,
            detail: explain_refusal(pid, error).to_string(),
            remedy: Some(format!("sudo nodespy record -p {pid}")),
        },
    }
}

fn probe_kernel(opened: io::Result<PerfEvent>) -> Finding {
    let subject = "kernel frames";
    match opened {
        Ok(_) => Finding {
            subject,
            verdict: Verdict::Good,
            detail: "allowed".to_owned(),
            remedy: None,
        },
        Err(error) => Finding {
            subject,
            verdict: Verdict::Limited,
            detail: format!(
                "left out: {error} (kernel.perf_event_paranoid is {})",
                proc::perf_event_paranoid().unwrap_or(-99)
            ),
            remedy: Some("sudo sysctl kernel.perf_event_paranoid=1".to_owned()),
        },
    }
}

fn probe_hardware(opened: io::Result<PerfEvent>) -> Finding {
    Finding {
        subject: "clock",
        verdict: Verdict::Good,
        detail: match opened {
            Ok(_) => "hardware cycles".to_owned(),
            Err(_) => "the kernel's CPU clock (this machine shows no hardware counters)".to_owned(),
        },
        remedy: None,
    }
}

/// What fits into rings of this size, of which a program copies less.
fn ring_finding(size: usize, has_program: bool) -> Finding {
    let subject = "ring buffer";
    if size >= ROOMY_RING_BYTES {
        return Finding {
            subject,
            verdict: Verdict::Good,
            detail: format!("{} MiB per CPU can be locked", size >> 20),
            remedy: None,
        };
    }
    let consequence = match has_program {
        true => {
            "at high rates deep stacks of code without frame pointers are cut, and samples lost"
                .to_owned()
        }
        false => format!(
            "{} KiB of each stack are copied, the rest is read a moment later",
            SMALL_STACK_BYTES >> 10
        ),
    };
    Finding {
        subject,
        verdict: Verdict::Limited,
        detail: format!(
            "only {} KiB per CPU can be locked: {consequence}",
            size >> 10
        ),
        remedy: Some("ulimit -l unlimited".to_owned()),
    }
}

/// Whether this process can open an event on itself.
pub(super) fn open_on_self(
    spec: &EventSpec,
    counted: &Counted,
    exclude_kernel: bool,
) -> io::Result<()> {
    let cpu = proc::online_cpus()[0];
    let mut sampling = Sampling {
        counted: counted.clone(),
        every: spec.every(99),
        exclude_kernel,
        ..PROBE
    };
    let subject = Subject::Thread(std::process::id());
    let mut opened = PerfEvent::sampling(subject, cpu, &sampling);
    if opened.is_err() && spec.samples_cpu() {
        sampling.counted = Counted::CPU_CLOCK;
        opened = PerfEvent::sampling(subject, cpu, &sampling);
    }
    opened.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_small_ring_costs_depends_on_the_program() {
        let with = ring_finding(256 << 10, true);
        let without = ring_finding(256 << 10, false);
        for finding in [&with, &without] {
            assert_eq!(finding.verdict, Verdict::Limited);
            assert!(finding.detail.starts_with("only 256 KiB"), "{finding:?}");
        }
        assert!(without.detail.contains("8 KiB of each stack"));
        assert!(with.detail.contains("without frame pointers"));
        assert_eq!(ring_finding(1 << 20, true).verdict, Verdict::Good);
    }
}
