//! `nodespy top`: where the CPU time goes, live.
//!
//! One thread captures and names a slice of samples every second; this one adds the slices up and
//! draws them, on a screen of its own in a terminal, else as plain lines.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use nodespy_capture::target::{Program, Target, app_name, program};
use nodespy_capture::{Children, Interrupts, catch_interrupts_but_hangup};
use nodespy_model::{JsRuntime, label_key, printable};
use nodespy_symbolize::StoreOptions;

use crate::cli::{TopArgs, TopBy};
use crate::failure::Failure;
use crate::privileges::{self, Extra};
use crate::targets;
use capture::{Capture, Request, Update};

mod capture;
mod lines;
mod recent;
mod screen;
mod sources;
mod state;
mod table;
mod terminal;
mod totals;

/// What is watched, in words.
struct Subject {
    title: String,
    rate_hz: u32,
    /// How long to go on; until the user quits when absent.
    duration: Option<Duration>,
    /// What rows are.
    by: TopBy,
    /// What takes the samples, in a few words.
    engine: &'static str,
    remarks: Vec<String>,
}

pub(crate) fn run(arguments: &TopArgs) -> anyhow::Result<ExitCode> {
    let stores = store_options(arguments)?;
    check_rows(arguments)?;
    privileges::keep_for_processes(Extra::default());
    let targets = targets::hold(&arguments.target, arguments.no_subprocesses)?;
    let title = title_of(&targets);
    // Without its terminal there is nothing to draw on.
    let interrupts = catch_interrupts_but_hangup();
    let file_stem = file_stem(&targets);
    let capture = capture::start(Request {
        wanted: arguments.target.wanted(),
        targets,
        rate_hz: arguments.rate,
        children: match arguments.no_subprocesses {
            true => Children::LeftOut,
            false => Children::Followed,
        },
        maps_sources: !arguments.no_source_maps,
        by: arguments.by.clone(),
        route: arguments.route.clone(),
        reads_async: arguments.reads_async,
        no_async: arguments.no_async,
        no_routes: arguments.no_routes,
        max_overhead: arguments.max_overhead,
        stores,
        file_stem,
    });
    // Whether attaching works is reported before the screen is taken.
    let (engine, remarks) = match capture.updates.recv()? {
        Update::Started { engine, remarks } => (engine, remarks),
        Update::Failed(error) => return Err(error),
        Update::Slice(_) | Update::Noted(_) | Update::Recorded(_) | Update::Ended => {
            ("", Vec::new())
        }
    };
    let subject = Subject {
        title,
        rate_hz: arguments.rate,
        duration: arguments.duration,
        by: arguments.by.clone(),
        engine,
        remarks,
    };
    show(arguments.lines, &subject, &capture, interrupts)?;
    Ok(ExitCode::SUCCESS)
}

/// Rows of routes need them.
fn check_rows(arguments: &TopArgs) -> Result<(), Failure> {
    match arguments.no_routes && arguments.by == TopBy::Route {
        true => Err(Failure::Usage(
            "--by route needs routes: leave out --no-routes".to_owned(),
        )),
        false => Ok(()),
    }
}

/// What is read of stores: also what rows are asked for by.
fn store_options(arguments: &TopArgs) -> Result<StoreOptions, Failure> {
    let mut options = arguments.stores.options();
    let TopBy::Label(key) = &arguments.by else {
        return Ok(options);
    };
    if key == label_key::TRACE_ID {
        options.traces = true;
    } else if !options.keys.contains(key) {
        let key = printable(key);
        return Err(Failure::Usage(format!(
            "--by {key} needs --store-key {key}; without it rows are by function, route or {}",
            label_key::TRACE_ID
        )));
    }
    Ok(options)
}

fn show(
    wants_lines: bool,
    subject: &Subject,
    capture: &Capture,
    interrupts: Interrupts,
) -> anyhow::Result<()> {
    let has_screen = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if wants_lines || !has_screen {
        lines::run(subject, &capture.updates, interrupts)
    } else {
        terminal::run(subject, capture, interrupts)
    }
}

/// What a file of the first process is called: `top-app.js-1234`.
fn file_stem(targets: &[Target]) -> String {
    let Some(first) = targets.first() else {
        return "top".to_owned();
    };
    let is_plain = |letter: char| letter.is_alphanumeric() || "._-".contains(letter);
    let app = app_name(first.pid());
    let app: String = app
        .chars()
        .take(64)
        .map(|it| if is_plain(it) { it } else { '-' })
        .collect();
    format!("top-{app}-{}", first.pid())
}

/// `app.js, node v20.20.2, pid 1234`.
fn title_of(targets: &[Target]) -> String {
    let Some(first) = targets.first() else {
        return String::new();
    };
    let mut title = printable(&app_name(first.pid())).into_owned();
    match program(first.pid()) {
        Some(Program {
            runtime: JsRuntime::Node,
            version,
        }) => title.push_str(&format!(
            ", node {}",
            printable(version.as_deref().unwrap_or("of unknown version"))
        )),
        Some(other) => title.push_str(&format!(", {}", printable(&other.title()))),
        None => {}
    }
    let pids: Vec<String> = targets
        .iter()
        .map(|target| target.pid().to_string())
        .collect();
    let noun = if pids.len() == 1 { "pid" } else { "pids" };
    format!("{title}, {noun} {}", pids.join(", "))
}
