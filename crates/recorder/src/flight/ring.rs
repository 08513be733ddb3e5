//! What was recorded lately, in memory of our own: a ring by time.
//!
//! Slices come in a second at a time, each with tables of its own. A few of them become a chunk, with
//! tables in common; chunks that are too old are dropped whole, and nothing of them stays.

use std::collections::VecDeque;
use std::time::Duration;

use nodespy_analysis::{only_between, without_unused};
use nodespy_formats::merge_slices;
use nodespy_model::{Nanoseconds, Profile};

/// How many chunks what is kept is divided into.
const CHUNKS: Nanoseconds = 8;
/// A chunk has a few slices at least.
const MIN_CHUNK: Nanoseconds = 2_000_000_000;
/// More samples are not kept, however long a time is wanted: about 40 bytes each.
const MAX_SAMPLES: usize = 4_000_000;

/// The last slices of a recording.
#[derive(Debug)]
pub struct Ring {
    keep: Nanoseconds,
    /// The oldest first.
    chunks: VecDeque<Chunk>,
    /// Slices that are in no chunk yet.
    fresh: Vec<Profile>,
    /// When the first of them starts.
    fresh_since: Nanoseconds,
    /// What the first slice has to say: what was found when the engine was attached.
    remarks: Option<Vec<String>>,
}

#[derive(Debug)]
struct Chunk {
    since: Nanoseconds,
    until: Nanoseconds,
    profile: Profile,
}

impl Ring {
    /// Keeps what is no older than `keep`.
    pub fn new(keep: Duration) -> Self {
        Self {
            keep: keep.as_nanos() as Nanoseconds,
            chunks: VecDeque::new(),
            fresh: Vec::new(),
            fresh_since: 0,
            remarks: None,
        }
    }

    /// Adds a slice, whose times and duration count from the start of the recording.
    pub fn add(&mut self, slice: Profile) {
        let now = slice.about.duration;
        let remarks = &slice.notes.remarks;
        self.remarks.get_or_insert_with(|| remarks.clone());
        // There is no process yet, so it is not known what samples will be of.
        if !slice.processes.is_empty() {
            self.fresh.push(slice);
        }
        if now.saturating_sub(self.fresh_since) >= (self.keep / CHUNKS).max(MIN_CHUNK) {
            self.close_chunk(now);
        }
    }

    fn close_chunk(&mut self, now: Nanoseconds) {
        let slices = std::mem::take(&mut self.fresh);
        let since = std::mem::replace(&mut self.fresh_since, now);
        if !slices.is_empty() {
            self.chunks.push_back(Chunk {
                since,
                until: now,
                profile: merge_slices(slices.iter()),
            });
        }
    }

    /// Forgets what is older than is to be kept; with `from` what ended before that instead.
    pub fn forget_old(&mut self, now: Nanoseconds, from: Option<Nanoseconds>) {
        let from = from.unwrap_or_else(|| now.saturating_sub(self.keep));
        while let Some(oldest) = self.chunks.front()
            && (oldest.until <= from || self.sample_count() > MAX_SAMPLES)
        {
            self.chunks.pop_front();
        }
    }

    fn sample_count(&self) -> usize {
        let chunks = self.chunks.iter().map(|chunk| &chunk.profile);
        chunks
            .chain(&self.fresh)
            .map(|profile| profile.samples.len())
            .sum()
    }

    /// What is there from a moment on, as a recording of its own, and when it starts.
    pub fn profile_from(&self, from: Nanoseconds) -> (Profile, Nanoseconds) {
        let oldest = self.chunks.front().map_or(self.fresh_since, |it| it.since);
        let start = from.max(oldest);
        let chunks = self.chunks.iter().map(|chunk| &chunk.profile);
        let merged = merge_slices(chunks.chain(&self.fresh));
        let mut profile = without_unused(only_between(merged, start, Nanoseconds::MAX));
        for remark in self.remarks.iter().flatten() {
            profile.notes.remark(remark);
        }
        (profile, start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::{
        About, FrameSpec, FunctionSpec, Notes, Process, ProfileBuilder, Thread, WeightUnit,
    };

    const SECOND: Nanoseconds = 1_000_000_000;

    /// The slice that ends after `second` seconds, with a sample of a function that no other has.
    fn slice(second: u64) -> Profile {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        let process = builder.process(Process {
            pid: 7,
            ..Process::default()
        });
        let thread = builder.thread(Thread {
            process,
            tid: 7,
            ..Thread::default()
        });
        let frame = builder.frame(FrameSpec {
            function: FunctionSpec {
                name: &format!("function {second}"),
                ..FunctionSpec::default()
            },
            ..FrameSpec::default()
        });
        let stack = builder.stack(None, frame);
        builder.sample(second * SECOND - SECOND / 2, thread, Some(stack), 1);
        let about = About {
            duration: second * SECOND,
            started_unix: 1000 * SECOND,
            ..About::default()
        };
        let mut notes = Notes::default();
        if second == 1 {
            notes.remark("attached");
        }
        builder.finish(about, notes)
    }

    fn after(seconds: u64) -> Ring {
        let mut ring = Ring::new(Duration::from_secs(30));
        for second in 1..=seconds {
            ring.add(slice(second));
            ring.forget_old(second * SECOND, None);
        }
        ring
    }

    #[test]
    fn only_what_is_to_be_kept_is_there_and_its_tables_have_nothing_else() {
        let ring = after(1000);
        let (profile, start) = ring.profile_from(970 * SECOND);
        assert_eq!(start, 970 * SECOND);
        assert_eq!(profile.samples.len(), 30);
        assert_eq!(profile.functions.len(), 30);
        assert_eq!(profile.threads.len(), 1);
        assert_eq!(profile.about.duration, 30 * SECOND);
        assert_eq!(profile.about.started_unix, 1970 * SECOND);
        assert_eq!(profile.samples[0].time, SECOND / 2);
        assert_eq!(profile.notes.remarks, ["attached"]);
    }

    #[test]
    fn it_holds_a_few_chunks_however_long_it_goes_on() {
        let ring = after(1000);
        let rows: usize = ring
            .chunks
            .iter()
            .map(|it| it.profile.functions.len())
            .sum();
        assert!(rows + ring.fresh.len() < 40, "{rows}");
        assert!(ring.chunks.len() <= CHUNKS as usize + 2);
    }

    #[test]
    fn nothing_is_forgotten_while_a_file_waits_for_its_end() {
        let mut ring = after(100);
        for second in 101..=120 {
            ring.add(slice(second));
            ring.forget_old(second * SECOND, Some(70 * SECOND));
        }
        let (profile, _) = ring.profile_from(70 * SECOND);
        assert_eq!(profile.samples.len(), 50);
    }

    #[test]
    fn a_recording_that_has_just_begun_has_what_there_is() {
        let (profile, start) = after(3).profile_from(0);
        assert_eq!((profile.samples.len(), start), (3, 0));
        let (nothing, _) = Ring::new(Duration::from_secs(30)).profile_from(0);
        assert!(nothing.samples.is_empty());
    }
}
