//! Inputs of the drop-in commands: folded stacks with their names as written, or a profile of any
//! other format.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use nodespy_formats::{
    FoldedStacks, Input, Limits, TextFormat, detect, importer_called, read_folded,
};
use nodespy_model::Profile;

use crate::cli::ReadArgs;
use crate::failure::Failure;
use crate::save::{self, reading};

/// What was read.
pub(crate) enum FoldedOr {
    Folded(Box<FoldedStacks>),
    Profile(Box<Profile>),
}

/// Reads folded stacks from all of `paths`, or a recording from the only one of them. None is
/// standard input.
pub(crate) fn read(
    paths: &[PathBuf],
    arguments: &ReadArgs,
    rename: &dyn Fn(&str) -> String,
) -> anyhow::Result<FoldedOr> {
    let standard = [PathBuf::from("-")];
    let paths = if paths.is_empty() { &standard } else { paths };
    let limits = Limits::default();
    let [path] = paths else {
        let mut text = Vec::new();
        for path in paths {
            let input = open(path, &limits)?;
            if !is_folded(&input, arguments) {
                let path = path.display();
                bail!(Failure::Usage(format!(
                    "{path} holds no folded stacks; several files can be drawn together only if all do"
                )));
            }
            text.extend_from_slice(&input);
            text.push(b'\n');
        }
        let folded = read_folded(&text, &limits, rename)?;
        return Ok(FoldedOr::Folded(Box::new(folded)));
    };
    let input = open(path, &limits)?;
    if is_folded(&input, arguments) {
        let folded = read_folded(&input, &limits, rename).with_context(|| reading(path))?;
        return Ok(FoldedOr::Folded(Box::new(folded)));
    }
    let profile = save::read_input(input, path, arguments)?;
    Ok(FoldedOr::Profile(Box::new(profile)))
}

fn open(path: &Path, limits: &Limits) -> anyhow::Result<Input> {
    let input = save::open(path)?;
    input.unpacked(limits).with_context(|| reading(path))
}

fn is_folded(input: &Input, arguments: &ReadArgs) -> bool {
    let importer = match &arguments.from {
        Some(from) => importer_called(from),
        None => detect(input),
    };
    match importer {
        Some(importer) => importer.text_format() == Some(TextFormat::Folded),
        // Text of no known format is taken for folded stacks with many bad lines.
        None => arguments.from.is_none() && !input.contains(&0),
    }
}
