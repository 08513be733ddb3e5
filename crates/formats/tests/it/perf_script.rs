//! `perf script` text: what the importer keeps, and what comes back from what was written.

use nodespy_model::{Category, Cpu, Frame, Profile, ThreadRole, Tier};

use crate::convert::read_event;
use crate::fixture::fixture;
use crate::in_words::path;
use crate::sample::{read, small, written};

#[test]
fn times_threads_and_processors_are_kept() {
    let text = b"node  7/7 [001]   12.000001500:  5 cycles:u: \n\t 1 main+0x1f (/bin/node)\n\n\
        V8 Worker 2  7/9 [000] 12.5: 6 cycles:u: \n\t 2 read ([kernel.kallsyms])\n\n\
        node  7/7   13.0: cycles:u: \n\n";
    let profile = read(text).unwrap();
    let samples: Vec<_> = (profile.samples.iter())
        .map(|sample| {
            let cpu = sample.cpu.map(Cpu::get);
            (sample.time, sample.thread.0, cpu, sample.weight)
        })
        .collect();
    assert_eq!(
        samples,
        [
            (0, 0, Some(1), 5),
            (499_998_500, 1, Some(0), 6),
            (999_998_500, 0, None, 1)
        ]
    );
    assert_eq!(profile.threads[1].name, "V8 Worker 2");
    assert_eq!(profile.threads[1].tid, 9);
    assert_eq!(profile.threads[0].role, ThreadRole::Main);
    assert_eq!(profile.processes[0].name, "node");
    assert_eq!(profile.event().name, "cycles:u");
    assert_eq!(
        path(&profile, &profile.samples[0]),
        "main /bin/node (native) at 0"
    );
    assert!(profile.samples[2].stack.is_none());
    assert!(profile.notes.remarks.is_empty(), "{:?}", profile.notes);
}

#[test]
fn javascript_is_taken_apart() {
    for (name, place) in [
        ("node16", "mix.js:11"),
        ("node20", "mix.js:11:15"),
        ("node26", "mix.js:11:15"),
    ] {
        let text = fixture(&format!("perf_data/{name}.perf-script.txt.gz"));
        let profile = read(&text).unwrap();
        let is_until = |frame: &&Frame| {
            profile.name_of(frame.function) == "until" && frame.tier == Tier::Optimized
        };
        let until = profile.frames.iter().find(is_until);
        let until = until.unwrap_or_else(|| panic!("{name}")).function;
        let expected = format!("/tmp/nodespy-fixtures/app/{place}");
        assert_eq!(profile.location_of(until), expected, "{name}");
        assert_eq!(profile.function(until).category, Category::App);
        assert!(profile.about.duration > 900_000_000, "{name}");
        assert!(profile.notes.remarks.is_empty(), "{:?}", profile.notes);
    }
}

/// In what perf prints, a line starts an event if it is not indented.
#[test]
fn every_event_of_every_text_is_read() {
    for name in [
        "perf_script/dd.txt.gz",
        "perf_script/dd-header.txt.gz",
        "perf_script/dd-fields.txt.gz",
        "perf_script/dd-offsets.txt.gz",
        "perf_script/flat.txt.gz",
        "perf_data/node16.perf-script.txt.gz",
        "perf_data/pipe.perf-script.txt.gz",
    ] {
        let text = fixture(name);
        let events = (text.split(|byte| *byte == b'\n'))
            .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
            .filter(|line| !line[0].is_ascii_whitespace() || name.contains("flat"))
            .count();
        let profile = read(&text).unwrap();
        assert_eq!(profile.samples.len(), events, "{name}");
        // One line for each sample: no empty line says that the last is whole.
        let remarks = usize::from(name.contains("flat"));
        assert_eq!(
            profile.notes.remarks.len(),
            remarks,
            "{name}: {:?}",
            profile.notes
        );
    }
}

