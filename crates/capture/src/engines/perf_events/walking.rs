//! The program that copies memory at the sampled instruction: run by the events that sample the CPU, it writes into their
//! rings.

use std::io;

use nodespy_model::{CopyRules, EventIndex};

use super::opening::CpuEvents;
use super::ring_set::RingSet;
use crate::sys::bpf::WalkProgram;
use crate::sys::perf_event::{PerfEvent, Sampling};
use crate::sys::ring::Ring;

/// The event whose samples have memory copied: the first, CPU time.
pub(super) const SAMPLED: usize = 0;

/// A program that runs.
#[derive(Debug)]
pub(super) struct Walking {
    program: WalkProgram,
    /// One for each CPU; what is copied there becomes their records.
    outputs: Vec<PerfEvent>,
}

impl Walking {
    /// Has what the program copies written into the rings of the events that run it.
    pub(super) fn start(
        program: WalkProgram,
        events: &[CpuEvents],
        sampling: &Sampling,
        rings: &mut RingSet<Ring>,
    ) -> io::Result<Self> {
        let mut walking = Self {
            program,
            outputs: Vec::new(),
        };
        for of_cpu in events {
            walking.join(of_cpu, sampling, rings)?;
        }
        Ok(walking)
    }

    fn join(
        &mut self,
        of_cpu: &CpuEvents,
        sampling: &Sampling,
        rings: &mut RingSet<Ring>,
    ) -> io::Result<()> {
        let cpu = of_cpu.cpu;
        let Some(owner) = of_cpu.samples[SAMPLED].first() else {
            return Ok(());
        };
        let output = PerfEvent::output(cpu.into(), sampling)?;
        output.write_to_ring_of(owner)?;
        self.program.write_to(cpu.into(), &output)?;
        let from = (output.id()?, sampling.output_layout());
        rings.expect_copies(cpu, EventIndex(SAMPLED as u16), from);
        output.enable();
        self.outputs.push(output);
        Ok(())
    }

    /// Copies more of objects from now on.
    pub(super) fn copy_also(&mut self, rules: &CopyRules) {
        if let Err(why) = self.program.set_copy_rules(rules) {
            log::debug!("requests are not copied: {why}");
        }
    }

    pub(super) fn program(&self) -> &WalkProgram {
        &self.program
    }
}
