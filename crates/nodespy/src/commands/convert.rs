//! `nodespy convert`: one format in, another out.

use std::borrow::Cow;
use std::process::ExitCode;

use nodespy_model::Profile;

use crate::cli::ConvertArgs;
use crate::output;
use crate::save::{self, Destination};

pub(crate) fn run(arguments: &ConvertArgs) -> anyhow::Result<ExitCode> {
    let show = arguments.show.of_processes(&arguments.pid);
    let destination = Destination::check(&arguments.output, arguments.to.as_deref(), &show)?;
    let shown = save::read(&arguments.input, &arguments.read)
        .and_then(|profile| destination.shown(Cow::Owned(profile)))
        .inspect_err(|_| destination.abandon())?;
    destination.write_shown(&shown)?;
    say_what_is_lost(&destination, &shown);
    Ok(ExitCode::SUCCESS)
}

fn say_what_is_lost(destination: &Destination, profile: &Profile) {
    let losses = destination.losses(profile);
    if let Some((last, first)) = losses.split_last() {
        let list = match first {
            [] => (*last).to_owned(),
            first => format!("{} and {last}", first.join(", ")),
        };
        output::note(&format!(
            "The {} format has no room for {list}.",
            destination.format()
        ));
    }
}
