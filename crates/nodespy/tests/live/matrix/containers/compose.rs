//! `deploy/compose.yaml`, brought up by Docker Compose in the tests' own engine.

use std::net::TcpListener;
use std::process::Command;

use serde_json::Value;

use super::engine::{Docker, PLAIN, wait_until};
use super::image::{self, TAG};
use crate::run::{Outcome, run};
use crate::scratch::Scratch;
use crate::skip::skip;
use crate::workload::root;

/// A project of Compose, taken down with its volume when dropped.
struct Project<'a> {
    engine: &'a Docker,
    file: String,
}

impl Project<'_> {
    fn compose(&self, arguments: &[&str]) -> Outcome {
        let mut command = Command::new("docker-compose");
        command
            .args(["-p", "nodespy-test", "-f", &self.file])
            .args(arguments)
            .env("DOCKER_HOST", self.engine.host());
        run(command)
    }
}

impl Drop for Project<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.compose(&["logs", "--no-color"]));
        }
        let down = self.compose(&["down", "--volumes"]);
        if !std::thread::panicking() {
            down.expect_code(0);
        }
    }
}

/// The file with the image, the engine and the port of the test.
fn adapted(engine: &Docker, port: u16) -> String {
    let text = std::fs::read_to_string(root().join("deploy/compose.yaml")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let mut adapted = text;
    for (shipped, here) in [
        (format!("nodespy:{version}"), TAG.to_owned()),
        // The engine of Debian 12 does not know these three.
        ("PERFMON, BPF".to_owned(), "SYS_ADMIN".to_owned()),
        ("CHECKPOINT_RESTORE, ".to_owned(), String::new()),
        (
            "- /run/docker.sock".to_owned(),
            format!("- {}", engine.socket()),
        ),
        ("127.0.0.1:4600\"".to_owned(), format!("127.0.0.1:{port}\"")),
        // A machine without AppArmor refuses to be told of it.
        ("      - apparmor:unconfined\n".to_owned(), String::new()),
    ] {
        assert!(adapted.contains(&shipped), "{shipped}\n{adapted}");
        adapted = adapted.replace(&shipped, &here);
    }
    adapted
}

#[test]
fn compose_runs_an_agent_and_the_page_of_its_store() {
    let Some(engine) = Docker::start() else {
        return;
    };
    if Command::new("docker-compose")
        .arg("version")
        .output()
        .is_err()
    {
        return skip("there is no docker-compose (Debian's package of that name)");
    }
    image::build(&engine);
    let _web = engine.run("web", &["-u", "1000"], &PLAIN);
    let scratch = Scratch::new();
    // Free now; the page of the test takes it in a moment.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let file = scratch.file("compose.yaml");
    std::fs::write(&file, adapted(&engine, port)).unwrap();
    let project = Project {
        engine: &engine,
        file,
    };
    project.compose(&["up", "-d"]).expect_code(0);
    let url = |route: &str| format!("http://127.0.0.1:{port}{route}");
    let ask = |route: &str| {
        let mut command = Command::new("curl");
        command.args(["-sf", &url(route)]);
        run(command).stdout
    };
    // By its name, which only the engine's socket tells.
    let is_web = |services: &str| {
        let services: Value = serde_json::from_str(services).unwrap_or_default();
        services.to_string().contains("\"container\":\"web\"")
    };
    wait_until("the container web in the store", || {
        is_web(&ask("/api/v1/services"))
    });
    let folded = ask("/api/v1/profile?service=nodespy-shop&format=folded");
    assert!(folded.contains("priceCart"), "{folded}");
    drop(project);
    engine.docker(&["image", "rm", TAG]).expect_code(0);
}
