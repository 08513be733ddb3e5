//! What was watched beside the samples: how threads shared the CPUs, their event loops, libuv's pools.

use nodespy_model::{
    EventLoop, ExactWaits, GcPauses, Pool, PoolJobs, PoolSubmitter, ProcessIndex, Scheduling,
    ThreadIndex,
};

use super::Tables;
use crate::import::ImportError;
use crate::native::GC_KINDS;
use crate::native::columns::Columns;

impl Tables {
    pub(super) fn take_pools(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        let known = self.processes;
        let rows = self.rows::<Pool>(columns, 9)?;
        for _ in 0..rows {
            let process = ProcessIndex(columns.index(known, "processes")?);
            let mut pool = Pool {
                threads: columns.small()?,
                readings: columns.number()?,
                busy: columns.number()?,
                full: columns.number()?,
                waiting: columns.number()?,
                slow_waiting: columns.number()?,
                slow_full: columns.number()?,
                ..Pool::default()
            };
            for _ in 0..self.rows::<PoolJobs>(columns, 3)? {
                pool.jobs.push(PoolJobs {
                    kind: columns.string()?.to_owned(),
                    waiting: columns.number()?,
                    about: columns.string()?.to_owned(),
                });
            }
            self.builder.pool(process, pool);
        }
        Ok(())
    }

    pub(super) fn take_pool_submitters(
        &mut self,
        columns: &mut Columns<'_>,
    ) -> Result<(), ImportError> {
        let known = self.processes;
        for _ in 0..self.rows::<Pool>(columns, 2)? {
            let process = ProcessIndex(columns.index(known, "processes")?);
            let mut pool = self.builder.so_far().processes[process.at()].pool.clone();
            let of_pool = pool.get_or_insert_default();
            of_pool.submitters.clear();
            for _ in 0..self.rows::<PoolSubmitter>(columns, 3)? {
                of_pool.submitters.push(PoolSubmitter {
                    function: columns.string()?.to_owned(),
                    place: columns.string()?.to_owned(),
                    jobs: columns.number()?,
                });
            }
            self.builder.pool(process, pool.unwrap_or_default());
        }
        Ok(())
    }

    /// A later section replaces what an earlier one of a journal said of a thread.
    pub(super) fn take_gc_pauses(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        let known = self.threads;
        let rows = self.rows::<(u32, GcPauses)>(columns, 6)?;
        let threads = columns.column(rows, |columns| columns.index(known, "threads"))?;
        let kinds = columns.column(rows, |columns| columns.code(&GC_KINDS, "collection"))?;
        let counts = columns.column(rows, Columns::number)?;
        let totals = columns.column(rows, Columns::number)?;
        let longest = columns.column(rows, Columns::number)?;
        let mut of_thread: Vec<GcPauses> = Vec::new();
        for row in 0..rows {
            of_thread.push(GcPauses {
                kind: kinds[row],
                count: counts[row],
                total: totals[row],
                longest: longest[row],
                p99: columns.number()?,
            });
            if threads.get(row + 1) != Some(&threads[row]) {
                let pauses = std::mem::take(&mut of_thread);
                self.builder.gc_pauses(ThreadIndex(threads[row]), pauses);
            }
        }
        Ok(())
    }

    /// A later section replaces what an earlier one of a journal said of a thread.
    pub(super) fn take_exact_waits(
        &mut self,
        columns: &mut Columns<'_>,
    ) -> Result<(), ImportError> {
        let known = self.threads;
        for _ in 0..self.rows::<(u32, Vec<ExactWaits>)>(columns, 2)? {
            let thread = ThreadIndex(columns.index(known, "threads")?);
            let mut waits = Vec::new();
            for _ in 0..self.rows::<ExactWaits>(columns, 5)? {
                let mut of_kind = ExactWaits {
                    what: columns.string()?.to_owned(),
                    count: columns.number()?,
                    total: columns.number()?,
                    longest: columns.number()?,
                    histogram: Vec::new(),
                };
                for _ in 0..self.rows::<u64>(columns, 1)? {
                    of_kind.histogram.push(columns.number()?);
                }
                waits.push(of_kind);
            }
            self.builder.exact_waits(thread, waits);
        }
        Ok(())
    }

    pub(super) fn take_event_loops(
        &mut self,
        columns: &mut Columns<'_>,
    ) -> Result<(), ImportError> {
        let known = self.threads;
        let rows = self.rows::<(u32, EventLoop)>(columns, 6)?;
        let threads = columns.column(rows, |columns| columns.index(known, "threads"))?;
        let watched = columns.column(rows, Columns::number)?;
        let idle = columns.column(rows, Columns::number)?;
        let iterations = columns.column(rows, Columns::number)?;
        let longest = columns.column(rows, Columns::number)?;
        for row in 0..rows {
            let event_loop = EventLoop {
                watched: watched[row],
                idle: idle[row],
                iterations: iterations[row].checked_sub(1),
                longest: longest[row],
                p99: columns.number()?,
            };
            self.builder
                .event_loop(ThreadIndex(threads[row]), event_loop);
        }
        Ok(())
    }

    pub(super) fn take_scheduling(&mut self, columns: &mut Columns<'_>) -> Result<(), ImportError> {
        let known = self.threads;
        let rows = self.rows::<(u32, Scheduling)>(columns, 4)?;
        let threads = columns.column(rows, |columns| columns.index(known, "threads"))?;
        let watched = columns.column(rows, Columns::number)?;
        let on_cpu = columns.column(rows, Columns::number)?;
        for row in 0..rows {
            let scheduling = Scheduling {
                watched: watched[row],
                on_cpu: on_cpu[row],
                run_delay: columns.number()?,
            };
            let thread = ThreadIndex(threads[row]);
            self.builder.scheduling(thread, scheduling);
        }
        Ok(())
    }
}
