//! The list for people: a group for each container, a line for each process.

use nodespy_capture::target::{Program, Resident};
use nodespy_capture::{NodeProcess, Way};
use nodespy_model::{JsRuntime, SmallSort, printable};

/// The whole list, and what to type next.
pub(super) fn draw(processes: &[NodeProcess], width: usize) -> String {
    if processes.is_empty() {
        return "No Node.js process runs on this machine.\n\n\
                Start and record one:  nodespy record -- node app.js\n"
            .to_owned();
    }
    let mut text = format!(
        "{:>7}  {:>5}  {:<10}  {:<9}  {:<8}  APP\n",
        "PID", "CPU %", "RUNTIME", "ENGINE", "USER"
    );
    for (place, members) in groups(processes) {
        if let Some(place) = place {
            text.push_str(&cut(&place, width));
            text.push('\n');
        }
        for process in members {
            text.push_str(&line(process, width));
            text.push('\n');
        }
    }
    text.push_str(&next_step(processes));
    text
}

/// The processes by place, the busiest place first, in each those of an app of pm2 together. With
/// one place only, this machine, the place is not worth a line.
fn groups(processes: &[NodeProcess]) -> Vec<(Option<String>, Vec<&NodeProcess>)> {
    let mut groups: Vec<(String, Vec<&NodeProcess>)> = Vec::new();
    for process in processes {
        let place = place(&process.resident);
        match groups.iter_mut().find(|(known, _)| *known == place) {
            Some((_, members)) => members.push(process),
            None => groups.push((place, vec![process])),
        }
    }
    let is_one_place = groups.len() == 1 && processes[0].resident.place().is_none();
    groups
        .into_iter()
        .map(|(place, members)| ((!is_one_place).then_some(place), by_app(members)))
        .collect()
}

