//! Two recordings side by side: the one way for `diff`, `ci` and every `--base`.

use std::borrow::Cow;
use std::path::Path;

use anyhow::bail;
use nodespy_analysis::{
    CompareOptions, Comparison, Filters, Holding, RunCosts, as_routes, compare, filtered,
    has_routes, shown_event, without_idle,
};
use nodespy_model::Profile;

use crate::cli::{By, ReadArgs};
use crate::output;
use crate::save;

/// What is compared of a recording: one event, filtered, without what is no work.
pub(crate) fn shown(profile: Cow<'_, Profile>, show: &Filters) -> anyhow::Result<Profile> {
    let profile = shown_event(profile);
    let profile = filtered(profile, show, Holding::WhatIsShown)?;
    Ok(without_idle(profile.into_owned()))
}

/// The same where routes may be compared in place of functions.
pub(crate) fn shown_by(
    profile: Cow<'_, Profile>,
    show: &Filters,
    by: By,
) -> anyhow::Result<Profile> {
    let profile = shown(profile, show)?;
    match by {
        By::Function => Ok(profile),
        By::Route if !has_routes(&profile) => bail!("no sample says which route it is of"),
        By::Route => Ok(as_routes(profile)),
    }
}

/// What a profile is compared with, and what that says.
#[derive(Debug, Default)]
pub(crate) struct Base {
    /// As `.nspy` bytes; empty when there is none.
    pub(crate) nspy: Vec<u8>,
    pub(crate) comparison: Option<Comparison>,
}

impl Base {
    /// The base at `path`, if there is one, for a recording that is read already.
    pub(crate) fn of(
        after: (&Path, &Profile),
        path: Option<&Path>,
        reading: &ReadArgs,
        show: &Filters,
    ) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let base = save::read(path, reading)?;
        let comparison = one_against_one((path, &base), after, show);
        Ok(Self {
            nspy: save::as_base(base, show)?,
            comparison,
        })
    }
}

/// What one run a side says. Two recordings that can't be compared can still be looked at, so why is only a note.
fn one_against_one(
    before: (&Path, &Profile),
    after: (&Path, &Profile),
    show: &Filters,
) -> Option<Comparison> {
    let run = |(path, profile): (&Path, &Profile)| -> anyhow::Result<RunCosts> {
        let profile = shown(Cow::Borrowed(profile), show)?;
        Ok(RunCosts::of(&path.display().to_string(), &profile, None))
    };
    let compared = || -> anyhow::Result<Comparison> {
        let sides = (vec![run(before)?], vec![run(after)?]);
        Ok(compare(sides.0, sides.1, &CompareOptions::default())?)
    };
    let compared = compared();
    if let Err(error) = &compared {
        let why = output::in_one_line(error);
        output::note(&format!("No verdicts on the difference: {why}."));
    }
    compared.ok()
}
