//! What loops, pools and the garbage collector did over time, sections 25, 26 and 33. In a journal each block has what is new: readers add.

use nodespy_model::{
    GcPause, GcTimeline, Intervals, LoopPart, LoopStall, LoopTimeline, MAX_INTERVALS, Part,
    PoolPart, PoolTimeline, ProcessIndex, Profile, ProfileBuilder, ThreadIndex,
};

use super::columns::{Columns, put};
use super::read::Tables;
use super::{GC_KINDS, code_of};
use crate::import::ImportError;

/// The loops of a profile's threads, by row.
pub(super) fn loops(profile: &Profile) -> Vec<(usize, &LoopTimeline)> {
    let threads = profile.threads.iter().enumerate();
    threads
        .filter_map(|(row, thread)| Some((row, thread.loop_timeline.as_deref()?)))
        .collect()
}

/// The garbage collections of its threads, by row.
pub(super) fn collections(profile: &Profile) -> Vec<(usize, &GcTimeline)> {
    let threads = profile.threads.iter().enumerate();
    let timelines = threads.map(|(row, thread)| (row, &thread.gc_timeline));
    timelines
        .filter(|(_, timeline)| !timeline.pauses().is_empty())
        .collect()
}

/// The pools of its processes, by row.
pub(super) fn pools(profile: &Profile) -> Vec<(usize, &PoolTimeline)> {
    let processes = profile.processes.iter().enumerate();
    processes
        .filter_map(|(row, process)| Some((row, process.pool_timeline.as_deref()?)))
        .collect()
}

/// Nothing where there are none.
pub(super) fn of_loops(rows: &[(usize, &LoopTimeline)]) -> Option<Vec<u8>> {
    of_rows(rows, |content, timeline| {
        let columns: [fn(&LoopPart) -> u64; 2] = [|part| part.watched, |part| part.busy];
        put_intervals(content, &timeline.intervals, &columns);
        put(content, timeline.stalls().len() as u64);
        let mut before = 0;
        for stall in timeline.stalls() {
            put(content, stall.start - before);
            put(content, stall.lasted);
            before = stall.start;
        }
    })
}

/// Nothing where there are none.
pub(super) fn of_collections(rows: &[(usize, &GcTimeline)]) -> Option<Vec<u8>> {
    of_rows(rows, |content, timeline| {
        put(content, timeline.pauses().len() as u64);
        let mut before = 0;
        for pause in timeline.pauses() {
            put(content, pause.start - before);
            put(content, pause.lasted);
            put(content, code_of(&GC_KINDS, &pause.kind));
            before = pause.start;
        }
    })
}

/// Nothing where there are none.
pub(super) fn of_pools(rows: &[(usize, &PoolTimeline)]) -> Option<Vec<u8>> {
    of_rows(rows, |content, timeline| {
        let columns: [fn(&PoolPart) -> u64; 3] =
            [|part| part.readings, |part| part.busy, |part| part.waiting];
        put_intervals(content, timeline, &columns);
    })
}

fn of_rows<T>(rows: &[(usize, &T)], put_row: impl Fn(&mut Vec<u8>, &T)) -> Option<Vec<u8>> {
    (!rows.is_empty()).then(|| {
        let mut content = Vec::new();
        put(&mut content, rows.len() as u64);
        for (row, timeline) in rows {
            put(&mut content, *row as u64);
            put_row(&mut content, timeline);
        }
        content
    })
}

fn put_intervals<T: Part>(
    content: &mut Vec<u8>,
    intervals: &Intervals<T>,
    columns: &[fn(&T) -> u64],
) {
    let rows = intervals.rows();
    put(content, intervals.doublings().into());
    put(content, intervals.first() as u64);
    put(content, rows.len() as u64);
    for column in columns {
        rows.iter().for_each(|row| put(content, column(row)));
    }
}

