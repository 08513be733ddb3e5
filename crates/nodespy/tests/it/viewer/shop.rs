//! The recording that the tests of the viewer look at: ten seconds of a shop, all of whose shares
//! are known.
//!
//! The main thread runs `handle` all the time: 40 % in the dependency's `get`, called from
//! `distance`; 30 % in `render` itself; 10 % collecting garbage under `render`; 10 % in the kernel;
//! 10 % in the recursive `walk`. From second 4 to 5 nothing but `burst` runs. A pool thread hashes.

use nodespy_model::{
    About, Category, EventIndex, EventLoop, EventType, FrameSpec, FunctionSpec, GcKind, GcPause,
    Labels, LoopStall, LoopTimeline, Notes, Pool, PoolPart, PoolTimeline, Process, Profile,
    ProfileBuilder, Sample, StackIndex, Thread, ThreadRole, Tier, WeightUnit, label_key, state,
};

use Category::{App, Dependency, Gc, Kernel, Native, NodeCore};

/// Name, file, line, category and tier of a frame.
type Row = (&'static str, &'static str, u32, Category, Tier);

const CART: &str = "/srv/shop/lib/cart.js";
const LEVENSHTEIN: &str = "/srv/shop/node_modules/fast-levenshtein/levenshtein.js";
const NODE: &str = "/usr/bin/node";

const LOOP: Row = ("uv_run", NODE, 0, Native, Tier::None);
const HTTP: Row = (
    "parserOnIncoming",
    "node:_http_server",
    1010,
    NodeCore,
    Tier::Optimized,
);
const HANDLE: Row = ("handle", CART, 3, App, Tier::Optimized);
const RENDER: Row = ("render", CART, 7, App, Tier::Maglev);
const DISTANCE: Row = ("distance", CART, 13, App, Tier::Baseline);
const WALK: Row = ("walk", CART, 20, App, Tier::Interpreted);
const BURST: Row = ("burst", CART, 30, App, Tier::Optimized);
const GET: Row = (
    "levenshtein.get",
    LEVENSHTEIN,
    24,
    Dependency,
    Tier::Optimized,
);
const SCAVENGE: Row = ("v8::internal::Scavenger::Process", NODE, 0, Gc, Tier::None);
const SEND: Row = ("tcp_sendmsg", "[kernel]", 0, Kernel, Tier::None);
const HASH: Row = ("node::crypto::Hash", NODE, 0, Native, Tier::None);

/// What the main thread does in ten ticks.
const TICKS: [&[Row]; 10] = [
    &[LOOP, HTTP, HANDLE, DISTANCE, GET],
    &[LOOP, HTTP, HANDLE, RENDER],
    &[LOOP, HTTP, HANDLE, DISTANCE, GET],
    &[LOOP, HTTP, HANDLE, RENDER, SCAVENGE],
    &[LOOP, HTTP, HANDLE, RENDER],
    &[LOOP, HTTP, HANDLE, DISTANCE, GET],
    &[LOOP, HTTP, HANDLE, WALK, WALK, WALK],
    &[LOOP, HTTP, HANDLE, SEND],
    &[LOOP, HTTP, HANDLE, RENDER],
    &[LOOP, HTTP, HANDLE, DISTANCE, GET],
];

/// The text of the one file whose source is embedded.
const SOURCE: &str = "'use strict';\n\nfunction handle(request) {\n  return render(distance(request));\n}\n\n\
function render(cart) {\n  const rows = cart.map((row) => `<li>${row}</li>`);\n  // </script><b>not bold</b>\n  \
return rows.join('');\n}\n\nfunction distance(one) {\n  return levenshtein.get(one, 'x');\n}\n";

/// What is below everything that a main thread runs, and a thread of the pool.
const START: [Row; 4] = [
    ("_start", NODE, 0, Native, Tier::None),
    (
        "__libc_start_main",
        "/usr/lib/libc.so.6",
        0,
        Native,
        Tier::None,
    ),
    ("main", NODE, 0, Native, Tier::None),
    ("node::Start(int, char**)", NODE, 0, Native, Tier::None),
];
const START_OF_THREAD: [Row; 3] = [
    ("clone3", "/usr/lib/libc.so.6", 0, Native, Tier::None),
    ("start_thread", "/usr/lib/libc.so.6", 0, Native, Tier::None),
    ("worker", NODE, 0, Native, Tier::None),
];

/// The recording; `slower` is how many times as long `render` takes, for a base to compare with.
pub(super) fn shop(slower: u64) -> Profile {
    shop_over(slower, &[], &[])
}

/// The same with the frames that every stack of node starts with.
pub(super) fn shop_with_start() -> Profile {
    shop_over(1, &START, &START_OF_THREAD)
}

