//! What `/proc` says. Everything in it is text some process may have chosen: parsed leniently,
//! never trusted to be UTF-8, bounded in size.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use nodespy_model::{FileIdentity, Mapping, Nanoseconds, SmallSort};

/// Bit of CAP_DAC_READ_SEARCH.
pub const CAP_DAC_READ_SEARCH: u32 = 2;
/// Bit of CAP_KILL.
pub const CAP_KILL: u32 = 5;
/// Bit of CAP_SYS_PTRACE.
pub const CAP_SYS_PTRACE: u32 = 19;
/// Bit of CAP_SYS_ADMIN.
pub const CAP_SYS_ADMIN: u32 = 21;
/// Bit of CAP_SYSLOG.
pub const CAP_SYSLOG: u32 = 34;
/// Bit of CAP_PERFMON.
pub const CAP_PERFMON: u32 = 38;
/// Bit of CAP_IPC_LOCK.
pub const CAP_IPC_LOCK: u32 = 14;

/// The parts of `/proc/PID/status` we use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Effective user.
    pub uid: u32,
    /// Process of the thread.
    pub tgid: u32,
    /// Parent process.
    pub parent_pid: u32,
    /// How many threads.
    pub threads: u32,
    /// Its number in the innermost pid namespace it lives in.
    pub inner_pid: u32,
    /// 0 none, 1 strict, 2 filter.
    pub seccomp_mode: u32,
    /// Effective capabilities.
    pub capabilities: u64,
    /// Whether it has ended but was not reaped.
    pub is_zombie: bool,
    /// Signals its main thread blocks, a bit each from SIGHUP on.
    pub blocked_signals: u64,
    /// Signals it ignores.
    pub ignored_signals: u64,
    /// Signals it has handlers for.
    pub caught_signals: u64,
}

impl Status {
    /// Whether capability `bit`, or the one that implies it, is effective.
    pub fn has_capability(&self, bit: u32) -> bool {
        let implied = bit == CAP_PERFMON && self.capabilities & (1 << CAP_SYS_ADMIN) != 0;
        implied || self.capabilities & (1 << bit) != 0
    }
}

/// The program that a process runs, as its mount namespace has it; none when it may not be known.
pub fn exe(pid: u32) -> Option<PathBuf> {
    fs::read_link(path_of(pid, "exe")).ok()
}

/// A path below `/proc/PID`.
pub fn path_of(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

/// `/proc/PID/status`; none when there is no such process.
pub fn read_status(pid: u32) -> Option<Status> {
    let text = read_text(&path_of(pid, "status"), 64 << 10)?;
    let mut status = Status::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let mut words = value.split_whitespace();
        let mut number = |at: usize| {
            words
                .nth(at)
                .and_then(|word| word.parse().ok())
                .unwrap_or(0)
        };
        match key {
            "Uid" => status.uid = number(1),
            "Tgid" => status.tgid = number(0),
            "PPid" => status.parent_pid = number(0),
            "Threads" => status.threads = number(0),
            "Seccomp" => status.seccomp_mode = number(0),
            "State" => status.is_zombie = value.trim_start().starts_with(['Z', 'X']),
            "NSpid" => {
                status.inner_pid = value
                    .split_whitespace()
                    .last()
                    .and_then(|word| word.parse().ok())
                    .unwrap_or(pid);
            }
            "CapEff" => status.capabilities = mask(value),
            "SigBlk" => status.blocked_signals = mask(value),
            "SigIgn" => status.ignored_signals = mask(value),
            "SigCgt" => status.caught_signals = mask(value),
            _ => {}
        }
    }
    if status.inner_pid == 0 {
        status.inner_pid = pid;
    }
    Some(status)
}

/// A set of bits as the kernel prints it.
fn mask(text: &str) -> u64 {
    u64::from_str_radix(text.trim(), 16).unwrap_or(0)
}

/// When the process started, in clock ticks since boot: with the pid, its identity.
pub fn start_time(pid: u32) -> Option<u64> {
    start_time_in(&read_text(&path_of(pid, "stat"), 4096)?)
}

