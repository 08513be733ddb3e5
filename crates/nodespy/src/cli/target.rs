//! The ways to say which processes a command is about, the same for every command.

use clap::Args;
use nodespy_capture::target::Wanted;

/// Which processes. Given together they narrow one another.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Target", group = clap::ArgGroup::new("target").multiple(true))]
pub(crate) struct TargetArgs {
    /// A running application, by script, package, pm2 name or pid
    #[arg(value_name = "NAME", group = "target")]
    pub(crate) name: Option<String>,
    /// Process ids, separated by commas
    #[arg(
        short,
        long,
        value_name = "PID",
        value_delimiter = ',',
        group = "target",
        conflicts_with_all = ["name", "container", "pod", "pm2", "listens_on", "cgroup", "all"]
    )]
    pub(crate) pid: Vec<u32>,
    /// The Node.js processes of a container, by its name, its id or a prefix of it
    #[arg(short, long, value_name = "NAME|ID", group = "target")]
    pub(crate) container: Option<String>,
    /// The Node.js processes of a pod, by its name or a prefix of it
    #[arg(long, value_name = "[NS/]POD[:CONTAINER]", group = "target")]
    pub(crate) pod: Option<String>,
    /// A pm2 app, by name or id
    #[arg(long, value_name = "APP|ID", group = "target")]
    pub(crate) pm2: Option<String>,
    /// The process that listens on a port
    #[arg(
        long = "port",
        id = "listens_on",
        value_name = "PORT",
        group = "target"
    )]
    pub(crate) port: Option<u16>,
    /// The Node.js processes of a control group and its descendants
    #[arg(long, value_name = "PATH", group = "target")]
    pub(crate) cgroup: Option<String>,
    /// Every Node.js process of this machine
    #[arg(short, long, group = "target")]
    pub(crate) all: bool,
    /// Also accept processes that are not Node.js
    #[arg(long)]
    pub(crate) any: bool,
}

impl TargetArgs {
    /// What is wanted. A name that is a number is a pid, unless something else was said too.
    pub(crate) fn wanted(&self) -> Wanted {
        let mut wanted = Wanted {
            pids: self.pid.clone(),
            name: self.name.clone(),
            container: self.container.clone(),
            pod: self.pod.clone(),
            pm2: self.pm2.clone(),
            port: self.port,
            cgroup: self.cgroup.clone(),
            all: self.all,
            any: self.any,
        };
        let pid = self.name.as_deref().and_then(|name| name.parse().ok());
        let is_alone = Wanted {
            name: None,
            ..wanted.clone()
        }
        .is_empty();
        if let (Some(pid), true) = (pid, is_alone) {
            wanted.name = None;
            wanted.pids.push(pid);
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        target: TargetArgs,
    }

    fn wanted(line: &str) -> Wanted {
        let words = std::iter::once("nodespy").chain(line.split(' '));
        Line::try_parse_from(words).unwrap().target.wanted()
    }

    #[test]
    fn a_number_is_a_pid_and_a_word_is_a_name() {
        assert_eq!(wanted("1234").pids, [1234]);
        assert_eq!(wanted("-p 12,34").pids, [12, 34]);
        assert_eq!(wanted("api").name.as_deref(), Some("api"));
        let narrowed = wanted("api -c web --port 3000");
        assert_eq!(narrowed.name.as_deref(), Some("api"));
        assert_eq!(narrowed.container.as_deref(), Some("web"));
        assert_eq!(narrowed.port, Some(3000));
        assert!(wanted("--any").is_empty());
        assert!(!wanted("-a").is_empty());
    }

    #[test]
    fn pids_stand_alone() {
        let line = ["nodespy", "-p", "1", "-c", "web"];
        assert!(Line::try_parse_from(line).is_err());
    }
}
