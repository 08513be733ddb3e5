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
    /// Why the program could not be told what to copy of objects.
    no_rules: Option<NoRules>,
}

/// That routes and stores are not looked for, which the reader is told once.
#[derive(Debug)]
struct NoRules {
    why: String,
    is_told: bool,
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
            no_rules: None,
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

    /// Copies more of objects from now on: of those that lead to routes and stores, if these are wanted.
    pub(super) fn copy_also(&mut self, rules: &CopyRules) {
        if let Err(why) = self.program.set_copy_rules(rules) {
            log::debug!("the program does not know what to copy: {why}");
            self.no_rules.get_or_insert(NoRules {
                why,
                is_told: false,
            });
        }
    }

    /// Copies no whole stack that has no frame pointers from now on.
    pub(super) fn leave_out_bare(&mut self) -> Result<(), String> {
        self.program.leave_out_bare()
    }

    /// What the reader should know, once.
    pub(super) fn take_remark(&mut self) -> Option<String> {
        let no_rules = self.no_rules.as_mut().filter(|it| !it.is_told)?;
        no_rules.is_told = true;
        Some(remark(&no_rules.why))
    }

    pub(super) fn program(&self) -> &WalkProgram {
        &self.program
    }
}

/// Before Linux 5.19 the kernel takes what to copy only from a process with CAP_BPF, which nodespy keeps for that.
fn remark(why: &str) -> String {
    format!(
        "HTTP routes and stores of AsyncLocalStorage may be missing: the eBPF program was not told of all ({why}); \
         nodespy record --no-ebpf --async looks for them without it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_rules_is_told_as_it_is_and_with_what_helps() {
        let told = remark("Argument list too long (os error 7)");
        for text in [
            "may be missing",
            "Argument list too long",
            "--no-ebpf --async",
        ] {
            assert!(told.contains(text), "{told}");
        }
    }
}
