//! Where a process is in the kernel's tree of control groups: whose container that is, and what CPU
//! it may use there.
//!
//! The forms of the paths were seen on real engines where they could be (Docker, podman, runc,
//! containerd with a CRI pod, lxc on Linux 6.18) and made with mkdir where not; `tests` has them all.

mod cpu;
mod group;
mod mount;

use std::path::Path;

use nodespy_model::SmallSort;

use super::proc;

pub use cpu::{CpuUse, Throttling};
pub use group::Group;
pub(crate) use group::Level;

/// How many letters the ids of container engines have.
const ID_LETTERS: usize = 64;

/// What runs a container, as far as its control group shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Runtime {
    /// Docker.
    Docker,
    /// podman.
    Podman,
    /// containerd, mostly under Kubernetes.
    Containerd,
    /// CRI-O.
    CriO,
    /// LXC or LXD.
    Lxc,
    /// systemd-nspawn.
    Nspawn,
    /// Something whose name is not in the path.
    Unknown,
}

impl Runtime {
    /// The word shown for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Containerd => "containerd",
            Self::CriO => "cri-o",
            Self::Lxc => "lxc",
            Self::Nspawn => "nspawn",
            Self::Unknown => "container",
        }
    }
}

/// The container a control group belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerMark {
    /// What runs it.
    pub runtime: Runtime,
    /// Its id, or its name where the runtime has no ids.
    pub id: String,
    /// The uid of its pod.
    pub pod_uid: Option<String>,
}

/// The control groups of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cgroups {
    lines: Vec<Line>,
}

/// A line of `/proc/PID/cgroup`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// The controllers of the first version; empty for the second.
    controllers: String,
    path: String,
}

impl Cgroups {
    /// The control groups of process `pid`.
    pub fn of(pid: u32) -> Self {
        proc::read_text(&proc::path_of(pid, "cgroup"), 64 << 10)
            .map(|text| Self::parse(&text))
            .unwrap_or_default()
    }

    fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let mut fields = line.splitn(3, ':');
            let _hierarchy = fields.next()?;
            Some(Line {
                controllers: fields.next()?.to_owned(),
                path: fields.next()?.to_owned(),
            })
        };
        Self {
            lines: text.lines().take(64).filter_map(line).collect(),
        }
    }

    /// The path that says most: the second version's, unless the process is in its root, then
    /// systemd's, then any.
    pub fn path(&self) -> Option<&str> {
        self.by_worth().first().map(|line| line.path.as_str())
    }

    /// The container the process is in.
    pub fn container(&self) -> Option<ContainerMark> {
        self.by_worth().iter().find_map(|line| mark(&line.path))
    }

    /// Whether the process is in the control group `path` or in one below it.
    pub fn is_in(&self, path: &str) -> bool {
        self.lines.iter().any(|line| line.is_in(path))
    }

    fn by_worth(&self) -> Vec<&Line> {
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        lines.small_sort_by_key(|line| match line.controllers.as_str() {
            _ if line.path == "/" => 3,
            "" => 0,
            "name=systemd" => 1,
            _ => 2,
        });
        lines
    }
}

impl Line {
    fn is_in(&self, path: &str) -> bool {
        Path::new(&self.path).starts_with(path)
    }
}

/// The path of a control group as `/proc/PID/cgroup` has it, for one that may be given as a folder
/// of the mounted tree.
pub(super) fn without_mount(path: &str) -> String {
    let mounts = mount::mounts();
    let below = mounts
        .iter()
        .filter_map(|mount| Path::new(path).strip_prefix(&mount.folder).ok())
        .min_by_key(|rest| rest.as_os_str().len());
    let rest = below.map_or_else(
        || path.trim_start_matches('/').to_owned(),
        |rest| rest.display().to_string(),
    );
    format!("/{}", rest.trim_end_matches('/'))
}

/// The container that the last part of a path that has an id names: engines nest, the innermost counts.
fn mark(path: &str) -> Option<ContainerMark> {
    last_mark(path).map(|(mark, _)| mark)
}

/// Where the part of a path that names the container ends.
fn end_of_container(path: &str) -> Option<usize> {
    last_mark(path).map(|(_, end)| end)
}

