//! Time off the CPU: is it told what threads wait for, under which function, and does it add up?

use std::process::Command;

use nodespy_analysis::{ThreadTime, thread_times};
use nodespy_model::{Sample, ThreadRole, WeightUnit, label_key, state};

use super::errors::{node_as_nobody, record_as_nobody};
use super::recorded::{Recorded, read, record, share};
use super::versions::{on_every_node, on_three_nodes};
use super::workload::{Running, Workload, compiled_addon, node, script};
use super::{is_root, live};
use crate::run::nodespy;
use crate::scratch::Scratch;
use crate::skip::skip;

fn main_time(recorded: &Recorded) -> ThreadTime {
    let times = thread_times(&recorded.profile);
    let is_main =
        |time: &&ThreadTime| recorded.profile.threads[time.thread.at()].role == ThreadRole::Main;
    times.iter().find(is_main).unwrap().clone()
}

/// Whether a sample was taken while its thread waited for this.
fn waits_for(recorded: &Recorded, sample: &Sample, kind: &str) -> bool {
    let labels = recorded.profile.contexts.get(sample.context);
    labels.get(label_key::STATE) == Some(state::WAITING)
        && labels.get(label_key::WAIT) == Some(kind)
}

/// How far the sum of a thread's times, or one of them, may be off, in parts of the time that was recorded.
const OFF_AT_MOST: f64 = 0.02;

/// Every thread of the program, all of which are there all the time, has all of the time; those of its children have no
/// more.
#[track_caller]
fn expect_whole(recorded: &Recorded) {
    let profile = &recorded.profile;
    let elapsed = profile.about.duration as f64;
    let program = profile.threads[main_time(recorded).thread.at()].process;
    let times = thread_times(profile);
    assert!(times.len() > 5, "{times:?}");
    for time in times {
        let sum = time.total() as f64 / elapsed;
        let is_of_program = profile.threads[time.thread.at()].process == program;
        let least = if is_of_program {
            1.0 - OFF_AT_MOST
        } else {
            0.0
        };
        assert!((least..1.0 + OFF_AT_MOST).contains(&sum), "{sum}\n{time:?}");
    }
}

/// The main thread waits for `kind` nearly all the time, under `function`, and is not idle.
fn expect_wait(what: &str, kind: &str, function: &str, major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("waits.js")
        .on(major)
        .env("WHAT", what)
        .start();
    expect_wait_of(&target, kind, function);
}

#[track_caller]
fn expect_wait_of(target: &Running, kind: &str, function: &str) {
    let recorded = record(target, &["-d", "4", "-e", "wall"]);
    expect_waits_in(&recorded, kind, function);
}

#[track_caller]
fn expect_waits_in(recorded: &Recorded, kind: &str, function: &str) {
    expect_whole(recorded);
    let event = recorded.profile.event();
    assert_eq!(
        (&*event.name, event.unit),
        ("wall", WeightUnit::Nanoseconds)
    );
    let main = main_time(recorded);
    let of_kind = main.waits.iter().find(|(name, _)| name == kind);
    let waited = share(of_kind.map_or(0, |(_, time)| *time), main.total());
    // On a busy machine it has to wait for a CPU too, and so has a child that is started.
    let least = 0.85 - 2.0 * share(main.runnable, main.total());
    assert!(
        waited > least.max(0.3),
        "{waited}\n{main:?}\n{}",
        recorded.describe()
    );
    assert!(share(main.idle, main.total()) < 0.1, "{main:?}");
    let under = recorded.total_share_in(function, |sample| {
        waits_for(recorded, sample, kind) && recorded.thread_of(sample).role == ThreadRole::Main
    });
    assert!(under > 0.95, "{under}\n{}", recorded.describe());
    let said = &recorded.outcome.stdout;
    assert!(said.contains("Where the time went"), "{said}");
    assert!(
        said.contains("The main thread waits") && said.contains(function),
        "{said}"
    );
}

/// Memory that comes from a slow store is waited for in no system call.
fn expect_page_faults(major: &str) {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let Some(addon) = compiled_addon(&scratch, "slow_page") else {
        return;
    };
    let target = Workload::new("waits.js")
        .on(major)
        .env("WHAT", "page")
        .env("ADDON", addon)
        .start();
    expect_wait_of(&target, "page fault", "readMapped");
}

/// Of every 100 ms the main thread runs 30, waits 40 and idles; on a machine with other work it may
/// have to wait for a CPU as well.
fn expect_mix(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("waits.js").on(major).start();
    let recorded = record(&target, &["-d", "8", "-e", "wall"]);
    expect_whole(&recorded);
    let main = main_time(&recorded);
    let part = |time: u64| share(time, main.total());
    let scheduling = recorded.profile.threads[main.thread.at()]
        .scheduling
        .unwrap();
    let by_kernel = scheduling.on_cpu_share();
    assert!(
        (part(main.on_cpu) - by_kernel).abs() < OFF_AT_MOST,
        "{main:?} {by_kernel}"
    );
    let without_cpu = scheduling.run_delay_share();
    let without = part(main.runnable) - without_cpu;
    assert!(without.abs() < OFF_AT_MOST, "{main:?} {scheduling:?}");
    let running = part(main.on_cpu + main.runnable);
    let (waiting, idle) = (part(main.waiting()), part(main.idle));
    let told = format!("{running} {waiting} {idle} {main:?} {scheduling:?}");
    // Where it has to wait for a CPU as well, turns take longer and there is less time to idle in.
    if without_cpu < 0.05 {
        assert!((0.25..0.45).contains(&running), "{told}");
        assert!((0.33..0.46).contains(&waiting), "{told}");
        assert!(idle > 0.12, "{told}");
    } else {
        assert!(running < 0.45 + 2.0 * without_cpu, "{told}");
        assert!((0.1..0.46).contains(&waiting) && idle > 0.0, "{told}");
    }
    assert_eq!(main.waits[0].0, "Atomics.wait", "{main:?}");
}

