//! Whether the eBPF program can run at samples and, where it can't, what is missing and what gives it.
//!
//! The kernel's error alone says little: it is EPERM without a capability, under lockdown, in a container's filter and for too
//! little locked memory. So what can be seen of the machine decides, and only the rest is left to a policy.

use std::io;
use std::path::Path;

use super::PROBE;
use crate::FILE_CAPABILITIES;
use crate::engines::perf_events::{WALKED_STACK_BYTES, cpu_wide};
use crate::engines::{Finding, Verdict};
use crate::sys::bpf::{CopiedAtSample, NOT_VERIFIED, ProgramOptions, WalkProgram};
use crate::sys::perf_event::{PerfEvent, Sampling, Subject};
use crate::target::proc::{self, CAP_PERFMON, CAP_SYS_ADMIN, Status};

const CAP_BPF: u32 = 39;
/// The first kernel that takes the program, and the first that doesn't count its maps as locked memory.
const FIRST: Kernel = Kernel(5, 8);
const FIRST_WITHOUT_LIMIT: Kernel = Kernel(5, 11);
/// More than all maps of the program take.
const LOCKED_BYTES: u64 = 64 << 20;

/// Without it whole stacks are copied, and JavaScript is named a moment later.
pub(super) fn probe(pid: u32) -> Finding {
    let subject = "eBPF";
    match run_program(pid) {
        Ok(()) => Finding {
            subject,
            verdict: Verdict::Good,
            detail: format!(
                "a program can read what names JavaScript at the sampled instruction; events are of {}",
                match cpu_wide::is_better_for(&[pid]) {
                    true => "whole CPUs, as the process is switched often",
                    false => "threads",
                }
            ),
            remedy: None,
        },
        Err(error) => {
            let causes = causes(&error, &Machine::observe());
            let why: Vec<&str> = causes.iter().map(|cause| &*cause.what).collect();
            let remedies: Vec<&str> = causes.iter().map(|cause| &*cause.remedy).collect();
            Finding {
                subject,
                verdict: Verdict::Limited,
                detail: format!(
                    "no program can run at samples: {}. Whole stacks are copied, and JavaScript is named a moment \
                     later; async callers and routes need --async",
                    why.join("; ")
                ),
                remedy: Some(remedies.join("; ")),
            }
        }
    }
}

/// Loads the program and attaches it to an event of the process, which never samples.
fn run_program(pid: u32) -> Result<(), String> {
    let options = ProgramOptions::new(WALKED_STACK_BYTES, CopiedAtSample::default(), None);
    let program = WalkProgram::load(options)?;
    let cpu = proc::online_cpus()[0];
    let attach = || {
        let sampling = Sampling {
            follow_children: true,
            ..PROBE
        };
        let event = PerfEvent::sampling(Subject::Thread(pid), cpu, &sampling)?;
        program.attach(&event)?;
        program.write_to(cpu, &PerfEvent::output(cpu, &PROBE)?)
    };
    attach().map_err(|error: io::Error| error.to_string())
}

/// Something that keeps the program from running, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cause {
    what: String,
    remedy: String,
}

/// The version of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kernel(u32, u32);

impl Kernel {
    /// `5.15.0-91-generic`.
    fn parse(release: &str) -> Option<Self> {
        let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
        let mut next = || numbers.next()?.parse().ok();
        Some(Self(next()?, next()?))
    }
}

/// What can be seen of nodespy and its machine.
#[derive(Debug, Clone, Default)]
struct Machine {
    own: Status,
    /// Whether nodespy is root in a user namespace only, as in a rootless container: capabilities count for nothing there.
    is_in_user_namespace: bool,
    kernel: Option<Kernel>,
    /// How much memory may be locked; no limit when absent.
    locked_bytes: Option<u64>,
    /// `integrity` or `confidentiality`, where the kernel is locked down.
    lockdown: Option<String>,
    enforces_selinux: bool,
    /// The profile that AppArmor confines nodespy to.
    apparmor: Option<String>,
    /// The path of nodespy.
    program: String,
}

impl Machine {
    fn observe() -> Self {
        let read = |path: &str| proc::read_text(Path::new(path), 64 << 10).unwrap_or_default();
        Self {
            own: proc::read_status(std::process::id()).unwrap_or_default(),
            is_in_user_namespace: is_mapped(&read("/proc/self/uid_map")),
            kernel: Kernel::parse(&read("/proc/sys/kernel/osrelease")),
            locked_bytes: locked_bytes(&read("/proc/self/limits")),
            lockdown: lockdown(&read("/sys/kernel/security/lockdown")),
            enforces_selinux: read("/sys/fs/selinux/enforce").trim() == "1",
            apparmor: confining(&read("/proc/self/attr/apparmor/current")),
            program: std::env::current_exe()
                .map_or_else(|_| "nodespy".to_owned(), |path| path.display().to_string()),
        }
    }
}

