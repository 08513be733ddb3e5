//! From a profile to windows, and from merged stacks back to a profile.

use std::collections::BTreeMap;

use nodespy_model::{
    About, EventType, FastMap, FastSet, FrameSpec, FunctionSpec, Labels, Notes, Process, Profile,
    ProfileBuilder, Sample, StackIndex, Thread, ThreadIndex, ThreadRole, WeightUnit, label_key,
    printable,
};

use crate::selection::StackWeight;
use crate::symbols::{
    MAX_DEPTH, MAX_TEXT_BYTES, StackHash, StoredFrame, StoredFunction, SymbolBuilder, Symbols,
};
use crate::window::{
    Batch, Count, MAX_NAME_BYTES, Series, UnixSeconds, WINDOW_SECONDS, Window, role_number,
};

/// The label of the machine that a process runs on.
pub const HOST: &str = "host";
/// The label of the process's number there.
pub const PID: &str = "pid";
/// The event of samples of CPU time.
pub const CPU_EVENT: &str = "cpu";
/// The label that says how many samples are usually taken in a second of CPU time: each may stand for several of its period.
pub const SAMPLING_RATE: &str = "sampling-rate";
/// How many bytes the keys and values of a series' labels may have together where they are sent: whoever asks which series there are has
/// all of them in memory.
pub const MAX_LABEL_BYTES: usize = 4096;

/// How many bytes keys and values of labels have together.
pub fn label_bytes(labels: &Labels) -> usize {
    let each = labels.iter().map(|(key, value)| key.len() + value.len());
    each.sum()
}
/// The event of requests that a process answered. They are counted, not sampled: what CPU time is divided by, and no profile.
pub const REQUESTS_EVENT: &str = "requests";

const NANOSECONDS: u64 = 1_000_000_000;

/// What stands for the callers that are left out of a stack that is too deep.
const TRUNCATED: &str = "[truncated]";

/// The counts of a window, by stack of the batch and role.
type Counts = BTreeMap<(usize, u8), u64>;

/// The samples of a profile as windows: one series for each process and event. Every stack that is counted is named.
pub fn batch_of(profile: &Profile) -> Batch {
    let mut used: Vec<StackIndex> = profile.samples.iter().filter_map(|it| it.stack).collect();
    used.sort_unstable_by_key(|stack| stack.at());
    used.dedup();
    let mut batch = Batch {
        symbols: symbols_of(profile, &used),
        ..Batch::default()
    };
    let hashes = batch.symbols.hashes();
    let no_stack = hashes.len();
    let position_of = |stack: StackIndex| {
        let position = used.binary_search_by_key(&stack.at(), |used| used.at());
        position.expect("it is a sample's stack")
    };
    let mut series: FastMap<(u32, u16), usize> = FastMap::default();
    let mut windows: BTreeMap<(usize, UnixSeconds), Counts> = BTreeMap::new();
    for sample in &profile.samples {
        let thread = &profile.threads[sample.thread.at()];
        let key = (thread.process.0, sample.event.0);
        let index = *series.entry(key).or_insert_with(|| {
            let process = &profile.processes[thread.process.at()];
            let event = &profile.events[sample.event.at()];
            batch.series.push(series_of(&profile.about, process, event));
            batch.series.len() - 1
        });
        let seconds = profile.about.started_unix.saturating_add(sample.time) / NANOSECONDS;
        let start = seconds / WINDOW_SECONDS * WINDOW_SECONDS;
        let stack = sample.stack.map_or(no_stack, position_of);
        let counts = windows.entry((index, start)).or_default();
        let count = counts.entry((stack, role_number(thread.role))).or_default();
        *count = count.saturating_add(sample.weight);
    }
    batch.windows = windows
        .into_iter()
        .map(|((series, start), counts)| Window {
            series,
            start,
            counts: counts
                .into_iter()
                .map(|((stack, role), count)| {
                    let hash = hashes.get(stack).copied().unwrap_or_default();
                    Count::new(hash, ThreadRole::ALL[usize::from(role)], count)
                })
                .collect(),
        })
        .collect();
    // What stands for samples without a stack: a stack without frames.
    batch.symbols.stacks.push(Vec::new());
    batch
}

