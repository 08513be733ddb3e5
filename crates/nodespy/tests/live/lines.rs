//! Which line is running, and which functions V8 put into one another.

use std::collections::BTreeMap;
use std::fs;

use nodespy_model::{Frame, Sample, Tier};

use super::certainty::margin;
use super::live;
use super::recorded::{Recorded, record_enough, share};
use super::truth::{label_of, start};
use super::versions::on_every_node;
use super::workload::script;

/// The frames with a source of a sample, the innermost first.
fn source_frames<'a>(recorded: &'a Recorded, sample: &Sample) -> Vec<&'a Frame> {
    let profile = &recorded.profile;
    sample
        .stack
        .into_iter()
        .flat_map(|stack| profile.frames_of(stack))
        .map(|frame| profile.frame(frame))
        .filter(|frame| label_of(profile, frame).is_some())
        .collect()
}

fn name_of<'a>(recorded: &'a Recorded, frame: &Frame) -> &'a str {
    recorded.profile.name_of(frame.function)
}

/// The lines of `lines.js` with a mark, from 1.
fn marked(mark: &str) -> Vec<u32> {
    let text = fs::read_to_string(script("lines.js")).unwrap();
    let has_mark = |line: &str| line.ends_with(&format!("// {mark}"));
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| has_mark(line))
        .map(|(number, _)| number)
        .collect()
}

/// Records `lines.js` with flags that keep it in one tier: the hot line is the hot line.
fn expect_hot_line(version: &str, flags: &[&str], tier: Tier) {
    let target = start(version, flags, "lines.js", &[]);
    let recorded = record_enough(&target, 2, &["-F", "999"], 400);
    let mut by_line: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut total, mut in_tier, mut called, mut at_call) = (0, 0, 0, 0);
    // For the message of a test that fails: who called, and what ran where no line is known.
    let mut callers: BTreeMap<(&str, u32, Tier), u64> = BTreeMap::new();
    let mut without_line: BTreeMap<&str, u64> = BTreeMap::new();
    let [call] = marked("CALL")[..] else { panic!() };
    for sample in &recorded.profile.samples {
        let frames = source_frames(&recorded, sample);
        let Some(leaf) = frames
            .first()
            .filter(|leaf| name_of(&recorded, leaf) == "weigh")
        else {
            continue;
        };
        total += 1;
        *by_line.entry(leaf.line).or_default() += 1;
        in_tier += u64::from(leaf.tier == tier);
        if let (0, Some(stack)) = (leaf.line, sample.stack) {
            let top = recorded.profile.function_of(stack);
            *without_line
                .entry(recorded.profile.name_of(top))
                .or_default() += 1;
        }
        if let Some(caller) = frames.get(1) {
            let key = (name_of(&recorded, caller), caller.line, caller.tier);
            *callers.entry(key).or_default() += 1;
            called += 1;
            at_call += u64::from(caller.line == call && name_of(&recorded, caller) == "turn");
        }
    }
    let told = format!(
        "node {version} {flags:?}: {total} samples, {in_tier} {tier:?}, by line {by_line:?}, \
         {at_call} of {called} called at line {call}, callers {callers:?}, without a line \
         {without_line:?}"
    );
    eprintln!("{told}");
    assert!(total > 100, "{told}\n{}", recorded.describe());
    let part = |line: u32| share(by_line.get(&line).copied().unwrap_or(0), total);
    assert!(share(in_tier, total) > 0.9, "{told}");
    assert!(
        marked("HOT").into_iter().all(|line| part(line) > 0.7),
        "{told}"
    );
    assert!(
        marked("COLD").into_iter().all(|line| part(line) < 0.15),
        "{told}"
    );
    assert!(called == 0 || share(at_call, called) > 0.95, "{told}");
}

fn expect_hot_line_in_every_tier(version: &str) {
    let Some(_live) = live() else { return };
    let has_maglev = version.parse::<u32>().is_ok_and(|major| major >= 24);
    let interpreted = ["--no-opt", "--no-sparkplug", "--no-maglev"];
    let baseline = ["--no-opt", "--always-sparkplug", "--no-maglev"];
    let flags = if has_maglev { 3 } else { 2 };
    expect_hot_line(version, &interpreted[..flags], Tier::Interpreted);
    expect_hot_line(version, &baseline[..flags], Tier::Baseline);
    expect_hot_line(version, &[], Tier::Optimized);
    if has_maglev {
        let flags = ["--maglev", "--no-turbofan"];
        expect_hot_line(version, &flags, Tier::Maglev);
    }
}

/// Records `inline.js`: the inlined functions are there, marked, with the right callers and the time
/// they took: two thirds in scramble, a third in mix.
fn expect_inlined(version: &str) {
    let Some(_live) = live() else { return };
    let target = start(version, &[], "inline.js", &[]);
    let recorded = record_enough(&target, 2, &["-F", "999"], 600);
    let (mut total, mut in_scramble, mut in_mix, mut chains) = (0, 0, 0, 0);
    for sample in &recorded.profile.samples {
        let frames = source_frames(&recorded, sample);
        let here: Vec<(&str, bool)> = frames
            .iter()
            .map(|frame| (name_of(&recorded, frame), frame.kind.is_inlined()))
            .collect();
        if !here.iter().any(|(name, _)| *name == "hotCaller") {
            continue;
        }
        total += 1;
        in_scramble += u64::from(here[0] == ("scramble", true));
        in_mix += u64::from(here[0] == ("mix", true));
        // Whether mix is inlined too depends on the tier, which may change while we watch.
        let names: Vec<&str> = here.iter().map(|(name, _)| *name).collect();
        let is_chain = names.starts_with(&["scramble", "mix", "hotCaller"]);
        chains += u64::from(is_chain && here[0].1);
    }
    let told = format!(
        "node {version}: {total} samples, {in_scramble} in scramble, {chains} of them whole, {in_mix} in mix\n{}",
        recorded.describe()
    );
    assert!(total > 100, "{told}");
    for (found, expected) in [(in_scramble, 2.0 / 3.0), (in_mix, 1.0 / 3.0)] {
        let most = 0.08 + margin(expected, total as f64);
        assert!((share(found, total) - expected).abs() < most, "{told}");
    }
    assert_eq!(chains, in_scramble, "{told}");
}

on_every_node! {{
    the_hot_line_is_found_in_every_tier(expect_hot_line_in_every_tier);
    inlined_functions_and_their_callers_are_restored(expect_inlined);
}}
