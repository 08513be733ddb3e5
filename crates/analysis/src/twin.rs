//! Two recordings of the same moments, joined on one clock.
//!
//! One has whole stacks read from outside, the other what V8 itself says of its JavaScript. Where
//! both took a sample within a moment they are compared, which shows whether the names read from
//! outside are right; and where code has no name, V8's names take its place.

use nodespy_model::FastMap;
use nodespy_model::NameSource;
use nodespy_model::ProfileBuilder;
use nodespy_model::{
    Category, FrameIndex, FunctionIndex, Nanoseconds, Profile, Sample, SmallSort, StackIndex,
    ThreadIndex,
};
use nodespy_model::{Thread, ThreadRole};
use nodespy_model::{add_stacks, add_threads, moved_samples};

/// How two recordings of the same moments compare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Samples with JavaScript on the stack, taken while both recorded.
    pub javascript: u64,
    /// Those of them that have a twin.
    pub joined: u64,
    /// Twins that both name a JavaScript function.
    pub compared: u64,
    /// Those of them where the innermost function of one is on the stack of the other: V8 counts
    /// what it inlined for the caller.
    pub agreeing: u64,
    /// Frames that got V8's names because they had none.
    pub named: u64,
}

/// Samples of one thread in order of time.
type Line = Vec<(Nanoseconds, Option<StackIndex>)>;

/// Joins `twin`, whose clock started `earlier` by so much, to `profile`: samples at most `within` of
/// each other are of the same moment. Frames without a name are replaced by those of the twin.
pub fn join_twins(
    profile: Profile,
    twin: &Profile,
    earlier: Nanoseconds,
    within: Nanoseconds,
) -> (Profile, Agreement) {
    let mut builder = ProfileBuilder::with_events(profile.events.clone());
    let threads = add_threads(&mut builder, &profile);
    let samples = moved_samples(&mut builder, &profile, |thread| threads[thread.at()]);
    let lines = lines_of(&mut builder, &profile, twin, earlier);
    let mut joiner = Joiner {
        builder,
        places: FastMap::default(),
        agreement: Agreement::default(),
    };
    for sample in samples {
        let line = lines.get(&sample.thread).filter(|line| {
            let (first, last) = (line.first(), line.last());
            first.is_some_and(|(first, _)| *first <= sample.time)
                && last.is_some_and(|(last, _)| *last >= sample.time)
        });
        let joined = match line {
            Some(line) => joiner.join(sample, &twins_of(line, sample.time, within)),
            None => sample,
        };
        joiner.builder.add_sample(joined);
    }
    let mut notes = profile.notes;
    notes.jit_named[NameSource::Inspector.at()] += joiner.agreement.named;
    let joined = joiner.builder.finish(profile.about, notes);
    (joined, joiner.agreement)
}

/// The twin's samples by the thread of `profile` they are of.
fn lines_of(
    builder: &mut ProfileBuilder,
    profile: &Profile,
    twin: &Profile,
    earlier: Nanoseconds,
) -> FastMap<ThreadIndex, Line> {
    let stacks = add_stacks(builder, twin);
    let partners: Vec<Option<ThreadIndex>> = twin
        .threads
        .iter()
        .map(|thread| partner_of(profile, twin, thread))
        .collect();
    let mut lines: FastMap<ThreadIndex, Line> = FastMap::default();
    for sample in &twin.samples {
        let time = sample.time.checked_sub(earlier);
        if let (Some(partner), Some(time)) = (partners[sample.thread.at()], time) {
            let stack = sample.stack.map(|stack| stacks[stack.at()]);
            lines.entry(partner).or_default().push((time, stack));
        }
    }
    lines
}

/// The thread of `profile` that `thread` of its twin is.
fn partner_of(profile: &Profile, twin: &Profile, thread: &Thread) -> Option<ThreadIndex> {
    let pid = twin.processes[thread.process.at()].pid;
    let is_partner = |other: &Thread| {
        let is_same_process = profile.processes[other.process.at()].pid == pid;
        let is_same_thread = match thread.role {
            ThreadRole::Main => other.tid == pid,
            _ if thread.tid != 0 => other.tid == thread.tid,
            _ => other.role == ThreadRole::Worker && other.name == thread.name,
        };
        is_same_process && is_same_thread
    };
    let mut found = (0..)
        .zip(&profile.threads)
        .filter(|(_, other)| is_partner(other));
    match (found.next(), found.next()) {
        (Some((position, _)), None) => Some(ThreadIndex(position)),
        _ => None,
    }
}

