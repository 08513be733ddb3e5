//! The hottest function of the last moments, for a line that is shown while a recording runs. It
//! is found on the thread that drains the rings: only what costs little is asked.

use nodespy_model::{FastMap, Notes};

use super::Resolver;
use super::batch::FrameOf;
use super::naming::address_name;
use crate::address_map::ImageId;
use crate::elf::SymbolIndex;
use crate::frame::Identified;
use crate::jit::Span;
use crate::v8::FunctionId;

/// A function, as far as leaf frames are distinguished by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Leaf {
    /// Of the kernel, by where it starts.
    Kernel(u64),
    Symbol(ImageId, SymbolIndex),
    /// A function without a symbol, by where it starts.
    Address(ImageId, u64),
    Js(u32, FunctionId),
    /// JIT code, by process and where its file has the name.
    Jit(u32, Span),
}

impl Resolver {
    /// The name and share of the function that was on top most often since the last call.
    pub fn hottest(&mut self) -> Option<(String, f64)> {
        let recent = self.batch.take_recent();
        let total: u32 = recent.values().sum();
        self.load_kernel(recent.keys());
        for process in &mut self.processes.list {
            if let Some(watch) = process.jit.as_mut().filter(|_| process.has_jit_frames) {
                watch.advance();
            }
        }
        let mut counts: FastMap<Leaf, u32> = FastMap::default();
        for (number, count) in recent {
            if let Some(leaf) = self.leaf(self.batch.frame(number)) {
                *counts.entry(leaf).or_default() += count;
            }
        }
        let (&leaf, &count) = counts.iter().max_by_key(|&(leaf, count)| (*count, *leaf))?;
        Some((self.leaf_name(leaf)?, f64::from(count) / f64::from(total)))
    }

    /// Reads the kernel's list of functions where one of these frames is the kernel's.
    fn load_kernel<'a>(&mut self, mut frames: impl Iterator<Item = &'a u32>) {
        if frames.any(|&frame| matches!(self.batch.frame(frame).frame, Identified::Kernel(_))) {
            let mut notes = Notes::default();
            self.binaries
                .load_kernel(&self.batch, &*self.origin, &mut notes);
            self.batch.merge_notes(notes);
        }
    }

    /// The function of a leaf frame.
    fn leaf(&mut self, of: FrameOf) -> Option<Leaf> {
        Some(match of.frame {
            Identified::Kernel(address) => {
                Leaf::Kernel(self.binaries.kernel_function_start(address)?)
            }
            Identified::Image(id, address) => {
                let image = self.binaries.image_mut(id);
                image.load_symbols(&*self.origin);
                match image.symbol_at(address) {
                    Some(symbol) => Leaf::Symbol(id, symbol),
                    None => {
                        image.load_function_of(address, &*self.origin);
                        Leaf::Address(id, image.function_start(address).unwrap_or(address))
                    }
                }
            }
            Identified::Js(frame) => Leaf::Js(of.process.0, frame.function),
            Identified::Jit(address) => {
                let watch = self.processes.get(of.process).jit.as_ref()?;
                Leaf::Jit(of.process.0, watch.function_at(address)?)
            }
            Identified::UnknownJs | Identified::LostCaller => return None,
        })
    }

    fn leaf_name(&self, leaf: Leaf) -> Option<String> {
        match leaf {
            Leaf::Kernel(address) => {
                let (name, _) = self.binaries.kernel_function(address)?;
                Some(name.to_owned())
            }
            Leaf::Symbol(image, symbol) => {
                let name = self.binaries.image(image).symbol_name(symbol)?;
                Some(name.to_string())
            }
            Leaf::Address(image, address) => {
                Some(address_name(&self.binaries.image(image).name, address))
            }
            Leaf::Js(process, function) => {
                let facts = self.processes.list[process as usize].facts(function)?;
                Some(facts.name.to_string())
            }
            Leaf::Jit(process, function) => {
                let watch = self.processes.list[process as usize].jit.as_ref()?;
                watch.name(function)
            }
        }
    }
}
