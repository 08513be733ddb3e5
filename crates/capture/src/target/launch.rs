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
        let caller = match options.keep_root {
            true => None,
            false => sudo_caller()?,
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

/// User and group of who typed `sudo nodespy …`; none when nodespy was not started through sudo, or
/// by root.
pub fn sudo_caller_ids() -> Result<Option<(u32, u32)>, CaptureError> {
    if crate::sys::files::effective_uid() != 0 {
        return Ok(None);
    }
    let variable = |name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    ids_in(
        variable("SUDO_UID").as_deref(),
        variable("SUDO_GID").as_deref(),
    )
}

fn ids_in(uid: Option<&str>, gid: Option<&str>) -> Result<Option<(u32, u32)>, CaptureError> {
    let Some(uid_text) = uid else {
        return Ok(None);
    };
    // The largest number means "leave it as it is" to setuid.
    let number = |text: &str| text.parse().ok().filter(|&id: &u32| id != u32::MAX);
    match (number(uid_text), gid.and_then(number)) {
        (Some(0), _) => Ok(None),
        (Some(uid), Some(gid)) => Ok(Some((uid, gid))),
        _ => Err(CaptureError::refused(format!(
            "SUDO_UID={uid_text:?} and SUDO_GID={:?} do not say who called sudo, so the command would \
             run as root; --keep-root does that",
            gid.unwrap_or_default()
        ))),
    }
}

/// Who typed `sudo nodespy record -- …`: the command is theirs, not root's. An account that
/// /etc/passwd does not list (LDAP, a container) is still not root.
fn sudo_caller() -> Result<Option<RunAs>, CaptureError> {
    let Some((uid, gid)) = sudo_caller_ids()? else {
        return Ok(None);
    };
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let account = accounts
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.len() >= 6 && fields[2].parse() == Ok(uid));
    let (user, home) = match account {
        Some(fields) => (fields[0].to_owned(), fields[5]),
        None => (uid.to_string(), "/"),
    };
    Ok(Some(RunAs {
        uid,
        gid,
        user,
        home: home.into(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_of_sudo_is_never_taken_for_root_by_mistake() {
        assert_eq!(ids_in(Some("54321"), Some("5")).unwrap(), Some((54321, 5)));
        assert_eq!(ids_in(Some("0"), Some("0")).unwrap(), None);
        assert_eq!(ids_in(None, None).unwrap(), None);
        for (uid, gid) in [
            ("54321", None),
            ("alice", Some("5")),
            ("", Some("5")),
            ("4294967295", Some("5")),
        ] {
            let refused = ids_in(Some(uid), gid).unwrap_err().to_string();
            assert!(refused.contains("--keep-root"), "{refused}");
        }
    }
}
