//! Profiles to test with.

use nodespy_model::{
    About, Category, Cpu, EventLoop, EventType, ExactWaits, ExitReason, Frame, FrameKind,
    FunctionSpec, GcKind, GcPause, GcPauses, GcTimeline, Labels, LoopStall, LoopTimeline, Notes,
    Pool, PoolJobs, PoolPart, PoolSubmitter, PoolTimeline, Process, Profile, ProfileBuilder,
    Sample, Sampling, Scheduling, Source, Thread, ThreadRole, Tier, WeightUnit, label_key,
};
use proptest::prelude::*;

pub(crate) use crate::convert::{read, written};

/// A profile as our own format gives it back: the same, its stacks in another order.
pub(crate) fn as_filed(profile: &Profile) -> Profile {
    read(&written(profile, "nspy")).unwrap()
}

/// A small profile with something in every table and field.
pub(crate) fn small() -> Profile {
    let event = EventType::new("cpu-clock", WeightUnit::Samples).at_rate(99);
    let mut builder = ProfileBuilder::new(event);
    let process = builder.process(Process {
        pid: 4242,
        parent_pid: 1,
        name: "shop".to_owned(),
        command: "node server.js".to_owned(),
        node_version: Some("v20.20.2".to_owned()),
        started: 0,
        ended: Some(9_000_000_000),
        exit: Some(ExitReason::Signal(15)),
        cpu_time: Some(5_000_000_000),
        labels: Labels::default(),
        ..Process::default()
    });
    let main = builder.thread(Thread {
        process,
        tid: 4242,
        name: "node".to_owned(),
        role: ThreadRole::Main,
        ..Thread::default()
    });
    let pool = builder.thread(Thread {
        process,
        tid: 4250,
        name: "libuv-worker".to_owned(),
        role: ThreadRole::Pool,
        ..Thread::default()
    });
    let functions = [
        ("uv_run", "/usr/bin/node", 0, Category::Native),
        (
            "processTimers",
            "node:internal/timers",
            500,
            Category::NodeCore,
        ),
        ("total", "/shop/lib/cart.js", 17, Category::App),
        (
            "format",
            "/shop/node_modules/money/index.js",
            4,
            Category::Dependency,
        ),
        ("Builtins_StringAdd", "/usr/bin/node", 0, Category::Builtin),
        (
            "v8::internal::Scavenger::Process",
            "/usr/bin/node",
            0,
            Category::Gc,
        ),
        ("do_syscall_64", "[kernel]", 0, Category::Kernel),
        ("[unknown]", "", 0, Category::Unknown),
    ]
    .map(|(name, file, line, category)| {
        builder.function(FunctionSpec {
            name,
            file,
            line,
            column: line / 2,
            category,
        })
    });
    let paths: [(&[usize], u64); 6] = [
        (&[0, 1, 2], 40),
        (&[0, 1, 2, 3], 25),
        (&[0, 1, 2, 3, 4], 10),
        (&[0, 1, 2, 5], 12),
        (&[0, 6], 8),
        (&[7], 3),
    ];
    let mut time = 1_000_000;
    for (path, weight) in paths {
        let mut stack = None;
        for (depth, position) in path.iter().enumerate() {
            let has_tier = (1..=3).contains(position);
            let frame = builder.frame_of(Frame {
                function: functions[*position],
                line: if has_tier { depth as u32 + 20 } else { 0 },
                column: if has_tier { 3 } else { 0 },
                tier: if has_tier {
                    Tier::ALL[depth + 1]
                } else {
                    Tier::None
                },
                kind: FrameKind::inlined_if(*position == 3),
            });
            stack = Some(builder.stack(stack, frame));
        }
        builder.sample(
            time,
            if path.len() == 2 { pool } else { main },
            stack,
            weight,
        );
        time += 10_101_010;
    }
    builder.sample(time, pool, None, 2);
    builder.finish(
        About {
            app: "shop".to_owned(),
            host: "box".to_owned(),
            engine: "perf events".to_owned(),
            started_unix: 1_700_000_000_123_456_789,
            duration: 10_000_000_000,
            nodespy_version: "0.1.0".to_owned(),
        },
        Notes {
            lost_samples: 1,
            unwound_stacks: 98,
            incomplete_stacks: 2,
            jit_frames: 250,
            jit_named: [240, 0, 5, 0, 0],
            remarks: vec!["the kernel's names are hidden".to_owned()],
            ..Notes::default()
        },
    )
}

