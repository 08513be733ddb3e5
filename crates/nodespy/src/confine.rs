//! Confines commands that read files of others, before the first byte of one is read.
//!
//! With Landlock: files may be read, names are looked for all over the disk, but written only in the
//! folders of the outputs; nothing is executed, no TCP port bound or connected to, no other process
//! signalled or looked into. With seccomp: system calls that no reader makes are refused, sockets and
//! new programs among them. What the kernel does not have is left out, and `-v` reports it.
//!
//! Both bind the calling thread and those it starts later: there must be no others yet.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, sock_filter};

use crate::cli::ReadArgs;
use crate::privileges;

/// Set to anything, leaves out what this module does: for a path that only looks like one of this
/// process's own, and to find out whether a failure is the sandbox's.
const OFF: &str = "NODESPY_NO_SANDBOX";

/// `__X32_SYSCALL_BIT` of Linux.
const X32_BIT: u32 = 0x4000_0000;

/// The newest set of rights that was tested; older kernels enforce what they know of it.
const NEWEST: ABI = ABI::V6;

/// What a command may do after [`Self::apply`].
#[derive(Debug, Default)]
pub(crate) struct Confinement {
    /// Folders of outputs.
    write_folders: Vec<PathBuf>,
    /// Folders from which files are removed.
    remove_folders: Vec<PathBuf>,
    /// Folders from which empty folders are removed.
    parents_of_removed: Vec<PathBuf>,
    runs_programs: bool,
    connects: bool,
    /// A given path leads through another process: Landlock would not let it.
    reads_processes: bool,
}

impl Confinement {
    /// For a command that reads these files with these arguments.
    pub(crate) fn reading<'a>(
        inputs: impl IntoIterator<Item = &'a PathBuf>,
        arguments: &'a ReadArgs,
    ) -> Self {
        let given = [&arguments.map, &arguments.symbols, &arguments.source_maps];
        let mut paths = given
            .into_iter()
            .flatten()
            .chain(&arguments.root)
            .chain(&arguments.kallsyms)
            .chain(inputs);
        Self {
            reads_processes: paths.any(|path| leads_through_process(path)),
            ..Self::default()
        }
    }

    /// Lets files be written in the folders of outputs.
    pub(crate) fn writing(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        self.write_folders.extend(folders);
        self
    }

    /// Lets files be removed from a folder.
    pub(crate) fn removing_from(mut self, folder: PathBuf) -> Self {
        self.remove_folders.push(folder);
        self
    }

    /// Lets a folder be removed with the files in it. Landlock grants that by the folder it is in, so
    /// other empty folders there could be removed as well.
    pub(crate) fn removing_folder(mut self, folder: &Path) -> Self {
        self.remove_folders.push(folder.to_owned());
        self.parents_of_removed
            .extend(folder.parent().map(Path::to_owned));
        self
    }

    /// Lets programs be started; they are confined as well.
    pub(crate) fn running_programs(mut self, runs_programs: bool) -> Self {
        self.runs_programs = runs_programs;
        self
    }

    /// Lets it connect to others.
    pub(crate) fn connecting(mut self) -> Self {
        self.connects = true;
        self
    }

    /// Confines this thread and all it starts, for good.
    pub(crate) fn apply(self) {
        if std::env::var_os(OFF).is_some() {
            log::warn!("{OFF} is set: nothing keeps a hostile file from what nodespy may do");
            return;
        }
        privileges::no_new_privileges();
        if self.reads_processes {
            privileges::keep_for_files_of_processes();
            log::info!("Landlock is left out: a given path leads through another process");
        } else {
            privileges::keep_for_files();
            match self.restrict_files() {
                Ok(RulesetStatus::FullyEnforced) => log::debug!("Landlock confines this process"),
                Ok(RulesetStatus::PartiallyEnforced) => {
                    log::info!("Landlock confines this process as far as this kernel can");
                }
                Ok(RulesetStatus::NotEnforced) => log::info!("this kernel has no Landlock"),
                Err(error) => log::info!("Landlock is left out: {error:#}"),
            }
        }
        if let Err(error) = self.filter_calls() {
            log::info!("system calls are not filtered: {error}");
        }
    }

    fn restrict_files(&self) -> anyhow::Result<RulesetStatus> {
        let mut read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
        if self.runs_programs {
            read |= AccessFs::Execute;
        }
        let mut rules = Ruleset::default().handle_access(AccessFs::from_all(NEWEST))?;
        if !self.connects {
            rules = rules.handle_access(AccessNet::from_all(NEWEST))?;
        }
        let mut rules = rules
            .scope(Scope::from_all(NEWEST))?
            .create()?
            .add_rule(PathBeneath::new(PathFd::new("/")?, read))?;
        // A result is written beside its name and renamed.
        let write =
            AccessFs::MakeReg | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::RemoveFile;
        let remove: BitFlags<AccessFs> = AccessFs::RemoveFile.into();
        let folders = self.write_folders.iter().map(|folder| (folder, write));
        let removed = self.remove_folders.iter().map(|folder| (folder, remove));
        let remove_empty: BitFlags<AccessFs> = AccessFs::RemoveDir.into();
        let parents = self.parents_of_removed.iter();
        let parents = parents.map(|folder| (folder, remove_empty));
        for (folder, rights) in folders.chain(removed).chain(parents) {
            rules = rules.add_rule(PathBeneath::new(PathFd::new(folder)?, rights))?;
        }
        // What a program's output is thrown into.
        if self.runs_programs
            && let Ok(null) = PathFd::new("/dev/null")
        {
            rules = rules.add_rule(PathBeneath::new(null, AccessFs::WriteFile))?;
        }
        Ok(rules.restrict_self()?.ruleset)
    }

    fn filter_calls(&self) -> Result<(), seccompiler::Error> {
        let programs: &[libc::c_long] = match self.runs_programs {
            true => &[],
            false => &[libc::SYS_execve, libc::SYS_execveat],
        };
        let connections: &[libc::c_long] = match self.connects {
            true => &[],
            false => &[libc::SYS_socket, libc::SYS_connect, libc::SYS_bind],
        };
        let refused = REFUSED_CALLS.iter().chain(programs).chain(connections);
        let rules: BTreeMap<i64, _> = refused.map(|call| (*call, Vec::new())).collect();
        let filter = SeccompFilter::new(
            rules,
            SeccompAction::Allow,
            SeccompAction::Errno(libc::EPERM as u32),
            TargetArch::x86_64,
        )?;
        let mut program = refuse_x32().to_vec();
        program.extend(BpfProgram::try_from(filter)?);
        seccompiler::apply_filter(&program)
    }
}

