//! The text of profilers other than perf, as far as inferno folds it: DTrace, macOS's `sample`,
//! Instruments (`xctrace export`) and VTune.
//!
//! What inferno writes is folded stacks, which the importer of those reads. It knows no budget and holds all of them
//! at once, so that what they take is counted before it runs.

mod bounds;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use inferno::collapse::{Collapse, dtrace, sample, vtune, xctrace};
use nodespy_model::{Contents, Recording};

use super::folded::Folded;
use super::{ImportError, ImportOptions, Importer};
use crate::detect::{Confidence, text_head};
use crate::input::Input;

/// One of these formats.
pub(crate) struct StackText {
    name: &'static str,
    /// What took the samples.
    engine: &'static str,
    recognize: fn(&str) -> Confidence,
    /// As many bytes of stacks as inferno makes of it, or more.
    bound: fn(&[u8]) -> u64,
    collapse: fn(&[u8], &mut Vec<u8>) -> io::Result<()>,
}

/// `dtrace -n 'profile-97 { @[jstack()] = count(); }'`
pub(crate) static DTRACE: StackText = StackText {
    name: "dtrace",
    engine: "DTrace",
    recognize: |head| match dtrace::Folder::default().is_applicable(head) {
        Some(true) => Confidence::Likely,
        _ => Confidence::No,
    },
    bound: bounds::dtrace,
    collapse: |text, folded| dtrace::Folder::default().collapse(text, folded),
};

/// `sample PID` on macOS.
pub(crate) static SAMPLE: StackText = StackText {
    name: "sample",
    engine: "macOS sample",
    recognize: |head| {
        let has = |start: &str| head.lines().any(|line| line.starts_with(start));
        match has("Call graph:") && has("Analysis of sampling ") {
            true => Confidence::Sure,
            false => Confidence::No,
        }
    },
    bound: bounds::sample,
    collapse: |text, folded| sample::Folder::default().collapse(text, folded),
};

/// `xctrace export` of a time profile.
pub(crate) static XCTRACE: StackText = StackText {
    name: "xctrace",
    engine: "Instruments",
    recognize: |head| match head.contains("<?xml") && head.contains("<trace-query-result") {
        true => Confidence::Sure,
        false => Confidence::No,
    },
    bound: bounds::xctrace,
    collapse: |text, folded| xctrace::Folder::default().collapse(text, folded),
};

/// `vtune -report hotspots -call-stack` as CSV.
pub(crate) static VTUNE: StackText = StackText {
    name: "vtune",
    engine: "VTune",
    recognize: |head| match vtune::Folder::default().is_applicable(head) {
        Some(true) => Confidence::Sure,
        _ => Confidence::No,
    },
    bound: bounds::vtune,
    collapse: |text, folded| vtune::Folder::default().collapse(text, folded),
};

impl Importer for StackText {
    fn name(&self) -> &'static str {
        self.name
    }

    fn recognize(&self, bytes: &[u8]) -> Confidence {
        text_head(bytes).map_or(Confidence::No, |head| {
            (self.recognize)(&String::from_utf8_lossy(head))
        })
    }

    fn import(&self, input: Input, options: &ImportOptions) -> Result<Recording, ImportError> {
        let budget = input.budget(&options.limits);
        if (self.bound)(&input) > budget.bytes_left() {
            return Err(budget.too_large());
        }
        let mut folded = Vec::new();
        // Inferno 0.12 panics on damaged text: it cuts names in the middle of a character and
        // trusts references inside of XML.
        let collapsed = catch_unwind(AssertUnwindSafe(|| (self.collapse)(&input, &mut folded)));
        let what = match collapsed {
            Ok(Ok(())) if folded.is_empty() => return Err(ImportError::NoStacks),
            Ok(Ok(())) => {
                let folded = input.made_part(folded, &options.limits)?;
                return from_folded(folded, self.engine, options);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "its parts do not fit together".to_owned(),
        };
        Err(ImportError::Damaged { at: 0, what })
    }
}

/// The recording that folded lines are, under another name.
pub(super) fn from_folded(
    folded: Input,
    engine: &str,
    options: &ImportOptions,
) -> Result<Recording, ImportError> {
    let mut recording = Folded.import(folded, options)?;
    recording.about.engine = engine.to_owned();
    if let Contents::Named(profile) = &mut recording.contents {
        profile.about.engine = engine.to_owned();
    }
    Ok(recording)
}
