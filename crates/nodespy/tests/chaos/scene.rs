//! A target, a nodespy beside it, and what happens to them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::group::Group;
use crate::health::{ask, comes_true};
use crate::plan::{Job, Round, Trouble};
use crate::run::{Started, nodespy, signal_if_alive};
use crate::scratch::Scratch;
use crate::workload::{Running, children_of, node, script};

/// Enough for Node, and soon too little for one that eats.
const MEMORY_LIMIT: u64 = 400 << 20;
/// Another Node of the machine may have the usual port.
pub(crate) const ANY_PORT: &str = "--inspect-port=0";
/// Where the target has Node when its root is to be unmounted.
const MOUNTED: &str = "/mnt";

/// Everything that one round needs.
pub(crate) struct Scene {
    round: Round,
    pub(crate) target: Running,
    /// Where the target answers; none for a program that is not Node.
    pub(crate) socket: Option<PathBuf>,
    /// Unmounted before the folder it is in is removed: fields are dropped in this order.
    disk: Option<Disk>,
    /// Where nodespy runs and writes.
    pub(crate) scratch: Scratch,
    group: Option<Group>,
}

impl Scene {
    /// Starts the target; or why that can't be done here.
    pub(crate) fn arrange(round: Round) -> Result<Self, String> {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path().join("tmp")).unwrap();
        let name = format!("nodespy-chaos-{}-{}", std::process::id(), round.seed);
        let group = match round.trouble {
            Trouble::OutOfMemory => Some(Group::with("memory", &name)),
            Trouble::Quota => Some(Group::with("cpu", &name)),
            Trouble::Freeze | Trouble::RemovedContainer => {
                Some(Group::of_second_version(None, &name))
            }
            _ => None,
        };
        let group = match group {
            Some(None) => return Err("there is no such control group here".to_owned()),
            Some(group) => group,
            None => None,
        };
        let disk = match round.trouble {
            Trouble::FullDisk | Trouble::DiskFills | Trouble::ReadOnlyDisk => {
                Some(Disk::mounted(&scratch.path().join("disk"))?)
            }
            _ => None,
        };
        let socket = scratch.path().join("socket");
        let target = start_target(round, &socket, &scratch, group.as_ref());
        Ok(Self {
            round,
            target,
            socket: (round.trouble != Trouble::ManyThreads).then_some(socket),
            scratch,
            disk,
            group,
        })
    }

    /// The process that is watched: inside a container it is not the one that was started.
    pub(crate) fn pid(&self) -> u32 {
        match self.round.trouble {
            Trouble::RemovedContainer => children_of(self.target.pid())
                .first()
                .copied()
                .unwrap_or_else(|| self.target.pid()),
            _ => self.target.pid(),
        }
    }

    /// Starts nodespy.
    pub(crate) fn start(&self, job: Job, folder: &Path) -> Started {
        let pid = self.pid().to_string();
        let mut words = job.words();
        let path = self.group.as_ref().map(Group::path).unwrap_or_default();
        match self.round.trouble {
            Trouble::RemovedContainer => words.extend(["--cgroup", &path]),
            Trouble::ManyThreads => words.extend(["--any", "-p", &pid]),
            _ => words.extend(["-p", &pid]),
        }
        let plain = nodespy(&words);
        let mut command = match self.round.trouble {
            Trouble::FewDescriptors => {
                let mut shell = Command::new("sh");
                shell.args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\""]);
                shell
                    .arg(plain.get_program())
                    .args(plain.get_args())
                    .env("NO_COLOR", "1");
                shell
            }
            _ => plain,
        };
        if self.round.trouble == Trouble::ClockSteps {
            let library = compiled(&self.scratch, "clock.c", &["-shared", "-fPIC"]);
            command.env("LD_PRELOAD", library);
        }
        command
            .current_dir(folder)
            .env("TMPDIR", self.scratch.path().join("tmp"));
        Started::new(command, "")
    }

    /// Where nodespy is to write.
    pub(crate) fn folder(&self) -> PathBuf {
        let disk = self.disk.as_ref().map(|disk| disk.folder.clone());
        disk.unwrap_or_else(|| self.scratch.path().join("out"))
    }

    /// Lets the trouble come, and go.
    pub(crate) fn strike(&mut self, started: &Started) {
        let pid = self.pid();
        let pause = || std::thread::sleep(self.round.lasting);
        match self.round.trouble {
            Trouble::Nothing
            | Trouble::FewDescriptors
            | Trouble::FullDisk
            | Trouble::ReadOnlyDisk
            | Trouble::ClockSteps
            | Trouble::TwoAtOnce
            | Trouble::ManyThreads => {}
            Trouble::DiskFills => {
                let disk = self.disk.as_ref();
                disk.expect("a disk was made for this round").fill();
            }
            Trouble::KillTarget => signal_if_alive(pid, "KILL"),
            Trouble::StopTarget => {
                signal_if_alive(pid, "STOP");
                pause();
                signal_if_alive(pid, "CONT");
            }
            Trouble::Exec => self.request("/exec"),
            Trouble::ForkStorm => self.request("/storm"),
            Trouble::WorkerStorm => self.request("/workers"),
            Trouble::ManyProcesses => self.request("/children"),
            Trouble::OutOfMemory => {
                self.request("/eat");
                let target = &mut self.target;
                assert!(
                    comes_true(|| !target.is_alive()),
                    "the kernel did not kill it"
                );
            }
            Trouble::Freeze => {
                self.group().freeze(true);
                pause();
                self.group().freeze(false);
            }
            Trouble::Quota => {
                self.group().limit_cpu(true);
                pause();
                self.group().limit_cpu(false);
            }
            Trouble::UnmountedRoot => {
                let status = Command::new("nsenter")
                    .args(["-t", &pid.to_string(), "-m", "umount", "-l", MOUNTED])
                    .status();
                assert!(status.unwrap().success(), "nothing was unmounted");
            }
            Trouble::RemovedContainer => {
                signal_if_alive(pid, "KILL");
                let target = &mut self.target;
                assert!(comes_true(|| !target.is_alive()), "it did not end");
                self.group().remove();
            }
            Trouble::KillNodespy => signal_if_alive(started.pid(), "KILL"),
            Trouble::StopNodespy => {
                signal_if_alive(started.pid(), "STOP");
                pause();
                signal_if_alive(started.pid(), "CONT");
            }
            Trouble::InterruptNodespy => signal_if_alive(started.pid(), "INT"),
            Trouble::InterruptTwice => {
                signal_if_alive(started.pid(), "INT");
                std::thread::sleep(Duration::from_millis(30));
                signal_if_alive(started.pid(), "INT");
            }
            Trouble::HangUp => signal_if_alive(started.pid(), "HUP"),
        }
    }

    fn group(&self) -> &Group {
        self.group
            .as_ref()
            .expect("a group was made for this round")
    }

    fn request(&self, path: &str) {
        let socket = self.socket.as_ref().expect("the target answers");
        // One that is killed while it answers has got the request.
        let _ = ask(socket, path);
    }
}

