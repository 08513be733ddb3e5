//! `nodespy top`: on a screen of 80 columns and 24 lines that tmux keeps, and as plain lines.

use std::process::Command;
use std::time::{Duration, Instant};

use nodespy_model::label_key;

use super::recorded::read;
use super::workload::{Running, Workload, children_of};
use super::{is_root, live};
use crate::run::{DEADLINE, run_nodespy, signal};
use crate::scratch::Scratch;
use crate::skip::skip;

/// What the shell prints when nodespy has ended and the terminal is as it was.
const RESTORED: &str = "terminal: icanon echo";

/// A terminal that runs one command; gone, with everything in it, when dropped.
struct Terminal {
    socket: String,
}

impl Terminal {
    /// Watches a process; none where there is no tmux.
    fn watching(target: &Running) -> Option<Self> {
        Self::watching_in(".", target)
    }

    /// The same, in a folder.
    fn watching_in(folder: &str, target: &Running) -> Option<Self> {
        Self::watching_with(folder, target, "")
    }

    /// The same, with an option.
    fn watching_with(folder: &str, target: &Running, option: &str) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            skip("there is no tmux");
            return None;
        }
        let terminal = Self {
            socket: format!("nodespy-it-{}{option}", target.pid()),
        };
        let command = format!(
            "'{}' top -p {} {option}; printf 'terminal:'; stty -a | tr ' ' '\\n' | tr -d ';' | \
             grep -xE -- '-?(icanon|echo)' | tr '\\n' ' ' | sed 's/^/ /'; sleep 300",
            env!("CARGO_BIN_EXE_nodespy"),
            target.pid()
        );
        terminal.tmux(&[
            "new-session",
            "-d",
            "-c",
            folder,
            "-x",
            "80",
            "-y",
            "24",
            &command,
        ]);
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux")
            .args(["-f", "/dev/null", "-L", &self.socket])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "tmux {arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn press(&self, keys: &[&str]) {
        let mut arguments = vec!["send-keys"];
        arguments.extend(keys);
        self.tmux(&arguments);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen is as it should be.
    #[track_caller]
    fn expect(&self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + DEADLINE;
        loop {
            let screen = self.screen();
            if is_there(&screen) {
                return screen;
            }
            assert!(Instant::now() < until, "never {what}:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// nodespy itself, the child of the shell in the terminal.
    fn nodespy(&self) -> u32 {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let children = children_of(shell.trim().parse().unwrap());
        assert_eq!(children.len(), 1, "{children:?}");
        children[0]
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux")
            .args(["-L", &self.socket, "kill-server"])
            .status();
    }
}

/// The functions on a screen, from the first row.
fn functions(screen: &str) -> Vec<&str> {
    screen
        .lines()
        .skip_while(|line| !line.contains("self   total  function"))
        .skip(1)
        .take_while(|line| !line.trim().is_empty())
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect()
}

/// Whether a line says what takes the samples: as root with the program.
fn says_engine(line: &str) -> bool {
    line.contains("eBPF") && line.contains("perf events, no eBPF") != is_root()
}

fn first_is(name: &str) -> impl Fn(&str) -> bool {
    move |screen| functions(screen).first() == Some(&name)
}

#[test]
fn the_hot_function_is_the_first_row_and_keys_work() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let Some(terminal) = Terminal::watching(&target) else {
        return;
    };
    // The first picture may be of a few samples.
    let screen = terminal.expect("both functions, the hot one on top", |screen| {
        first_is("seventyPercent")(screen) && functions(screen).contains(&"thirtyPercent")
    });
    let pid = format!("pid {}", target.pid());
    for text in [&pid, "split.js:9", "GC ", "lost", "main, tid", "q quit"] {
        assert!(screen.contains(text), "no {text:?} in\n{screen}");
    }
    assert!(
        says_engine(screen.lines().next().unwrap_or_default()),
        "{screen}"
    );

    terminal.press(&["/", "t", "h", "i", "r", "t", "y", "Enter"]);
    terminal.expect("filtered", |screen| functions(screen) == ["thirtyPercent"]);
    terminal.press(&["Escape"]);
    terminal.expect("unfiltered", first_is("seventyPercent"));
    terminal.press(&["n"]);
    terminal.expect("sorted by name", |screen| {
        let mut names = functions(screen);
        // A long C++ name is shown without its namespace, by which it is sorted.
        names.retain(|name| !name.starts_with('…'));
        names.len() > 3 && names.is_sorted()
    });
    terminal.press(&["s", "w"]);
    terminal.expect("since start", |screen| screen.contains("since start"));
    terminal.press(&["?"]);
    terminal.expect("help", |screen| screen.contains("hold the picture"));
    terminal.press(&["?", "Space"]);
    terminal.expect("paused", |screen| screen.contains("paused"));

    terminal.press(&["q"]);
    let screen = terminal.expect("restored", |screen| screen.contains(RESTORED));
    assert!(!screen.contains("nodespy top"), "{screen}");
}

#[test]
fn the_pool_is_in_the_head_of_the_screen() {
    let Some(_live) = live() else { return };
    let target = Workload::new("jobs.js").start();
    let Some(terminal) = Terminal::watching(&target) else {
        return;
    };
    terminal.expect("the pool", |screen| {
        let mut head = screen.lines().take(4);
        head.any(|line| {
            line.starts_with("libuv pool: 4 of 4 threads busy, 12 jobs wait: 12 fs.open")
        })
    });
    terminal.press(&["q"]);
    let outcome = run_nodespy(&["top", "-p", &target.pid_text(), "-d", "2", "--lines"]);
    let line = "libuv pool: 4 of 4 threads busy, 12 jobs wait";
    assert!(outcome.stdout.contains(line), "{outcome}");
}

#[test]
fn a_key_writes_what_was_seen_lately() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let scratch = Scratch::new();
    let folder = scratch.path().to_str().unwrap().to_owned();
    let Some(terminal) = Terminal::watching_in(&folder, &target) else {
        return;
    };
    terminal.expect("hot on top", first_is("seventyPercent"));
    terminal.press(&["r"]);
    terminal.expect("written", |screen| screen.contains("Wrote top-split.js-"));
    let name = format!("top-split.js-{}.nspy", target.pid());
    let recorded = read(&scratch.path().join(name));
    assert!(!recorded.samples.is_empty());
    let hot = recorded
        .functions
        .iter()
        .any(|function| recorded.strings.get(function.name) == "seventyPercent");
    assert!(hot, "seventyPercent is not in the file");
    terminal.press(&["q"]);
    terminal.expect("restored", |screen| screen.contains(RESTORED));
}

