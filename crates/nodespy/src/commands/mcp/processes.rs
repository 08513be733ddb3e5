//! The list of processes, as an assistant gets it.

use nodespy_analysis::redact_paths;
use serde_json::{Map, Value};

/// What of `nodespy list --json` says nothing about the machine and its users.
const KEPT: [&str; 12] = [
    "pid",
    "app",
    "node_version",
    "runtime",
    "runtime_version",
    "cpu_percent",
    "threads",
    "permitted",
    "engine",
    "pm2",
    "is_pm2_itself",
    "worker",
];

/// The list without users, container ids and folders: of scripts and images their last name is left.
pub(super) fn redacted(list: &Value) -> Value {
    let processes = list["processes"].as_array();
    let processes = processes.into_iter().flatten().map(redacted_process);
    serde_json::json!({ "processes": processes.collect::<Vec<_>>() })
}

fn redacted_process(process: &Value) -> Value {
    let mut fields = Map::new();
    let mut set = |key: &str, value: Value| {
        if !value.is_null() {
            fields.insert(key.to_owned(), value);
        }
    };
    for key in KEPT {
        set(key, process[key].clone());
    }
    set("app", last_name(&process["app"]));
    set("script", last_name(&process["script"]));
    let refused = process["refused"].as_str().map(redact_paths);
    set("refused", refused.into());
    let container = &process["container"];
    if container.is_object() {
        let mut place = Map::new();
        for key in ["runtime", "name", "pod", "namespace"] {
            place.insert(key.to_owned(), container[key].clone());
        }
        place.insert("image".to_owned(), last_name(&container["image"]));
        place.retain(|_, value| !value.is_null());
        set("container", place.into());
    }
    fields.into()
}

/// `/srv/shop/server.js` is `server.js`, `registry.internal/team/shop:1` is `shop:1`.
fn last_name(path: &Value) -> Value {
    let name = path.as_str().and_then(|path| path.rsplit('/').next());
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_reveals_the_machine_is_left_out() {
        let list = json!({ "schema": "nodespy.list", "processes": [{
            "pid": 42, "start_time_ticks": 7, "app": "shop", "script": "/home/ann/shop/server.js", "user": "ann",
            "node_version": "v20.20.2", "refused": "run sudo setcap x+ep /home/ann/bin/nodespy (once)", "worker": null,
            "container": { "id": "abab", "name": "web", "image": "registry.internal/team/shop:1", "pod": null },
        }] });
        let expected = json!({ "processes": [{
            "pid": 42, "app": "shop", "script": "server.js", "node_version": "v20.20.2",
            "refused": "run sudo setcap x+ep nodespy (once)",
            "container": { "name": "web", "image": "shop:1" },
        }] });
        assert_eq!(redacted(&list), expected);
        assert_eq!(redacted(&json!(3)), json!({ "processes": [] }));
    }
}
