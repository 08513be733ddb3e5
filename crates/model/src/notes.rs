//! What was lost, cut or guessed, and how much: the quality that travels with the data.

/// Where the name of a JIT-compiled frame came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameSource {
    /// V8's own heap, read from outside.
    HeapWalk,
    /// `jit-PID.dump`, written by `node --perf-prof`.
    Jitdump,
    /// `perf-PID.map`, written by `node --perf-basic-prof`.
    PerfMap,
    /// The names were in the file that was imported.
    File,
    /// V8's own profiler, which sampled the same moment.
    Inspector,
}

impl NameSource {
    /// Every source, in the order they are asked and stored.
    pub const ALL: [Self; 5] = [
        Self::HeapWalk,
        Self::Jitdump,
        Self::PerfMap,
        Self::File,
        Self::Inspector,
    ];

    /// Its position in [`Self::ALL`].
    pub fn at(self) -> usize {
        self as usize
    }

    /// The words shown for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::HeapWalk => "heap walk",
            Self::Jitdump => "jitdump",
            Self::PerfMap => "perf map",
            Self::File => "file",
            Self::Inspector => "V8's profiler",
        }
    }
}

/// What the reader of a profile should know about its quality.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Notes {
    /// Samples the kernel dropped because the ring was full.
    pub lost_samples: u64,
    /// Records about threads and mappings that were dropped.
    pub lost_records: u64,
    /// How often the kernel throttled the sampling.
    pub throttled: u64,
    /// Samples whose user stack was larger than the copy taken of it.
    pub cut_stacks: u64,
    /// Samples whose user stack could not be followed to the thread's root.
    pub incomplete_stacks: u64,
    /// Samples that had a user stack to follow.
    pub unwound_stacks: u64,
    /// JIT frames seen, counted once per sample and frame.
    pub jit_frames: u64,
    /// JIT frames named, by [`NameSource::ALL`] order.
    pub jit_named: [u64; 5],
    /// Sentences for the reader, each said once.
    pub remarks: Vec<String>,
}

/// The shares a confidence line is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confidence {
    /// Share of JIT frames that have a name, 0 to 1; 1 when there are none.
    pub jit_named: f64,
    /// Share of user stacks that reach the thread's root, 0 to 1.
    pub complete: f64,
}

/// How many remarks are kept: more than a person reads, and few enough to search for each new one.
const MAX_REMARKS: usize = 256;
/// The last one where there would be more.
const MORE_REMARKS: &str = "there are more remarks, which are left out";

/// How a remark about filters starts.
const FILTERED: &str = "filtered: ";
/// How a remark about a CPU quota starts.
const LIMITED: &str = "the CPU quota of ";
/// How a remark about another recording of the same moments starts.
const CROSS_CHECKED: &str = "cross-check: ";

impl Notes {
    /// Says which filters made this profile out of a larger one, before everything else.
    pub fn add_filter(&mut self, sentence: &str) {
        self.remarks.insert(0, format!("{FILTERED}{sentence}"));
    }

    /// The remarks about filters: with any, the profile is a part of what was recorded.
    pub fn filters(&self) -> impl Iterator<Item = &str> {
        let remarks = self.remarks.iter().map(String::as_str);
        remarks.filter(|remark| remark.starts_with(FILTERED))
    }

    /// Says what another recording of the same moments says of this one.
    pub fn add_cross_check(&mut self, clause: &str) {
        self.remark(format!("{CROSS_CHECKED}{clause}"));
    }

    /// What other recordings of the same moments say, as clauses: part of how sure a profile is.
    pub fn cross_checks(&self) -> impl Iterator<Item = &str> {
        let remarks = self.remarks.iter().map(String::as_str);
        remarks.filter_map(|remark| remark.strip_prefix(CROSS_CHECKED))
    }

    /// Says what a CPU quota took away, starting with whose quota it is.
    pub fn add_quota_remark(&mut self, of_whom: &str) {
        self.remark(format!("{LIMITED}{of_whom}"));
    }

    /// What CPU quotas took away, as sentences: time that no sample shows.
    pub fn quota_remarks(&self) -> impl Iterator<Item = &str> {
        let remarks = self.remarks.iter().map(String::as_str);
        remarks.filter(|remark| remark.starts_with(LIMITED))
    }

    /// The remarks that are no finding, no filter and no cross-check.
    pub fn other_remarks(&self) -> impl Iterator<Item = &str> {
        let is_special = |remark: &&str| {
            let starts = [FILTERED, CROSS_CHECKED, LIMITED];
            starts.iter().any(|start| remark.starts_with(start))
        };
        let remarks = self.remarks.iter().map(String::as_str);
        remarks.filter(move |remark| !is_special(remark))
    }

    /// Adds a sentence unless it is there already.
    pub fn remark(&mut self, sentence: impl Into<String>) {
        let sentence = sentence.into();
        if self.remarks.len() > MAX_REMARKS || self.remarks.contains(&sentence) {
            return;
        }
        self.remarks.push(match self.remarks.len() {
            MAX_REMARKS => MORE_REMARKS.to_owned(),
            _ => sentence,
        });
    }

    /// How much of the profile is sure.
    pub fn confidence(&self) -> Confidence {
        let named = self
            .jit_named
            .iter()
            .fold(0u64, |sum, named| sum.saturating_add(*named));
        let share = |part: u64, whole: u64| match whole {
            0 => 1.0,
            whole => part.min(whole) as f64 / whole as f64,
        };
        Confidence {
            jit_named: share(named, self.jit_frames),
            complete: 1.0
                - if self.unwound_stacks == 0 {
                    0.0
                } else {
                    share(self.incomplete_stacks, self.unwound_stacks)
                },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_without_end_are_a_few_and_a_sentence() {
        let mut notes = Notes::default();
        for number in 0..1_000_000 {
            notes.remark(format!("remark {number}"));
        }
        assert_eq!(notes.remarks.len(), MAX_REMARKS + 1);
        assert_eq!(notes.remarks[MAX_REMARKS], MORE_REMARKS);
        notes.remark("remark 3");
        assert_eq!(notes.remarks.len(), MAX_REMARKS + 1);
    }
}