/// `/proc/self/uid_map`: the initial namespace maps every uid to itself.
fn is_mapped(uid_map: &str) -> bool {
    let numbers: Vec<&str> = uid_map.split_whitespace().collect();
    !numbers.is_empty() && numbers != ["0", "0", "4294967295"]
}

/// The soft limit of `/proc/self/limits`.
fn locked_bytes(limits: &str) -> Option<u64> {
    let mut lines = limits.lines();
    let values = lines.find_map(|line| line.strip_prefix("Max locked memory"))?;
    values.split_whitespace().next()?.parse().ok()
}

/// `none [integrity] confidentiality`.
fn lockdown(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    let (mode, _) = rest.split_once(']')?;
    (mode != "none").then(|| mode.to_owned())
}

/// `docker-default (enforce)`; a profile that only complains refuses nothing.
fn confining(profile: &str) -> Option<String> {
    let name = profile.trim().strip_suffix(" (enforce)")?;
    Some(nodespy_model::printable(name).into_owned())
}

/// Everything that is known to keep the program from running, or else what may have refused it with this error.
fn causes(error: &str, machine: &Machine) -> Vec<Cause> {
    let certain: Vec<Cause> = [old_kernel(machine), missing_rights(machine)]
        .into_iter()
        .flatten()
        .collect();
    if !certain.is_empty() {
        return certain;
    }
    if error.starts_with(NOT_VERIFIED) {
        return vec![rejected(error)];
    }
    let is = |number: i32| error.contains(&io::Error::from_raw_os_error(number).to_string());
    if is(libc::ENOSYS) {
        return vec![Cause {
            what: format!("this kernel has no bpf() ({error})"),
            remedy: "boot a kernel with CONFIG_BPF_SYSCALL=y, or run nodespy on the host where this is a \
                     sandbox (gVisor)"
                .to_owned(),
        }];
    }
    if !is(libc::EPERM) && !is(libc::EACCES) {
        return vec![rejected(&format!("the kernel rejected it ({error})"))];
    }
    if let Some(cause) = little_memory(machine) {
        return vec![cause];
    }
    policies(error, machine)
}

fn rejected(what: &str) -> Cause {
    Cause {
        what: what.to_owned(),
        remedy: "nodespy -vv check, and report its log".to_owned(),
    }
}

fn old_kernel(machine: &Machine) -> Option<Cause> {
    let Kernel(major, minor) = machine.kernel.filter(|kernel| *kernel < FIRST)?;
    Some(Cause {
        what: format!("Linux {major}.{minor} is too old, 5.8 is the first that can"),
        remedy: "boot Linux 5.8 or later".to_owned(),
    })
}

fn missing_rights(machine: &Machine) -> Option<Cause> {
    let own = &machine.own;
    if machine.is_in_user_namespace {
        return Some(Cause {
            what: "nodespy is in a user namespace (a rootless container), whose capabilities don't count for it".to_owned(),
            remedy: "run nodespy as root on the host: sudo nodespy record -c CONTAINER".to_owned(),
        });
    }
    // CAP_SYS_ADMIN has been both, and still implies them.
    let has = |bit| own.has_capability(bit) || own.has_capability(CAP_SYS_ADMIN);
    let names = match (has(CAP_BPF), has(CAP_PERFMON)) {
        (true, true) => return None,
        (false, false) => "CAP_BPF and CAP_PERFMON",
        (false, true) => "CAP_BPF",
        (true, false) => "CAP_PERFMON",
    };
    // Root without a capability has lost it to a container or a unit.
    let is_confined = own.uid == 0 || own.seccomp_mode == 2;
    let user = if own.uid == 0 { "" } else { "--user 0 " };
    Some(Cause {
        what: format!("nodespy lacks {names}"),
        remedy: match is_confined {
            true => format!(
                "start the container with {user}--cap-add BPF --cap-add PERFMON, or add CAP_BPF and CAP_PERFMON \
                 to AmbientCapabilities= and CapabilityBoundingSet= of the systemd unit"
            ),
            false => format!(
                "sudo setcap {FILE_CAPABILITIES} {} (or run it as root)",
                machine.program
            ),
        },
    })
}

