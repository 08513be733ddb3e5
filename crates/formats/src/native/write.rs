//! Writes a profile as the oldest version that has room for it.

use std::io::Write;

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use nodespy_model::{
    About, AsyncCallers, EventLoop, EventType, ExactWaits, ExitReason, Frame, Function,
    FunctionIndex, GcPauses, NameSource, Notes, Pool, PoolSubmitter, Process, Profile, Sample,
    Scheduling, Source, Stack, StringIndex, StringTable, Thread,
};

use super::columns::{put, put_option, put_string, zigzag};
use super::stack_order::StackOrder;
use super::{
    CATEGORIES, FRAME_KINDS, GC_KINDS, MAGIC, NAME_SOURCES, ROLES, TIERS, UNITS, code_of, samples,
    section, tags, timelines,
};
use crate::export::ExportError;

/// Samples to a section: a file cut short keeps its whole sections.
const SAMPLES_PER_SECTION: usize = 1 << 16;

/// Writes a whole file.
pub(super) fn write(profile: &Profile, output: &mut dyn Write) -> Result<(), ExportError> {
    output.write_all(&MAGIC)?;
    output.write_all(&tags::version_of(profile).to_le_bytes())?;
    output.write_all(&0u32.to_le_bytes())?;
    // No time and no host in gzip's own header: equal profiles give equal bytes.
    let mut packed = GzBuilder::new()
        .operating_system(255)
        .write(output, Compression::default());
    write_sections(profile, &mut packed)?;
    packed.finish()?;
    Ok(())
}

fn write_sections(
    profile: &Profile,
    packed: &mut GzEncoder<&mut dyn Write>,
) -> Result<(), ExportError> {
    let mut emit = |id: u64, content: &[u8]| -> Result<(), ExportError> {
        let mut head = Vec::new();
        put(&mut head, id);
        put(&mut head, content.len() as u64);
        packed.write_all(&head)?;
        packed.write_all(content)?;
        Ok(())
    };
    emit(section::ABOUT, &about(&profile.about, profile.event()))?;
    if tags::has_events(profile) {
        emit(section::EVENTS, &tags::events(profile))?;
    }
    emit(section::NOTES, &notes(&profile.notes))?;
    if let Some(async_callers) = async_callers(&profile.notes) {
        emit(section::ASYNC_CALLERS, &async_callers)?;
    }
    emit(section::COUNTS, &counts(profile))?;
    emit(section::STRINGS, &strings(&profile.strings, 0))?;
    emit(section::FUNCTIONS, &functions(&profile.functions))?;
    emit(section::FRAMES, &frames(&profile.frames))?;
    let order = StackOrder::of(&profile.stacks);
    emit(section::STACKS, &stacks(profile, &order))?;
    if !profile.deopt_reasons.is_empty() {
        emit(section::DEOPTS, &of_functions(&profile.deopt_reasons))?;
    }
    if !profile.generated_places.is_empty() {
        emit(section::GENERATED, &of_functions(&profile.generated_places))?;
    }
    emit(section::PROCESSES, &processes(&profile.processes))?;
    if let Some(labels) = labels(profile, |_| true) {
        emit(section::LABELS, &labels)?;
    }
    emit(section::THREADS, &threads(&profile.threads))?;
    if let Some(scheduling) = scheduling(profile, |_| true) {
        emit(section::SCHEDULING, &scheduling)?;
    }
    if let Some(event_loops) = event_loops(profile, |_| true) {
        emit(section::EVENT_LOOPS, &event_loops)?;
    }
    if let Some(pools) = pools(profile, |_| true) {
        emit(section::POOLS, &pools)?;
    }
    if let Some(submitters) = pool_submitters(profile, |_| true) {
        emit(section::POOL_SUBMITTERS, &submitters)?;
    }
    if let Some(pauses) = gc_pauses(profile, |_| true) {
        emit(section::GC_PAUSES, &pauses)?;
    }
    if let Some(waits) = exact_waits(profile, |_| true) {
        emit(section::EXACT_WAITS, &waits)?;
    }
    if let Some(timelines) = timelines::of_loops(&timelines::loops(profile)) {
        emit(section::LOOP_TIMELINES, &timelines)?;
    }
    if let Some(timelines) = timelines::of_collections(&timelines::collections(profile)) {
        emit(section::GC_TIMELINES, &timelines)?;
    }
    if let Some(timelines) = timelines::of_pools(&timelines::pools(profile)) {
        emit(section::POOL_TIMELINES, &timelines)?;
    }
    if !profile.contexts.is_empty() {
        emit(section::CONTEXTS, &tags::contexts(profile, 0))?;
    }
    let sorted;
    let all = match profile.samples.is_sorted_by_key(|sample| sample.time) {
        true => &profile.samples,
        false => {
            let mut samples = profile.samples.clone();
            Sample::sort_by_time(&mut samples);
            sorted = samples;
            &sorted
        }
    };
    let unit = samples::unit_of(all, 0);
    let mut before = samples::Before::default();
    for rows in all.chunks(SAMPLES_PER_SECTION) {
        if let Some(tags) = tags::tags(rows) {
            emit(section::TAGS, &tags)?;
        }
        emit(
            section::SAMPLES,
            &samples::section(rows, unit, |stack| order.row(stack), &mut before),
        )?;
    }
    if !profile.sources.is_empty() {
        emit(section::SOURCES, &sources(&profile.sources))?;
    }
    emit(section::END, &[])
}

