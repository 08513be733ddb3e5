//! Taking hold of the processes a command is about.

use nodespy_capture::target::Target;

use crate::cli::TargetArgs;
use crate::failure::Failure;
use crate::output;

/// Takes hold of what the arguments mean, with its children unless they are to be left out, and says
/// what was left out.
pub(crate) fn hold(arguments: &TargetArgs, no_children: bool) -> anyhow::Result<Vec<Target>> {
    let wanted = arguments.wanted();
    if wanted.is_empty() {
        return Err(Failure::Usage(
            "which process? Give a name, -p PID, -c CONTAINER, --pod, --pm2, --port, --cgroup or -a \
             (`nodespy` lists the Node processes of this machine)"
                .to_owned(),
        )
        .into());
    }
    let selection = nodespy_recorder::hold(&wanted, !no_children)?;
    for remark in &selection.remarks {
        output::note(&nodespy_model::printable(remark));
    }
    Ok(selection.targets)
}
