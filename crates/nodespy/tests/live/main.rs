//! Live tests: each records a real Node process and asks whether the profile is true.
//!
//! They assert shares, ratios and orders, never times: the machines are noisy. One lock, held across
//! threads and processes, keeps two of them from running at once, whichever runner is used.
//! Where recording is not possible they skip, and the end of the run says why; `NODESPY_REQUIRE_LIVE=1`
//! turns the skip into a failure. `versions` has the two tiers they run in.

#![allow(
    clippy::print_stderr,
    reason = "a test that skips says so, and a recording that surprises is shown"
)]

mod action;
mod adaptive;
mod agent;
mod agent_inspector;
mod agent_rights;
mod async_callers;
#[path = "../support/at_exit.rs"]
mod at_exit;
mod bad_days;
mod certainty;
mod ci;
mod control_group;
mod coverage;
mod cpu_wide;
mod dump;
mod ebpf;
mod errors;
mod event_loops;
mod events;
mod findings;
mod flight;
mod gc_pauses;
mod inspector;
mod inspector_abandoned;
mod inspector_matrix;
mod inspector_ways;
mod joining;
mod journal;
mod json;
mod lasting;
mod launch;
mod lines;
mod manners;
mod matrix;
mod max_overhead;
mod mcp;
mod names;
mod npm;
mod odd_targets;
mod off_cpu_exact;
mod on_port;
mod outputs;
#[path = "../support/own_status.rs"]
mod own_status;
mod owner;
mod pending;
mod perf_agrees;
mod pools;
mod privileges;
mod processes;
mod pushing;
mod recorded;
mod requests;
mod routes;
#[path = "../support/run.rs"]
mod run;
mod scheduling;
#[path = "../support/scratch.rs"]
mod scratch;
mod sending;
#[allow(dead_code, reason = "`tests/it` uses the rest")]
#[path = "../support/serving.rs"]
mod serving;
mod shares;
#[path = "../support/skip.rs"]
mod skip;
mod source_maps;
mod stacks;
mod stalls;
mod stores;
mod targets;
mod threads;
mod top;
mod truth;
mod usdt;
mod versions;
mod waits;
mod walk_and_map;
mod wasm;
#[allow(dead_code, reason = "`tests/it` uses the rest")]
#[path = "../support/webdriver.rs"]
mod webdriver;
mod workload;

use std::fs::File;
use std::io::{self, Write};
use std::panic;
use std::path::Path;
use std::sync::Once;
use std::time::Instant;

/// Held by a live test as long as it runs.
pub(crate) struct Live {
    _lock: File,
    since: Instant,
}

/// Notes how long the test ran, for the list that `tools/test.sh` ends with.
impl Drop for Live {
    fn drop(&mut self) {
        let test = std::thread::current();
        let line = format!(
            "{:.1}\t{}\n",
            self.since.elapsed().as_secs_f64(),
            test.name().unwrap_or("?")
        );
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("seconds");
        let file = File::options().create(true).append(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

/// The right to record, or nothing when the test is to be skipped.
pub(crate) fn live() -> Option<Live> {
    say_failures_at_once();
    if let Some(missing) = what_is_missing() {
        skip::skip(&missing);
        return None;
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live.lock");
    let lock = File::create(path).unwrap();
    lock.lock().unwrap();
    Some(Live {
        _lock: lock,
        since: Instant::now(),
    })
}

/// A failure also says why where it happens in the log, not only at its end, hundreds of tests later:
/// the end is what gets lost when a log is cut.
fn say_failures_at_once() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // Not `eprintln!`, which the test harness keeps until the end.
            let _ = writeln!(io::stderr(), "{info}");
            usual(info);
        }));
    });
}

/// Why nothing can be recorded here, as a clause.
fn what_is_missing() -> Option<String> {
    let paranoid = match std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid") {
        Ok(text) => text.trim().parse::<i32>().unwrap_or(2),
        Err(_) => return Some("this kernel has no perf events".to_owned()),
    };
    if paranoid > 2 && !is_root() {
        return Some(format!(
            "perf_event_paranoid is {paranoid} and the tests do not run as root"
        ));
    }
    workload::node("20")
        .err()
        .map(|error| format!("there is no Node to record: {error}"))
}

/// Whether the tests run as root.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
