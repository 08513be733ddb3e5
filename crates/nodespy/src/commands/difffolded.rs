//! `nodespy difffolded`: two sets of stacks as folded lines with two weights, what difffolded.pl
//! and inferno-diff-folded do.

use std::process::ExitCode;

use nodespy_formats::{FoldedStacks, folded_stacks, without_addresses, write_difference};

use crate::cli::DifffoldedArgs;
use crate::confine::Confinement;
use crate::folded_input::{self, FoldedOr};
use crate::output::{self, Stream};

pub(crate) fn run(arguments: &DifffoldedArgs) -> anyhow::Result<ExitCode> {
    Confinement::reading([&arguments.before, &arguments.after], &arguments.read).apply();
    let rename: &dyn Fn(&str) -> String = match arguments.strip_hex {
        true => &without_addresses,
        false => &str::to_owned,
    };
    let read = |path| -> anyhow::Result<FoldedStacks> {
        match folded_input::read(std::slice::from_ref(path), &arguments.read, rename)? {
            FoldedOr::Folded(folded) => Ok(*folded),
            FoldedOr::Profile(profile) => Ok(folded_stacks(&profile, rename)?),
        }
    };
    let (before, after) = (read(&arguments.before)?, read(&arguments.after)?);
    let ignored = before.bad_lines + after.bad_lines;
    if ignored > 0 {
        output::note(&format!("Ignored {ignored} lines with invalid format"));
    }
    let mut lines = Vec::new();
    write_difference(&before, &after, arguments.normalize, &mut lines)?;
    output::result(&String::from_utf8_lossy(&lines), Stream::Standard);
    Ok(ExitCode::SUCCESS)
}
