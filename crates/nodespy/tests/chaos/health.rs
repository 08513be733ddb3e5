//! How a target is, before and after.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// The least of so many answers: a busy machine only adds.
const ASKED: u32 = 12;
/// Longer than anything a program does after nodespy has gone takes.
const SETTLING: Duration = Duration::from_secs(60);

/// What can be seen of a process from outside and must come back to what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Health {
    /// Kinds of open descriptors and how many: numbers in their names are left out.
    descriptors: Vec<String>,
    threads: usize,
    /// TCP sockets that listen.
    listeners: usize,
    /// Threads that are stopped or traced.
    stopped: usize,
    tracer: String,
}

impl Health {
    pub(crate) fn of(pid: u32) -> Self {
        let tasks = names_in(&format!("/proc/{pid}/task"));
        let stopped = tasks.iter().filter(|tid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat"));
            stat.is_ok_and(|stat| {
                let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
                state.starts_with(['T', 't'])
            })
        });
        let mut links = links_of(pid);
        links
            .iter_mut()
            .for_each(|link| link.retain(|letter| !letter.is_ascii_digit()));
        links.sort();
        Self {
            stopped: stopped.count(),
            descriptors: links,
            threads: tasks.len(),
            listeners: listeners(pid),
            tracer: status(pid, "TracerPid"),
        }
    }

    /// Waits until the process is as it was; else what it stays unlike `self` in. Another program in
    /// the same process has descriptors and threads of its own.
    pub(crate) fn expect_again(&self, pid: u32, is_same_program: bool) -> Result<(), String> {
        let until = Instant::now() + SETTLING;
        loop {
            let mut now = Self::of(pid);
            if !is_same_program {
                now.descriptors.clone_from(&self.descriptors);
                now.threads = self.threads;
            }
            if now == *self {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(self.difference(&now));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn difference(&self, now: &Self) -> String {
        let missing_in = |one: &Self, other: &Self| {
            let mut left = other.descriptors.clone();
            let mut missing = Vec::new();
            for link in &one.descriptors {
                match left.iter().position(|other| other == link) {
                    Some(at) => drop(left.swap_remove(at)),
                    None => missing.push(link.clone()),
                }
            }
            missing
        };
        format!(
            "the target changed: threads {} to {}, listeners {} to {}, stopped threads {} to {}, tracer {} to {}, \
             descriptors gone {:?}, new {:?}",
            self.threads,
            now.threads,
            self.listeners,
            now.listeners,
            self.stopped,
            now.stopped,
            self.tracer,
            now.tracer,
            missing_in(self, now),
            missing_in(now, self),
        )
    }
}

/// Requests a path of the server on a unix socket; how long the answer took.
pub(crate) fn ask(socket: &Path, path: &str) -> Result<Duration, String> {
    let since = Instant::now();
    let answer = || -> std::io::Result<String> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    match answer() {
        Ok(text) if text.ends_with("pong") => Ok(since.elapsed()),
        Ok(text) => Err(format!("the target answered {text:?}")),
        Err(error) => Err(format!("the target does not answer: {error}")),
    }
}

/// The shortest of several answers.
pub(crate) fn latency(socket: &Path) -> Result<Duration, String> {
    let mut least = Duration::MAX;
    for _ in 0..ASKED {
        least = least.min(ask(socket, "/")?);
    }
    Ok(least)
}

/// Processes that nodespy started for a target and that are still there.
pub(crate) fn companions_of(pid: u32) -> usize {
    let target = pid.to_string();
    let is_companion = |own: &String| {
        let line = fs::read(format!("/proc/{own}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.any(|word| word == b"close-abandoned")
            && words.next().is_some_and(|word| word == target.as_bytes())
    };
    let pids = names_in("/proc");
    pids.iter().filter(|own| is_companion(own)).count()
}

/// Waits until something is so; whether it came to be.
pub(crate) fn comes_true(mut is_so: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + SETTLING;
    while !is_so() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Children of a process that have ended and that it did not wait for.
pub(crate) fn zombies_of(pid: u32) -> usize {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let is_zombie = |pid: &str| {
        pid.parse()
            .is_ok_and(|pid| status(pid, "State").starts_with('Z'))
    };
    let children = children.unwrap_or_default();
    children
        .split_whitespace()
        .filter(|pid| is_zombie(pid))
        .count()
}

fn status(pid: u32, key: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = text.lines();
    lines
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn names_in(folder: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect()
}

fn links_of(pid: u32) -> Vec<String> {
    let folder = format!("/proc/{pid}/fd");
    names_in(&folder)
        .iter()
        .filter_map(|name| fs::read_link(format!("{folder}/{name}")).ok())
        .map(|link| link.to_string_lossy().into_owned())
        .collect()
}

fn listeners(pid: u32) -> usize {
    let own = links_of(pid);
    let rows = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    rows.lines()
        .map(|row| row.split_whitespace().collect::<Vec<_>>())
        .filter(|row| row.len() > 9 && row[3] == "0A")
        .filter(|row| own.contains(&format!("socket:[{}]", row[9])))
        .count()
}
