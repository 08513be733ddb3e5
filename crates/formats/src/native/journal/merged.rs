//! The slices of a recording put together, but for their samples: each process, thread, function and
//! stack once.

use std::collections::BTreeSet;

use nodespy_model::{
    About, FastMap, FastSet, GcTimeline, LoopTimeline, Nanoseconds, Notes, PoolTimeline, Process,
    ProcessIndex, Profile, ProfileBuilder, Sample, SmallSort, Thread, ThreadIndex, ThreadRole,
    moved_samples,
};

use super::super::columns::put;
use super::super::{section, timelines, write};

/// How many rows the tables of a journal have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) contexts: usize,
    pub(super) strings: usize,
    pub(super) functions: usize,
    pub(super) frames: usize,
    pub(super) stacks: usize,
    pub(super) deopts: usize,
    pub(super) generated: usize,
    pub(super) processes: usize,
    pub(super) threads: usize,
    pub(super) sources: usize,
}

impl Rows {
    pub(super) fn of(profile: &Profile) -> Self {
        Self {
            contexts: profile.contexts.iter().len(),
            strings: profile.strings.len(),
            functions: profile.functions.len(),
            frames: profile.frames.len(),
            stacks: profile.stacks.len(),
            deopts: profile.deopt_reasons.len(),
            generated: profile.generated_places.len(),
            processes: profile.processes.len(),
            threads: profile.threads.len(),
            sources: profile.sources.len(),
        }
    }
}

/// A thread's process and tid. Where the tid is not known, which it is not of V8's workers, its name, and which of
/// that name it is: an engine lists such threads in the same order each time.
type ThreadKey = (ProcessIndex, u32, String, usize);

fn keys_of(threads: &[Thread], processes: &[ProcessIndex]) -> Vec<ThreadKey> {
    let mut seen: FastMap<(ProcessIndex, &str), usize> = FastMap::default();
    let key = |thread| {
        let Thread {
            process, tid, name, ..
        }: &Thread = thread;
        let process = processes[process.at()];
        if *tid != 0 {
            return (process, *tid, String::new(), 0);
        }
        let count = seen.entry((process, name)).or_default();
        *count += 1;
        (process, 0, name.clone(), *count)
    };
    threads.iter().map(key).collect()
}

/// What all slices so far have in common.
#[derive(Debug, Default)]
pub(super) struct Merged {
    builder: Option<ProfileBuilder>,
    pub(super) about: About,
    pub(super) notes: Notes,
    /// By pid and start.
    processes: FastMap<(u32, Nanoseconds), ProcessIndex>,
    threads: FastMap<ThreadKey, ThreadIndex>,
    /// Workers that have a number for a name.
    numbered: FastSet<ThreadIndex>,
    has_new_numbers: bool,
    /// Rows that are in the journal and differ now.
    changed_processes: BTreeSet<usize>,
    changed_threads: BTreeSet<usize>,
    /// What the last slice saw of loops and pools over time, by row: a journal has each part once.
    new_loops: Vec<(usize, Box<LoopTimeline>)>,
    new_collections: Vec<(usize, GcTimeline)>,
    new_pools: Vec<(usize, Box<PoolTimeline>)>,
}

impl Merged {
    /// Adds a slice and returns its samples, as they are in the whole.
    pub(super) fn add(&mut self, slice: &Profile) -> Vec<Sample> {
        self.changed_processes.clear();
        self.changed_threads.clear();
        self.new_loops.clear();
        self.new_collections.clear();
        self.new_pools.clear();
        let samples = self.add_rows(slice);
        self.number_workers();
        debug_assert_eq!(
            self.so_far().events,
            slice.events,
            "an engine has its events from the start"
        );
        samples
    }

