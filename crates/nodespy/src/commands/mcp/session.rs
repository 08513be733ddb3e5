//! What a client has recorded, and the commands that work on it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

/// How much of what a command prints is an answer: an assistant has to read it.
const MAX_ANSWER_BYTES: usize = 24 << 10;
/// How much of what went wrong.
const MAX_ERROR_BYTES: usize = 4 << 10;
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// What a recording takes beside its duration, and any other command at most.
pub(super) const GRACE: Duration = Duration::from_secs(60);

/// The recordings of one client; gone with it.
#[derive(Debug)]
pub(super) struct Session {
    folder: tempfile::TempDir,
    recordings: usize,
    /// Whether what reveals the machine and its users is left out.
    pub(super) is_redacted: bool,
}

/// What a command has said.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) is_error: bool,
}

impl Session {
    pub(super) fn new(is_redacted: bool) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("nodespy-mcp-").tempdir();
        Ok(Self {
            folder: folder.context("cannot make a folder for recordings")?,
            recordings: 0,
            is_redacted,
        })
    }

    /// A name and a file for one more recording.
    pub(super) fn next_recording(&mut self) -> (String, PathBuf) {
        self.recordings += 1;
        let name = format!("r{}", self.recordings);
        let file = self.folder.path().join(format!("{name}.nspy"));
        (name, file)
    }

    /// The file of a recording, by its name, or a file of the user's.
    pub(super) fn file(&self, name: &str) -> Option<PathBuf> {
        let own = name
            .strip_prefix('r')
            .filter(|number| number.parse().is_ok_and(|number: usize| number > 0));
        let file = match own {
            Some(_) => self.folder.path().join(format!("{name}.nspy")),
            None => PathBuf::from(name),
        };
        (file.is_file() && !name.starts_with('-')).then_some(file)
    }

    /// Runs a command of nodespy to its end, at most for this long.
    pub(super) fn run(&self, arguments: &[&str], timeout: Duration) -> anyhow::Result<Said> {
        let (printed, errors) = (
            self.folder.path().join("out"),
            self.folder.path().join("err"),
        );
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(arguments)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(File::create(&printed)?)
            .stderr(File::create(&errors)?);
        let status = wait(&mut command, timeout)?;
        let (text, errors) = (
            start_of(&printed, MAX_ANSWER_BYTES)?,
            start_of(&errors, MAX_ERROR_BYTES)?,
        );
        Ok(match status {
            Some(status) if status.success() => Said {
                text,
                is_error: false,
            },
            Some(status) => Said {
                text: format!("{}{text}\n(nodespy ended with {status})", errors),
                is_error: true,
            },
            None => Said {
                text: format!("still not done after {} s, and ended", timeout.as_secs()),
                is_error: true,
            },
        })
    }
}

/// Runs a command; none where it had to be ended.
fn wait(command: &mut Command, timeout: Duration) -> anyhow::Result<Option<ExitStatus>> {
    let mut child = command.spawn().context("cannot start nodespy")?;
    let deadline = Instant::now() + timeout;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// What a file starts with.
fn start_of(path: &Path, max_bytes: usize) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let limit = max_bytes as u64 + 1;
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    let is_cut = bytes.len() > max_bytes;
    bytes.truncate(max_bytes);
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if is_cut {
        text.push_str("\n(cut here: ask for less, with query)");
    }
    Ok(text)
}
