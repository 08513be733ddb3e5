//! A command in a process group of its own, so that it can be ended with everything it started.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use super::checked;

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A command that we started and its group. It is ended when this is dropped.
#[derive(Debug)]
pub struct CommandGroup {
    child: Child,
    status: Option<ExitStatus>,
}

impl CommandGroup {
    /// Starts a command. Ctrl-C of the terminal does not reach it any more: who starts it must end it.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        Ok(Self {
            child: command.process_group(0).spawn()?,
            status: None,
        })
    }

    /// How the command ended, if it has. What it started may go on.
    pub fn try_status(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        Ok(self.status)
    }

    /// Sends the command itself SIGINT, if it still runs.
    pub fn interrupt(&mut self) -> io::Result<()> {
        self.signal(libc::SIGINT, 1)
    }

    /// Ends the command and everything it started: SIGTERM, and SIGKILL once `timeout` is over.
    pub fn end(&mut self, timeout: Duration) -> io::Result<()> {
        self.signal(libc::SIGTERM, -1)?;
        let deadline = Instant::now() + timeout;
        while self.try_status()?.is_none() {
            if Instant::now() >= deadline {
                self.signal(libc::SIGKILL, -1)?;
                self.status = Some(self.child.wait()?);
                break;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// `sign` is 1 for the command, -1 for its group.
    fn signal(&mut self, signal: libc::c_int, sign: libc::pid_t) -> io::Result<()> {
        // Until the child is waited for, its pid is no other process's.
        if self.try_status()?.is_some() {
            return Ok(());
        }
        // SAFETY: the call takes two integers.
        checked(unsafe { libc::kill(sign * self.child.id() as libc::pid_t, signal) }.into())?;
        Ok(())
    }
}

impl Drop for CommandGroup {
    fn drop(&mut self) {
        let _ = self.end(Duration::from_secs(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_started_ends_with_it() {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "sleep 600 & echo $!; wait"]);
        shell.stdout(std::process::Stdio::piped());
        let mut group = CommandGroup::start(&mut shell).unwrap();
        let mut line = String::new();
        let stdout = group.child.stdout.take().unwrap();
        io::BufRead::read_line(&mut io::BufReader::new(stdout), &mut line).unwrap();
        let grandchild = format!("/proc/{}/stat", line.trim());
        let is_running = || {
            let stat = std::fs::read_to_string(&grandchild).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        assert!(is_running());
        group.end(Duration::from_secs(10)).unwrap();
        assert!(group.try_status().unwrap().is_some());
        let deadline = Instant::now() + Duration::from_secs(10);
        while is_running() && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
        assert!(!is_running());
    }
}
