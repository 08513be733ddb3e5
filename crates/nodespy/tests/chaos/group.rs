//! A control group of either version, for one round.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A control group, removed when dropped; whatever is in it must have ended or left by then.
pub(crate) struct Group {
    folder: PathBuf,
    is_second_version: bool,
}

impl Group {
    /// A group that `controller` is in force for: `memory` or `cpu`. None where that can't be had.
    pub(crate) fn with(controller: &str, name: &str) -> Option<Self> {
        Self::of_second_version(Some(controller), name)
            .or_else(|| Self::of_first_version(controller, name))
    }

    /// A group of the second version; with a controller, where it has that.
    pub(crate) fn of_second_version(controller: Option<&str>, name: &str) -> Option<Self> {
        let mount = mount_of(|line| line.contains(" - cgroup2 "))?;
        if let Some(controller) = controller {
            let has = fs::read_to_string(mount.join("cgroup.controllers")).ok()?;
            has.split_whitespace().find(|has| *has == controller)?;
            fs::write(
                mount.join("cgroup.subtree_control"),
                format!("+{controller}"),
            )
            .ok()?;
        }
        Self::made(mount.join(name), true)
    }

    fn of_first_version(controller: &str, name: &str) -> Option<Self> {
        let is_it = |line: &str| {
            line.contains(" - cgroup ")
                && line
                    .rsplit(' ')
                    .next()
                    .is_some_and(|options| options.split(',').any(|option| option == controller))
        };
        Self::made(mount_of(is_it)?.join(name), false)
    }

    fn made(folder: PathBuf, is_second_version: bool) -> Option<Self> {
        fs::create_dir_all(&folder).ok()?;
        Some(Self {
            folder,
            is_second_version,
        })
    }

    /// Its path below the mount, as `--cgroup` takes it.
    pub(crate) fn path(&self) -> String {
        let name = self.folder.file_name().unwrap();
        format!("/{}", name.to_str().unwrap())
    }

    /// A shell that enters it and then becomes the command whose words are added to it.
    pub(crate) fn entering(&self) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo $$ >\"$0/cgroup.procs\" && exec \"$@\""])
            .arg(&self.folder);
        command
    }

    pub(crate) fn limit_memory(&self, bytes: u64) {
        self.write("memory.max", "memory.limit_in_bytes", &bytes.to_string());
    }

    /// A twentieth of a core, or all it wants.
    pub(crate) fn limit_cpu(&self, is_limited: bool) {
        match (self.is_second_version, is_limited) {
            (true, true) => self.write("cpu.max", "", "5000 100000"),
            (true, false) => self.write("cpu.max", "", "max"),
            (false, true) => self.write("", "cpu.cfs_quota_us", "5000"),
            (false, false) => self.write("", "cpu.cfs_quota_us", "-1"),
        }
    }

    pub(crate) fn freeze(&self, is_frozen: bool) {
        let value = if is_frozen { "1" } else { "0" };
        self.write("cgroup.freeze", "", value);
    }

    fn write(&self, second: &str, first: &str, value: &str) {
        let file = if self.is_second_version {
            second
        } else {
            first
        };
        let path = self.folder.join(file);
        fs::write(&path, value).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Removes it as soon as it is empty.
    pub(crate) fn remove(&self) {
        for _ in 0..200 {
            if fs::remove_dir(&self.folder).is_ok() || !self.folder.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Where a hierarchy is mounted.
fn mount_of(is_it: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts.lines().find(|line| is_it(line))?;
    Some(Path::new(line.split(' ').nth(4)?).to_owned())
}