/// Of how many seconds a screen is.
fn seconds(screen: &str) -> Option<u32> {
    let (_, rest) = screen.split_once(" lost, last ")?;
    rest.split(' ').next()?.parse().ok()
}

/// Whether a file that `top` writes has samples with a route.
fn has_routes(server: &Running, option: &str) -> Option<bool> {
    let scratch = Scratch::new();
    let folder = scratch.path().to_str().unwrap().to_owned();
    let terminal = Terminal::watching_with(&folder, server, option)?;
    // Which objects are requests is learned from the first samples.
    terminal.expect("some seconds", |screen| seconds(screen) >= Some(5));
    terminal.press(&["r"]);
    terminal.expect("written", |screen| screen.contains("Wrote top-"));
    let name = scratch.names().into_iter().next().unwrap();
    let recorded = read(&scratch.path().join(name));
    assert!(!recorded.samples.is_empty());
    let mut contexts = recorded.contexts.iter();
    Some(contexts.any(|labels| labels.get(label_key::ROUTE).is_some()))
}

#[test]
fn routes_are_looked_for_unless_they_are_not_wanted() {
    let Some(_live) = live() else { return };
    if !is_root() {
        return skip("requests are read by an eBPF program, which needs root");
    }
    let server = Workload::new("routes/server.js").argument("http").start();
    let load = Workload::new("routes/load.js").argument(&server.ready);
    let _load = load.argument(120).start();
    let Some(by_default) = has_routes(&server, "") else {
        return;
    };
    assert!(by_default);
    assert_eq!(has_routes(&server, "--no-routes"), Some(false));
}