/// The samples before and after a moment that are near enough, the nearest first.
fn twins_of(line: &Line, time: Nanoseconds, within: Nanoseconds) -> Vec<Option<StackIndex>> {
    let after = line.partition_point(|(other, _)| *other < time);
    let mut near: Vec<(Nanoseconds, Option<StackIndex>)> = [after.checked_sub(1), Some(after)]
        .into_iter()
        .flatten()
        .filter_map(|position| line.get(position))
        .map(|(other, stack)| (other.abs_diff(time), *stack))
        .filter(|(distance, _)| *distance <= within)
        .collect();
    near.small_sort_by_key(|(distance, _)| *distance);
    near.into_iter().map(|(_, stack)| stack).collect()
}

/// Where a function is in the sources: what both recordings know of it.
type Place = (String, u32, u32);

struct Joiner {
    builder: ProfileBuilder,
    places: FastMap<FunctionIndex, Option<Place>>,
    agreement: Agreement,
}

impl Joiner {
    fn join(&mut self, sample: Sample, twins: &[Option<StackIndex>]) -> Sample {
        let Some(stack) = sample.stack else {
            return sample;
        };
        let frames: Vec<FrameIndex> = self.builder.so_far().frames_of(stack).collect();
        if !frames.iter().any(|frame| self.is_javascript(*frame)) {
            return sample;
        }
        self.agreement.javascript += 1;
        if twins.is_empty() {
            return sample;
        }
        self.agreement.joined += 1;
        let nameless = frames
            .iter()
            .filter(|frame| self.is_nameless(**frame))
            .count();
        if nameless == 0 {
            self.compare(&frames, twins);
            return sample;
        }
        let replaced = twins
            .iter()
            .flatten()
            .find_map(|twin| self.named_by(&frames, *twin));
        match replaced {
            Some(stack) => {
                self.agreement.named += nameless as u64;
                Sample {
                    stack: Some(stack),
                    ..sample
                }
            }
            None => sample,
        }
    }

    /// Whether one of the twins says the same. Functions change within the moment between two
    /// samples, so either of them will do.
    fn compare(&mut self, frames: &[FrameIndex], twins: &[Option<StackIndex>]) {
        let ours = self.places_of(frames.to_vec());
        let theirs: Vec<Vec<Place>> = twins
            .iter()
            .flatten()
            .map(|twin| {
                let frames = self.builder.so_far().frames_of(*twin).collect();
                self.places_of(frames)
            })
            .filter(|places| !places.is_empty())
            .collect();
        let Some(innermost) = ours.first() else {
            return;
        };
        if theirs.is_empty() {
            return;
        }
        self.agreement.compared += 1;
        let agrees = |theirs: &Vec<Place>| ours.contains(&theirs[0]) || theirs.contains(innermost);
        self.agreement.agreeing += u64::from(theirs.iter().any(agrees));
    }

    /// The places of the functions that have one, innermost first.
    fn places_of(&mut self, frames: Vec<FrameIndex>) -> Vec<Place> {
        let places = frames.into_iter().filter_map(|frame| {
            let profile = self.builder.so_far();
            let index = profile.frame(frame).function;
            let place = self.places.entry(index).or_insert_with(|| {
                let function = profile.function(index);
                let file = profile.file_of(index);
                // V8's profiler has the url of a file, V8 itself its path.
                let file = file.strip_prefix("file://").unwrap_or(file);
                (function.line > 0).then(|| (file.to_owned(), function.line, function.column))
            });
            place.clone()
        });
        places.collect()
    }