/// Before Linux 5.11 maps were counted as locked memory, also root's.
fn little_memory(machine: &Machine) -> Option<Cause> {
    machine
        .kernel
        .filter(|kernel| *kernel < FIRST_WITHOUT_LIMIT)?;
    let limit = machine.locked_bytes.filter(|limit| *limit < LOCKED_BYTES)?;
    Some(Cause {
        what: format!(
            "only {} KiB may be locked, of which the memory of programs is taken before Linux 5.11",
            limit >> 10
        ),
        remedy: "ulimit -l unlimited".to_owned(),
    })
}

/// What may have refused a program that the capabilities allow. None of them says that it was the one.
fn policies(error: &str, machine: &Machine) -> Vec<Cause> {
    let mut causes = Vec::new();
    if machine.own.seccomp_mode == 2 {
        causes.push(Cause {
            what: format!("the seccomp filter of the container or systemd unit may refuse it ({error})"),
            remedy: "docker run --security-opt seccomp=unconfined, SystemCallFilter=bpf perf_event_open in \
                     the systemd unit, or run nodespy on the host"
                .to_owned(),
        });
    }
    if let Some(mode) = &machine.lockdown {
        causes.push(Cause {
            what: format!("the kernel is locked down ({mode}); some kernels refuse eBPF programs then ({error})"),
            remedy: format!(
                "boot without lockdown={mode} (and without Secure Boot, where that sets it): cat /sys/kernel/security/lockdown"
            ),
        });
    }
    if machine.enforces_selinux {
        causes.push(Cause {
            what: format!("SELinux may refuse it ({error})"),
            remedy:
                "sudo ausearch -m avc -c nodespy says whether it did, audit2allow what permits it"
                    .to_owned(),
        });
    }
    if let Some(profile) = &machine.apparmor {
        causes.push(Cause {
            what: format!("the AppArmor profile {profile} may refuse it ({error})"),
            remedy: "sudo dmesg | grep apparmor says whether it did; docker run --security-opt apparmor=unconfined".to_owned(),
        });
    }
    if causes.is_empty() {
        causes.push(Cause {
            what: format!("a security policy refuses it, though nodespy has CAP_BPF and CAP_PERFMON ({error})"),
            remedy: "sudo dmesg | tail, for what refused it (seccomp of a container, SELinux, AppArmor, a \
                     security module that is an eBPF program itself)"
                .to_owned(),
        });
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: &str = "Operation not permitted (os error 1)";

    /// A machine on which nothing is in the way.
    fn machine(capabilities: &[u32]) -> Machine {
        Machine {
            own: Status {
                uid: 1001,
                capabilities: capabilities.iter().fold(0, |set, bit| set | 1 << bit),
                ..Status::default()
            },
            kernel: Some(Kernel(6, 1)),
            program: "/opt/nodespy".to_owned(),
            ..Machine::default()
        }
    }

    fn capable() -> Machine {
        machine(&[CAP_BPF, CAP_PERFMON])
    }

    /// The only cause there is.
    #[track_caller]
    fn cause(error: &str, machine: &Machine) -> Cause {
        let mut causes = causes(error, machine);
        assert_eq!(causes.len(), 1, "{causes:?}");
        causes.remove(0)
    }

    #[test]
    fn capabilities_that_are_missing_are_named_with_the_line_that_gives_them() {
        for (has, missing) in [
            (&[][..], "lacks CAP_BPF and CAP_PERFMON"),
            (&[CAP_PERFMON], "lacks CAP_BPF"),
            (&[CAP_BPF], "lacks CAP_PERFMON"),
        ] {
            let found = cause(REFUSED, &machine(has));
            assert!(found.what.ends_with(missing), "{found:?}");
            let line = "sudo setcap cap_perfmon,cap_bpf,";
            assert!(found.remedy.starts_with(line), "{found:?}");
            assert!(found.remedy.contains("+ep /opt/nodespy "), "{found:?}");
        }
        let admin = missing_rights(&machine(&[CAP_SYS_ADMIN]));
        assert_eq!(admin, None);
    }

    #[test]
    fn root_in_a_container_is_not_told_to_become_root() {
        let mut machine = machine(&[CAP_PERFMON]);
        machine.own.uid = 0;
        let found = cause(REFUSED, &machine);
        assert!(found.remedy.contains("--cap-add BPF"), "{found:?}");
        assert!(!found.remedy.contains("root"), "{found:?}");
        let machine = Machine {
            is_in_user_namespace: true,
            ..capable()
        };
        let found = cause(REFUSED, &machine);
        assert!(found.what.contains("user namespace"), "{found:?}");
        assert!(found.remedy.contains("on the host"), "{found:?}");
    }

    #[test]
    fn a_kernel_that_is_too_old_and_a_capability_are_both_told() {
        let old = |machine: Machine| Machine {
            kernel: Some(Kernel(5, 4)),
            ..machine
        };
        let found = cause("Invalid argument (os error 22)", &old(capable()));
        assert!(found.what.contains("Linux 5.4 is too old"), "{found:?}");
        assert_eq!(found.remedy, "boot Linux 5.8 or later");
        assert_eq!(causes(REFUSED, &old(machine(&[]))).len(), 2);
    }

    #[test]
    fn locked_memory_is_the_cause_before_5_11_alone() {
        let limited = |minor| Machine {
            kernel: Some(Kernel(5, minor)),
            locked_bytes: Some(64 << 10),
            ..capable()
        };
        let found = cause(REFUSED, &limited(10));
        assert!(found.what.starts_with("only 64 KiB"), "{found:?}");
        assert_eq!(found.remedy, "ulimit -l unlimited");
        assert!(!cause(REFUSED, &limited(11)).what.contains("KiB"));
    }

    #[test]
    fn a_policy_is_blamed_only_where_the_rights_are_there() {
        let filtered = |mut machine: Machine| {
            machine.own.seccomp_mode = 2;
            machine
        };
        let found = cause(REFUSED, &filtered(capable()));
        assert!(found.what.contains("seccomp filter"), "{found:?}");
        assert!(found.remedy.contains("seccomp=unconfined"), "{found:?}");
        let found = cause(REFUSED, &filtered(machine(&[])));
        assert!(found.what.contains("lacks"), "{found:?}");
        assert!(found.remedy.contains("--user 0 --cap-add"), "{found:?}");

        for mode in ["integrity", "confidentiality"] {
            let locked = Machine {
                lockdown: Some(mode.to_owned()),
                ..capable()
            };
            let found = cause(REFUSED, &locked);
            assert!(found.what.contains(&format!("({mode})")), "{found:?}");
            let boot = format!("boot without lockdown={mode}");
            assert!(found.remedy.starts_with(&boot), "{found:?}");
        }

        let confined = Machine {
            enforces_selinux: true,
            apparmor: Some("docker-default".to_owned()),
            ..capable()
        };
        let found = causes("Permission denied (os error 13)", &confined);
        assert!(found[0].remedy.contains("ausearch"), "{found:?}");
        assert!(found[1].what.contains("docker-default"), "{found:?}");

        let found = cause(REFUSED, &capable());
        assert!(found.what.contains("a security policy"), "{found:?}");
    }

    #[test]
    fn what_is_no_refusal_is_not_blamed_on_a_policy() {
        let found = cause("Function not implemented (os error 38)", &capable());
        assert!(found.what.contains("no bpf()"), "{found:?}");
        let found = cause("Argument list too long (os error 7)", &capable());
        assert!(found.what.contains("Argument list too long"), "{found:?}");
        assert!(!found.what.contains("policy"), "{found:?}");
    }

    #[test]
    fn what_the_verifier_rejects_is_not_blamed_on_a_policy() {
        let error = format!("{NOT_VERIFIED}: Permission denied (os error 13)");
        let mut filtered = capable();
        filtered.own.seccomp_mode = 2;
        for machine in [capable(), filtered] {
            let found = cause(&error, &machine);
            assert_eq!(found.what, error);
            assert_eq!(found.remedy, "nodespy -vv check, and report its log");
        }
    }

    #[test]
    fn what_the_kernel_says_of_itself_is_read() {
        assert_eq!(Kernel::parse("5.15.0-91-generic\n"), Some(Kernel(5, 15)));
        assert_eq!(Kernel::parse("6.1"), Some(Kernel(6, 1)));
        assert_eq!(Kernel::parse(""), None);
        assert!(Kernel(5, 10) > FIRST && Kernel(4, 18) < FIRST);

        assert!(!is_mapped("         0          0 4294967295\n"));
        assert!(is_mapped("         0       1000          1\n"));
        assert!(!is_mapped(""));

        let limits =
            "Max file size  unlimited unlimited bytes\nMax locked memory  65536  65536 bytes\n";
        assert_eq!(locked_bytes(limits), Some(65536));
        assert_eq!(
            locked_bytes("Max locked memory  unlimited unlimited bytes"),
            None
        );

        let both = "none [integrity] confidentiality\n";
        assert_eq!(lockdown(both).as_deref(), Some("integrity"));
        assert_eq!(lockdown("[none] integrity confidentiality\n"), None);
        assert_eq!(lockdown(""), None);

        let profile = confining("docker-default (enforce)\n");
        assert_eq!(profile.as_deref(), Some("docker-default"));
        assert_eq!(confining("unconfined\n"), None);
        assert_eq!(confining("mine (complain)\n"), None);
    }
}