/// The small profile with the text of two of its files.
pub(crate) fn small_with_sources() -> Profile {
    let mut profile = small();
    for (wanted, text) in [
        (
            "/shop/lib/cart.js",
            "'use strict';\n\n// é </script>\nexports.total = (cart) => cart.sum;\n",
        ),
        (
            "/shop/node_modules/money/index.js",
            "module.exports = 'money';\r\n",
        ),
    ] {
        let mut files = profile
            .functions
            .iter()
            .filter_map(|function| function.file);
        let file = files
            .find(|file| profile.strings.get(*file) == wanted)
            .unwrap();
        profile.sources.push(Source {
            file,
            text: text.to_owned(),
        });
    }
    profile
}

/// Any profile.
pub(crate) fn any_profile() -> impl Strategy<Value = Profile> {
    let functions = prop::collection::vec(
        (
            any::<String>(),
            any::<String>(),
            any::<u32>(),
            any::<u32>(),
            0..11usize,
        ),
        1..12,
    );
    let frames = prop::collection::vec(
        (
            any::<prop::sample::Index>(),
            any::<u32>(),
            any::<u32>(),
            0..5usize,
            0..FrameKind::ALL.len(),
        ),
        1..20,
    );
    let stacks = prop::collection::vec(
        (
            any::<Option<prop::sample::Index>>(),
            any::<prop::sample::Index>(),
        ),
        0..40,
    );
    let processes = prop::collection::vec(any_process(), 1..4);
    let threads = prop::collection::vec(
        (
            any::<prop::sample::Index>(),
            any::<u32>(),
            any::<String>(),
            0..5usize,
        ),
        1..5,
    );
    let samples = prop::collection::vec(
        (
            any::<u64>(),
            any::<prop::sample::Index>(),
            any::<Option<prop::sample::Index>>(),
            0..u64::MAX >> 8,
            any::<Option<u16>>(),
        ),
        0..100,
    );
    let sources = prop::collection::vec((any::<String>(), any::<String>()), 0..3);
    // How weights and times go together, as a file may hold either by the other.
    let shape = (0..3usize, 0..3usize);
    let tables = (
        functions, frames, stacks, processes, threads, samples, sources,
    );
    (tables, any_about(), any_notes(), shape).prop_map(|(tables, about, notes, shape)| {
        let (functions, frames, stacks, processes, threads, samples, sources) = tables;
        let (unit, weighing) = shape;
        // As random as what it is taken from.
        let event = EventType::new(&about.engine, WeightUnit::ALL[unit]);
        let mut builder = ProfileBuilder::new(event.at_rate(about.duration as u32));
        let functions: Vec<_> = functions
            .iter()
            .map(|(name, file, line, column, category)| {
                builder.function(FunctionSpec {
                    name,
                    file,
                    line: *line,
                    column: *column,
                    category: Category::ALL[*category],
                })
            })
            .collect();
        let frames: Vec<_> = frames
            .into_iter()
            .map(|(function, line, column, tier, kind)| {
                builder.frame_of(Frame {
                    function: *function.get(&functions),
                    line,
                    column,
                    tier: Tier::ALL[tier],
                    kind: FrameKind::ALL[kind],
                })
            })
            .collect();
        let mut known = Vec::new();
        for (parent, frame) in stacks {
            let parent = parent
                .filter(|_| !known.is_empty())
                .map(|parent| *parent.get(&known));
            known.push(builder.stack(parent, *frame.get(&frames)));
        }
        let processes: Vec<_> = processes
            .into_iter()
            .map(|each| builder.process(each))
            .collect();
        let threads: Vec<_> = threads
            .into_iter()
            .map(|(process, tid, name, role)| {
                builder.thread(Thread {
                    process: *process.get(&processes),
                    tid,
                    name,
                    role: ThreadRole::ALL[role],
                    scheduling: tid.is_multiple_of(2).then(|| Scheduling {
                        watched: u64::from(tid) * 3,
                        on_cpu: u64::from(tid),
                        run_delay: 7,
                    }),
                    event_loop: tid.is_multiple_of(3).then(|| EventLoop {
                        watched: u64::from(tid) * 5,
                        idle: u64::from(tid) * 2,
                        iterations: tid.is_multiple_of(2).then_some(u64::from(tid)),
                        longest: 9,
                        p99: 4,
                    }),
                    loop_timeline: tid.is_multiple_of(5).then(|| Box::new(loop_timeline(tid))),
                    gc_pauses: GcKind::ALL[..(tid % 3) as usize]
                        .iter()
                        .map(|kind| GcPauses {
                            kind: *kind,
                            count: u64::from(tid),
                            total: u64::MAX,
                            longest: 7,
                            p99: 5,
                        })
                        .collect(),
                    gc_timeline: gc_timeline(tid),
                    exact_waits: (0..u64::from(tid % 4))
                        .map(|number| ExactWaits {
                            what: format!("futex {number}"),
                            count: number,
                            total: u64::MAX,
                            longest: 9,
                            histogram: (0..number).collect(),
                        })
                        .collect(),
                })
            })
            .collect();
        for (time, thread, stack, weight, cpu) in samples {
            let stack = stack
                .filter(|_| !known.is_empty())
                .map(|stack| *stack.get(&known));
            builder.add_sample(Sample {
                time,
                weight,
                thread: *thread.get(&threads),
                stack,
                cpu: cpu.and_then(Cpu::new),
                ..Sample::default()
            });
        }
        builder.deopt_reason(functions[0], "not a Smi");
        builder.generated_place(functions[0], "/srv/dist/bundle.js:1:48211");
        for (file, text) in sources {
            builder.source(&file, text);
        }
        let mut profile = builder.finish(about, notes);
        weigh(&mut profile.samples, weighing);
        profile
    })
}

