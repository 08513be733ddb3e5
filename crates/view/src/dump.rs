//! Every thread's stack as text, and what a thread is up to in a sentence.
//!
//! The profile holds one sample per thread; what is known of a thread beyond that comes in beside
//! it. Threads that wait at the same place are shown once, and so is recursion; V8's entry stubs
//! and libc's start of a thread are left out.

use std::io::Write;

use nodespy_model::{
    Category, FrameIndex, Nanoseconds, Profile, Sample, StackIndex, Thread, ThreadRole, printable,
};

use crate::columns::{keep_last_parts, keep_start, short_name, width_of};
use crate::text::Paint;
use crate::wording::{self, count, counted};
use crate::{DrawError, Terminal};

/// Longer stacks lose their middle.
const MAX_FRAMES: usize = 200;
/// How many frames of a longer stack are shown at its root.
const ROOT_FRAMES: usize = 40;
/// As many equal frames in a row are shown as one.
const RECURSION: usize = 4;
/// Names wider than this don't move the places of all the others.
const WIDEST_NAME: usize = 52;

/// What is known of a thread beyond its stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpedThread {
    /// Its process.
    pub pid: u32,
    /// Its number.
    pub tid: u32,
    /// What it was doing, in the kernel's words.
    pub state: &'static str,
    /// Whether it was using a CPU.
    pub is_running: bool,
    /// How long it was stopped, if it was.
    pub held: Option<Nanoseconds>,
    /// What there is to say of how it was looked at, as a clause.
    pub remark: Option<String>,
}

/// What a thread that runs JavaScript is up to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    /// It waits for events.
    Idle,
    /// It runs this.
    Running(String),
    /// It waits for something while JavaScript waits for it.
    Blocked(String),
    /// It collects garbage.
    CollectingGarbage,
}

impl Activity {
    /// The sentence shown for it.
    pub fn sentence(&self) -> String {
        match self {
            Self::Idle => "the event loop is idle".to_owned(),
            Self::Running(place) => format!("the event loop is busy: {place}"),
            Self::Blocked(place) => format!("the event loop is blocked: {place}"),
            Self::CollectingGarbage => "the event loop waits for garbage collection".to_owned(),
        }
    }

    /// The word for it in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running(_) => "running",
            Self::Blocked(_) => "blocked",
            Self::CollectingGarbage => "gc",
        }
    }
}

/// What a thread is up to, where its stack tells; none for threads without an event loop.
pub fn activity(
    profile: &Profile,
    role: ThreadRole,
    stack: StackIndex,
    is_running: bool,
) -> Option<Activity> {
    if !matches!(role, ThreadRole::Main | ThreadRole::Worker) {
        return None;
    }
    let function_of = |frame: &FrameIndex| profile.frame(*frame).function;
    let category_of = |frame: &FrameIndex| profile.function(function_of(frame)).category;
    let frames: Vec<FrameIndex> = profile
        .frames_of(stack)
        .filter(|frame| category_of(frame) != Category::Internal)
        .collect();
    if frames
        .iter()
        .any(|frame| category_of(frame) == Category::Gc)
    {
        return Some(Activity::CollectingGarbage);
    }
    let is_own = |frame: &FrameIndex| {
        let category = category_of(frame);
        matches!(category, Category::App | Category::Dependency)
    };
    let is_script = |frame: &FrameIndex| is_own(frame) || category_of(frame) == Category::NodeCore;
    let innermost = frames
        .iter()
        .position(is_own)
        .or_else(|| frames.iter().position(is_script));
    let Some(at) = innermost else {
        let polls = |frame: &FrameIndex| profile.name_of(function_of(frame)) == "uv__io_poll";
        return frames.iter().any(polls).then_some(Activity::Idle);
    };
    let name = |frame: FrameIndex| {
        let name = short_name(profile.name_of(profile.frame(frame).function));
        let name = name.trim_start_matches("v8::internal::Builtin_");
        name.trim_start_matches("Builtins_").to_owned()
    };
    let here = format!("{} at {}", name(frames[at]), place_of(profile, frames[at]));
    // What the program called is the next frame inwards.
    let called = at.checked_sub(1).map(|inner| name(frames[inner]));
    Some(match (is_running, called) {
        (true, _) | (false, None) => Activity::Running(here),
        (false, Some(called)) => Activity::Blocked(format!("in {called}, called by {here}")),
    })
}

