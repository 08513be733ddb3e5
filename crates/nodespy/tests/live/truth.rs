//! V8's own profiler and nodespy, on the same process at the same time: do they say the same?
//!
//! A workload that uses `workloads/truth.js` profiles itself while nodespy records it. Both answers
//! become shares of exclusive time by label, where a label is what a person reads of a function:
//! name, file, line and column. Time in builtins, native code and the kernel goes to the nearest
//! function with a source, as V8's profiler has it; the garbage collector's is left out, because
//! V8's profiler counts it in wall-clock time.
//!
//! Where V8's profiler is known to be wrong, nodespy's answer is bent to it, so that the rest can be
//! compared:
//! - Until V8 13.6 (node 24) it does not look for inlined functions at the top of the stack, only
//!   below it: `inline.js` is 98 % hotCaller with `--cpu-prof` on 16 to 24, and two thirds scramble
//!   on 25.
//! - It counts wall-clock time: where starting work on the pool costs the main thread its CPU, the
//!   function that does so has time it did not use. `POOL=0` turns that off in `mix.js`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use nodespy_model::{Category, Frame, Profile, Sample};
use serde_json::Value;

use super::certainty::{is_chance, margin_between};
use super::recorded::{Recorded, record};
use super::workload::{Running, node, script};
use crate::scratch::Scratch;

/// The name of functions that have none.
const ANONYMOUS: &str = "(anonymous)";
/// What a person reads of a function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Label {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Label {
    fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }
}

/// Samples by label.
#[derive(Debug, Default)]
pub(crate) struct SelfSamples {
    counts: BTreeMap<Label, u64>,
    /// Every label that was seen anywhere in a stack.
    seen: BTreeSet<Label>,
    total: u64,
}

/// Which inlined functions count as themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inlined {
    Shown,
    /// Those on top of a stack count for the function they are inlined into.
    HiddenOnTop,
    /// All count for the function they are inlined into.
    Hidden,
    /// Functions without a name count for the one that called them. V8's profiler does that with
    /// some that were compiled before it started: the comparator in `mix.js` has 10 % with
    /// `--cpu-prof` on node 20, and none at times when the profiler is started later.
    HiddenAnonymous,
}

/// Two answers about one process.
pub(crate) struct Comparison {
    pub(crate) theirs: SelfSamples,
    pub(crate) ours: SelfSamples,
}

/// Starts a workload on a version with flags; in `environment` what it is to do.
#[track_caller]
pub(crate) fn start(
    version: &str,
    flags: &[&str],
    name: &str,
    environment: &[(&str, &str)],
) -> Running {
    let mut command = Command::new(node(version).unwrap());
    command
        .args(flags)
        .arg(script(name))
        .envs(environment.iter().copied());
    Running::new(command)
}

/// Records a workload while it profiles itself.
#[track_caller]
pub(crate) fn compare(version: &str, name: &str, seconds: &str) -> Comparison {
    let scratch = Scratch::new();
    let file = scratch.file("truth.cpuprofile");
    let target = start(version, &[], name, &[("PROFILE", &file), ("POOL", "0")]);
    let recorded = record(&target, &["-d", seconds, "-F", "999"]);
    crate::run::signal(target.pid(), "TERM");
    target.line_after("profiled");
    let about = &recorded.profile.about;
    let window = (
        about.started_unix / 1000,
        (about.started_unix + about.duration) / 1000,
    );
    let inlined = match version.parse::<u32>() {
        Ok(major) if major > 24 => Inlined::Shown,
        _ => Inlined::HiddenOnTop,
    };
    Comparison {
        theirs: inspector_samples(Path::new(&file), window),
        ours: own_samples(&recorded, target.pid(), inlined),
    }
}

impl SelfSamples {
    fn add(&mut self, label: Label) {
        *self.counts.entry(label).or_default() += 1;
        self.total += 1;
    }

    /// The same without columns, for sources that don't know them.
    pub(crate) fn without_columns(self) -> Self {
        let plain = |label: Label| Label { column: 0, ..label };
        let mut merged = Self {
            seen: self.seen.into_iter().map(plain).collect(),
            total: self.total,
            ..Default::default()
        };
        for (label, count) in self.counts {
            *merged.counts.entry(plain(label)).or_default() += count;
        }
        merged
    }