    /// The stack with the twin's JavaScript in place of its own.
    fn named_by(&mut self, frames: &[FrameIndex], twin: StackIndex) -> Option<StackIndex> {
        let theirs: Vec<FrameIndex> = self
            .builder
            .so_far()
            .frames_of(twin)
            .filter(|frame| self.is_javascript(*frame))
            .collect();
        let inner = frames.iter().position(|frame| self.is_javascript(*frame))?;
        let outer = frames
            .iter()
            .rposition(|frame| self.is_javascript(*frame))?;
        if theirs.is_empty() {
            return None;
        }
        let whole = frames[..inner]
            .iter()
            .chain(&theirs)
            .chain(&frames[outer + 1..]);
        let mut stack = None;
        for frame in whole.rev() {
            stack = Some(self.builder.stack(stack, *frame));
        }
        stack
    }

    fn category(&self, frame: FrameIndex) -> Category {
        let profile = self.builder.so_far();
        profile.function(profile.frame(frame).function).category
    }

    fn is_nameless(&self, frame: FrameIndex) -> bool {
        self.category(frame) == Category::Unknown
    }

    fn is_javascript(&self, frame: FrameIndex) -> bool {
        let category = self.category(frame);
        category.is_javascript() && category != Category::Internal || self.is_nameless(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::{About, FrameSpec, FunctionSpec, Notes, Process, WeightUnit};

    /// A profile of one thread: each sample a time and the functions from the outermost on. One
    /// that starts with a dot has no name; one with a star is native.
    fn profile(samples: &[(Nanoseconds, &[&'static str])]) -> Profile {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        let process = builder.process(Process {
            pid: 7,
            ..Process::default()
        });
        let thread = builder.thread(Thread {
            process,
            tid: 7,
            role: ThreadRole::Main,
            ..Thread::default()
        });
        for (time, names) in samples {
            let mut stack = None;
            for name in *names {
                let (category, line) = match name.chars().next() {
                    Some('.') => (Category::Unknown, 0),
                    Some('*') => (Category::Native, 0),
                    _ => (Category::App, name.len() as u32),
                };
                let frame = builder.frame(FrameSpec {
                    function: FunctionSpec {
                        name,
                        file: if line > 0 { name } else { "" },
                        line,
                        category,
                        ..FunctionSpec::default()
                    },
                    ..FrameSpec::default()
                });
                stack = Some(builder.stack(stack, frame));
            }
            builder.sample(*time, thread, stack, 1);
        }
        builder.finish(About::default(), Notes::default())
    }

    fn names(profile: &Profile, sample: usize) -> Vec<&str> {
        let stack = profile.samples[sample].stack.unwrap();
        let frames = profile.frames_of(stack);
        frames
            .map(|frame| profile.name_of(profile.frame(frame).function))
            .collect()
    }

    #[test]
    fn twins_are_compared_within_a_moment() {
        let ours = profile(&[
            (10, &["a", "b"]),
            (20, &["a", "inlined"]),
            (30, &["other"]),
            (60, &["a"]),
            (80, &["*native"]),
            (99, &["after the end"]),
        ]);
        let twin = profile(&[
            (5, &["*before"]),
            (111, &["a", "b"]),
            (122, &["a"]),
            (132, &["a"]),
            (190, &["a"]),
        ]);
        let (joined, agreement) = join_twins(ours.clone(), &twin, 100, 5);
        // The first is before the twin's first sample, the last after its last.
        assert_eq!(
            agreement,
            Agreement {
                javascript: 3,
                joined: 2,
                compared: 2,
                agreeing: 1,
                named: 0,
            }
        );
        assert_eq!(joined.samples.len(), ours.samples.len());
        assert_eq!(names(&joined, 1), ["inlined", "a"]);
    }

    #[test]
    fn code_without_a_name_gets_v8s_names_and_keeps_what_is_around_it() {
        let ours = profile(&[(10, &["*main", ".", ".", "*read"])]);
        let twin = profile(&[(9, &["a", "b"]), (12, &["*idle"])]);
        let (joined, agreement) = join_twins(ours, &twin, 0, 5);
        assert_eq!(names(&joined, 0), ["*read", "b", "a", "*main"]);
        assert_eq!(agreement.named, 2);
        assert_eq!(joined.notes.jit_named[NameSource::Inspector.at()], 2);
    }
}
