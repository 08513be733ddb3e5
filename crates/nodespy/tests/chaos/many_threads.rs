//! A dump of many threads with deep stacks takes no more memory than one of a few.

use std::process::Command;
use std::time::Duration;

use crate::run::{Started, nodespy};
use crate::scene::compiled;
use crate::scratch::Scratch;
use crate::workload::Running;
use crate::{is_root, lock, skip};

const THREADS: &str = "400";
const STACK_KIB: &str = "1024";
/// Some 50 MiB were seen; all stacks together are 400 MiB.
const MAX_MIB: u64 = 160;

#[test]
fn hundreds_of_deep_stacks_are_not_held_at_once() {
    if !is_root() {
        return skip::skip("chaos needs root");
    }
    let _lock = lock();
    let scratch = Scratch::new();
    let mut command = Command::new(compiled(&scratch, "threads.c", &["-pthread"]));
    command.args([THREADS, STACK_KIB]);
    let target = Running::new(command);
    let pid = target.pid_text();
    for extra in [&[][..], &["--nonblocking"]] {
        let words = [&["dump", "--any", "--json", "-p", &pid], extra].concat();
        let started = Started::new(nodespy(&words), "");
        let own = started.pid();
        // The most it had, read until it ends.
        let watcher = std::thread::spawn(move || {
            let mut most = 0;
            while let Some(now) = most_resident_mib(own) {
                most = now;
                std::thread::sleep(Duration::from_millis(2));
            }
            most
        });
        let outcome = started.finish();
        let most = watcher.join().unwrap();
        outcome.expect_code(0);
        let threads = outcome.stdout.matches("\"tid\"").count();
        assert!(threads > 400, "{threads} threads");
        assert!(most < MAX_MIB, "{extra:?}: {most} MiB");
    }
}

fn most_resident_mib(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024)
}