impl Batch {
    /// Windows of what is counted and has no stack: the series, when each starts, how much.
    pub fn counted(series: Vec<Series>, windows: &[(usize, UnixSeconds, u64)]) -> Self {
        let window = |&(series, start, count): &(usize, UnixSeconds, u64)| Window {
            series,
            start,
            counts: vec![Count::new(StackHash::default(), ThreadRole::Other, count)],
        };
        Self {
            series,
            windows: windows.iter().map(window).collect(),
            symbols: Symbols {
                stacks: vec![Vec::new()],
                ..Symbols::default()
            },
        }
    }

    /// Leaves out the names of stacks that are not among these, which the store asked for.
    pub fn keep_names_of(&mut self, unknown: &[StackHash]) {
        let unknown: FastSet<StackHash> = unknown.iter().copied().collect();
        let mut kept = SymbolBuilder::default();
        for (position, hash) in self.symbols.hashes().iter().enumerate() {
            if unknown.contains(hash) {
                kept.stack_of(&self.symbols, position);
            }
        }
        self.symbols = kept.symbols;
    }
}

fn series_of(about: &About, process: &Process, event: &EventType) -> Series {
    let mut labels = process.labels.clone();
    labels.set(HOST, &about.host);
    labels.set(PID, process.pid.to_string());
    let app = labels.get(label_key::APP).unwrap_or(&process.name);
    let service = match app {
        "" => "unknown",
        app => app,
    };
    // Samples of time weigh what lies between two of them, so that other rates can be added.
    let (unit, period) = match (event.unit, event.interval()) {
        (WeightUnit::Samples, Some(interval)) => (WeightUnit::Nanoseconds, interval),
        (unit, _) => (unit, 1),
    };
    // Whether a host counts cycles or has only a clock, it samples the same.
    let event = match event.is_cpu() && unit == WeightUnit::Nanoseconds {
        true => CPU_EVENT,
        false => event.label(),
    };
    Series {
        service: name_of_series(service),
        event: name_of_series(event),
        unit,
        period,
        labels,
    }
}

/// A name that a store takes. Anybody who starts a process can name its service: pm2's name is a variable of its environment.
fn name_of_series(name: &str) -> String {
    cut(&printable(name), MAX_NAME_BYTES).to_owned()
}

/// How many bytes the names and files of a profile's functions have once each function has its own, as those of a batch do: many
/// functions can share one long name.
pub fn name_bytes(profile: &Profile) -> usize {
    let functions = profile.functions.iter();
    let bytes = functions.map(|function| {
        let text = |index| profile.strings.get(index).len();
        text(function.name) + function.file.map_or(0, text)
    });
    bytes.sum()
}

/// These stacks of a profile, in their order, cut to what a store takes.
fn symbols_of(profile: &Profile, stacks: &[StackIndex]) -> Symbols {
    let mut builder = SymbolBuilder::default();
    // Functions have their names copied, and are many fewer than frames.
    let mut functions: Vec<Option<u32>> = vec![None; profile.functions.len()];
    let frames: Vec<u32> = profile
        .frames
        .iter()
        .map(|frame| {
            let function = *functions[frame.function.at()].get_or_insert_with(|| {
                let spec = profile.spec_of(frame.function);
                builder.function(StoredFunction {
                    name: cut(spec.name, MAX_TEXT_BYTES).to_owned(),
                    file: cut(spec.file, MAX_TEXT_BYTES).to_owned(),
                    line: spec.line,
                    column: spec.column,
                    category: spec.category,
                })
            });
            builder.frame(StoredFrame {
                function,
                line: frame.line,
                column: frame.column,
                tier: frame.tier,
                kind: frame.kind,
            })
        })
        .collect();
    for &stack in stacks {
        let all = profile.frames_of(stack);
        let mut path: Vec<u32> = all.take(MAX_DEPTH + 1).map(|it| frames[it.at()]).collect();
        if path.len() > MAX_DEPTH {
            path.truncate(MAX_DEPTH - 1);
            let function = builder.function(StoredFunction {
                name: TRUNCATED.to_owned(),
                ..StoredFunction::default()
            });
            path.push(builder.frame(StoredFrame {
                function,
                ..StoredFrame::default()
            }));
        }
        path.reverse();
        builder.symbols.stacks.push(path);
    }
    builder.symbols
}

