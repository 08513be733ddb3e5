//! Starting a command in order to record it.

use std::ffi::OsString;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::error::CaptureError;
use crate::sys::fork::{Child, ChildOptions, RunAs};

/// How long a command is given to end after it was asked to.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// How often its end is polled for.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

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
    /// Whether it must not outlast this.
    ends_with_us: bool,
}

impl Launched {
    /// Makes the process; it runs nothing of the command before [`Self::start`].
    pub fn prepare(options: &LaunchOptions) -> Result<Self, CaptureError> {
        Self::prepare_as(options, ChildOptions::default())
    }

    /// The same for a command that has `PORT` in its environment, known when it starts, and ends with
    /// everything it started when this is dropped.
    pub fn prepare_with_port(options: &LaunchOptions) -> Result<Self, CaptureError> {
        let child = ChildOptions {
            late_variable: Some("PORT"),
            own_group: true,
            ..ChildOptions::default()
        };
        let mut launched = Self::prepare_as(options, child)?;
        launched.ends_with_us = true;
        Ok(launched)
    }

    fn prepare_as(options: &LaunchOptions, child: ChildOptions<'_>) -> Result<Self, CaptureError> {
        let program = options
            .command
            .first()
            .map(|program| program.to_string_lossy().into_owned())
            .unwrap_or_default();
        let caller = match options.keep_root {
            true => None,
            false => sudo_caller()?,
        };
        let child = ChildOptions {
            run_as: caller.as_ref(),
            ..child
        };
        let child = Child::prepare(&options.command, child)
            .map_err(|source| launch_error(&program, source))?;
        Ok(Self {
            child,
            program,
            run_as: caller.map(|caller| caller.user),
            ends_with_us: false,
        })
    }

    /// Whether it must not outlast this, whatever happens.
    pub fn set_ends_with_us(&mut self, ends_with_us: bool) {
        self.ends_with_us = ends_with_us;
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// The user it runs as, when that is not who nodespy runs as.
    pub fn runs_as(&self) -> Option<&str> {
        self.run_as.as_deref()
    }

    /// Whether it was let to run.
    pub fn is_started(&self) -> bool {
        self.child.is_started()
    }

    /// Lets it run.
    pub fn start(&mut self) -> Result<(), CaptureError> {
        self.start_late("")
    }

    /// Lets it run with this `PORT`.
    pub fn start_with_port(&mut self, port: u16) -> Result<(), CaptureError> {
        self.start_late(&port.to_string())
    }

    fn start_late(&mut self, late: &str) -> Result<(), CaptureError> {
        self.child
            .start(late)
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

    /// Ends it: SIGTERM, and SIGKILL where that does not help.
    pub fn end(&mut self) {
        if !self.is_started() {
            return;
        }
        self.terminate();
        let deadline = Instant::now() + END_TIMEOUT;
        while self.try_status().is_none() {
            if Instant::now() >= deadline {
                self.child.signal(libc::SIGKILL);
                self.wait();
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        if self.ends_with_us {
            self.end();
        }
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
             run as root; nodespy record --keep-root does that",
            gid.unwrap_or_default()
        ))),
    }
}

/// Has a command that nodespy starts run as who typed `sudo nodespy …`, as one that is recorded does.
pub fn run_as_sudo_caller(command: &mut Command) -> Result<(), CaptureError> {
    if let Some(caller) = sudo_caller()? {
        caller.apply_to(command);
    }
    Ok(())
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
    RunAs::new(uid, gid, user, home.into())
        .map(Some)
        .map_err(|error| {
            CaptureError::refused(format!("the groups of user {uid} are not known: {error}"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_known_late_is_in_the_environment_and_nothing_outlasts_it() {
        let file = std::env::temp_dir().join(format!("nodespy-port-{}", std::process::id()));
        let _ = std::fs::remove_file(&file);
        let command = format!(
            "echo \"$PORT\" > {0}.new; mv {0}.new {0}; sleep 600 & wait",
            file.display()
        );
        let options = LaunchOptions {
            command: ["sh", "-c", &command].map(OsString::from).to_vec(),
            keep_root: true,
        };
        let mut launched = Launched::prepare_with_port(&options).unwrap();
        assert!(!launched.is_started());
        launched.start_with_port(65_535).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !file.exists() && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "65535\n");
        std::fs::remove_file(&file).unwrap();
        let children = crate::target::proc::children(launched.pid());
        drop(launched);
        for child in children {
            let is_gone = || crate::target::proc::live_run_state(child, child).is_none();
            while !is_gone() && Instant::now() < deadline {
                std::thread::sleep(POLL_INTERVAL);
            }
            assert!(is_gone());
        }
    }

    #[test]
    fn a_command_runs_as_a_user_with_their_groups_and_home() {
        if crate::sys::files::effective_uid() != 0 {
            return;
        }
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo $(id -u) $(id -g) $(id -G) $USER $LOGNAME $HOME"]);
        let user = RunAs::new(54321, 54322, "54321".to_owned(), "/nowhere".into()).unwrap();
        user.apply_to(&mut command);
        let said = command.output().unwrap().stdout;
        assert_eq!(
            String::from_utf8_lossy(&said),
            "54321 54322 54322 54321 54321 /nowhere\n"
        );
    }

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
