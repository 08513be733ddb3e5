//! Running nodespy and other commands with a deadline, and keeping what they said.

use std::fmt;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Far longer than anything here takes, even on a machine that is busy with something else.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);

/// What a command said and how it ended.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Outcome {
    /// Fails the test unless the command ended with `code`.
    #[track_caller]
    pub(crate) fn expect_code(&self, code: i32) -> &Self {
        assert_eq!(self.status.code(), Some(code), "{self}");
        self
    }

    /// Fails the test unless standard error has every one of `words`.
    #[track_caller]
    pub(crate) fn expect_stderr(&self, words: &[&str]) -> &Self {
        for word in words {
            assert!(self.stderr.contains(word), "no {word:?} in {self}");
        }
        self
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}, after {:?}\n--- stdout\n{}\n--- stderr\n{}",
            self.status, self.took, self.stdout, self.stderr
        )
    }
}

/// A command that is running. Killed, by its own pid, when dropped before it ends.
pub(crate) struct Started {
    child: Child,
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
    since: Instant,
}

impl Started {
    /// Starts a command with `input` as its standard input.
    pub(crate) fn new(mut command: Command, input: &str) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let mut stdin = child.stdin.take().unwrap();
        // A command that does not read closes the pipe, which is its good right.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        Self {
            stdout: read_all(child.stdout.take().unwrap()),
            stderr: read_all(child.stderr.take().unwrap()),
            child,
            since: Instant::now(),
        }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal by name, such as `INT`.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Waits until it ends.
    pub(crate) fn finish(mut self) -> Outcome {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if self.since.elapsed() > DEADLINE {
                let _ = self.child.kill();
                let _ = self.child.wait();
                panic!("still running after {DEADLINE:?}; killed");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let took = self.since.elapsed();
        let stdout = std::mem::replace(&mut self.stdout, std::thread::spawn(String::new));
        let stderr = std::mem::replace(&mut self.stderr, std::thread::spawn(String::new));
        Outcome {
            status,
            stdout: stdout.join().unwrap(),
            stderr: stderr.join().unwrap(),
            took,
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary under test, without colours and without the caller's settings, in a folder where files
/// that it names itself do no harm.
pub(crate) fn nodespy(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nodespy"));
    command
        .args(arguments)
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .env("NO_COLOR", "1")
        .env_remove("RUST_LOG");
    command
}

/// Runs nodespy to its end.
pub(crate) fn run_nodespy(arguments: &[&str]) -> Outcome {
    run(nodespy(arguments))
}

/// Runs a command to its end, with nothing to read.
pub(crate) fn run(command: Command) -> Outcome {
    Started::new(command, "").finish()
}

/// Sends a signal to one process.
pub(crate) fn signal(pid: u32, name: &str) {
    let status = kill(pid, name).status().unwrap();
    assert!(status.success(), "no signal {name} to {pid}");
}

/// Whether a status means that a signal ended the command.
pub(crate) fn ended_by_signal(outcome: &Outcome) -> bool {
    outcome.status.signal().is_some()
}

fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Sends a signal to one process, which may have ended meanwhile.
pub(crate) fn signal_if_alive(pid: u32, name: &str) {
    let _ = kill(pid, name).stderr(Stdio::null()).status();
}

/// The shell's own `kill`: the program of that name is not on every machine.
fn kill(pid: u32, name: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("kill -{name} {pid}")]);
    command
}
