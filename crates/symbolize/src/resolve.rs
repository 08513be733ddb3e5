//! The door: events in, a profile out.
//!
//! While events come in, stacks are unwound and kept as paths of raw frames, each held once.
//! Names are given at the end, when the files that name JIT code are complete. A frame is
//! attributed to the mapping in force when its sample was taken.

use std::rc::Rc;

use nodespy_model::{
    About, Contents, Event, FastMap, Frame, FrameIndex, FrameSpec, FunctionSpec, LoadedScript,
    Mapping, NameSource, Nanoseconds, Notes, Origin, Process, ProcessIndex, Profile,
    ProfileBuilder, RawSample, Recording, Sample, StackIndex, Tier, UserStack, WeightUnit,
};

use crate::address_map::{AddressMap, ImageId};
use crate::image::{Image, ImageKey};
use crate::kernel::KernelSymbols;
use crate::source_map::{SourceMapOptions, map_sources};
use crate::unnamed::name_all;
use crate::unwind::{self, UnwoundFrame, WalkedFrame};
use crate::v8::{JsFrame, Layout, NamedFrame, SampleView, V8};

mod chain;
mod jit_watch;
mod naming;
mod paths;
mod threads;
mod worker_threads;

use chain::{KnownAddresses, LastChain};
use jit_watch::{JitWatch, is_jitdump, watch_jit_file};
use naming::{FrameName, Naming};
use paths::{NO_PATH, Paths};
use threads::name_threads;
use worker_threads::WorkerName;

/// How a recording is resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolveOptions {
    /// Whether native functions that were inlined get frames of their own, where debug
    /// information tells of them.
    pub has_inlines: bool,
    /// The source maps that tell where JavaScript was written.
    pub source_maps: SourceMapOptions,
}

impl Default for ResolveOptions {
    fn default() -> Self {
        Self {
            has_inlines: true,
            source_maps: SourceMapOptions::default(),
        }
    }
}

/// Turns a recording into a profile.
pub fn resolve(recording: Recording, origin: Box<dyn Origin>, options: &ResolveOptions) -> Profile {
    let profile = named(recording, origin, options);
    match options.source_maps.given.is_empty() {
        true => profile,
        // Nothing proves that a script on this disk is the one that ran.
        false => map_sources(profile, &[], None, &options.source_maps),
    }
}

fn named(recording: Recording, origin: Box<dyn Origin>, options: &ResolveOptions) -> Profile {
    match recording.contents {
        Contents::Named(mut profile) => {
            profile.about = recording.about;
            profile.notes = recording.notes;
            *profile
        }
        Contents::PartlyNamed(profile, unnamed) => {
            let mut notes = recording.notes;
            let mut profile = name_all(*profile, &unnamed, &mut notes, &*origin);
            profile.about = recording.about;
            profile.notes = notes;
            profile
        }
        Contents::Events(events) => {
            let mut resolver = Resolver::new(origin).without_heap_walk();
            resolver.has_inlines = options.has_inlines;
            resolver.merge_notes(recording.notes);
            let notes = events.replay(&mut |event| resolver.take(event));
            resolver.name_processes();
            let mut about = recording.about;
            let times = || resolver.samples.iter().map(|sample| sample.time);
            let started = times().min().unwrap_or(0);
            about.duration = about
                .duration
                .max(times().max().unwrap_or(0).saturating_sub(started));
            let mut profile = resolver.finish(about, notes, started);
            if profile.about.app.is_empty() {
                profile.about.app = name_of_busiest(&profile);
            }
            profile
        }
    }
}

/// The process most samples were taken of, for a recording that does not say what it is of.
fn name_of_busiest(profile: &Profile) -> String {
    let mut counts = vec![0u64; profile.processes.len()];
    for sample in &profile.samples {
        counts[profile.threads[sample.thread.at()].process.at()] += 1;
    }
    let busiest = profile
        .processes
        .iter()
        .zip(counts)
        .max_by_key(|(_, count)| *count);
    busiest.map_or_else(String::new, |(process, _)| process.name.clone())
}

