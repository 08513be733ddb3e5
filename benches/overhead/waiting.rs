//! What watching a program costs that mostly waits: nodespy's own CPU time, and whether the program has more of it.
//!
//! Looks from outside for `-e wall`, and the flight recorder that waits for a stall, take turns on one process that gets
//! no requests. Each is measured once it has settled: what attaching takes is measured elsewhere.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::Failure;
use crate::load::{Load, Server};
use crate::options::Options;
use crate::profiler::interrupt_and_wait;
use crate::server::{load_average, output, scheduled};
use crate::statistics::Spread;

/// By then symbols are read, and threads that stand still are known to.
const SETTLING: Duration = Duration::from_secs(12);
const SLICE: Duration = Duration::from_secs(8);

/// What the program is watched by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watcher {
    None,
    Wall,
    Stalls,
}

impl Watcher {
    const ALL: [Self; 3] = [Self::None, Self::Wall, Self::Stalls];

    fn label(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Wall => "-e wall, 99 Hz",
            Self::Stalls => "--trigger stall",
        }
    }

    fn start(self, options: &Options, pid: u32) -> Result<Option<Child>, Failure> {
        let arguments: &[&str] = match self {
            Self::None => return Ok(None),
            Self::Wall => &["-e", "wall", "-F", "99"],
            Self::Stalls => &["--trigger", "stall>200ms"],
        };
        let mut command = Command::new(&options.nodespy);
        command.args(["record", "-q", "-p", &pid.to_string(), "-o"]);
        command.arg(output()).args(arguments);
        let silent = command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Some(silent.stderr(Stdio::null()).spawn()?))
    }
}

/// CPU time a second, in percent of a core.
struct Slice {
    own: f64,
    target: f64,
}

/// Measures every watcher in turn and prints a table.
pub(crate) fn measure(options: &Options, program: &Path) -> Result<(), Failure> {
    let server = Server::start(&options.node, program)?;
    // Requests start the threads of libuv's pool; then all is quiet.
    if let Some(load) = server.port.map(|port| Load::start(port, program)) {
        std::thread::sleep(Duration::from_secs(2));
        drop(load);
    }
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.pid()))?.count();
    println!(
        "program: pid {}, {threads} threads, idle; {} rounds of {} s, load {}",
        server.pid(),
        options.rounds,
        SLICE.as_secs(),
        load_average()
    );
    let mut slices: [Vec<Slice>; Watcher::ALL.len()] = Default::default();
    for round in 0..options.rounds {
        for step in 0..Watcher::ALL.len() {
            let at = (round + step) % Watcher::ALL.len();
            slices[at].push(measure_slice(options, Watcher::ALL[at], server.pid())?);
        }
    }
    println!(
        "  {:<17} {:>26} {:>26}",
        "", "own CPU, % of a core", "the program's"
    );
    for (watcher, slices) in Watcher::ALL.iter().zip(&slices) {
        let own = Spread::of(slices.iter().map(|slice| slice.own));
        let target = Spread::of(slices.iter().map(|slice| slice.target));
        let (own, target) = (own.to_string(), target.to_string());
        println!("  {:<17} {own:>26} {target:>26}", watcher.label());
    }
    Ok(())
}

fn measure_slice(options: &Options, watcher: Watcher, pid: u32) -> Result<Slice, Failure> {
    let watching = watcher.start(options, pid)?;
    std::thread::sleep(SETTLING);
    let own = || {
        watching
            .as_ref()
            .map_or(0.0, |child| scheduled(child.id()).cpu_us)
    };
    let (own_before, before) = (own(), scheduled(pid).cpu_us);
    std::thread::sleep(SLICE);
    let percent = |us: f64| us / SLICE.as_secs_f64() / 1e4;
    let slice = Slice {
        own: percent(own() - own_before),
        target: percent(scheduled(pid).cpu_us - before),
    };
    if let Some(child) = watching {
        interrupt_and_wait(&child);
    }
    let _ = std::fs::remove_file(output());
    Ok(slice)
}
