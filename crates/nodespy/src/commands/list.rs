//! Bare `nodespy`: the Node processes of this machine, and what to type next.

use std::process::ExitCode;
use std::time::Duration;

use nodespy_capture::target::{NodeProcess, Permission, list_node_processes};
use nodespy_model::printable;

use crate::cli::ListArgs;
use crate::output::{self, Stream};

/// How long CPU use is measured for.
const WINDOW: Duration = Duration::from_millis(250);

pub(crate) fn run(arguments: &ListArgs) -> anyhow::Result<ExitCode> {
    let processes = list_node_processes(WINDOW);
    if arguments.json {
        output::result(&format!("{:#}\n", json(&processes)), Stream::Standard);
    } else {
        output::result(
            &table(&processes, output::width_columns()),
            Stream::Standard,
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn json(processes: &[NodeProcess]) -> serde_json::Value {
    let rows: Vec<serde_json::Value> = processes
        .iter()
        .map(|process| {
            serde_json::json!({
                "pid": process.pid,
                "app": process.app,
                "script": process.script,
                "nodeVersion": process.node_version,
                "user": process.user,
                "cpuPercent": (process.cpu_percent * 10.0).round() / 10.0,
                "threads": process.threads,
                "permitted": process.permission == Permission::Granted,
            })
        })
        .collect();
    serde_json::json!({ "version": 1, "processes": rows })
}

fn table(processes: &[NodeProcess], width: usize) -> String {
    if processes.is_empty() {
        return "No Node.js process runs on this machine.\n\n\
                Start and record one:  nodespy record -- node app.js\n"
            .to_owned();
    }
    let mut text = format!(
        "{:>8}  {:>6}  {:>7}  {:<10}  {:<10}  APP\n",
        "PID", "CPU %", "THREADS", "NODE", "USER"
    );
    for process in processes {
        let app = match &process.script {
            Some(script) if !script.ends_with(&process.app) => {
                format!("{} ({script})", process.app)
            }
            Some(script) => script.clone(),
            None => process.app.clone(),
        };
        let line = format!(
            "{:>8}  {:>6.1}  {:>7}  {:<10}  {:<10}  ",
            process.pid,
            process.cpu_percent,
            process.threads,
            process.node_version.as_deref().unwrap_or("?"),
            process.user,
        );
        let room = width.saturating_sub(line.chars().count());
        text.push_str(&line);
        text.push_str(&cut(&printable(&app), room));
        text.push('\n');
    }
    let next = &processes[0];
    let sudo = match next.permission {
        Permission::Granted => "",
        Permission::OtherUser => "sudo ",
    };
    text.push_str(&format!(
        "\nRecord the busiest for 30 seconds:  {sudo}nodespy record -p {} -d 30\n",
        next.pid
    ));
    text
}

/// The text, its start cut off where it would not fit: the end of a path tells most.
fn cut(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = text.chars().skip(length - width.saturating_sub(1));
    std::iter::once('…').chain(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_says_what_to_type_next() {
        let process = NodeProcess {
            pid: 42,
            app: "api".to_owned(),
            script: Some("/srv/api/server.js".to_owned()),
            node_version: Some("v20.20.2".to_owned()),
            user: "deploy".to_owned(),
            threads: 11,
            cpu_percent: 99.3,
            permission: Permission::OtherUser,
        };
        let text = table(&[process], 80);
        assert!(text.contains("api (/srv/api/server.js)"), "{text}");
        assert!(text.contains("sudo nodespy record -p 42 -d 30"), "{text}");
        assert!(table(&[], 80).contains("nodespy record -- node app.js"));
    }
}
