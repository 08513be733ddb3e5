//! The processes and threads that are recorded: found by pid and tid, dropped once they have ended
//! and their last samples are named.

use nodespy_model::{FastMap, FastSet, LoadedScript, Nanoseconds, Origin, Process, ProcessIndex};

use super::jit_watch::{JitWatch, watch_jit_file};
use super::process::{LiveProcess, LiveThread};
use crate::address_map::ImageId;
use crate::unwind::KnownRoot;
use crate::v8::shares::Share;

/// Every process and thread of a slice.
#[derive(Debug, Default)]
pub(super) struct Processes {
    /// By [`ProcessIndex`], which is good until the slice ends.
    pub(super) list: Vec<LiveProcess>,
    ids: FastMap<u32, ProcessIndex>,
    pub(super) threads: Vec<LiveThread>,
}

/// What is kept of a process for as long as the slice it ended in may be asked about.
#[derive(Debug)]
pub(super) struct EndedProcess {
    pub(super) pid: u32,
    pub(super) scripts: Vec<LoadedScript>,
    /// What these take of what all processes may hold.
    _map_urls: Option<Share>,
}

impl Processes {
    /// The process that has a pid now.
    pub(super) fn index_of(&self, pid: u32) -> Option<ProcessIndex> {
        self.ids.get(&pid).copied()
    }

    pub(super) fn get(&self, process: ProcessIndex) -> &LiveProcess {
        &self.list[process.at()]
    }

    pub(super) fn get_mut(&mut self, process: ProcessIndex) -> &mut LiveProcess {
        &mut self.list[process.at()]
    }

    /// The process with a pid, added where it is new.
    pub(super) fn find_or_add(
        &mut self,
        pid: u32,
        time: Nanoseconds,
        origin: &dyn Origin,
    ) -> ProcessIndex {
        if let Some(&index) = self.ids.get(&pid) {
            return index;
        }
        let mut about = origin.describe(pid).unwrap_or_default();
        about.pid = pid;
        about.started = time;
        let jit = watch_jit_file(origin, pid, None);
        self.add(LiveProcess {
            about,
            jit,
            ..Default::default()
        })
    }

    /// Adds a process. One that had its pid is gone.
    fn add(&mut self, process: LiveProcess) -> ProcessIndex {
        let index = ProcessIndex(self.list.len() as u32);
        if let Some(old) = self.ids.insert(process.about.pid, index) {
            self.get_mut(old).is_replaced = true;
        }
        self.list.push(process);
        index
    }

    /// Adds the child of a process.
    pub(super) fn fork(
        &mut self,
        (pid, parent_pid): (u32, u32),
        time: Nanoseconds,
        origin: &dyn Origin,
    ) {
        let parent = self.find_or_add(parent_pid, time, origin);
        let own = origin.describe(pid);
        let child = self.get_mut(parent).fork(pid, own, time);
        self.add(child);
    }

    /// Another program runs in a process: nothing of the old address space is left.
    pub(super) fn exec(&mut self, process: ProcessIndex, fresh: Process, jit: Option<JitWatch>) {
        let state = &mut self.list[process.at()];
        state.exec(fresh, jit);
        for &thread in state.threads.values() {
            self.threads[thread as usize].root = KnownRoot::default();
        }
    }

    /// A thread that has been seen before.
    pub(super) fn known_thread(&self, pid: u32, tid: u32) -> Option<u32> {
        let process = self.ids.get(&pid)?;
        self.get(*process).threads.get(&tid).copied()
    }

    /// The thread with a tid, added where it is new.
    pub(super) fn thread(
        &mut self,
        (pid, tid): (u32, u32),
        time: Nanoseconds,
        origin: &dyn Origin,
    ) -> u32 {
        let process = self.find_or_add(pid, time, origin);
        if let Some(&thread) = self.get(process).threads.get(&tid) {
            return thread;
        }
        // A new thread carries the name of the thread that made it: its process's, mostly.
        let name = self.main_name(pid).unwrap_or_default();
        let thread = self.threads.len() as u32;
        self.threads.push(LiveThread::new(process, tid, name));
        self.get_mut(process).threads.insert(tid, thread);
        thread
    }

    /// The name of the main thread of a process.
    pub(super) fn main_name(&self, pid: u32) -> Option<String> {
        let main = self.known_thread(pid, pid)?;
        Some(self.threads[main as usize].name.clone())
    }

