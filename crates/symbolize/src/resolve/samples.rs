//! A sample: its stack is unwound and identified at once, because registers, stack and heap are
//! gone later.

use nodespy_model::{NameSource, ProcessIndex, RawSample, UserStack};

use super::Resolver;
use super::batch::SampleRow;
use super::routes::NO_ROUTE;
use crate::copied::CopiedMemory;
use crate::frame::{Identified, Unwound};
use crate::unwind;
use crate::v8::{Asked, SampleView};

impl Resolver {
    pub(super) fn take_sample(&mut self, sample: &RawSample<'_>) {
        let known = self.processes.known_thread(sample.pid, sample.tid);
        let thread = known.unwrap_or_else(|| self.new_thread(sample));
        let state = &mut self.processes.threads[thread as usize];
        let process = state.process;
        state.samples += 1;
        let (mut stack, asked) = match &sample.user {
            UserStack::Chain(addresses) => (self.chain_path(thread, addresses), Asked::default()),
            _ => self.unwound_path(sample, thread, process),
        };
        let route = asked
            .route
            .map_or(NO_ROUTE, |route| self.batch.routes.id(route));
        for (position, &address) in sample.kernel.iter().enumerate().rev() {
            let back = u64::from(position != 0);
            let frame = Identified::Kernel(address.saturating_sub(back));
            let frame = self.batch.frame_id(process, frame);
            stack = self.batch.paths.child(stack, frame);
        }
        let labels = match asked.stores {
            None => self.batch.labels.id(&sample.labels),
            Some(values) => {
                let mut labels = sample.labels.clone();
                self.stores.add_to(&mut labels, values);
                self.batch.labels.id(&labels)
            }
        };
        self.batch.add(SampleRow {
            time: sample.time,
            thread,
            stack,
            cpu: sample.cpu,
            event: sample.event,
            weight: sample.weight,
            state: sample.state,
            route,
            labels,
        });
    }

    fn new_thread(&mut self, sample: &RawSample<'_>) -> u32 {
        if self.processes.index_of(sample.pid).is_none() {
            // A child born while we attached: it is sampled, but no event announced it.
            for mapping in self.origin.mappings(sample.pid) {
                self.take_mapping(mapping);
            }
        }
        let id = (sample.pid, sample.tid);
        self.processes.thread(id, sample.time, &*self.origin)
    }

    /// The path of a stack that is unwound here, and what it runs for.
    fn unwound_path(
        &mut self,
        sample: &RawSample<'_>,
        thread: u32,
        process: ProcessIndex,
    ) -> (u32, Asked) {
        let mut unwound = std::mem::take(&mut self.unwound);
        let mut identified = std::mem::take(&mut self.identified);
        unwound.clear();
        identified.clear();
        let mut chunks = std::mem::take(&mut self.chunks);
        let copied = CopiedMemory::of(&sample.memory, &mut chunks);
        let copied = copied.or_nothing(sample.is_copied_at_sample);
        self.unwind(sample, copied, thread, &mut unwound);
        let asked = self.identify(sample, copied, process, &unwound, &mut identified);
        self.chunks = chunks;
        self.look_for_worker(sample, thread, &identified);
        let path = self.identified_path(thread, process, &identified);
        self.unwound = unwound;
        self.identified = identified;
        (path, asked)
    }

    /// The path of identified frames, leaf first.
    fn identified_path(
        &mut self,
        thread: u32,
        process: ProcessIndex,
        identified: &[Identified],
    ) -> u32 {
        for &frame in identified {
            self.count(process, frame);
        }
        let state = &mut self.processes.threads[thread as usize];
        let mut last = std::mem::take(&mut state.last_stack);
        let common = last.keep_common(identified);
        let mut path = last.path();
        for &frame in identified[..identified.len() - common].iter().rev() {
            let id = self.batch.frame_id(process, frame);
            path = self.batch.paths.child(path, id);
            last.push(frame, path);
        }
        self.processes.threads[thread as usize].last_stack = last;
        path
    }

    fn unwind(
        &mut self,
        sample: &RawSample<'_>,
        copied: CopiedMemory<'_>,
        thread: u32,
        frames: &mut Vec<Unwound>,
    ) {
        // Unwinding opens files again that were closed.
        self.limit_open_files();
        let UserStack::Copy {
            registers, stack, ..
        } = &sample.user
        else {
            return;
        };
        let thread = &mut self.processes.threads[thread as usize];
        let mut code = unwind::Code {
            pid: sample.pid,
            map: &self.processes.list[thread.process.at()].map,
            images: &mut self.binaries.images,
            origin: &*self.origin,
        };
        let outcome = unwind::unwind(
            registers,
            (stack, copied),
            &mut code,
            &mut thread.root,
            frames,
        );
        let notes = &mut self.batch.notes;
        notes.unwound_stacks += 1;
        notes.incomplete_stacks += u64::from(!outcome.is_complete);
        notes.cut_stacks += u64::from(outcome.is_cut);
    }

    /// Asks V8's heap what the frames of a stack are, where there is one, and what they run for.
    fn identify(
        &mut self,
        sample: &RawSample<'_>,
        copied: CopiedMemory<'_>,
        process: ProcessIndex,
        unwound: &[Unwound],
        identified: &mut Vec<Identified>,
    ) -> Asked {
        // Async callers are gone when the function they wait for ends, and requests soon after.
        let is_sure = sample.stands_still || !copied.is_empty();
        let process = self.processes.get_mut(process);
        let copy_of = process.copy_of;
        if let (
            Some(v8),
            UserStack::Copy {
                registers, stack, ..
            },
        ) = (process.v8_mut(), &sample.user)
        {
            let view = SampleView {
                pid: sample.pid,
                tid: sample.tid,
                copy_of,
                origin: &*self.origin,
                registers,
                stack,
                copied,
                has_async_callers: self.has_async_callers && is_sure,
                has_routes: self.has_routes && is_sure,
                stores: self.stores.wanted().filter(|_| is_sure),
            };
            let asked = v8.identify(&view, unwound, identified);
            self.batch.notes.async_callers.add(&asked.callers);
            return asked;
        }
        identified.extend(unwound.iter().map(|frame| Identified::from(frame.code)));
        Asked::default()
    }

    /// Counts a frame of JIT code.
    fn count(&mut self, process: ProcessIndex, frame: Identified) {
        let notes = &mut self.batch.notes;
        match frame {
            Identified::Kernel(_) | Identified::Image(..) | Identified::LostCaller => {}
            Identified::Js(frame) if frame.kind.is_async() => {}
            Identified::Jit(_) => {
                notes.jit_frames += 1;
                self.processes.get_mut(process).has_jit_frames = true;
            }
            Identified::Js(frame) => {
                notes.jit_frames += 1;
                // What gets its name late is counted when names are given.
                let v8 = self.processes.get(process).v8();
                let is_named = v8.is_none_or(|v8| !v8.functions.is_placeholder(frame.function));
                notes.jit_named[NameSource::HeapWalk.at()] += u64::from(is_named);
            }
            Identified::UnknownJs => notes.jit_frames += 1,
        }
    }
}