/// Where a frame is: file and current line of JavaScript (else where the function starts), the
/// module of native code.
pub fn place_of(profile: &Profile, frame: FrameIndex) -> String {
    let frame = profile.frame(frame);
    let function = profile.function(frame.function);
    let file = printable(profile.file_of(frame.function));
    match function.category {
        Category::App | Category::Dependency | Category::NodeCore | Category::Wasm => {
            match (file.as_ref(), frame.line, function.line) {
                ("", ..) => function.category.label().to_owned(),
                (file, 0, 0) => file.to_owned(),
                (file, 0, start) => format!("{file}:{start} (its start)"),
                (file, line, _) => format!("{file}:{line}"),
            }
        }
        Category::Native | Category::Gc | Category::Unknown if !file.is_empty() => {
            file.rsplit('/').next().unwrap_or_default().to_owned()
        }
        category => category.label().to_owned(),
    }
}

/// Writes every thread's stack.
pub fn draw_dump(
    profile: &Profile,
    threads: &[DumpedThread],
    terminal: Terminal,
    output: &mut dyn Write,
) -> Result<(), DrawError> {
    let mut dump = Dump {
        profile,
        paint: Paint {
            is_on: terminal.has_color,
        },
        width: terminal.width_columns.max(60),
        lines: Vec::new(),
    };
    for (position, process) in profile.processes.iter().enumerate() {
        let mut shown: Vec<Shown<'_>> = Vec::new();
        for thread in threads.iter().filter(|thread| thread.pid == process.pid) {
            let Some((sample, known)) = dump.sample_of(position, thread.tid) else {
                continue;
            };
            shown.push(Shown {
                thread,
                known,
                stack: sample.stack,
            });
        }
        dump.process(position, &shown);
        for group in shown.chunk_by(|one, other| one.is_like(other)) {
            dump.threads(group);
        }
    }
    dump.notes();
    for line in &dump.lines {
        writeln!(output, "{}", line.trim_end())?;
    }
    Ok(())
}

/// A thread about to be shown.
struct Shown<'a> {
    thread: &'a DumpedThread,
    known: &'a Thread,
    stack: Option<StackIndex>,
}

impl Shown<'_> {
    /// Whether both are of one kind and wait at the same place.
    fn is_like(&self, other: &Self) -> bool {
        self.known.role != ThreadRole::Main
            && self.stack.is_some()
            && (self.stack, &self.known.name, self.known.role)
                == (other.stack, &other.known.name, other.known.role)
            && (self.thread.state, &self.thread.remark)
                == (other.thread.state, &other.thread.remark)
    }
}

struct Dump<'a> {
    profile: &'a Profile,
    paint: Paint,
    width: usize,
    lines: Vec<String>,
}

impl<'a> Dump<'a> {
    fn sample_of(&self, process: usize, tid: u32) -> Option<(&'a Sample, &'a Thread)> {
        let profile = self.profile;
        profile.samples.iter().find_map(|sample| {
            let thread = &profile.threads[sample.thread.at()];
            (thread.process.at() == process && thread.tid == tid).then_some((sample, thread))
        })
    }

