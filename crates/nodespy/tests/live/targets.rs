//! Targets by what people call them, without any container engine: names, ports, pm2's variables,
//! control groups, pods, namespaces, and users without rights.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use nodespy_model::label_key;

use super::control_group::ControlGroup;
use super::errors::run_as_nobody;
use super::recorded::{Recorded, record_with};
use super::workload::{Running, USUAL_NODE, Workload, children_of, node, script};
use super::{is_root, live};
use crate::run::{Started, nodespy, run_nodespy};
use crate::scratch::Scratch;
use crate::skip::skip;

/// A server of `workloads/shop` in a folder of its own, so that its name is only its own.
fn shop(folder: &Scratch, environment: &[(&str, &str)]) -> Running {
    let package = format!("{{\"name\":\"{}\",\"version\":\"3.2.1\"}}", app_name());
    fs::write(folder.file("package.json"), package).unwrap();
    let inside = folder.file("server.js");
    fs::copy(script("shop/server.js"), &inside).unwrap();
    let mut command = Command::new(node(USUAL_NODE).unwrap());
    command.arg(&inside).envs(environment.iter().copied());
    Running::new(command)
}

/// A package name that no other process on this machine has.
fn app_name() -> String {
    format!("shop-of-test-{}", std::process::id())
}

fn pids(recorded: &Recorded) -> Vec<u32> {
    let processes = recorded.profile.processes.iter();
    processes.map(|process| process.pid).collect()
}

#[test]
fn a_process_is_found_by_package_script_port_and_pid() {
    let Some(_live) = live() else { return };
    let folder = Scratch::new();
    let target = shop(&folder, &[]);
    let script = folder.file("server.js");
    for words in [
        &[app_name().as_str()][..],
        &[&script],
        &["--port", &target.ready],
        &[&target.pid_text()],
    ] {
        let mut all = vec!["record"];
        all.extend(words);
        all.extend(["-d", "0.5", "-F", "199"]);
        let recorded = record_with(&all);
        assert_eq!(pids(&recorded), [target.pid()], "{words:?}");
        let process = recorded.process(target.pid());
        assert_eq!(process.labels.get(label_key::VERSION), Some("3.2.1"));
        assert_eq!(process.labels.get(label_key::CONTAINER), None);
    }
}

#[test]
fn apps_of_pm2_are_told_from_the_environment_which_is_not_stored() {
    let Some(_live) = live() else { return };
    let folder = Scratch::new();
    let name = format!("pm2-{}", app_name());
    let settings = format!(
        "{{\"name\":\"{name}\",\"pm_id\":987654,\"exec_mode\":\"cluster_mode\",\"env\":{{\"TOKEN\":\"hush-hush\"}}}}"
    );
    let target = shop(
        &folder,
        &[
            ("pm2_env", &settings),
            ("NODE_UNIQUE_ID_OF_TEST", "7"),
            ("TOKEN", "hush-hush"),
        ],
    );
    for app in [name.as_str(), "987654"] {
        let recorded = record_with(&["record", "--pm2", app, "-d", "0.5", "-F", "199"]);
        assert_eq!(pids(&recorded), [target.pid()]);
        let labels = &recorded.process(target.pid()).labels;
        assert_eq!(labels.get(label_key::PM2), Some(&*name));
        assert_eq!(recorded.profile.about.app, name);
        let everything = format!("{:?}", recorded.profile);
        assert!(!everything.contains("hush-hush"), "{everything}");
    }
}

#[test]
fn workers_of_a_cluster_go_by_their_numbers() {
    let Some(_live) = live() else { return };
    let target = Workload::new("cluster.js").start();
    let recorded = super::recorded::record(&target, &["-d", "2", "-F", "199"]);
    let mut workers: Vec<&str> = recorded
        .profile
        .processes
        .iter()
        .filter_map(|process| process.labels.get(label_key::WORKER))
        .collect();
    workers.sort_unstable();
    assert_eq!(workers, ["1", "2", "3"], "{}", recorded.describe());
}

#[test]
fn processes_in_namespaces_without_an_engine_are_listed_and_recorded() {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root can make the namespaces");
        return;
    }
    let folder = Scratch::for_other_users();
    folder.copy_program(node(USUAL_NODE).unwrap(), "node");
    fs::copy(script("split.js"), folder.file("split.js")).unwrap();
    // As containers nest: two pid namespaces below the machine's, with a /tmp of their own.
    let mut command = Command::new("unshare");
    command
        .args(["--fork", "--pid", "--mount", "--kill-child", "--mount-proc"])
        .args(["sh", "-c"])
        .arg(
            "mount --bind \"$0\" /mnt && mount -t tmpfs none /tmp && cd /tmp && \
             exec unshare --fork --pid --mount --kill-child --mount-proc \"$@\"",
        )
        .arg(folder.path())
        .arg("/mnt/node")
        .args(super::workload::PERF_MAP_FLAGS)
        .arg("/mnt/split.js");
    let outer = Running::new(command);
    let mut pid = outer.pid();
    while let [child] = children_of(pid)[..] {
        pid = child;
    }
    let text = pid.to_string();
    let recorded = record_with(&["record", &text, "-d", "1", "-F", "499", "--names", "map"]);
    let process = recorded.process(pid);
    assert_eq!(process.labels.get(label_key::INNER_PID), Some("1"));
    let both = recorded.self_share("seventyPercent") + recorded.self_share("thirtyPercent");
    assert!(both > 0.85, "{}", recorded.describe());
    let list = run_nodespy(&[]);
    assert!(list.stdout.contains("\npid namespace "), "{list}");
}

