//! A container engine for all tests of a process, and the containers in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::at_exit::at_exit;
use crate::recorded::{Recorded, read};
use crate::run::{DEADLINE, Outcome, Started, nodespy, run};
use crate::scratch::Scratch;
use crate::skip::skip;
use crate::workload::root;
use crate::{Live, is_root, live};

/// The image that `tools/containers.sh` makes.
pub(super) const IMAGE: &str = "nodespy-test";

/// Node's command line in a container, without any flag.
pub(super) const PLAIN: [&str; 2] = ["/usr/bin/node", "/app/server.js"];

/// The same with a perf map.
pub(super) const WITH_MAP: [&str; 5] = [
    "/usr/bin/node",
    "--perf-basic-prof",
    // A perf map does not tell what was put into a function.
    "--no-turbo-inlining",
    "--interpreted-frames-native-stack",
    "/app/server.js",
];

/// The Docker engine of this test process, with no container in it. Held by one test at a time, which
/// leaves none behind.
pub(super) struct Docker {
    folder: &'static Path,
    _live: Live,
}

impl Docker {
    /// Takes the engine, starting it for the first test; none where the test is skipped.
    pub(super) fn start() -> Option<Self> {
        static FOLDER: OnceLock<PathBuf> = OnceLock::new();
        let live = live()?;
        if !is_root() {
            skip("only root can start a container engine");
            return None;
        }
        if Command::new("dockerd").arg("--version").output().is_err() {
            skip("there is no dockerd (Debian's package docker.io)");
            return None;
        }
        Some(Self {
            folder: FOLDER.get_or_init(start_engine),
            _live: live,
        })
    }

    /// Where it listens.
    pub(super) fn host(&self) -> String {
        format!("unix://{}", self.socket())
    }

    /// The path of its socket.
    pub(super) fn socket(&self) -> String {
        format!("{}/docker.sock", self.folder.display())
    }

    /// Runs the engine's own command.
    #[track_caller]
    pub(super) fn docker(&self, arguments: &[&str]) -> Outcome {
        let mut command = Command::new("docker");
        command.args(arguments).env("DOCKER_HOST", self.host());
        run(command)
    }

    /// Starts a container without a network but its own loopback, and waits until it is ready.
    #[track_caller]
    pub(super) fn run(&self, name: &str, options: &[&str], command: &[&str]) -> Container<'_> {
        let mut all = vec!["run", "-d", "--name", name, "--network", "none"];
        all.extend(options);
        all.push(IMAGE);
        all.extend(command);
        let outcome = self.docker(&all);
        outcome.expect_code(0);
        let id = outcome.stdout.trim().to_owned();
        let container = Container {
            engine: self,
            name: name.to_owned(),
            pid: self.pid_of(&id),
            id,
        };
        container.wait_for_log("ready");
        container
    }

    fn pid_of(&self, id: &str) -> u32 {
        let outcome = self.docker(&["inspect", "-f", "{{.State.Pid}}", id]);
        outcome.expect_code(0);
        outcome.stdout.trim().parse().unwrap()
    }

    /// nodespy, asking this engine.
    pub(super) fn nodespy(&self, arguments: &[&str]) -> Command {
        let mut command = nodespy(arguments);
        command.env("DOCKER_HOST", self.host());
        command
    }

    /// Runs nodespy to its end.
    pub(super) fn run_nodespy(&self, arguments: &[&str]) -> Outcome {
        run(self.nodespy(arguments))
    }

    /// Records and reads the profile back.
    #[track_caller]
    pub(super) fn record(&self, arguments: &[&str]) -> Recorded {
        self.start_recording(arguments).finish()
    }

    /// Starts to record; waits until it is under way.
    pub(super) fn start_recording(&self, arguments: &[&str]) -> Recording {
        let scratch = Scratch::new();
        let output = scratch.file("out.nspy");
        let mut all = vec!["record", "-F", "499", "-o", &output];
        all.extend(arguments);
        let started = Started::new(self.nodespy(&all), "");
        started.wait_until_it_says("Recording ");
        Recording { started, scratch }
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        let listed = self.docker(&["ps", "-aq"]);
        let mut remove = vec!["rm", "-f"];
        remove.extend(listed.stdout.split_whitespace());
        if remove.len() > 2 {
            let outcome = self.docker(&remove);
            if !std::thread::panicking() {
                outcome.expect_code(0);
            }
        }
    }
}