fn shop_over(slower: u64, start: &[Row], start_of_thread: &[Row]) -> Profile {
    let mut builder =
        ProfileBuilder::new(EventType::new("cpu-clock", WeightUnit::Samples).at_rate(99));
    let process = builder.process(Process {
        pid: 4242,
        name: "shop".to_owned(),
        command: "node server.js --port 8080".to_owned(),
        node_version: Some("v22.14.0".to_owned()),
        ..Process::default()
    });
    let mut thread = |tid, name: &str, role| {
        builder.thread(Thread {
            process,
            tid,
            name: name.to_owned(),
            role,
            ..Thread::default()
        })
    };
    let main = thread(4242, "node", ThreadRole::Main);
    let pool = thread(4250, "libuv-worker", ThreadRole::Pool);
    for tick in 0..1000u64 {
        let time = tick * 10_000_000;
        let is_burst = (400..500).contains(&tick);
        let rows = match is_burst {
            true => &[LOOP, HTTP, HANDLE, BURST][..],
            false => TICKS[tick as usize % 10],
        };
        let stack = stack_of(&mut builder, &[start, rows].concat());
        let weight = if rows.last() == Some(&RENDER) {
            slower
        } else {
            1
        };
        builder.sample(time, main, stack, weight);
        if tick % 20 == 0 {
            let stack = stack_of(&mut builder, &[start_of_thread, &[LOOP, HASH]].concat());
            builder.sample(time + 1_000_000, pool, stack, 1);
        }
    }
    builder.source(CART, SOURCE.to_owned());
    let about = About {
        app: "shop".to_owned(),
        host: "box".to_owned(),
        engine: "perf events".to_owned(),
        started_unix: 1_700_000_000_000_000_000,
        duration: 10_000_000_000,
        nodespy_version: "0.1.0".to_owned(),
    };
    let notes = Notes {
        unwound_stacks: 1050,
        jit_frames: 4000,
        jit_named: [4000, 0, 0, 0, 0],
        remarks: vec!["names of kernel functions are hidden".to_owned()],
        ..Notes::default()
    };
    builder.finish(about, notes)
}

/// Ten seconds of the shop with three events of different units. 10.0 s of `cpu-clock`, 40 % of them
/// in `levenshtein.get`; 500 `page-faults`, 60 % of them in `walk`, the others in `render`; 11.0 MB of
/// `alloc_space`, 10 MB of them by `render`, the others by `distance`.
pub(super) fn shop_of_events() -> Profile {
    let mut builder = ProfileBuilder::with_events(vec![
        EventType::new("cpu-clock", WeightUnit::Nanoseconds).at_rate(100),
        EventType::new("page-faults", WeightUnit::Events),
        EventType::new("alloc_space", WeightUnit::Bytes),
    ]);
    let process = builder.process(Process {
        pid: 4242,
        name: "shop".to_owned(),
        ..Process::default()
    });
    let thread = builder.thread(Thread {
        process,
        tid: 4242,
        name: "node".to_owned(),
        role: ThreadRole::Main,
        ..Thread::default()
    });
    for tick in 0..1000u64 {
        let mut add = |event: u16, weight: u64, rows: &[Row]| {
            let stack = stack_of(&mut builder, rows);
            builder.add_sample(Sample {
                time: tick * 10_000_000,
                thread,
                stack,
                weight,
                event: EventIndex(event),
                ..Sample::default()
            });
        };
        add(0, 10_000_000, TICKS[tick as usize % 10]);
        match tick % 10 {
            0 => add(1, 3, &[LOOP, HTTP, HANDLE, WALK]),
            5 => add(1, 2, &[LOOP, HTTP, HANDLE, RENDER]),
            _ => {}
        }
        if tick % 4 == 0 {
            add(2, 40_000, &[LOOP, HTTP, HANDLE, RENDER]);
            add(2, 4_000, &[LOOP, HTTP, HANDLE, DISTANCE]);
        }
    }
    let about = About {
        app: "shop".to_owned(),
        engine: "perf events".to_owned(),
        duration: 10_000_000_000,
        ..About::default()
    };
    builder.finish(about, Notes::default())
}

