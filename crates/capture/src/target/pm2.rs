//! pm2 and node's own cluster, recognised by the environment a process was started with.
//!
//! Only the few variables below are looked at; the block itself is forgotten at once and stored
//! nowhere, because it is where secrets are. Seen with pm2 7.0.4.

use serde::Deserialize;

use super::proc;

/// The largest environment that is looked at.
const ENVIRONMENT_LIMIT_BYTES: u64 = 4 << 20;
/// The largest number an app or a worker can have.
const NUMBER_LIMIT: u32 = 1_000_000;

/// An app of pm2.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pm2App {
    /// The name it was started under.
    pub name: String,
    /// Its number in `pm2 list`.
    pub id: u32,
    /// Which of the instances of the app it is, from 0.
    pub instance: Option<u32>,
    /// Whether its workers share a port through the daemon.
    pub is_cluster: bool,
    /// The port in its settings.
    pub port: Option<u16>,
    /// The script.
    pub script: Option<String>,
}

/// What manages a process, by its environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Management {
    pub(crate) pm2: Option<Pm2App>,
    /// Whether it is a module of pm2's own.
    pub(crate) is_module: bool,
    /// The number of a worker of node's cluster, from 1.
    pub(crate) worker: Option<u32>,
}

impl Management {
    /// What manages process `pid`; nothing when its environment may not be read.
    pub(crate) fn of(pid: u32) -> Self {
        let block = proc::read_bytes(&proc::path_of(pid, "environ"), ENVIRONMENT_LIMIT_BYTES);
        block.map(|block| Self::parse(&block)).unwrap_or_default()
    }

    fn parse(block: &[u8]) -> Self {
        let variable = |name: &str| {
            let found = block.split(|&byte| byte == 0).find_map(|entry| {
                let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
                Some(String::from_utf8_lossy(value).into_owned())
            });
            found.filter(|value| !value.is_empty())
        };
        let worker = number(variable("NODE_UNIQUE_ID"));
        // In cluster mode everything is in one variable, and the flat ones are the daemon's.
        if let Some(settings) =
            variable("pm2_env").and_then(|text| serde_json::from_str::<ClusterSettings>(&text).ok())
        {
            return Self {
                is_module: settings.pmx_module.as_ref().is_some_and(Loose::is_true),
                pm2: settings.app(),
                worker,
            };
        }
        let flat = || {
            Some(Pm2App {
                id: number(variable("pm_id"))?,
                name: variable("name")?,
                instance: number(variable("NODE_APP_INSTANCE")),
                is_cluster: variable("exec_mode").as_deref() == Some("cluster_mode"),
                port: variable("PORT").and_then(|text| text.parse().ok()),
                script: variable("pm_exec_path"),
            })
        };
        Self {
            pm2: flat(),
            is_module: variable("pmx_module").as_deref() == Some("true"),
            worker,
        }
    }
}

fn number(text: Option<String>) -> Option<u32> {
    text?.parse().ok().filter(|&number| number < NUMBER_LIMIT)
}

/// The settings in the variable `pm2_env`.
#[derive(Deserialize)]
struct ClusterSettings {
    name: Option<Loose>,
    pm_id: Option<Loose>,
    #[serde(rename = "NODE_APP_INSTANCE")]
    instance: Option<Loose>,
    exec_mode: Option<String>,
    pm_exec_path: Option<String>,
    #[serde(rename = "PORT")]
    port: Option<Loose>,
    pmx_module: Option<Loose>,
}

impl ClusterSettings {
    fn app(self) -> Option<Pm2App> {
        Some(Pm2App {
            id: self.pm_id?.number()?,
            name: self.name?.text(),
            instance: self.instance.and_then(|value| value.number()),
            is_cluster: self.exec_mode.as_deref() == Some("cluster_mode"),
            port: self
                .port
                .and_then(|value| u16::try_from(value.number()?).ok()),
            script: self.pm_exec_path,
        })
    }
}

/// A value that is written as a number, as text, or as neither.
#[derive(Deserialize)]
#[serde(untagged)]
enum Loose {
    Number(u32),
    Text(String),
    Truth(bool),
    Other(serde::de::IgnoredAny),
}

impl Loose {
    fn number(&self) -> Option<u32> {
        match self {
            Self::Number(number) => Some(*number).filter(|&number| number < NUMBER_LIMIT),
            Self::Text(text) => number(Some(text.clone())),
            Self::Truth(_) | Self::Other(_) => None,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
            Self::Truth(_) | Self::Other(_) => String::new(),
        }
    }

