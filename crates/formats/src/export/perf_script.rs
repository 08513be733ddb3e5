//! `perf script` text, for whatever reads that: stackcollapse-perf.pl, speedscope, the Firefox
//! profiler.
//!
//! Periods are weights, times count from the start of the recording. JavaScript is written as V8
//! names it in a perf map, so that readers which know `LazyCompile:*f /app.js:1:2` know it too. An
//! address is only a frame's number: no one can look anything up by it. Comments hold the rest.

use std::borrow::Cow;
use std::io::Write;

use nodespy_model::{
    Category, EventType, Frame, Function, Profile, Sample, ThreadIndex, Tier, folded_thread,
};

use super::{Detail, ExportError, Exporter};
use crate::recorded;

/// The exporter of `perf script` text.
pub(crate) struct PerfScript;

impl Exporter for PerfScript {
    fn name(&self) -> &'static str {
        "perf-script"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["perf-script", "stacks"]
    }

    fn leaves_out(&self) -> &'static [Detail] {
        &[
            Detail::CurrentLines,
            Detail::Inlining,
            Detail::AsyncFrames,
            Detail::DeoptReasons,
            Detail::ProcessDetails,
            Detail::Sources,
            Detail::GeneratedPlaces,
            Detail::Contexts,
        ]
    }

    fn holds_events(&self) -> bool {
        true
    }

    fn export(&self, profile: &Profile, output: &mut dyn Write) -> Result<(), ExportError> {
        for line in recorded::lines(profile) {
            writeln!(output, "# {line}")?;
        }
        for process in &profile.processes {
            if !process.name.trim().is_empty() {
                writeln!(output, "# process {}: {}", process.pid, process.name.trim())?;
            }
        }
        writeln!(output, "#")?;
        let events: Vec<String> = profile.events.iter().map(event_word).collect();
        let threads: Vec<String> = (0..profile.threads.len())
            .map(|position| thread_name(profile, ThreadIndex(position as u32)))
            .collect();
        // A frame has one text for each process, because of the name of its perf map.
        let texts: Vec<FrameText<'_>> = (profile.frames.iter())
            .map(|frame| FrameText::of(profile, frame))
            .collect();
        for sample in &profile.samples {
            write_header(profile, sample, &threads, &events, output)?;
            let thread = &profile.threads[sample.thread.at()];
            let pid = profile.processes[thread.process.at()].pid;
            for frame in sample
                .stack
                .iter()
                .flat_map(|stack| profile.frames_of(*stack))
            {
                let FrameText { name, module } = &texts[frame.at()];
                let address = frame.0 as usize + 1;
                match module {
                    Some(module) => writeln!(output, "\t{address:16x} {name} ({module})")?,
                    None => writeln!(output, "\t{address:16x} {name} (/tmp/perf-{pid}.map)")?,
                }
            }
            writeln!(output)?;
        }
        Ok(())
    }
}

fn write_header(
    profile: &Profile,
    sample: &Sample,
    threads: &[String],
    events: &[String],
    output: &mut dyn Write,
) -> Result<(), ExportError> {
    let thread = &profile.threads[sample.thread.at()];
    let pid = profile.processes[thread.process.at()].pid;
    let name = &threads[sample.thread.at()];
    write!(output, "{name} {pid:>5}/{:<5} ", thread.tid)?;
    if let Some(cpu) = sample.cpu {
        write!(output, "[{:03}] ", cpu.get())?;
    }
    let (seconds, nanoseconds) = (sample.time / 1_000_000_000, sample.time % 1_000_000_000);
    writeln!(
        output,
        "{seconds:5}.{nanoseconds:09}: {:>10} {}: ",
        sample.weight,
        events[sample.event.at()],
    )?;
    Ok(())
}

/// What made the samples, as one word.
pub(crate) fn event_word(event: &EventType) -> String {
    let name: String = event.name.split_whitespace().collect();
    match name.trim_end_matches(':') {
        "" => event.unit.label().to_owned(),
        name => name.to_owned(),
    }
}

/// The name of a thread; what starts with `#` would be a comment.
fn thread_name(profile: &Profile, thread: ThreadIndex) -> String {
    let name = profile.threads[thread.at()].name.trim();
    let name = match name {
        "" => folded_thread(profile, thread),
        name => name.to_owned(),
    };
    match name.trim_start_matches('#').trim() {
        "" => "[unknown]".to_owned(),
        name => name.to_owned(),
    }
}

/// A frame as it is written: without a module it is in the perf map.
struct FrameText<'p> {
    name: Cow<'p, str>,
    module: Option<&'p str>,
}

impl<'p> FrameText<'p> {
    fn of(profile: &'p Profile, frame: &Frame) -> Self {
        let function = profile.function(frame.function);
        let name = match profile.name_of(frame.function).trim() {
            "" => "[unknown]",
            name => name,
        };
        let file = profile.file_of(frame.function);
        let jit = |name: String| Self {
            name: Cow::Owned(name),
            module: None,
        };
        match function.category {
            Category::App | Category::Dependency | Category::NodeCore => {
                jit(javascript(function, frame.tier, name, file))
            }
            Category::RegExp => jit(format!("RegExp:{name}")),
            Category::Wasm => jit(format!("Wasm:{name}")),
            Category::Builtin if !name.starts_with("Builtins_") => jit(format!("Builtin:{name}")),
            Category::Internal if is_handler(name) => jit(format!("BytecodeHandler:{name}")),
            // Readers skip frames that start with a parenthesis.
            _ if name.starts_with('(') => jit(format!("JS:{name}")),
            category => Self {
                name: Cow::Borrowed(name),
                module: Some(module(category, file)),
            },
        }
    }
}

fn is_handler(name: &str) -> bool {
    nodespy_model::classify::category_of_native(name) != Category::Internal
}

fn module(category: Category, file: &str) -> &str {
    match (category, file.trim()) {
        (Category::Kernel, file) if !file.starts_with('[') && !file.ends_with(".ko") => {
            "[kernel.kallsyms]"
        }
        (_, "") => "[unknown]",
        (_, file) => file,
    }
}

/// `JS:*turn /app/mix.js:19:15`
fn javascript(function: &Function, tier: Tier, name: &str, file: &str) -> String {
    let mark = match tier {
        Tier::None => "",
        Tier::Interpreted => "~",
        Tier::Baseline => "^",
        Tier::Maglev => "+",
        Tier::Optimized => "*",
    };
    let place = match (file, function.line, function.column) {
        ("", _, _) => String::new(),
        (file, line, 0) => format!(" {file}:{line}"),
        (file, line, column) => format!(" {file}:{line}:{column}"),
    };
    format!("JS:{mark}{name}{place}")
}
