//! Journals: slices that are put together are the recording, and what is lost of the end costs only
//! the end.

use nodespy_formats::{ImportOptions, Input, JournalWriter, import, pack_block, read_journal};
use nodespy_model::{
    Contents, EventLoop, LoopStall, LoopTimeline, PoolPart, PoolTimeline, Process, Profile,
    ProfileBuilder, Scheduling, Thread, ThreadRole, WeightUnit,
};

use crate::mutate::survive;
use crate::sample::{small, written};

/// The samples of a profile as text: time, weight, thread and the names of the stack.
fn samples(profile: &Profile) -> Vec<String> {
    let line = |sample: &nodespy_model::Sample| {
        let thread = &profile.threads[sample.thread.at()];
        let pid = profile.processes[thread.process.at()].pid;
        let stack = sample.stack.into_iter();
        let names: Vec<&str> = stack
            .flat_map(|stack| profile.frames_of(stack))
            .map(|frame| profile.name_of(profile.frame(frame).function))
            .collect();
        let (time, weight) = (sample.time, sample.weight);
        format!("{time} {weight} {pid} {} {names:?}", thread.tid)
    };
    profile.samples.iter().map(line).collect()
}

/// A profile cut into slices of so many samples, each with all tables.
fn slices(profile: &Profile, samples: usize) -> Vec<Profile> {
    let cut = profile.samples.chunks(samples).enumerate();
    cut.map(|(at, part)| {
        let mut slice = profile.clone();
        slice.samples = part.to_vec();
        if at > 0 {
            slice.notes = Default::default();
        }
        slice
    })
    .collect()
}

/// A journal and where its blocks end.
fn journal(slices: &[Profile]) -> (Vec<u8>, Vec<usize>) {
    let mut writer = JournalWriter::default();
    let mut bytes = JournalWriter::header();
    let mut ends = vec![bytes.len()];
    for slice in slices {
        bytes.extend(writer.block(slice));
        ends.push(bytes.len());
    }
    (bytes, ends)
}

fn recovered(bytes: &[u8]) -> Profile {
    let input = Input::from(bytes.to_vec());
    let recording = import(input, &ImportOptions::from(None)).unwrap();
    let Contents::Named(mut profile) = recording.contents else {
        panic!("a journal has names");
    };
    profile.notes = recording.notes;
    *profile
}

#[test]
fn workers_without_a_tid_are_told_apart_by_name_and_order() {
    let mut builder = ProfileBuilder::new(WeightUnit::Nanoseconds);
    let process = builder.process(Process::default());
    for name in ["worker 1", "WorkerThread", "WorkerThread"] {
        let thread = builder.thread(Thread {
            process,
            name: name.to_owned(),
            role: ThreadRole::Worker,
            ..Thread::default()
        });
        builder.sample(0, thread, None, 1);
        builder.sample(1, thread, None, 1);
    }
    let whole = builder.finish(Default::default(), Default::default());
    let (bytes, _) = journal(&slices(&whole, 1));
    assert_eq!(recovered(&bytes).threads, whole.threads);
}

#[test]
fn slices_put_together_are_the_recording() {
    let whole = small();
    for size in [1, 2, whole.samples.len()] {
        let (bytes, _) = journal(&slices(&whole, size));
        let read = read_journal(&Input::from(bytes)).unwrap();
        assert_eq!(samples(&read), samples(&whole));
        assert_eq!(read.processes, whole.processes);
        assert_eq!(read.threads, whole.threads);
        assert_eq!(read.about, whole.about);
        assert_eq!(read.notes, whole.notes);
        assert_eq!(read.events, whole.events);
        assert_eq!(read.functions.len(), whole.functions.len());
        assert_eq!(read.stacks.len(), whole.stacks.len());
        assert_eq!(read.sources.len(), whole.sources.len());
        assert_eq!(read.deopt_reasons.len(), whole.deopt_reasons.len());
    }
}

#[test]
fn only_what_is_new_takes_room() {
    let slice = small();
    let (_, ends) = journal(&vec![slice; 50]);
    let sizes: Vec<usize> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(sizes[49] * 2 < sizes[0], "{sizes:?}");
}

#[test]
fn what_becomes_known_later_is_known_of_the_whole() {
    let slice = |ended: Option<u64>, role, name: &str, tids: &[u32]| {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        let process = builder.process(Process {
            pid: 7,
            started: 5,
            ended,
            ..Process::default()
        });
        for tid in tids {
            let thread = builder.thread(Thread {
                process,
                tid: *tid,
                name: name.to_owned(),
                role,
                scheduling: ended.map(|ended| Scheduling {
                    watched: ended,
                    ..Scheduling::default()
                }),
                event_loop: ended.map(|ended| EventLoop {
                    watched: ended,
                    iterations: Some(0),
                    ..EventLoop::default()
                }),
                ..Thread::default()
            });
            builder.sample(1, thread, None, 1);
        }
        builder.finish(Default::default(), Default::default())
    };
    let (bytes, _) = journal(&[
        slice(None, ThreadRole::Other, "node", &[9]),
        // The only worker that was seen in its second.
        slice(None, ThreadRole::Worker, "worker 1", &[9]),
        slice(Some(70), ThreadRole::Worker, "worker 1", &[8]),
        slice(Some(70), ThreadRole::Other, "node", &[9]),
    ]);
    let read = recovered(&bytes);
    assert_eq!((read.processes.len(), read.samples.len()), (1, 4));
    assert_eq!(read.processes[0].ended, Some(70));
    let threads = read.threads.iter();
    let threads: Vec<_> = threads
        .map(|thread| (thread.tid, thread.role, thread.name.as_str()))
        .collect();
    let worker = ThreadRole::Worker;
    assert_eq!(threads, [(9, worker, "worker 2"), (8, worker, "worker 1")]);
    assert_eq!(read.threads[0].scheduling.unwrap().watched, 70);
    let event_loop = read.threads[0].event_loop.unwrap();
    assert_eq!((event_loop.watched, event_loop.iterations), (70, Some(0)));
}

