//! The files in which container runtimes keep what they run, for when no engine answers.
//!
//! They belong to root, so what they say is as good as the engine's word; sizes are capped all the
//! same. Places are the defaults of Docker 20.10, podman 4.3 and containerd 1.6.

use std::path::Path;

use serde_json::Value;

use super::Container;
use crate::target::cgroup::Runtime;
use crate::target::proc;

/// The largest file that is read.
const FILE_LIMIT_BYTES: u64 = 16 << 20;

const DOCKER: &str = "var/lib/docker/containers";
const PODMAN: [&str; 2] = [
    "var/lib/containers/storage/overlay-containers/containers.json",
    "run/containers/storage/overlay-containers/containers.json",
];
const CONTAINERD: [&str; 3] = [
    "run/containerd/io.containerd.runtime.v2.task",
    "run/k3s/containerd/io.containerd.runtime.v2.task",
    "var/snap/microk8s/common/run/containerd/io.containerd.runtime.v2.task",
];
/// CRI-O keeps the same file with its containers.
const CRI_O: &str = "run/containers/storage/overlay-containers";

/// Adds the names in files to a container of which only the id is known.
pub(super) fn complete(container: &mut Container) {
    complete_below(Path::new("/"), container);
    if container.name.is_none() {
        container.name = conmon_name(&container.id);
        if container.name.is_some() {
            container.runtime = Runtime::Podman;
        }
    }
}

fn complete_below(root: &Path, container: &mut Container) {
    // The id becomes part of a path: it must be one.
    if !container.id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return;
    }
    let _ = from_docker(root, container)
        .or_else(|| from_containerd(root, container))
        .or_else(|| from_podman(root, container));
}

fn read_json(path: &Path) -> Option<Value> {
    let bytes = proc::read_bytes(path, FILE_LIMIT_BYTES)?;
    serde_json::from_slice(&bytes).ok()
}