impl Tables {
    pub(super) fn take_loop_timelines(
        &mut self,
        columns: &mut Columns<'_>,
    ) -> Result<(), ImportError> {
        for _ in 0..columns.count(5)? {
            let thread = ThreadIndex(columns.index(self.threads, "threads")?);
            let mut timeline = LoopTimeline::default();
            timeline.intervals = self.intervals(columns, 2, |values| LoopPart {
                watched: values[0],
                busy: values[1],
            })?;
            let mut start = 0u64;
            for _ in 0..self.rows::<LoopStall>(columns, 2)? {
                start = start.saturating_add(columns.number()?);
                let lasted = columns.number()?;
                timeline.stall(LoopStall { start, lasted });
            }
            let rows = |known: &Profile| {
                let timeline = known.threads[thread.at()].loop_timeline.as_ref();
                timeline.map_or(0, |timeline| timeline.intervals.rows().len())
            };
            self.add_timeline::<LoopPart>(rows, |builder| {
                builder.loop_timeline(thread, &timeline)
            })?;
        }
        Ok(())
    }

    pub(super) fn take_gc_timelines(
        &mut self,
        columns: &mut Columns<'_>,
    ) -> Result<(), ImportError> {
        for _ in 0..columns.count(2)? {
            let thread = ThreadIndex(columns.index(self.threads, "threads")?);
            let mut timeline = GcTimeline::default();
            let mut start = 0u64;
            for _ in 0..self.rows::<GcPause>(columns, 3)? {
                start = start.saturating_add(columns.number()?);
                timeline.add(GcPause {
                    start,
                    lasted: columns.number()?,
                    kind: columns.code(&GC_KINDS, "collection")?,
                });
            }
            self.builder.gc_timeline(thread, &timeline);
        }
        Ok(())
    }

    pub(super) fn take_pool_timelines(
        &mut self,
        columns: &mut Columns<'_>,
    ) -> Result<(), ImportError> {
        for _ in 0..columns.count(4)? {
            let process = ProcessIndex(columns.index(self.processes, "processes")?);
            let timeline = self.intervals(columns, 3, |values| PoolPart {
                readings: values[0],
                busy: values[1],
                waiting: values[2],
            })?;
            let rows = |known: &Profile| {
                let timeline = known.processes[process.at()].pool_timeline.as_ref();
                timeline.map_or(0, |timeline| timeline.rows().len())
            };
            self.add_timeline::<PoolPart>(rows, |builder| {
                builder.pool_timeline(process, &timeline)
            })?;
        }
        Ok(())
    }

    /// Adds a timeline, and pays for the intervals between what is known and what is new.
    fn add_timeline<T>(
        &mut self,
        rows: impl Fn(&Profile) -> usize,
        add: impl FnOnce(&mut ProfileBuilder),
    ) -> Result<(), ImportError> {
        let before = rows(self.builder.so_far());
        add(&mut self.builder);
        let after = rows(self.builder.so_far());
        Ok(self.budget.draw_rows::<T>(after.saturating_sub(before))?)
    }

    /// Intervals of which each has `width` numbers.
    fn intervals<T: Part>(
        &mut self,
        columns: &mut Columns<'_>,
        width: usize,
        part: impl Fn(&[u64]) -> T,
    ) -> Result<Intervals<T>, ImportError> {
        let doublings = columns.small()?;
        let first = columns.small()? as usize;
        let rows = self.rows::<T>(columns, width)?;
        if first.saturating_add(rows) > MAX_INTERVALS {
            return Err(columns.error(format!(
                "{rows} intervals from {first} on, there are {MAX_INTERVALS} at most"
            )));
        }
        let values = columns.column(rows * width, Columns::number)?;
        let row = |at: usize| -> T {
            let numbers: Vec<u64> = (0..width)
                .map(|column| values[column * rows + at])
                .collect();
            part(&numbers)
        };
        let made = Intervals::from_rows(doublings, first, (0..rows).map(row).collect());
        made.ok_or_else(|| columns.error(format!("intervals can't be doubled {doublings} times")))
    }
}