fn start_target(round: Round, socket: &Path, scratch: &Scratch, group: Option<&Group>) -> Running {
    let node = node(round.version).unwrap();
    let program = script("chaos.js");
    let mut command = match (round.trouble, group) {
        (Trouble::ManyThreads, _) => {
            let mut command = Command::new(compiled(scratch, "threads.c", &["-pthread"]));
            command.arg("2000");
            return Running::new(command);
        }
        (Trouble::UnmountedRoot, _) => {
            let mut command = Command::new("unshare");
            let line = "mount --bind \"$1\" \"$2\" && exec \"$2/node\" \"$3\" \"$4\"";
            let folder = Path::new(&node).parent().unwrap();
            command.args(["--mount", "sh", "-c", line, "sh"]);
            command.arg(folder).args([MOUNTED, ANY_PORT, &program]);
            command
        }
        (Trouble::RemovedContainer, Some(group)) => {
            let mut command = group.entering();
            command.args(["unshare", "--fork", "--pid", "--mount", "--kill-child"]);
            command.args(["--mount-proc", &node, ANY_PORT, &program]);
            command
        }
        (_, Some(group)) => {
            let mut command = group.entering();
            command.args([node.as_str(), ANY_PORT, &program]);
            command
        }
        (_, None) => {
            let mut command = Command::new(&node);
            command.args([ANY_PORT, &program]);
            command
        }
    };
    command.env("SOCKET", socket);
    let target = Running::new(command);
    if let (Trouble::OutOfMemory, Some(group)) = (round.trouble, group) {
        group.limit_memory(MEMORY_LIMIT);
    }
    target
}

/// A program or library made of a file of this folder.
pub(crate) fn compiled(scratch: &Scratch, name: &str, flags: &[&str]) -> String {
    let output = scratch.file(name.trim_end_matches(".c"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/chaos")
        .join(name);
    let status = Command::new("cc")
        .args(flags)
        .args(["-O1", "-o", &output])
        .arg(source)
        .status();
    assert!(status.unwrap().success(), "cc failed on {name}");
    output
}

/// A small file system, gone when dropped.
pub(crate) struct Disk {
    folder: PathBuf,
}

impl Disk {
    pub(crate) fn mounted(folder: &Path) -> Result<Self, String> {
        fs::create_dir(folder).unwrap();
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "nodespy-chaos"])
            .arg(folder)
            .status();
        match status {
            Ok(status) if status.success() => Ok(Self {
                folder: folder.to_owned(),
            }),
            _ => Err("nothing can be mounted here".to_owned()),
        }
    }

    /// To the last byte.
    pub(crate) fn fill(&self) {
        let full = fs::write(self.folder.join("filler"), vec![1; 1 << 20]);
        assert!(full.is_err(), "the disk is larger than it should be");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}

impl Scene {
    /// Makes the disk what the round needs from its start on.
    pub(crate) fn spoil_disk(&self) {
        let Some(disk) = &self.disk else { return };
        match self.round.trouble {
            Trouble::ReadOnlyDisk => {
                let status = Command::new("mount")
                    .args(["-o", "remount,ro"])
                    .arg(&disk.folder)
                    .status();
                assert!(status.unwrap().success(), "the disk stays writable");
            }
            Trouble::FullDisk => disk.fill(),
            _ => {}
        }
    }
}