/// The shop as `-e wall` records it, with its loop and its pool over time. The main thread runs, but for
/// a tenth in which it waits for the network; in second 4 its loop stalls, under `burst`. The pool's
/// thread waits for files half of the time, and two jobs wait for it.
pub(super) fn shop_of_states() -> Profile {
    const TICK: u64 = 10_000_000;
    let shop = shop(1);
    let wall = EventType::new("wall", WeightUnit::Nanoseconds).at_rate(99);
    let mut builder = ProfileBuilder::new(wall);
    let threads = nodespy_model::add_threads(&mut builder, &shop);
    let samples = nodespy_model::moved_samples(&mut builder, &shop, |thread| threads[thread.at()]);
    for sample in samples {
        let is_main = sample.thread == threads[0];
        let is_sending =
            sample.time / TICK % 10 == 7 && !(400..500).contains(&(sample.time / TICK));
        let (of, wait, weight) = match (is_main, is_sending) {
            (true, false) => (state::ON_CPU, "", TICK),
            (true, true) => (state::WAITING, "network", TICK),
            (false, _) => (state::WAITING, "file", 10 * TICK),
        };
        let mut labels = Labels::default();
        labels.set(label_key::STATE, of);
        labels.set(label_key::WAIT, wait);
        let context = builder.context(labels);
        builder.add_sample(Sample {
            weight,
            context,
            event: EventIndex(0),
            ..sample
        });
    }
    let mut profile = builder.finish(shop.about, Notes::default());
    watch(&mut profile);
    profile
}

/// Adds what a loop and a pool did.
fn watch(profile: &mut Profile) {
    const SECOND: u64 = 1_000_000_000;
    let mut timeline = LoopTimeline::default();
    for second in 0..10 {
        let busy = if second == 4 { SECOND } else { SECOND / 4 };
        timeline
            .intervals
            .spread(second * SECOND, (second + 1) * SECOND, busy);
    }
    timeline.stall(LoopStall {
        start: 4 * SECOND,
        lasted: SECOND,
    });
    profile.threads[0].loop_timeline = Some(Box::new(timeline));
    for (start, lasted, kind) in [
        (SECOND, SECOND / 100, GcKind::Scavenge),
        (7 * SECOND, SECOND / 4, GcKind::MarkCompact),
    ] {
        profile.threads[0].gc_timeline.add(GcPause {
            start,
            lasted,
            kind,
        });
    }
    profile.threads[0].event_loop = Some(EventLoop {
        watched: 10 * SECOND,
        idle: 27 * SECOND / 4,
        iterations: Some(500),
        longest: SECOND,
        p99: SECOND / 10,
    });
    let mut timeline = PoolTimeline::default();
    for look in 0..200u64 {
        let part = PoolPart {
            readings: 1,
            busy: look % 2,
            waiting: 2,
        };
        timeline.add(look * SECOND / 20, part);
    }
    profile.processes[0].pool_timeline = Some(Box::new(timeline));
    profile.processes[0].pool = Some(Pool {
        threads: 1,
        readings: 200,
        busy: 100,
        full: 100,
        waiting: 400,
        ..Pool::default()
    });
}

/// A recording whose every name wants to be something else than a name.
pub(super) fn hostile() -> Profile {
    let long = "long_name_".repeat(1000);
    let names = [
        "</script><script>window.hacked = 1</script>",
        "<img src=x onerror='window.hacked = 1'>",
        "quote \" and ' and ` and \\",
        "\u{202e}desrever",
        "\u{5e9}\u{5dc}\u{5d5}\u{5dd} function",
        "line\nbreak\tand\u{0}null",
        "javascript:window.hacked=1",
        "--><!--",
        "{{payload}}",
        &long,
    ];
    let mut builder = ProfileBuilder::new(WeightUnit::Samples);
    let process = builder.process(Process {
        pid: 1,
        name: names[0].to_owned(),
        command: names[1].to_owned(),
        ..Process::default()
    });
    let thread = builder.thread(Thread {
        process,
        tid: 1,
        name: names[1].to_owned(),
        role: ThreadRole::Main,
        ..Thread::default()
    });
    for tick in 0..200u64 {
        let mut parent = None;
        for name in &names[..=tick as usize % names.len()] {
            let frame = builder.frame(FrameSpec {
                function: FunctionSpec {
                    name,
                    file: names[0],
                    line: 3,
                    column: 1,
                    category: App,
                },
                ..FrameSpec::default()
            });
            parent = Some(builder.stack(parent, frame));
        }
        builder.sample(tick * 10_000_000, thread, parent, 1);
    }
    builder.source(names[0], names.join("\n"));
    let about = About {
        app: names[0].to_owned(),
        host: names[1].to_owned(),
        duration: 2_000_000_000,
        ..About::default()
    };
    let notes = Notes {
        remarks: vec![names[1].to_owned()],
        ..Notes::default()
    };
    builder.finish(about, notes)
}

fn stack_of(builder: &mut ProfileBuilder, rows: &[Row]) -> Option<StackIndex> {
    let mut stack = None;
    for (name, file, line, category, tier) in rows.iter().copied() {
        let frame = builder.frame(FrameSpec {
            function: FunctionSpec {
                name,
                file,
                line,
                column: 1,
                category,
            },
            line: line + 1,
            tier,
            ..FrameSpec::default()
        });
        stack = Some(builder.stack(stack, frame));
    }
    stack
}
