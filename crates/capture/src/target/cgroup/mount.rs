//! Where the trees of control groups are mounted, and which folder a group is there.

use std::path::{Path, PathBuf};

use crate::target::proc::read_text;

/// A mounted tree of control groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) folder: PathBuf,
    /// The group that is mounted there: `/`, unless only a part is.
    root: String,
    /// The controllers of the first version; none for the second.
    controllers: Option<String>,
}

impl Mount {
    /// Whether it is the tree that a line of `/proc/PID/cgroup` with these controllers is about, and
    /// may have `controller`: in the second version all controllers share one tree.
    pub(super) fn holds(&self, controllers: &str, controller: &str) -> bool {
        match &self.controllers {
            None => controllers.is_empty(),
            Some(own) => has(controllers, controller) && has(own, controller),
        }
    }

    /// Whether it is a tree of the first version with this controller.
    pub(super) fn is_first_version_with(&self, controller: &str) -> bool {
        self.controllers
            .as_deref()
            .is_some_and(|own| has(own, controller))
    }

    /// The folder of a group; none where its path leads out of what is mounted.
    pub(super) fn folder_of(&self, path: &str) -> Option<PathBuf> {
        self.below(path).map(|below| self.folder.join(below))
    }

    /// The folders of a group and of those above it.
    pub(super) fn folders_of(&self, path: &str) -> Vec<PathBuf> {
        let below = self.below(path).unwrap_or_default();
        below
            .ancestors()
            .take(32)
            .map(|part| self.folder.join(part))
            .collect()
    }

    fn below(&self, path: &str) -> Option<PathBuf> {
        let below = Path::new(path).strip_prefix(&self.root);
        // Inside a container the mount shows only the container's part of the tree.
        let below = below.unwrap_or_else(|_| Path::new(path));
        let below = below.strip_prefix("/").unwrap_or(below);
        let is_plain = !below.components().any(|part| part.as_os_str() == "..");
        is_plain.then(|| below.to_owned())
    }
}

fn has(list: &str, controller: &str) -> bool {
    list.split(',').any(|each| each == controller)
}

/// Where control groups are mounted.
pub(super) fn mounts() -> Vec<Mount> {
    let text = read_text(Path::new("/proc/self/mountinfo"), 4 << 20).unwrap_or_default();
    text.lines().filter_map(parse_mount).collect()
}

/// `35 30 0:31 / /sys/fs/cgroup/unified rw,… - cgroup2 cgroup2 rw`
pub(super) fn parse_mount(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ');
    let root = place.nth(3)?.to_owned();
    let folder = PathBuf::from(place.next()?);
    let mut kind = kind.split(' ');
    let controllers = match kind.next()? {
        "cgroup2" => None,
        "cgroup" => Some(kind.nth(1)?.to_owned()),
        _ => return None,
    };
    Some(Mount {
        folder,
        root,
        controllers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_and_those_above_it_are_looked_at() {
        let line =
            "35 30 0:31 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct";
        let mount = parse_mount(line).unwrap();
        assert!(mount.holds("cpu,cpuacct", "cpu"));
        assert!(!mount.holds("", "cpu"));
        let folders = mount.folders_of("/docker/abc");
        let expected = ["docker/abc", "docker", ""];
        let expected = expected.map(|part| Path::new("/sys/fs/cgroup/cpu").join(part));
        assert_eq!(folders, expected);
        let outside = mount.folders_of("/../../etc");
        assert_eq!(outside, [Path::new("/sys/fs/cgroup/cpu").join("")]);
        assert_eq!(mount.folder_of("/../../etc"), None);
    }
}