    /// The same, but for the numbers of workers.
    pub(super) fn add_rows(&mut self, slice: &Profile) -> Vec<Sample> {
        self.about = slice.about.clone();
        add_notes(&mut self.notes, &slice.notes);
        let mut builder = self
            .builder
            .take()
            .unwrap_or_else(|| ProfileBuilder::with_events(slice.events.clone()));
        let processes: Vec<ProcessIndex> = slice
            .processes
            .iter()
            .map(|process| self.process(&mut builder, process))
            .collect();
        let numbered = numbered_workers(slice);
        let threads: Vec<ThreadIndex> = slice
            .threads
            .iter()
            .zip(keys_of(&slice.threads, &processes))
            .zip(&numbered)
            .map(|((thread, key), is_numbered)| {
                let index = self.thread(&mut builder, key, thread);
                match is_numbered {
                    true => self.numbered.insert(index),
                    false => self.numbered.remove(&index),
                };
                index
            })
            .collect();
        self.has_new_numbers |= numbered.contains(&true);
        let samples = moved_samples(&mut builder, slice, |thread| threads[thread.at()]);
        self.builder = Some(builder);
        samples
    }

    /// Ends the work: the whole with these samples.
    pub(super) fn finish(mut self, samples: Vec<Sample>) -> Profile {
        self.number_workers();
        let mut builder = self.builder.unwrap_or_default();
        for sample in samples {
            builder.add_sample(sample);
        }
        builder.finish(self.about, self.notes)
    }

    /// The tables so far.
    pub(super) fn so_far(&self) -> &Profile {
        self.builder.as_ref().expect("a slice was added").so_far()
    }

    fn process(&mut self, builder: &mut ProfileBuilder, process: &Process) -> ProcessIndex {
        let key = (process.pid, process.started);
        let mut process = process.clone();
        let timeline = process.pool_timeline.take();
        let index = match self.processes.get(&key) {
            None => {
                let index = builder.process(process);
                self.processes.insert(key, index);
                index
            }
            Some(&index) => {
                let known = &builder.so_far().processes[index.at()];
                process.pool_timeline.clone_from(&known.pool_timeline);
                if *known != process {
                    builder.set_process(index, process);
                    self.changed_processes.insert(index.at());
                }
                index
            }
        };
        if let Some(timeline) = timeline {
            builder.pool_timeline(index, &timeline);
            self.new_pools.push((index.at(), timeline));
        }
        index
    }

    fn thread(
        &mut self,
        builder: &mut ProfileBuilder,
        key: ThreadKey,
        thread: &Thread,
    ) -> ThreadIndex {
        let mut thread = Thread {
            process: key.0,
            ..thread.clone()
        };
        let timeline = thread.loop_timeline.take();
        let collections = std::mem::take(&mut thread.gc_timeline);
        let index = match self.threads.get(&key) {
            None => {
                let index = builder.thread(thread);
                self.threads.insert(key, index);
                index
            }
            Some(&index) => {
                self.change_thread(builder, index, thread);
                index
            }
        };
        if let Some(timeline) = timeline {
            builder.loop_timeline(index, &timeline);
            self.new_loops.push((index.at(), timeline));
        }
        if !collections.pauses().is_empty() {
            builder.gc_timeline(index, &collections);
            self.new_collections.push((index.at(), collections));
        }
        index
    }

    fn change_thread(&mut self, builder: &mut ProfileBuilder, index: ThreadIndex, thread: Thread) {
        let known = &builder.so_far().threads[index.at()];
        let mut merged = Thread {
            scheduling: thread.scheduling.or(known.scheduling),
            event_loop: thread.event_loop.or(known.event_loop),
            loop_timeline: known.loop_timeline.clone(),
            gc_timeline: known.gc_timeline.clone(),
            gc_pauses: match thread.gc_pauses.is_empty() {
                true => known.gc_pauses.clone(),
                false => thread.gc_pauses,
            },
            exact_waits: match thread.exact_waits.is_empty() {
                true => known.exact_waits.clone(),
                false => thread.exact_waits,
            },
            ..thread
        };
        // What a thread is for is not seen in every slice.
        if merged.role == ThreadRole::Other && known.role != ThreadRole::Other {
            merged.role = known.role;
            merged.name.clone_from(&known.name);
        }
        if *known != merged {
            builder.set_thread(index, merged);
            self.changed_threads.insert(index.at());
        }
    }

