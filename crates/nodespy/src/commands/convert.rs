//! `nodespy convert`: one format in, another out.

use std::borrow::Cow;
use std::process::ExitCode;

use nodespy_model::Profile;
use nodespy_symbolize::SourceRoots;

use crate::cli::{ConvertArgs, ReadArgs};
use crate::comparing::Base;
use crate::confine::Confinement;
use crate::output;
use crate::save::{self, Destination, FormatChoice};

pub(crate) fn run(arguments: &ConvertArgs) -> anyhow::Result<ExitCode> {
    nodespy_capture::keep_freed_memory();
    let show = arguments.show.filters_of_processes(&arguments.pid);
    let choice = FormatChoice {
        flag: "--to",
        name: arguments.to.as_deref(),
    };
    let mut destination = Destination::check(&arguments.output, choice, &show)?;
    Confinement::reading(
        [&arguments.input].into_iter().chain(&arguments.base),
        &arguments.read,
    )
    .writing(destination.folder())
    .apply();
    let reading = ReadArgs {
        functions_only: destination.shows_functions_only(),
        keeps_events: destination.switches_events(),
        ..arguments.read.embedding(arguments.embed_source)
    };
    let (profile, base) = read(arguments, &reading)?;
    destination.add_base(base)?;
    let left_out = destination.events_left_out(&profile);
    let shown = destination.shown(Cow::Owned(profile))?;
    destination.write_shown(&shown)?;
    say_what_is_lost(&destination, &shown, left_out);
    Ok(ExitCode::SUCCESS)
}

/// The profile to convert, and the one it is compared with.
fn read(arguments: &ConvertArgs, reading: &ReadArgs) -> anyhow::Result<(Profile, Base)> {
    let mut profile = save::read(&arguments.input, reading)?;
    if arguments.embed_source {
        SourceRoots::of_folder(arguments.read.root.as_deref()).embed(&mut profile);
    }
    let base_reading = ReadArgs {
        keeps_events: reading.keeps_events,
        ..arguments.read.clone()
    };
    let base = Base::of(
        (&arguments.input, &profile),
        arguments.base.as_deref(),
        &base_reading,
        &arguments.show.filters(),
    )?;
    Ok((profile, base))
}

fn say_what_is_lost(destination: &Destination, profile: &Profile, events: Option<String>) {
    let losses = destination.losses(profile);
    let mut losses: Vec<String> = losses.into_iter().map(str::to_owned).collect();
    losses.extend(events);
    if let Some((last, first)) = losses.split_last() {
        let list = match first {
            [] => last.clone(),
            first => format!("{} and {last}", first.join(", ")),
        };
        output::note(&format!(
            "The {} format has no room for {list}.",
            destination.format()
        ));
    }
}
