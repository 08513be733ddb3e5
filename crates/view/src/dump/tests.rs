use nodespy_model::{
    About, Frame, FrameKind, FrameSpec, FunctionSpec, Notes, Process, ProfileBuilder, Tier,
    WeightUnit,
};

use super::*;

/// A profile of one main thread, its frames root first.
fn profile_of(frames: &[(&str, &str, u32, Category)]) -> Profile {
    let mut builder = ProfileBuilder::new(WeightUnit::Samples);
    let process = builder.process(Process {
        pid: 7,
        name: "app".to_owned(),
        command: "node app.js".to_owned(),
        ..Default::default()
    });
    let thread = builder.thread(Thread {
        process,
        tid: 7,
        name: "MainThread".to_owned(),
        role: ThreadRole::Main,
        ..Thread::default()
    });
    let mut stack = None;
    for &(name, file, line, category) in frames {
        let function = builder.function(FunctionSpec {
            name,
            file,
            line: line.min(1),
            column: 0,
            category,
        });
        let frame = builder.frame_of(Frame {
            function,
            line,
            column: 0,
            tier: Tier::None,
            kind: FrameKind::Physical,
        });
        stack = Some(builder.stack(stack, frame));
    }
    builder.sample(0, thread, stack, 1);
    builder.finish(About::default(), Notes::default())
}

fn activity_of(profile: &Profile, is_running: bool) -> Option<Activity> {
    let stack = profile.samples[0].stack.unwrap();
    activity(profile, ThreadRole::Main, stack, is_running)
}

#[test]
fn what_a_thread_is_up_to_is_told_from_its_stack() {
    let uv_run = ("uv_run", "node", 0, Category::Native);
    let idle = profile_of(&[uv_run, ("uv__io_poll", "node", 0, Category::Native)]);
    assert_eq!(activity_of(&idle, false), Some(Activity::Idle));
    let work = ("work", "/app/a.js", 12, Category::App);
    let busy = profile_of(&[uv_run, work]);
    let expected = Activity::Running("work at /app/a.js:12".to_owned());
    assert_eq!(activity_of(&busy, true), Some(expected));
    let blocked = profile_of(&[
        uv_run,
        work,
        ("execSync", "node:child_process", 900, Category::NodeCore),
        ("epoll_wait", "libc.so.6", 0, Category::Native),
    ]);
    let expected = Activity::Blocked("in execSync, called by work at /app/a.js:12".to_owned());
    assert_eq!(activity_of(&blocked, false), Some(expected));
}

#[test]
fn threads_with_equal_stacks_are_shown_as_one() {
    let mut builder = ProfileBuilder::new(WeightUnit::Samples);
    let process = builder.process(Process {
        pid: 1,
        ..Process::default()
    });
    let stacks = ["uv__io_poll", "work"].map(|name| {
        let frame = builder.frame(FrameSpec {
            function: FunctionSpec {
                name,
                category: Category::Native,
                ..FunctionSpec::default()
            },
            ..FrameSpec::default()
        });
        builder.stack(None, frame)
    });
    let mut threads = Vec::new();
    for tid in 1..=201 {
        let thread = builder.thread(Thread {
            process,
            tid,
            name: format!("worker {tid}"),
            role: ThreadRole::Worker,
            ..Thread::default()
        });
        let is_running = tid == 100;
        builder.sample(0, thread, Some(stacks[usize::from(is_running)]), 1);
        threads.push(DumpedThread {
            pid: 1,
            tid,
            state: if is_running { "running" } else { "sleeping" },
            is_running,
            held: None,
            remark: None,
        });
    }
    let profile = builder.finish(About::default(), Notes::default());
    let mut output = Vec::new();
    draw_dump(&profile, &threads, None, Terminal::default(), &mut output).unwrap();
    let text = String::from_utf8(output).unwrap();
    assert!(
        text.contains("200 threads idle in uv__io_poll  worker, tids 1 2 3 "),
        "{text}"
    );
    assert!(text.contains("16 and 184 more (--json has them)"), "{text}");
    assert!(
        text.contains("worker 100  worker, tid 100, running"),
        "{text}"
    );
    assert!(text.lines().count() < 20, "{text}");
}

#[test]
fn recursion_is_shown_once() {
    let frames = [("down", "/app/a.js", 3, Category::App); 50];
    let profile = profile_of(&frames);
    let thread = DumpedThread {
        pid: 7,
        tid: 7,
        state: "running",
        is_running: true,
        held: Some(38_000),
        remark: None,
    };
    let mut output = Vec::new();
    draw_dump(&profile, &[thread], None, Terminal::default(), &mut output).unwrap();
    let text = String::from_utf8(output).unwrap();
    assert!(text.contains("the same 49 times more"), "{text}");
    assert_eq!(text.matches("/app/a.js:3").count(), 2, "{text}");
    assert!(
        text.contains("MainThread  main, tid 7, running, held 38 µs"),
        "{text}"
    );
}

#[test]
fn pending_functions_come_after_the_threads_the_most_frequent_first() {
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
    for number in 1..=120 {
        let frame = builder.frame(FrameSpec {
            function: FunctionSpec {
                name: &format!("wait{number}"),
                file: "/app/a.js",
                category: Category::App,
                ..FunctionSpec::default()
            },
            line: number,
            kind: FrameKind::Async,
            ..FrameSpec::default()
        });
        let stack = builder.stack(None, frame);
        builder.sample(0, thread, Some(stack), u64::from(number));
    }
    let pending = builder.finish(About::default(), Notes::default());
    let mut output = Vec::new();
    draw_dump(
        &pending,
        &[],
        Some(&pending),
        Terminal::default(),
        &mut output,
    )
    .unwrap();
    let text = String::from_utf8(output).unwrap();
    let first = "pending async functions  7,260, each followed by those that await it\n  120 ×\n    wait120  /app/a.js:120  await\n  119 ×\n";
    assert!(text.contains(first), "{text}");
    assert!(
        text.contains("  … 20 more stacks (--json has them)"),
        "{text}"
    );
    assert_eq!(text.matches(" ×\n").count(), 100, "{text}");
    assert_eq!(pending_stacks(&pending, 8), None);
}
