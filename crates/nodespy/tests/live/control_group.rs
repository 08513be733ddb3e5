//! A control group for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A control group of the second version, emptied and removed when dropped.
pub(super) struct ControlGroup {
    mount: PathBuf,
    folder: PathBuf,
    pid: u32,
}

impl ControlGroup {
    /// Makes it and puts a process into it; none where that is not possible.
    pub(super) fn holding(path: &str, pid: u32) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
        let mount = PathBuf::from(line.split(' ').nth(4)?);
        let folder = mount.join(path.trim_start_matches('/'));
        fs::create_dir_all(&folder).ok()?;
        let group = Self { mount, folder, pid };
        fs::write(group.folder.join("cgroup.procs"), pid.to_string()).ok()?;
        Some(group)
    }

    /// A shell that enters it and then becomes the command whose words are added to it.
    pub(super) fn entering(&self) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo $$ >\"$0/cgroup.procs\" && exec \"$@\""])
            .arg(&self.folder);
        command
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = fs::write(self.mount.join("cgroup.procs"), self.pid.to_string());
        let mut folder: &Path = &self.folder;
        while folder != self.mount && fs::remove_dir(folder).is_ok() {
            folder = folder.parent().unwrap();
        }
    }
}