/// When a thread started, as [`start_time`].
pub(crate) fn thread_start_time(pid: u32, tid: u32) -> Option<u64> {
    start_time_in(&read_text(
        &path_of(pid, &format!("task/{tid}/stat")),
        4096,
    )?)
}

fn start_time_in(text: &str) -> Option<u64> {
    // The name in parentheses may hold anything, so fields are counted from its end.
    let after_name = &text[text.rfind(')')? + 1..];
    after_name.split_whitespace().nth(19)?.parse().ok()
}

/// The arguments of a process.
pub fn command_line(pid: u32) -> Vec<String> {
    let bytes = read_bytes(&path_of(pid, "cmdline"), 128 << 10).unwrap_or_default();
    bytes
        .split(|&byte| byte == 0)
        .filter(|part| !part.is_empty())
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect()
}

/// The name of a thread.
pub fn thread_name(pid: u32, tid: u32) -> Option<String> {
    let name = read_text(&path_of(pid, &format!("task/{tid}/comm")), 4096)?;
    Some(name.trim_end_matches('\n').to_owned())
}

/// The threads of a process, the main one first.
pub fn threads(pid: u32) -> Vec<u32> {
    let mut tids: Vec<u32> = fs::read_dir(path_of(pid, "task"))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    tids.small_sort_by_key(|&tid| (tid != pid, tid));
    tids
}

/// The sockets a process has open, by inode.
pub(crate) fn socket_inodes(pid: u32) -> Vec<u64> {
    try_socket_inodes(pid).unwrap_or_default()
}

/// The same, or why they can't be read.
pub(crate) fn try_socket_inodes(pid: u32) -> std::io::Result<Vec<u64>> {
    let inode_of = |entry: std::io::Result<fs::DirEntry>| {
        let link = fs::read_link(entry.ok()?.path()).ok()?;
        let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        inode.parse().ok()
    };
    let descriptors = fs::read_dir(path_of(pid, "fd"))?;
    Ok(descriptors.filter_map(inode_of).collect())
}

/// Every process of the machine.
pub fn processes() -> Vec<u32> {
    let mut pids: Vec<u32> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    pids.small_sort();
    pids
}

/// The children of a process, threads' children included.
pub fn children(pid: u32) -> Vec<u32> {
    threads(pid)
        .into_iter()
        .filter_map(|tid| read_text(&path_of(pid, &format!("task/{tid}/children")), 1 << 20))
        .flat_map(|text| {
            text.split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

/// The code mappings of a process.
pub fn code_mappings(pid: u32) -> std::io::Result<Vec<Mapping>> {
    mappings_where(pid, |_, permissions| {
        permissions.as_bytes().get(2) == Some(&b'x')
    })
}

/// Some of the mappings of a process, chosen by themselves and their permissions.
pub(crate) fn mappings_where(
    pid: u32,
    is_wanted: impl Fn(&Mapping, &str) -> bool,
) -> std::io::Result<Vec<Mapping>> {
    let text = fs::read(path_of(pid, "maps"))?;
    Ok(String::from_utf8_lossy(&text)
        .lines()
        .filter_map(|line| parse_mapping(pid, line))
        .filter(|(mapping, permissions)| is_wanted(mapping, permissions))
        .map(|(mapping, _)| mapping)
        .collect())
}

/// A mapped part of an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MappedRange {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Everything that is mapped in a process; empty when it can't be read.
pub(crate) fn mapped_ranges(pid: u32) -> Vec<MappedRange> {
    let mappings = mappings_where(pid, |_, _| true).unwrap_or_default();
    let ranges = mappings.iter().map(|mapping| MappedRange {
        start: mapping.start,
        end: mapping.end,
    });
    ranges.collect()
}

/// What a thread is doing, by the kernel's account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// On a CPU or waiting for one.
    Running,
    /// Waiting for something, a signal would wake it.
    Sleeping,
    /// Waiting for a device or a lock of the kernel; nothing wakes it but that.
    Uninterruptible,
    /// Stopped by a signal.
    Stopped,
    /// Stopped by a debugger.
    Traced,
    /// It has ended.
    Ended,
    /// Something this kernel has a letter of its own for.
    Other,
}

impl RunState {
    /// The word shown for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Sleeping => "sleeping",
            Self::Uninterruptible => "uninterruptible",
            Self::Stopped => "stopped",
            Self::Traced => "traced",
            Self::Ended => "ended",
            Self::Other => "unknown",
        }
    }
}

