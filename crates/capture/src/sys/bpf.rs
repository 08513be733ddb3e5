//! The eBPF program that copies, at the sampled instruction, what names a stack of V8: `bpf/walk.bpf.c`.

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use aya::maps::{Array, HashMap, Map, MapData};
use aya::programs::{PerfEvent as PerfEventProgram, ProgramError};
use aya::{Ebpf, EbpfLoader, Pod};
use flate2::read::DeflateDecoder;
use nodespy_model::{CopiedField, CopyRule, CopyRules, MAX_COPIED_FIELDS, ObjectShape, RuleOf};

use super::checked;
use super::perf_event::PerfEvent;
use super::pid_bits::PidBits;

/// The objects of the program, as build.rs has packed them in turns.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/walk.packed"));
include!(concat!(env!("OUT_DIR"), "/walk.rs"));

/// The Linux that each object needs, the newest first. Before 5.17 there is no `bpf_loop`, and before 5.15 samples in kernel mode
/// don't have the registers of user space.
const LINUX: [&str; LENGTHS.len()] = ["5.17", "5.15", "5.8"];

/// The object for [`LINUX`] of that index.
fn unpacked(wanted: usize) -> Vec<u8> {
    let mut packed = DeflateDecoder::new(PACKED);
    let mut object = Vec::with_capacity(LENGTHS[wanted]);
    let mut turn = Vec::with_capacity(TURN);
    let mut left = LENGTHS;
    while object.len() < LENGTHS[wanted] {
        for (index, left) in left.iter_mut().enumerate() {
            let bytes = TURN.min(*left);
            turn.resize(bytes, 0);
            packed
                .read_exact(&mut turn)
                .expect("build.rs has packed it");
            *left -= bytes;
            if index == wanted {
                object.extend_from_slice(&turn);
            }
        }
    }
    object
}

/// The program, loaded. It ends with the events it is attached to, or with this.
#[derive(Debug)]
pub(crate) struct WalkProgram {
    program: Ebpf,
    options: ProgramOptions,
}

impl WalkProgram {
    /// Loads the program; an error says why the kernel does not take it.
    pub(crate) fn load(options: ProgramOptions) -> Result<Self, String> {
        Self::load_for(options, 1)
    }

    /// Loads the program for events of whole CPUs. It drops samples of processes whose bits are set, and of those
    /// that are not in the namespace; without one pids are those of the initial namespace. All are below `pids`.
    pub(crate) fn load_for_cpus(
        options: ProgramOptions,
        pids: u32,
        namespace: Option<PidNamespace>,
    ) -> Result<(Self, PidBits), String> {
        let words = PidBits::words_for(pids);
        let mut program = Self::load_for(options, words)?;
        if let Some(namespace) = namespace {
            program.set("pid_namespaces", namespace)?;
        }
        let Some(Map::Array(others)) = program.program.map("others") else {
            return Err("it has no map of that name".to_owned());
        };
        let bits = PidBits::map(others.fd().as_fd(), words).map_err(|error| error.to_string())?;
        Ok((program, bits))
    }

    fn load_for(options: ProgramOptions, words: u32) -> Result<Self, String> {
        // Tests try the older ones on a newer kernel.
        let wanted = std::env::var("NODESPY_OLD_EBPF").ok();
        let is_wanted = |linux: &str| wanted.as_deref().is_none_or(|wanted| wanted == linux);
        let mut refused = "NODESPY_OLD_EBPF names no program".to_owned();
        for (index, linux) in LINUX
            .iter()
            .enumerate()
            .filter(|(_, linux)| is_wanted(linux))
        {
            match Self::load_object(&unpacked(index), words, options) {
                Ok(mut program) => {
                    program.set("options", options)?;
                    return Ok(program);
                }
                Err(why) => {
                    log::debug!("the program for Linux {linux} is not used: {why}");
                    refused = why;
                }
            }
        }
        Err(refused)
    }

    fn load_object(object: &[u8], words: u32, options: ProgramOptions) -> Result<Self, String> {
        // No type of the kernel is looked into, so its own BTF is not needed.
        let mut program = EbpfLoader::new()
            .map_max_entries("scratches", possible_cpus()?)
            .map_max_entries("others", words)
            .load(object)
            .map_err(|error| deepest(&error))?;
        let walk = program
            .program_mut("walk")
            .ok_or("it has no program of that name")?;
        let walk: &mut PerfEventProgram = walk.try_into().map_err(|error| deepest(&error))?;
        walk.load().map_err(|error| refusal(&error))?;
        if let (true, Ok(loaded)) = (log::log_enabled!(log::Level::Debug), walk.info()) {
            let count = loaded.verified_instruction_count().unwrap_or(0);
            log::debug!("the kernel verified {count} instructions of the program");
        }
        Ok(Self { program, options })
    }

