//! Profiles for tests, written as folded stacks.
//!
//! A line is `root;…;leaf weight`. A frame is `kind:name@file`, of which only the name is needed:
//! `n:` native, `k:` kernel, `d:` dependency, `c:` node core, `b:` builtin, `u:` unknown, `gc:`, `idle:`, `i:` internal, else the application's
//! own; one of V8's marks before the name tells the tier.

use proptest::prelude::*;

use crate::tree::CallTree;
use nodespy_model::{About, Process, Thread};
use nodespy_model::{Category, FunctionIndex, Profile, Tier, WeightUnit};
use nodespy_model::{EventType, Labels, Notes, Sample};
use nodespy_model::{FrameSpec, FunctionSpec, ProfileBuilder};

/// The profile of some folded stacks.
pub(crate) fn profile_of(lines: &str) -> Profile {
    let rows: Vec<_> = lines.lines().map(|line| (line, [].as_slice())).collect();
    labelled(ProfileBuilder::new(WeightUnit::Samples), &rows)
}

/// The profile of folded stacks whose samples have labels.
pub(crate) fn routed(event: &str, rows: &[(&str, &[(&str, &str)])]) -> Profile {
    let event = EventType::new(event, WeightUnit::Nanoseconds);
    labelled(ProfileBuilder::new(event), rows)
}

fn labelled(mut builder: ProfileBuilder, rows: &[(&str, &[(&str, &str)])]) -> Profile {
    let process = builder.process(Process::default());
    let thread = builder.thread(Thread {
        process,
        ..Thread::default()
    });
    for (line, labels) in rows {
        let (path, weight) = line.rsplit_once(' ').unwrap();
        let mut stack = None;
        for frame in path.split(';').filter(|frame| !frame.is_empty()) {
            let frame = builder.frame(frame_of(frame));
            stack = Some(builder.stack(stack, frame));
        }
        let mut set = Labels::default();
        labels.iter().for_each(|(key, value)| set.set(key, value));
        let context = builder.context(set);
        builder.add_sample(Sample {
            thread,
            stack,
            weight: weight.parse().unwrap(),
            context,
            ..Sample::default()
        });
    }
    builder.finish(About::default(), Notes::default())
}

fn frame_of(text: &str) -> FrameSpec<'_> {
    let kinds = [
        ("n:", Category::Native),
        ("k:", Category::Kernel),
        ("d:", Category::Dependency),
        ("c:", Category::NodeCore),
        ("b:", Category::Builtin),
        ("u:", Category::Unknown),
        ("gc:", Category::Gc),
        ("idle:", Category::Idle),
        ("i:", Category::Internal),
    ];
    let kind = kinds.iter().find(|(prefix, _)| text.starts_with(prefix));
    let (prefix, category) = kind.copied().unwrap_or(("", Category::App));
    let text = &text[prefix.len()..];
    let has_mark = |tier: &&Tier| **tier != Tier::None && text.starts_with(tier.mark());
    let tier = Tier::ALL.iter().find(has_mark).copied().unwrap_or_default();
    let text = &text[tier.mark().len()..];
    let (name, file) = text.split_once('@').unwrap_or((text, ""));
    FrameSpec {
        function: FunctionSpec {
            name,
            file,
            category,
            ..FunctionSpec::default()
        },
        tier,
        ..FrameSpec::default()
    }
}

/// The call tree as folded stacks, sorted.
pub(crate) fn folded(profile: &Profile) -> Vec<String> {
    let tree = CallTree::of(profile, |_| true);
    let mut lines = Vec::new();
    let mut paths: Vec<String> = Vec::new();
    for node in &tree.nodes {
        let name = profile.name_of(node.function);
        let path = match node.parent {
            Some(parent) => format!("{};{name}", paths[parent.0 as usize]),
            None => name.to_owned(),
        };
        if node.self_weight > 0 {
            lines.push(format!("{path} {}", node.self_weight));
        }
        paths.push(path);
    }
    if tree.without_stack > 0 {
        lines.push(format!(" {}", tree.without_stack));
    }
    lines.sort();
    lines
}

/// Whether a function's name is one of those between `|`.
pub(crate) fn named(names: &'static str) -> impl Fn(&Profile, FunctionIndex) -> bool {
    move |profile, function| {
        let name = profile.name_of(function);
        names.split('|').any(|each| each == name)
    }
}

/// Fails unless every index points into its table and parents come before children.
pub(crate) fn assert_sound(profile: &Profile) {
    for (position, stack) in profile.stacks.iter().enumerate() {
        assert!(stack.parent.is_none_or(|parent| parent.at() < position));
        assert!(stack.frame.at() < profile.frames.len());
    }
    for frame in &profile.frames {
        assert!(frame.function.at() < profile.functions.len());
    }
    for function in &profile.functions {
        assert!(function.name.at() < profile.strings.len());
    }
    for stack in profile.samples.iter().filter_map(|sample| sample.stack) {
        assert!(stack.at() < profile.stacks.len());
    }
}

/// Stacks of random frames with their weights.
pub(crate) type Stacks = Vec<(Vec<usize>, u64)>;

/// The frames that random stacks are made of.
const FRAMES: [&str; 12] = [
    "a",
    "*b",
    "~b",
    "+c",
    "d",
    "e",
    "n:native",
    "k:kernel",
    "i:stub",
    "gc:collect",
    "d:dep@/node_modules/dep/i.js",
    "d:other@/node_modules/dep/o.js",
];

/// Up to twenty stacks of up to twelve frames.
pub(crate) fn random_stacks() -> impl Strategy<Value = Stacks> {
    let path = prop::collection::vec(0..FRAMES.len(), 0..12);
    prop::collection::vec((path, 1u64..9), 0..20)
}

/// The profile of random stacks.
pub(crate) fn random_profile(stacks: &Stacks) -> Profile {
    let line = |(path, weight): &(Vec<usize>, u64)| {
        let names: Vec<&str> = path.iter().map(|each| FRAMES[*each]).collect();
        format!("{} {weight}", names.join(";"))
    };
    let lines: Vec<String> = stacks.iter().map(line).collect();
    profile_of(&lines.join("\n"))
}
