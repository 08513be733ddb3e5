//! The end of a slice: its samples get their names and become a profile, and what has ended is
//! dropped.

use nodespy_model::{
    About, Cpu, FastMap, Nanoseconds, Notes, ProcessIndex, Profile, ProfileBuilder, Sample,
    StackIndex, ThreadIndex,
};

use super::Resolver;
use super::batch::{Batch, SampleRow};
use super::jit_watch::{JitWatch, watch_jit_file};
use super::naming::{JitNamesOf, Naming};
use super::paths::NO_PATH;
use super::report::report;
use super::routes::KnownRoutes;
use super::states::States;
use super::threads::name_threads;
use crate::address_map::ImageId;
use crate::frame::Identified;

impl Resolver {
    /// Ends the work: everything gets its name. Times become relative to `started`.
    pub fn finish(mut self, about: About, notes: Notes, started: Nanoseconds) -> Profile {
        self.name_batch(about, notes, started, true)
    }

    /// Names the samples that came in since the last slice and forgets them, and with them the
    /// processes and threads that have ended; what is known of others, of their mappings and code
    /// is kept for the next.
    pub fn slice(&mut self, about: About, notes: Notes, started: Nanoseconds) -> Profile {
        self.name_batch(about, notes, started, false)
    }

    fn name_batch(
        &mut self,
        about: About,
        notes: Notes,
        started: Nanoseconds,
        is_last: bool,
    ) -> Profile {
        self.forget_ended();
        let mut batch = std::mem::take(&mut self.batch);
        batch.merge_notes(notes);
        batch.paths.close();
        let mut notes = std::mem::take(&mut batch.notes);
        let jit = self.read_jit_names(&batch, is_last, &mut notes);
        self.binaries
            .load_names(&batch, self.has_inlines, &*self.origin, &mut notes);
        let mut builder = ProfileBuilder::with_events(self.events.clone());
        for process in &self.processes.list {
            let mut process = process.about.clone();
            process.started = process.started.saturating_sub(started);
            process.ended = process.ended.map(|time| time.saturating_sub(started));
            builder.process(process);
        }
        let threads = self.processes.add_threads(&mut builder);
        let naming = Naming::new(
            &self.binaries,
            &self.processes.list,
            &batch,
            &jit,
            self.has_inlines,
        );
        let routes = &mut self.known_routes;
        let refused = add_samples(naming, &threads, started, routes, &mut builder);
        report(
            &self.binaries,
            &self.processes.list,
            (&batch, &jit),
            (&refused, &self.pools),
            &mut notes,
        );
        drop(batch);
        self.end_slice();
        let mut profile = builder.finish(about, notes);
        name_threads(&mut profile);
        profile
    }

    /// Drops what has ended, and what nothing that lives needs.
    fn end_slice(&mut self) {
        self.ended.extend(self.processes.end_slice(&*self.origin));
        self.pools.end_slice();
        self.binaries.evict(&self.processes.images());
        // Naming has opened files again that were closed.
        self.limit_open_files();
    }

    /// Gives up what was kept of processes for questions about the slice they ended in, but for the
    /// last ones that are to be remembered.
    fn forget_ended(&mut self) {
        let forgotten = self.ended.len().saturating_sub(self.remembered);
        for ended in self.ended.drain(..forgotten) {
            // The pid may belong to another process by now.
            if self.processes.index_of(ended.pid).is_none() {
                self.origin.forget(ended.pid);
            }
        }
    }

    /// Reads what files of JIT names say of the frames of a batch.
    fn read_jit_names(&mut self, batch: &Batch, is_last: bool, notes: &mut Notes) -> JitNamesOf {
        let mut wanted: FastMap<ProcessIndex, Vec<u64>> = FastMap::default();
        for of in batch.frames_with_process() {
            if let Identified::Jit(address) = of.frame {
                wanted.entry(of.process).or_default().push(address);
            }
        }
        self.open_only_jit_file(wanted.keys().copied());
        let mut names = JitNamesOf::default();
        for (process, mut addresses) in wanted {
            addresses.sort_unstable();
            addresses.dedup();
            let state = self.processes.get_mut(process);
            let Some(watch) = &mut state.jit else {
                continue;
            };
            match watch.read(&addresses, is_last) {
                Ok(read) => {
                    names.insert(process, read);
                }
                Err(error) => notes.remark(format!(
                    "{} can't be read ({error}): JIT code of process {} has no names",
                    watch.file.path, state.about.pid
                )),
            }
        }
        names
    }