    /// From now on copies no whole stack that has no frame pointers.
    pub(crate) fn leave_out_bare(&mut self) -> Result<(), String> {
        self.options = self.options.without_bare();
        self.set("options", self.options)
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

    /// Sets the only value of an array.
    fn set<V: Pod>(&mut self, name: &str, value: V) -> Result<(), String> {
        let map = self.program.map_mut(name);
        let map = map.ok_or("it has no map of that name")?;
        let mut map: Array<&mut MapData, V> = map.try_into().map_err(|error| deepest(&error))?;
        map.set(0, value, 0).map_err(|error| deepest(&error))
    }

    /// From now on copies these fields of objects with these maps or constructors; others have the rules they had.
    pub(crate) fn set_copy_rules(&mut self, rules: &CopyRules) -> Result<(), String> {
        let objects = rules.objects.iter();
        self.insert_all(
            "classes",
            objects.map(|rule| (fields_key(rule), fields_value(rule))),
        )?;
        let slots = rules.slots.iter();
        self.insert_all("store_slots", slots.map(|slot| (slot.tid, slot.address)))
    }

    fn insert_all<K: Pod, V: Pod>(
        &mut self,
        name: &str,
        rows: impl ExactSizeIterator<Item = (K, V)>,
    ) -> Result<(), String> {
        let map = self.program.map_mut(name);
        let map = map.ok_or("it has no map of that name")?;
        let mut map: HashMap<&mut MapData, K, V> =
            map.try_into().map_err(|error| deepest(&error))?;
        for (key, value) in rows {
            map.insert(key, value, 0).map_err(|error| deepest(&error))?;
        }
        Ok(())
    }
}

/// The program's `struct fields`.
pub(crate) type FieldsValue = [u8; 16];

/// What the program knows a rule by: bits that pointers don't have tell what it is for.
pub(crate) fn fields_key(rule: &CopyRule) -> u64 {
    const OF_STORE: u64 = 2;
    const OF_NAME: u64 = 4;
    match rule.of {
        RuleOf::Request => rule.key,
        RuleOf::Store => rule.key | OF_STORE,
        RuleOf::Name => rule.key | OF_NAME,
    }
}

/// What the program knows of a rule.
pub(crate) fn fields_value(rule: &CopyRule) -> FieldsValue {
    const LEADS_TO_REQUEST: u8 = 1;
    const IS_MAP: u8 = 2;
    const IS_DICTIONARY: u8 = 4;
    const IS_CONTEXT: u8 = 8;
    let mut value = [0; 16];
    value[0] = match rule.shape {
        ObjectShape::Fields => 0,
        ObjectShape::Map => IS_MAP,
        ObjectShape::Dictionary => IS_DICTIONARY,
        ObjectShape::Context => IS_CONTEXT,
    };
    if rule.leads_to_request {
        value[0] |= LEADS_TO_REQUEST;
    }
    value[8..].copy_from_slice(&rule.fingerprint.to_ne_bytes());
    for (byte, field) in value[1..8].iter_mut().zip(&rule.fields) {
        *byte = field.encoded();
    }
    // In the order of their places: the program reads those that lie together at once.
    let count = rule.fields.len().min(MAX_COPIED_FIELDS);
    value[1..=count].sort_unstable_by_key(|&byte| CopiedField::place_of(byte));
    value
}

/// A pid namespace, as the kernel tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct PidNamespace {
    device: u64,
    inode: u64,
}

// SAFETY: two plain numbers without padding.
unsafe impl Pod for PidNamespace {}

impl PidNamespace {
    /// What the program takes for the initial one.
    const INITIAL: Self = Self {
        device: 0,
        inode: 0,
    };

    /// The namespace that a file of `/proc/PID/ns` is.
    pub(crate) fn of(file: &std::fs::Metadata) -> Self {
        // The kernel's own order of the two numbers is not that of user space.
        let (major, minor) = (libc::major(file.dev()), libc::minor(file.dev()));
        Self {
            device: u64::from(major) << 20 | u64::from(minor),
            inode: file.ino(),
        }
    }

    #[cfg(test)]
    pub(crate) fn with_inode(inode: u64) -> Self {
        Self { device: 4, inode }
    }

    /// Whether it is the initial one, in which every process has a number.
    pub(crate) fn is_initial(self) -> bool {
        const INITIAL_INODE: u64 = 0xEFFF_FFFC;
        self.inode == INITIAL_INODE
    }
}

/// What is copied at the sampled instruction beside the stack and its functions. Each takes time of the sampled thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopiedAtSample {
    /// What leads to the async callers of what runs.
    pub async_callers: bool,
    /// What tells the request that it runs for.
    pub requests: bool,
    /// The stores of AsyncLocalStorage.
    pub stores: bool,
}

/// What the program copies: its `struct options`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct ProgramOptions {
    stack_bytes: u32,
    wants_requests: u32,
    wants_stores: u32,
    wants_async: u32,
    wants_bare: u32,
    unused: u32,
    /// What threads have their numbers in.
    namespace: PidNamespace,
}

