//! A pod as Kubernetes' containerd runs it: the runtime, its state files and the control groups are
//! real; what kubelet would ask for is asked by `ctr`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nodespy_model::label_key;

use super::engine::{PLAIN, expect_shop, wait_until};
use crate::recorded::record_with;
use crate::run::{Outcome, run, run_nodespy};
use crate::scratch::Scratch;
use crate::skip::skip;
use crate::workload::root;
use crate::{is_root, live};

/// Where containerd keeps what runs, and nodespy looks for it.
const STATE: &str = "/run/containerd";

/// The annotations that containerd's part for Kubernetes gives a container.
const ANNOTATIONS: [&str; 4] = [
    "io.kubernetes.cri.container-name=main",
    "io.kubernetes.cri.sandbox-name=api-7d9f-x2",
    "io.kubernetes.cri.sandbox-namespace=shop",
    "io.kubernetes.cri.image-name=registry/api:3",
];

/// A containerd with one container in it; both are gone when it is dropped.
struct Containerd {
    folder: PathBuf,
    child: Child,
    id: String,
}

impl Containerd {
    fn start() -> Self {
        // Short, as a socket is in it.
        let folder = std::env::temp_dir().join(format!("nspy-c-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let settings = "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n";
        fs::write(folder.join("config.toml"), settings).unwrap();
        let child = Command::new("containerd")
            .arg("--config")
            .arg(folder.join("config.toml"))
            .arg("--root")
            .arg(folder.join("root"))
            .args(["--state", STATE])
            .arg("--address")
            .arg(folder.join("c.sock"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let id = format!("{:064x}", (u64::from(std::process::id()) << 32) | 0xc0d);
        let engine = Self { folder, child, id };
        wait_until("containerd answers", || {
            engine.ctr(&["version"]).status.success()
        });
        engine
    }

    fn ctr(&self, arguments: &[&str]) -> Outcome {
        let mut command = Command::new("ctr");
        command
            .arg("--address")
            .arg(self.folder.join("c.sock"))
            .args(["--namespace", "k8s.io"])
            .args(arguments);
        run(command)
    }

    fn run(&self, rootfs: &Path) {
        let cgroup = format!(
            "/kubepods/burstable/pod4f1b7f6e-0d3c-4c7c-9b1a-2d6f5c0e9a11/{}",
            self.id
        );
        let mut all = vec!["run", "--detach", "--null-io", "--net-host", "--rootfs"];
        all.extend(["--cgroup", &cgroup]);
        for annotation in &ANNOTATIONS {
            all.extend(["--annotation", annotation]);
        }
        all.extend([rootfs.to_str().unwrap(), &self.id]);
        all.extend(PLAIN);
        self.ctr(&all).expect_code(0);
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        self.ctr(&["task", "rm", "--force", &self.id]);
        self.ctr(&["container", "rm", &self.id]);
        let _ = Command::new("sh")
            .args(["-c", &format!("kill {}", self.child.id())])
            .status();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
        // The groups above the container's, where no other process is in them.
        let line = "rmdir /sys/fs/cgroup/*/kubepods/burstable/pod* /sys/fs/cgroup/*/kubepods/burstable \
                    /sys/fs/cgroup/*/kubepods 2>/dev/null";
        let _ = Command::new("sh").args(["-c", line]).status();
    }
}

#[test]
fn a_pod_of_containerd_is_recorded_by_its_names() {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root can start containers here");
        return;
    }
    if Command::new("containerd")
        .arg("--version")
        .output()
        .is_err()
    {
        skip("there is no containerd (Debian's package containerd)");
        return;
    }
    if Path::new(STATE).join("containerd.sock").exists() {
        skip("this machine has a containerd of its own, which is left alone");
        return;
    }
    let packed = {
        let mut command = Command::new(root().join("tools/containers.sh"));
        command.arg("image");
        run(command)
    };
    packed.expect_code(0);
    let rootfs = Scratch::new();
    let mut unpack = Command::new("tar");
    unpack
        .arg("-xf")
        .arg(root().join("target/containers/image.tar"))
        .arg("-C")
        .arg(rootfs.path());
    run(unpack).expect_code(0);
    let engine = Containerd::start();
    engine.run(rootfs.path());
    wait_until("the pod in the list", || {
        run_nodespy(&[])
            .stdout
            .contains("\nshop/api-7d9f-x2:main (containerd ")
    });
    let recorded = record_with(&[
        "record",
        "--pod",
        "shop/api-7d9f-x2",
        "-d",
        "2",
        "-F",
        "499",
    ]);
    expect_shop(&recorded);
    let labels = &recorded.profile.processes[0].labels;
    for (key, value) in [
        (label_key::POD, "api-7d9f-x2"),
        (label_key::NAMESPACE, "shop"),
        (label_key::CONTAINER, "main"),
        (label_key::CONTAINER_ID, &engine.id),
        (label_key::IMAGE, "registry/api:3"),
        (label_key::INNER_PID, "1"),
    ] {
        assert_eq!(labels.get(key), Some(value), "{key}");
    }
}
