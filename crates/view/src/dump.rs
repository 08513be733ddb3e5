//! Every thread's stack as text, and what a thread is up to in a sentence.
//!
//! The profile holds one sample per thread; what is known of a thread beyond that comes in beside
//! it. Threads that wait at the same place are shown once, and so is recursion; V8's entry stubs
//! and libc's start of a thread are left out.

use std::borrow::Cow;
use std::io::Write;

use nodespy_model::{
    Category, FastMap, FrameIndex, FrameKind, Nanoseconds, Profile, Sample, StackIndex, Thread,
    ThreadRole, printable,
};

use crate::columns::{keep_last_parts, keep_start, short_name, width_of};
use crate::text::Paint;
use crate::wording::{self, count, counted};
use crate::{DrawError, Terminal, pools};

mod pending;

pub use pending::{PendingStack, pending_stacks};

/// Longer stacks lose their middle.
const MAX_FRAMES: usize = 200;
/// How many frames of a longer stack are shown at its root.
const ROOT_FRAMES: usize = 40;
/// As many equal frames in a row are shown as one.
const RECURSION: usize = 4;
/// How many tids of threads with equal stacks are listed.
const MAX_TIDS: usize = 16;
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

/// What a thread is up to, where its stack shows it; none for threads without an event loop.
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

/// Writes every thread's stack and, where they were searched for, the pending async functions of each process.
pub fn draw_dump(
    profile: &Profile,
    threads: &[DumpedThread],
    pending: Option<&Profile>,
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
    let samples: FastMap<(usize, u32), &Sample> = profile
        .samples
        .iter()
        .map(|sample| {
            let thread = &profile.threads[sample.thread.at()];
            ((thread.process.at(), thread.tid), sample)
        })
        .collect();
    for (position, process) in profile.processes.iter().enumerate() {
        let of_process = threads.iter().filter(|thread| thread.pid == process.pid);
        let shown: Vec<Shown<'_>> = of_process
            .filter_map(|thread| {
                let sample = samples.get(&(position, thread.tid))?;
                Some(Shown {
                    thread,
                    known: &profile.threads[sample.thread.at()],
                    stack: sample.stack,
                })
            })
            .collect();
        dump.process(position, &shown);
        for group in groups(shown) {
            dump.threads(&group);
        }
        if let Some(pending) = pending {
            dump.pending(pending, process.pid);
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
    /// What threads have in common that are shown as one; none for a thread that is shown alone.
    fn group_key(&self) -> Option<GroupKey<'_>> {
        let is_alone = self.known.role == ThreadRole::Main;
        let stack = self.stack.filter(|_| !is_alone)?;
        // Workers differ in their names and do the same work.
        let name = match self.known.role {
            ThreadRole::Worker => "",
            _ => self.known.name.as_str(),
        };
        let remark = self.thread.remark.as_deref();
        Some((stack, self.known.role, name, self.thread.state, remark))
    }
}

/// Stack, role, name, state and remark.
type GroupKey<'a> = (StackIndex, ThreadRole, &'a str, &'a str, Option<&'a str>);

/// Threads with equal stacks together, each group where its first thread is.
fn groups(shown: Vec<Shown<'_>>) -> Vec<Vec<Shown<'_>>> {
    let mut places: FastMap<GroupKey<'_>, usize> = FastMap::default();
    let mut place_of = Vec::with_capacity(shown.len());
    let mut count = 0;
    for thread in &shown {
        let place = match thread.group_key() {
            Some(key) => *places.entry(key).or_insert(count),
            None => count,
        };
        count += usize::from(place == count);
        place_of.push(place);
    }
    drop(places);
    let mut groups: Vec<Vec<Shown<'_>>> = (0..count).map(|_| Vec::new()).collect();
    for (thread, place) in shown.into_iter().zip(place_of) {
        groups[place].push(thread);
    }
    groups
}

struct Dump<'a> {
    profile: &'a Profile,
    paint: Paint,
    width: usize,
    lines: Vec<String>,
}

impl Dump<'_> {
    fn process(&mut self, position: usize, shown: &[Shown<'_>]) {
        let process = &self.profile.processes[position];
        if !self.lines.is_empty() {
            self.lines.push(String::new());
        }
        let version = match process.runtime() {
            Some(runtime) => format!(", {}", printable(&runtime)),
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
            None => "read without stopping them".to_owned(),
        };
        let threads = counted(shown.len() as u64, "thread");
        self.lines.push(format!("{threads}, {how}"));
        if let Some(pool) = &process.pool {
            self.lines.push(pools::moment(pool));
        }
    }

    /// Threads that all have the same stack.
    fn threads(&mut self, group: &[Shown<'_>]) {
        let first = &group[0];
        let activity = first.stack.and_then(|stack| {
            activity(
                self.profile,
                first.known.role,
                stack,
                first.thread.is_running,
            )
        });
        let mut parts = vec![first.known.role.label().to_owned(), tids_of(group)];
        parts.push(first.thread.state.to_owned());
        parts.extend(held_clause(group));
        parts.extend(first.thread.remark.clone());
        let title = match group {
            [_] => name_of(first).into_owned(),
            group => self.title_of_group(group, activity.as_ref()),
        };
        self.lines.push(String::new());
        self.lines
            .push(format!("{}  {}", self.paint.bold(&title), parts.join(", ")));
        let Some(stack) = first.stack else {
            self.lines.push("  no stack".to_owned());
            return;
        };
        if let Some(activity) = activity {
            self.lines.push(format!("  {}", activity.sentence()));
        }
        self.stack(stack);
    }

    /// `200 threads idle in uv__io_poll`, or how many threads of a name there are.
    fn title_of_group(&self, group: &[Shown<'_>], activity: Option<&Activity>) -> String {
        let first = &group[0];
        let threads = counted(group.len() as u64, "thread");
        if let (Some(Activity::Idle), Some(_)) = (activity, first.stack) {
            return format!("{threads} idle in uv__io_poll");
        }
        let has_one_name = |other: &Shown<'_>| other.known.name == first.known.name;
        match group.iter().all(has_one_name) {
            true => format!("{threads} {}", name_of(first)),
            false => format!("{threads} {} and others", name_of(first)),
        }
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
        for sentence in self.profile.notes.sentences() {
            self.lines.push(format!("note: {}", printable(&sentence)));
        }
    }
}

fn name_of<'a>(shown: &'a Shown<'_>) -> Cow<'a, str> {
    match shown.known.name.as_str() {
        "" => "(unnamed)".into(),
        name => printable(name),
    }
}

/// `tid 7`, or the tids of several threads.
fn tids_of(group: &[Shown<'_>]) -> String {
    if let [only] = group {
        return format!("tid {}", only.thread.tid);
    }
    let tids = group.iter().take(MAX_TIDS);
    let tids: Vec<String> = tids.map(|shown| shown.thread.tid.to_string()).collect();
    let more = match group.len().saturating_sub(MAX_TIDS) {
        0 => String::new(),
        more => format!(" and {} more (--json has them)", count(more as u64)),
    };
    format!("tids {}{more}", tids.join(" "))
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
            tier: match frame.kind {
                FrameKind::Inlined => "inlined",
                FrameKind::Async => "await",
                FrameKind::Physical => frame.tier.label(),
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
mod tests;