#[test]
fn what_loops_and_pools_did_over_time_adds_up_whatever_else_changes() {
    const MS: u64 = 1_000_000;
    let slice = |second: u64| {
        let mut profile = small();
        let from = second * 1000 * MS;
        let mut timeline = LoopTimeline::default();
        timeline.intervals.spread(from, from + 1000 * MS, 300 * MS);
        timeline.stall(LoopStall {
            start: second / 2 * 2000 * MS,
            lasted: (500 + second) * MS,
        });
        profile.threads[0].loop_timeline = Some(Box::new(timeline));
        profile.threads[0].event_loop = Some(EventLoop {
            watched: from,
            ..EventLoop::default()
        });
        let mut timeline = PoolTimeline::default();
        let part = PoolPart {
            readings: 1,
            busy: 4,
            waiting: second,
        };
        timeline.add(from, part);
        profile.processes[0].pool_timeline = Some(Box::new(timeline));
        profile.processes[0].cpu_time = Some(from);
        profile
    };
    // More than the intervals of the first length hold: they double on the way.
    let slices: Vec<Profile> = (0..300).map(slice).collect();
    let (bytes, ends) = journal(&slices);
    let read = recovered(&bytes);
    let mut whole = LoopTimeline::default();
    let mut pool = PoolTimeline::default();
    for slice in &slices {
        whole.merge(slice.threads[0].loop_timeline.as_ref().unwrap());
        pool.merge(slice.processes[0].pool_timeline.as_ref().unwrap());
    }
    assert_eq!(read.threads[0].loop_timeline.as_deref(), Some(&whole));
    assert_eq!(whole.stalls().len(), 150);
    assert_eq!(read.processes[0].pool_timeline.as_deref(), Some(&pool));
    assert_eq!(read.processes[0].cpu_time, Some(299_000 * MS));
    // A block has what is new alone: the last one is not larger than the second.
    let length = |block: usize| ends[block + 1] - ends[block];
    assert!(length(298) < 2 * length(1), "{} {}", length(298), length(1));
    // So it is in the file.
    let file = written(&read, "nspy");
    let again = recovered(&file);
    assert_eq!(again.threads[0].loop_timeline.as_deref(), Some(&whole));
    assert_eq!(again.processes[0].pool_timeline.as_deref(), Some(&pool));
}

#[test]
fn a_journal_that_is_cut_off_anywhere_keeps_its_whole_blocks() {
    let whole = small();
    let (bytes, ends) = journal(&slices(&whole, 1));
    for length in ends[1]..bytes.len() {
        let blocks = ends.iter().filter(|end| **end <= length).count() - 1;
        let read = recovered(&bytes[..length]);
        assert_eq!(samples(&read), samples(&whole)[..blocks], "{length}");
        let is_said = read.notes.remarks.iter().any(|remark| {
            remark.starts_with(&format!(
                "the journal ends at byte {length}, inside the block that starts at byte {}",
                ends[blocks]
            ))
        });
        assert_eq!(is_said, ends[blocks] != length, "{:?}", read.notes.remarks);
    }
    let unfinished = "the recording was not finished: this is its journal, which ends after ";
    let said = recovered(&bytes).notes.remarks;
    assert!(
        said.iter().any(|remark| remark.starts_with(unfinished)),
        "{said:?}"
    );
}

#[test]
fn damage_costs_what_comes_after_it() {
    let whole = small();
    let (bytes, ends) = journal(&slices(&whole, 1));
    for at in ends[1]..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let blocks = ends.iter().filter(|end| **end <= at).count() - 1;
        let read = recovered(&damaged);
        assert_eq!(samples(&read), samples(&whole)[..blocks], "byte {at}");
    }
    // Without anything before it, damage is an error with its place.
    let mut damaged = bytes.clone();
    damaged[ends[0] + 9] ^= 0x10;
    let error = import(Input::from(damaged), &ImportOptions::from(None)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "byte {}: the file is damaged: its checksum is wrong",
            ends[0]
        )
    );
}

#[test]
fn no_bytes_bring_the_journal_reader_down() {
    let (bytes, ends) = journal(&slices(&small(), 2));
    survive("journal", &bytes, <[u8]>::to_vec);
    // The checksum keeps what is changed at random from being read at all: it is made right again.
    use std::io::Read;
    let mut sections = Vec::new();
    flate2::read::DeflateDecoder::new(&bytes[ends[1] + 8..ends[2]])
        .read_to_end(&mut sections)
        .unwrap();
    survive("journal", &sections, |sections| {
        let mut journal = bytes[..ends[1]].to_vec();
        journal.extend(pack_block(sections));
        journal
    });
}
