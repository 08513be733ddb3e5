//! The Node processes of this machine.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use super::resident::Resident;
use super::{node_version, proc};
use crate::engines::{inspector, perf_events};
use crate::sys::files::open_regular;

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

/// A Node process.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeProcess {
    /// Who it is.
    pub resident: Resident,
    /// `v20.20.2`, when it could be read.
    pub node_version: Option<String>,
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
        .filter(|&pid| looks_like_node(pid))
        .collect();
    let usage = measure_cpu(&pids, window);
    let mut versions = HashMap::new();
    let mut found: Vec<NodeProcess> = pids
        .into_iter()
        .zip(usage)
        .filter_map(|(pid, cpu_percent)| inspect(pid, cpu_percent, &mut versions))
        .collect();
    found.sort_by(|one, other| {
        other
            .cpu_percent
            .total_cmp(&one.cpu_percent)
            .then(one.resident.pid.cmp(&other.resident.pid))
    });
    found
}

/// CPU each process uses during `window`: 100 is one core.
pub fn measure_cpu(pids: &[u32], window: Duration) -> Vec<f64> {
    let read = || -> Vec<u64> {
        pids.iter()
            .map(|&pid| crate::process_cpu_time(pid).unwrap_or(0))
            .collect()
    };
    let started = crate::monotonic_now();
    let before = read();
    std::thread::sleep(window);
    let after = read();
    let elapsed = crate::monotonic_now().saturating_sub(started).max(1);
    before
        .iter()
        .zip(after)
        .map(|(before, after)| after.saturating_sub(*before) as f64 * 100.0 / elapsed as f64)
        .collect()
}

/// Whether the program of a process is Node, by the file it runs. Where that may not be looked
/// at, its command line has to do: good enough to list it, never to attach to it.
pub fn looks_like_node(pid: u32) -> bool {
    match std::fs::read_link(proc::path_of(pid, "exe")) {
        Ok(path) => {
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            is_node_name(name.trim_end_matches(" (deleted)"))
        }
        Err(_) => proc::command_line(pid)
            .first()
            .and_then(|program| program.split(' ').next()?.rsplit('/').next())
            .is_some_and(is_node_name),
    }
}

/// `node`, `nodejs`, `node20`, `node-v20.1.0` and the like.
pub(super) fn is_node_name(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("node") else {
        return false;
    };
    let rest = rest.strip_prefix("js").unwrap_or(rest);
    let rest = rest.trim_start_matches(['-', '_']);
    let rest = rest.strip_prefix('v').unwrap_or(rest);
    rest.bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn inspect(
    pid: u32,
    cpu_percent: f64,
    versions: &mut HashMap<(u64, u64), Option<String>>,
) -> Option<NodeProcess> {
    let resident = Resident::of(pid)?;
    let node_version = open_regular(&proc::path_of(pid, "exe"))
        .ok()
        .and_then(|file| {
            let metadata = file.metadata().ok()?;
            versions
                .entry((metadata.dev(), metadata.ino()))
                .or_insert_with(|| node_version::node_version_of(file))
                .clone()
        });
    let way = match perf_events::probe_quickly(pid) {
        Ok(()) => Way::Perf,
        Err(_) if inspector::probe_quickly(pid) => Way::Inspector,
        Err(error) => Way::Refused {
            why: error.to_string(),
        },
    };
    Some(NodeProcess {
        node_version,
        user: proc::user_name(resident.uid),
        cpu_percent,
        way,
        resident,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_is_known_by_its_file_name() {
        for name in ["node", "nodejs", "node20", "node-v20.1.0", "node_18"] {
            assert!(is_node_name(name), "{name}");
        }
        for name in ["nodespy", "nodemon", "no", "deno", "node-gyp"] {
            assert!(!is_node_name(name), "{name}");
        }
    }
}