    /// Forgets a thread whose tid belongs to a new one.
    pub(super) fn replace_thread(&mut self, pid: u32, tid: u32) {
        let Some(process) = self.index_of(pid) else {
            return;
        };
        if let Some(old) = self.get_mut(process).threads.remove(&tid) {
            self.threads[old as usize].has_ended = true;
        }
    }

    /// Takes note that a thread has ended, and its process if it was the main one.
    pub(super) fn exit(&mut self, pid: u32, tid: u32, time: Nanoseconds) {
        let Some(process) = self.index_of(pid) else {
            return;
        };
        if let Some(&thread) = self.get(process).threads.get(&tid) {
            self.threads[thread as usize].has_ended = true;
        }
        if pid == tid {
            let about = &mut self.get_mut(process).about;
            about.ended = Some(time);
            about.exit = Some(nodespy_model::ExitReason::Ended);
        }
    }

    /// The images that unwinding may still come across.
    pub(super) fn images(&self) -> FastSet<ImageId> {
        let mut images = FastSet::default();
        let mut seen = FastSet::default();
        for process in &self.list {
            let take = |image| {
                images.insert(image);
            };
            process.map.each_image(&mut seen, take);
        }
        for thread in &self.threads {
            images.extend(thread.root.images());
        }
        images
    }

    /// Ends a slice: forgets what belongs to its samples, drops processes and threads that have
    /// ended, with their descriptors, and numbers the rest anew. Returns those it dropped.
    pub(super) fn end_slice(&mut self, origin: &dyn Origin) -> Vec<EndedProcess> {
        let is_dropped = self.ended(origin);
        for thread in &mut self.threads {
            thread.samples = 0;
            thread.last_chain.clear();
            thread.last_stack.clear();
        }
        let mut ended = Vec::new();
        let mut numbers = Vec::with_capacity(self.list.len());
        let mut kept = Vec::with_capacity(self.list.len());
        for (mut process, is_dropped) in std::mem::take(&mut self.list).into_iter().zip(is_dropped)
        {
            numbers.push((!is_dropped).then_some(ProcessIndex(kept.len() as u32)));
            if is_dropped {
                // Node's own have no source maps.
                let is_mapped = |script: &LoadedScript| !script.file.starts_with("node:");
                ended.push(EndedProcess {
                    pid: process.about.pid,
                    scripts: process.scripts().filter(is_mapped).collect(),
                    _map_urls: process.into_map_urls(),
                });
            } else {
                process.end_slice();
                process.threads.clear();
                kept.push(process);
            }
        }
        self.list = kept;
        self.ids.clear();
        for (position, process) in self.list.iter().enumerate() {
            let index = ProcessIndex(position as u32);
            self.ids.insert(process.about.pid, index);
        }
        self.renumber_threads(&numbers);
        ended
    }

    /// Drops the threads that have ended, and those of processes without a new number.
    fn renumber_threads(&mut self, numbers: &[Option<ProcessIndex>]) {
        let list = &mut self.list;
        let mut count = 0;
        self.threads.retain_mut(|thread| {
            let Some(process) = numbers[thread.process.at()] else {
                return false;
            };
            let state = &mut list[process.at()];
            // Later threads take over the name of the main one.
            if thread.has_ended && thread.tid != state.about.pid {
                return false;
            }
            thread.process = process;
            state.threads.insert(thread.tid, count);
            count += 1;
            true
        });
    }

    /// Whether each process has ended. One whose main thread has may run on in others, and the
    /// record of an exit may be lost: one without samples in this slice is asked for.
    fn ended(&self, origin: &dyn Origin) -> Vec<bool> {
        let mut is_running = vec![false; self.list.len()];
        let mut has_samples = vec![false; self.list.len()];
        for thread in &self.threads {
            is_running[thread.process.at()] |= !thread.has_ended;
            has_samples[thread.process.at()] |= thread.samples > 0;
        }
        self.list
            .iter()
            .zip(is_running.into_iter().zip(has_samples))
            .map(|(process, (is_running, has_samples))| {
                process.is_replaced
                    || match process.about.ended {
                        Some(_) => !is_running || !has_samples,
                        None => !has_samples && origin.has_ended(process.about.pid),
                    }
            })
            .collect()
    }
}
