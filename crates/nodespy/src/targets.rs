//! Taking hold of the processes a command is about.

use nodespy_capture::target::{Target, proc};

use crate::cli::TargetArgs;
use crate::failure::Failure;
use crate::output;

/// Takes hold of what the arguments mean, and says what was left out.
pub(crate) fn hold(arguments: &TargetArgs) -> anyhow::Result<Vec<Target>> {
    let wanted = arguments.wanted();
    if wanted.is_empty() {
        return Err(Failure::Usage(
            "which process? Give a name, -p PID, -c CONTAINER, --pod, --pm2, --port, --cgroup or -a \
             (`nodespy` lists the Node processes of this machine)"
                .to_owned(),
        )
        .into());
    }
    let selection = wanted.hold()?;
    for remark in &selection.remarks {
        output::note(&nodespy_model::printable(remark));
    }
    Ok(selection.targets)
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
