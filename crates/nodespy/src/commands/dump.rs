//! `nodespy dump`: every thread's stack right now.

use std::process::ExitCode;

use nodespy_capture::engines::snapshot::{SnapshotOutcome, Stopping, ThreadSnapshot};
use nodespy_capture::target::proc::RunState;
use nodespy_recorder::{Snapshot, snapshot};
use nodespy_view::Terminal;
use nodespy_view::dump::{DumpedThread, draw_dump};

use crate::cli::DumpArgs;
use crate::output::{self, Stream};
use crate::privileges::{self, Extra};
use crate::targets;

mod json;

pub(crate) fn run(arguments: &DumpArgs) -> anyhow::Result<ExitCode> {
    privileges::keep_for_processes(Extra::default());
    let targets = targets::hold(&arguments.target, arguments.no_subprocesses)?;
    let stopping = match arguments.nonblocking {
        true => Stopping::Nothing,
        false => Stopping::EachThread,
    };
    let Snapshot {
        profile,
        threads,
        pending,
    } = snapshot(targets, stopping, arguments.no_async, arguments.pending)?;
    let pending = pending.as_ref();
    let threads: Vec<DumpedThread> = threads.iter().map(dumped).collect();
    let text = if arguments.json {
        format!(
            "{:#}\n",
            json::of(&profile, &threads, pending, arguments.nonblocking)
        )
    } else {
        let mut text = Vec::new();
        let terminal = Terminal {
            has_color: output::has_color(Stream::Standard),
            width_columns: output::width_if_terminal().unwrap_or(usize::MAX),
        };
        draw_dump(&profile, &threads, pending, terminal, &mut text)?;
        String::from_utf8_lossy(&text).into_owned()
    };
    output::result(&text, Stream::Standard);
    Ok(ExitCode::SUCCESS)
}

fn dumped(thread: &ThreadSnapshot) -> DumpedThread {
    let (held, remark) = match &thread.outcome {
        SnapshotOutcome::Held { time } => (Some(*time), None),
        SnapshotOutcome::DidNotStop { waited } => (
            None,
            Some(format!(
                "did not stop within {} ms",
                waited.div_ceil(1_000_000)
            )),
        ),
        SnapshotOutcome::Waiting => (None, Some("seen waiting in the kernel".to_owned())),
        SnapshotOutcome::Sampled => (None, Some("seen by a sample of its CPU time".to_owned())),
        SnapshotOutcome::Unseen { why } => (None, Some(why.clone())),
    };
    DumpedThread {
        pid: thread.pid,
        tid: thread.tid,
        state: thread.state.label(),
        is_running: thread.state == RunState::Running,
        held,
        remark,
    }
}
