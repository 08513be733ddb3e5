//! `nodespy ci`: a command recorded several times and compared with an earlier state of it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

use super::diff::{EVERY_REGRESSION, Outputs};
use crate::cli::CiArgs;
use crate::output;

pub(crate) fn run(arguments: &CiArgs) -> anyhow::Result<ExitCode> {
    let outputs = Outputs::check(&arguments.comparing)?;
    if let Some(folder) = &arguments.save {
        return save(folder, arguments);
    }
    let scratch = tempfile::tempdir().context("making a folder for the recordings")?;
    let rounds = Rounds {
        arguments,
        folder: scratch.path(),
    };
    let (before, after) = match (&arguments.base, &arguments.base_cmd) {
        (Some(base), _) => (saved_runs(base)?, rounds.of_one()?),
        (None, Some(command)) => rounds.of_two(command)?,
        (None, None) => unreachable!("clap asks for one of the three"),
    };
    let limits = match arguments.comparing.fail_on.as_slice() {
        [] => &EVERY_REGRESSION[..],
        limits => limits,
    };
    outputs.compare(&before, &after, &arguments.comparing, limits)
}

/// Records the runs that later ones are compared with.
fn save(folder: &Path, arguments: &CiArgs) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    // Beside what is there until all of them are taken: a failing command leaves the old base alone.
    let scratch = tempfile::tempdir_in(folder)
        .with_context(|| format!("writing into {}", folder.display()))?;
    let new = Rounds {
        arguments,
        folder: scratch.path(),
    }
    .of_one()?;
    for old in runs_in(folder)? {
        std::fs::remove_file(&old).with_context(|| format!("removing {}", old.display()))?;
    }
    for run in &new {
        let name = run.file_name().unwrap_or_default();
        std::fs::rename(run, folder.join(name))
            .with_context(|| format!("writing into {}", folder.display()))?;
    }
    output::note(&format!(
        "Saved {} runs in {}.",
        new.len(),
        folder.display()
    ));
    Ok(ExitCode::SUCCESS)
}

fn saved_runs(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let runs = runs_in(folder)?;
    if runs.is_empty() {
        bail!(
            "{} holds no recordings; make them with: nodespy ci --save {} -- COMMAND",
            folder.display(),
            folder.display()
        );
    }
    Ok(runs)
}

fn runs_in(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
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
    runs.sort();
    Ok(runs)
}

/// Recordings of whole runs, one after the other.
struct Rounds<'a> {
    arguments: &'a CiArgs,
    folder: &'a Path,
}

impl Rounds<'_> {
    /// Runs of the command alone.
    fn of_one(&self) -> anyhow::Result<Vec<PathBuf>> {
        self.warm_up(&self.arguments.command)?;
        let rounds = 1..=self.arguments.rounds;
        rounds
            .map(|round| self.record("run", round, &self.arguments.command))
            .collect()
    }

    /// Runs of both commands in turns, A B B A: drift of the machine is in both alike.
    fn of_two(&self, base: &str) -> anyhow::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
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
        let run = self.record("warm-up", 0, command)?;
        std::fs::remove_file(&run).with_context(|| format!("removing {}", run.display()))
    }

    /// One run, in a process of its own, so that no run meets what another left behind.
    fn record(&self, name: &str, round: u32, command: &[OsString]) -> anyhow::Result<PathBuf> {
        let file = self.folder.join(format!("{name}-{round:03}.nspy"));
        let nodespy = std::env::current_exe().context("finding nodespy itself")?;
        output::note(&format!("{name} {round} of {}", self.arguments.rounds));
        let mut recording = Command::new(nodespy);
        recording
            .arg("record")
            .arg("-F")
            .arg(self.arguments.rate.to_string());
        recording.arg("-o").arg(&file).arg("--").args(command);
        let outcome = recording.output().context("recording a run")?;
        if !outcome.status.success() {
            let said = String::from_utf8_lossy(&outcome.stderr);
            let last: Vec<&str> = said.lines().rev().take(5).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            bail!("{name} {round} could not be recorded: {}", last.join(" · "));
        }
        Ok(file)
    }
}
