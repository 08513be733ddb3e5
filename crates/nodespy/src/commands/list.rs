//! Bare `nodespy`: the Node processes of this machine, and what to type next.

mod table;

use std::process::ExitCode;
use std::time::Duration;

use nodespy_capture::catch_interrupts;
use nodespy_capture::target::{Container, Pm2App, Program, forget_containers};
use nodespy_capture::{NodeProcess, Way, list_node_processes};

use crate::cli::ListArgs;
use crate::output::{self, Stream};
use crate::privileges::{self, Extra};

/// How long CPU use is measured for.
const WINDOW: Duration = Duration::from_millis(250);
/// The same while the list is watched: it is also the time from list to list.
const WATCH_WINDOW: Duration = Duration::from_secs(2);

pub(crate) fn run(arguments: &ListArgs) -> anyhow::Result<ExitCode> {
    privileges::keep_for_processes(Extra::default());
    if arguments.watch {
        watch(arguments.json);
        return Ok(ExitCode::SUCCESS);
    }
    let processes = list_node_processes(WINDOW);
    let text = match arguments.json {
        true => format!("{:#}\n", json(&processes)),
        false => table::draw(&processes, output::width_columns()),
    };
    output::result(&text, Stream::Standard);
    Ok(ExitCode::SUCCESS)
}

/// Prints list after list until the user or the reader has enough.
fn watch(is_json: bool) {
    let interrupts = catch_interrupts();
    let mut window = WINDOW;
    loop {
        forget_containers();
        let processes = list_node_processes(window);
        window = WATCH_WINDOW;
        if interrupts.is_stop_requested() {
            return;
        }
        let text = match (is_json, output::width_if_terminal()) {
            (true, _) => format!("{}\n", json(&processes)),
            // To the top left, and nothing of the last list below.
            (false, Some(width)) => format!("\x1b[H\x1b[2J{}", table::draw(&processes, width)),
            (false, None) => format!("{}\n", table::draw(&processes, output::width_columns())),
        };
        if !output::stream(&text) {
            return;
        }
    }
}

fn json(processes: &[NodeProcess]) -> serde_json::Value {
    let rows: Vec<serde_json::Value> = processes.iter().map(json_row).collect();
    serde_json::json!({ "schema": "nodespy.list", "version": 1, "processes": rows })
}

fn json_row(process: &NodeProcess) -> serde_json::Value {
    let resident = &process.resident;
    let refused = match &process.way {
        Way::Refused { why } => Some(why),
        Way::Perf | Way::Inspector => None,
    };
    serde_json::json!({
        "pid": resident.pid,
        "start_time_ticks": resident.start_time,
        "inner_pid": resident.inner_pid,
        "app": resident.app,
        "script": resident.script,
        "node_version": process.program.as_ref().and_then(Program::node_version),
        "runtime": process.program.as_ref().map(|program| program.runtime.label()),
        "runtime_version": process.program.as_ref().and_then(|program| program.version.as_deref()),
        "user": process.user,
        "cpu_percent": (process.cpu_percent * 10.0).round() / 10.0,
        "threads": resident.threads,
        "permitted": refused.is_none(),
        "engine": process.way.engine(),
        "refused": refused,
        "container": resident.container.as_ref().map(json_container),
        "pm2": resident.pm2.as_ref().map(json_pm2),
        "is_pm2_itself": resident.is_pm2_itself,
        "worker": resident.worker,
    })
}

fn json_container(container: &Container) -> serde_json::Value {
    serde_json::json!({
        "id": container.id,
        "runtime": container.runtime.label(),
        "name": container.name,
        "image": container.image,
        "pod": container.pod,
        "namespace": container.namespace,
    })
}

fn json_pm2(app: &Pm2App) -> serde_json::Value {
    serde_json::json!({
        "name": app.name,
        "id": app.id,
        "instance": app.instance,
        "mode": if app.is_cluster { "cluster" } else { "fork" },
    })
}