/// What a thread is doing; none when it is gone.
pub fn run_state(pid: u32, tid: u32) -> Option<RunState> {
    let text = read_text(&path_of(pid, &format!("task/{tid}/stat")), 4096)?;
    let after_name = text[text.rfind(')')? + 1..].trim_start();
    Some(match after_name.chars().next()? {
        'R' => RunState::Running,
        'S' => RunState::Sleeping,
        'D' => RunState::Uninterruptible,
        'T' => RunState::Stopped,
        't' => RunState::Traced,
        'Z' | 'X' | 'x' => RunState::Ended,
        _ => RunState::Other,
    })
}

/// What a thread that has not ended is doing.
pub(crate) fn live_run_state(pid: u32, tid: u32) -> Option<RunState> {
    run_state(pid, tid).filter(|&state| state != RunState::Ended)
}

/// CPU time a thread has used; none when it is gone.
pub fn thread_cpu_time(pid: u32, tid: u32) -> Option<Nanoseconds> {
    thread_schedstat(pid, tid).map(|schedstat| schedstat.on_cpu)
}

/// How long a thread has waited for a CPU since it was made; none when it is gone.
pub fn thread_run_delay(pid: u32, tid: u32) -> Option<Nanoseconds> {
    thread_schedstat(pid, tid).map(|schedstat| schedstat.run_delay)
}

/// How much memory of a process is resident; none when it is gone.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let text = read_text(&path_of(pid, "status"), 64 << 10)?;
    let value = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = value.split_whitespace().next()?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// What the scheduler has counted for a thread since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Schedstat {
    pub(crate) on_cpu: Nanoseconds,
    pub(crate) run_delay: Nanoseconds,
    /// How often it was put on a CPU: as long as that stands still, so does the thread.
    pub(crate) slices: u64,
}

impl Schedstat {
    /// The text of `schedstat`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self {
            on_cpu: next()?,
            run_delay: next()?,
            slices: next()?,
        })
    }
}

/// What the scheduler has counted for a thread; none when it is gone.
pub(crate) fn thread_schedstat(pid: u32, tid: u32) -> Option<Schedstat> {
    let text = read_text(&path_of(pid, &format!("task/{tid}/schedstat")), 256)?;
    Schedstat::parse(&text)
}

/// What the kernel says of the system call a thread is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SystemCall {
    /// It runs, in user mode or in the kernel.
    Running,
    /// It waits in the kernel, having come from here.
    Waiting(WaitingAt),
}

/// Where a waiting thread entered the kernel, and what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitingAt {
    /// The number of the system call; none where it is in none, as with a page fault.
    pub(crate) number: Option<i64>,
    /// The first argument, mostly a descriptor.
    pub(crate) argument: u64,
    pub(crate) stack_pointer: u64,
    pub(crate) instruction_pointer: u64,
}

/// Where a thread waits in the kernel. A thread that is gone runs no more, but it does not wait.
pub(crate) fn system_call(pid: u32, tid: u32) -> std::io::Result<SystemCall> {
    let path = path_of(pid, &format!("task/{tid}/syscall"));
    match fs::read_to_string(path) {
        Ok(text) => Ok(parse_system_call(&text)),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(error),
        Err(_) => Ok(SystemCall::Running),
    }
}