impl ProgramOptions {
    /// For samples that copy so much of the stack themselves. Threads have their numbers in this namespace, or in the initial one.
    pub(crate) fn new(
        stack_bytes: u32,
        copies: CopiedAtSample,
        namespace: Option<PidNamespace>,
    ) -> Self {
        Self {
            stack_bytes,
            wants_requests: copies.requests.into(),
            wants_stores: copies.stores.into(),
            wants_async: copies.async_callers.into(),
            wants_bare: 1,
            unused: 0,
            namespace: namespace.unwrap_or(PidNamespace::INITIAL),
        }
    }

    /// The same without the 40 KB of a stack that has no frame pointers.
    pub(crate) fn without_bare(self) -> Self {
        Self {
            wants_bare: 0,
            ..self
        }
    }

    /// The same for a sample that has this much of its stack.
    pub(crate) fn with_stack(self, bytes: usize) -> Self {
        Self {
            stack_bytes: u32::try_from(bytes).unwrap_or(0),
            ..self
        }
    }
}

// SAFETY: numbers without padding, of which any value is one.
unsafe impl Pod for ProgramOptions {}

/// All CPUs that there may be have numbers below this. Not by `sysconf`: musl counts those that nodespy may run on.
fn possible_cpus() -> Result<u32, String> {
    let file = "/sys/devices/system/cpu/possible";
    let list = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    past_last_cpu(&list).ok_or_else(|| format!("{file} has no CPU"))
}

/// One more than the highest number of a list such as `0-3,8`.
fn past_last_cpu(list: &str) -> Option<u32> {
    let numbers = list.trim().split([',', '-']);
    let cpus: Vec<u32> = numbers.map(str::parse).collect::<Result<_, _>>().ok()?;
    cpus.iter().max()?.checked_add(1)
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

/// How the reason starts where the kernel's verifier does not take the program.
pub(crate) const NOT_VERIFIED: &str = "the kernel's verifier rejected it";

/// Why a program was not loaded.
fn refusal(error: &ProgramError) -> String {
    log::debug!("{error}");
    match error {
        ProgramError::LoadError {
            io_error,
            verifier_log,
        } => verdict(io_error, &verifier_log.to_string()),
        error => deepest(error),
    }
}

/// Most of what the verifier rejects is EACCES, as if the rights were not there; only its log tells.
fn verdict(error: &io::Error, verifier_log: &str) -> String {
    match verifier_log.trim() {
        "" => error.to_string(),
        _ => format!("{NOT_VERIFIED}: {error}"),
    }
}

/// The error that all others were made of: the kernel's.
pub(super) fn deepest(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_is_unpacked_as_it_was_built() {
        let built: [&[u8]; 3] = [
            include_bytes!("../../bpf/walk.bpf.o"),
            include_bytes!("../../bpf/walk-5.15.bpf.o"),
            include_bytes!("../../bpf/walk-5.8.bpf.o"),
        ];
        for (index, built) in built.into_iter().enumerate() {
            assert!(unpacked(index) == built, "{}", LINUX[index]);
        }
    }

    #[test]
    fn cpus_are_counted_up_to_the_highest_number() {
        assert_eq!(past_last_cpu("0-1\n"), Some(2));
        assert_eq!(past_last_cpu("0"), Some(1));
        assert_eq!(past_last_cpu("0-3,8-11"), Some(12));
        for bad in ["", "\n", "none", "0-", "0-4294967295"] {
            assert_eq!(past_last_cpu(bad), None, "{bad}");
        }
        assert!(possible_cpus().unwrap() > 0);
    }

    #[test]
    fn what_the_verifier_rejects_is_told_from_what_lacks_rights() {
        let refused = |log: &str| {
            let error = io::Error::from_raw_os_error(libc::EACCES);
            verdict(&error, log)
        };
        let rejected = refused("R1 invalid mem access 'scalar'\nprocessed 12 insns");
        assert!(rejected.starts_with(NOT_VERIFIED), "{rejected}");
        assert!(rejected.contains("os error 13"), "{rejected}");
        for log in ["", "\n"] {
            assert_eq!(refused(log), "Permission denied (os error 13)");
        }
    }

    #[test]
    fn fields_are_in_the_order_of_their_places() {
        let field = |word, is_in_properties, is_text| CopiedField {
            word,
            is_in_properties,
            is_text,
        };
        let fields = [
            field(2, true, false),
            field(9, false, true),
            field(30, false, false),
            field(3, false, false),
        ];
        let value = fields_value(&CopyRule {
            of: RuleOf::Request,
            key: 1,
            fingerprint: CopyRule::ANY,
            leads_to_request: true,
            shape: ObjectShape::Fields,
            fields: fields.to_vec(),
        });
        let sorted = [fields[3], fields[1], fields[2], fields[0]];
        assert_eq!(value[1..5], sorted.map(CopiedField::encoded));
        assert_eq!(value[5..], [0; 11]);
    }
}