#[test]
fn another_size_is_drawn_anew() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let Some(terminal) = Terminal::watching(&target) else {
        return;
    };
    terminal.expect("hot on top", first_is("seventyPercent"));
    for (width, height) in [("120", "40"), ("44", "10"), ("80", "24")] {
        terminal.tmux(&["resize-window", "-x", width, "-y", height]);
        let height: usize = height.parse().unwrap();
        let screen = terminal.expect("of the new size", |screen| {
            let lines: Vec<&str> = screen.lines().collect();
            lines.len() == height
                && lines[height - 1].starts_with("q quit")
                && functions(screen)
                    .first()
                    .is_some_and(|name| name.starts_with("seventyP"))
        });
        let width: usize = width.parse().unwrap();
        let is_inside = screen.lines().all(|line| line.chars().count() <= width);
        assert!(is_inside, "{screen}");
        // The line number is what is kept when a place is too long.
        assert!(screen.contains("split.js:9") || width < 80, "{screen}");
    }
    terminal.press(&["C-c"]);
    terminal.expect("restored", |screen| screen.contains(RESTORED));
}

#[test]
fn a_signal_gives_the_terminal_back_and_the_end_of_the_target_is_told() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let Some(terminal) = Terminal::watching(&target) else {
        return;
    };
    terminal.expect("hot on top", first_is("seventyPercent"));
    let nodespy = terminal.nodespy();
    signal(target.pid(), "KILL");
    terminal.expect("ended", |screen| screen.contains("ended"));
    signal(nodespy, "TERM");
    let screen = terminal.expect("restored", |screen| screen.contains(RESTORED));
    assert!(!screen.contains("nodespy top"), "{screen}");
}

#[test]
fn without_a_terminal_tables_are_printed() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let outcome = run_nodespy(&["top", "-p", &target.pid_text(), "-F", "999", "-d", "4"]);
    outcome.expect_code(0);
    // One of them may be of a few samples, and the first of none.
    let tables = outcome.stdout.split("\n\n");
    let hot = tables.filter(|table| first_is("seventyPercent")(table));
    assert!(hot.count() >= 2, "{outcome}");
    let title = outcome.stdout.lines().next().unwrap_or_default();
    assert!(says_engine(title), "{outcome}");
    assert!(!outcome.stdout.contains('\x1b'), "{outcome}");
}

#[test]
fn by_route_a_program_without_requests_is_in_none() {
    let Some(_live) = live() else { return };
    let target = Workload::new("split.js").start();
    let pid = target.pid_text();
    let outcome = run_nodespy(&["top", "-p", &pid, "-d", "2", "--by", "route", "--no-async"]);
    outcome.expect_code(0);
    let mut lines = outcome.stdout.lines();
    assert!(
        lines.any(|line| line == "  share samples  route"),
        "{outcome}"
    );
    let row = lines.next().unwrap_or_default();
    assert!(row.starts_with(" 100.0%"), "{outcome}");
    assert!(row.ends_with("  (no request)"), "{outcome}");
    let outcome = run_nodespy(&["top", "-p", &pid, "-d", "2", "--route", "GET"]);
    outcome.expect_code(0);
    assert!(outcome.stdout.contains("0 samples at 99 Hz"), "{outcome}");
    assert!(!outcome.stdout.contains("seventyPercent"), "{outcome}");
}

#[test]
fn what_cannot_be_watched_is_said_before_the_screen_is_taken() {
    let Some(_live) = live() else { return };
    run_nodespy(&["top", "-p", "999999999"]).expect_code(4);
    run_nodespy(&["top"]).expect_code(2);
    let shell = super::errors::busy_shell();
    let outcome = run_nodespy(&["top", "-p", &shell.pid_text()]);
    outcome.expect_code(1).expect_stderr(&["--any"]);
}
