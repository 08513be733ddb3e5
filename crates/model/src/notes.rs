//! What was lost, cut or guessed, and how much: the quality that travels with the data.

use std::borrow::Cow;

use crate::text::printable;

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

/// How far the suspended functions behind continuations could be followed: samples by how that ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AsyncCallers {
    /// To the outermost function, whose promise has no reactions.
    pub whole: u64,
    /// To a promise that was settled already: the continuation was about to end.
    pub settled: u64,
    /// Not at all: between two continuations.
    pub lost: u64,
    /// To memory that is no promise, or could not be read.
    pub broken: u64,
    /// Those of all of them where several functions await one promise, and the last of them is shown.
    pub siblings: u64,
    /// Samples in no continuation but in a callback that resolves what they await.
    pub callbacks: u64,
}

impl AsyncCallers {
    /// How many samples were in a continuation.
    pub fn continuations(&self) -> u64 {
        [self.settled, self.lost, self.broken]
            .into_iter()
            .fold(self.whole, u64::saturating_add)
    }

    /// Adds those of other samples.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in [
            (&mut self.whole, other.whole),
            (&mut self.settled, other.settled),
            (&mut self.lost, other.lost),
            (&mut self.broken, other.broken),
            (&mut self.siblings, other.siblings),
            (&mut self.callbacks, other.callbacks),
        ] {
            *count = count.saturating_add(more);
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
    /// How far the callers of continuations were followed across their `await`s.
    pub async_callers: AsyncCallers,
    /// Sentences about the filters that made this profile out of a larger one, the last first: with
    /// any, the profile is a part of what was recorded.
    pub filters: Vec<String>,
    /// What other recordings of the same moments say of this one, as clauses.
    pub cross_checks: Vec<String>,
    /// Why a flight recorder wrote this profile, as sentences.
    pub triggers: Vec<String>,
    /// What CPU quotas took away, as sentences: time that no sample shows.
    pub quotas: Vec<String>,
    /// Other sentences for the reader, each said once.
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

/// How a sentence about filters starts.
const FILTERED: &str = "filtered: ";
/// How one about another recording of the same moments starts where all are in one list.
const CROSS_CHECKED: &str = "cross-check: ";
/// How a sentence about a CPU quota starts.
const LIMITED: &str = "the CPU quota of ";
/// How a sentence about what a flight recorder saw starts.
const TRIGGERED: &str = "written because ";

impl Notes {
    /// Says which filter made this profile out of a larger one.
    pub fn add_filter(&mut self, filter: &str) {
        if self.filters.len() < MAX_REMARKS {
            self.filters.insert(0, format!("{FILTERED}{filter}"));
        }
    }

    /// Says what another recording of the same moments says of this one.
    pub fn add_cross_check(&mut self, clause: impl Into<String>) {
        add_once(&mut self.cross_checks, clause.into());
    }

    /// Says what a CPU quota took away, starting with whose quota it is.
    pub fn add_quota(&mut self, of_whom: &str) {
        add_once(&mut self.quotas, format!("{LIMITED}{of_whom}"));
    }

    /// Says why a flight recorder wrote this profile, as a clause. Names in it may be anything: it is made
    /// printable.
    pub fn add_trigger(&mut self, clause: &str) {
        let sentence = format!("{TRIGGERED}{}", printable(clause));
        add_once(&mut self.triggers, sentence);
    }

    /// Adds a sentence unless it is there already. Paths in it may be anything: it is made printable.
    pub fn remark(&mut self, sentence: impl Into<String>) {
        let sentence = sentence.into();
        let sentence = match printable(&sentence) {
            Cow::Owned(printable) => printable,
            Cow::Borrowed(_) => sentence,
        };
        add_once(&mut self.remarks, sentence);
    }

    /// Adds everything that other notes say in words.
    pub fn add_sentences(&mut self, other: &Self) {
        let room = MAX_REMARKS.saturating_sub(self.filters.len());
        let filters = other.filters.iter().take(room).cloned();
        self.filters.extend(filters);
        let clauses = other.cross_checks.iter();
        clauses.for_each(|clause| self.add_cross_check(clause));
        let triggers = other.triggers.iter().cloned();
        triggers.for_each(|trigger| add_once(&mut self.triggers, trigger));
        let quotas = other.quotas.iter().cloned();
        quotas.for_each(|quota| add_once(&mut self.quotas, quota));
        let remarks = other.remarks.iter();
        remarks.for_each(|remark| self.remark(remark));
    }

    /// Everything that is said in words as one list, for formats and readers that know no kinds of
    /// sentences.
    pub fn sentences(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let clauses = self.cross_checks.iter();
        let clauses = clauses.map(|it| Cow::Owned(format!("{CROSS_CHECKED}{it}")));
        let others = self.quotas.iter().chain(&self.remarks);
        let first = self.triggers.iter().chain(&self.filters);
        first
            .map(Cow::from)
            .chain(clauses)
            .chain(others.map(Cow::from))
    }

    /// Takes the next sentence of such a list back.
    pub fn take_sentence(&mut self, sentence: &str) {
        if sentence.starts_with(FILTERED) {
            if self.filters.len() < MAX_REMARKS {
                self.filters.push(sentence.to_owned());
            }
        } else if let Some(clause) = sentence.strip_prefix(CROSS_CHECKED) {
            self.add_cross_check(clause);
        } else if sentence.starts_with(TRIGGERED) {
            add_once(&mut self.triggers, sentence.to_owned());
        } else if sentence.starts_with(LIMITED) {
            add_once(&mut self.quotas, sentence.to_owned());
        } else {
            self.remark(sentence);
        }
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

/// Adds a sentence unless it is there already, or there are too many.
fn add_once(list: &mut Vec<String>, sentence: String) {
    if list.len() > MAX_REMARKS || list.contains(&sentence) {
        return;
    }
    list.push(match list.len() {
        MAX_REMARKS => MORE_REMARKS.to_owned(),
        _ => sentence,
    });
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

    #[test]
    fn a_remark_about_a_path_says_nothing_to_the_terminal() {
        let mut notes = Notes::default();
        notes.remark("/tmp/\u{1b}[2J\n is not used for names");
        assert!(!notes.remarks[0].contains(char::is_control), "{notes:?}");
        assert!(notes.remarks[0].ends_with(" is not used for names"));
    }

    #[test]
    fn sentences_of_every_kind_go_through_one_list() {
        let mut notes = Notes::default();
        notes.remark("one");
        notes.add_trigger("SIGUSR2 came");
        notes.add_filter("--focus a");
        notes.add_cross_check("V8 agrees");
        notes.add_filter("--hide b");
        notes.remark("one");
        let list: Vec<String> = notes.sentences().map(Cow::into_owned).collect();
        assert_eq!(
            list,
            [
                "written because SIGUSR2 came",
                "filtered: --hide b",
                "filtered: --focus a",
                "cross-check: V8 agrees",
                "one"
            ]
        );
        let mut back = Notes::default();
        list.iter()
            .for_each(|sentence| back.take_sentence(sentence));
        assert_eq!(back, notes);
        let mut merged = Notes::default();
        merged.add_sentences(&notes);
        assert_eq!(merged, notes);
    }

    #[test]
    fn a_list_of_filters_without_end_is_cut() {
        let mut notes = Notes::default();
        for number in 0..10_000 {
            notes.take_sentence(&format!("filtered: {number}"));
            notes.add_filter("more");
        }
        assert_eq!(notes.filters.len(), MAX_REMARKS);
    }
}
