//! `nodespy ci`: a command recorded several times and compared with an earlier state of it.

mod load;
mod rounds;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use nodespy_analysis::{Basis, Work};
use nodespy_capture::catch_interrupts;

use super::diff::{EVERY_REGRESSION, Outputs, options};
use crate::cli::CiArgs;
use crate::output;

pub(crate) use load::{Address, parse_address};
use rounds::{Rounds, runs_in};

/// The file of a base that says how many requests each of its runs answered.
const REQUESTS_FILE: &str = "requests";

pub(crate) fn run(arguments: &CiArgs) -> anyhow::Result<ExitCode> {
    let outputs = Outputs::check(&arguments.comparing)?;
    if let Some(folder) = &arguments.save {
        return save(folder, arguments);
    }
    let scratch = tempfile::tempdir().context("making a folder for the recordings")?;
    let rounds = rounds_in(scratch.path(), arguments);
    let (before, after) = match (&arguments.base, &arguments.base_cmd) {
        (Some(base), _) => (saved_runs(base)?, rounds.of_one()?),
        (None, Some(command)) => rounds.of_two(command)?,
        (None, None) => unreachable!("clap asks for one of the three"),
    };
    let limits = match arguments.comparing.fail_on.as_slice() {
        [] => &EVERY_REGRESSION[..],
        limits => limits,
    };
    let mut options = options(&arguments.comparing);
    if arguments.url.is_some() && options.work.is_none() && options.basis.is_none() {
        (options.work, options.basis) = work_of(arguments)?;
    }
    outputs.compare([&before, &after], &arguments.comparing, &options, limits)
}

/// The work that runs did which were recorded while a server answered requests.
fn work_of(arguments: &CiArgs) -> anyhow::Result<(Option<Work>, Option<Basis>)> {
    // A command that makes the requests does the same each time, whatever that is.
    if arguments.load.is_some() && arguments.requests.is_none() {
        return Ok((None, Some(Basis::Run)));
    }
    let now = arguments.requests();
    let then = match &arguments.base {
        Some(base) => requests_of(base)?.unwrap_or(now),
        None => now,
    };
    let work = Work::Known {
        name: "requests".to_owned(),
        before: then as f64,
        after: now as f64,
    };
    Ok((Some(work), Some(Basis::Work)))
}

fn requests_of(base: &Path) -> anyhow::Result<Option<u64>> {
    let file = base.join(REQUESTS_FILE);
    match std::fs::read_to_string(&file) {
        Ok(text) => match text.trim().parse() {
            Ok(requests) if requests > 0 => Ok(Some(requests)),
            _ => bail!("{} is not a number of requests", file.display()),
        },
        Err(_) => Ok(None),
    }
}

/// Records into a folder. From now on signals end what was started, and the folder goes with its owner.
fn rounds_in<'a>(folder: &'a Path, arguments: &'a CiArgs) -> Rounds<'a> {
    Rounds {
        arguments,
        folder,
        interrupts: catch_interrupts(),
    }
}

/// Records the runs that later ones are compared with.
fn save(folder: &Path, arguments: &CiArgs) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    // Beside what is there until all of them are taken: a failing command leaves the old base alone.
    let scratch = tempfile::tempdir_in(folder)
        .with_context(|| format!("writing into {}", folder.display()))?;
    let new = rounds_in(scratch.path(), arguments).of_one()?;
    for old in runs_in(folder)? {
        std::fs::remove_file(&old).with_context(|| format!("removing {}", old.display()))?;
    }
    for run in &new {
        let name = run.file_name().unwrap_or_default();
        std::fs::rename(run, folder.join(name))
            .with_context(|| format!("writing into {}", folder.display()))?;
    }
    let requests = folder.join(REQUESTS_FILE);
    let is_counted =
        arguments.url.is_some() && (arguments.load.is_none() || arguments.requests.is_some());
    match is_counted {
        true => std::fs::write(&requests, format!("{}\n", arguments.requests()))
            .with_context(|| format!("writing {}", requests.display()))?,
        false => drop(std::fs::remove_file(&requests)),
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