/// The beginning of a text that is too long.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Merged stacks of threads of one role.
#[derive(Debug, Clone)]
pub struct StoredThread {
    /// Their role.
    pub role: ThreadRole,
    /// The names of the stacks, in their order.
    pub symbols: Symbols,
    /// The stacks.
    pub stacks: Vec<StackWeight>,
}

/// Merged stacks as a profile, one sample a stack; `symbols` names them in their order.
pub fn profile_of(
    about: About,
    event: EventType,
    symbols: &Symbols,
    stacks: &[StackWeight],
) -> Profile {
    let thread = StoredThread {
        role: ThreadRole::Main,
        symbols: symbols.clone(),
        stacks: stacks.to_vec(),
    };
    profile_of_threads(about, Notes::default(), event, &[thread])
}

/// The same with a thread for each role.
pub fn profile_of_threads(
    about: About,
    notes: Notes,
    event: EventType,
    threads: &[StoredThread],
) -> Profile {
    let mut builder = ProfileBuilder::new(event);
    let process = builder.process(Process {
        name: about.app.clone(),
        labels: Labels::default(),
        ..Process::default()
    });
    for (number, merged) in threads.iter().enumerate() {
        let thread = builder.thread(Thread {
            process,
            // Each its own; the first is the process's.
            tid: number as u32,
            name: merged.role.label().to_owned(),
            role: merged.role,
            ..Thread::default()
        });
        add_stacks(&mut builder, thread, merged);
    }
    builder.finish(about, notes)
}

fn add_stacks(builder: &mut ProfileBuilder, thread: ThreadIndex, merged: &StoredThread) {
    let symbols = &merged.symbols;
    let frames: Vec<_> = symbols
        .frames
        .iter()
        .map(|frame| {
            let function = &symbols.functions[frame.function as usize];
            builder.frame(FrameSpec {
                function: FunctionSpec {
                    name: &function.name,
                    file: &function.file,
                    line: function.line,
                    column: function.column,
                    category: function.category,
                },
                line: frame.line,
                column: frame.column,
                tier: frame.tier,
                kind: frame.kind,
            })
        })
        .collect();
    for (path, merged) in symbols.stacks.iter().zip(&merged.stacks) {
        let mut stack = None;
        for frame in path {
            stack = Some(builder.stack(stack, frames[*frame as usize]));
        }
        builder.add_sample(Sample {
            weight: merged.weight,
            thread,
            stack,
            ..Sample::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample of each of these services.
    fn batch_of_services(names: &[&str]) -> Batch {
        let mut builder = ProfileBuilder::new(EventType::default());
        for (name, pid) in names.iter().zip(1..) {
            let mut labels = Labels::default();
            labels.set(label_key::APP, name);
            let process = builder.process(Process {
                pid,
                name: "node".to_owned(),
                labels,
                ..Process::default()
            });
            let thread = builder.thread(Thread {
                process,
                tid: pid,
                ..Thread::default()
            });
            builder.add_sample(Sample {
                weight: 1,
                thread,
                ..Sample::default()
            });
        }
        batch_of(&builder.finish(About::default(), Notes::default()))
    }

    #[test]
    fn a_service_is_named_as_a_store_takes_it() {
        let long = "x".repeat(300);
        let wide = format!("x{}", "é".repeat(200));
        let batch = batch_of_services(&[&long, "shop", &wide]);
        batch.check().unwrap();
        let services: Vec<&str> = batch.series.iter().map(|it| &*it.service).collect();
        assert_eq!(services[0], &long[..MAX_NAME_BYTES]);
        assert_eq!(services[1], "shop");
        // Not in the middle of a character.
        assert_eq!(services[2], &wide[..MAX_NAME_BYTES - 1]);
        assert_eq!(batch.windows.len(), 3);
    }
}
