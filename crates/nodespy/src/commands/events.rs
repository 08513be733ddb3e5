//! `nodespy events`: what `record -e` takes here, and why not the rest.

use std::fmt::Write;
use std::process::ExitCode;

use nodespy_capture::engines::perf_events::{Availability, AvailableEvent, available_events};
use nodespy_model::printable;

use crate::cli::EventsArgs;
use crate::output::{self, Stream};

pub(crate) fn run(arguments: &EventsArgs) -> anyhow::Result<ExitCode> {
    let events = available_events(arguments.pattern.as_deref());
    let text = match arguments.json {
        true => format!("{:#}\n", json(&events)),
        false => table(&events),
    };
    output::result(&text, Stream::Standard);
    Ok(ExitCode::SUCCESS)
}

fn json(events: &[AvailableEvent]) -> serde_json::Value {
    let event = |event: &AvailableEvent| {
        let (availability, why) = match &event.availability {
            Availability::Yes => ("yes", None),
            Availability::UserOnly => ("user-only", None),
            Availability::No(why) => ("no", Some(why)),
        };
        serde_json::json!({
            "name": event.name,
            "kind": event.kind,
            "availability": availability,
            "why": why,
        })
    };
    serde_json::json!({
        "schema": "nodespy.events",
        "version": 1,
        "events": events.iter().map(event).collect::<Vec<_>>(),
    })
}

/// Each event on a line; a reason that holds for several is printed once, below them.
fn table(events: &[AvailableEvent]) -> String {
    let mut text = String::new();
    let width = events.iter().map(|event| event.name.chars().count()).max();
    let width = width.unwrap_or(0).min(60);
    for event in events {
        let said = match &event.availability {
            Availability::Yes => "yes",
            Availability::UserOnly => "yes, without what happens inside the kernel",
            Availability::No(_) => "no",
        };
        let name = printable(&event.name);
        let _ = writeln!(text, "{name:width$}  {:<10}  {said}", event.kind);
    }
    let mut reasons: Vec<&str> = Vec::new();
    for event in events {
        if let Availability::No(why) = &event.availability
            && !reasons.contains(&why.as_str())
        {
            reasons.push(why);
        }
    }
    if !reasons.is_empty() {
        text.push('\n');
    }
    for why in reasons {
        let _ = writeln!(text, "{}", printable(why));
    }
    if events.is_empty() {
        text.push_str("no event has that in its name\n");
    }
    text
}
