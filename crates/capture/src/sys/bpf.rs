//! The eBPF program that copies, at the sampled instruction, what names a stack of V8: `bpf/walk.bpf.c`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use aya::maps::{Array, Map, MapData};
use aya::programs::PerfEvent as PerfEventProgram;
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};

use super::checked;
use super::perf_event::PerfEvent;

/// For Linux 5.17 and later.
static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/walk.bpf.o");
/// The same without `bpf_loop` and the registers of user space in kernel mode: Linux 5.8 and later.
static OBJECT_5_8: &[u8] = include_bytes_aligned!("../../bpf/walk-5.8.bpf.o");

/// The program, loaded. It ends with the events it is attached to, or with this.
#[derive(Debug)]
pub(crate) struct WalkProgram {
    program: Ebpf,
}

impl WalkProgram {
    /// Loads the program, for samples that copy so much of the stack themselves; an error says why the kernel does not
    /// take it.
    pub(crate) fn load(stack_bytes: u32) -> Result<Self, String> {
        let newer = match std::env::var_os("NODESPY_OLD_EBPF") {
            Some(_) => Err("NODESPY_OLD_EBPF is set".to_owned()),
            None => Self::load_object(OBJECT),
        };
        let mut program = newer.or_else(|why| {
            log::debug!("the program for Linux 5.17 is not used: {why}");
            Self::load_object(OBJECT_5_8)
        })?;
        program.set_stack_bytes(stack_bytes)?;
        Ok(program)
    }

    fn load_object(object: &[u8]) -> Result<Self, String> {
        // No type of the kernel is looked into, so its own BTF is not needed.
        let mut program = EbpfLoader::new()
            .map_max_entries("scratches", possible_cpus())
            .load(object)
            .map_err(|error| deepest(&error))?;
        let walk = program
            .program_mut("walk")
            .ok_or("it has no program of that name")?;
        let walk: &mut PerfEventProgram = walk.try_into().map_err(|error| deepest(&error))?;
        walk.load().map_err(|error| {
            log::debug!("{error}");
            deepest(&error)
        })?;
        Ok(Self { program })
    }

    fn program_fd(&self) -> io::Result<BorrowedFd<'_>> {
        let program = self.program.program("walk");
        let fd = program.and_then(|program| program.fd().ok());
        fd.map(AsFd::as_fd)
            .ok_or_else(|| io::Error::other("it is not loaded"))
    }

    /// Runs the program at each sample of an event, and of those that inherit from it.
    pub(crate) fn attach(&self, event: &PerfEvent) -> io::Result<()> {
        event.run_program(self.program_fd()?)
    }

    /// Sends what is copied on a CPU to where the records of an event go.
    pub(crate) fn write_to(&self, cpu: u32, output: &PerfEvent) -> io::Result<()> {
        let Some(Map::PerfEventArray(outputs)) = self.program.map("outputs") else {
            return Err(io::Error::other("it has no outputs"));
        };
        update(outputs, cpu, output.as_raw_fd() as u32)
    }

    fn set_stack_bytes(&mut self, stack_bytes: u32) -> Result<(), String> {
        let map = self.program.map_mut("stack_bytes");
        let map = map.ok_or("it has no map of that name")?;
        let mut map: Array<&mut MapData, u32> = map.try_into().map_err(|error| deepest(&error))?;
        map.set(0, stack_bytes, 0).map_err(|error| deepest(&error))
    }
}

/// How many CPUs there may be.
fn possible_cpus() -> u32 {
    // SAFETY: the call takes a number and returns one.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    u32::try_from(cpus).unwrap_or(1).max(1)
}

/// `BPF_MAP_UPDATE_ELEM` of a map whose values are descriptors.
fn update(map: &MapData, key: u32, value: u32) -> io::Result<()> {
    const UPDATE: libc::c_int = 2;
    #[repr(C)]
    struct Attributes {
        map: u32,
        reserved: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let attributes = Attributes {
        map: map.fd().as_fd().as_raw_fd() as u32,
        reserved: 0,
        key: (&raw const key) as u64,
        value: (&raw const value) as u64,
        flags: 0,
    };
    let size = size_of::<Attributes>();
    // SAFETY: the attributes are those of this call, and key and value live as long as it does.
    let result = unsafe { libc::syscall(libc::SYS_bpf, UPDATE, &raw const attributes, size) };
    checked(result).map(|_| ())
}

/// The error that all others were made of: the kernel's.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
