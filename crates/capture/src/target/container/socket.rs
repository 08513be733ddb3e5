//! Container engines, asked over their unix sockets: HTTP with one question and one answer.
//!
//! Docker and podman answer `/containers/json` alike (Docker 20.10 and podman 4.3). Paths carry no
//! version: newer engines refuse old ones.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use serde::Deserialize;

use super::Container;
use crate::target::cgroup::Runtime;

/// How long an engine is waited for.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The largest answer that is read: some 10,000 containers.
const ANSWER_LIMIT_BYTES: u64 = 32 << 20;

/// A container as the engine reports it.
#[derive(Deserialize)]
struct Row {
    #[serde(rename = "Id")]
    id: String,
    #[serde(rename = "Names", default)]
    names: Option<Vec<String>>,
    #[serde(rename = "Image", default)]
    image: Option<String>,
    #[serde(rename = "State", default)]
    state: Option<String>,
    #[serde(rename = "Labels", default)]
    labels: Option<std::collections::HashMap<String, String>>,
}

/// The containers of every engine that answers.
pub(super) fn containers() -> Vec<Container> {
    let mut found = Vec::new();
    for path in sockets() {
        match ask(path.clone(), "/containers/json?all=1") {
            Ok(answer) => found.extend(parse(&answer)),
            Err(error) => log::debug!("{}: {error}", path.display()),
        }
    }
    found
}

/// Where engines listen: where the environment says, else at the usual places.
fn sockets() -> Vec<PathBuf> {
    let named = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mut paths = Vec::new();
    for (variable, usual) in [
        ("DOCKER_HOST", "/var/run/docker.sock"),
        ("CONTAINER_HOST", "/run/podman/podman.sock"),
    ] {
        match named(variable) {
            None => paths.push(PathBuf::from(usual)),
            Some(address) => match address.strip_prefix("unix://") {
                Some(path) => paths.push(PathBuf::from(path)),
                None => log::info!(
                    "{variable} is {address}: the containers of another machine are not asked for"
                ),
            },
        }
    }
    if let Some(folder) = named("XDG_RUNTIME_DIR").map(PathBuf::from) {
        paths.extend([
            folder.join("docker.sock"),
            folder.join("podman/podman.sock"),
        ]);
    }
    paths
}

/// Asks one question. The asking thread is left behind when the engine does not answer in time.
fn ask(socket: PathBuf, path: &'static str) -> std::io::Result<Vec<u8>> {
    let (sender, answer) = mpsc::channel();
    std::thread::Builder::new()
        .name("nodespy-engine".to_owned())
        .spawn(move || {
            let _ = sender.send(exchange(&socket, path));
        })?;
    answer
        .recv_timeout(TIMEOUT)
        .unwrap_or_else(|_| Err(std::io::Error::other("it does not answer")))
}

fn exchange(socket: &std::path::Path, path: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    // HTTP/1.0: the answer is not chunked and ends with the connection.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: nodespy\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(ANSWER_LIMIT_BYTES).read_to_end(&mut answer)?;
    body_of(answer)
}

/// What follows the head of an answer that went well.
fn body_of(mut answer: Vec<u8>) -> std::io::Result<Vec<u8>> {
    let status = answer.split(|&byte| byte == b'\r').next();
    let status = String::from_utf8_lossy(status.unwrap_or_default()).into_owned();
    if status.split(' ').nth(1) != Some("200") {
        return Err(std::io::Error::other(format!("it answered {status:?}")));
    }
    let head = memchr::memmem::find(&answer, b"\r\n\r\n")
        .ok_or_else(|| std::io::Error::other("its answer has no end of the head"))?;
    Ok(answer.split_off(head + 4))
}

fn parse(answer: &[u8]) -> Vec<Container> {
    let rows: Vec<Row> = serde_json::from_slice(answer).unwrap_or_default();
    rows.into_iter().filter_map(container).collect()
}

fn container(row: Row) -> Option<Container> {
    let is_id = row.id.len() == 64 && row.id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_id {
        return None;
    }
    let labels = row.labels.unwrap_or_default();
    let label = |name: &str| labels.get(name).cloned();
    let name = row.names.and_then(|names| names.into_iter().next());
    Some(Container {
        name: label("io.kubernetes.container.name")
            .or_else(|| name.map(|name| name.trim_start_matches('/').to_owned())),
        image: row.image,
        pod: label("io.kubernetes.pod.name"),
        namespace: label("io.kubernetes.pod.namespace"),
        is_running: row.state.is_none_or(|state| state == "running"),
        ..Container::new(&row.id, Runtime::Docker)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_read_from_an_answer() {
        let id = "ab".repeat(32);
        let body = format!(
            r#"[{{"Id":"{id}","Names":["/web"],"Image":"shop:1","State":"running","Labels":null}},
                {{"Id":"../../etc","Names":null}}]"#
        );
        let answer = format!("HTTP/1.0 200 OK\r\nServer: Docker\r\n\r\n{body}");
        let found = parse(&body_of(answer.into_bytes()).unwrap());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name.as_deref(), Some("web"));
        assert_eq!(found[0].image.as_deref(), Some("shop:1"));
        assert!(found[0].is_running);
    }

    #[test]
    fn an_answer_that_went_wrong_is_none() {
        let answer = b"HTTP/1.0 404 Not Found\r\n\r\n[]".to_vec();
        assert!(body_of(answer).unwrap_err().to_string().contains("404"));
        assert!(body_of(Vec::new()).is_err());
        assert!(parse(b"{").is_empty());
    }

    #[test]
    fn an_engine_that_never_answers_is_not_waited_for_long() {
        let folder = std::env::temp_dir().join(format!("nodespy-socket-{}", std::process::id()));
        let _ = std::fs::remove_file(&folder);
        let listener = std::os::unix::net::UnixListener::bind(&folder).unwrap();
        let started = std::time::Instant::now();
        assert!(ask(folder.clone(), "/").is_err());
        assert!(started.elapsed() < Duration::from_secs(10));
        drop(listener);
        let _ = std::fs::remove_file(folder);
    }
}