/// Whether JavaScript can be named by reading V8's heap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeapSupport {
    /// No V8 is mapped.
    NoV8,
    /// This version of V8 is in the tables.
    Known((u32, u32)),
    /// This version is not; the second is the nearest that is.
    Nearest((u32, u32), (u32, u32)),
    /// There is a V8 that can't be read, for this reason.
    Refused(String),
}

/// Whether the JavaScript of a process with these mappings can be named by reading V8's heap.
pub fn heap_support(mappings: &[Mapping], origin: &dyn Origin) -> HeapSupport {
    let layout = mappings
        .iter()
        .filter(|mapping| !mapping.is_anonymous() && mapping.path.starts_with('/'))
        .find_map(|mapping| Image::open(mapping, origin).v8_layout());
    match layout {
        None => HeapSupport::NoV8,
        Some(Err(why)) => HeapSupport::Refused(why),
        Some(Ok(layout)) if layout.version == layout.nearest => HeapSupport::Known(layout.version),
        Some(Ok(layout)) => HeapSupport::Nearest(layout.version, layout.nearest),
    }
}

/// A frame before it has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum RawFrame {
    Kernel(u64),
    Image(ImageId, u64),
    Jit(ProcessIndex, u64),
    Js(ProcessIndex, JsFrame),
    /// JavaScript that nobody could name.
    UnknownJs,
}

/// No more modules of a kernel are remembered (a desktop has 200).
const KERNEL_MAPPING_LIMIT: usize = 1 << 14;

#[derive(Debug, Clone, Copy)]
struct SampleRow {
    time: Nanoseconds,
    thread: u32,
    stack: u32,
    cpu: Option<u16>,
}

/// One process while it is being recorded.
#[derive(Debug, Default)]
struct ProcessState {
    about: Process,
    map: AddressMap,
    addresses: KnownAddresses,
    jit: Option<JitWatch>,
    /// The mapped jitdump, where there is one.
    dump: Option<Mapping>,
    has_jit_frames: bool,
    v8: HeapWalk,
}

/// Whether the heap of a process is read for names.
#[derive(Debug, Default)]
enum HeapWalk {
    /// No image with a V8 has been seen.
    #[default]
    NoV8,
    /// It is.
    On(Box<V8>),
    /// There is a V8 that can't be read.
    Refused,
}

#[derive(Debug)]
struct ThreadState {
    process: ProcessIndex,
    tid: u32,
    name: String,
    samples: u64,
    root: unwind::KnownRoot,
    worker: WorkerName,
    last_chain: LastChain,
}

/// Resolves events as they come.
pub struct Resolver {
    origin: Box<dyn Origin>,
    images: Vec<Image>,
    image_ids: FastMap<ImageKey, ImageId>,
    layouts: FastMap<ImageId, Option<Result<Layout, String>>>,
    processes: Vec<ProcessState>,
    process_ids: FastMap<u32, ProcessIndex>,
    threads: Vec<ThreadState>,
    thread_ids: FastMap<(u32, u32), u32>,
    frames: Vec<RawFrame>,
    frame_ids: FastMap<RawFrame, u32>,
    paths: Paths,
    samples: Vec<SampleRow>,
    /// The kernel and its modules, where a recording tells of them.
    kernel_mappings: Vec<Mapping>,
    /// Read when the first frame of the kernel gets its name.
    kernel: Option<Rc<KernelSymbols>>,
    notes: Notes,
    /// Leaf frames since the last call of [`Self::hottest`].
    recent: FastMap<u32, u32>,
    has_heap_walk: bool,
    has_inlines: bool,
    /// Reused from sample to sample.
    walked: Vec<WalkedFrame>,
    named: Vec<NamedFrame>,
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Resolver")
            .field("processes", &self.processes.len())
            .field("samples", &self.samples.len())
            .finish_non_exhaustive()
    }
}