on_three_nodes! {{
    a_wait_in_atomics_is_booked_to_who_waits(|major| expect_wait("atomics", "Atomics.wait", "waitForLock", major));
    a_wait_for_a_child_is_not_idle(|major| expect_wait("exec", "child process", "runChild", major));
    a_wait_for_a_file_is_booked_to_who_opens_it(|major| expect_wait("file", "file", "openPipe", major));
    a_wait_for_a_slow_page_is_booked_to_who_reads_it(expect_page_faults);
    running_waiting_and_idle_add_up(expect_mix);
    a_thread_without_a_cpu_is_runnable(expect_runnable);
    the_owner_of_a_process_needs_no_right_to_see_it_wait(expect_owner_sees);
}}

/// Two programs that never wait share one CPU: the time without it is the kernel's own figure, and said.
fn expect_runnable(major: &str) {
    let Some(_live) = live() else { return };
    let pinned = |command: &[&str]| {
        let mut pinned = Command::new("taskset");
        pinned.args(["-c", "0"]).args(command);
        pinned
    };
    let other = pinned(&["sh", "-c", "echo ready; while :; do :; done"]);
    let _other = Running::new(other);
    let (node, script) = (node(major).unwrap(), script("waits.js"));
    let mut command = pinned(&[&node, &script]);
    command.env("WHAT", "spin");
    let target = Running::new(command);
    let recorded = record(&target, &["-d", "4", "-e", "wall"]);
    expect_whole(&recorded);
    let main = main_time(&recorded);
    let part = |time: u64| share(time, main.total());
    let scheduling = recorded.profile.threads[main.thread.at()].scheduling;
    let by_kernel = scheduling.unwrap().run_delay_share();
    assert!(
        (part(main.runnable) - by_kernel).abs() < OFF_AT_MOST,
        "{main:?}"
    );
    assert!(part(main.runnable) > 0.25, "{main:?}");
    assert!(part(main.on_cpu + main.runnable) > 0.9, "{main:?}");
    let said = &recorded.outcome.stdout;
    assert!(said.contains("runnable"), "{said}");
}

#[test]
fn time_off_the_cpu_stands_beside_cpu_time_and_has_none_of_it() {
    let Some(_live) = live() else { return };
    let target = Workload::new("waits.js").env("WHAT", "mix").start();
    let recorded = record(&target, &["-d", "4", "-e", "cpu,off-cpu"]);
    let names: Vec<&str> = recorded.profile.events.iter().map(|it| &*it.name).collect();
    assert!(names.contains(&"off-cpu") && names.len() == 2, "{names:?}");
    let event = nodespy_model::EventType::find(&recorded.profile.events, "off-cpu").unwrap();
    let off_cpu = Recorded {
        profile: recorded.profile.clone().select(event),
        outcome: recorded.outcome.clone(),
    };
    let main = main_time(&off_cpu);
    assert_eq!(main.on_cpu, 0, "{main:?}");
    assert!(main.waiting() > main.idle / 2 && main.idle > 0, "{main:?}");
    let cpu = recorded
        .profile
        .clone()
        .select(nodespy_model::EventIndex(0));
    assert_eq!(cpu.unit(), WeightUnit::Samples);
}

#[test]
fn time_off_the_cpu_is_recorded_alone_and_of_a_command_from_its_start() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let output = scratch.file("out.nspy");
    let (node, script) = (node("20").unwrap(), script("waits.js"));
    let arguments = [
        "record", "-e", "off-cpu", "-o", &output, "--", &node, &script,
    ];
    let mut command = nodespy(&arguments);
    command.env("WHAT", "atomics").env("MS", "2000");
    command.current_dir(scratch.path());
    let outcome = crate::run::run(command);
    outcome.expect_code(0);
    let recorded = Recorded {
        profile: read(std::path::Path::new(&output)),
        outcome,
    };
    let main = main_time(&recorded);
    let waited = share(main.waiting(), main.total());
    assert!(waited > 0.7, "{waited} {main:?}\n{}", recorded.describe());
    assert_eq!(main.waits[0].0, "Atomics.wait", "{main:?}");
}

/// The owner, without any right, is told the same of every kind of wait.
fn expect_owner_sees(major: &str) {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root can become another user");
        return;
    }
    let scratch = Scratch::for_other_users();
    let addon = compiled_addon(&scratch, "slow_page");
    for (what, kind, function) in [
        ("atomics", "Atomics.wait", "waitForLock"),
        ("exec", "child process", "runChild"),
        ("file", "file", "openPipe"),
        ("page", "page fault", "readMapped"),
    ] {
        let mut command = node_as_nobody(major, "waits.js");
        command.env("WHAT", what);
        match &addon {
            Some(addon) => command.env("ADDON", addon),
            None if what == "page" => continue,
            None => &mut command,
        };
        let target = Running::in_folder(command, Scratch::for_other_users());
        let recorded = record_as_nobody(&scratch, &target, &["-d", "3", "-e", "wall"]);
        expect_waits_in(&recorded, kind, function);
    }
}
