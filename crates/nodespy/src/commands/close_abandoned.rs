//! The hidden command that closes an inspector when nodespy can't: the companion of a recording.

use std::process::{Command, ExitCode};

use nodespy_capture::catch_interrupts;
use nodespy_capture::engines::inspector::{Abandoned, close_abandoned};

use crate::cli::CloseAbandonedArgs;

/// Waits for the end of standard input and closes the inspector unless it was closed.
pub(crate) fn run(arguments: &CloseAbandonedArgs) -> anyhow::Result<ExitCode> {
    let abandoned = Abandoned {
        pid: arguments.pid,
        start_time: arguments.start_time,
        listeners: arguments.listeners.clone(),
    };
    let interrupts = catch_interrupts();
    let input = &mut std::io::stdin().lock();
    close_abandoned(&abandoned, input, &|| interrupts.is_stop_requested());
    Ok(ExitCode::SUCCESS)
}

/// The command that runs this one.
pub(crate) fn command(abandoned: &Abandoned) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("close-abandoned")
        .arg(abandoned.pid.to_string())
        .arg(abandoned.start_time.to_string())
        .args(abandoned.listeners.iter().map(ToString::to_string));
    command
}
