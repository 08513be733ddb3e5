//! `nodespy regressions`: what got slower since a deployment.

use std::fmt::Write;
use std::process::ExitCode;

use nodespy_analysis::{FunctionCaller, Verdict};
use nodespy_capture::unix_now;
use nodespy_model::printable;
use nodespy_server::query::{Deployment, RegressionOptions, Slower, regressions, regressions_json};
use nodespy_store::OpenMode;

use super::agent::utc;
use super::store;
use crate::cli::RegressionsArgs;
use crate::output::{self, Stream};

const REGRESSION: u8 = 10;
const SUSPECTED: u8 = 11;
/// How many callers of a function are shown, the nearest first.
const MAX_CALLERS: usize = 4;

pub(crate) fn run(arguments: &RegressionsArgs) -> anyhow::Result<ExitCode> {
    let store = store::open(&arguments.store, &arguments.access, OpenMode::Read)?;
    let now = unix_now() / 1_000_000_000;
    let time = now.saturating_sub(arguments.since.as_secs())..now;
    let options = RegressionOptions {
        warm_up: arguments.warm_up.as_secs(),
        min_length: arguments.min_length.as_secs(),
        ..RegressionOptions::default()
    };
    let found = regressions(&store, arguments.service.as_deref(), time, &options)?;
    let text = match arguments.json {
        true => format!("{:#}\n", regressions_json(&found)),
        false => text(&found),
    };
    output::result(&text, Stream::Standard);
    let changes = found.iter().flat_map(|deployment| &deployment.slower);
    let verdicts: Vec<Verdict> = changes.map(|slower| slower.change.own.verdict).collect();
    Ok(match verdicts.iter().min() {
        Some(Verdict::Regression) => ExitCode::from(REGRESSION),
        Some(_) => ExitCode::from(SUSPECTED),
        None => ExitCode::SUCCESS,
    })
}

fn text(deployments: &[Deployment]) -> String {
    if deployments.is_empty() {
        return "No deployment: no service has a new version in that time.\n".to_owned();
    }
    let mut text = String::new();
    for deployment in deployments {
        let [before, after] = deployment.instances;
        let together = match deployment.is_concurrent {
            true => "at the same time",
            false => "one after the other",
        };
        let _ = writeln!(
            text,
            "{} {} → {}, deployed {}: {before} and {after} instances, {together}",
            printable(&deployment.service),
            version(&deployment.before_version),
            version(&deployment.version),
            utc(deployment.first)
        );
        if let Some(request) = deployment.request {
            let _ = writeln!(text, "  {}", per_request(request.cpu_ns));
        }
        for slower in &deployment.slower {
            let _ = writeln!(text, "  {}", line(slower));
            let _ = writeln!(text, "    {}", seen(slower));
        }
        for slower in &deployment.gone {
            let _ = writeln!(text, "  gone again: {}", line(slower));
        }
        if let (true, Some(least)) = (deployment.slower.is_empty(), deployment.smallest_seen) {
            let _ = writeln!(
                text,
                "  no function is slower; the smallest change that could have been seen is {} (median)",
                percent(least)
            );
        }
        for remark in &deployment.remarks {
            let _ = writeln!(text, "  {}", printable(remark));
        }
    }
    text
}

fn line(slower: &Slower) -> String {
    let change = &slower.change;
    let interval = change.own.interval.map_or_else(String::new, |(low, high)| {
        format!(" [{}, {}]", percent(low), percent(high))
    });
    format!(
        "{}{interval}  {}  {}:{}  {}",
        percent(change.own.ratio),
        printable(&change.id.name),
        printable(&change.location.file),
        change.location.line,
        change.own.verdict.label()
    )
}

/// `through handleOrder ← onRequest, seen from 2026-11-18T10:00:00Z until 2026-11-18T11:00:00Z`.
fn seen(slower: &Slower) -> String {
    let name = |caller: &FunctionCaller| printable(&caller.id.name).into_owned();
    let callers = slower.change.callers.iter().take(MAX_CALLERS).map(name);
    let through = match callers.collect::<Vec<_>>().join(" ← ") {
        names if names.is_empty() => String::new(),
        names => format!("through {names}, "),
    };
    format!(
        "{through}seen from {} until {}",
        utc(slower.seen.start),
        utc(slower.seen.end)
    )
}

/// `CPU time per request: 12.30 ms before, 14.80 ms after, +20.3 %`.
fn per_request([before, after]: [u64; 2]) -> String {
    let milliseconds = |nanoseconds: u64| format!("{:.2} ms", nanoseconds as f64 / 1e6);
    format!(
        "CPU time per request: {} before, {} after, {}",
        milliseconds(before),
        milliseconds(after),
        percent(after as f64 / before.max(1) as f64)
    )
}

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", 100.0 * (ratio - 1.0))
}

fn version(name: &str) -> String {
    match name {
        "" => "(no version)".to_owned(),
        name => printable(name).into_owned(),
    }
}
