//! Running nodespy and other commands with a deadline, and keeping what they said.

use std::fmt;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
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
    stdout: Said,
    stderr: Said,
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
            stdout: Said::by(child.stdout.take().unwrap()),
            stderr: Said::by(child.stderr.take().unwrap()),
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

    /// Waits until standard error has these words: how long a program takes to start is not known.
    #[track_caller]
    pub(crate) fn wait_until_it_says(&self, words: &str) {
        self.wait_until(words, || self.stderr.so_far().contains(words));
    }

    /// Waits until standard output has these words.
    #[track_caller]
    pub(crate) fn wait_until_it_prints(&self, words: &str) {
        self.wait_until(words, || self.stdout.so_far().contains(words));
    }

    /// Waits until standard output has so many lines.
    #[track_caller]
    pub(crate) fn wait_for_lines(&self, count: usize) {
        let has_all = || self.stdout.so_far().matches('\n').count() >= count;
        self.wait_until("more lines", has_all);
    }

    #[track_caller]
    fn wait_until(&self, what: &str, is_there: impl Fn() -> bool) {
        let until = Instant::now() + DEADLINE;
        while !is_there() {
            let has_ended = self.stdout.is_over() && self.stderr.is_over();
            assert!(
                is_there() || !has_ended && Instant::now() < until,
                "no {what:?}\n--- stdout\n{}\n--- stderr\n{}",
                self.stdout.so_far(),
                self.stderr.so_far()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until it ends, which is to be soon: what a test waited for before does not count.
    pub(crate) fn finish(mut self) -> Outcome {
        let until = Instant::now() + DEADLINE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > until {
                let _ = self.child.kill();
                let _ = self.child.wait();
                panic!("still running after {DEADLINE:?}; killed");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let took = self.since.elapsed();
        Outcome {
            status,
            stdout: self.stdout.all(),
            stderr: self.stderr.all(),
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

/// What a command says, read while it runs.
struct Said {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Said {
    fn by(mut from: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut part = [0; 8192];
            while let Ok(length @ 1..) = from.read(&mut part) {
                shared.lock().unwrap().extend_from_slice(&part[..length]);
            }
        });
        Self {
            bytes,
            reader: Some(reader),
        }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    fn is_over(&self) -> bool {
        let reader = self.reader.as_ref();
        reader.is_none_or(JoinHandle::is_finished)
    }

    /// Everything, once nobody can say more.
    fn all(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.so_far()
    }
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
