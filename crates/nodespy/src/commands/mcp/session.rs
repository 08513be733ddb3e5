//! What a client has recorded, and the commands that work on it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use nodespy_analysis::redact_paths;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::client::Call;
use super::processes;

/// How much of what a command prints is an answer: an assistant has to read it.
const MAX_ANSWER_BYTES: usize = 24 << 10;
/// How much of what went wrong.
const MAX_ERROR_BYTES: usize = 4 << 10;
/// A longer list of processes is not read.
const MAX_LIST_BYTES: usize = 4 << 20;
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// What a recording takes beside its duration, and any other command at most.
pub(super) const GRACE: Duration = Duration::from_secs(60);
/// How long a cancelled command has to close what it opened in a process.
const ENDING: Duration = Duration::from_secs(5);

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
    pub(super) fn run(
        &self,
        call: &mut Call,
        arguments: &[&str],
        timeout: Duration,
    ) -> anyhow::Result<Said> {
        let mut said = self.run_at_length(call, arguments, timeout, MAX_ANSWER_BYTES + 1)?;
        shorten(&mut said.text, MAX_ANSWER_BYTES);
        Ok(said)
    }

    /// The Node.js processes of this machine.
    pub(super) fn processes(&self, call: &mut Call) -> anyhow::Result<Said> {
        let list = ["list", "--json"];
        let mut said = self.run_at_length(call, &list, GRACE, MAX_LIST_BYTES)?;
        if self.is_redacted && !said.is_error {
            let list: Value = serde_json::from_str(&said.text).context("too many processes")?;
            said.text = format!("{:#}\n", processes::redacted(&list));
        }
        shorten(&mut said.text, MAX_ANSWER_BYTES);
        Ok(said)
    }

    fn run_at_length(
        &self,
        call: &mut Call,
        arguments: &[&str],
        timeout: Duration,
        max_bytes: usize,
    ) -> anyhow::Result<Said> {
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
        let status = wait(call, &mut command, timeout)?;
        let text = start_of(&printed, max_bytes)?;
        Ok(match status {
            Some(status) if status.success() => Said {
                text,
                is_error: false,
            },
            Some(status) => self.failed(&start_of(&errors, MAX_ERROR_BYTES)?, &text, status),
            None => Said {
                text: format!("not done after {} s, and stopped", timeout.as_secs()),
                is_error: true,
            },
        })
    }

    /// Why a command failed. Its messages name files, ours among them.
    fn failed(&self, errors: &str, text: &str, status: ExitStatus) -> Said {
        let text = format!("{errors}{text}\n(nodespy ended with {status})");
        Said {
            text: match self.is_redacted {
                true => redact_paths(&text),
                false => text,
            },
            is_error: true,
        }
    }
}

/// Runs a command; none where it had to be ended.
fn wait(
    call: &mut Call,
    command: &mut Command,
    timeout: Duration,
) -> anyhow::Result<Option<ExitStatus>> {
    let mut child = command.spawn().context("cannot start nodespy")?;
    let start = Instant::now();
    while start.elapsed() < timeout {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if !call.goes_on(start.elapsed()) {
            break;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    end(&mut child)?;
    Ok(None)
}

/// Ends a command as Ctrl-C would, or for good where it does not.
fn end(child: &mut Child) -> anyhow::Result<()> {
    // It may have ended meanwhile.
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    let deadline = Instant::now() + ENDING;
    while Instant::now() < deadline {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// What a file starts with.
fn start_of(path: &Path, max_bytes: usize) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(max_bytes as u64)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Cuts an answer that is too long.
fn shorten(text: &mut String, max_bytes: usize) {
    if text.len() > max_bytes {
        let is_boundary = |end: &usize| text.is_char_boundary(*end);
        let end = (0..=max_bytes).rev().find(is_boundary).unwrap_or(0);
        text.truncate(end);
        text.push_str("\n(cut here: ask for less, with query)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_too_long_is_cut_between_letters_and_says_so() {
        let mut text = "é".repeat(MAX_ANSWER_BYTES);
        shorten(&mut text, MAX_ANSWER_BYTES + 1);
        let (kept, remark) = text.split_once('\n').unwrap();
        assert_eq!(kept.len(), MAX_ANSWER_BYTES);
        assert!(kept.chars().all(|letter| letter == 'é'));
        assert!(remark.contains("ask for less"), "{remark}");
        let mut short = "as it is".to_owned();
        shorten(&mut short, MAX_ANSWER_BYTES);
        assert_eq!(short, "as it is");
    }
}
