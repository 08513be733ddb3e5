//! Days on which something goes wrong: the terminal closes, the disk is full, a target turns into a
//! zombie, a file is a trap. The recording is kept and the machine is not harmed.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::manners::cpu_ticks;
use super::recorded::read;
use super::workload::{Running, USUAL_NODE, Workload, node, script};
use super::{is_root, live};
use crate::run::{DEADLINE, Started, nodespy, run, signal};
use crate::scratch::Scratch;
use crate::skip::skip;

/// Long enough for nodespy to take samples, once it has attached.
const SOME_SAMPLES: Duration = Duration::from_millis(1500);

/// How many of the kernel's ticks are a second.
const TICKS_PER_SECOND: u64 = 100;

/// A user that no machine has.
const STRANGER: &str = "54321";

fn split() -> Running {
    Workload::new("split.js").start()
}

/// Starts a recording of `pids` without an end, in a folder; it records when this returns.
#[track_caller]
fn start_record(pids: &str, arguments: &[&str], folder: &Scratch) -> Started {
    let mut command = nodespy(&["record", "-p", pids]);
    command.args(arguments).current_dir(folder.path());
    let started = Started::new(command, "");
    started.wait_until_it_says("Recording ");
    started
}

#[test]
fn only_a_second_interrupt_discards_a_recording() {
    let Some(_live) = live() else { return };
    let target = split();
    // A closing terminal sends several hang-ups, a service manager a termination and a hang-up.
    for signals in [
        ["HUP", "HUP"],
        ["TERM", "HUP"],
        ["TERM", "TERM"],
        ["HUP", "INT"],
    ] {
        let scratch = Scratch::new();
        let started = start_record(&target.pid_text(), &["-o", "out.nspy"], &scratch);
        std::thread::sleep(SOME_SAMPLES);
        signals.iter().for_each(|name| started.signal(name));
        let outcome = started.finish();
        outcome.expect_code(0);
        let profile = read(&scratch.path().join("out.nspy"));
        assert!(!profile.samples.is_empty(), "{signals:?} {outcome}");
    }
    let scratch = Scratch::new();
    let mut command = nodespy(&["record", "-p", &target.pid_text(), "-o", "out.nspy"]);
    // Both arrive while nodespy waits.
    command
        .env("NODESPY_DELAY_MS", "6000")
        .current_dir(scratch.path());
    let started = Started::new(command, "");
    started.wait_until_it_says("Recording ");
    std::thread::sleep(SOME_SAMPLES);
    started.signal("INT");
    wait_until_delivered(started.pid());
    started.signal("INT");
    let outcome = started.finish();
    outcome.expect_code(130).expect_stderr(&["discarded"]);
    assert!(scratch.names().is_empty(), "{outcome}");
}

