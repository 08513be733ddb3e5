//! Starting a command that waits until it is watched before it runs.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use super::checked;

/// More groups than this are not looked up: Linux lets nobody have more.
const MAX_GROUPS: libc::c_int = 1 << 16;

/// Who a command runs as when nodespy was started through sudo.
#[derive(Debug, Clone)]
pub(crate) struct RunAs {
    uid: u32,
    gid: u32,
    groups: Vec<libc::gid_t>,
    pub(crate) user: String,
    home: OsString,
}

impl RunAs {
    /// The user, with all groups of theirs.
    pub(crate) fn new(uid: u32, gid: u32, user: String, home: OsString) -> io::Result<Self> {
        Ok(Self {
            uid,
            gid,
            groups: groups_of(&CString::new(user.as_bytes())?, gid)?,
            user,
            home,
        })
    }

    /// Has a command run as this user.
    pub(crate) fn apply_to(self, command: &mut Command) {
        command.envs(self.variables());
        let become_user = move || match self.become_user() {
            true => Ok(()),
            false => Err(io::Error::last_os_error()),
        };
        // SAFETY: the closure makes three system calls on memory that it owns and allocates nothing.
        unsafe { command.pre_exec(become_user) };
    }

    fn variables(&self) -> [(&'static str, &OsStr); 3] {
        [
            ("USER", OsStr::new(&self.user)),
            ("LOGNAME", OsStr::new(&self.user)),
            ("HOME", &self.home),
        ]
    }

    /// Makes this process one of the user. May be called between fork and exec.
    fn become_user(&self) -> bool {
        // SAFETY: the pointer and the length are those of a vector; the other calls take numbers.
        unsafe {
            libc::setgroups(self.groups.len(), self.groups.as_ptr()) == 0
                && libc::setgid(self.gid) == 0
                && libc::setuid(self.uid) == 0
        }
    }
}

/// The groups of a user, `gid` among them. One that no database knows has that one alone.
fn groups_of(user: &CStr, gid: u32) -> io::Result<Vec<libc::gid_t>> {
    let mut groups = vec![gid; 32];
    loop {
        let mut count = groups.len() as libc::c_int;
        // SAFETY: the name ends with a zero, and `count` says how many numbers there is room for.
        let found =
            unsafe { libc::getgrouplist(user.as_ptr(), gid, groups.as_mut_ptr(), &mut count) };
        if found >= 0 {
            groups.truncate(count.max(0) as usize);
            return Ok(groups);
        }
        // Older C libraries leave `count` as it was.
        let wanted = count.max(2 * groups.len() as libc::c_int);
        if wanted > MAX_GROUPS {
            return Err(io::Error::other("the user has too many groups"));
        }
        groups.resize(wanted as usize, gid);
    }
}

/// How long the value of a variable is that is known late.
const LATE_BYTES: usize = 15;

/// How a child is made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ChildOptions<'a> {
    pub(crate) run_as: Option<&'a RunAs>,
    /// A variable of its environment whose value is known when it starts.
    pub(crate) late_variable: Option<&'a str>,
    /// Whether it has a process group of its own, which signals are sent to.
    pub(crate) own_group: bool,
}

/// A child that has not started its command yet, or is running it.
#[derive(Debug)]
pub(crate) struct Child {
    pid: u32,
    own_group: bool,
    go: Option<File>,
    failure: File,
    status: Option<ExitStatus>,
}

