//! Recordings of a command, one after the other, each by a nodespy of its own, so that no run meets what another left
//! behind.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nodespy_capture::target::run_as_sudo_caller;
use nodespy_capture::{CommandGroup, Interrupts};
use nodespy_model::SmallSort;

use super::load;
use crate::cli::CiArgs;
use crate::failure::Failure;
use crate::output;

const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long a server may take until it listens, and nodespy until it records.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a command may take to end once it was asked to.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// So many requests for each one that warms up, and at least so many of those.
const REQUESTS_PER_WARM_UP: u64 = 5;
const MIN_WARM_UP_REQUESTS: u64 = 100;
/// The round before the first.
const WARM_UP: u32 = 0;
/// How much is read of what a program said.
const MAX_SAID_BYTES: u64 = 16 << 10;

/// What is recorded, and where the recordings lie.
pub(super) struct Rounds<'a> {
    pub(super) arguments: &'a CiArgs,
    pub(super) folder: &'a Path,
    pub(super) interrupts: Interrupts,
}

impl Rounds<'_> {
    /// Runs of the command alone.
    pub(super) fn of_one(&self) -> anyhow::Result<Vec<PathBuf>> {
        self.warm_up(&self.arguments.command)?;
        let rounds = 1..=self.arguments.rounds;
        rounds
            .map(|round| self.record("run", round, &self.arguments.command))
            .collect()
    }

    /// Runs of both commands in turns, A B B A: drift of the machine is in both alike.
    pub(super) fn of_two(&self, base: &str) -> anyhow::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
        let base = ["/bin/sh", "-c", base].map(OsString::from);
        self.warm_up(&base)?;
        self.warm_up(&self.arguments.command)?;
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for round in 1..=self.arguments.rounds {
            let mut take_before = || {
                self.record("base", round, &base)
                    .map(|run| before.push(run))
            };
            let mut take_after = || {
                self.record("run", round, &self.arguments.command)
                    .map(|run| after.push(run))
            };
            if round % 2 == 1 {
                take_before()?;
                take_after()?;
            } else {
                take_after()?;
                take_before()?;
            }
        }
        Ok((before, after))
    }

    fn warm_up(&self, command: &[OsString]) -> anyhow::Result<()> {
        let run = self.record("warm-up", WARM_UP, command)?;
        std::fs::remove_file(&run).with_context(|| format!("removing {}", run.display()))
    }

    fn record(&self, name: &str, round: u32, command: &[OsString]) -> anyhow::Result<PathBuf> {
        let file = self.folder.join(format!("{name}-{round:03}.nspy"));
        output::note(&match round {
            WARM_UP => name.to_owned(),
            _ => format!("{name} {round} of {}", self.arguments.rounds),
        });
        let done = match &self.arguments.url {
            Some(address) => self.record_server(&file, address, command),
            None => self.record_whole(&file, command),
        };
        done.with_context(|| match round {
            WARM_UP => format!("the {name} could not be recorded"),
            _ => format!("{name} {round} could not be recorded"),
        })?;
        Ok(file)
    }

    /// A command from its start to its end.
    fn record_whole(&self, file: &Path, command: &[OsString]) -> anyhow::Result<()> {
        let mut what = vec![OsString::from("--")];
        what.extend_from_slice(command);
        let mut recorder = self.recorder(file, &what)?;
        let status = self.ended(&mut recorder.group)?;
        recorder.check(status)
    }

    /// A server while it answers a fixed number of requests, once it is warm.
    fn record_server(
        &self,
        file: &Path,
        address: &load::Address,
        command: &[OsString],
    ) -> anyhow::Result<()> {
        let (program, rest) = command.split_first().context("there is no command")?;
        if address.connect().is_ok() {
            bail!("something listens on port {} already", address.port);
        }
        let mut server = command_of_user(program)?;
        server.args(rest).stdin(Stdio::null()).stdout(Stdio::null());
        let said = self.folder.join("server.txt");
        server.stderr(File::create(&said).context("making a file for the server's words")?);
        let program = program.to_string_lossy();
        let mut server =
            CommandGroup::start(&mut server).with_context(|| format!("starting {program}"))?;
        self.wait_until("the server to listen", &mut server, &said, || {
            address.connect().is_ok()
        })?;
        let requests = self.arguments.requests();
        let warming = (requests / REQUESTS_PER_WARM_UP).max(MIN_WARM_UP_REQUESTS);
        self.load(address, warming)?;
        let port = ["--port".into(), OsString::from(address.port.to_string())];
        let mut recorder = self.recorder(file, &port)?;
        let announced = recorder.said.clone();
        self.wait_until(
            "recording to start",
            &mut recorder.group,
            &announced,
            || std::fs::read_to_string(&announced).is_ok_and(|said| said.contains("Recording ")),
        )?;
        self.load(address, requests)?;
        recorder.group.interrupt()?;
        let status = self.ended(&mut recorder.group)?;
        recorder.check(status)?;
        Ok(server.end(END_TIMEOUT)?)
    }

    /// Has the server answer requests: ours, or those of a command.
    fn load(&self, address: &load::Address, requests: u64) -> anyhow::Result<()> {
        let Some(command) = &self.arguments.load else {
            let connections = self.arguments.connections;
            return load::send(address, requests, connections, self.interrupts);
        };
        let mut shell = command_of_user("/bin/sh")?;
        shell.arg("-c").arg(command);
        shell.stdin(Stdio::null()).stdout(Stdio::null());
        let mut group =
            CommandGroup::start(&mut shell).context("starting the command of --load")?;
        let status = self.ended(&mut group)?;
        match status.success() {
            true => Ok(()),
            false => bail!("the command of --load ended with {status}"),
        }
    }

    /// A nodespy that records `what` into a file.
    fn recorder(&self, file: &Path, what: &[OsString]) -> anyhow::Result<Recorder> {
        let nodespy = std::env::current_exe().context("finding nodespy itself")?;
        let said = self.folder.join("nodespy.txt");
        let mut command = Command::new(nodespy);
        command.arg("record").arg("-F");
        command.arg(self.arguments.rate.to_string());
        command.arg("-o").arg(file).args(what);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&said).context("making a file for messages")?);
        let group = CommandGroup::start(&mut command).context("starting nodespy itself")?;
        Ok(Recorder { group, said })
    }

    /// Waits for the end of a command; a signal ends the command first.
    fn ended(&self, group: &mut CommandGroup) -> anyhow::Result<ExitStatus> {
        loop {
            if let Some(status) = group.try_status()? {
                return Ok(status);
            }
            if self.interrupts.is_stop_requested() {
                group.end(END_TIMEOUT)?;
                bail!(Failure::Discarded);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn wait_until(
        &self,
        what: &str,
        group: &mut CommandGroup,
        said: &Path,
        is_done: impl Fn() -> bool,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while !is_done() {
            if self.interrupts.is_stop_requested() {
                bail!(Failure::Discarded);
            }
            if let Some(status) = group.try_status()? {
                bail!(
                    "waited for {what}, and it ended with {status}: {}",
                    last_lines(said)
                );
            }
            if Instant::now() >= deadline {
                bail!("waited {} s for {what}", START_TIMEOUT.as_secs());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

/// A command of the user, who is not root where nodespy was started through sudo.
fn command_of_user(program: impl AsRef<OsStr>) -> anyhow::Result<Command> {
    let mut command = Command::new(program);
    run_as_sudo_caller(&mut command)?;
    Ok(command)
}

/// A nodespy that records.
struct Recorder {
    group: CommandGroup,
    /// What it said on standard error.
    said: PathBuf,
}

impl Recorder {
    fn check(&self, status: ExitStatus) -> anyhow::Result<()> {
        match status.success() {
            true => Ok(()),
            false => bail!("{}", last_lines(&self.said)),
        }
    }
}

fn last_lines(file: &Path) -> String {
    let said = end_of(file).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let mut last: Vec<&str> = said.lines().rev().take(5).collect();
    last.reverse();
    last.join(" · ")
}

/// The end of a file: a server may say a lot before it fails.
fn end_of(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(file)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_SAID_BYTES)))?;
    let mut said = Vec::new();
    file.take(MAX_SAID_BYTES).read_to_end(&mut said)?;
    Ok(said)
}

/// The recordings in a folder, in the order of their names.
pub(super) fn runs_in(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut runs = Vec::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("reading {}", folder.display()))?
            .path();
        if path.extension() == Some(OsStr::new("nspy")) {
            runs.push(path);
        }
    }
    runs.small_sort();
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_what_a_program_said_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("said");
        std::fs::write(&file, "noise\n".repeat(100_000) + "why\n").unwrap();
        assert!(last_lines(&file).ends_with(" · why"));
        assert_eq!(end_of(&file).unwrap().len() as u64, MAX_SAID_BYTES);
        assert_eq!(last_lines(&folder.path().join("nothing")), "");
    }
}
