//! Starting a program of `workloads/` and ending it, by its own pid, when the test is over.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use crate::run::DEADLINE;
use crate::scratch::Scratch;
use crate::skip::skip;

/// The version most tests run on: what Debian's users most often have.
pub(crate) const USUAL_NODE: &str = "20";

/// The flags with which Node itself writes the names of its JIT code, interpreted functions included.
pub(crate) const PERF_MAP_FLAGS: [&str; 2] =
    ["--perf-basic-prof", "--interpreted-frames-native-stack"];

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A program of `workloads/`.
pub(crate) fn script(name: &str) -> String {
    let path = root().join("workloads").join(name);
    let path = path
        .canonicalize()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path.to_str().unwrap().to_owned()
}

/// The binary of a major version, installed when it is missing.
pub(crate) fn node(major: &str) -> Result<String, String> {
    let installer = root().join("tools/node.sh");
    let output = Command::new(&installer)
        .arg(major)
        .output()
        .map_err(|error| format!("{}: {error}", installer.display()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// How to start a workload.
pub(crate) struct Workload {
    script: String,
    node: String,
    flags: Vec<&'static str>,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

impl Workload {
    /// A program of `workloads/`, on the usual Node and without any flag.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            script: script(name),
            node: USUAL_NODE.to_owned(),
            flags: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// On another major version.
    pub(crate) fn on(mut self, major: &str) -> Self {
        self.node = major.to_owned();
        self
    }

    /// With a flag of Node.
    pub(crate) fn flag(mut self, flag: &'static str) -> Self {
        self.flags.push(flag);
        self
    }

    /// With the packages of its folder, which are installed when they are missing.
    #[track_caller]
    pub(crate) fn with_packages(self, folder: &str) -> Self {
        let mut installer = Command::new(root().join("tools/packages.sh"));
        assert!(installer.arg(folder).status().unwrap().success());
        self
    }

    /// With the flags that make Node write its perf map.
    pub(crate) fn with_perf_map(mut self) -> Self {
        self.flags.extend(PERF_MAP_FLAGS);
        self
    }

    /// With an argument.
    pub(crate) fn argument(mut self, value: impl ToString) -> Self {
        self.arguments.push(value.to_string());
        self
    }

    /// With an environment variable.
    pub(crate) fn env(mut self, name: &'static str, value: impl ToString) -> Self {
        self.environment.push((name, value.to_string()));
        self
    }

    /// Starts it and waits until it is warmed up.
    #[track_caller]
    pub(crate) fn start(self) -> Running {
        let node = node(&self.node).unwrap();
        let mut command = Command::new(node);
        command
            .args(&self.flags)
            .arg(&self.script)
            .args(&self.arguments)
            .envs(self.environment);
        Running::new(command)
    }
}

/// A program that was started and is warmed up; killed when dropped.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    /// What stands after `ready` in its first line.
    pub(crate) ready: String,
    /// The folder it runs in, empty when it started.
    pub(crate) folder: Scratch,
}

impl Running {
    /// Starts a command in a folder of its own and waits for its `ready` line.
    #[track_caller]
    pub(crate) fn new(command: Command) -> Self {
        Self::in_folder(command, Scratch::new())
    }

    /// Starts a command in `folder` and waits for its `ready` line.
    #[track_caller]
    pub(crate) fn in_folder(mut command: Command, folder: Scratch) -> Self {
        let mut child = command
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut running = Self {
            child,
            lines,
            ready: String::new(),
            folder,
        };
        running.ready = running.line_after("ready");
        running
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its process as an argument.
    pub(crate) fn pid_text(&self) -> String {
        self.pid().to_string()
    }

    /// Waits for the line that starts with `word` and returns what follows the word.
    #[track_caller]
    pub(crate) fn line_after(&self, word: &str) -> String {
        self.line_within(word, DEADLINE)
    }

    /// The same of a line that a program prints after so much work that a busy machine needs longer for it.
    #[track_caller]
    pub(crate) fn line_within(&self, word: &str, limit: Duration) -> String {
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self
                .lines
                .recv_timeout(left)
                .unwrap_or_else(|_| panic!("the workload never printed {word:?}"));
            if let Some(rest) = line.strip_prefix(word) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Whether it is still there.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits until it ends, which must be with this status.
    #[track_caller]
    pub(crate) fn expect_status(&mut self, code: i32) {
        assert_eq!(self.ended().code(), Some(code));
    }

    /// Waits until it ends, which must be by this signal.
    #[track_caller]
    pub(crate) fn expect_signal(&mut self, signal: i32) {
        assert_eq!(self.ended().signal(), Some(signal));
    }

    #[track_caller]
    fn ended(&mut self) -> ExitStatus {
        let until = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "it never ended");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The value of a line of `/proc/PID/status`, such as `SigCgt`.
    pub(crate) fn status(&self, key: &str) -> String {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        text.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
            .unwrap_or_else(|| panic!("no {key} in the status of {}", self.pid()))
            .trim()
            .to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut pids = children_of(self.pid());
        pids.push(self.pid());
        let _ = self.child.kill();
        let _ = self.child.wait();
        pids.into_iter().for_each(forget_perf_map);
    }
}

/// Removes the perf map that Node leaves behind when it was started with the flags for it.
pub(crate) fn forget_perf_map(pid: u32) {
    let _ = fs::remove_file(format!("/tmp/perf-{pid}.map"));
}

/// The direct children of a process.
pub(crate) fn children_of(pid: u32) -> Vec<u32> {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) else {
        return Vec::new();
    };
    text.split_whitespace()
        .filter_map(|child| child.parse().ok())
        .collect()
}

/// A program of `programs/`, compiled; none where there is no compiler.
pub(crate) fn compiled(scratch: &Scratch, name: &str) -> Option<String> {
    compiled_as(scratch, name, name, &["-g", "-fomit-frame-pointer"])
}

/// An addon of `programs/`, compiled; none where there is no compiler.
pub(crate) fn compiled_addon(scratch: &Scratch, name: &str) -> Option<String> {
    let addon = format!("{name}.node");
    compiled_as(scratch, name, &addon, &["-shared", "-fPIC"])
}

fn compiled_as(scratch: &Scratch, name: &str, output: &str, flags: &[&str]) -> Option<String> {
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live/programs");
    let program = scratch.file(output);
    let mut compile = Command::new("cc");
    let source = format!("{programs}/{name}.c");
    compile
        .arg("-O1")
        .args(flags)
        .args(["-o", &program, &source]);
    match compile.status() {
        Ok(status) => {
            assert!(status.success(), "cc: {status}");
            Some(program)
        }
        Err(_) => {
            skip("there is no C compiler");
            None
        }
    }
}