impl Child {
    /// Forks. The child waits for [`Self::start`] before it becomes `command`.
    pub(crate) fn prepare(command: &[OsString], options: ChildOptions<'_>) -> io::Result<Self> {
        let ChildOptions {
            run_as,
            late_variable,
            own_group,
        } = options;
        let program = find_program(&command[0])?;
        let program = CString::new(program.as_bytes())?;
        let arguments = c_strings(command.iter().map(OsString::as_os_str))?;
        let environment = environment(run_as, late_variable)?;
        let mut late = late_variable.map(|name| {
            let mut entry = format!("{name}=").into_bytes();
            let value_at = entry.len();
            // One more, so that it ends with a zero in any case.
            entry.resize(value_at + LATE_BYTES + 1, 0);
            (entry, value_at)
        });
        let argument_pointers = pointers(&arguments);
        let mut environment_pointers = pointers(&environment);
        if let Some((entry, _)) = &mut late {
            environment_pointers.insert(0, entry.as_mut_ptr().cast::<libc::c_char>().cast_const());
        }
        let (go_read, go_write) = pipe()?;
        let (failure_read, failure_write) = pipe()?;

        // SAFETY: between fork and exec the child only makes async-signal-safe calls on memory
        // prepared above (read, write, setpgid, setgroups, setgid, setuid, sigaction, execve, _exit).
        let pid = checked(unsafe { libc::fork() }.into())?;
        if pid == 0 {
            // SAFETY: as above; the descriptors are open and the arrays end with a null pointer.
            unsafe {
                let mut message = [0u8; 1 + LATE_BYTES];
                libc::close(go_write.as_raw_fd());
                if own_group {
                    libc::setpgid(0, 0);
                }
                // It is written at once and small, so it is read at once.
                let got = libc::read(
                    go_read.as_raw_fd(),
                    message.as_mut_ptr().cast(),
                    message.len(),
                );
                if got < 1 {
                    libc::_exit(125);
                }
                if let Some((entry, value_at)) = &mut late {
                    let value = entry.as_mut_ptr().add(*value_at);
                    std::ptr::copy_nonoverlapping(message[1..].as_ptr(), value, LATE_BYTES);
                }
                // Rust ignores it; what nodespy catches is reset by exec, and what was ignored
                // before nodespy (`nohup`) stays so.
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                if run_as.is_none_or(RunAs::become_user) {
                    libc::execve(
                        program.as_ptr(),
                        argument_pointers.as_ptr(),
                        environment_pointers.as_ptr(),
                    );
                }
                let error = *libc::__errno_location();
                let bytes = error.to_ne_bytes();
                libc::write(
                    failure_write.as_raw_fd(),
                    bytes.as_ptr().cast(),
                    bytes.len(),
                );
                libc::_exit(127);
            }
        }
        Ok(Self {
            pid: pid as u32,
            own_group,
            go: Some(File::from(go_write)),
            failure: File::from(failure_read),
            status: None,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it was let to become its command.
    pub(crate) fn is_started(&self) -> bool {
        self.go.is_none()
    }

    /// Lets the child become its command; an error says why it could not. `late` is the value of the
    /// variable that is known now.
    pub(crate) fn start(&mut self, late: &str) -> io::Result<()> {
        let Some(mut go) = self.go.take() else {
            return Ok(());
        };
        if late.len() > LATE_BYTES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut message = vec![b'g'];
        message.extend(late.bytes());
        go.write_all(&message)?;
        drop(go);
        let mut code = [0u8; 4];
        match self.failure.read_exact(&mut code) {
            // The pipe closes by itself when exec succeeds.
            Err(_) => Ok(()),
            Ok(()) => {
                self.wait(true)?;
                Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code)))
            }
        }
    }

    /// The status of the command once it has ended. Waits for it when `block`.
    pub(crate) fn wait(&mut self, block: bool) -> io::Result<Option<ExitStatus>> {
        if self.status.is_some() {
            return Ok(self.status);
        }
        let mut status = 0;
        let flags = if block { 0 } else { libc::WNOHANG };
        // SAFETY: `status` is a valid place for the answer; the pid is our own child's, which is
        // not reaped before this call.
        let pid =
            checked(unsafe { libc::waitpid(self.pid as libc::pid_t, &mut status, flags) }.into())?;
        if pid != 0 {
            self.status = Some(ExitStatus::from_raw(status));
        }
        Ok(self.status)
    }

    /// Sends a signal to the command, unless it has been reaped.
    pub(crate) fn signal(&mut self, signal: i32) {
        if matches!(self.wait(false), Ok(None)) {
            let sign = if self.own_group { -1 } else { 1 };
            // SAFETY: the child is not reaped, so its pid is not reused, nor is its group's.
            unsafe { libc::kill(sign * self.pid as libc::pid_t, signal) };
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // A child that was never started ends by itself when the pipe closes.
        if self.go.take().is_some() {
            let _ = self.wait(true);
        }
    }
}

fn environment(run_as: Option<&RunAs>, late: Option<&str>) -> io::Result<Vec<CString>> {
    let mut variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    variables.retain(|(name, _)| late.is_none_or(|late| name != late));
    if let Some(run_as) = run_as {
        for (name, value) in run_as.variables() {
            variables.retain(|(known, _)| known != name);
            variables.push((name.into(), value.into()));
        }
    }
    variables
        .into_iter()
        .map(|(name, value)| {
            let mut entry = name.into_vec();
            entry.push(b'=');
            entry.extend_from_slice(value.as_bytes());
            CString::new(entry).map_err(io::Error::from)
        })
        .collect()
}

fn find_program(name: &OsStr) -> io::Result<OsString> {
    if name.as_bytes().contains(&b'/') {
        return Ok(name.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|candidate| is_program(candidate))
        .map(std::path::PathBuf::into_os_string)
        .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
}

fn is_program(path: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn c_strings<'a>(items: impl Iterator<Item = &'a OsStr>) -> io::Result<Vec<CString>> {
    items
        .map(|item| CString::new(item.as_bytes()).map_err(io::Error::from))
        .collect()
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain([std::ptr::null()])
        .collect()
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for the two descriptors.
    checked(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) }.into())?;
    // SAFETY: the kernel gave us both just now; we are their only owner.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}