    /// Numbers the workers without a name anew: one with a lower tid may have come to light.
    fn number_workers(&mut self) {
        if !std::mem::take(&mut self.has_new_numbers) {
            return;
        }
        let Some(builder) = &mut self.builder else {
            return;
        };
        let threads = &builder.so_far().threads;
        for (position, number) in numbers_of_workers(threads) {
            let index = ThreadIndex(position as u32);
            let thread = &builder.so_far().threads[position];
            let name = format!("worker {number}");
            if self.numbered.contains(&index) && thread.name != name {
                let thread = thread.clone();
                builder.set_thread(index, Thread { name, ..thread });
                self.changed_threads.insert(position);
            }
        }
    }

    /// Writes what has changed of the first `from` rows, and what belongs to rows rather than being
    /// one.
    pub(super) fn emit_changes(&self, from: &Rows, emit: &mut dyn FnMut(u64, &[u8])) {
        let so_far = self.so_far();
        let old = |rows: &BTreeSet<usize>, count: usize| -> Vec<usize> {
            rows.range(..count).copied().collect()
        };
        let processes = old(&self.changed_processes, from.processes);
        if !processes.is_empty() {
            let rows: Vec<Process> = rows_at(&so_far.processes, &processes);
            emit(
                section::CHANGED_PROCESSES,
                &changes(&processes, &write::processes(&rows)),
            );
        }
        let threads = old(&self.changed_threads, from.threads);
        if !threads.is_empty() {
            let rows: Vec<Thread> = rows_at(&so_far.threads, &threads);
            emit(
                section::CHANGED_THREADS,
                &changes(&threads, &write::threads(&rows)),
            );
        }
        let is_news = |row: usize| row >= from.processes || self.changed_processes.contains(&row);
        if let Some(labels) = write::labels(so_far, is_news) {
            emit(section::LABELS, &labels);
        }
        if let Some(pools) = write::pools(so_far, is_news) {
            emit(section::POOLS, &pools);
        }
        if let Some(submitters) = write::pool_submitters(so_far, is_news) {
            emit(section::POOL_SUBMITTERS, &submitters);
        }
        let is_news = |row: usize| row >= from.threads || self.changed_threads.contains(&row);
        if let Some(scheduling) = write::scheduling(so_far, is_news) {
            emit(section::SCHEDULING, &scheduling);
        }
        if let Some(event_loops) = write::event_loops(so_far, is_news) {
            emit(section::EVENT_LOOPS, &event_loops);
        }
        if let Some(pauses) = write::gc_pauses(so_far, is_news) {
            emit(section::GC_PAUSES, &pauses);
        }
        if let Some(waits) = write::exact_waits(so_far, is_news) {
            emit(section::EXACT_WAITS, &waits);
        }
        let loops = self.new_loops.iter();
        let loops: Vec<_> = loops.map(|(row, timeline)| (*row, &**timeline)).collect();
        if let Some(timelines) = timelines::of_loops(&loops) {
            emit(section::LOOP_TIMELINES, &timelines);
        }
        let collections = self.new_collections.iter();
        let collections: Vec<_> = collections.map(|(row, it)| (*row, it)).collect();
        if let Some(timelines) = timelines::of_collections(&collections) {
            emit(section::GC_TIMELINES, &timelines);
        }
        let pools = self.new_pools.iter();
        let pools: Vec<_> = pools.map(|(row, timeline)| (*row, &**timeline)).collect();
        if let Some(timelines) = timelines::of_pools(&pools) {
            emit(section::POOL_TIMELINES, &timelines);
        }
    }
}

