//! What nodespy may still do once it has begun: the capabilities a command needs, and no way to more.
//!
//! Called before threads are started: a thread has the rights of the one that made it. The bounding set
//! is left alone, so a command that root launches has all of root's rights again, as it would without
//! nodespy.

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};

/// Files of other users: outputs go into their folders, and belong to them.
const FILES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER);
/// Addresses in `/proc/kallsyms`.
const KERNEL_NAMES: CapabilitySet = CapabilitySet::SYSLOG;
/// Memory and files of other processes, their samples in rings above the limit for locked memory, SIGUSR1 for
/// Node, and a turn before others for the thread that holds one of theirs.
const PROCESSES: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::CHECKPOINT_RESTORE)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SYS_NICE);
/// Sockets of other processes, SIGUSR1 for Node, and its network namespace.
const INSPECTORS: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SYS_ADMIN);
/// The sudo caller's identity, which a launched command takes on.
const IDENTITY: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID);

/// Keeps what reading recordings and writing results takes.
pub(crate) fn keep_for_files() {
    keep(FILES | KERNEL_NAMES);
}

/// The same where a given path leads through another process.
pub(crate) fn keep_for_files_of_processes() {
    keep(FILES | KERNEL_NAMES | CapabilitySet::SYS_PTRACE);
}

/// Keeps nothing, in a thread of a test.
#[cfg(test)]
pub(crate) fn keep_for_nothing() {
    keep(CapabilitySet::empty());
}

/// What is kept beside the rights to look at processes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extra {
    /// An inspector may have to be reached in another network namespace, or tracefs to be mounted in one
    /// of our own.
    pub(crate) enters_namespaces: bool,
    /// A command is launched, perhaps a second time for another engine, and perhaps as another user.
    pub(crate) launches: bool,
}

/// Keeps what looking at processes takes.
pub(crate) fn keep_for_processes(extra: Extra) {
    // The program that runs at samples is loaded before they are taken.
    let mut kept = processes() | CapabilitySet::BPF;
    if extra.enters_namespaces {
        kept |= CapabilitySet::SYS_ADMIN;
    }
    if extra.launches {
        kept |= IDENTITY;
    } else {
        no_new_privileges();
    }
    keep(kept);
}

/// Drops what only the other engine and a second launch would have needed.
pub(crate) fn keep_when_perf_is_attached() {
    keep(processes());
}

/// The same where the program that runs at samples is told all the time what to copy, of routes and stores.
pub(crate) fn keep_when_copy_rules_follow() {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    keep(match takes_rules_without_bpf(&release) {
        true => processes(),
        false => processes() | CapabilitySet::BPF,
    });
}

/// Whether a map of the program can be written to without CAP_BPF where `kernel.unprivileged_bpf_disabled` is set: from Linux 5.19 on.
fn takes_rules_without_bpf(release: &str) -> bool {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse().ok());
    let version: (Option<u32>, Option<u32>) = (next(), next());
    version >= (Some(5), Some(19))
}

/// Drops what only perf events would have needed: inspectors are opened for as long as nodespy runs, in other network
/// namespaces too.
pub(crate) fn keep_for_inspectors() {
    keep(FILES | KERNEL_NAMES | INSPECTORS);
}

/// What looking at processes takes on this kernel.
fn processes() -> CapabilitySet {
    let kept = FILES | KERNEL_NAMES | PROCESSES;
    match has_fine_capabilities() {
        true => kept,
        false => kept | CapabilitySet::SYS_ADMIN,
    }
}

/// From now on no program that is started gets more rights than nodespy has. Not for a launched command,
/// which may be setuid or start something that is.
pub(crate) fn no_new_privileges() {
    if let Err(error) = set_no_new_privs(true) {
        log::info!("no_new_privs is not set: {error}");
    }
}

/// Whether what was split off from CAP_SYS_ADMIN (Linux 5.8 and 5.9) is there to be used instead.
fn has_fine_capabilities() -> bool {
    let fine = CapabilitySet::PERFMON | CapabilitySet::CHECKPOINT_RESTORE;
    capabilities(None).is_ok_and(|own| own.effective.contains(fine))
}

fn keep(kept: CapabilitySet) {
    let reduced = capabilities(None).and_then(|own| {
        let sets = CapabilitySets {
            effective: own.effective & kept,
            permitted: own.permitted & kept,
            inheritable: own.inheritable & kept,
        };
        match sets == own {
            true => Ok(()),
            false => set_capabilities(None, sets),
        }
    });
    match reduced {
        Ok(()) => log::debug!("capabilities kept: {:#x}", kept.bits()),
        Err(error) => log::info!("capabilities are not dropped: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_taken_without_bpf_from_linux_5_19_on() {
        for release in ["5.19.0", "6.1.0-13-amd64", "6.18.44", "10.0"] {
            assert!(takes_rules_without_bpf(release), "{release}");
        }
        for release in ["5.18.19", "5.8.0", "5.10.0-28-amd64", "4.18.0", "", "x"] {
            assert!(!takes_rules_without_bpf(release), "{release}");
        }
    }
}
