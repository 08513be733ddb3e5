//! Starting a command in order to record it.

use std::ffi::OsString;
use std::process::ExitStatus;

use crate::error::CaptureError;
use crate::sys::fork::{Child, RunAs};

/// How a command is started.
#[derive(Debug, Clone, Default)]
pub struct LaunchOptions {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Stay root when nodespy was started through sudo, instead of becoming the caller again.
    pub keep_root: bool,
}

/// A command that waits to be watched, then runs.
#[derive(Debug)]
pub struct Launched {
    child: Child,
    program: String,
    run_as: Option<String>,
}

impl Launched {
    /// Makes the process; it runs nothing of the command before [`Self::start`].
    pub fn prepare(options: &LaunchOptions) -> Result<Self, CaptureError> {
        let program = options
            .command
            .first()
            .map(|program| program.to_string_lossy().into_owned())
            .unwrap_or_default();
        let caller = if options.keep_root {
            None
        } else {
            sudo_caller()
        };
        let child = Child::prepare(&options.command, caller.as_ref())
            .map_err(|source| launch_error(&program, source))?;
        Ok(Self {
            child,
            program,
            run_as: caller.map(|caller| caller.user),
        })
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// The user it runs as, when that is not who nodespy runs as.
    pub fn runs_as(&self) -> Option<&str> {
        self.run_as.as_deref()
    }

    /// Lets it run.
    pub fn start(&mut self) -> Result<(), CaptureError> {
        self.child
            .start()
            .map_err(|source| launch_error(&self.program, source))
    }

    /// Its status once it has ended.
    pub fn try_status(&mut self) -> Option<ExitStatus> {
        self.child.wait(false).ok().flatten()
    }

    /// Waits for it to end.
    pub fn wait(&mut self) -> Option<ExitStatus> {
        loop {
            match self.child.wait(true) {
                Ok(status) => return status,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&mut self) {
        self.child.signal(libc::SIGTERM);
    }
}

fn launch_error(program: &str, source: std::io::Error) -> CaptureError {
    CaptureError::Launch {
        command: program.to_owned(),
        source,
    }
}

/// Who typed `sudo nodespy record -- …`: the command is theirs, not root's.
fn sudo_caller() -> Option<RunAs> {
    if crate::sys::files::effective_uid() != 0 {
        return None;
    }
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    let uid = number("SUDO_UID").filter(|&uid| uid != 0)?;
    let gid = number("SUDO_GID")?;
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    let account = accounts
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.len() >= 6 && fields[2].parse() == Ok(uid))?;
    Some(RunAs {
        uid,
        gid,
        user: account[0].to_owned(),
        home: account[5].into(),
    })
}
