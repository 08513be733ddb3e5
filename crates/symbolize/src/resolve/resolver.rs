//! Events as they come: sideband events change what is known of processes, samples join the batch.

use nodespy_model::{CopyRules, Event, EventType, LibuvAddresses, Nanoseconds, Origin, Profile};

use super::batch::Batch;
use super::binaries::Binaries;
use super::jit_watch::watch_jit_file;
use super::processes::{EndedProcess, Processes};
use super::routes::KnownRoutes;
use super::store_labels::StoreLabels;
use crate::copied::Chunks;
use crate::frame::{Identified, Unwound};
use crate::source_map::{SourceMapOptions, map_sources};
use crate::v8::StoreOptions;
use crate::v8::shares::Pools;

/// Resolves events as they come.
pub struct Resolver {
    pub(super) origin: Box<dyn Origin>,
    pub(super) binaries: Binaries,
    /// What the tables of all processes share.
    pub(super) pools: Pools,
    pub(super) processes: Processes,
    pub(super) batch: Batch,
    /// What makes the samples.
    pub(super) events: Vec<EventType>,
    /// Processes that ended in the last slice, after those that are remembered longer.
    pub(super) ended: Vec<EndedProcess>,
    pub(super) remembered: usize,
    pub(super) has_heap_walk: bool,
    pub(super) has_async_callers: bool,
    pub(super) has_routes: bool,
    /// The routes that samples were labelled with so far.
    pub(super) known_routes: KnownRoutes,
    /// What is wanted of the stores of AsyncLocalStorage.
    pub(super) stores: StoreLabels,
    pub(super) has_inlines: bool,
    /// Reused from sample to sample.
    pub(super) unwound: Vec<Unwound>,
    pub(super) identified: Vec<Identified>,
    pub(super) chunks: Chunks,
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Resolver")
            .field("processes", &self.processes.list.len())
            .field("samples", &self.batch.samples.len())
            .finish_non_exhaustive()
    }
}

impl Resolver {
    /// A resolver that has seen nothing yet.
    pub fn new(origin: Box<dyn Origin>) -> Self {
        Self {
            origin,
            binaries: Binaries::default(),
            pools: Pools::default(),
            processes: Processes::default(),
            batch: Batch::default(),
            events: vec![EventType::default()],
            ended: Vec::new(),
            remembered: 0,
            has_heap_walk: true,
            has_async_callers: true,
            has_routes: true,
            known_routes: KnownRoutes::default(),
            stores: StoreLabels::default(),
            has_inlines: false,
            unwound: Vec::new(),
            identified: Vec::new(),
            chunks: Chunks::default(),
        }
    }

    /// From now on V8's heap is not read: JIT code has names only where a file has them.
    pub fn without_heap_walk(mut self) -> Self {
        self.has_heap_walk = false;
        self
    }

    /// From now on stacks start at the microtask: async callers are not looked for.
    pub fn without_async_callers(mut self) -> Self {
        self.has_async_callers = false;
        self
    }

    /// From now on no request is looked for.
    pub fn without_routes(mut self) -> Self {
        self.has_routes = false;
        self
    }

    /// From now on samples have labels of what the stores of AsyncLocalStorage say.
    pub fn with_stores(mut self, wanted: StoreOptions) -> Self {
        self.stores = StoreLabels::new(wanted);
        self
    }

    /// What is to be copied of objects at samples from now on, beside what was asked for before.
    pub fn take_copy_rules(&mut self) -> CopyRules {
        let processes = self.processes.list.iter_mut();
        let v8s = processes.filter_map(|process| process.v8_mut());
        let mut all = CopyRules::default();
        v8s.for_each(|v8| all.append(v8.take_copy_rules()));
        all
    }

    /// How many processes are remembered for [`Self::map_sources`] beyond the slice they ended in.
    pub fn remembering_ended(mut self, processes: usize) -> Self {
        self.remembered = processes;
        self
    }

    /// What makes the samples that come, where that is not one event of which nothing is known.
    pub fn with_events(mut self, events: Vec<EventType>) -> Self {
        self.events = events;
        self
    }

    /// How many samples have come in since the last slice.
    pub fn sample_count(&self) -> usize {
        self.batch.samples.len()
    }

    /// When the first sample since the last slice was taken.
    pub fn first_sample_time(&self) -> Option<Nanoseconds> {
        self.batch.samples.first().map(|sample| sample.time)
    }

    /// Takes the next event.
    pub fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Sample(sample) => self.take_sample(&sample),
            Event::Mapping(mapping) => self.take_mapping(mapping),
            Event::ThreadName {
                pid,
                tid,
                name,
                is_exec,
                time,
            } => self.take_thread_name((pid, tid), name, is_exec, time),
            Event::Fork {
                pid,
                tid,
                parent_pid,
                time,
            } => self.take_fork((pid, tid), parent_pid, time),
            Event::Exit { pid, tid, time } => self.processes.exit(pid, tid, time),
        }
    }

    fn take_thread_name(
        &mut self,
        (pid, tid): (u32, u32),
        name: String,
        is_exec: bool,
        time: Nanoseconds,
    ) {
        let origin = &*self.origin;
        if is_exec {
            let process = self.processes.find_or_add(pid, time, origin);
            let fresh = origin.describe(pid).unwrap_or_default();
            let jit = watch_jit_file(origin, pid, None);
            self.processes.exec(process, fresh, jit);
        }
        let thread = self.processes.thread((pid, tid), time, origin);
        self.processes.threads[thread as usize].name = name;
    }

    fn take_fork(&mut self, (pid, tid): (u32, u32), parent_pid: u32, time: Nanoseconds) {
        let origin = &*self.origin;
        match pid != parent_pid && tid == pid {
            true => self.processes.fork((pid, parent_pid), time, origin),
            false => self.processes.replace_thread(pid, tid),
        }
        let parent_name = self.processes.main_name(parent_pid);
        let thread = self.processes.thread((pid, tid), time, origin);
        if let Some(name) = parent_name {
            self.processes.threads[thread as usize].name = name;
        }
    }

    /// Where libuv is in a process, once that is known to have one with symbols.
    pub fn libuv_of(&self, pid: u32) -> Option<LibuvAddresses> {
        let process = self.processes.index_of(pid)?;
        self.processes.get(process).libuv
    }

    /// To be called before each batch of events: what was read of live memory is forgotten.
    pub fn start_batch(&mut self) {
        for process in &mut self.processes.list {
            if let Some(v8) = process.v8_mut() {
                v8.start_batch();
            }
        }
    }

    /// To be called a few times a second: notes how files of JIT names grow, and looks for those
    /// of processes that had none yet.
    pub fn tick(&mut self, now: Nanoseconds) {
        for process in &mut self.processes.list {
            if process.jit.is_none() && process.has_jit_frames && process.about.ended.is_none() {
                let pid = process.about.pid;
                process.jit = watch_jit_file(&*self.origin, pid, process.dump.as_ref());
            }
            if let Some(watch) = &mut process.jit {
                watch.mark(now);
            }
        }
    }

    /// Puts the functions of the last slice's profile where they were written, as far as source
    /// maps say. To be called before the next slice: then the scripts of processes that ended in
    /// this one are forgotten, but for those that are to be remembered.
    pub fn map_sources(&self, profile: Profile, options: &SourceMapOptions) -> Profile {
        let ended = self.ended.iter().flat_map(|ended| ended.scripts.clone());
        let live = self.processes.list.iter().flat_map(|live| live.scripts());
        let scripts: Vec<_> = ended.chain(live).collect();
        map_sources(profile, &scripts, Some(&*self.origin), options)
    }
}
