//! Names of worker threads, where the kernel does not know them.

use nodespy_model::{FastMap, Profile, RawSample, SmallSort, ThreadRole, UserStack};

use super::Resolver;
use crate::frame::Identified;
use crate::v8::SampleView;

/// After so many samples without success a thread is taken for none of a worker.
const TRIES: u8 = 8;

/// What is known of the worker a thread may run.
#[derive(Debug, Default)]
pub(super) struct WorkerName {
    tries: u8,
    /// Empty when the program gave none.
    pub(super) name: Option<String>,
}

impl Resolver {
    /// Looks for the worker of a thread that runs JavaScript and is not the main one.
    pub(super) fn look_for_worker(
        &mut self,
        sample: &RawSample<'_>,
        thread: u32,
        frames: &[Identified],
    ) {
        let thread = &mut self.processes.threads[thread as usize];
        let worker = &mut thread.worker;
        let runs_js = || {
            frames
                .iter()
                .any(|frame| matches!(frame, Identified::Js(_)))
        };
        if sample.tid == sample.pid || worker.tries >= TRIES || worker.name.is_some() || !runs_js()
        {
            return;
        }
        worker.tries += 1;
        if let Some(v8) = self.processes.list[thread.process.at()].v8_mut()
            && let UserStack::Copy {
                registers, stack, ..
            } = &sample.user
        {
            worker.name = v8.worker_name(&SampleView {
                pid: sample.pid,
                tid: sample.tid,
                copy_of: None,
                origin: &*self.origin,
                registers,
                stack,
                copied: Default::default(),
                has_async_callers: false,
                has_routes: false,
                stores: None,
            });
        }
    }
}

/// Numbers the workers of each process that have no name of their own, in the order in which they
/// were started: `worker 1`, `worker 2`.
pub(super) fn number_workers(profile: &mut Profile, is_nameless: impl Fn(usize) -> bool) {
    let mut workers: Vec<usize> = (0..profile.threads.len())
        .filter(|&at| profile.threads[at].role == ThreadRole::Worker)
        .collect();
    workers.small_sort_by_key(|&at| profile.threads[at].tid);
    let mut started = FastMap::default();
    for at in workers {
        let thread = &mut profile.threads[at];
        let number: &mut u32 = started.entry(thread.process).or_default();
        *number += 1;
        if is_nameless(at) {
            thread.name = format!("worker {number}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::{About, Notes, Process, ProcessIndex, ProfileBuilder, Thread, WeightUnit};

    #[test]
    fn workers_without_a_name_are_numbered_in_the_order_they_were_started() {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        builder.process(Process::default());
        for (tid, role, name) in [
            (30, ThreadRole::Worker, "node"),
            (10, ThreadRole::Worker, "node"),
            (15, ThreadRole::Pool, "libuv-worker"),
            (20, ThreadRole::Worker, "resize"),
        ] {
            builder.thread(Thread {
                process: ProcessIndex(0),
                tid,
                name: name.to_owned(),
                role,
                ..Thread::default()
            });
        }
        let mut profile = builder.finish(About::default(), Notes::default());
        let nameless: Vec<bool> = profile
            .threads
            .iter()
            .map(|thread| thread.name == "node")
            .collect();
        number_workers(&mut profile, |at| nameless[at]);
        let names: Vec<&str> = profile
            .threads
            .iter()
            .map(|thread| thread.name.as_str())
            .collect();
        assert_eq!(names, ["worker 3", "worker 1", "libuv-worker", "resize"]);
    }
}