/// Whether a thread waits for events, as an event loop with nothing to do; `wchan` tells it where the system call may not
/// be read.
pub(crate) fn waits_for_events(pid: u32, tid: u32) -> bool {
    match system_call(pid, tid) {
        Ok(SystemCall::Waiting(at)) => matches!(
            at.number,
            Some(libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2)
        ),
        Ok(SystemCall::Running) => false,
        Err(_) => {
            let function = read_text(&path_of(pid, &format!("task/{tid}/wchan")), 256);
            function.is_some_and(|name| ["ep_poll", "do_epoll_wait"].contains(&&*name))
        }
    }
}

/// `0 0x3 … 0x7ffd1dd09ba8 0x7f04501c12ad`: number, six arguments, stack and instruction pointer;
/// `-1 sp pc` of a thread that waits outside of a system call (a page fault, a stop); or `running`.
pub(crate) fn parse_system_call(text: &str) -> SystemCall {
    parse_waiting(text).map_or(SystemCall::Running, SystemCall::Waiting)
}

fn parse_waiting(text: &str) -> Option<WaitingAt> {
    let mut words = text.split_whitespace();
    let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let number = words.next()?.parse::<i64>().ok()?;
    let number = (number >= 0).then_some(number);
    let mut numbers = words.map(hex);
    let argument = match number {
        Some(_) => {
            let argument = numbers.next()??;
            numbers.nth(4)??;
            argument
        }
        None => 0,
    };
    Some(WaitingAt {
        number,
        argument,
        stack_pointer: numbers.next()??,
        instruction_pointer: numbers.next()??,
    })
}

/// The process that traces a process, if any.
pub(crate) fn tracer_of(pid: u32) -> Option<u32> {
    let text = read_text(&path_of(pid, "status"), 64 << 10)?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"))?;
    value.trim().parse().ok().filter(|tracer| *tracer != 0)
}

/// Where the file with this identity is mapped from its first byte.
pub(crate) fn first_byte_of(pid: u32, file: &FileIdentity) -> Option<u64> {
    let is_it = |mapping: &Mapping, _: &str| {
        mapping.file_offset == 0
            && mapping.file.inode == file.inode
            && mapping.file.device == file.device
    };
    let found = mappings_where(pid, is_it).ok()?;
    found.first().map(|mapping| mapping.start)
}

/// A line of `/proc/PID/maps` and its permissions.
fn parse_mapping(pid: u32, line: &str) -> Option<(Mapping, &str)> {
    let mut rest = line;
    let mut field = || {
        let trimmed = rest.trim_start_matches(' ');
        let end = trimmed.find(' ').unwrap_or(trimmed.len());
        let (word, after) = trimmed.split_at(end);
        rest = after;
        word
    };
    let (start, end) = field().split_once('-')?;
    let permissions = field();
    let offset = field();
    let (major, minor) = field().split_once(':')?;
    let inode = field();
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let mapping = Mapping {
        pid,
        start: hex(start)?,
        end: hex(end)?,
        file_offset: hex(offset)?,
        path: rest.trim_start_matches(' ').to_owned(),
        file: FileIdentity {
            device: (hex(major)? as u32, hex(minor)? as u32),
            inode: inode.parse().ok()?,
            build_id: Vec::new(),
        },
        time: 0,
    };
    Some((mapping, permissions))
}

/// The CPUs that are on.
pub fn online_cpus() -> Vec<u32> {
    let text = read_text(Path::new("/sys/devices/system/cpu/online"), 4096).unwrap_or_default();
    let cpus = parse_cpu_list(&text);
    if cpus.is_empty() { vec![0] } else { cpus }
}

fn parse_cpu_list(text: &str) -> Vec<u32> {
    text.trim()
        .split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?;
            (range.end().checked_sub(*range.start())? < 65_536).then_some(range)
        })
        .flatten()
        .collect()
}

/// `kernel.perf_event_paranoid`.
pub fn perf_event_paranoid() -> Option<i32> {
    sysctl("perf_event_paranoid")
}

/// A number of `/proc/sys/kernel`.
pub fn sysctl(name: &str) -> Option<i32> {
    let path = Path::new("/proc/sys/kernel").join(name);
    read_text(&path, 64)?.trim().parse().ok()
}