/// Keeps the order of the busiest of each app; pm2 itself comes last.
fn by_app(members: Vec<&NodeProcess>) -> Vec<&NodeProcess> {
    let mut names: Vec<&str> = Vec::new();
    for process in &members {
        let name = process.resident.name();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut ordered = members;
    ordered.small_sort_by_key(|process| {
        let name = process.resident.name();
        let position = names.iter().position(|known| *known == name);
        (process.resident.is_pm2_itself, position)
    });
    ordered
}

/// `web (docker 3f2a90c1d4e5, shop:1)`.
fn place(resident: &Resident) -> String {
    let Some(container) = &resident.container else {
        return resident
            .place()
            .unwrap_or_else(|| "outside of containers".to_owned());
    };
    let image = container.image.as_deref();
    let image = image.map_or_else(String::new, |image| format!(", {image}"));
    let text = format!(
        "{} ({} {}{image})",
        container.title(),
        container.runtime.label(),
        container.short_id(),
    );
    printable(&text).into_owned()
}

fn line(process: &NodeProcess, width: usize) -> String {
    let start = format!(
        "{:>7}  {:>5.1}  {:<10}  {:<9}  {:<8}  ",
        process.resident.pid,
        process.cpu_percent,
        printable(&runtime(process)),
        process.way.engine().unwrap_or("refused"),
        printable(&process.user),
    );
    let room = width.saturating_sub(start.chars().count());
    format!("{start}{}", cut(&app(&process.resident), room))
}

/// `v20.20.2` of Node, `Bun 1.4.4` of others.
fn runtime(process: &NodeProcess) -> String {
    match &process.program {
        None => "?".to_owned(),
        Some(Program {
            runtime: JsRuntime::Node,
            version,
        }) => version.clone().unwrap_or_else(|| "?".to_owned()),
        Some(other) => other.title(),
    }
}

/// `api (/srv/api/server.js), pm2 3, worker 2`.
fn app(resident: &Resident) -> String {
    let name = resident.name();
    let mut text = match &resident.script {
        Some(script) if script.ends_with(name) => script.clone(),
        Some(script) => format!("{name} ({script})"),
        None => name.to_owned(),
    };
    match &resident.pm2 {
        _ if resident.is_pm2_itself => text.push_str(", pm2 itself"),
        Some(app) => text.push_str(&format!(", pm2 {}", app.id)),
        None => {}
    }
    if let Some(worker) = resident.worker {
        text.push_str(&format!(", worker {worker}"));
    }
    printable(&text).into_owned()
}

fn next_step(processes: &[NodeProcess]) -> String {
    let is_app = |process: &&NodeProcess| !process.resident.is_pm2_itself;
    let next = processes.iter().find(is_app).unwrap_or(&processes[0]);
    let sudo = match next.way {
        Way::Perf | Way::Inspector => "",
        Way::Refused { .. } => "sudo ",
    };
    let container = next.resident.container.as_ref();
    let words = match container.and_then(|container| container.name.as_deref()) {
        Some(name) if is_plain(name) => format!("-c {name}"),
        _ => format!("-p {}", next.resident.pid),
    };
    format!("\nRecord the busiest for 30 seconds:  {sudo}nodespy record {words} -d 30\n")
}

/// Whether a name can be typed as it is.
fn is_plain(name: &str) -> bool {
    name.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// The text, its start cut off where it would not fit: the end of a path says most.
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
    use nodespy_capture::target::{Container, Pm2App, Runtime};

    fn process(pid: u32, name: &str) -> NodeProcess {
        NodeProcess {
            resident: Resident {
                pid,
                start_time: 1,
                uid: 1000,
                parent_pid: 1,
                inner_pid: pid,
                threads: 11,
                app: name.to_owned(),
                script: Some("/srv/api/server.js".to_owned()),
                pm2: None,
                worker: None,
                is_pm2_itself: false,
                container: None,
                pid_namespace: None,
            },
            program: Some(Program {
                runtime: JsRuntime::Node,
                version: Some("v20.20.2".to_owned()),
            }),
            user: "deploy".to_owned(),
            cpu_percent: 99.3,
            way: Way::Perf,
        }
    }

    fn container(name: &str) -> Container {
        Container {
            id: "ab".repeat(32),
            runtime: Runtime::Docker,
            name: Some(name.to_owned()),
            image: Some("shop:1".to_owned()),
            pod: None,
            namespace: None,
            is_running: true,
        }
    }

    #[test]
    fn the_list_says_what_to_type_next() {
        let mut refused = process(42, "api");
        refused.way = Way::Refused {
            why: "no".to_owned(),
        };
        let text = draw(&[refused], 100);
        assert!(text.contains("api (/srv/api/server.js)"), "{text}");
        assert!(text.contains("sudo nodespy record -p 42 -d 30"), "{text}");
        assert!(!text.contains("outside of containers"), "{text}");
        assert!(draw(&[], 80).contains("nodespy record -- node app.js"));
    }

    #[test]
    fn runtimes_are_said_by_name() {
        let mut bun = process(42, "api");
        bun.program = Some(Program {
            runtime: JsRuntime::Bun,
            version: Some("1.4.4".to_owned()),
        });
        let mut unknown = process(43, "api");
        unknown.program = None;
        let text = draw(&[bun, process(44, "api"), unknown], 100);
        let found = |word: &str| text.lines().filter(|line| line.contains(word)).count();
        assert_eq!(found("  Bun 1.4.4   perf"), 1, "{text}");
        assert_eq!(found("  v20.20.2    perf"), 1, "{text}");
        assert_eq!(found("  ?           perf"), 1, "{text}");
    }

    #[test]
    fn containers_and_apps_of_pm2_stand_together() {
        let pm2 = |pid, id| {
            let mut found = process(pid, "server.js");
            found.resident.container = Some(container("web"));
            found.resident.worker = Some(id + 1);
            found.resident.pm2 = Some(Pm2App {
                name: "shop".to_owned(),
                id,
                ..Pm2App::default()
            });
            found
        };
        let mut daemon = process(9, "PM2 v7");
        daemon.resident.container = Some(container("web"));
        daemon.resident.is_pm2_itself = true;
        let list = [pm2(2, 0), daemon, process(7, "other"), pm2(3, 1)];
        let text = draw(&list, 120);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "web (docker abababababab, shop:1)");
        assert!(lines[2].ends_with("shop (/srv/api/server.js), pm2 0, worker 1"));
        assert!(lines[3].ends_with("shop (/srv/api/server.js), pm2 1, worker 2"));
        assert!(lines[4].ends_with("pm2 itself"), "{text}");
        assert_eq!(lines[5], "outside of containers");
        assert!(text.ends_with("nodespy record -c web -d 30\n"), "{text}");
    }

    #[test]
    fn names_can_not_steer_the_terminal() {
        let mut evil = process(1, "\x1b[2Jgone\r\n");
        evil.resident.container = Some(container("\x1b]0;title\x07"));
        let text = draw(&[evil], 120);
        assert!(!text.contains(['\x1b', '\r', '\x07']), "{text:?}");
        assert!(text.ends_with("nodespy record -p 1 -d 30\n"), "{text}");
    }
}