/// Starts the engine, which ends with this process. Returns its folder.
fn start_engine() -> PathBuf {
    // Short, as a socket is in it.
    let folder = std::env::temp_dir().join(format!("nspy-{}", std::process::id()));
    let script = root().join("tools/containers.sh");
    let mut up = Command::new(&script);
    up.arg("up").arg(&folder);
    run(up).expect_code(0);
    let words = [&script, &folder].map(|path| path.to_str().unwrap());
    at_exit("\"$0\" down \"$1\"", &words);
    folder
}

/// A recording that goes on.
pub(super) struct Recording {
    started: Started,
    scratch: Scratch,
}

impl Recording {
    /// Ends it now and reads the profile back.
    #[track_caller]
    pub(super) fn interrupt(self) -> Recorded {
        self.started.signal("INT");
        self.finish()
    }

    /// Waits for its end and reads the profile back.
    #[track_caller]
    pub(super) fn finish(self) -> Recorded {
        let outcome = self.started.finish();
        outcome.expect_code(0);
        eprintln!("{}", outcome.stdout);
        let profile = read(&self.scratch.path().join("out.nspy"));
        Recorded { profile, outcome }
    }
}

/// A running container.
pub(super) struct Container<'a> {
    engine: &'a Docker,
    pub(super) name: String,
    pub(super) id: String,
    /// Its first process, as this machine counts.
    pub(super) pid: u32,
}

impl Container<'_> {
    /// Waits until its output has a word.
    #[track_caller]
    pub(super) fn wait_for_log(&self, word: &str) {
        wait_until(&format!("{word:?} in the output of {}", self.name), || {
            let logs = self.engine.docker(&["logs", &self.name]);
            logs.stdout.contains(word) || logs.stderr.contains(word)
        });
    }

    /// Runs a shell command inside.
    #[track_caller]
    pub(super) fn shell(&self, line: &str) -> Outcome {
        let outcome = self
            .engine
            .docker(&["exec", "-u", "0", &self.name, "sh", "-c", line]);
        outcome.expect_code(0);
        outcome
    }

    /// Starts a command inside and does not wait for it.
    #[track_caller]
    pub(super) fn exec_detached(&self, command: &[&str]) {
        let mut all = vec!["exec", "-d", &self.name];
        all.extend(command);
        self.engine.docker(&all).expect_code(0);
    }
}

/// Waits until something is so.
#[track_caller]
pub(super) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Fails the test unless nearly everything is in `priceCart`, by name and place.
#[track_caller]
pub(super) fn expect_shop(recorded: &Recorded) {
    let share = recorded.self_share("priceCart");
    assert!(share > 0.8, "{share}\n{}", recorded.describe());
    expect_callers(recorded);
}

/// Fails the test unless nearly everything is under `sellCarts`, by name and place.
#[track_caller]
pub(super) fn expect_callers(recorded: &Recorded) {
    let share = recorded.total_share("sellCarts");
    assert!(share > 0.8, "{share}\n{}", recorded.describe());
    let place = recorded
        .weights()
        .iter()
        .find(|entry| recorded.profile.name_of(entry.function) == "sellCarts")
        .map(|entry| recorded.profile.file_of(entry.function).to_owned());
    assert_eq!(place.as_deref(), Some("/app/server.js"));
    // The native frames are those of the container's node, not of the machine's at the same path.
    let native = recorded.total_share("node::SpinEventLoopInternal");
    assert!(native > 0.8, "{native}\n{}", recorded.describe());
}