/// Pauses, some of them at once.
fn gc_timeline(tid: u32) -> GcTimeline {
    let mut timeline = GcTimeline::default();
    for number in 0..u64::from(tid % 4) {
        timeline.add(GcPause {
            start: number / 2 * 1_000_000,
            lasted: u64::MAX >> number,
            kind: GcKind::ALL[number as usize % 3],
        });
    }
    timeline
}

/// A loop that was busy for some of some seconds, with stalls.
pub(crate) fn loop_timeline(seed: u32) -> LoopTimeline {
    let mut timeline = LoopTimeline::default();
    let from = u64::from(seed % 7) * 100_000_000;
    let to = from + 3_000_000_000;
    timeline.intervals.spread(from, to, u64::from(seed));
    for at in 0..u64::from(seed % 4) {
        timeline.stall(LoopStall {
            start: from + at * 700_000_000,
            lasted: 150_000_000 + at,
        });
    }
    timeline
}

/// The small profile with what its loop and its pool did over time.
pub(crate) fn with_timelines() -> Profile {
    let mut profile = small();
    profile.threads[0].loop_timeline = Some(Box::new(loop_timeline(123)));
    let mut timeline = PoolTimeline::default();
    for at in 0..40 {
        let part = PoolPart {
            readings: 1,
            busy: at % 5,
            waiting: at / 3,
        };
        timeline.add(at * 50_000_000, part);
    }
    profile.processes[0].pool_timeline = Some(Box::new(timeline));
    profile
}

/// The small profile with a second event, whose samples have a context.
pub(crate) fn two_events() -> Profile {
    let small = small();
    let mut builder = ProfileBuilder::with_events(small.events.clone());
    let faults = EventType {
        sampling: Sampling::Period(1),
        ..EventType::new("page-faults", WeightUnit::Events)
    };
    let event = builder.event(&faults).unwrap();
    let threads = nodespy_model::add_threads(&mut builder, &small);
    let samples = nodespy_model::moved_samples(&mut builder, &small, |thread| threads[thread.at()]);
    for (position, sample) in samples.into_iter().enumerate() {
        builder.add_sample(sample);
        let mut labels = Labels::default();
        labels.set(label_key::ROUTE, ["/cart", "/pay"][position % 2]);
        let context = builder.context(labels);
        builder.add_sample(Sample {
            time: sample.time + 1_000_000,
            weight: position as u64 + 3,
            event,
            context,
            ..sample
        });
    }
    builder.finish(small.about.clone(), small.notes.clone())
}

