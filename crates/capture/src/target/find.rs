//! Which processes are Node.

use std::time::Duration;

use super::proc;

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
    is_called(pid, is_node_name)
}

/// The same for anything that runs JavaScript.
pub fn looks_like_runtime(pid: u32) -> bool {
    is_called(pid, is_runtime_name)
}

/// Whether the name of its program is of some kind.
fn is_called(pid: u32, is_name: impl Fn(&str) -> bool) -> bool {
    match proc::exe(pid) {
        Some(path) => {
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            is_name(name.trim_end_matches(" (deleted)"))
        }
        None => proc::command_line(pid)
            .first()
            .and_then(|program| program.split(' ').next()?.rsplit('/').next())
            .is_some_and(is_name),
    }
}

/// Names of Node and of what is like it. Bun's npm package calls it `bun.exe` on every system.
fn is_runtime_name(name: &str) -> bool {
    let name = name.strip_suffix(".exe").unwrap_or(name);
    is_node_name(name) || ["bun", "bunx", "deno", "electron"].contains(&name)
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
        for name in ["node", "bun", "bun.exe", "deno", "electron"] {
            assert!(is_runtime_name(name), "{name}");
        }
        assert!(!is_runtime_name("denounce"));
    }
}
