//! `nodespy query`: a question in words of its own, answered from a recording.

use std::borrow::Cow;
use std::process::ExitCode;

use anyhow::anyhow;
use nodespy_analysis::{Holding, Query, filtered, shown_event};
use nodespy_view::{Terminal, query_json, query_text};

use crate::cli::QueryArgs;
use crate::confine::Confinement;
use crate::failure::Failure;
use crate::output::{self, Stream};
use crate::save;

pub(crate) fn run(arguments: &QueryArgs) -> anyhow::Result<ExitCode> {
    // Before the recording is read: that may take long.
    let query = Query::parse(&arguments.query).map_err(|error| {
        output::note(&error.marked(&arguments.query));
        anyhow!(Failure::Usage(error.to_string()))
    })?;
    Confinement::reading([&arguments.file], &arguments.read).apply();
    let profile = save::read(&arguments.file, &arguments.read)?;
    let shown = shown_event(Cow::Owned(profile));
    let shown = filtered(shown, &arguments.show.filters(), Holding::WhatIsShown)?;
    let answer = query.answer(&shown);
    let text = match arguments.json {
        true => query_json(&shown, query.text(), &answer),
        false => {
            let terminal = Terminal {
                has_color: output::has_color(Stream::Standard),
                width_columns: output::width_of_result(Stream::Standard),
            };
            query_text(&shown, &answer, terminal)
        }
    };
    output::result(&text, Stream::Standard);
    Ok(ExitCode::SUCCESS)
}