fn text_at(value: &Value, pointer: &str) -> Option<String> {
    let text = value.pointer(pointer)?.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

fn from_docker(root: &Path, container: &mut Container) -> Option<()> {
    let file = root.join(DOCKER).join(&container.id).join("config.v2.json");
    let config = read_json(&file)?;
    let label = |name: &str| text_at(config.pointer("/Config/Labels")?, &format!("/{name}"));
    container.runtime = Runtime::Docker;
    container.name = label("io.kubernetes.container.name")
        .or_else(|| text_at(&config, "/Name").map(|name| name.trim_start_matches('/').to_owned()));
    container.image = text_at(&config, "/Config/Image");
    container.pod = label("io.kubernetes.pod.name");
    container.namespace = label("io.kubernetes.pod.namespace");
    Some(())
}

/// The annotations that Kubernetes' runtimes leave in the container's own settings.
fn from_containerd(root: &Path, container: &mut Container) -> Option<()> {
    let tasks = CONTAINERD.iter().flat_map(|place| {
        let namespaces = std::fs::read_dir(root.join(place)).into_iter().flatten();
        namespaces
            .take(1000)
            .filter_map(|entry| Some(entry.ok()?.path().join(&container.id).join("config.json")))
            .collect::<Vec<_>>()
    });
    let cri_o = root.join(CRI_O).join(&container.id);
    let cri_o = cri_o.join("userdata/config.json");
    let config = tasks
        .chain(std::iter::once(cri_o))
        .find_map(|path| read_json(&path))?;
    let note = |names: [&str; 2]| {
        let notes = config.get("annotations")?;
        names
            .iter()
            .find_map(|name| Some(notes.get(*name)?.as_str()?.to_owned()))
    };
    container.name = note([
        "io.kubernetes.cri.container-name",
        "io.kubernetes.container.name",
    ]);
    container.pod = note(["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]);
    container.namespace = note([
        "io.kubernetes.cri.sandbox-namespace",
        "io.kubernetes.pod.namespace",
    ]);
    container.image = note([
        "io.kubernetes.cri.image-name",
        "io.kubernetes.cri-o.ImageName",
    ]);
    container.name.is_some().then_some(())
}

fn from_podman(root: &Path, container: &mut Container) -> Option<()> {
    let row = PODMAN.iter().find_map(|place| {
        let rows = read_json(&root.join(place))?;
        let is_it = |row: &&Value| row.get("id").and_then(Value::as_str) == Some(&container.id);
        rows.as_array()?.iter().find(is_it).cloned()
    })?;
    container.runtime = Runtime::Podman;
    container.name = text_at(&row, "/names/0");
    // Its notes are JSON inside a text.
    let notes = text_at(&row, "/metadata")
        .and_then(|notes| serde_json::from_str::<Value>(&notes).ok())
        .unwrap_or_default();
    container.image = text_at(&notes, "/image-name");
    Some(())
}

/// The name on the command line of podman's watcher: `conmon … -c <id> … -n NAME`.
fn conmon_name(id: &str) -> Option<String> {
    proc::processes().into_iter().find_map(|pid| {
        let exe = proc::exe(pid)?;
        if exe.file_name()?.to_str()? != "conmon" {
            return None;
        }
        name_in_conmon(&proc::command_line(pid), id)
    })
}

fn name_in_conmon(arguments: &[String], id: &str) -> Option<String> {
    let after = |option: &str| {
        let at = arguments.iter().position(|argument| argument == option)?;
        arguments.get(at + 1)
    };
    (after("-c")? == id).then(|| after("-n").cloned())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A root with one file in it, removed when the test is over.
    struct Root(std::path::PathBuf);

    impl Root {
        fn with(name: &str, file: &str, content: &str) -> Self {
            let root =
                std::env::temp_dir().join(format!("nodespy-state-{name}-{}", std::process::id()));
            let file = root.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
            Self(root)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn completed(root: &Root, id: &str) -> Container {
        let mut container = Container::new(id, Runtime::Unknown);
        complete_below(&root.0, &mut container);
        container
    }

    #[test]
    fn docker_names_its_containers() {
        let id = "12".repeat(32);
        let root = Root::with(
            "docker",
            &format!("{DOCKER}/{id}/config.v2.json"),
            r#"{"Name":"/pm2d","State":{"Pid":7},"Config":{"Image":"shop:2","Labels":{}}}"#,
        );
        let found = completed(&root, &id);
        assert_eq!(found.name.as_deref(), Some("pm2d"));
        assert_eq!(found.image.as_deref(), Some("shop:2"));
        assert_eq!(found.runtime, Runtime::Docker);
    }

    #[test]
    fn a_pod_is_in_the_annotations_of_its_container() {
        let id = "34".repeat(32);
        let root = Root::with(
            "containerd",
            &format!("{}/k8s.io/{id}/config.json", CONTAINERD[0]),
            r#"{"annotations":{"io.kubernetes.cri.container-name":"api",
                "io.kubernetes.cri.sandbox-name":"api-7d9f-x2","io.kubernetes.cri.sandbox-namespace":"shop",
                "io.kubernetes.cri.image-name":"registry/api:3"}}"#,
        );
        let found = completed(&root, &id);
        assert_eq!(found.title(), "shop/api-7d9f-x2:api");
        assert_eq!(found.image.as_deref(), Some("registry/api:3"));
    }

    #[test]
    fn podman_names_its_containers() {
        let id = "56".repeat(32);
        let root = Root::with(
            "podman",
            PODMAN[0],
            &format!(
                r#"[{{"id":"other","names":["x"]}},{{"id":"{id}","names":["w"],"metadata":"{{\"image-name\":\"localhost/n\"}}"}}]"#
            ),
        );
        let found = completed(&root, &id);
        assert_eq!(found.name.as_deref(), Some("w"));
        assert_eq!(found.image.as_deref(), Some("localhost/n"));
        assert_eq!(found.runtime, Runtime::Podman);
    }

    #[test]
    fn an_id_that_is_a_path_is_not_followed() {
        let root = Root::with("evil", "var/lib/docker/config.v2.json", r#"{"Name":"/x"}"#);
        assert_eq!(completed(&root, "..").name, None);
    }

    #[test]
    fn the_watcher_of_a_podman_container_knows_its_name() {
        let line =
            "conmon --api-version 1 -c 5656 -u 5656 -r /usr/sbin/runc -n web -p /run/pidfile";
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        assert_eq!(name_in_conmon(&arguments, "5656").as_deref(), Some("web"));
        assert_eq!(name_in_conmon(&arguments, "9999"), None);
    }
}