/// Where the part of a path that names the pod ends.
fn end_of_pod(path: &str) -> Option<usize> {
    let parts = parts(path);
    let mut from_last = parts.iter().rev();
    from_last.find_map(|(part, end)| pod_uid(part).map(|_| *end))
}

fn last_mark(path: &str) -> Option<(ContainerMark, usize)> {
    let parts = parts(path);
    let pod_uid = parts.iter().rev().find_map(|(part, _)| pod_uid(part));
    let numbered = parts.iter().enumerate().rev();
    let mut marks = numbered.filter_map(|(position, (part, end))| {
        let parent = position.checked_sub(1).map_or("", |above| parts[above].0);
        let (runtime, id) =
            engine_mark(part, parent, pod_uid.is_some()).or_else(|| machine_mark(part, parent))?;
        let mark = ContainerMark {
            runtime,
            id: id.to_owned(),
            pod_uid: pod_uid.clone(),
        };
        Some((mark, *end))
    });
    marks.next()
}

/// The parts of a path, each with the place where it ends.
fn parts(path: &str) -> Vec<(&str, usize)> {
    let mut end = 0;
    let ending = |part| {
        let start = end;
        end = start + str::len(part) + 1;
        (part, end - 1)
    };
    path.split('/').map(ending).collect()
}

/// `docker-<id>.scope`, `<id>` below `docker`, and the like.
fn engine_mark<'a>(part: &'a str, parent: &str, is_pod: bool) -> Option<(Runtime, &'a str)> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let at = part.len().checked_sub(ID_LETTERS)?;
    if !part.is_char_boundary(at) {
        return None;
    }
    let (prefix, id) = part.split_at(at);
    if !id
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    {
        return None;
    }
    let runtime = match prefix.strip_suffix('-') {
        Some("docker") => Runtime::Docker,
        Some("libpod") => Runtime::Podman,
        Some("cri-containerd") => Runtime::Containerd,
        Some("crio") => Runtime::CriO,
        // conmon watches over a container; it is not in it.
        Some("libpod-conmon" | "crio-conmon") => return None,
        Some(_) => Runtime::Unknown,
        None if !prefix.is_empty() => return None,
        None if parent == "docker" => Runtime::Docker,
        None if is_pod => Runtime::Containerd,
        None => Runtime::Unknown,
    };
    Some((runtime, id))
}

/// Containers that have names instead of ids.
fn machine_mark<'a>(part: &'a str, parent: &'a str) -> Option<(Runtime, &'a str)> {
    let named = |name: &'a str, runtime| (!name.is_empty()).then_some((runtime, name));
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return named(name, Runtime::Lxc);
    }
    if parent == "lxc" {
        return named(part, Runtime::Lxc);
    }
    if let Some(name) = part.strip_prefix("systemd-nspawn@") {
        return named(name.strip_suffix(".service")?, Runtime::Nspawn);
    }
    if let Some(name) = part.strip_prefix("machine-") {
        return named(name.strip_suffix(".scope")?, Runtime::Nspawn);
    }
    None
}

