//! A profiler attached to the target: starting it, ending it, and what it cost itself.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nodespy_model::{Contents, Profile, Sample};

use crate::Failure;
use crate::options::Options;

/// What the target is watched by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    None,
    /// nodespy, attached and sampling nothing.
    Placebo,
    /// nodespy as it is used: JavaScript is named by reading V8's heap.
    Nodespy,
    /// nodespy without the heap's names.
    WithoutHeap,
    Perf,
    /// nodespy through V8's inspector; measured against `--cpu-prof` only.
    Inspector,
}

impl Condition {
    /// Every condition, the unwatched one first, then the one in which nothing is sampled.
    pub(crate) const ALL: [Self; 5] = [
        Self::None,
        Self::Placebo,
        Self::Nodespy,
        Self::WithoutHeap,
        Self::Perf,
    ];

    /// The word shown for it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Placebo => "placebo",
            Self::Nodespy => "nodespy",
            Self::WithoutHeap => "no names",
            Self::Perf => "perf -g",
            Self::Inspector => "inspector",
        }
    }
}

/// A profiler that is attached and has settled down.
pub(crate) struct Attached {
    condition: Condition,
    child: Child,
    target_pid: u32,
    output: PathBuf,
}

/// A moment in a profiler's life.
pub(crate) struct Mark {
    at: Instant,
    cpu: Duration,
}

/// What a recording cost the profiler.
#[derive(Debug)]
pub(crate) struct Cost {
    /// Samples of the target.
    pub(crate) samples: u64,
    /// CPU time between the mark and the end of the work, in microseconds.
    pub(crate) steady_us: f64,
    /// The same as part of one core.
    pub(crate) steady_share: f64,
    /// CPU time of the whole run.
    pub(crate) whole_seconds: f64,
    /// The most memory it had.
    pub(crate) memory_mib: f64,
    /// How much of the JavaScript got a name; none where names were not measured.
    pub(crate) named_share: Option<f64>,
}

impl Attached {
    /// Starts a profiler and waits until it is attached; nothing when there is to be none.
    pub(crate) fn start(
        options: &Options,
        condition: Condition,
        target_pid: u32,
        rate_hz: u32,
    ) -> Result<Option<Self>, Failure> {
        let pid = target_pid.to_string();
        let rate = rate_hz.to_string();
        let name = format!("nodespy-overhead-{}", std::process::id());
        let mut output = std::env::temp_dir().join(name);
        let mut command = match condition {
            Condition::None => return Ok(None),
            Condition::Placebo | Condition::Nodespy | Condition::WithoutHeap => {
                output.set_extension("nspy");
                let names = match condition {
                    Condition::WithoutHeap => "map",
                    _ => "heap",
                };
                let mut command = Command::new(&options.nodespy);
                command.args(["record", "-q", "-p", &pid, "-F", &rate]);
                command.args(["--names", names, "-o"]);
                if condition == Condition::Placebo {
                    command.env("NODESPY_PLACEBO", "1");
                }
                command
            }
            Condition::Inspector => {
                output.set_extension("nspy");
                let mut command = Command::new(&options.nodespy);
                command.args(["record", "-q", "-p", &pid, "--engine", "inspector"]);
                command.args(["-F", &rate, "-o"]);
                command
            }
            Condition::Perf => {
                output.set_extension("data");
                let mut command = Command::new("perf");
                command.args([
                    "record",
                    "-g",
                    "-e",
                    "cpu-clock",
                    "-p",
                    &pid,
                    "-F",
                    &rate,
                    "-o",
                ]);
                command
            }
        };
        let child = command
            .arg(&output)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let attached = Self {
            condition,
            child,
            target_pid,
            output,
        };
        attached.settle();
        Ok(Some(attached))
    }

    /// Waits until the profiler does nothing any more: it is attached, and the target is idle.
    fn settle(&self) {
        let until = Instant::now() + Duration::from_secs(10);
        std::thread::sleep(Duration::from_millis(300));
        let mut last = self.cpu();
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
            let now = self.cpu();
            if now - last < Duration::from_millis(1) {
                return;
            }
            last = now;
        }
    }

    /// CPU time of all its threads so far, to the nanosecond.
    fn cpu(&self) -> Duration {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.child.id())) else {
            return Duration::ZERO;
        };
        let nanoseconds = threads
            .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("schedstat")).ok())
            .filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok())
            .sum();
        Duration::from_nanos(nanoseconds)
    }

    /// The moment from which [`Cost::steady_us`] counts.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            at: Instant::now(),
            cpu: self.cpu(),
        }
    }

    /// Memory it has now.
    pub(crate) fn memory_mib(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let kib = status.ok().and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        });
        kib.unwrap_or(f64::NAN) / 1024.0
    }

    /// Ends the recording as Ctrl-C would and counts what it cost.
    pub(crate) fn finish(mut self, since: Mark) -> Result<Cost, Failure> {
        let wall = since.at.elapsed();
        let steady = self.cpu().saturating_sub(since.cpu);
        let (status, whole, memory_mib) = interrupt_and_wait(&self.child);
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut said)?;
        }
        // A placebo has no samples, and nodespy ends with 5 then.
        let mut named_share = None;
        let samples = match self.condition {
            Condition::None | Condition::Placebo => 0,
            Condition::Nodespy | Condition::WithoutHeap | Condition::Inspector => {
                let profile = read_profile(&self.output, &said)?;
                let notes = &profile.notes;
                let named: u64 = notes.jit_named.iter().sum();
                named_share = (self.condition == Condition::Nodespy && notes.jit_frames > 0)
                    .then(|| named as f64 / notes.jit_frames as f64);
                samples_of(&profile, self.target_pid)
            }
            Condition::Perf => perf_samples(&said)
                .ok_or_else(|| format!("perf ended with status {status:#x}:\n{said}"))?,
        };
        let _ = fs::remove_file(&self.output);
        Ok(Cost {
            samples,
            steady_us: steady.as_secs_f64() * 1e6,
            steady_share: steady.as_secs_f64() / wall.as_secs_f64(),
            whole_seconds: whole.as_secs_f64(),
            memory_mib,
            named_share,
        })
    }
}

