//! The Node processes of this machine, and which engine can record each of them.

use std::time::Duration;

use nodespy_model::SmallSort;

use crate::engines::{inspector, perf_events};
use crate::target::{Program, Resident, looks_like_runtime, measure_cpu, proc, program};

/// How a process can be recorded from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// With perf events: everything.
    Perf,
    /// Through V8's inspector: JavaScript only.
    Inspector,
    /// Not at all.
    Refused {
        /// Why, and what to type.
        why: String,
    },
}

impl Way {
    /// The engine's name on the command line; none when there is no way.
    pub fn engine(&self) -> Option<&'static str> {
        match self {
            Self::Perf => Some("perf"),
            Self::Inspector => Some("inspector"),
            Self::Refused { .. } => None,
        }
    }
}

/// A Node process, or one of a runtime like it.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeProcess {
    /// Who it is.
    pub resident: Resident,
    /// What runs its JavaScript, when that could be read.
    pub program: Option<Program>,
    /// Who runs it.
    pub user: String,
    /// CPU it uses now: 100 is one core.
    pub cpu_percent: f64,
    /// How it can be recorded from here.
    pub way: Way,
}

/// The Node processes of this machine, busiest first. Takes `window` to measure their CPU.
pub fn list_node_processes(window: Duration) -> Vec<NodeProcess> {
    let pids: Vec<u32> = proc::processes()
        .into_iter()
        .filter(|&pid| looks_like_runtime(pid))
        .collect();
    let usage = measure_cpu(&pids, window);
    let mut found: Vec<NodeProcess> = pids
        .into_iter()
        .zip(usage)
        .filter_map(|(pid, cpu_percent)| inspect(pid, cpu_percent))
        .collect();
    found.small_sort_by(|one, other| {
        other
            .cpu_percent
            .total_cmp(&one.cpu_percent)
            .then(one.resident.pid.cmp(&other.resident.pid))
    });
    found
}

fn inspect(pid: u32, cpu_percent: f64) -> Option<NodeProcess> {
    let resident = Resident::of(pid)?;
    let way = match perf_events::probe_quickly(pid) {
        Ok(()) => Way::Perf,
        Err(_) if inspector::probe_quickly(pid) => Way::Inspector,
        Err(error) => Way::Refused {
            why: error.to_string(),
        },
    };
    Some(NodeProcess {
        program: program(pid),
        user: proc::user_name(resident.uid),
        cpu_percent,
        way,
        resident,
    })
}
