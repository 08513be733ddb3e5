//! Stacks that come as addresses: from one sample of a thread to the next most of them are the
//! same, and so is what they stand for.

use nodespy_model::FastMap;

use super::Resolver;
use super::paths::NO_PATH;
use super::process::LiveProcess;
use crate::address_map::Place;
use crate::frame::Identified;

/// Set in a remembered frame that is JIT code.
const IS_JIT: u32 = 1 << 31;

/// What the addresses of one process stand for, as long as its files stay where they are.
#[derive(Debug, Default)]
pub(super) struct KnownAddresses {
    frames: FastMap<u64, u32>,
    version: u32,
}

/// The last chain of a thread, outermost first.
#[derive(Debug, Default)]
pub(super) struct LastChain {
    steps: Vec<Step>,
    /// What the process had mapped then.
    version: u32,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    address: u64,
    path: u32,
    /// Frames of JIT code up to here.
    jit_frames: u32,
}

impl LastChain {
    pub(super) fn clear(&mut self) {
        self.steps.clear();
    }

    /// How many steps from the root are the same in a chain, leaf first.
    fn common(&self, addresses: &[u64]) -> usize {
        let outermost_first = addresses.iter().rev();
        let same = self
            .steps
            .iter()
            .zip(outermost_first)
            .take_while(|(step, address)| step.address == **address)
            .count();
        if same == self.steps.len() && same == addresses.len() {
            return same;
        }
        // A leaf is where it is, a caller just behind its call: the same address as one and as
        // the other is not the same place.
        same.min(self.steps.len().saturating_sub(1))
            .min(addresses.len().saturating_sub(1))
    }
}

impl Resolver {
    /// The path of a chain of addresses, leaf first.
    pub(super) fn chain_path(&mut self, thread: u32, addresses: &[u64]) -> u32 {
        let state = &mut self.processes.threads[thread as usize];
        let process = state.process;
        let mut last = std::mem::take(&mut state.last_chain);
        let version = self.processes.get(process).map.version();
        if last.version != version {
            last.clear();
            last.version = version;
        }
        let common = last.common(addresses);
        last.steps.truncate(common);
        let (mut path, mut jit_frames) = last
            .steps
            .last()
            .map_or((NO_PATH, 0), |step| (step.path, step.jit_frames));
        let new = &addresses[..addresses.len() - common];
        for (position, &address) in new.iter().enumerate().rev() {
            let place = address.saturating_sub(u64::from(position != 0));
            let frame = self.frame_at(process, place);
            jit_frames += frame >> 31;
            path = self.batch.paths.child(path, frame & !IS_JIT);
            last.steps.push(Step {
                address,
                path,
                jit_frames,
            });
        }
        if jit_frames > 0 {
            self.batch.notes.jit_frames += u64::from(jit_frames);
            self.processes.get_mut(process).has_jit_frames = true;
        }
        self.processes.threads[thread as usize].last_chain = last;
        path
    }

    /// The frame at an address of a process, marked where it is JIT code.
    fn frame_at(&mut self, process: nodespy_model::ProcessIndex, address: u64) -> u32 {
        let LiveProcess { map, addresses, .. } = self.processes.get_mut(process);
        if addresses.version != map.version() {
            addresses.frames.clear();
            addresses.version = map.version();
        }
        if let Some(&frame) = addresses.frames.get(&address) {
            return frame;
        }
        let (frame, mark) = match map.at(address) {
            Place::File { image, file_offset } => {
                let linked = self.binaries.image(image).address_of_offset(file_offset);
                (Identified::Image(image, linked), 0)
            }
            Place::Anonymous => (Identified::Jit(address), IS_JIT),
        };
        let frame = self.batch.frame_id(process, frame) | mark;
        addresses.frames.insert(address, frame);
        frame
    }
}
