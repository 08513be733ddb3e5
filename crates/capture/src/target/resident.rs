//! Who runs on this machine: a process with its application, its container and who manages it.
//!
//! Everything here is cheap: no binary is searched and no CPU is measured.

use std::os::unix::fs::MetadataExt;

use super::app::{self, App};
use super::cgroup::Cgroups;
use super::container::{Container, container_of};
use super::pm2::{Management, Pm2App, is_pm2_itself};
use super::{find, proc};

/// A process and what people call it.
#[derive(Debug, Clone, PartialEq)]
pub struct Resident {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since boot: with the pid, its identity.
    pub start_time: u64,
    /// Its effective user.
    pub uid: u32,
    /// Its parent.
    pub parent_pid: u32,
    /// Its number inside its container.
    pub inner_pid: u32,
    /// How many threads it has.
    pub threads: u32,
    /// Package name or script.
    pub app: String,
    /// The script.
    pub script: Option<String>,
    /// The app of pm2 it is.
    pub pm2: Option<Pm2App>,
    /// Its number among the workers of a cluster, from 1.
    pub worker: Option<u32>,
    /// Whether it is pm2 itself: the daemon, a command, a helper or a module.
    pub is_pm2_itself: bool,
    /// The container it is in.
    pub container: Option<Container>,
    /// Its pid namespace, when that is not nodespy's own.
    pub pid_namespace: Option<u64>,
}

impl Resident {
    /// What is known of process `pid`; none when it is gone.
    pub fn of(pid: u32) -> Option<Self> {
        let status = proc::read_status(pid)?;
        let start_time = proc::start_time(pid)?;
        if status.is_zombie {
            return None;
        }
        let management = Management::of(pid);
        let App { name, script, .. } = app::app_with(pid, management.pm2.as_ref());
        let is_pm2_itself =
            management.is_module || is_pm2_itself(&proc::command_line(pid), script.as_deref());
        Some(Self {
            pid,
            start_time,
            uid: status.uid,
            parent_pid: status.parent_pid,
            inner_pid: status.inner_pid,
            threads: status.threads,
            app: name,
            script,
            pm2: management.pm2,
            worker: management.worker,
            is_pm2_itself,
            container: Cgroups::of(pid).container().as_ref().map(container_of),
            pid_namespace: foreign_namespace(pid),
        })
    }

    /// The name people know it by: pm2's for it, else its package or script.
    pub fn name(&self) -> &str {
        match &self.pm2 {
            Some(app) if !self.is_pm2_itself => &app.name,
            _ => &self.app,
        }
    }

    /// Where it is: a container, or another pid namespace without a known one.
    pub fn place(&self) -> Option<String> {
        match (&self.container, self.pid_namespace) {
            (Some(container), _) => Some(container.title()),
            (None, Some(namespace)) => Some(format!("pid namespace {namespace}")),
            (None, None) => None,
        }
    }

    /// Whether it goes by `text`: script, package or app of pm2.
    pub fn is_called(&self, text: &str) -> bool {
        let script = self.script.as_deref().unwrap_or_default();
        let file = script.rsplit('/').next().unwrap_or(script);
        let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
        self.name() == text
            || self.app == text
            || (!text.is_empty() && [script, file, stem].contains(&text))
    }

    /// What makes several processes one application: the same container, name and script.
    pub(crate) fn family(&self) -> (Option<&str>, Option<u64>, &str, Option<&str>) {
        let container = self.container.as_ref().map(|each| each.id.as_str());
        let namespace = match container {
            Some(_) => None,
            None => self.pid_namespace,
        };
        (container, namespace, self.name(), self.script.as_deref())
    }
}

/// Every Node process of this machine, or every process at all.
pub fn residents(any: bool) -> Vec<Resident> {
    proc::processes()
        .into_iter()
        .filter(|&pid| pid != std::process::id() && (any || find::looks_like_node(pid)))
        .filter_map(Resident::of)
        .collect()
}

fn foreign_namespace(pid: u32) -> Option<u64> {
    let inode = |pid: u32| {
        let path = proc::path_of(pid, "ns/pid");
        std::fs::metadata(path)
            .ok()
            .map(|namespace| namespace.ino())
    };
    inode(pid).filter(|found| inode(std::process::id()) != Some(*found))
}