pub(super) fn about(about: &About, event: &EventType) -> Vec<u8> {
    let mut content = Vec::new();
    put(&mut content, code_of(&UNITS, &event.unit));
    put_string(&mut content, &about.app);
    put_string(&mut content, &about.host);
    put_string(&mut content, &about.engine);
    put_string(&mut content, &event.name);
    put(&mut content, u64::from(event.rate_hz()));
    put(&mut content, about.started_unix);
    put(&mut content, about.duration);
    put_string(&mut content, &about.nodespy_version);
    content
}

pub(super) fn notes(notes: &Notes) -> Vec<u8> {
    let mut content = Vec::new();
    for count in [
        notes.lost_samples,
        notes.lost_records,
        notes.throttled,
        notes.cut_stacks,
        notes.incomplete_stacks,
        notes.unwound_stacks,
        notes.jit_frames,
    ] {
        put(&mut content, count);
    }
    // V8's profiler came later than the others: it is written only where it named something.
    let sources = match notes.jit_named[NameSource::Inspector.at()] {
        0 => &NAME_SOURCES[..NameSource::Inspector.at()],
        _ => &NAME_SOURCES[..],
    };
    put(&mut content, sources.len() as u64);
    for source in sources {
        put(&mut content, notes.jit_named[source.at()]);
    }
    put(&mut content, notes.sentences().count() as u64);
    for sentence in notes.sentences() {
        put_string(&mut content, &sentence);
    }
    content
}

/// How far callers were followed; none where no sample was in a continuation.
pub(super) fn async_callers(notes: &Notes) -> Option<Vec<u8>> {
    let callers = &notes.async_callers;
    let mut content = Vec::new();
    for count in [
        callers.whole,
        callers.settled,
        callers.lost,
        callers.broken,
        callers.siblings,
        callers.callbacks,
    ] {
        put(&mut content, count);
    }
    (*callers != AsyncCallers::default()).then_some(content)
}

fn counts(profile: &Profile) -> Vec<u8> {
    let mut content = Vec::new();
    for rows in [
        profile.strings.len(),
        profile.functions.len(),
        profile.frames.len(),
        profile.stacks.len(),
        profile.processes.len(),
        profile.threads.len(),
        profile.samples.len(),
    ] {
        put(&mut content, rows as u64);
    }
    content
}

