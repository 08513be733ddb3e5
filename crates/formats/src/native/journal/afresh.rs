//! A journal whose tables have started afresh: what was read before and after is put together.

use nodespy_model::{Profile, Sample};

use super::super::read::Tables;
use super::super::samples::TOO_HEAVY;
use super::merged::{Merged, Rows};
use crate::import::ImportError;

/// How many stacks and threads tables have at least before they start afresh: how often a reader puts
/// tables together follows from it.
const MANY_STACKS: usize = 1 << 14;
const MANY_THREADS: usize = 1 << 9;
/// How much larger they are by then than with the first block alone: where that has many rows already,
/// they would be written again and again.
const GROWTH: usize = 4;

/// Whether a writer whose tables have grown from `first` to `written` starts them afresh.
pub(super) fn is_due(first: Rows, written: Rows) -> bool {
    let has_grown = |first: usize, written: usize, many: usize| {
        written >= many && written >= first.saturating_mul(GROWTH)
    };
    has_grown(first.stacks, written.stacks, MANY_STACKS)
        || has_grown(first.threads, written.threads, MANY_THREADS)
}

/// What was read of a journal: tables that are whole, and those that grow.
pub(super) struct Reading {
    before: Option<Whole>,
    pub(super) tables: Tables,
}

impl Reading {
    pub(super) fn new(tables: Tables) -> Self {
        Self {
            before: None,
            tables,
        }
    }

    /// From here on the tables are new ones.
    pub(super) fn start_afresh(&mut self, at: u64) -> Result<(), ImportError> {
        let (stacks, threads) = self.tables.size();
        let is_many = stacks >= MANY_STACKS || threads >= MANY_THREADS;
        if !is_many || !self.tables.has_processes() {
            return Err(ImportError::BadContent {
                at,
                what: format!("its tables start afresh after {stacks} stacks"),
            });
        }
        let fresh = self.tables.afresh();
        let read = std::mem::replace(&mut self.tables, fresh);
        let read = read.into_sorted_profile()?;
        self.before.get_or_insert_default().add(&read);
        Ok(())
    }

    pub(super) fn has_samples(&self) -> bool {
        self.before.is_some() || self.tables.has_samples()
    }

    /// Everything that was read.
    pub(super) fn finish(self) -> Result<Profile, ImportError> {
        let last = self.tables.into_sorted_profile()?;
        match self.before {
            None => Ok(last),
            Some(mut whole) => {
                whole.add(&last);
                whole.finish()
            }
        }
    }
}

#[derive(Default)]
struct Whole {
    merged: Merged,
    samples: Vec<Sample>,
}

impl Whole {
    fn add(&mut self, part: &Profile) {
        // A block that is damaged may leave tables without anything in them.
        if !part.processes.is_empty() {
            self.samples.extend(self.merged.add_rows(part));
        }
    }

    fn finish(self) -> Result<Profile, ImportError> {
        let profile = self.merged.finish(self.samples);
        let mut totals = vec![0u64; profile.events.len()];
        for sample in &profile.samples {
            let total = &mut totals[sample.event.at()];
            *total = total
                .checked_add(sample.weight)
                .ok_or_else(|| ImportError::BadContent {
                    at: 0,
                    what: TOO_HEAVY.to_owned(),
                })?;
        }
        Ok(profile)
    }
}

#[cfg(test)]
mod tests {
    use nodespy_model::{
        About, FrameSpec, FunctionSpec, Notes, Process, ProfileBuilder, Thread, ThreadRole,
        WeightUnit,
    };

    use super::super::{JournalWriter, pack_block, read_journal, section};
    use super::*;
    use crate::input::Input;

    const STACKS: u32 = 5_000;
    const SLICES: u32 = 12;

    /// A slice with stacks that no other has, on the main thread and a worker of its own.
    fn slice(number: u32) -> Profile {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        let process = builder.process(Process {
            pid: 7,
            ..Process::default()
        });
        let mut thread = |tid, role, name: &str| {
            builder.thread(Thread {
                process,
                tid,
                role,
                name: name.to_owned(),
                ..Thread::default()
            })
        };
        let main = thread(7, ThreadRole::Main, "node");
        let worker = thread(100 + number, ThreadRole::Worker, "worker 1");
        for line in 0..STACKS {
            let frame = builder.frame(FrameSpec {
                function: FunctionSpec {
                    name: "work",
                    ..FunctionSpec::default()
                },
                line: number * STACKS + line,
                ..FrameSpec::default()
            });
            let stack = builder.stack(None, frame);
            let thread = if line % 2 == 0 { main } else { worker };
            let time = u64::from(number * STACKS + line);
            builder.sample(time, thread, Some(stack), 1);
        }
        let notes = Notes {
            jit_frames: 10,
            ..Notes::default()
        };
        builder.finish(About::default(), notes)
    }

    #[test]
    fn a_writer_holds_a_bounded_number_of_stacks_and_nothing_is_lost() {
        let mut writer = JournalWriter::default();
        let mut journal = JournalWriter::header();
        for number in 0..SLICES {
            journal.extend(writer.block(&slice(number)));
            let held = writer.merged.so_far().stacks.len();
            assert!(held <= (GROWTH + 1) * STACKS as usize, "{held}");
        }
        assert_ne!(writer.first, writer.written);
        let whole = read_journal(&Input::from(journal)).unwrap();
        let count = (SLICES * STACKS) as usize;
        assert_eq!((whole.samples.len(), whole.stacks.len()), (count, count));
        assert!(whole.samples.is_sorted_by_key(|sample| sample.time));
        assert_eq!((whole.processes.len(), whole.functions.len()), (1, 1));
        assert_eq!(whole.notes.jit_frames, 10 * u64::from(SLICES));
        let names: Vec<&str> = whole.threads[1..]
            .iter()
            .map(|thread| thread.name.as_str())
            .collect();
        let numbers: Vec<String> = (1..=SLICES).map(|n| format!("worker {n}")).collect();
        assert_eq!(names, numbers);
    }

    #[test]
    fn tables_that_are_large_from_the_start_are_written_once() {
        let mut writer = JournalWriter::default();
        let slices: Vec<Profile> = (0..4).map(slice).collect();
        let mut large = JournalWriter::default();
        for slice in &slices {
            large.merged.add(slice);
        }
        let mut whole = large.merged.so_far().clone();
        whole.samples.push(slices[0].samples[0]);
        assert!(whole.stacks.len() > MANY_STACKS);
        let sizes: Vec<usize> = (0..5).map(|_| writer.block(&whole).len()).collect();
        assert!(
            sizes[1..].iter().all(|size| size * 4 < sizes[0]),
            "{sizes:?}"
        );
    }

    #[test]
    fn tables_do_not_start_afresh_after_every_block() {
        let mut journal = JournalWriter::header();
        let mut writer = JournalWriter::default();
        let mut small = slice(0);
        small.samples.truncate(1);
        journal.extend(writer.block(&small));
        journal.extend(pack_block(&[section::AFRESH as u8, 0]));
        let error = read_journal(&Input::from(journal)).unwrap_err();
        assert!(error.to_string().contains("start afresh"), "{error}");
    }
}
