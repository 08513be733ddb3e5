//! podman with runc, as a second engine: no daemon, other control groups, other state files.

use std::process::Command;

use nodespy_model::label_key;

use super::engine::{PLAIN, expect_shop, wait_until};
use crate::recorded::record_with;
use crate::run::{Outcome, run};
use crate::scratch::Scratch;
use crate::skip::skip;
use crate::workload::root;
use crate::{is_root, live};

/// podman with everything it keeps in one folder.
struct Podman {
    folder: Scratch,
}

impl Podman {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("podman");
        let place = |name: &str| self.folder.file(name);
        command
            .env("CONTAINERS_CONF", place("containers.conf"))
            .args(["--runtime", "/usr/sbin/runc"])
            .args(["--root", &place("root"), "--runroot", &place("run")])
            .args(["--tmpdir", &place("tmp"), "--cgroup-manager", "cgroupfs"])
            .args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        run(self.command(arguments))
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = self.command(&["rm", "-f", "-t", "0", "--all"]).output();
        let _ = self.command(&["rmi", "--all", "--force"]).output();
        // What podman mounts below its folder would keep the folder from going.
        let place = self.folder.path().to_str().unwrap();
        let line = "awk -v a=\"$1/\" 'index($5, a) == 1 { print $5 }' /proc/self/mountinfo | sort -r | \
                    xargs -r umount -l";
        let _ = Command::new("sh").args(["-c", line, "sh", place]).output();
    }
}

#[test]
fn a_container_of_podman_is_recorded_by_its_name() {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root can start containers here");
        return;
    }
    if Command::new("podman").arg("--version").output().is_err() {
        skip("there is no podman");
        return;
    }
    let podman = Podman {
        folder: Scratch::for_other_users(),
    };
    // Where root may not raise limits, podman's own wish for more is refused.
    let limits = "[containers]\ndefault_ulimits = [\"nofile=20000:20000\",\"nproc=20000:20000\"]\n";
    std::fs::write(podman.folder.file("containers.conf"), limits).unwrap();
    let image = root().join("target/containers/image.tar");
    let packed = run({
        let mut command = Command::new(root().join("tools/containers.sh"));
        command.arg("image");
        command
    });
    packed.expect_code(0);
    podman
        .run(&["import", image.to_str().unwrap(), "shop"])
        .expect_code(0);
    let mut all = vec![
        "run",
        "-d",
        "--name",
        "pod-web",
        "--network=none",
        "localhost/shop",
    ];
    all.extend(PLAIN);
    podman.run(&all).expect_code(0);
    wait_until("the server in podman", || {
        podman.run(&["logs", "pod-web"]).stdout.contains("ready")
    });
    let recorded = record_with(&["record", "-c", "pod-web", "-d", "1", "-F", "499"]);
    expect_shop(&recorded);
    let labels = &recorded.profile.processes[0].labels;
    assert_eq!(labels.get(label_key::CONTAINER), Some("pod-web"));
    assert_eq!(labels.get(label_key::INNER_PID), Some("1"));
}