/// `pod4f1b7f6e-0d3c-…`, with dashes or, below systemd's slices, with underscores; static pods have
/// 32 letters without any.
fn pod_uid(part: &str) -> Option<String> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let uid = part.rsplit_once("pod")?.1.replace('_', "-");
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let lengths: Vec<usize> = uid.split('-').map(str::len).collect();
    let is_uid = lengths == [8, 4, 4, 4, 12] || lengths == [32];
    (is_uid && uid.split('-').all(is_hex)).then_some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3f2a90c1d4e5b6a7988776655443322110ffeeddccbbaa99887766554433221a";
    const OTHER: &str = "aaaabbbbccccddddeeeeffff0000111122223333444455556666777788889999";
    const UID: &str = "4f1b7f6e-0d3c-4c7c-9b1a-2d6f5c0e9a11";

    /// Every form of path that is known, the container it means, and its pod's uid.
    #[test]
    fn every_engine_is_known_by_its_paths() {
        let under = UID.replace('-', "_");
        let slices = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod";
        let user = "/user.slice/user-1000.slice/user@1000.service/user.slice";
        let table = [
            // path, runtime, has a pod
            (format!("/docker/{ID}"), Runtime::Docker, false),
            (
                format!("/system.slice/docker-{ID}.scope"),
                Runtime::Docker,
                false,
            ),
            (
                format!("/libpod_parent/libpod-{ID}"),
                Runtime::Podman,
                false,
            ),
            (
                format!("/machine.slice/libpod-{ID}.scope/container"),
                Runtime::Podman,
                false,
            ),
            (
                format!("{user}/libpod-{ID}.scope/container"),
                Runtime::Podman,
                false,
            ),
            (format!("/{ID}"), Runtime::Unknown, false),
            (
                format!("/kubepods/burstable/pod{UID}/{ID}"),
                Runtime::Containerd,
                true,
            ),
            (
                format!("/kubepods/pod{UID}/{ID}"),
                Runtime::Containerd,
                true,
            ),
            (
                format!("{slices}{under}.slice/cri-containerd-{ID}.scope"),
                Runtime::Containerd,
                true,
            ),
            (
                format!("{slices}{under}.slice/crio-{ID}.scope"),
                Runtime::CriO,
                true,
            ),
            (
                format!("/kubepods/besteffort/pod{UID}/crio-{ID}"),
                Runtime::CriO,
                true,
            ),
            (
                format!("{slices}{under}.slice/docker-{ID}.scope"),
                Runtime::Docker,
                true,
            ),
            (
                format!("/docker/{OTHER}/kubelet/kubepods/burstable/pod{UID}/{ID}"),
                Runtime::Containerd,
                true,
            ),
            (
                format!("/../../kubepods/pod{UID}/{ID}"),
                Runtime::Containerd,
                true,
            ),
        ];
        for (path, runtime, has_pod) in table {
            let found = mark(&path).unwrap_or_else(|| panic!("no container in {path}"));
            assert_eq!(found.id, ID, "{path}");
            assert_eq!(found.runtime, runtime, "{path}");
            assert_eq!(found.pod_uid.as_deref(), has_pod.then_some(UID), "{path}");
        }
    }

    #[test]
    fn containers_with_names_are_known_by_them() {
        let table = [
            ("/lxc.payload.web", Runtime::Lxc, "web"),
            ("/lxc/web/init.scope", Runtime::Lxc, "web"),
            (
                "/machine.slice/systemd-nspawn@web.service/payload",
                Runtime::Nspawn,
                "web",
            ),
            ("/machine.slice/machine-web.scope", Runtime::Nspawn, "web"),
        ];
        for (path, runtime, name) in table {
            let found = mark(path).unwrap_or_else(|| panic!("no container in {path}"));
            assert_eq!((found.runtime, found.id.as_str()), (runtime, name));
        }
    }

    #[test]
    fn paths_without_a_container_have_none() {
        let conmon = format!("/machine.slice/libpod-conmon-{ID}.scope");
        let longer = format!("/docker/f{ID}");
        let upper = format!("/docker/{}", ID.to_uppercase());
        let paths = [
            "/",
            "",
            "/user.slice/user-1000.slice/session-1.scope",
            "/system.slice/my-app.service",
            "/default/ctrweb",
            "/docker/3f2a90c1",
            "/ééééééééééééééééééééééééééééééééééééé",
            &conmon,
            &longer,
            &upper,
        ];
        for path in paths {
            assert_eq!(mark(path), None, "{path}");
        }
    }

    #[test]
    fn the_second_version_counts_unless_it_is_the_root() {
        let hybrid =
            format!("12:cpu,cpuacct:/docker/{ID}\n1:name=systemd:/docker/{ID}\n0::/docker/{ID}\n");
        let groups = Cgroups::parse(&hybrid);
        assert_eq!(groups.container().unwrap().id, ID);
        let only_first = format!("4:memory:/\n12:cpu,cpuacct:/docker/{ID}\n0::/\n");
        let groups = Cgroups::parse(&only_first);
        assert_eq!(groups.container().unwrap().id, ID);
        assert_eq!(groups.path(), Some(&*format!("/docker/{ID}")));
        assert!(groups.is_in("/docker"));
        assert!(groups.is_in(&format!("/docker/{ID}/")));
        assert!(!groups.is_in("/dock"));
        assert_eq!(Cgroups::parse("rubbish\n::\n").container(), None);
    }
}