/// Refuses what has the bit of the x32 ABI, by which most calls have a second number and some a third. The rest is up to
/// what follows.
fn refuse_x32() -> [sock_filter; 3] {
    let step = |code: u32, jump_if_less, value| sock_filter {
        code: code as u16,
        jt: 0,
        jf: jump_if_less,
        k: value,
    };
    [
        // The number of the call is the first field.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, X32_BIT),
        step(
            libc::BPF_RET | libc::BPF_K,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ),
    ]
}

/// `/proc/123/root/…`: the kernel follows it only for those who may look into that process.
fn leads_through_process(path: &Path) -> bool {
    let mut parts = path.components();
    let is_proc = parts.next() == Some(Component::RootDir)
        && parts.next() == Some(Component::Normal("proc".as_ref()));
    is_proc
        && parts.next().is_some_and(|part| {
            let name = part.as_os_str().as_encoded_bytes();
            !name.is_empty() && name.iter().all(u8::is_ascii_digit)
        })
}

/// Calls that read no file: other processes, the network, identities, mounts, the kernel itself, and
/// interfaces that let the rest be done past a filter.
const REFUSED_CALLS: &[libc::c_long] = &[
    libc::SYS_listen,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mknod,
    libc::SYS_mknodat,
    libc::SYS_open_by_handle_at,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File, OpenOptions};
    use std::process::{Command, Stdio};

    /// The folder that the confined copy of this test binary gets to work in.
    const FOLDER: &str = "NODESPY_TEST_CONFINED";

    fn is_refused<T>(done: std::io::Result<T>) -> bool {
        let refused = [libc::EACCES, libc::EPERM, libc::EXDEV].map(Some);
        done.is_err_and(|error| refused.contains(&error.raw_os_error()))
    }

    /// Runs the test that asks for it again, in a process of its own: what is confined stays so.
    fn in_child(test: &str, folder: &Path) {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(FOLDER, folder)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        let complaint = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "{said}{complaint}");
        assert!(said.contains("1 passed"), "{said}");
    }

    fn folder_of_child() -> Option<PathBuf> {
        std::env::var_os(FOLDER).map(PathBuf::from)
    }

    fn has_landlock() -> bool {
        Ruleset::default()
            .set_compatibility(landlock::CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(ABI::V1))
            .is_ok()
    }

    use landlock::Compatible;

    #[test]
    fn a_confined_process_writes_its_output_and_nothing_else() {
        let Some(folder) = folder_of_child() else {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("out")).unwrap();
            fs::write(folder.path().join("there"), "old").unwrap();
            let name = "confine::tests::a_confined_process_writes_its_output_and_nothing_else";
            in_child(name, folder.path());
            let kept = fs::read_to_string(folder.path().join("there")).unwrap();
            assert!(!has_landlock() || kept == "old");
            return;
        };
        let out = folder.join("out");
        Confinement::default().writing([out.clone()]).apply();
        // The output: beside its name, then renamed, and once more over the first.
        for _ in 0..2 {
            fs::write(out.join(".tmp"), "new").unwrap();
            fs::rename(out.join(".tmp"), out.join("file")).unwrap();
        }
        assert_eq!(fs::read_to_string(out.join("file")).unwrap(), "new");
        if has_landlock() {
            assert!(is_refused(File::create(folder.join("elsewhere"))));
            assert!(is_refused(
                OpenOptions::new().write(true).open(folder.join("there"))
            ));
            assert!(is_refused(fs::remove_file(folder.join("there"))));
            assert!(is_refused(fs::rename(
                out.join("file"),
                folder.join("file")
            )));
            assert!(is_refused(fs::create_dir(out.join("new"))));
            assert!(is_refused(std::os::unix::fs::symlink(
                "/",
                out.join("link")
            )));
            assert!(is_refused(File::open(format!(
                "/proc/{}/maps",
                std::os::unix::process::parent_id()
            ))));
        }
        // Files are read wherever they are.
        assert_eq!(fs::read_to_string(folder.join("there")).unwrap(), "old");
        assert!(!fs::read_to_string("/proc/self/maps").unwrap().is_empty());
        assert!(is_refused(Command::new("true").status()));
        assert!(is_refused(std::net::TcpListener::bind("127.0.0.1:0")));
        assert!(is_refused(std::net::UdpSocket::bind("127.0.0.1:0")));
        let written = std::thread::spawn(move || fs::write(folder.join("thread"), "")).join();
        assert!(!has_landlock() || is_refused(written.unwrap()));
    }

    #[test]
    fn a_folder_of_its_own_can_be_removed_and_no_other_file() {
        let Some(folder) = folder_of_child() else {
            let folder = tempfile::tempdir().unwrap();
            let scratch = folder.path().join("scratch");
            fs::create_dir(&scratch).unwrap();
            fs::write(scratch.join("run"), "").unwrap();
            fs::write(folder.path().join("kept"), "").unwrap();
            let name = "confine::tests::a_folder_of_its_own_can_be_removed_and_no_other_file";
            in_child(name, folder.path());
            assert!(!scratch.exists());
            return;
        };
        let scratch = folder.join("scratch");
        Confinement::default().removing_folder(&scratch).apply();
        if has_landlock() {
            assert!(is_refused(fs::remove_file(folder.join("kept"))));
            assert!(is_refused(File::create(scratch.join("new"))));
        }
        fs::remove_dir_all(&scratch).unwrap();
    }

    #[test]
    fn programs_run_where_they_are_asked_for() {
        let Some(folder) = folder_of_child() else {
            let folder = tempfile::tempdir().unwrap();
            let name = "confine::tests::programs_run_where_they_are_asked_for";
            return in_child(name, folder.path());
        };
        Confinement::default().running_programs(true).apply();
        let mut quiet = Command::new("true");
        quiet.stdout(Stdio::null()).stderr(Stdio::null());
        assert!(quiet.status().unwrap().success());
        let touched = Command::new("touch").arg(folder.join("file")).status();
        assert!(!has_landlock() || !touched.unwrap().success());
    }

    #[test]
    fn calls_of_the_x32_abi_are_refused() {
        if folder_of_child().is_none() {
            let folder = tempfile::tempdir().unwrap();
            let name = "confine::tests::calls_of_the_x32_abi_are_refused";
            return in_child(name, folder.path());
        }
        // 39 is getpid, 520 execve with pointers of 32 bits. Where the kernel has no x32, these do not exist.
        let script = "for my $call (39, 520) { syscall(0x40000000 | $call, 0, 0, 0) == -1 or exit 1; $! == 1 or exit 2; } \
            syscall(39) > 0 or exit 3;";
        let call = || Command::new("perl").args(["-e", script]).status();
        let Ok(before) = call() else { return };
        assert!(!before.success());
        Confinement::default().running_programs(true).apply();
        assert_eq!(call().unwrap().code(), Some(0));
    }

    #[test]
    fn a_path_through_another_process_is_known_by_its_name() {
        for (path, leads) in [
            ("/proc/123/root", true),
            ("/proc/123", true),
            ("/proc/self/fd/3", false),
            ("/proc/kallsyms", false),
            ("/process/123", false),
            ("proc/123/root", false),
        ] {
            assert_eq!(leads_through_process(Path::new(path)), leads, "{path}");
        }
    }
}
