//! Two sets of folded stacks beside each other, as difffolded.pl and inferno-diff-folded write them:
//! `root;…;leaf earlier later`, sorted.

use std::io::{self, Write};

use nodespy_analysis::ProfilePair;
use nodespy_model::{
    About, FastMap, FrameIndex, FrameSpec, FunctionIndex, FunctionSpec, NO_STACK, Notes, Process,
    Profile, ProfileBuilder, Sample, StackIndex, Thread, ThreadIndex, WeightUnit, folded_label,
    folded_thread,
};

use crate::{FoldedStacks, ImportError};

/// The stacks of a profile's first event with the names they have in folded lines, each through
/// `rename`. A thread is the root of its stacks.
pub fn folded_stacks(
    profile: &Profile,
    rename: &dyn Fn(&str) -> String,
) -> Result<FoldedStacks, ImportError> {
    let profile = profile.first_event();
    let mut builder = ProfileBuilder::new(WeightUnit::Samples);
    let process = builder.process(Process::default());
    let thread = builder.thread(Thread {
        process,
        ..Thread::default()
    });
    let mut moved = Moved {
        frames: (0..profile.functions.len() as u32)
            .map(|function| folded_label(&profile, FunctionIndex(function)))
            .map(|label| frame(&mut builder, &rename(&label)))
            .collect(),
        roots: (0..profile.threads.len() as u32)
            .map(|thread| folded_thread(&profile, ThreadIndex(thread)))
            .map(|name| {
                let frame = (!name.is_empty()).then(|| frame(&mut builder, &rename(&name)))?;
                Some(builder.stack(None, frame))
            })
            .collect(),
        no_stack: frame(&mut builder, &rename(NO_STACK)),
        known: FastMap::default(),
    };
    let mut total = 0u64;
    for sample in profile.samples.iter().filter(|sample| sample.weight > 0) {
        let weight = sample.weight.min(u64::MAX - total);
        total += weight;
        let stack = Some(moved.stack(&profile, sample, &mut builder));
        builder.add_sample(Sample {
            weight,
            thread,
            stack,
            ..Sample::default()
        });
    }
    if total == 0 {
        return Err(ImportError::NoStacks);
    }
    Ok(FoldedStacks {
        pair: ProfilePair {
            before: Vec::new(),
            after: builder.finish(About::default(), Notes::default()),
        },
        has_before: false,
        weight_factor: 1,
        bad_lines: 0,
    })
}

fn frame(builder: &mut ProfileBuilder, name: &str) -> FrameIndex {
    builder.frame(FrameSpec {
        function: FunctionSpec {
            name,
            ..FunctionSpec::default()
        },
        ..FrameSpec::default()
    })
}

/// Where the stacks of a profile are in another one.
struct Moved {
    /// Of each function.
    frames: Vec<FrameIndex>,
    /// Of each thread that has a name.
    roots: Vec<Option<StackIndex>>,
    no_stack: FrameIndex,
    known: FastMap<(Option<StackIndex>, StackIndex), StackIndex>,
}

impl Moved {
    fn stack(
        &mut self,
        profile: &Profile,
        sample: &Sample,
        builder: &mut ProfileBuilder,
    ) -> StackIndex {
        let root = self.roots[sample.thread.at()];
        let mut new = Vec::new();
        let mut next = sample.stack;
        let mut stack = root;
        while let Some(old) = next {
            if let Some(&known) = self.known.get(&(root, old)) {
                stack = Some(known);
                break;
            }
            new.push(old);
            next = profile.stacks[old.at()].parent;
        }
        for old in new.into_iter().rev() {
            let function = profile.function_of(old);
            let moved = builder.stack(stack, self.frames[function.at()]);
            self.known.insert((root, old), moved);
            stack = Some(moved);
        }
        match sample.stack {
            Some(_) => stack.expect("a stack has a frame"),
            None => builder.stack(root, self.no_stack),
        }
    }
}

/// Writes the lines of two sets of stacks. Where they are to be normalized, the earlier ones weigh as
/// much as the later ones together.
pub fn write_difference(
    before: &FoldedStacks,
    after: &FoldedStacks,
    is_normalized: bool,
    output: &mut dyn Write,
) -> io::Result<()> {
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
    lines.iter().try_for_each(|line| writeln!(output, "{line}"))
}

/// A name with every address in it replaced, so that two runs at different addresses compare.
pub fn without_addresses(name: &str) -> String {
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
    use crate::{ImportOptions, Limits, export, import_file, read_folded};

    #[test]
    fn addresses_become_one() {
        assert_eq!(without_addresses("0x234f2abc"), "0x...");
        assert_eq!(without_addresses("a+0x1F;0xg 0x2"), "a+0x...;0xg 0x...");
    }

    /// The lines of a set of stacks compared with itself.
    fn lines(stacks: &FoldedStacks) -> String {
        let mut text = Vec::new();
        write_difference(stacks, stacks, false, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn stacks_of_a_profile_are_those_of_its_folded_lines() {
        let fixtures = std::path::Path::new("../../fixtures");
        let files = ["cpuprofile", "speedscope", "pprof"].map(|folder| fixtures.join(folder));
        let files = files.iter().flat_map(|folder| folder.read_dir().unwrap());
        let mut compared = 0;
        for file in files.map(|file| file.unwrap().path()) {
            let Ok(recording) = import_file(&file, &ImportOptions::default()) else {
                continue;
            };
            let nodespy_model::Contents::Named(profile) = recording.contents else {
                continue;
            };
            let mut text = Vec::new();
            export(&profile, "folded", &mut text).unwrap();
            let direct = folded_stacks(&profile, &without_addresses);
            match read_folded(&text, &Limits::default(), &without_addresses) {
                Ok(read) => {
                    assert_eq!(lines(&direct.unwrap()), lines(&read), "{}", file.display());
                    compared += 1;
                }
                Err(_) => assert!(direct.is_err(), "{}", file.display()),
            }
        }
        assert!(compared > 5, "{compared} profiles were compared");
    }
}
