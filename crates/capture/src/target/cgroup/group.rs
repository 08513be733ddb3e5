//! A whole control group, for events that the kernel takes of everybody in it.
//!
//! Perf events go by one tree of control groups: the first version's with the controller
//! `perf_event` where that is mounted, else the second version's (Linux 6.18 with both mounted).

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use super::mount::{Mount, mounts};
use super::{Cgroups, Line};

/// The controller that perf events go by.
const CONTROLLER: &str = "perf_event";

/// Which group of those a process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Level<'a> {
    /// The one with this path, or none if the process is not in it.
    Path(&'a str),
    /// That of its container.
    Container,
    /// That of its pod.
    Pod,
}

/// A control group with those below it, held open.
#[derive(Debug)]
pub struct Group {
    folder: File,
    path: String,
}

impl Group {
    /// The group at `level` that every one of these processes is in; none where there is no such
    /// group, where it is the whole machine, or where it can't be opened.
    pub(crate) fn around(processes: &[Cgroups], level: &Level<'_>) -> Option<Self> {
        let mounts = mounts();
        let (first, others) = processes.split_first()?;
        let (mount, line) = tree_of(first, &mounts)?;
        let path = line.group_at(level)?;
        let is_inside =
            |groups: &Cgroups| tree_of(groups, &mounts).is_some_and(|(_, line)| line.is_in(&path));
        if path == "/" || !others.iter().all(is_inside) {
            return None;
        }
        let folder = File::open(mount.folder_of(&path)?).ok()?;
        Some(Self { folder, path })
    }

    /// Whether a process is in it now.
    pub(crate) fn holds_process(&self, pid: u32) -> bool {
        Cgroups::of(pid).is_in(&self.path)
    }

    /// Its path, as `/proc/PID/cgroup` has it.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

/// The tree that perf events go by, and where a process is in it.
fn tree_of<'a>(groups: &'a Cgroups, mounts: &'a [Mount]) -> Option<(&'a Mount, &'a Line)> {
    let has_first = mounts
        .iter()
        .any(|mount| mount.is_first_version_with(CONTROLLER));
    mounts.iter().find_map(|mount| {
        if has_first && !mount.is_first_version_with(CONTROLLER) {
            return None;
        }
        let mut lines = groups.lines.iter();
        let line = lines.find(|line| mount.holds(&line.controllers, CONTROLLER))?;
        Some((mount, line))
    })
}

impl Line {
    /// The path of the group at a level.
    fn group_at(&self, level: &Level<'_>) -> Option<String> {
        let end = match level {
            Level::Path(path) => return self.is_in(path).then(|| (*path).to_owned()),
            Level::Container => super::end_of_container(&self.path)?,
            Level::Pod => super::end_of_pod(&self.path)?,
        };
        Some(self.path.get(..end)?.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::cgroup::mount::parse_mount;

    const ID: &str = "3f2a90c1d4e5b6a7988776655443322110ffeeddccbbaa99887766554433221a";
    const SECOND: &str = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
    const FIRST: &str = "38 31 0:35 / /sys/fs/cgroup/perf rw - cgroup cgroup rw,perf_event";

    fn path_at(level: &Level<'_>, mounts: &[&str], groups: &str) -> Option<String> {
        let mounts: Vec<Mount> = mounts.iter().filter_map(|line| parse_mount(line)).collect();
        let groups = Cgroups::parse(groups);
        let (mount, line) = tree_of(&groups, &mounts)?;
        let folder = mount.folder_of(&line.group_at(level)?)?;
        Some(folder.display().to_string())
    }

    #[test]
    fn the_tree_with_the_controller_is_taken_on_both_versions() {
        let groups = format!("12:perf_event:/docker/{ID}\n11:cpu:/other\n0::/docker/{ID}/sub\n");
        let level = Level::Container;
        assert_eq!(
            path_at(&level, &[SECOND, FIRST], &groups),
            Some(format!("/sys/fs/cgroup/perf/docker/{ID}"))
        );
        assert_eq!(
            path_at(&level, &[SECOND], &groups),
            Some(format!("/sys/fs/cgroup/unified/docker/{ID}"))
        );
        // The engine made no group in the tree that counts: the machine's own is not taken for it.
        let elsewhere = format!("12:perf_event:/\n0::/docker/{ID}\n");
        assert_eq!(path_at(&level, &[SECOND, FIRST], &elsewhere), None);
    }

    #[test]
    fn a_group_is_that_of_the_container_the_pod_or_the_path() {
        let uid = "4f1b7f6e-0d3c-4c7c-9b1a-2d6f5c0e9a11";
        let groups = format!("0::/kubepods/burstable/pod{uid}/{ID}/worker\n");
        let at = |level: &Level<'_>| path_at(level, &[SECOND], &groups);
        let pod = format!("/sys/fs/cgroup/unified/kubepods/burstable/pod{uid}");
        assert_eq!(at(&Level::Container), Some(format!("{pod}/{ID}")));
        assert_eq!(at(&Level::Pod), Some(pod));
        let path = "/kubepods/burstable";
        let folder = "/sys/fs/cgroup/unified/kubepods/burstable";
        assert_eq!(at(&Level::Path(path)).as_deref(), Some(folder));
        assert_eq!(at(&Level::Path("/kubepods/burst")), None);
        let outside = "0::/../../docker/web\n";
        assert_eq!(path_at(&Level::Path("/.."), &[SECOND], outside), None);
    }
}
