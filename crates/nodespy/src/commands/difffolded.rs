//! `nodespy difffolded`: two sets of stacks as folded lines with two weights, what difffolded.pl
//! and inferno-diff-folded do.

use std::io::Write;
use std::process::ExitCode;

use nodespy_analysis::ProfilePair;
use nodespy_formats::{FoldedStacks, Limits, read_folded};

use crate::cli::DifffoldedArgs;
use crate::folded_input::{self, FoldedOr};
use crate::output::{self, Stream};

pub(crate) fn run(arguments: &DifffoldedArgs) -> anyhow::Result<ExitCode> {
    let rename: &dyn Fn(&str) -> String = match arguments.strip_hex {
        true => &without_addresses,
        false => &str::to_owned,
    };
    let read = |path| -> anyhow::Result<FoldedStacks> {
        match folded_input::read(std::slice::from_ref(path), &arguments.read, rename)? {
            FoldedOr::Folded(folded) => Ok(*folded),
            // Threads and kinds of code become part of names, as in every folded line.
            FoldedOr::Profile(profile) => {
                let mut lines = Vec::new();
                nodespy_formats::export(&profile, "folded", &mut lines)?;
                Ok(read_folded(&lines, &Limits::default(), rename)?)
            }
        }
    };
    let (before, after) = (read(&arguments.before)?, read(&arguments.after)?);
    let ignored = before.bad_lines + after.bad_lines;
    if ignored > 0 {
        output::note(&format!("Ignored {ignored} lines with invalid format"));
    }
    let lines = difference(&before, &after, arguments.normalize)?;
    output::result(&String::from_utf8_lossy(&lines), Stream::Standard);
    Ok(ExitCode::SUCCESS)
}

/// The lines of two sets of stacks, sorted.
fn difference(
    before: &FoldedStacks,
    after: &FoldedStacks,
    is_normalized: bool,
) -> std::io::Result<Vec<u8>> {
    let pair = ProfilePair::join(&before.pair.after, &after.pair.after);
    let tree = pair.tree();
    let whole = |weight: u64, stacks: &FoldedStacks| weight / stacks.weight_factor;
    let total_before = tree.before_total() as f64 / before.weight_factor as f64;
    let total_after = tree.after.total_weight() as f64 / after.weight_factor as f64;
    let scale = total_after / total_before;
    let mut lines = Vec::new();
    for (node, weights) in tree.after.nodes.iter().zip(&tree.before) {
        if node.self_weight == 0 && weights.self_weight == 0 {
            continue;
        }
        let mut path = vec![pair.after.name_of(node.function)];
        let mut next = node.parent;
        while let Some(index) = next {
            let parent = tree.after.node(index);
            path.push(pair.after.name_of(parent.function));
            next = parent.parent;
        }
        path.reverse();
        let mut earlier = whole(weights.self_weight, before);
        if is_normalized {
            earlier = (earlier as f64 * scale) as u64;
        }
        let later = whole(node.self_weight, after);
        lines.push(format!("{} {earlier} {later}", path.join(";")));
    }
    lines.sort_unstable();
    let mut text = Vec::new();
    for line in lines {
        writeln!(text, "{line}")?;
    }
    Ok(text)
}

/// A name with every address in it replaced, so that two runs at different addresses compare.
fn without_addresses(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find("0x") {
        let digits = &rest[at + 2..];
        let end = digits.find(|digit: char| !digit.is_ascii_hexdigit());
        let length = end.unwrap_or(digits.len());
        text.push_str(&rest[..at]);
        text.push_str(if length > 0 { "0x..." } else { "0x" });
        rest = &digits[length..];
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_one() {
        assert_eq!(without_addresses("0x234f2abc"), "0x...");
        assert_eq!(without_addresses("a+0x1F;0xg 0x2"), "a+0x...;0xg 0x...");
    }
}