/// Leaves weights as they are, makes them equal, or the time to the next sample.
fn weigh(samples: &mut [Sample], weighing: usize) {
    match weighing {
        0 => {}
        1 => samples.iter_mut().for_each(|sample| sample.weight = 7),
        _ => {
            for sample in samples.iter_mut() {
                // Whole microseconds, and weights no larger than the others.
                sample.time = (sample.time >> 8) / 1000 * 1000;
            }
            for position in 1..samples.len() {
                samples[position - 1].weight = samples[position].time - samples[position - 1].time;
            }
        }
    }
}

/// Text without what a terminal would obey: what the model holds.
fn any_text() -> impl Strategy<Value = String> {
    any::<String>().prop_map(|text| nodespy_model::printable(&text).into_owned())
}

fn any_about() -> impl Strategy<Value = About> {
    let texts = (any_text(), any_text(), any_text(), any_text());
    (texts, any::<u64>(), any::<u64>()).prop_map(|(texts, started_unix, duration)| {
        let (app, host, engine, nodespy_version) = texts;
        About {
            app,
            host,
            engine,
            started_unix,
            duration,
            nodespy_version,
        }
    })
}

fn any_notes() -> impl Strategy<Value = Notes> {
    let remarks = prop::collection::vec(any_text(), 0..3);
    (any::<[u64; 7]>(), any::<[u64; 5]>(), remarks).prop_map(|(counts, jit_named, remarks)| {
        let mut notes = Notes {
            lost_samples: counts[0],
            lost_records: counts[1],
            throttled: counts[2],
            cut_stacks: counts[3],
            incomplete_stacks: counts[4],
            unwound_stacks: counts[5],
            jit_frames: counts[6],
            jit_named,
            ..Notes::default()
        };
        // No profile has the same remark twice.
        for remark in remarks {
            notes.remark(remark);
        }
        notes
    })
}

fn any_process() -> impl Strategy<Value = Process> {
    let exit = prop_oneof![
        Just(None),
        Just(Some(ExitReason::Ended)),
        any::<i32>().prop_map(|status| Some(ExitReason::Status(status))),
        any::<i32>().prop_map(|signal| Some(ExitReason::Signal(signal))),
    ];
    let texts = (
        any::<String>(),
        any::<String>(),
        prop::option::of(any_text()),
    );
    let times = (any::<u64>(), any::<Option<u64>>(), any::<Option<u64>>());
    (any::<u32>(), any::<u32>(), texts, times, exit).prop_map(
        |(pid, parent_pid, (name, command, node_version), (started, ended, cpu_time), exit)| {
            Process {
                pid,
                parent_pid,
                name,
                command,
                node_version,
                started,
                ended,
                exit,
                cpu_time,
                labels: Labels::default(),
                pool: pid.is_multiple_of(2).then(|| Pool {
                    threads: pid,
                    readings: started,
                    waiting: 12,
                    slow_full: u64::MAX,
                    jobs: vec![PoolJobs {
                        kind: "fs.open".to_owned(),
                        waiting: 7,
                        about: "/a b".to_owned(),
                    }],
                    submitters: vec![PoolSubmitter {
                        function: "login".to_owned(),
                        place: "/a b.js:41".to_owned(),
                        jobs: started,
                    }],
                    ..Pool::default()
                }),
                pool_timeline: pid.is_multiple_of(3).then(|| {
                    let mut timeline = PoolTimeline::default();
                    let part = PoolPart {
                        readings: 1,
                        busy: pid.into(),
                        waiting: 3,
                    };
                    timeline.add(started, part);
                    timeline.add(started / 3, part);
                    Box::new(timeline)
                }),
            }
        },
    )
}
