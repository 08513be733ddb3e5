//! Starts the browser from outside of the confinement: a browser needs all that a reader of files is
//! denied. A shell is started before nodespy confines itself; it waits for a line and becomes `xdg-open` with
//! a file that was chosen before, so that all a hostile recording could have it do is open the page early.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};

use anyhow::Context;
use nodespy_capture::target::run_as_sudo_caller;

const OPENER: &str = "xdg-open";
const WAIT_AND_OPEN: &str = "read -r go && exec xdg-open \"$1\" </dev/null";

/// A browser that waits to be opened. Dropping it lets it go.
pub(super) struct Browser(ChildStdin);

impl Browser {
    /// Makes ready to open `file`.
    pub(super) fn prepare(file: &Path) -> anyhow::Result<Self> {
        anyhow::ensure!(is_installed(OPENER), "{OPENER} is not installed");
        let mut shell = Command::new("sh");
        shell.args(["-c", WAIT_AND_OPEN, "sh"]).arg(file);
        shell.stdin(Stdio::piped());
        shell.stdout(Stdio::null()).stderr(Stdio::null());
        // The browser of who called sudo, not one of root.
        run_as_sudo_caller(&mut shell)?;
        let mut shell = shell.spawn().context("starting a shell")?;
        Ok(Self(shell.stdin.take().expect("it is piped")))
    }

    pub(super) fn open(mut self) -> anyhow::Result<()> {
        Ok(self.0.write_all(b"go\n")?)
    }
}

fn is_installed(program: &str) -> bool {
    let is_program = |path: &Path| {
        let found = path.metadata();
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| is_program(&folder.join(program)))
}
