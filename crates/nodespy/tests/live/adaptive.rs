//! The adaptive rate of `nodespy agent`: does the CPU time that it stores stay what the kernel counts?

use std::fs;
use std::process::Command;
use std::time::Duration;

use nodespy_model::ThreadRole;
use nodespy_store::{CPU_EVENT, OpenMode, Selection, SqliteStore, Store, WINDOW_SECONDS};

use super::agent::{FOREVER, file, wait_for};
use super::certainty::effective;
use super::live;
use super::workload::{Running, USUAL_NODE, node};
use crate::run::{Started, nodespy, signal};
use crate::scratch::Scratch;

/// Samples a second as usual, each of which counts for so many of the fast rate.
const USUAL_HZ: f64 = 19.0;
const TIMES: u64 = 5;
/// A process is watched for half a minute before it is judged.
const WATCHED: Duration = Duration::from_secs(45);
/// Less than what the fast rate lasts at least.
const FAST: Duration = Duration::from_secs(15);

/// A service that uses a third of a CPU, and all of one after SIGUSR2.
fn start(service: &str) -> Running {
    let folder = Scratch::new();
    let package = format!("{{\"name\":\"{service}\",\"version\":\"1.0.0\"}}");
    fs::write(folder.path().join("package.json"), package).unwrap();
    let script = "let pause = 80; process.on('SIGUSR2', () => { pause = 0; });\n\
         function work() { const end = Date.now() + 40; let sum = 0;\n\
         while (Date.now() < end) for (let i = 0; i < 1e4; i++) sum += Math.sqrt(i);\n\
         setTimeout(work, pause); return sum; }\n\
         work(); console.log('ready');\n\
         setTimeout(() => process.exit(), 300000);";
    let path = folder.path().join("app.js");
    fs::write(&path, script).unwrap();
    let mut command = Command::new(node(USUAL_NODE).unwrap());
    command.arg(path);
    Running::in_folder(command, folder)
}

/// Seconds that the kernel says the main thread ran.
fn on_cpu(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat")).unwrap();
    let nanoseconds: u64 = text.split_whitespace().next().unwrap().parse().unwrap();
    nanoseconds as f64 / 1e9
}

/// What all windows of a service say of its main thread, in seconds.
fn stored(store: &SqliteStore, service: &str) -> f64 {
    let spans = store.labels(FOREVER).unwrap();
    let own = spans.iter().filter(|span| span.service == service);
    let first = own.clone().map(|span| span.first).min().unwrap();
    let last = own.map(|span| span.last).max().unwrap();
    let selection = Selection::new(service, CPU_EVENT, first..last + WINDOW_SECONDS);
    let selection = selection.on(ThreadRole::Main);
    let series = store.series(&selection, WINDOW_SECONDS, &[]).unwrap();
    series.series[0].weights.iter().sum::<u64>() as f64 / 1e9
}

mod matrix {
    use super::*;

    /// Samples of both rates add up: those of the usual one would be a fifth of it otherwise, or those of the fast one five times.
    #[test]
    fn a_process_that_turns_hot_has_the_cpu_time_that_the_kernel_counts() {
        let Some(_live) = live() else { return };
        let scratch = Scratch::new();
        let store = scratch.path().join("store");
        let service = format!("turns-hot-{}", std::process::id());
        let program = start(&service);
        let pid = program.pid();
        let agent = Started::new(nodespy(&["agent", "--store", &scratch.file("store")]), "");
        agent.wait_until_it_says(&format!("msg=\"process joined\" pid={pid} "));
        let joined = on_cpu(pid);
        wait_for(&store, &service, "1.0.0");
        std::thread::sleep(WATCHED);
        signal(pid, "USR2");
        // It is hot, its event loop stalls, or another process of the machine is unusual: all are sampled faster.
        agent.wait_until_it_says("msg=rate hz=95.0 ");
        let hot = on_cpu(pid);
        std::thread::sleep(FAST);
        let ended = on_cpu(pid);
        agent.signal("TERM");
        let outcome = agent.finish();
        outcome.expect_code(0);

        let samples = |seconds: f64, times: u64| {
            let samples = seconds * USUAL_HZ * TIMES as f64 / times as f64;
            std::iter::repeat_n(times, samples as usize)
        };
        let (slow, fast) = (hot - joined, ended - hot);
        // Another process may have been unusual first, and its fast samples be over: then no more than the usual ones are certain.
        let own = format!(" pid={pid} ");
        let is_own = |line: &str| line.contains("msg=rate hz=95.0 ") && line.contains(&own);
        let fast_times = match outcome.stderr.lines().any(is_own) {
            true => 1,
            false => TIMES,
        };
        let samples = effective(samples(slow, TIMES).chain(samples(fast, fast_times)));
        let opened = SqliteStore::open(&file(&store), OpenMode::Read).unwrap();
        let ratio = stored(&opened, &service) / (ended - joined);
        // Moments before and after what the kernel was asked for, and what so many samples can't tell.
        let most = 0.03 + 4.5 / samples.sqrt();
        assert!(
            (ratio - 1.0).abs() < most,
            "{ratio} of {slow} s and {fast} s, at most {most} off\n{outcome}"
        );
        drop(program);
    }
}
