//! The processes that are to be recorded, held, and the command that is one of them.

use std::ffi::OsString;

use nodespy_capture::CaptureError;
use nodespy_capture::engines::inspector::command_to_launch;
use nodespy_capture::engines::perf_events::probe_quickly;
use nodespy_capture::target::{
    LaunchOptions, Launched, Selection, Target, Wanted, app_name, app_of_command, proc,
};

use crate::load::Load;
use crate::record::RecordRequest;

/// What is recorded.
#[derive(Debug)]
pub struct Subject {
    /// The processes, held.
    pub targets: Vec<Target>,
    /// What puts load on the command. Dropped first: as long as it waits it holds the pipe that the
    /// command waits for.
    pub(crate) load: Option<Load>,
    /// A command that waits to be started.
    pub launched: Option<Launched>,
    /// The application's name.
    pub app: String,
    /// What was left out, in sentences.
    pub remarks: Vec<String>,
}

/// Takes hold of the processes that are `wanted` and, if their children are to be followed, of those
/// they have already.
pub fn hold(wanted: &Wanted, follows_children: bool) -> Result<Selection, CaptureError> {
    let mut selection = wanted.hold(|pid| probe_quickly(pid).is_ok())?;
    if follows_children {
        add_children(&mut selection.targets);
    }
    Ok(selection)
}

impl Subject {
    /// Launches the command, or takes hold of the processes that are wanted and, unless they are to
    /// be left out, the children they have already. `by_inspector` is how a command is launched.
    pub(crate) fn of(request: &RecordRequest, by_inspector: bool) -> Result<Self, CaptureError> {
        if !request.command.is_empty() {
            return Self::launch(request, by_inspector);
        }
        let selection = match request.inspect_url {
            Some(_) => Selection::default(),
            None => hold(&request.wanted, request.follow_children)?,
        };
        let app = selection.targets.first().map(Target::pid).map(app_name);
        Ok(Self {
            targets: selection.targets,
            launched: None,
            load: None,
            app: app.unwrap_or_else(|| "node".to_owned()),
            remarks: selection.remarks,
        })
    }

    fn launch(request: &RecordRequest, by_inspector: bool) -> Result<Self, CaptureError> {
        let mut launched = Launched::prepare(&LaunchOptions {
            command: match by_inspector {
                true => command_to_launch(&request.command),
                false => request.command.clone(),
            },
            keep_root: request.keep_root,
        })?;
        let target = Target::hold(launched.pid())?;
        let load = request.load.as_deref();
        let load = load.map(|load| Load::prepare(load, request.keep_root));
        let load = load.transpose()?;
        launched.set_ends_with_us(load.is_some());
        Ok(Self {
            targets: vec![target],
            launched: Some(launched),
            load,
            app: app_of(&request.command),
            remarks: Vec::new(),
        })
    }

    /// Processes that run.
    pub fn running(targets: Vec<Target>) -> Self {
        let app = targets.first().map(Target::pid).map(app_name);
        Self {
            targets,
            launched: None,
            load: None,
            app: app.unwrap_or_default(),
            remarks: Vec::new(),
        }
    }

    /// Lets the command run before it is sampled, if there is one. Until it is sampled it must not be
    /// left behind.
    pub(crate) fn start_command(&mut self) -> Result<(), CaptureError> {
        match &mut self.launched {
            Some(launched) => {
                launched.set_ends_with_us(true);
                launched.start()
            }
            None => Ok(()),
        }
    }

    /// Leaves the command to its own devices when the recording is over, unless it is there for the load.
    pub(crate) fn keep_command(&mut self) {
        if let (Some(launched), None) = (&mut self.launched, &self.load) {
            launched.set_ends_with_us(false);
        }
    }

    /// Takes hold of the children that the processes have now.
    pub(crate) fn add_children(&mut self) {
        add_children(&mut self.targets);
    }

    /// The pids of the processes that run.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        let running = self.targets.iter().filter(|target| !target.has_ended());
        running.map(Target::pid)
    }

    /// Whether the command, or else every process, has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        match &mut self.launched {
            Some(launched) => launched.try_status().is_some(),
            None => !self.targets.is_empty() && self.targets.iter().all(Target::has_ended),
        }
    }
}

fn app_of(command: &[OsString]) -> String {
    let words: Vec<String> = command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    app_of_command(&words)
}

/// Adds the children the processes have already, and theirs; nodespy itself is not among them.
fn add_children(targets: &mut Vec<Target>) {
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