    fn is_true(&self) -> bool {
        matches!(self, Self::Truth(true)) || matches!(self, Self::Text(text) if text == "true")
    }
}

/// Whether a command line is that of pm2 itself: its daemon, its commands, its helpers.
pub(crate) fn is_pm2_itself(arguments: &[String], script: Option<&str>) -> bool {
    let is_daemon = arguments.first().is_some_and(|title| {
        title
            .strip_prefix("PM2 v")
            .is_some_and(|rest| rest.contains(": God Daemon"))
    });
    is_daemon || script.is_some_and(is_pm2_script)
}

/// Whether a script belongs to pm2. Apps run below its `ProcessContainer` scripts, which put the
/// app's own name in place of theirs a moment later.
fn is_pm2_script(script: &str) -> bool {
    let name = script.rsplit('/').next().unwrap_or(script);
    if name.starts_with("ProcessContainer") {
        return false;
    }
    script.contains("/node_modules/pm2/")
        || script.contains("/node_modules/@pm2/")
        || matches!(name, "pm2" | "pm2-runtime" | "pm2-docker" | "pm2-dev")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_in_fork_mode_is_named_by_its_flat_variables() {
        let block = b"PATH=/bin\0name=forked\0pm_id=3\0NODE_APP_INSTANCE=0\0exec_mode=fork_mode\0\
            pm_exec_path=/app/server.js\0PORT=3001\0SECRET=hush\0";
        let found = Management::parse(block);
        let app = found.pm2.unwrap();
        assert_eq!((app.name.as_str(), app.id), ("forked", 3));
        assert_eq!(app.instance, Some(0));
        assert_eq!(app.port, Some(3001));
        assert!(!app.is_cluster);
        assert_eq!(app.script.as_deref(), Some("/app/server.js"));
        assert!(!found.is_module);
    }

    #[test]
    fn an_app_in_cluster_mode_is_named_by_the_settings_in_one_variable() {
        let block = br#"PORT=1
pm2_env={"name":"clustered","pm_id":2,"NODE_APP_INSTANCE":1,"exec_mode":"cluster_mode","PORT":"3002","env":{"SECRET":"hush"}}
NODE_UNIQUE_ID=2"#;
        let block: Vec<u8> = block
            .iter()
            .map(|&byte| if byte == b'\n' { 0 } else { byte })
            .collect();
        let found = Management::parse(&block);
        let app = found.pm2.unwrap();
        assert_eq!((app.name.as_str(), app.id), ("clustered", 2));
        assert_eq!((app.instance, app.port), (Some(1), Some(3002)));
        assert!(app.is_cluster);
        assert_eq!(found.worker, Some(2));
    }

    #[test]
    fn a_variable_called_name_alone_is_no_app() {
        assert_eq!(
            Management::parse(b"name=x\0HOME=/\0"),
            Management::default()
        );
        assert_eq!(Management::parse(b""), Management::default());
        assert_eq!(
            Management::parse(b"pm2_env={\0NODE_UNIQUE_ID=99999999999\0"),
            Management::default()
        );
    }

    #[test]
    fn modules_of_pm2_are_told_from_apps() {
        let found = Management::parse(b"name=pm2-logrotate\0pm_id=1\0pmx_module=true\0");
        assert!(found.is_module);
    }

    #[test]
    fn pm2_itself_is_known_by_its_title_and_its_scripts() {
        let daemon = ["PM2 v7.0.4: God Daemon (/home/node/.pm2)".to_owned()];
        assert!(is_pm2_itself(&daemon, None));
        for script in [
            "/opt/app/node/lib/node_modules/pm2/lib/HttpInterface.js",
            "/usr/local/bin/pm2-runtime",
            "/usr/lib/node_modules/pm2/bin/pm2",
            "/usr/lib/node_modules/pm2/node_modules/@pm2/agent/src/InteractorClient.js",
        ] {
            assert!(is_pm2_itself(&[], Some(script)), "{script}");
        }
        for script in [
            "/app/server.js",
            "/usr/lib/node_modules/pm2/lib/ProcessContainerFork.js",
            "/srv/pm2-dashboard/index.js",
        ] {
            assert!(!is_pm2_itself(&[], Some(script)), "{script}");
        }
    }
}
