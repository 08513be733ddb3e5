//! What people call an application: its package, else its script.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use super::node_flags;
use super::pm2::{Management, Pm2App};
use super::proc;
use crate::sys::files::{Links, open_below, open_folder};

/// The largest package.json that is read.
const PACKAGE_LIMIT_BYTES: u64 = 4 << 20;

/// What runs in a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct App {
    /// Package name or file name of the script.
    pub(crate) name: String,
    /// The script as it was given on the command line; none for a REPL, `-e` or standard input.
    pub(crate) script: Option<String>,
    /// The version in its package.json.
    pub(crate) version: Option<String>,
    /// The folder of its package.json, as the process sees it.
    pub(crate) folder: Option<PathBuf>,
}

/// What people call the application in process `pid`: pm2's name for it, its package, else its script.
pub fn app_name(pid: u32) -> String {
    let management = Management::of(pid);
    let app = app_with(pid, management.pm2.as_ref());
    match management.pm2 {
        Some(pm2) if !management.is_module => pm2.name,
        _ => app.name,
    }
}

/// What people will call a command that has not started yet.
pub fn app_of_command(command: &[String]) -> String {
    let is_node = command
        .first()
        .is_some_and(|program| super::find::is_node_name(last_part(program)));
    let script = if is_node { script_of(command) } else { None };
    let name = script.as_ref().or(command.first());
    name.map_or_else(|| "node".to_owned(), |name| last_part(name).to_owned())
}

/// What runs in process `pid`, which pm2 may have named already.
pub(crate) fn app_with(pid: u32, pm2: Option<&Pm2App>) -> App {
    let arguments = proc::command_line(pid);
    let script = match pm2.and_then(|app| app.script.clone()) {
        Some(script) => Some(script),
        None if super::looks_like_node(pid) => script_of(&arguments),
        None if super::looks_like_runtime(pid) => script_of(without_command(&arguments).as_ref()),
        None => None,
    };
    let Some(script) = script else {
        let program = arguments.first().map_or("node", String::as_str);
        return App {
            name: last_part(program).to_owned(),
            script: None,
            version: None,
            folder: None,
        };
    };
    let package = package_of(pid, &script);
    let (folder, package) = package.map_or((None, None), |(folder, package)| {
        (Some(folder), Some(package))
    });
    let text = |key: &str| {
        let value = package.as_ref()?.get(key)?.as_str()?;
        (!value.is_empty() && value.len() <= 214).then(|| value.to_owned())
    };
    App {
        name: text("name").unwrap_or_else(|| last_part(&script).to_owned()),
        version: text("version"),
        script: Some(script),
        folder,
    }
}

fn last_part(path: &str) -> &str {
    path.trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or(path)
}

/// The arguments without the command of Deno and Bun that runs a script.
fn without_command(arguments: &[String]) -> Cow<'_, [String]> {
    match arguments {
        [program, command, rest @ ..] if command == "run" => {
            Cow::Owned([std::slice::from_ref(program), rest].concat())
        }
        _ => Cow::Borrowed(arguments),
    }
}

/// The script among the arguments of a node process.
fn script_of(arguments: &[String]) -> Option<String> {
    // pm2 overwrites the whole line with one string: `node /app/server.js`.
    if let [only] = arguments
        && let Some((_, script)) = only.trim_end().split_once(' ')
    {
        return Some(script.to_owned());
    }
    let mut rest = arguments.iter().skip(1);
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            option if node_flags::has_value_next(option) => {
                rest.next();
            }
            "-e" | "--eval" | "-p" | "--print" | "-pe" | "-i" | "--interactive" | "-" => {
                return None;
            }
            "--" => return rest.next().cloned(),
            option if option.starts_with('-') => {}
            script => return Some(script.to_owned()),
        }
    }
    None
}

/// The package.json nearest to the script that has a name, read inside the process's own root, and
/// its folder.
fn package_of(pid: u32, script: &str) -> Option<(PathBuf, serde_json::Value)> {
    let root = open_folder(&proc::path_of(pid, "root")).ok()?;
    let script = if script.starts_with('/') {
        PathBuf::from(script)
    } else {
        // The link's text is relative to the process's root for containers.
        std::fs::read_link(proc::path_of(pid, "cwd"))
            .ok()?
            .join(script)
    };
    let script = normalized(&script);
    script.ancestors().skip(1).take(6).find_map(|folder| {
        let package = read_package(&root, &folder.join("package.json"))?;
        Some((folder.to_owned(), package))
    })
}

fn read_package(root: &OwnedFd, path: &Path) -> Option<serde_json::Value> {
    let file: File = open_below(root, path, Links::InRoot).ok()?;
    let mut text = Vec::new();
    file.take(PACKAGE_LIMIT_BYTES).read_to_end(&mut text).ok()?;
    let package: serde_json::Value = serde_json::from_slice(&text).ok()?;
    package.get("name")?.as_str()?;
    Some(package)
}

fn normalized(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(line: &str) -> Option<String> {
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        script_of(&arguments)
    }

    #[test]
    fn the_script_is_found_behind_options() {
        assert_eq!(script("node app.js").as_deref(), Some("app.js"));
        assert_eq!(
            script("node --max-old-space-size=4096 -r dotenv/config src/app.js --port 3")
                .as_deref(),
            Some("src/app.js")
        );
        assert_eq!(script("node -e while(1);"), None);
        assert_eq!(script("node"), None);
        let deno = ["deno", "run", "-A", "main.ts"].map(str::to_owned);
        let script_of_deno = script_of(&without_command(&deno));
        assert_eq!(script_of_deno.as_deref(), Some("main.ts"));
        assert_eq!(script("node -- -odd.js").as_deref(), Some("-odd.js"));
        assert_eq!(
            script_of(&["node /app/server.js   ".to_owned()]).as_deref(),
            Some("/app/server.js")
        );
    }
}