#[test]
fn each_of_several_events_is_read_by_its_name() {
    let text = fixture("perf_script/sh-events.txt.gz");
    let lines = || text.split(|byte| *byte == b'\n');
    for event in ["cpu-clock", "context-switches"] {
        let count = lines()
            .filter(|line| {
                line.first()
                    .is_some_and(|first| !first.is_ascii_whitespace())
            })
            .filter(|line| memchr::memmem::find(line, event.as_bytes()).is_some())
            .count();
        let profile = read_event(&text, event).unwrap();
        assert_eq!(profile.samples.len(), count, "{event}");
        assert!(count > 3, "{event}: {count}");
    }
}

#[test]
fn source_lines_and_deleted_files_and_inlined_frames_are_understood() {
    let text = b"a.out 35081 252436.005167:     667783 cycles: \n\
        \t          408ebb some_method+0x8b (/full path/a.out)\n\
        \x20 dist.h:300\n\
        \t          408ebb twice (inlined)\n\
        \x20 dist.h:12\n\
        \t    7f6d2148eb25 open+0xd5 (/lib64/libc-2.33.so (deleted))\n\
        \x20 libc-2.33.so[27b25]\n\
        \t    7ffc71ee9580 [unknown] ([unknown])\n\n";
    let profile = read(text).unwrap();
    assert!(profile.notes.remarks.is_empty(), "{:?}", profile.notes);
    let stack = profile.samples[0].stack.unwrap();
    let frames: Vec<_> = (profile.frames_of(stack))
        .map(|frame| {
            let frame = profile.frame(frame);
            let name = profile.name_of(frame.function);
            let file = profile.file_of(frame.function);
            (name, file, frame.line, frame.kind.is_inlined())
        })
        .collect();
    assert_eq!(
        frames,
        [
            ("some_method", "dist.h", 300, false),
            ("twice", "dist.h", 12, true),
            ("open", "/lib64/libc-2.33.so", 0, false),
            ("[unknown]", "", 0, false)
        ]
    );
}

#[test]
fn a_cut_text_gives_what_can_be_read() {
    let text = fixture("perf_data/node20.perf-script.txt.gz");
    let whole = read(&text).unwrap();
    let cut = read(&text[..text.len() / 2]).unwrap();
    assert!(cut.samples.len() > whole.samples.len() * 2 / 5);
    assert!(
        cut.notes
            .remarks
            .iter()
            .any(|remark| remark.contains("cut off"))
    );
    let garbage = [&text[..20_000], &[0xff, 0, 7, b'\n'], &text[20_000..40_000]].concat();
    let read = read(&garbage).unwrap();
    assert!(
        read.notes
            .remarks
            .iter()
            .any(|remark| remark.contains("line "))
    );
}

#[test]
fn what_was_written_reads_back() {
    let mut profile = small();
    for (position, sample) in profile.samples.iter_mut().enumerate() {
        sample.cpu = Cpu::new(position as u16).filter(|_| position % 2 == 0);
    }
    let bytes = written(&profile, "perf-script");
    let again = read(&bytes).unwrap();
    assert_eq!(again.unit(), profile.unit());
    assert_eq!(again.processes[0].name, "shop");
    let facts = |profile: &Profile| -> Vec<String> {
        (profile.samples.iter())
            .map(|sample| {
                let thread = &profile.threads[sample.thread.at()];
                let process = &profile.processes[thread.process.at()];
                let tiers: Vec<_> = (sample.stack.iter())
                    .flat_map(|stack| profile.frames_of(*stack))
                    .map(|frame| profile.frame(frame).tier)
                    .collect();
                let (pid, tid, name) = (process.pid, thread.tid, &thread.name);
                let (time, weight, cpu) = (sample.time, sample.weight, sample.cpu);
                let path = path(profile, sample);
                // The line being run has no place in the text.
                let path = path.split(" at ").next().unwrap_or_default();
                format!("{pid}/{tid} {name} {time} {weight} {cpu:?} {path} {tiers:?}")
            })
            .collect()
    };
    assert_eq!(facts(&again), facts(&profile));
    assert_eq!(again.event().name, profile.event().name);
    assert_eq!(again.notes, profile.notes);
}