/// Waits until a process has taken every signal that was sent to it: two that are pending are one.
pub(super) fn wait_until_delivered(pid: u32) {
    let is_pending = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mut sets = status
            .lines()
            .filter_map(|line| line.strip_prefix("ShdPnd:"));
        sets.any(|set| set.trim().contains(|digit| digit != '0'))
    };
    while is_pending() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_terminal_that_closes_leaves_the_recording() {
    let Some(_live) = live() else { return };
    let target = split();
    let scratch = Scratch::new();
    let line = format!(
        "exec {} record -p {} -d 60 -o out.nspy",
        env!("CARGO_BIN_EXE_nodespy"),
        target.pid()
    );
    let terminal = Command::new("script")
        .args(["-qfc", &line, "/dev/null"])
        .current_dir(scratch.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut terminal = match terminal {
        Ok(terminal) => terminal,
        Err(error) => return skip(&format!("script can't be started ({error})")),
    };
    // Its journal is there when it records.
    let until = Instant::now() + DEADLINE;
    while !scratch.path().join("out.nspy.journal").exists() {
        assert!(Instant::now() < until, "it does not record");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(SOME_SAMPLES);
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    let since = Instant::now();
    while !scratch.path().join("out.nspy").exists() {
        assert!(since.elapsed() < DEADLINE, "nothing was written");
        std::thread::sleep(Duration::from_millis(50));
    }
    let profile = read(&scratch.path().join("out.nspy"));
    assert!(!profile.samples.is_empty());
}

#[test]
fn an_output_that_fails_takes_no_other_with_it() {
    let Some(_live) = live() else { return };
    let target = split();
    let scratch = Scratch::new();
    let mut command = nodespy(&["record", "-p", &target.pid_text(), "-d", "1"]);
    command
        .args(["--format", "nspy", "-o", "good.nspy", "-o", "/dev/full"])
        .args(["-o", "after.nspy"])
        .current_dir(scratch.path());
    let outcome = run(command);
    outcome.expect_code(1).expect_stderr(&[
        "Wrote good.nspy",
        "Wrote after.nspy",
        "writing /dev/full: ",
    ]);
    assert_eq!(scratch.names(), ["after.nspy", "good.nspy"], "{outcome}");
    for name in scratch.names() {
        assert!(!read(&scratch.path().join(name)).samples.is_empty());
    }
}

#[test]
fn names_that_nodespy_chooses_follow_no_link_and_are_private() {
    let Some(_live) = live() else { return };
    let target = split();
    let scratch = Scratch::new();
    let arguments = ["--format", "nspy", "-o", "/dev/full"];
    let started = start_record(&target.pid_text(), &arguments, &scratch);
    fs::write(scratch.file("secret"), "kept").unwrap();
    let rescued = format!("nodespy-rescued-{}", started.pid());
    symlink("secret", scratch.file(&format!("{rescued}.nspy"))).unwrap();
    std::thread::sleep(SOME_SAMPLES);
    started.signal("INT");
    let outcome = started.finish();
    outcome.expect_code(1).expect_stderr(&["/dev/full", "kept"]);
    assert_eq!(fs::read_to_string(scratch.file("secret")).unwrap(), "kept");
    let kept = scratch.path().join(format!("{rescued}-2.nspy"));
    assert!(!read(&kept).samples.is_empty(), "{outcome}");
    assert_eq!(mode_of(&kept), 0o600);

    let folder = Scratch::new();
    let mut command = nodespy(&["record", "-p", &target.pid_text(), "-d", "1"]);
    command.current_dir(folder.path());
    run(command).expect_code(0);
    let [page] = &folder.names()[..] else {
        panic!("{:?}", folder.names());
    };
    assert_eq!(mode_of(&folder.path().join(page)), 0o600);
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn a_page_recorded_with_sudo_belongs_to_its_caller() {
    let Some(_live) = live() else { return };
    if !is_root() {
        return skip("only root can give a file to another user");
    }
    let target = split();
    let scratch = Scratch::new();
    let mut command = nodespy(&["record", "-p", &target.pid_text(), "-d", "1"]);
    command
        .envs([("SUDO_UID", STRANGER), ("SUDO_GID", STRANGER)])
        .current_dir(scratch.path());
    run(command).expect_code(0);
    let [page] = &scratch.names()[..] else {
        panic!("{:?}", scratch.names());
    };
    let page = fs::metadata(scratch.path().join(page)).unwrap();
    assert_eq!((page.uid(), page.mode() & 0o777), (54321, 0o600));
}

#[test]
fn a_command_of_a_caller_without_an_account_does_not_run_as_root() {
    let Some(_live) = live() else { return };
    if !is_root() {
        return skip("only root can become another user");
    }
    let scratch = Scratch::for_other_users();
    let program = "id -u; id -G; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let launch = |gid: Option<&str>| {
        let mut command = nodespy(&["record", "-o", "out.nspy", "--", "sh", "-c", program]);
        command
            .env("SUDO_UID", STRANGER)
            .env_remove("SUDO_GID")
            .envs(gid.map(|gid| ("SUDO_GID", gid)))
            .current_dir(scratch.path());
        run(command)
    };
    let outcome = launch(Some(STRANGER));
    outcome.expect_code(0).expect_stderr(&["runs as 54321"]);
    let mut lines = outcome.stdout.lines();
    assert_eq!(lines.next(), Some(STRANGER), "{outcome}");
    assert_eq!(lines.next(), Some(STRANGER), "{outcome}");
    let outcome = launch(None);
    outcome
        .expect_code(1)
        .expect_stderr(&["SUDO_UID", "--keep-root"]);
    assert!(!outcome.stdout.contains('0'), "{outcome}");
}

#[test]
fn a_zombie_among_the_targets_costs_nothing() {
    let Some(_live) = live() else { return };
    let (ending, staying) = (split(), Workload::new("idle.js").start());
    let scratch = Scratch::new();
    let pids = format!("{},{}", ending.pid_text(), staying.pid_text());
    let started = start_record(&pids, &["-o", "out.nspy"], &scratch);
    std::thread::sleep(SOME_SAMPLES);
    // Its parent is this test, which does not wait for it yet.
    signal(ending.pid(), "KILL");
    let since = Instant::now();
    while !ending.status("State").starts_with('Z') {
        assert!(since.elapsed() < DEADLINE, "it did not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    // What was sampled before is still being named in the first of them.
    let used = [(); 3].map(|()| {
        let before = cpu_ticks(started.pid());
        std::thread::sleep(Duration::from_secs(1));
        cpu_ticks(started.pid()) - before
    });
    started.signal("INT");
    started.finish().expect_code(0);
    let least = used.iter().min().copied();
    assert!(
        least < Some(TICKS_PER_SECOND / 10),
        "{used:?} ticks in 1 s each"
    );
}

/// A FIFO that something waits to write to: the wait ends when anything opens it.
struct Trap(Child);

impl Trap {
    fn set(path: &str) -> Self {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        let mut writer = Command::new("sh");
        writer.args(["-c", "echo {} > \"$1\"", "sh", path]);
        Self(writer.stderr(Stdio::null()).spawn().unwrap())
    }

    fn has_sprung(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_fifo_in_the_folder_of_a_process_is_never_opened() {
    let Some(_live) = live() else { return };
    let folder = Scratch::new();
    fs::create_dir_all(folder.path().join("app/src")).unwrap();
    fs::create_dir_all(folder.path().join("app/.git")).unwrap();
    fs::write(folder.file("app/package.json"), r#"{"name":"trapped"}"#).unwrap();
    let copy = folder.file("app/src/split.js");
    fs::copy(script("split.js"), &copy).unwrap();
    let mut command = Command::new(node(USUAL_NODE).unwrap());
    command.arg(copy);
    let target = Running::in_folder(command, folder);
    // After the start, because Node itself reads the package.json of its script.
    let map = format!("/tmp/perf-{}.map", target.pid());
    let names = ["src/package.json", ".git/HEAD"];
    let paths = names.map(|name| target.folder.file(&format!("app/{name}")));
    let mut traps: Vec<(&str, Trap)> = paths
        .iter()
        .chain([&map])
        .map(|path| (path.as_str(), Trap::set(path)))
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    let scratch = Scratch::new();
    let listed = run(nodespy(&["--json"]));
    assert!(listed.stdout.contains("trapped"), "{listed}");
    let mut command = nodespy(&["record", "-p", &target.pid_text(), "-d", "1"]);
    command
        .args(["--embed-source", "-o", "out.nspy"])
        .current_dir(scratch.path());
    run(command).expect_code(0);
    let sprung = traps
        .iter_mut()
        .filter_map(|(path, trap)| trap.has_sprung().then_some(*path));
    let sprung: Vec<&str> = sprung.collect();
    assert!(sprung.is_empty(), "{sprung:?}");
}
