//! The eBPF program that keeps one in n hits of a breakpoint, chosen at random: `bpf/one_in.bpf.c`.

use std::io;
use std::os::fd::AsFd;

use aya::programs::UProbe;
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};

use super::bpf::deepest;
use super::perf_event::PerfEvent;

static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/one_in.bpf.o");

/// The program, loaded. It ends with the events it is attached to, or with this.
#[derive(Debug)]
pub(crate) struct OneIn {
    program: Ebpf,
}

impl OneIn {
    /// Loads the program; an error says why the kernel does not take it.
    pub(crate) fn load(n: u32) -> Result<Self, String> {
        let mut program = EbpfLoader::new()
            .override_global("n", &n, true)
            .load(OBJECT)
            .map_err(|error| deepest(&error))?;
        let one_in = program
            .program_mut("one_in")
            .ok_or("it has no program of that name")?;
        let one_in: &mut UProbe = one_in.try_into().map_err(|error| deepest(&error))?;
        one_in.load().map_err(|error| deepest(&error))?;
        Ok(Self { program })
    }

    /// Drops the other hits of a breakpoint. Threads that start later inherit it with all hits.
    pub(crate) fn attach(&self, event: &PerfEvent) -> io::Result<()> {
        let program = self.program.program("one_in");
        let program = program.and_then(|program| program.fd().ok());
        let program = program.ok_or_else(|| io::Error::other("it is not loaded"))?;
        event.run_program(program.as_fd())
    }
}