/// A folder that is removed with everything in it.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The group and the file are what containerd makes for a pod (seen with a real one, containerd
/// 1.6.20); the process in it is an ordinary one.
#[test]
fn a_pod_is_found_by_the_names_in_the_files_of_containerd() {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root can make control groups");
        return;
    }
    let folder = Scratch::new();
    let target = shop(&folder, &[]);
    let id = format!("{:064x}", u64::from(std::process::id()) << 32 | 0xa11);
    let path = format!("/kubepods/burstable/pod4f1b7f6e-0d3c-4c7c-9b1a-2d6f5c0e9a11/{id}");
    let Some(_group) = ControlGroup::holding(&path, target.pid()) else {
        skip("no control groups of the second version can be made here");
        return;
    };
    let state = format!("/run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}");
    fs::create_dir_all(&state).unwrap();
    let _state = Removed(PathBuf::from(&state));
    let config = "{\"annotations\":{\"io.kubernetes.cri.container-name\":\"main\",\
        \"io.kubernetes.cri.sandbox-name\":\"api-7d9f\",\"io.kubernetes.cri.sandbox-namespace\":\"shop\",\
        \"io.kubernetes.cri.image-name\":\"api:3\"}}";
    fs::write(format!("{state}/config.json"), config).unwrap();
    for pod in [
        "api-7d9f",
        "shop/api-7d9f",
        "shop/api-7d9f:main",
        "shop/api-7",
    ] {
        let recorded = record_with(&["record", "--pod", pod, "-d", "0.5", "-F", "199"]);
        assert_eq!(pids(&recorded), [target.pid()], "{pod}");
        let labels = &recorded.process(target.pid()).labels;
        assert_eq!(labels.get(label_key::POD), Some("api-7d9f"));
        assert_eq!(labels.get(label_key::NAMESPACE), Some("shop"));
        assert_eq!(labels.get(label_key::CONTAINER), Some("main"));
        assert_eq!(labels.get(label_key::IMAGE), Some("api:3"));
    }
    for pod in ["other", "other/api-7d9f", "shop/api-7d9f:side"] {
        let outcome = run_nodespy(&["record", "--pod", pod, "-d", "1", "-o", "-"]);
        outcome
            .expect_code(4)
            .expect_stderr(&["shop/api-7d9f:main"]);
    }
    // By its control group too, as `/proc` tells it.
    let recorded = record_with(&["record", "--cgroup", &path, "-d", "0.5", "-F", "199"]);
    assert_eq!(pids(&recorded), [target.pid()]);
}

#[test]
fn a_user_without_rights_is_told_what_is_missing() {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root can become another user");
        return;
    }
    let target = Workload::new("split.js").start();
    let scratch = Scratch::for_other_users();
    let checked = run_as_nobody(&scratch, &["check", "-p", &target.pid_text()]);
    checked.expect_code(3);
    for words in [
        "sudo setcap cap_perfmon,cap_bpf,cap_sys_ptrace,cap_dac_read_search,cap_syslog,cap_ipc_lock+ep",
        "kernel.perf_event_paranoid is",
        "belongs to uid 0",
        "neither perf events nor the inspector",
    ] {
        assert!(checked.stdout.contains(words), "no {words:?} in {checked}");
    }
    let listed = run_as_nobody(&scratch, &["--json"]);
    let list: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let rows = list["processes"].as_array().unwrap();
    let row = rows.iter().find(|row| row["pid"] == target.pid()).unwrap();
    assert_eq!(row["permitted"], false, "{row}");
    assert!(row["refused"].as_str().unwrap().contains("setcap"), "{row}");
    let everything = run_as_nobody(&scratch, &["record", "-a", "-d", "1", "-o", "-"]);
    assert!(!everything.status.success(), "{everything}");
    assert!(!everything.stderr.contains("panicked"), "{everything}");
}

#[test]
fn a_watched_list_goes_on_until_interrupted() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let watching = Started::new(nodespy(&["--watch", "--json"]), "");
    watching.wait_for_lines(2);
    watching.signal("INT");
    let outcome = watching.finish();
    outcome.expect_code(0);
    let lists: Vec<&str> = outcome.stdout.lines().collect();
    assert!(lists.len() >= 2, "{outcome}");
    assert!(lists[1].contains(&target.pid_text()), "{outcome}");
}
