//! `nodespy ci`: a command recorded several times and compared with an earlier state of it.

mod load;
mod rounds;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use nodespy_analysis::{Basis, Work};
use nodespy_capture::{Interrupts, catch_interrupts};

use super::diff::{EVERY_REGRESSION, Outputs, options};
use crate::cli::CiArgs;
use crate::confine::Confinement;
use crate::output;

pub(crate) use load::{Address, parse_address};
use rounds::{Rounds, runs_in};

/// The file of a base that says how many requests each of its runs answered.
const REQUESTS_FILE: &str = "requests";
/// More bytes than a number has.
const MAX_REQUESTS_BYTES: u64 = 64;
/// How often it is checked whether a comparison is to end, and what nodespy exits with then.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(50);
const INTERRUPTED: i32 = 130;

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
    // What was recorded here was made by a program, and a base may come from anywhere.
    Confinement::reading(before.iter().chain(&after), &arguments.comparing.read)
        .writing(outputs.folders())
        .removing_folder(scratch.path())
        .apply();
    end_when_asked(rounds.interrupts, scratch.path().to_owned());
    outputs.compare([&before, &after], &arguments.comparing, &options, limits)
}

/// Ends a comparison when the user wants that, which counts and does not wait for anything. The recordings go with it.
fn end_when_asked(interrupts: Interrupts, recordings: PathBuf) {
    std::thread::spawn(move || {
        while !interrupts.is_stop_requested() {
            std::thread::sleep(INTERRUPT_INTERVAL);
        }
        drop(std::fs::remove_dir_all(recordings));
        std::process::exit(INTERRUPTED);
    });
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
    let is_file = std::fs::metadata(&file).is_ok_and(|found| found.is_file());
    let Some(opened) = is_file.then(|| File::open(&file).ok()).flatten() else {
        return Ok(None);
    };
    let mut text = String::new();
    let read = opened.take(MAX_REQUESTS_BYTES).read_to_string(&mut text);
    match (read, text.trim().parse()) {
        (Ok(_), Ok(requests)) if requests > 0 => Ok(Some(requests)),
        _ => bail!("{} is not a number of requests", file.display()),
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
        true => write_requests(&requests, scratch.path(), arguments.requests())
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

/// A base may come from a checkout of others: a link that lies there is replaced, not followed.
fn write_requests(file: &Path, scratch: &Path, requests: u64) -> std::io::Result<()> {
    let new = scratch.join(REQUESTS_FILE);
    std::fs::write(&new, format!("{requests}\n"))?;
    std::fs::rename(new, file)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_a_base_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = tempfile::tempdir_in(folder.path()).unwrap();
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "kept").unwrap();
        let file = folder.path().join(REQUESTS_FILE);
        std::os::unix::fs::symlink(&victim, &file).unwrap();
        write_requests(&file, scratch.path(), 5000).unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
        assert_eq!(requests_of(folder.path()).unwrap(), Some(5000));
    }

    #[test]
    fn what_a_base_says_of_requests_is_a_number_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(requests_of(folder.path()).unwrap(), None);
        let file = folder.path().join(REQUESTS_FILE);
        for text in ["", "0", "-1", "many", &" ".repeat(1000)] {
            std::fs::write(&file, text).unwrap();
            assert!(requests_of(folder.path()).is_err(), "{text:?}");
        }
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert_eq!(requests_of(folder.path()).unwrap(), None);
    }
}
