//! `--off-cpu-exact`: is every wait counted, with its length and the system call it is in?

use std::path::Path;

use nodespy_model::{ExactWaits, Profile, ThreadRole};

use super::errors::{node_as_nobody, run_as_nobody};
use super::recorded::{Recorded, read, record};
use super::versions::{on_every_node, on_three_nodes};
use super::workload::{Running, Workload};
use super::{is_root, live};
use crate::scratch::Scratch;
use crate::skip::skip;

fn of_main(profile: &Profile) -> &[ExactWaits] {
    let mut threads = profile.threads.iter();
    let main = threads.find(|thread| thread.role == ThreadRole::Main);
    &main.unwrap().exact_waits
}

fn sum(waits: &[ExactWaits], is_meant: impl Fn(&str) -> bool) -> ExactWaits {
    let mut sum = ExactWaits::default();
    for of_kind in waits.iter().filter(|it| is_meant(&it.what)) {
        sum.count += of_kind.count;
        sum.total += of_kind.total;
        sum.longest = sum.longest.max(of_kind.longest);
    }
    sum
}

/// All the time that the main thread was off the CPU is there, by the kernel's own account.
#[track_caller]
fn expect_whole(recorded: &Recorded) {
    let waits = of_main(&recorded.profile);
    let mut threads = recorded.profile.threads.iter();
    let main = threads.find(|it| it.role == ThreadRole::Main).unwrap();
    let scheduling = main.scheduling.unwrap();
    let off = scheduling.watched.saturating_sub(scheduling.on_cpu) as f64;
    let seen = sum(waits, |_| true).total as f64;
    // What goes on at the end has no end yet, and at the start no start.
    assert!(
        (0.85..1.1).contains(&(seen / off)),
        "{seen} of {off}\n{waits:?}"
    );
    for of_kind in waits {
        assert_eq!(
            of_kind.count,
            of_kind.histogram.iter().sum::<u64>(),
            "{of_kind:?}"
        );
        assert!(of_kind.longest <= of_kind.total, "{of_kind:?}");
    }
}

/// In each 100 ms one wait of 40 in a lock, and one in poll.
fn expect_each_wait(major: &str) {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("tracepoints need root");
        return;
    }
    let target = Workload::new("waits.js").on(major).start();
    let recorded = record(&target, &["-d", "5", "--off-cpu-exact"]);
    expect_whole(&recorded);
    let waits = of_main(&recorded.profile);
    let mut locks = waits.iter().filter(|it| it.what == "futex");
    let locks = locks.next().unwrap_or_else(|| panic!("{waits:?}"));
    // A turn takes longer where the machine is busy.
    let long = sum(waits, |what| what.starts_with("epoll_")).count;
    let many: u64 = locks.histogram.iter().skip(15).sum();
    assert!(
        (10..=70).contains(&many),
        "{many} waits of 32 ms or more\n{waits:?}"
    );
    assert!(long >= many / 2, "{waits:?}");
    assert!(locks.longest >= 39_000_000, "{locks:?}");
    let said = &recorded.outcome.stdout;
    assert!(
        said.contains("off the CPU") && said.contains("futex"),
        "{said}"
    );
}

/// A child is waited for in poll of another loop, which has another descriptor.
fn expect_nested_loop(major: &str) {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("tracepoints need root");
        return;
    }
    let target = Workload::new("waits.js")
        .on(major)
        .env("WHAT", "exec")
        .start();
    let recorded = record(&target, &["-d", "4", "--off-cpu-exact", "-e", "wall"]);
    let waits = of_main(&recorded.profile);
    let longest = waits.iter().max_by_key(|it| it.longest).unwrap();
    assert!(longest.what.starts_with("epoll_"), "{waits:?}");
    assert!(longest.longest > 300_000_000, "{waits:?}");
}

on_three_nodes! {{
    every_wait_is_counted(expect_each_wait);
    a_nested_loop_is_told_from_the_main_one(expect_nested_loop);
}}

#[test]
fn the_owner_of_a_process_sees_how_often_and_how_long() {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root can become another user");
        return;
    }
    let mut command = node_as_nobody("20", "waits.js");
    command.env("WHAT", "atomics");
    let target = Running::new(command);
    let scratch = Scratch::for_other_users();
    let arguments = [
        "record",
        "-d",
        "3",
        "--off-cpu-exact",
        "-e",
        "wall",
        "-o",
        "exact.nspy",
    ];
    let mut all = arguments.to_vec();
    let pid = target.pid_text();
    all.extend(["-p", &pid]);
    let outcome = run_as_nobody(&scratch, &all);
    outcome.expect_code(0);
    assert!(
        outcome.stdout.contains("tracepoints need root"),
        "{outcome}"
    );
    let profile = read(Path::new(&scratch.file("exact.nspy")));
    let waits = of_main(&profile);
    let unknown = sum(waits, |what| what == "(not known)");
    assert!(
        unknown.count >= 5 && unknown.longest > 250_000_000,
        "{waits:?}"
    );
}