/// The strings after the first `from`.
pub(super) fn strings(strings: &StringTable, from: usize) -> Vec<u8> {
    let rows = || (from..strings.len()).map(|row| strings.get(StringIndex(row as u32)));
    let mut content = Vec::new();
    put(&mut content, rows().len() as u64);
    for text in rows() {
        put(&mut content, text.len() as u64);
    }
    for text in rows() {
        content.extend_from_slice(text.as_bytes());
    }
    content
}

/// A table: the number of rows, then a column after the other.
fn table<R>(rows: &[R], columns: &[&dyn Fn(&R) -> u64]) -> Vec<u8> {
    let mut content = Vec::new();
    put(&mut content, rows.len() as u64);
    for column in columns {
        for row in rows {
            put(&mut content, column(row));
        }
    }
    content
}

pub(super) fn functions(rows: &[Function]) -> Vec<u8> {
    table(
        rows,
        &[
            &|function| u64::from(function.name.0),
            &|function| function.file.map_or(0, |file| u64::from(file.0) + 1),
            &|function| u64::from(function.line),
            &|function| u64::from(function.column),
            &|function| code_of(&CATEGORIES, &function.category),
        ],
    )
}

pub(super) fn frames(rows: &[Frame]) -> Vec<u8> {
    table(
        rows,
        &[
            &|frame| u64::from(frame.function.0),
            &|frame| u64::from(frame.line),
            &|frame| u64::from(frame.column),
            &|frame| code_of(&TIERS, &frame.tier),
            &|frame| code_of(&FRAME_KINDS, &frame.kind),
        ],
    )
}

/// What is said of functions in a string each.
pub(super) fn of_functions(rows: &[(FunctionIndex, StringIndex)]) -> Vec<u8> {
    table(
        rows,
        &[&|(function, _)| u64::from(function.0), &|(_, text)| {
            u64::from(text.0)
        }],
    )
}

fn stacks(profile: &Profile, order: &StackOrder) -> Vec<u8> {
    let rows = &profile.stacks;
    let mut content = Vec::new();
    put(&mut content, rows.len() as u64);
    for (row, stack) in order.iter().enumerate() {
        let parent = rows[stack].parent.map(|parent| order.row(parent));
        let distance = parent.map_or(0, |parent| row as u64 - u64::from(parent));
        put(&mut content, distance);
    }
    for stack in order.iter() {
        put(&mut content, u64::from(rows[stack].frame.0));
    }
    content
}

/// The stacks after the first `from`, as they stand.
pub(super) fn stacks_as_they_are(stacks: &[Stack], from: usize) -> Vec<u8> {
    let mut content = Vec::new();
    put(&mut content, (stacks.len() - from) as u64);
    for (row, stack) in stacks.iter().enumerate().skip(from) {
        let distance = stack.parent.map_or(0, |parent| row - parent.at());
        put(&mut content, distance as u64);
    }
    for stack in &stacks[from..] {
        put(&mut content, u64::from(stack.frame.0));
    }
    content
}

pub(super) fn processes(rows: &[Process]) -> Vec<u8> {
    let mut content = Vec::new();
    put(&mut content, rows.len() as u64);
    rows.iter()
        .for_each(|process| put(&mut content, u64::from(process.pid)));
    rows.iter()
        .for_each(|process| put(&mut content, u64::from(process.parent_pid)));
    rows.iter()
        .for_each(|process| put_string(&mut content, &process.name));
    rows.iter()
        .for_each(|process| put_string(&mut content, &process.command));
    rows.iter().for_each(|process| {
        put_option(&mut content, process.node_version.as_deref(), put_string);
    });
    rows.iter()
        .for_each(|process| put(&mut content, process.started));
    rows.iter()
        .for_each(|process| put_option(&mut content, process.ended, put));
    for process in rows {
        let (kind, value) = match process.exit {
            None => (0, None),
            Some(ExitReason::Ended) => (1, None),
            Some(ExitReason::Status(status)) => (2, Some(status)),
            Some(ExitReason::Signal(signal)) => (3, Some(signal)),
        };
        put(&mut content, kind);
        if let Some(value) = value {
            put(&mut content, zigzag(i64::from(value)));
        }
    }
    rows.iter()
        .for_each(|process| put_option(&mut content, process.cpu_time, put));
    content
}