/// The name of this machine.
pub fn host_name() -> String {
    read_text(Path::new("/proc/sys/kernel/hostname"), 4096)
        .map(|name| name.trim().to_owned())
        .unwrap_or_default()
}

/// The user of a uid, or the number itself.
pub fn user_name(uid: u32) -> String {
    let accounts = read_text(Path::new("/etc/passwd"), 1 << 20).unwrap_or_default();
    accounts
        .lines()
        .find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
        })
        .unwrap_or_else(|| uid.to_string())
}

pub(crate) fn read_bytes(path: &Path, limit_bytes: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)
        .ok()?
        .take(limit_bytes)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(bytes)
}

pub(crate) fn read_text(path: &Path, limit_bytes: u64) -> Option<String> {
    read_bytes(path, limit_bytes).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_with_spaces_in_its_path_is_whole() {
        let line = "00b72000-025fe000 r-xp 00772000 00:27 10429582                 /usr/bin/my node (deleted)";
        let (mapping, permissions) = parse_mapping(7, line).unwrap();
        assert_eq!(permissions, "r-xp");
        assert_eq!(mapping.path, "/usr/bin/my node (deleted)");
        assert_eq!(mapping.file.device, (0, 0x27));
        assert_eq!(mapping.file.inode, 10_429_582);
        assert_eq!((mapping.start, mapping.file_offset), (0xb7_2000, 0x77_2000));
    }

    #[test]
    fn our_own_process_is_described() {
        let pid = std::process::id();
        let status = read_status(pid).unwrap();
        assert_eq!(status.tgid, pid);
        assert!(start_time(pid).unwrap() > 0);
        assert!(threads(pid).contains(&pid));
        assert!(!code_mappings(pid).unwrap().is_empty());
        assert!(!command_line(pid).is_empty());
    }

    #[test]
    fn a_waiting_thread_is_told_from_a_running_one() {
        let text = "0 0x3 0x7f0450046000 0x20000 0x7f04500d8b60 0xffffffff 0x0 0x7ffd1dd09ba8 0x7f04501c12ad\n";
        let waiting = WaitingAt {
            number: Some(0),
            argument: 3,
            stack_pointer: 0x7ffd_1dd0_9ba8,
            instruction_pointer: 0x7f04_501c_12ad,
        };
        assert_eq!(parse_system_call(text), SystemCall::Waiting(waiting));
        let faulting = WaitingAt {
            number: None,
            argument: 0,
            ..waiting
        };
        assert_eq!(
            parse_system_call("-1 0x7ffd1dd09ba8 0x7f04501c12ad\n"),
            SystemCall::Waiting(faulting)
        );
        for text in [
            "running\n",
            "",
            "-1",
            "-1 0x7ffd1dd09ba8",
            "0 1 2",
            "0 0x1 0x2 0x3",
        ] {
            assert_eq!(parse_system_call(text), SystemCall::Running, "{text}");
        }
    }

    #[test]
    fn schedstat_has_three_numbers() {
        let expected = Schedstat {
            on_cpu: 12,
            run_delay: 34,
            slices: 5,
        };
        assert_eq!(Schedstat::parse("12 34 5\n"), Some(expected));
        assert_eq!(Schedstat::parse("12 34\n"), None);
        assert_eq!(Schedstat::parse("x 1 2"), None);
    }

    #[test]
    fn our_own_thread_runs() {
        let pid = std::process::id();
        assert!(run_state(pid, pid).is_some());
        assert_eq!(run_state(pid, u32::MAX), None);
        assert!(!mapped_ranges(pid).is_empty());
    }

    #[test]
    fn cpu_lists_are_read() {
        assert_eq!(parse_cpu_list("0-2,5\n"), [0, 1, 2, 5]);
        assert!(parse_cpu_list("7-3").is_empty());
        assert!(parse_cpu_list("0-4294967295").is_empty());
    }
}
