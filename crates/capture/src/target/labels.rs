//! The labels of a live process: where it runs, as what, in which version.
//!
//! Taken when a process first appears, so a container that is removed later is still named. Of the
//! environment only what pm2 and the cluster put there is looked at.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use nodespy_model::{JsRuntime, Labels, UtcTime, label_key};

use super::app::{self, App};
use super::cgroup::{Cgroups, CpuUse};
use super::container::container_of;
use super::pm2::Management;
use super::proc;
use super::program::Program;
use crate::sys::files::{Links, open_below, open_folder};

/// Linux reports times of processes in hundredths of a second on every machine (USER_HZ).
const TICKS_PER_SECOND: u64 = 100;
/// The largest file of a checkout that is read.
const GIT_LIMIT_BYTES: u64 = 1 << 20;

/// The name under which a process is shown, and its labels.
pub(crate) fn name_and_labels(pid: u32, program: Option<&Program>) -> (String, Labels) {
    let management = Management::of(pid);
    let app = app::app_with(pid, management.pm2.as_ref());
    let mut labels = Labels::default();
    let mut name = match &management.pm2 {
        Some(pm2) if !management.is_module => pm2.name.clone(),
        _ => app.name.clone(),
    };
    labels.set(label_key::APP, &name);
    label_app(&mut labels, pid, &app);
    if let Some(pm2) = &management.pm2 {
        labels.set(label_key::PM2, &pm2.name);
        labels.set(label_key::PM2_ID, pm2.id.to_string());
    }
    if let Some(program) = program {
        match program.runtime {
            JsRuntime::Node => labels.set_if_any(label_key::NODE, program.node_version()),
            _ => labels.set(label_key::RUNTIME, program.title()),
        }
    }
    if let Some(worker) = management.worker {
        labels.set(label_key::WORKER, worker.to_string());
        name.push_str(&format!(" worker {worker}"));
    }
    if let Some(place) = label_place(&mut labels, pid) {
        name.push_str(&format!(" in {place}"));
    }
    labels.set_if_any(label_key::STARTED, started(pid));
    (name, labels)
}

fn label_app(labels: &mut Labels, pid: u32, app: &App) {
    labels.set_if_any(label_key::VERSION, app.version.as_deref());
    let Some(folder) = &app.folder else {
        return;
    };
    labels.set(label_key::FOLDER, folder.display().to_string());
    let commit = open_folder(&proc::path_of(pid, "root"))
        .ok()
        .and_then(|root| commit_of(&root, folder));
    labels.set_if_any(label_key::COMMIT, commit);
}

/// Labels the container and the limits of its control group; returns the container's name.
fn label_place(labels: &mut Labels, pid: u32) -> Option<String> {
    let inner_pid = proc::read_status(pid).map_or(pid, |status| status.inner_pid);
    if inner_pid != pid {
        labels.set(label_key::INNER_PID, inner_pid.to_string());
    }
    let groups = Cgroups::of(pid);
    if let Some(limit) = CpuUse::of(&groups) {
        labels.set(label_key::CPU_QUOTA, format!("{:.2}", limit.quota_cpus));
    }
    let container = container_of(&groups.container()?);
    labels.set(label_key::CONTAINER_ID, &container.id);
    labels.set_if_any(label_key::CONTAINER, container.name.as_deref());
    labels.set_if_any(label_key::IMAGE, container.image.as_deref());
    labels.set_if_any(label_key::POD, container.pod.as_deref());
    labels.set_if_any(label_key::NAMESPACE, container.namespace.as_deref());
    Some(container.title())
}

/// When a process started: `2026-11-15T09:31:00Z`.
fn started(pid: u32) -> Option<String> {
    let ticks = proc::start_time(pid)?;
    let stat = proc::read_text(Path::new("/proc/stat"), 16 << 20)?;
    let boot = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    let seconds = boot.trim().parse::<u64>().ok()? + ticks / TICKS_PER_SECOND;
    let time = UtcTime::of(seconds);
    Some(format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        time.year, time.month, time.day, time.hour, time.minute, time.second
    ))
}

/// The commit that is checked out in a folder or one above it, read as files inside the process's
/// own root: no git is run.
fn commit_of(root: &OwnedFd, folder: &Path) -> Option<String> {
    let read = |path: &Path| {
        let mut text = String::new();
        let file = open_below(root, path, Links::InRoot).ok()?;
        file.take(GIT_LIMIT_BYTES).read_to_string(&mut text).ok()?;
        Some(text)
    };
    folder.ancestors().take(4).find_map(|folder| {
        let git = folder.join(".git");
        let head = read(&git.join("HEAD"))?;
        let Some(name) = head.trim().strip_prefix("ref: ") else {
            return commit_in(&head);
        };
        // The name becomes part of a path; it can't lead out of the root, but need not wander in it.
        if name.contains("..") || !name.starts_with("refs/") {
            return None;
        }
        let loose = read(&git.join(name)).and_then(|text| commit_in(&text));
        loose.or_else(|| {
            let packed = read(&git.join("packed-refs"))?;
            let line = packed.lines().find(|line| line.ends_with(name))?;
            let (commit, found) = line.split_once(' ')?;
            (found == name).then(|| commit_in(commit)).flatten()
        })
    })
}

fn commit_in(text: &str) -> Option<String> {
    let text = text.trim();
    let is_commit =
        matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_commit_is_read_from_loose_and_packed_names() {
        let folder = std::env::temp_dir().join(format!("nodespy-git-{}", std::process::id()));
        let git = folder.join("app/.git");
        fs::create_dir_all(git.join("refs/heads")).unwrap();
        let commit = |text: &str| {
            fs::write(git.join("HEAD"), text).unwrap();
            commit_of(&open_folder(&folder).unwrap(), Path::new("/app/src"))
        };
        let id = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(commit(id).as_deref(), Some(id));
        let packed = format!("# pack-refs\n{id} refs/heads/main\n");
        fs::write(git.join("packed-refs"), packed).unwrap();
        assert_eq!(commit("ref: refs/heads/main\n").as_deref(), Some(id));
        fs::write(git.join("refs/heads/other"), format!("{id}\n")).unwrap();
        assert_eq!(commit("ref: refs/heads/other\n").as_deref(), Some(id));
        assert_eq!(commit("ref: refs/../../../etc/passwd\n"), None);
        assert_eq!(commit("not a commit"), None);
        // A link that leads out of the root leads nowhere.
        fs::remove_file(git.join("HEAD")).unwrap();
        std::os::unix::fs::symlink("/proc/version", git.join("HEAD")).unwrap();
        let root = open_folder(&folder).unwrap();
        assert_eq!(commit_of(&root, Path::new("/app")), None);
        let _ = fs::remove_dir_all(folder);
    }

    #[test]
    fn our_own_process_has_a_start() {
        let (name, labels) = name_and_labels(std::process::id(), None);
        assert!(!name.is_empty());
        let started = labels.get(label_key::STARTED).unwrap();
        assert!(
            started.starts_with("20") && started.ends_with('Z'),
            "{started}"
        );
    }
}
