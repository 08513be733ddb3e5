//! The arguments of `nodespy diff` and `nodespy ci`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use nodespy_analysis::Work;

use super::{By, ReadArgs, ShowArgs};
use crate::commands::ci::{Address, parse_address};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy diff before.nspy after.nspy
  nodespy diff base/*.nspy -- new/*.nspy -o diff.html -o diff.md
  nodespy diff base/*.nspy -- new/*.nspy --fail-on 'total +5%' --fail-on 'function +3%'
  nodespy diff base/*.nspy -- new/*.nspy --by route   cost by HTTP route
  nodespy diff --self-check base/*.nspy           measure the rate of false alarms

A verdict takes at least 3 runs per side, better 5, recorded alternately on one machine.
Exit codes: 10 for a regression that matches --fail-on, 11 for a suspected one with --strict.")]
pub(crate) struct DiffArgs {
    /// Recordings of any format: one before and one after, or all of those before, then `--`
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The recordings after the change; same as a bare `--`
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) after: Vec<PathBuf>,
    /// Split the recordings at random, 200 times, and print how often the halves are found to differ
    #[arg(long, conflicts_with_all = ["after", "output", "fail_on"])]
    pub(crate) self_check: bool,
    #[command(flatten)]
    pub(crate) comparing: ComparingArgs,
}

/// How two sets of runs are compared and what comes out, the same for `diff` and `ci`.
#[derive(Debug, Args)]
pub(crate) struct ComparingArgs {
    /// Also write the comparison: .html (the page, with both sides), .svg, .md, .json, .txt; may be repeated
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Vec<PathBuf>,
    /// The format to print
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = DiffFormat::Text)]
    pub(crate) format: DiffFormat,
    /// Exit with 10 on a regression of at least this much: 'total +5%', 'function +3%'; may be repeated
    #[arg(long, value_name = "WHAT +N%", value_parser = parse_fail_on)]
    pub(crate) fail_on: Vec<FailOn>,
    /// Exit with 11 if such a regression is likely but not certain
    #[arg(long)]
    pub(crate) strict: bool,
    /// The smallest change that matters
    #[arg(long, value_name = "N%", default_value = "2%", value_parser = parse_percent)]
    pub(crate) min_change: f64,
    /// The work done by each run, before and after if they differ: requests=5000, requests=5000,6000
    #[arg(long, value_name = "NAME=N[,N]", value_parser = parse_work)]
    pub(crate) per: Option<Work>,
    /// Count each value of this label of the samples as a unit of work: --per-label request
    #[arg(long, value_name = "LABEL", conflicts_with = "per")]
    pub(crate) per_label: Option<String>,
    /// What to compare: functions, or HTTP routes (.md, .json and .txt only)
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = By::Function)]
    pub(crate) by: By,
    /// Compare shares of CPU time, for runs that did different amounts of work [default: for recordings
    /// of processes that kept running]
    #[arg(long, conflicts_with_all = ["per", "per_label"])]
    pub(crate) share: bool,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

impl ComparingArgs {
    /// The work that costs are divided by.
    pub(crate) fn work(&self) -> Option<Work> {
        let label = || self.per_label.clone().map(Work::Label);
        self.per.clone().or_else(label)
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy ci --save .nodespy/main -- npm run bench     save a baseline
  nodespy ci --base .nodespy/main -- npm run bench     compare with it; exit code 10: slower
  nodespy ci --base-cmd 'node ../main/bench.js' -o diff.md -- node bench.js
  nodespy ci --base .nodespy/main --url http://localhost:3000/x --requests 5000 -- node server.js

The first run is a warm-up and not counted. With --url the command is a server: once it listens, it
is warmed up with a fifth of --requests, then recorded while it answers them, and costs are per
request. With --base-cmd the two commands alternate (ABBA), so that drift of the machine affects
both equally; a saved baseline can't guarantee that. Without --fail-on every regression fails.")]
pub(crate) struct CiArgs {
    /// A baseline written by --save, to compare with
    #[arg(long, value_name = "FOLDER", conflicts_with = "save")]
    pub(crate) base: Option<PathBuf>,
    /// The shell command to compare with; the two alternate
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["base", "save"])]
    pub(crate) base_cmd: Option<String>,
    /// Save the runs as a baseline in this folder, replacing an older one
    #[arg(long, value_name = "FOLDER", required_unless_present_any = ["base", "base_cmd"])]
    pub(crate) save: Option<PathBuf>,
    /// How many runs to record, after the warm-up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Samples per second and thread
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 999, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: u32,
    /// The command is a server: record it while it answers requests for this URL (http:// only)
    #[arg(long, value_name = "URL", value_parser = parse_address, help_heading = "Servers")]
    pub(crate) url: Option<Address>,
    /// Requests per run [default: 5000]
    #[arg(long, value_name = "N", requires = "url", value_parser = clap::value_parser!(u64).range(1..=100_000_000), help_heading = "Servers")]
    pub(crate) requests: Option<u64>,
    /// Concurrent connections, each with one request at a time
    #[arg(long, value_name = "N", default_value_t = 8, requires = "url", value_parser = clap::value_parser!(u64).range(1..=1000), help_heading = "Servers")]
    pub(crate) connections: u64,
    /// Generate the load with this shell command, run once to warm up and once to record
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "url",
        conflicts_with = "connections",
        help_heading = "Servers"
    )]
    pub(crate) load: Option<String>,
    /// The command to record
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) comparing: ComparingArgs,
}

impl CiArgs {
    /// How many requests a run of a server answers.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.unwrap_or(5000)
    }
}

/// The arguments of the command line with `--after` for the bare `--` of `nodespy diff`, behind which clap takes
/// nothing for an option.
pub(crate) fn with_after(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    let is_diff = arguments
        .iter()
        .skip(1)
        .find(|word| !word.to_string_lossy().starts_with('-'))
        .is_some_and(|word| word == "diff");
    if is_diff && let Some(separator) = arguments.iter_mut().find(|word| *word == "--") {
        *separator = "--after".into();
    }
    arguments
}

/// How a comparison is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DiffFormat {
    Text,
    Md,
    Json,
}

/// A regression that ends nodespy with a code of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FailOn {
    /// Whether the whole run is meant, else any function.
    pub(crate) is_total: bool,
    /// The change, 0.05 for 5 %.
    pub(crate) change: f64,
}

fn parse_fail_on(text: &str) -> Result<FailOn, String> {
    let wanted = "'total +5%' or 'function +3%'";
    let (what, change) = text
        .split_once('+')
        .ok_or_else(|| format!("expected {wanted}"))?;
    let is_total = match what.trim() {
        "total" => true,
        "function" => false,
        other => {
            return Err(format!(
                "there is no {other:?} to fail on: expected {wanted}"
            ));
        }
    };
    Ok(FailOn {
        is_total,
        change: parse_percent(change)?,
    })
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim();
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=10_000.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(format!("{text:?} is not a percentage such as 5%")),
    }
}

fn parse_work(text: &str) -> Result<Work, String> {
    let parsed = text.split_once('=').and_then(|(name, amounts)| {
        let (before, after) = amounts.split_once(',').unwrap_or((amounts, amounts));
        let amount = |text: &str| {
            text.parse::<f64>()
                .ok()
                .filter(|amount| amount.is_normal() && *amount > 0.0)
        };
        Some(Work::Known {
            name: name.to_owned(),
            before: amount(before)?,
            after: amount(after)?,
        })
    });
    parsed
        .filter(|work| !work.name().is_empty())
        .ok_or_else(|| format!("{text:?} is not work such as requests=5000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_a_thing_and_a_percentage() {
        assert_eq!(
            parse_fail_on("total +5%"),
            Ok(FailOn {
                is_total: true,
                change: 0.05
            })
        );
        assert_eq!(
            parse_fail_on("function+2.5 %"),
            Ok(FailOn {
                is_total: false,
                change: 0.025
            })
        );
        for bad in [
            "",
            "total",
            "total 5%",
            "package +3%",
            "total +x%",
            "total +-1%",
        ] {
            assert!(parse_fail_on(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bare_separator_begins_the_later_side_of_diff_alone() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let after = |line: &str| with_after(words(line).into_iter());
        assert_eq!(
            after("nodespy -v diff a -- b --strict"),
            words("nodespy -v diff a --after b --strict")
        );
        assert_eq!(
            after("nodespy record -- node diff"),
            words("nodespy record -- node diff")
        );
    }

    #[test]
    fn work_has_a_name_and_one_amount_or_two() {
        let known = |name: &str, before: f64, after: f64| {
            Ok(Work::Known {
                name: name.to_owned(),
                before,
                after,
            })
        };
        assert_eq!(
            parse_work("requests=100,250"),
            known("requests", 100.0, 250.0)
        );
        assert_eq!(parse_work("items=7"), known("items", 7.0, 7.0));
        for bad in [
            "100",
            "=100",
            "requests=",
            "requests=0",
            "requests=1,x",
            "requests=inf",
        ] {
            assert!(parse_work(bad).is_err(), "{bad}");
        }
    }
}
