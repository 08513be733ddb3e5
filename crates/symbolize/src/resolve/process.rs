//! A process and its threads while they are recorded.

use nodespy_model::{
    FastMap, LibuvAddresses, LoadedScript, Mapping, Nanoseconds, Process, ProcessIndex,
};

use super::chain::{KnownAddresses, LastChain};
use super::jit_watch::JitWatch;
use super::last_stack::LastStack;
use super::worker_threads::WorkerName;
use crate::address_map::AddressMap;
use crate::unwind;
use crate::v8::shares::Share;
use crate::v8::{FunctionFacts, FunctionId, Functions, V8};

/// A process while it is recorded, with what is open of it.
#[derive(Debug, Default)]
pub(crate) struct LiveProcess {
    pub(super) about: Process,
    pub(super) map: AddressMap,
    pub(super) addresses: KnownAddresses,
    pub(super) jit: Option<JitWatch>,
    /// The mapped jitdump, where there is one.
    pub(super) dump: Option<Mapping>,
    pub(super) has_jit_frames: bool,
    pub(super) v8: HeapWalk,
    pub(super) libuv: Option<LibuvAddresses>,
    /// The functions of frames from before it started another program.
    pub(super) before_exec: Option<Functions>,
    /// Its threads, by tid: places in [`Processes::threads`](super::processes::Processes).
    pub(super) threads: FastMap<u32, u32>,
    /// Whether another process has its pid by now.
    pub(super) is_replaced: bool,
    /// Its parent, as long as it is a copy of it.
    pub(super) copy_of: Option<u32>,
}

/// Whether the heap of a process is read for names.
#[derive(Debug, Default)]
pub(super) enum HeapWalk {
    /// No image with a V8 has been seen.
    #[default]
    NoV8,
    /// It is.
    On(Box<V8>),
    /// There is a V8 that can't be read.
    Refused,
}

impl HeapWalk {
    /// The same for a child, whose heap starts as a copy.
    fn fork(&self) -> Self {
        match self {
            Self::On(v8) => Self::On(Box::new(v8.for_copy())),
            Self::NoV8 => Self::NoV8,
            Self::Refused => Self::Refused,
        }
    }
}

/// A thread while it is recorded.
#[derive(Debug)]
pub(super) struct LiveThread {
    pub(super) process: ProcessIndex,
    pub(super) tid: u32,
    pub(super) name: String,
    /// In this slice.
    pub(super) samples: u64,
    pub(super) root: unwind::KnownRoot,
    pub(super) worker: WorkerName,
    pub(super) last_chain: LastChain,
    pub(super) last_stack: LastStack,
    pub(super) has_ended: bool,
}

impl LiveThread {
    pub(super) fn new(process: ProcessIndex, tid: u32, name: String) -> Self {
        Self {
            process,
            tid,
            name,
            samples: 0,
            root: unwind::KnownRoot::default(),
            worker: WorkerName::default(),
            last_chain: LastChain::default(),
            last_stack: LastStack::default(),
            has_ended: false,
        }
    }
}

impl LiveProcess {
    /// The reader of its heap, where that is read.
    pub(super) fn v8(&self) -> Option<&V8> {
        match &self.v8 {
            HeapWalk::On(v8) => Some(v8),
            HeapWalk::NoV8 | HeapWalk::Refused => None,
        }
    }

    pub(super) fn v8_mut(&mut self) -> Option<&mut V8> {
        match &mut self.v8 {
            HeapWalk::On(v8) => Some(v8),
            HeapWalk::NoV8 | HeapWalk::Refused => None,
        }
    }

    /// The functions that frames of this slice refer to.
    pub(super) fn functions(&self) -> Option<&Functions> {
        self.v8()
            .map(|v8| &v8.functions)
            .or(self.before_exec.as_ref())
    }

    /// What is known of the function of a frame.
    pub(super) fn facts(&self, function: FunctionId) -> Option<&FunctionFacts> {
        Some(self.functions()?.get(function))
    }

    /// From now on the heap is read, or not. Functions of the program before keep their numbers.
    pub(super) fn start_heap_walk(&mut self, mut found: HeapWalk) {
        if let HeapWalk::On(v8) = &mut found
            && let Some(before) = self.before_exec.take()
        {
            let new = v8.functions.of_another();
            v8.functions = before.after_exec(new);
        }
        self.v8 = found;
    }

    /// A child: until it starts a program of its own it is a copy.
    pub(super) fn fork(&mut self, pid: u32, own: Option<Process>, time: Nanoseconds) -> Self {
        let mut about = own.unwrap_or_else(|| Process {
            name: self.about.name.clone(),
            command: self.about.command.clone(),
            node_version: self.about.node_version.clone(),
            ..Default::default()
        });
        about.pid = pid;
        about.parent_pid = self.about.pid;
        about.started = time;
        Self {
            about,
            map: self.map.fork(),
            v8: self.v8.fork(),
            copy_of: Some(self.about.pid),
            ..Default::default()
        }
    }

    /// Another program: nothing of the old address space is left.
    pub(super) fn exec(&mut self, fresh: Process, jit: Option<JitWatch>) {
        self.copy_of = None;
        self.map.clear_all();
        if let HeapWalk::On(v8) = std::mem::take(&mut self.v8) {
            self.before_exec = Some(v8.functions);
        }
        self.libuv = None;
        self.dump = None;
        self.jit = jit.or(self.jit.take());
        self.about = Process {
            pid: self.about.pid,
            started: self.about.started,
            ..fresh
        };
    }

    /// Forgets what belongs to the samples of a slice.
    pub(super) fn end_slice(&mut self) {
        self.addresses = KnownAddresses::default();
        if let Some(watch) = &mut self.jit {
            watch.end_slice();
        }
        self.before_exec = None;
        if let Some(v8) = self.v8_mut() {
            v8.end_slice();
        }
    }

    /// What the addresses of source maps of its scripts take.
    pub(super) fn into_map_urls(self) -> Option<Share> {
        match self.v8 {
            HeapWalk::On(v8) => Some(v8.functions.into_map_urls()),
            HeapWalk::NoV8 | HeapWalk::Refused => None,
        }
    }

    /// The scripts that V8 has loaded.
    pub(super) fn scripts(&self) -> impl Iterator<Item = LoadedScript> + '_ {
        let pid = self.about.pid;
        self.v8()
            .into_iter()
            .flat_map(move |v8| v8.functions.loaded_scripts(pid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v8::stand_in::node20_layout;
    use std::rc::Rc;

    #[test]
    fn functions_from_before_an_exec_keep_their_names() {
        let walk = || HeapWalk::On(Box::new(V8::new(Rc::new(node20_layout(Vec::new())), 0)));
        let regexp = |process: &mut LiveProcess, source| {
            let v8 = process.v8_mut().unwrap();
            v8.functions.of_regexp(Some(source))
        };
        let mut process = LiveProcess::default();
        process.start_heap_walk(walk());
        let old = regexp(&mut process, "old");
        process.exec(Process::default(), None);
        assert_eq!(&*process.facts(old).unwrap().name, "/old/");
        process.start_heap_walk(walk());
        let new = regexp(&mut process, "new");
        assert_eq!(&*process.facts(old).unwrap().name, "/old/");
        assert_eq!(&*process.facts(new).unwrap().name, "/new/");
    }
}