impl Resolver {
    /// A resolver that has seen nothing yet.
    pub fn new(origin: Box<dyn Origin>) -> Self {
        Self {
            origin,
            images: Vec::new(),
            image_ids: FastMap::default(),
            layouts: FastMap::default(),
            processes: Vec::new(),
            process_ids: FastMap::default(),
            threads: Vec::new(),
            thread_ids: FastMap::default(),
            frames: Vec::new(),
            frame_ids: FastMap::default(),
            paths: Paths::default(),
            samples: Vec::new(),
            kernel_mappings: Vec::new(),
            kernel: None,
            notes: Notes::default(),
            recent: FastMap::default(),
            has_heap_walk: true,
            has_inlines: false,
            walked: Vec::new(),
            named: Vec::new(),
        }
    }

    /// From now on V8's heap is not read: JIT code has names only where a file tells them.
    pub fn without_heap_walk(mut self) -> Self {
        self.has_heap_walk = false;
        self
    }

    /// How many samples have come in.
    pub fn sample_count(&self) -> usize {
        self.samples.len()
    }

    /// When the first sample was taken.
    pub fn first_sample_time(&self) -> Option<Nanoseconds> {
        self.samples.first().map(|sample| sample.time)
    }

    /// How many samples process `pid` has.
    pub fn samples_of(&self, pid: u32) -> u64 {
        self.threads
            .iter()
            .filter(|thread| self.processes[thread.process.at()].about.pid == pid)
            .map(|thread| thread.samples)
            .sum()
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
            } => self.take_thread_name(pid, tid, name, is_exec, time),
            Event::Fork {
                pid,
                tid,
                parent_pid,
                time,
            } => self.take_fork(pid, tid, parent_pid, time),
            Event::Exit { pid, tid, time } => self.take_exit(pid, tid, time),
        }
    }

    fn process(&mut self, pid: u32, time: Nanoseconds) -> ProcessIndex {
        if let Some(&index) = self.process_ids.get(&pid) {
            return index;
        }
        let mut about = self.origin.describe(pid).unwrap_or_default();
        about.pid = pid;
        about.started = time;
        let jit = watch_jit_file(&*self.origin, pid, None);
        self.add_process(
            pid,
            ProcessState {
                about,
                jit,
                ..Default::default()
            },
        )
    }

    fn add_process(&mut self, pid: u32, state: ProcessState) -> ProcessIndex {
        self.processes.push(state);
        let index = ProcessIndex(self.processes.len() as u32 - 1);
        self.process_ids.insert(pid, index);
        index
    }

    fn thread(&mut self, pid: u32, tid: u32, time: Nanoseconds) -> u32 {
        if let Some(&thread) = self.thread_ids.get(&(pid, tid)) {
            return thread;
        }
        let process = self.process(pid, time);
        // A new thread carries the name of the thread that made it: its process's, mostly.
        let name = self
            .thread_ids
            .get(&(pid, pid))
            .map(|&main| self.threads[main as usize].name.clone())
            .unwrap_or_default();
        self.threads.push(ThreadState {
            process,
            tid,
            name,
            samples: 0,
            root: unwind::KnownRoot::default(),
            worker: WorkerName::default(),
            last_chain: LastChain::default(),
        });
        let thread = self.threads.len() as u32 - 1;
        self.thread_ids.insert((pid, tid), thread);
        thread
    }

    fn take_mapping(&mut self, mapping: Mapping) {
        if mapping.pid == Mapping::KERNEL_PID {
            if self.kernel_mappings.len() < KERNEL_MAPPING_LIMIT {
                self.kernel_mappings.push(mapping);
            }
            return;
        }
        let process = self.process(mapping.pid, mapping.time);
        if is_jitdump(&mapping) {
            let jit = watch_jit_file(&*self.origin, mapping.pid, Some(&mapping));
            let state = &mut self.processes[process.at()];
            state.jit = jit.or(state.jit.take());
            state.dump = Some(mapping);
            return;
        }
        let image = (!mapping.is_anonymous()).then(|| self.image(&mapping));
        self.processes[process.at()].map.insert(&mapping, image);
        if self.has_heap_walk
            && let (Some(image), HeapWalk::NoV8) = (image, &self.processes[process.at()].v8)
        {
            self.processes[process.at()].v8 = self.heap_walk(image, &mapping);
        }
    }

    /// Gets ready to read the heap of the V8 in an image.
    fn heap_walk(&mut self, image: ImageId, mapping: &Mapping) -> HeapWalk {
        let layout = self
            .layouts
            .entry(image)
            .or_insert_with(|| self.images[image.0 as usize].v8_layout());
        match layout {
            None => HeapWalk::NoV8,
            Some(Ok(layout)) => {
                let linked = self.images[image.0 as usize].address_of_offset(mapping.file_offset);
                let bias = mapping.start.wrapping_sub(linked);
                HeapWalk::On(Box::new(V8::new(layout.clone(), bias)))
            }
            Some(Err(why)) => {
                let image = &self.images[image.0 as usize].name;
                self.notes
                    .remark(format!("the heap of {image} is not read for names: {why}"));
                HeapWalk::Refused
            }
        }
    }

    fn image(&mut self, mapping: &Mapping) -> ImageId {
        // Identity is the file, not the path: a replaced binary is another image.
        let key = (mapping.path.clone(), mapping.file.clone());
        if let Some(&image) = self.image_ids.get(&key) {
            return image;
        }
        self.images.push(Image::open(mapping, &*self.origin));
        let image = ImageId(self.images.len() as u32 - 1);
        self.image_ids.insert(key, image);
        image
    }

    fn take_thread_name(
        &mut self,
        pid: u32,
        tid: u32,
        name: String,
        is_exec: bool,
        time: Nanoseconds,
    ) {
        if is_exec {
            // Another program: nothing of the old address space is left.
            let process = self.process(pid, time);
            let fresh = self.origin.describe(pid).unwrap_or_default();
            let jit = watch_jit_file(&*self.origin, pid, None);
            let state = &mut self.processes[process.at()];
            state.map.clear_all();
            state.v8 = HeapWalk::NoV8;
            state.dump = None;
            state.jit = jit.or(state.jit.take());
            state.about = Process {
                pid,
                started: state.about.started,
                ..fresh
            };
        }
        let thread = self.thread(pid, tid, time);
        self.threads[thread as usize].name = name;
    }

    fn take_fork(&mut self, pid: u32, tid: u32, parent_pid: u32, time: Nanoseconds) {
        if pid != parent_pid && tid == pid {
            let parent = self.process(parent_pid, time);
            let parent = &mut self.processes[parent.at()];
            let mut about = Process {
                name: parent.about.name.clone(),
                command: parent.about.command.clone(),
                node_version: parent.about.node_version.clone(),
                ..Default::default()
            };
            // Until it starts a program of its own the child is a copy of its parent.
            let map = parent.map.fork();
            let v8 = match &parent.v8 {
                HeapWalk::On(v8) => HeapWalk::On(Box::new(v8.for_copy())),
                HeapWalk::NoV8 => HeapWalk::NoV8,
                HeapWalk::Refused => HeapWalk::Refused,
            };
            if let Some(own) = self.origin.describe(pid) {
                about = own;
            }
            about.pid = pid;
            about.parent_pid = parent_pid;
            about.started = time;
            self.add_process(
                pid,
                ProcessState {
                    about,
                    map,
                    v8,
                    ..Default::default()
                },
            );
            // The number may have belonged to a process that is gone.
            self.thread_ids.retain(|(known, _), _| *known != pid);
        } else {
            self.thread_ids.remove(&(pid, tid));
        }
        let parent_name = self
            .thread_ids
            .get(&(parent_pid, parent_pid))
            .map(|&main| self.threads[main as usize].name.clone());
        let thread = self.thread(pid, tid, time);
        if let Some(name) = parent_name {
            self.threads[thread as usize].name = name;
        }
    }

    fn take_exit(&mut self, pid: u32, tid: u32, time: Nanoseconds) {
        if pid == tid
            && let Some(&process) = self.process_ids.get(&pid)
        {
            let state = &mut self.processes[process.at()];
            state.about.ended = Some(time);
            state.about.exit = Some(nodespy_model::ExitReason::Ended);
        }
    }

    fn take_sample(&mut self, sample: &RawSample<'_>) {
        if !self.process_ids.contains_key(&sample.pid) {
            // A child born while we attached: it is sampled, but nobody told of its birth.
            for mapping in self.origin.mappings(sample.pid) {
                self.take_mapping(mapping);
            }
        }
        let thread = self.thread(sample.pid, sample.tid, sample.time);
        let process = self.threads[thread as usize].process;
        self.threads[thread as usize].samples += 1;
        let mut stack = match &sample.user {
            UserStack::Chain(addresses) => self.chain_path(thread, addresses),
            _ => self.walked_path(sample, thread, process),
        };
        for (position, &address) in sample.kernel.iter().enumerate().rev() {
            let back = u64::from(position != 0);
            let frame = self.frame_id(RawFrame::Kernel(address.saturating_sub(back)));
            stack = self.paths.child(stack, frame);
        }
        if stack != NO_PATH {
            let leaf = self.paths.get(stack).frame;
            *self.recent.entry(leaf).or_default() += 1;
        }
        self.samples.push(SampleRow {
            time: sample.time,
            thread,
            stack,
            cpu: sample.cpu,
        });
    }

    /// The path of a stack that is unwound here.
    fn walked_path(&mut self, sample: &RawSample<'_>, thread: u32, process: ProcessIndex) -> u32 {
        let mut walked = std::mem::take(&mut self.walked);
        let mut named = std::mem::take(&mut self.named);
        walked.clear();
        named.clear();
        self.unwind(sample, thread, &mut walked);
        self.name_walked(sample, process, &walked, &mut named);
        self.look_for_worker(sample, thread, &named);
        let mut path = NO_PATH;
        for frame in named.iter().rev() {
            let frame = self.raw_frame(process, *frame);
            let frame = self.frame_id(frame);
            path = self.paths.child(path, frame);
        }
        self.walked = walked;
        self.named = named;
        path
    }

    /// Asks V8's heap for the names of a stack, where there is one.
    fn name_walked(
        &mut self,
        sample: &RawSample<'_>,
        process: ProcessIndex,
        walked: &[WalkedFrame],
        named: &mut Vec<NamedFrame>,
    ) {
        let v8 = &mut self.processes[process.at()].v8;
        if let (
            HeapWalk::On(v8),
            UserStack::Copy {
                registers, stack, ..
            },
        ) = (v8, &sample.user)
        {
            let view = SampleView {
                pid: sample.pid,
                origin: &*self.origin,
                registers,
                stack,
            };
            v8.name(&view, walked, named);
            return;
        }
        named.extend(walked.iter().map(|walked| NamedFrame::Raw(walked.frame)));
    }

    /// The frame to keep, counted where it is JIT code.
    fn raw_frame(&mut self, process: ProcessIndex, frame: NamedFrame) -> RawFrame {
        let walked = NameSource::HeapWalk.at();
        match frame {
            NamedFrame::Raw(UnwoundFrame::Image(image, address)) => RawFrame::Image(image, address),
            NamedFrame::Raw(UnwoundFrame::Jit(address)) => {
                self.notes.jit_frames += 1;
                self.processes[process.at()].has_jit_frames = true;
                RawFrame::Jit(process, address)
            }
            NamedFrame::Js(frame) => {
                self.notes.jit_frames += 1;
                // What gets its name late is counted when names are given.
                let is_named = match &self.processes[process.at()].v8 {
                    HeapWalk::On(v8) => !v8.functions.is_placeholder(frame.function),
                    _ => true,
                };
                self.notes.jit_named[walked] += u64::from(is_named);
                RawFrame::Js(process, frame)
            }
            NamedFrame::UnknownJs => {
                self.notes.jit_frames += 1;
                RawFrame::UnknownJs
            }
        }
    }

    fn unwind(&mut self, sample: &RawSample<'_>, thread: u32, frames: &mut Vec<WalkedFrame>) {
        let thread = &mut self.threads[thread as usize];
        let map = &self.processes[thread.process.at()].map;
        let UserStack::Copy {
            registers, stack, ..
        } = &sample.user
        else {
            return;
        };
        let mut code = unwind::Code {
            pid: sample.pid,
            map,
            images: &mut self.images,
            origin: &*self.origin,
        };
        let outcome = unwind::unwind(registers, stack, &mut code, &mut thread.root, frames);
        self.notes.unwound_stacks += 1;
        self.notes.incomplete_stacks += u64::from(!outcome.is_complete);
        self.notes.cut_stacks += u64::from(outcome.is_cut);
    }

    /// To be called before each batch of events: what was read of live memory is forgotten.
    pub fn start_batch(&mut self) {
        for state in &mut self.processes {
            if let HeapWalk::On(v8) = &mut state.v8 {
                v8.start_batch();
            }
        }
    }

    /// The number of a raw frame.
    fn frame_id(&mut self, frame: RawFrame) -> u32 {
        *self.frame_ids.entry(frame).or_insert_with(|| {
            self.frames.push(frame);
            self.frames.len() as u32 - 1
        })
    }

    /// To be called a few times a second: notes how files of JIT names grow, and looks for those
    /// of processes that had none yet.
    pub fn tick(&mut self, now: Nanoseconds) {
        for state in &mut self.processes {
            if state.jit.is_none() && state.has_jit_frames && state.about.ended.is_none() {
                state.jit = watch_jit_file(&*self.origin, state.about.pid, state.dump.as_ref());
            }
            if let Some(watch) = &mut state.jit {
                watch.mark(now);
            }
        }
    }

    /// The name and share of the function that was on top most often since the last call.
    pub fn hottest(&mut self) -> Option<(String, f64)> {
        let recent = std::mem::take(&mut self.recent);
        let total: u32 = recent.values().sum();
        let (&frame, _) = recent
            .iter()
            .max_by_key(|&(frame, count)| (*count, *frame))?;
        let frame_key = self.frames[frame as usize];
        let mut naming = Naming::begin(self, &[frame_key]);
        let name = naming.short_name(self, frame_key)?;
        // Other frames of the same function count too, where they are cheap to name.
        let count: u32 = recent
            .iter()
            .filter(|(other, _)| {
                let other = self.frames[**other as usize];
                naming.short_name(self, other).as_deref() == Some(name.as_str())
            })
            .map(|(_, count)| count)
            .sum();
        Some((name, f64::from(count) / f64::from(total)))
    }

    /// Ends the work: everything gets its name. Times become relative to `started`.
    pub fn finish(mut self, about: About, notes: Notes, started: Nanoseconds) -> Profile {
        self.slice(about, notes, started)
    }

    /// What is known of the scripts that V8 has in all processes.
    fn scripts(&self) -> Vec<LoadedScript> {
        let of_process = |state: &ProcessState| match &state.v8 {
            HeapWalk::On(v8) => v8.functions.loaded_scripts(state.about.pid).collect(),
            _ => Vec::new(),
        };
        self.processes.iter().flat_map(of_process).collect()
    }

    /// Puts the functions of a profile of this resolver where they were written, as far as source
    /// maps tell.
    pub fn map_sources(&self, profile: Profile, options: &SourceMapOptions) -> Profile {
        map_sources(profile, &self.scripts(), Some(&*self.origin), options)
    }

    /// Names the samples that came in since the last slice and forgets them; what is known of
    /// processes, mappings and code is kept for the next.
    pub fn slice(&mut self, about: About, notes: Notes, started: Nanoseconds) -> Profile {
        self.merge_notes(notes);
        let frames = self.frames.clone();
        let mut naming = Naming::begin(self, &frames);
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        for state in &self.processes {
            let mut process = state.about.clone();
            process.started = process.started.saturating_sub(started);
            process.ended = process.ended.map(|time| time.saturating_sub(started));
            builder.process(process);
        }
        let threads = self.add_threads(&mut builder);
        self.paths.close();
        let named = self.name_paths(&mut naming, &mut builder);
        for position in 0..self.samples.len() {
            let sample = self.samples[position];
            let stack = (sample.stack != NO_PATH).then(|| match named[sample.stack as usize] {
                NO_PATH => self.name_stack(sample, &named, &mut naming, &mut builder),
                stack => StackIndex(stack),
            });
            let time = sample.time.saturating_sub(started);
            builder.add_sample(Sample {
                time,
                weight: 1,
                thread: threads[sample.thread as usize],
                cpu: sample.cpu,
                stack,
            });
        }
        naming.report(self);
        self.forget_samples();
        let mut profile = builder.finish(about, std::mem::take(&mut self.notes));
        name_threads(&mut profile);
        profile
    }

    fn forget_samples(&mut self) {
        self.samples.clear();
        self.paths.clear();
        self.frames.clear();
        self.frame_ids.clear();
        self.recent.clear();
        for thread in &mut self.threads {
            thread.samples = 0;
            thread.last_chain.clear();
        }
        for process in &mut self.processes {
            process.addresses.clear();
        }
    }

    fn merge_notes(&mut self, notes: Notes) {
        self.notes.lost_samples += notes.lost_samples;
        self.notes.lost_records += notes.lost_records;
        self.notes.throttled += notes.throttled;
        for remark in notes.remarks {
            self.notes.remark(remark);
        }
    }

    /// The named form of every path that has the same at any time, else [`NO_PATH`].
    fn name_paths(&mut self, naming: &mut Naming, builder: &mut ProfileBuilder) -> Vec<u32> {
        let mut named = vec![NO_PATH; self.paths.len()];
        for position in 0..self.paths.len() {
            let path = self.paths.get(position as u32);
            let parent = match path.parent {
                NO_PATH => None,
                parent => match named[parent as usize] {
                    // Once a frame depends on the time, everything above it does too.
                    NO_PATH => continue,
                    parent => Some(StackIndex(parent)),
                },
            };
            if let FrameName::Always(frame) = naming.name(self, path.frame, 0, builder) {
                let mut stack = builder.stack(parent, frame);
                for &inner in naming.inlined(path.frame) {
                    stack = builder.stack(Some(stack), inner);
                }
                named[position] = stack.0;
            }
        }
        named
    }

    /// The named form of the path of a sample at its time.
    fn name_stack(
        &mut self,
        sample: SampleRow,
        named: &[u32],
        naming: &mut Naming,
        builder: &mut ProfileBuilder,
    ) -> StackIndex {
        let mut frames = Vec::new();
        let mut next = sample.stack;
        let mut stack = None;
        while next != NO_PATH {
            if named[next as usize] != NO_PATH {
                stack = Some(StackIndex(named[next as usize]));
                break;
            }
            let path = self.paths.get(next);
            frames.push(path.frame);
            next = path.parent;
        }
        for frame in frames.into_iter().rev() {
            let (FrameName::Always(name) | FrameName::AtThisTime(name)) =
                naming.name(self, frame, sample.time, builder);
            stack = Some(builder.stack(stack, name));
            for &inner in naming.inlined(frame) {
                stack = Some(builder.stack(stack, inner));
            }
        }
        stack.expect("a path has at least one frame")
    }
}

/// The frame of a name that is not JavaScript.
fn plain_frame(builder: &mut ProfileBuilder, function: FunctionSpec<'_>) -> FrameIndex {
    builder.frame(FrameSpec {
        function,
        tier: Tier::None,
        ..Default::default()
    })
}

/// A frame of a function at a line.
fn frame_at(
    builder: &mut ProfileBuilder,
    function: FunctionSpec<'_>,
    tier: Tier,
    line: u32,
) -> FrameIndex {
    let function = builder.function(function);
    builder.frame_of(Frame {
        function,
        line,
        column: 0,
        tier,
        is_inlined: false,
    })
}