fn rows_at<T: Clone>(table: &[T], rows: &[usize]) -> Vec<T> {
    rows.iter().map(|row| table[*row].clone()).collect()
}

/// The rows that have changed, then what they are now.
fn changes(rows: &[usize], content: &[u8]) -> Vec<u8> {
    let mut changes = Vec::new();
    put(&mut changes, rows.len() as u64);
    for row in rows {
        put(&mut changes, *row as u64);
    }
    changes.extend_from_slice(content);
    changes
}

/// Which threads are workers whose name is their number among those of their process.
fn numbered_workers(profile: &Profile) -> Vec<bool> {
    let mut is_numbered = vec![false; profile.threads.len()];
    for (position, number) in numbers_of_workers(&profile.threads) {
        is_numbered[position] = profile.threads[position].name == format!("worker {number}");
    }
    is_numbered
}

/// The workers and their numbers, counted in each process by tid.
fn numbers_of_workers(threads: &[Thread]) -> Vec<(usize, u32)> {
    let is_worker = |position: &usize| threads[*position].role == ThreadRole::Worker;
    let mut workers: Vec<usize> = (0..threads.len()).filter(is_worker).collect();
    workers.small_sort_by_key(|&position| threads[position].tid);
    let mut counts: FastMap<ProcessIndex, u32> = FastMap::default();
    let numbered = workers.into_iter().map(|position| {
        let count = counts.entry(threads[position].process).or_default();
        *count += 1;
        (position, *count)
    });
    numbered.collect()
}

fn add_notes(notes: &mut Notes, slice: &Notes) {
    let counts = [
        (&mut notes.lost_samples, slice.lost_samples),
        (&mut notes.lost_records, slice.lost_records),
        (&mut notes.throttled, slice.throttled),
        (&mut notes.cut_stacks, slice.cut_stacks),
        (&mut notes.incomplete_stacks, slice.incomplete_stacks),
        (&mut notes.unwound_stacks, slice.unwound_stacks),
        (&mut notes.jit_frames, slice.jit_frames),
    ];
    for (count, more) in counts {
        *count = count.saturating_add(more);
    }
    notes.async_callers.add(&slice.async_callers);
    for (count, more) in notes.jit_named.iter_mut().zip(slice.jit_named) {
        *count = count.saturating_add(more);
    }
    for remark in &slice.remarks {
        // The last slice knows best how much there is of something.
        let known = notes.remarks.iter_mut();
        match known
            .into_iter()
            .find(|known| is_same_remark(known, remark))
        {
            Some(known) => known.clone_from(remark),
            None => notes.remark(remark.clone()),
        }
    }
    notes.add_sentences(&Notes {
        remarks: Vec::new(),
        ..slice.clone()
    });
}

/// Whether two remarks differ in amounts only: paths and the numbers of processes are no amounts.
fn is_same_remark(one: &str, other: &str) -> bool {
    let mut before = "";
    let mut others = other.split(' ');
    for word in one.split(' ') {
        let Some(other) = others.next() else {
            return false;
        };
        let is_amount = !word.contains('/') && !matches!(before, "process" | "pid");
        let without_digits = |word: &str| -> String {
            word.chars()
                .filter(|letter| !letter.is_ascii_digit() && *letter != '.')
                .collect()
        };
        let is_same = word == other || is_amount && without_digits(word) == without_digits(other);
        if !is_same {
            return false;
        }
        before = word;
    }
    others.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_that_differ_in_amounts_are_one() {
        for (one, other, is_same) in [
            ("3.5 % of 10 frames", "40.1 % of 7 frames", true),
            (
                "/tmp/perf-7.map grew by 3 MB",
                "/tmp/perf-8.map grew by 3 MB",
                false,
            ),
            ("process 7 is gone", "process 8 is gone", false),
            ("3 frames", "3 frames and more", false),
            ("lost", "found", false),
        ] {
            assert_eq!(is_same_remark(one, other), is_same, "{one:?} {other:?}");
        }
    }
}
