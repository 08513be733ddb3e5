//! The image of the Dockerfile, run as the manifests of `deploy/` run it.

use std::process::Command;

use super::engine::{Docker, PLAIN};
use crate::run::{Outcome, run};
use crate::workload::root;

pub(super) const TAG: &str = "nodespy-image:test";

/// Builds the image of the binary under test in the tests' own engine.
pub(super) fn build(engine: &Docker) {
    let mut command = Command::new(root().join("tools/image.sh"));
    command
        .args([env!("CARGO_BIN_EXE_nodespy"), TAG])
        .env("DOCKER_HOST", engine.host());
    run(command).expect_code(0);
}

/// Runs nodespy in a container of the image.
fn nodespy(engine: &Docker, options: &[&str], arguments: &[&str]) -> Outcome {
    let mut all = vec!["run", "--rm", "--network", "none", "--read-only"];
    all.extend(options);
    all.push(TAG);
    all.extend(arguments);
    engine.docker(&all)
}

#[test]
fn the_image_records_as_a_sidecar_and_for_the_whole_node() {
    let Some(engine) = Docker::start() else {
        return;
    };
    build(&engine);
    let web = engine.run("web", &["-u", "1000"], &PLAIN);
    let beside = [
        "--pid=container:web",
        "--user=1000:1000",
        "--cap-drop=ALL",
        "--security-opt=seccomp=unconfined",
    ];
    let arguments = ["record", "server.js", "-d", "2", "-o", "-"];
    let sidecar = nodespy(&engine, &beside, &arguments);
    sidecar.expect_code(0);
    assert!(sidecar.stdout.contains("priceCart"), "{sidecar}");
    // SYS_ADMIN stands for PERFMON and BPF, which the engine of Debian 12 does not know.
    let daemon = [
        "--pid=host",
        "--cap-drop=ALL",
        "--cap-add=SYS_ADMIN",
        "--cap-add=SYS_PTRACE",
        "--cap-add=DAC_READ_SEARCH",
        "--cap-add=SYSLOG",
        "--security-opt=seccomp=unconfined",
        "--volume=/sys/fs/cgroup:/sys/fs/cgroup:ro",
    ];
    let pid = web.pid.to_string();
    let arguments = ["record", "-p", &pid, "-d", "2", "-o", "-"];
    let node = nodespy(&engine, &daemon, &arguments);
    node.expect_code(0);
    assert!(node.stdout.contains("priceCart"), "{node}");
    let image = engine.docker(&["image", "rm", TAG]);
    image.expect_code(0);
}
