//! Taking hold of the processes a command is about.

use nodespy_capture::CaptureError;
use nodespy_capture::target::{Target, looks_like_node, node_version, proc};

/// Takes hold of each process once. One that is not Node.js is refused unless `any` will do.
pub(crate) fn hold(pids: &[u32], any: bool) -> Result<Vec<Target>, CaptureError> {
    let mut targets: Vec<Target> = Vec::new();
    for &pid in pids {
        let target = Target::hold(pid)?;
        if !any && !is_node(target.pid()) {
            let program = proc::command_line(pid).first().map_or_else(
                || "a kernel thread".to_owned(),
                |name| nodespy_model::printable(name).into_owned(),
            );
            return Err(CaptureError::NotNode { pid, program });
        }
        if targets.iter().all(|known| known.pid() != target.pid()) {
            targets.push(target);
        }
    }
    Ok(targets)
}

/// Adds the children the processes have already, and theirs; nodespy itself is not among them.
pub(crate) fn add_children(targets: &mut Vec<Target>) {
    let mut position = 0;
    while position < targets.len() {
        for child in proc::children(targets[position].pid()) {
            let is_known =
                child == std::process::id() || targets.iter().any(|known| known.pid() == child);
            if let (false, Ok(target)) = (is_known, Target::hold(child)) {
                targets.push(target);
            }
        }
        position += 1;
    }
}

/// Node by the name of its file, or by what is in it where somebody renamed it.
fn is_node(pid: u32) -> bool {
    looks_like_node(pid) || node_version(pid).is_some()
}