/// The labels of the processes in the rows that are wanted; nothing where there are none.
pub(super) fn labels(profile: &Profile, is_wanted: impl Fn(usize) -> bool) -> Option<Vec<u8>> {
    let rows: Vec<(u64, &str, &str)> = profile
        .processes
        .iter()
        .enumerate()
        .filter(|(position, _)| is_wanted(*position))
        .flat_map(|(position, process)| {
            let labels = process.labels.iter();
            labels.map(move |(key, value)| (position as u64, key, value))
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let mut content = Vec::new();
    put(&mut content, rows.len() as u64);
    rows.iter().for_each(|row| put(&mut content, row.0));
    rows.iter().for_each(|row| put_string(&mut content, row.1));
    rows.iter().for_each(|row| put_string(&mut content, row.2));
    Some(content)
}

pub(super) fn threads(rows: &[Thread]) -> Vec<u8> {
    let mut content = Vec::new();
    put(&mut content, rows.len() as u64);
    rows.iter()
        .for_each(|thread| put(&mut content, u64::from(thread.process.0)));
    rows.iter()
        .for_each(|thread| put(&mut content, u64::from(thread.tid)));
    rows.iter()
        .for_each(|thread| put_string(&mut content, &thread.name));
    rows.iter()
        .for_each(|thread| put(&mut content, code_of(&ROLES, &thread.role)));
    content
}

/// How the threads in the rows that are wanted shared the CPUs; nothing where that is known of none.
pub(super) fn scheduling(profile: &Profile, is_wanted: impl Fn(usize) -> bool) -> Option<Vec<u8>> {
    let threads = profile.threads.iter().enumerate();
    let rows: Vec<(usize, Scheduling)> = threads
        .filter(|(row, _)| is_wanted(*row))
        .filter_map(|(row, thread)| Some((row, thread.scheduling?)))
        .collect();
    (!rows.is_empty()).then(|| {
        table(
            &rows,
            &[
                &|(row, _)| *row as u64,
                &|(_, scheduling)| scheduling.watched,
                &|(_, scheduling)| scheduling.on_cpu,
                &|(_, scheduling)| scheduling.run_delay,
            ],
        )
    })
}

/// What the thread pools of the processes in the rows that are wanted did; nothing where that is
/// known of none.
pub(super) fn pools(profile: &Profile, is_wanted: impl Fn(usize) -> bool) -> Option<Vec<u8>> {
    let processes = profile.processes.iter().enumerate();
    let rows: Vec<(usize, &Pool)> = processes
        .filter(|(row, _)| is_wanted(*row))
        .filter_map(|(row, process)| Some((row, process.pool.as_ref()?)))
        .collect();
    (!rows.is_empty()).then(|| {
        let mut content = Vec::new();
        put(&mut content, rows.len() as u64);
        for (row, pool) in rows {
            for number in [
                row as u64,
                pool.threads.into(),
                pool.readings,
                pool.busy,
                pool.full,
                pool.waiting,
                pool.slow_waiting,
                pool.slow_full,
                pool.jobs.len() as u64,
            ] {
                put(&mut content, number);
            }
            for jobs in &pool.jobs {
                put_string(&mut content, &jobs.kind);
                put(&mut content, jobs.waiting);
                put_string(&mut content, &jobs.about);
            }
        }
        content
    })
}

/// Who submitted jobs to these pools; nothing where that is known of none.
pub(super) fn pool_submitters(
    profile: &Profile,
    is_wanted: impl Fn(usize) -> bool,
) -> Option<Vec<u8>> {
    let processes = profile.processes.iter().enumerate();
    let rows: Vec<(usize, &[PoolSubmitter])> = processes
        .filter(|(row, _)| is_wanted(*row))
        .filter_map(|(row, process)| Some((row, &process.pool.as_ref()?.submitters[..])))
        .filter(|(_, submitters)| !submitters.is_empty())
        .collect();
    (!rows.is_empty()).then(|| {
        let mut content = Vec::new();
        put(&mut content, rows.len() as u64);
        for (row, submitters) in rows {
            put(&mut content, row as u64);
            put(&mut content, submitters.len() as u64);
            for submitter in submitters {
                put_string(&mut content, &submitter.function);
                put_string(&mut content, &submitter.place);
                put(&mut content, submitter.jobs);
            }
        }
        content
    })
}

/// The pauses of the garbage collector in the threads of the rows that are wanted; nothing where they are known of none.
pub(super) fn gc_pauses(profile: &Profile, is_wanted: impl Fn(usize) -> bool) -> Option<Vec<u8>> {
    let threads = profile.threads.iter().enumerate();
    let rows: Vec<(usize, GcPauses)> = threads
        .filter(|(row, _)| is_wanted(*row))
        .flat_map(|(row, thread)| thread.gc_pauses.iter().map(move |pauses| (row, *pauses)))
        .collect();
    (!rows.is_empty()).then(|| {
        table(
            &rows,
            &[
                &|(row, _)| *row as u64,
                &|(_, pauses)| code_of(&GC_KINDS, &pauses.kind),
                &|(_, pauses)| pauses.count,
                &|(_, pauses)| pauses.total,
                &|(_, pauses)| pauses.longest,
                &|(_, pauses)| pauses.p99,
            ],
        )
    })
}

/// What the threads of the rows that are wanted waited for; nothing where that was watched of none.
pub(super) fn exact_waits(profile: &Profile, is_wanted: impl Fn(usize) -> bool) -> Option<Vec<u8>> {
    let threads = profile.threads.iter().enumerate();
    let rows: Vec<(usize, &[ExactWaits])> = threads
        .filter(|(row, thread)| is_wanted(*row) && !thread.exact_waits.is_empty())
        .map(|(row, thread)| (row, &thread.exact_waits[..]))
        .collect();
    (!rows.is_empty()).then(|| {
        let mut content = Vec::new();
        put(&mut content, rows.len() as u64);
        for (row, waits) in rows {
            put(&mut content, row as u64);
            put(&mut content, waits.len() as u64);
            for of_kind in waits {
                put_string(&mut content, &of_kind.what);
                put(&mut content, of_kind.count);
                put(&mut content, of_kind.total);
                put(&mut content, of_kind.longest);
                put(&mut content, of_kind.histogram.len() as u64);
                of_kind
                    .histogram
                    .iter()
                    .for_each(|count| put(&mut content, *count));
            }
        }
        content
    })
}

/// What the event loops of the threads in the rows that are wanted did; nothing where that is known
/// of none.
pub(super) fn event_loops(profile: &Profile, is_wanted: impl Fn(usize) -> bool) -> Option<Vec<u8>> {
    let threads = profile.threads.iter().enumerate();
    let rows: Vec<(usize, EventLoop)> = threads
        .filter(|(row, _)| is_wanted(*row))
        .filter_map(|(row, thread)| Some((row, thread.event_loop?)))
        .collect();
    (!rows.is_empty()).then(|| {
        table(
            &rows,
            &[
                &|(row, _)| *row as u64,
                &|(_, event_loop)| event_loop.watched,
                &|(_, event_loop)| event_loop.idle,
                &|(_, event_loop)| {
                    event_loop
                        .iterations
                        .map_or(0, |count| count.saturating_add(1))
                },
                &|(_, event_loop)| event_loop.longest,
                &|(_, event_loop)| event_loop.p99,
            ],
        )
    })
}

pub(super) fn sources(rows: &[Source]) -> Vec<u8> {
    let mut content = Vec::new();
    put(&mut content, rows.len() as u64);
    rows.iter()
        .for_each(|source| put(&mut content, u64::from(source.file.0)));
    rows.iter()
        .for_each(|source| put_string(&mut content, &source.text));
    content
}
