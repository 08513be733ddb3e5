//! `nodespy record --every`: a file a period.

use std::process::ExitCode;
use std::time::Duration;

use nodespy_capture::catch_interrupts;
use nodespy_model::Profile;
use nodespy_recorder::{CreateJournal, PeriodFiles, RecordError, record_every};
use nodespy_symbolize::SourceRoots;
use nodespy_view::wording::counted;

use super::files::{Caps, Files};
use super::journal::Journal;
use super::reporting::Reporting;
use super::{perf_request, prepare, source_roots, with_sources};
use crate::cli::RecordArgs;
use crate::output;

pub(super) fn run(arguments: &RecordArgs, every: Duration) -> anyhow::Result<ExitCode> {
    let mut request = perf_request(arguments, "--every 60s")?;
    let subject = prepare(arguments, &request)?;
    let caps = Caps {
        files: arguments.flight.max_files,
        bytes: arguments.flight.max_size,
    };
    let mut periods = Periods {
        sources: source_roots(arguments, &subject),
        files: Files::new(arguments, &subject, caps)?,
        journal: None,
    };
    request.interrupts = Some(catch_interrupts());
    let mut reporting = Reporting::new(arguments);
    let recorded = record_every(every, &request, subject, &mut reporting, &mut periods);
    reporting.end();
    if recorded.is_err() {
        periods.journal.take().into_iter().for_each(Journal::keep);
    }
    let written = periods.files.finish();
    let status = recorded?;
    let written = written?;
    if written == 0 {
        let sentence = "no samples: nothing was written".to_owned();
        return Err(RecordError::NoSamples(sentence).into());
    }
    if !arguments.quiet {
        output::note(&format!("{} written.", counted(u64::from(written), "file")));
    }
    Ok(match status {
        Some(status) if arguments.exit_code => super::exit_like(status),
        _ => ExitCode::SUCCESS,
    })
}

/// The files of a recording, and the journal of the period that goes on.
struct Periods {
    files: Files,
    journal: Option<Journal>,
    sources: Option<SourceRoots>,
}

impl PeriodFiles for Periods {
    fn journal(&mut self) -> Option<CreateJournal> {
        self.journal = self.files.journal();
        self.journal.as_ref().map(Journal::creator)
    }

    fn write(&mut self, profile: Profile) -> bool {
        let profile = with_sources(profile, self.sources.as_ref());
        self.files.write(profile, self.journal.take())
    }
}
