//! The watched program: a warm Node process that works on request and says what it took.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Failure;
use crate::options::Options;

/// `workloads/items.js`, running; it ends with this program, whose pipe is its input.
pub(crate) struct Target {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Its process.
    pub(crate) pid: u32,
}

impl Target {
    /// Starts it without any flag and waits until it is warm.
    pub(crate) fn start(options: &Options) -> Result<Self, Failure> {
        Self::start_with(options, &[])
    }

    /// Starts it with flags and waits until it is warm.
    pub(crate) fn start_with(options: &Options, flags: &[String]) -> Result<Self, Failure> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/items.js");
        let mut child = Command::new(&options.node)
            .args(flags)
            .arg(script.canonicalize()?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", options.node))?;
        let mut target = Self {
            requests: child.stdin.take().expect("its input is a pipe"),
            answers: BufReader::new(child.stdout.take().expect("its output is a pipe")),
            pid: child.id(),
            child,
        };
        let first = target.line()?;
        if first != "ready" {
            return Err(format!("the target said {first:?}").into());
        }
        target.work(options.items)?;
        Ok(target)
    }

    /// Does `items` work items; returns the CPU time they took in microseconds.
    pub(crate) fn work(&mut self, items: u32) -> Result<f64, Failure> {
        self.start_work(items)?;
        self.finish_work()
    }

    /// Asks for work without waiting for it.
    pub(crate) fn start_work(&mut self, items: u32) -> Result<(), Failure> {
        writeln!(self.requests, "{items}")?;
        Ok(())
    }

    /// Waits for work that was asked for; returns the CPU time it took in microseconds.
    pub(crate) fn finish_work(&mut self) -> Result<f64, Failure> {
        let answer = self.line()?;
        let number = answer
            .rsplit_once("\"cpu_microseconds\":")
            .map(|(_, rest)| rest.trim_end_matches('}'))
            .ok_or_else(|| format!("the target said {answer:?}"))?;
        Ok(number.parse()?)
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("the target ended".into());
        }
        Ok(line.trim().to_owned())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