    /// Whether a label has so much time that the other side, with its samples, must know it.
    fn is_heavy(&self, label: &Label, other: &Self) -> bool {
        let count = self.counts.get(label).copied().unwrap_or(0);
        self.share(label) > 0.01 && !is_chance(count, self.total, other.total)
    }

    fn share(&self, label: &Label) -> f64 {
        let count = self.counts.get(label).copied().unwrap_or(0);
        super::recorded::share(count, self.total)
    }
}

impl Comparison {
    fn labels(&self) -> BTreeSet<&Label> {
        let both = self.theirs.counts.keys().chain(self.ours.counts.keys());
        both.collect()
    }

    /// Total variation distance in points.
    pub(crate) fn distance(&self) -> f64 {
        let apart: f64 = self
            .labels()
            .iter()
            .map(|label| (self.theirs.share(label) - self.ours.share(label)).abs())
            .sum();
        50.0 * apart
    }

    /// The distance two perfect profilers would have: what so many samples can't tell.
    pub(crate) fn noise(&self) -> f64 {
        let (theirs, ours) = (self.theirs.total as f64, self.ours.total as f64);
        let apart: f64 = self
            .labels()
            .iter()
            .map(|label| {
                let share = f64::midpoint(self.theirs.share(label), self.ours.share(label));
                let variance = share * (1.0 - share) * (1.0 / theirs + 1.0 / ours);
                (variance * 2.0 / std::f64::consts::PI).sqrt()
            })
            .sum();
        50.0 * apart
    }

    /// How far beyond that they may be once in ten thousand times. The distance is the largest difference that any set of
    /// labels has, so it varies no more than the one that varies most, which has about half of the samples.
    fn chance(&self) -> f64 {
        let samples = [self.theirs.total as f64, self.ours.total as f64];
        100.0 * margin_between(0.5, samples)
    }

    /// Fails the test unless both agree on the time of functions: to so many points beyond the noise, or to what so many
    /// samples can tell.
    #[track_caller]
    pub(crate) fn expect_near(&self, points: f64) {
        let most = self.noise() + points.max(self.chance());
        assert!(self.distance() <= most, "{}", self.table());
    }

    /// Labels with more than a hundredth of their time that nodespy does not have, although it has
    /// samples enough.
    pub(crate) fn missing(&self) -> Vec<&Label> {
        let heavy = |label: &&Label| self.theirs.is_heavy(label, &self.ours);
        let ours = |label: &&Label| self.ours.seen.contains(*label);
        let theirs = self.theirs.counts.keys();
        theirs.filter(heavy).filter(|label| !ours(label)).collect()
    }

    /// Labels with more than a hundredth of nodespy's time that they do not have, although they have
    /// samples enough.
    pub(crate) fn invented(&self) -> Vec<&Label> {
        let heavy = |label: &&Label| self.ours.is_heavy(label, &self.theirs);
        let theirs = |label: &&Label| self.theirs.seen.contains(*label);
        let ours = self.ours.counts.keys();
        ours.filter(heavy).filter(|label| !theirs(label)).collect()
    }

    /// Both answers side by side, the heaviest first.
    pub(crate) fn table(&self) -> String {
        let mut labels: Vec<&Label> = self.labels().into_iter().collect();
        let weight = |label: &Label| self.theirs.share(label) + self.ours.share(label);
        labels.sort_by(|one, other| weight(other).total_cmp(&weight(one)));
        let mut text = format!(
            "distance {:.1} points ({:.1} of it noise), {} samples of theirs, {} of nodespy\n\
                theirs  nodespy\n",
            self.distance(),
            self.noise(),
            self.theirs.total,
            self.ours.total
        );
        for label in labels.into_iter().take(50) {
            let _ = writeln!(
                text,
                "  {:5.1} %  {:5.1} %  {} {}:{}:{}",
                100.0 * self.theirs.share(label),
                100.0 * self.ours.share(label),
                label.name,
                label.file,
                label.line,
                label.column
            );
        }
        text
    }

    /// Fails the test unless both know the same heavy functions and agree on their time.
    #[track_caller]
    pub(crate) fn expect_agreement(&self, points: f64) {
        assert!(
            self.missing().is_empty() && self.invented().is_empty(),
            "only they have {:#?}\nonly nodespy has {:#?}\n{}",
            self.missing(),
            self.invented(),
            self.table()
        );
        self.expect_near(points);
    }
}