    fn process(&mut self, position: usize, shown: &[Shown<'_>]) {
        let process = &self.profile.processes[position];
        if !self.lines.is_empty() {
            self.lines.push(String::new());
        }
        let version = match &process.node_version {
            Some(version) => format!(", node {}", printable(version)),
            None => String::new(),
        };
        let name = self.paint.bold(&printable(&process.name));
        self.lines
            .push(format!("{name}{version}, pid {}", process.pid));
        let command = printable(&process.command);
        self.lines
            .push(self.paint.dim(&keep_start(&command, self.width)));
        let held: Vec<Nanoseconds> = shown.iter().filter_map(|shown| shown.thread.held).collect();
        let how = match held.iter().max() {
            Some(&longest) => format!(
                "stopped one after the other, {} in all, {} at most",
                wording::duration(held.iter().sum()),
                wording::duration(longest)
            ),
            None => "looked at without stopping them".to_owned(),
        };
        let threads = counted(shown.len() as u64, "thread");
        self.lines.push(format!("{threads}, {how}"));
    }

    /// Threads that all have the same stack.
    fn threads(&mut self, group: &[Shown<'_>]) {
        let first = &group[0];
        let thread = first.thread;
        let name = match first.known.name.as_str() {
            "" => "(unnamed)".into(),
            name => printable(name),
        };
        let mut parts = vec![first.known.role.label().to_owned()];
        let tids: Vec<String> = group
            .iter()
            .map(|shown| shown.thread.tid.to_string())
            .collect();
        parts.push(match tids.as_slice() {
            [tid] => format!("tid {tid}"),
            tids => format!("{} threads: tids {}", tids.len(), tids.join(" ")),
        });
        parts.push(thread.state.to_owned());
        parts.extend(held_clause(group));
        parts.extend(thread.remark.clone());
        self.lines.push(String::new());
        self.lines
            .push(format!("{}  {}", self.paint.bold(&name), parts.join(", ")));
        let Some(stack) = first.stack else {
            self.lines.push("  no stack".to_owned());
            return;
        };
        if let Some(activity) = activity(self.profile, first.known.role, stack, thread.is_running) {
            self.lines.push(format!("  {}", activity.sentence()));
        }
        self.stack(stack);
    }

    fn stack(&mut self, stack: StackIndex) {
        let profile = self.profile;
        let is_shown = |frame: &FrameIndex| {
            let function = profile.frame(*frame).function;
            profile.function(function).category != Category::Internal
        };
        let frames: Vec<FrameIndex> = profile.frames_of(stack).filter(is_shown).collect();
        let mut rows: Vec<Row> = Vec::new();
        for run in frames.chunk_by(|one, other| one == other) {
            let row = Row::of(profile, run[0]);
            if run.len() < RECURSION {
                rows.extend(std::iter::repeat_n(row, run.len()));
                continue;
            }
            rows.push(row);
            let more = count(run.len() as u64 - 1);
            rows.push(Row::remark(format!("… the same {more} times more")));
        }
        if rows.len() > MAX_FRAMES {
            let hidden = rows.len() - MAX_FRAMES;
            let first = MAX_FRAMES - ROOT_FRAMES;
            let remark = format!(
                "… {} more (--json has them)",
                counted(hidden as u64, "frame")
            );
            rows.splice(first..first + hidden, [Row::remark(remark)]);
        }
        let name_width = self.name_width(&rows);
        for row in &rows {
            let line = self.row(row, name_width);
            self.lines.push(line);
        }
    }

    /// How wide the column of names is: what they need, at most half the line.
    fn name_width(&self, rows: &[Row]) -> usize {
        let longest = rows.iter().map(|row| width_of(&row.name)).max();
        longest.unwrap_or(0).min(WIDEST_NAME).min(self.width / 2)
    }

    fn row(&self, row: &Row, name_width: usize) -> String {
        let Some(category) = row.category else {
            return format!("    {}", self.paint.dim(&row.name));
        };
        let name = keep_last_parts(
            &row.name,
            "::",
            name_width.max(WIDEST_NAME.min(self.width / 2)),
        );
        let filling = " ".repeat(name_width.saturating_sub(width_of(&name)));
        let tier = match row.tier {
            "" => String::new(),
            tier => format!("  {tier}"),
        };
        let room = self
            .width
            .saturating_sub(4 + name_width + 2 + width_of(&tier));
        let place = keep_last_parts(&row.place, "/", room.max(20));
        let name = self.paint.category(category, &name);
        format!("    {name}{filling}  {place}{}", self.paint.dim(&tier))
    }

    fn notes(&mut self) {
        let clauses = wording::confidence(self.profile);
        self.lines.push(String::new());
        if !clauses.is_empty() {
            self.lines.push(clauses.join("; "));
        }
        for remark in &self.profile.notes.remarks {
            self.lines.push(format!("note: {}", printable(remark)));
        }
    }
}

/// `held 38 µs` or, of several threads, `held 20 to 38 µs`.
fn held_clause(group: &[Shown<'_>]) -> Option<String> {
    let held = || group.iter().filter_map(|shown| shown.thread.held);
    let (least, most) = (held().min()?, held().max()?);
    let (least, most) = (wording::duration(least), wording::duration(most));
    Some(match least == most {
        true => format!("held {most}"),
        false => format!("held {least} to {most}"),
    })
}

/// One line of a stack.
#[derive(Clone)]
struct Row {
    name: String,
    place: String,
    tier: &'static str,
    /// None for a remark between frames.
    category: Option<Category>,
}

impl Row {
    fn of(profile: &Profile, index: FrameIndex) -> Self {
        let frame = profile.frame(index);
        let category = profile.function(frame.function).category;
        Self {
            name: short_name(&printable(profile.name_of(frame.function))),
            place: place_of(profile, index),
            tier: match frame.is_inlined {
                true => "inlined",
                false => frame.tier.label(),
            },
            category: Some(category),
        }
    }

    fn remark(name: String) -> Self {
        Self {
            name,
            place: String::new(),
            tier: "",
            category: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use nodespy_model::{
        About, Frame, FunctionSpec, Notes, Process, ProfileBuilder, Tier, WeightUnit,
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
                is_inlined: false,
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
        draw_dump(&profile, &[thread], Terminal::default(), &mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        assert!(text.contains("the same 49 times more"), "{text}");
        assert_eq!(text.matches("/app/a.js:3").count(), 2, "{text}");
        assert!(
            text.contains("MainThread  main, tid 7, running, held 38 µs"),
            "{text}"
        );
    }
}