    /// Opens the file of JIT names that does not say whose it is, where only one process lacks one.
    fn open_only_jit_file(&mut self, wanted: impl Iterator<Item = ProcessIndex>) {
        let mut without = wanted.filter(|process| {
            let state = self.processes.get_mut(*process);
            if state.jit.is_none() {
                let pid = state.about.pid;
                state.jit = watch_jit_file(&*self.origin, pid, state.dump.as_ref());
            }
            state.jit.is_none()
        });
        if let (Some(only), None) = (without.next(), without.next()) {
            drop(without);
            let file = self.origin.open_only_jit_file();
            self.processes.get_mut(only).jit = file.map(JitWatch::new);
        }
    }
}

/// Adds every sample of a batch with its named stack; returns the images that were not used for
/// names.
fn add_samples(
    mut naming: Naming<'_>,
    threads: &[ThreadIndex],
    started: Nanoseconds,
    routes: &mut KnownRoutes,
    builder: &mut ProfileBuilder,
) -> Vec<ImageId> {
    let named = name_paths(&mut naming, builder);
    let mut states = States::default();
    let labels = naming.batch.routes.labels(routes);
    for &sample in &naming.batch.samples {
        let stack = (sample.stack != NO_PATH).then(|| match named[sample.stack as usize] {
            NO_PATH => name_stack(sample, &named, &mut naming, builder),
            stack => StackIndex::new(stack),
        });
        let route = labels.get(sample.route as usize);
        let of = (sample.state, sample.route, sample.labels);
        let given = naming.batch.labels.get(sample.labels);
        let (stack, context) = states.tag(of, stack, (route, given), builder);
        builder.add_sample(Sample {
            time: sample.time.saturating_sub(started),
            weight: sample.weight,
            thread: threads[sample.thread as usize],
            stack,
            context,
            event: sample.event,
            cpu: sample.cpu.and_then(Cpu::new),
        });
    }
    naming.refused
}

/// The named form of every path that has the same at any time, else [`NO_PATH`].
fn name_paths(naming: &mut Naming<'_>, builder: &mut ProfileBuilder) -> Vec<u32> {
    let paths = &naming.batch.paths;
    let mut named = vec![NO_PATH; paths.len()];
    for position in 0..paths.len() {
        let path = paths.get(position as u32);
        let parent = match path.parent {
            NO_PATH => None,
            parent => match named[parent as usize] {
                // Once a frame depends on the time, everything above it does too.
                NO_PATH => continue,
                parent => Some(StackIndex::new(parent)),
            },
        };
        let name = naming.name(path.frame, 0, builder);
        if name.is_timeless {
            let mut stack = builder.stack(parent, name.frame);
            for &inner in naming.inlined(path.frame) {
                stack = builder.stack(Some(stack), inner);
            }
            named[position] = stack.get();
        }
    }
    named
}

/// The named form of the path of a sample at its time.
fn name_stack(
    sample: SampleRow,
    named: &[u32],
    naming: &mut Naming<'_>,
    builder: &mut ProfileBuilder,
) -> StackIndex {
    let mut frames = Vec::new();
    let mut next = sample.stack;
    let mut stack = None;
    while next != NO_PATH {
        if named[next as usize] != NO_PATH {
            stack = Some(StackIndex::new(named[next as usize]));
            break;
        }
        let path = naming.batch.paths.get(next);
        frames.push(path.frame);
        next = path.parent;
    }
    for frame in frames.into_iter().rev() {
        let name = naming.name(frame, sample.time, builder);
        stack = Some(builder.stack(stack, name.frame));
        for &inner in naming.inlined(frame) {
            stack = Some(builder.stack(stack, inner));
        }
    }
    stack.expect("a path has at least one frame")
}