/// A script as both name it: V8's profiler writes the url of a file, V8 itself has its path.
fn plain_file(file: &str) -> String {
    file.strip_prefix("file://").unwrap_or(file).to_owned()
}

fn plain_name(name: &str) -> String {
    let name = if name.is_empty() { ANONYMOUS } else { name };
    name.to_owned()
}

/// The inspector's samples between two times, in microseconds since 1970.
fn inspector_samples(path: &Path, window: (u64, u64)) -> SelfSamples {
    let text = std::fs::read(path).unwrap();
    let profile: Value = serde_json::from_slice(&text).unwrap();
    let number = |value: &Value| value.as_f64().unwrap() as i64;
    let mut labels: BTreeMap<i64, Option<Label>> = BTreeMap::new();
    let mut parents: BTreeMap<i64, i64> = BTreeMap::new();
    for node in profile["nodes"].as_array().unwrap() {
        let id = number(&node["id"]);
        let frame = &node["callFrame"];
        let text = |key: &str| frame[key].as_str().unwrap_or_default();
        let (line, column) = (number(&frame["lineNumber"]), number(&frame["columnNumber"]));
        // V8's own functions and what is in parentheses have no line.
        let label = (line >= 0).then(|| Label {
            name: plain_name(text("functionName")),
            file: plain_file(text("url")),
            line: line as u32 + 1,
            column: column as u32 + 1,
        });
        labels.insert(id, label);
        for child in node["children"].as_array().into_iter().flatten() {
            parents.insert(number(child), id);
        }
    }
    let mut samples = SelfSamples {
        seen: labels.values().flatten().cloned().collect(),
        ..Default::default()
    };
    let mut time = number(&profile["startTime"]) + number(&profile["unixMinusMonotonic"]);
    let nodes = profile["samples"].as_array().unwrap();
    for (node, delta) in nodes.iter().zip(profile["timeDeltas"].as_array().unwrap()) {
        time += number(delta);
        if !(window.0..window.1).contains(&(time as u64)) {
            continue;
        }
        let mut node = Some(number(node));
        while let Some(id) = node {
            if let Some(label) = &labels[&id] {
                samples.add(label.clone());
                break;
            }
            node = parents.get(&id).copied();
        }
    }
    samples
}

/// What a frame of nodespy's is called, if it has a source.
pub(crate) fn label_of(profile: &Profile, frame: &Frame) -> Option<Label> {
    let function = profile.function(frame.function);
    (function.line > 0).then(|| Label {
        name: plain_name(profile.name_of(frame.function)),
        file: plain_file(profile.file_of(frame.function)),
        line: function.line,
        column: function.column,
    })
}

/// nodespy's samples of a process's main thread.
pub(crate) fn own_samples(recorded: &Recorded, pid: u32, inlined: Inlined) -> SelfSamples {
    let profile = &recorded.profile;
    let mut samples = SelfSamples::default();
    let on_main = |sample: &&Sample| recorded.thread_of(sample).tid == pid;
    for stack in profile
        .samples
        .iter()
        .filter(on_main)
        .filter_map(|sample| sample.stack)
    {
        let frames: Vec<&Frame> = profile
            .frames_of(stack)
            .map(|frame| profile.frame(frame))
            .collect();
        let mut labels: Vec<Option<Label>> = frames
            .iter()
            .map(|frame| label_of(profile, frame))
            .collect();
        let mut is_top = true;
        for (frame, label) in frames.iter().zip(&mut labels) {
            let category = profile.function(frame.function).category;
            let is_hidden = match inlined {
                Inlined::Shown => false,
                Inlined::HiddenOnTop => is_top && frame.kind.is_inlined(),
                Inlined::Hidden => frame.kind.is_inlined(),
                Inlined::HiddenAnonymous => label.as_ref().is_some_and(Label::is_anonymous),
            };
            if is_hidden {
                *label = None;
            }
            is_top &= category == Category::Kernel || frame.kind.is_inlined();
        }
        let nearest = labels.iter().position(Option::is_some);
        samples.seen.extend(labels.iter().flatten().cloned());
        let Some(nearest) = nearest else { continue };
        let is_collecting = frames[..nearest]
            .iter()
            .any(|frame| profile.function(frame.function).category == Category::Gc);
        if !is_collecting && let Some(label) = &labels[nearest] {
            samples.add(label.clone());
        }
    }
    samples
}