/// Programs that do nothing but compute; ended when dropped.
pub(crate) struct BusyLoops(Vec<Child>);

impl BusyLoops {
    /// Starts so many of them.
    pub(crate) fn start(count: usize) -> Result<Self, Failure> {
        let mut loops = Self(Vec::new());
        for _ in 0..count {
            let mut shell = Command::new("sh");
            // The end of its input ends it, should this program be killed.
            shell.args(["-c", "while :; do :; done & read line; kill $!"]);
            loops.0.push(shell.stdin(Stdio::piped()).spawn()?);
        }
        Ok(loops)
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

/// When the first samples of a recording were taken, in milliseconds after nodespy's start.
pub(crate) struct FirstSamples {
    pub(crate) any_ms: Option<f64>,
    /// The first with a function of JavaScript, named and with its line.
    pub(crate) named_ms: Option<f64>,
}

/// Records a busy target for half a second and looks at the times inside the profile.
pub(crate) fn first_samples(options: &Options, target_pid: u32) -> Result<FirstSamples, Failure> {
    let name = format!("nodespy-overhead-{}.nspy", std::process::id());
    let output = std::env::temp_dir().join(name);
    let pid = target_pid.to_string();
    let started = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let result = Command::new(&options.nodespy)
        .args(["record", "-q", "-d", "500ms", "-F", "999", "-p", &pid, "-o"])
        .arg(&output)
        .stdin(Stdio::null())
        .output()?;
    let profile = read_profile(&output, &String::from_utf8_lossy(&result.stderr))?;
    let _ = fs::remove_file(&output);
    let after_start_ms = |sample: &Sample| {
        let at = profile.about.started_unix + sample.time;
        at as f64 / 1e6 - started.as_secs_f64() * 1e3
    };
    let is_named = |sample: &&Sample| {
        let frames = sample
            .stack
            .into_iter()
            .flat_map(|at| profile.frames_of(at));
        let mut functions = frames.map(|at| profile.function(profile.frame(at).function));
        functions.any(|function| function.line > 0)
    };
    Ok(FirstSamples {
        any_ms: profile.samples.first().map(after_start_ms),
        named_ms: profile.samples.iter().find(is_named).map(after_start_ms),
    })
}

pub(crate) fn read_profile(path: &Path, said: &str) -> Result<Profile, Failure> {
    let recording = nodespy_formats::import_file(path, &Default::default())
        .map_err(|error| format!("nodespy wrote no profile: {error}\n{said}"))?;
    match recording.contents {
        Contents::Named(profile) | Contents::PartlyNamed(profile, _) => Ok(*profile),
        Contents::Events(_) => Err("nodespy wrote raw events".into()),
    }
}

pub(crate) fn samples_of(profile: &Profile, pid: u32) -> u64 {
    let of_target = profile.samples.iter().filter(|sample| {
        let thread = &profile.threads[sample.thread.at()];
        profile.processes[thread.process.at()].pid == pid
    });
    of_target.count() as u64
}

/// The number in `[ perf record: Captured and wrote 0.125 MB perf.data (1234 samples) ]`.
fn perf_samples(said: &str) -> Option<u64> {
    let before = said.split(" samples)").next()?;
    before.rsplit('(').next()?.parse().ok()
}

/// Sends an interrupt, waits for the end, and returns the raw status, the CPU time and the most
/// memory in MiB, as the kernel accounts for them.
pub(crate) fn interrupt_and_wait(child: &Child) -> (i32, Duration, f64) {
    let pid = child.id() as libc::pid_t;
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid rusage, which is made of plain integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `pid` is our child, not waited for yet, so the number is still its own; the two
    // pointers are to live values of the types that wait4 writes.
    unsafe {
        libc::kill(pid, libc::SIGINT);
        while libc::wait4(pid, &mut status, 0, &mut usage) < 0
            && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
        {}
    }
    let time = |value: libc::timeval| {
        Duration::from_secs(value.tv_sec as u64) + Duration::from_micros(value.tv_usec as u64)
    };
    let cpu = time(usage.ru_utime) + time(usage.ru_stime);
    (status, cpu, usage.ru_maxrss as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_perfs_samples_is_read() {
        let said = "[ perf record: Woken up 1 times to write data ]\n\
                    [ perf record: Captured and wrote 0.125 MB /tmp/x.data (1234 samples) ]\n";
        assert_eq!(perf_samples(said), Some(1234));
        assert_eq!(perf_samples("nothing"), None);
    }
}
