//! What stays when nodespy is killed while an inspector is open because of it.
//!
//! A port left open lets any user of the machine run code in the process. So a recording has a
//! companion, this hidden command, that does nothing but wait for the end of its standard input. A
//! nodespy that ends properly says so before; one that is killed does not, and the companion closes
//! the inspector in its place.

use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};

use nodespy_capture::engines::inspector::{InspectorSession, close_abandoned};

use crate::cli::CloseAbandonedArgs;

/// What is said by a nodespy that has closed everything itself.
const DONE: &[u8] = b"done";

/// Waits for the end of standard input and closes the inspector unless it was closed.
pub(crate) fn run(arguments: &CloseAbandonedArgs) -> anyhow::Result<ExitCode> {
    let mut said = Vec::new();
    let input = std::io::stdin().lock();
    let _ = input.take(DONE.len() as u64).read_to_end(&mut said);
    if said != DONE {
        close_abandoned(arguments.pid, arguments.address);
    }
    Ok(ExitCode::SUCCESS)
}

/// The companion of a recording. Dropping it says that all is done.
pub(crate) struct Companion {
    child: Child,
}

impl Companion {
    /// Starts the companion of a recording that opened an inspector; none where nothing was opened
    /// or no process can be started.
    pub(crate) fn of(session: &InspectorSession) -> Option<Self> {
        let pid = session.pid().filter(|_| session.is_opened_by_us())?;
        let address: SocketAddr = session.address();
        let child = Command::new("/proc/self/exe")
            .args(["close-abandoned", &pid.to_string(), &address.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C in the terminal is for nodespy alone.
            .process_group(0)
            .spawn();
        child.ok().map(|child| Self { child })
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        use std::io::Write;
        if let Some(mut stdin) = self.child.stdin.take() {
            let _ = stdin.write_all(DONE);
        }
        let _ = self.child.wait();
    }
}
