//! The two questions an inspector answers over plain HTTP: which version, and which page.
//!
//! Node keeps the connection open after its answer, so the length it announces is read and not a
//! byte more (seen on 12 to 26).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::InspectorError;

/// More than any answer to these questions.
const LARGEST_ANSWER: u64 = 1 << 20;
/// More than any header.
const LARGEST_HEADER: u64 = 64 << 10;

/// What can be attached to: for Node always one, its main thread.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    /// Always `node`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The script that was started.
    #[serde(default)]
    pub title: String,
    /// Where to attach. Node 8 leaves it out while somebody else is attached.
    pub web_socket_debugger_url: Option<String>,
}

impl Page {
    /// The part of the address after the host.
    pub fn path(&self) -> Option<&str> {
        let address = self.web_socket_debugger_url.as_deref()?;
        let rest = address.strip_prefix("ws://")?;
        rest.find('/').map(|slash| &rest[slash..])
    }
}

/// The version of Node behind an inspector, such as `v20.20.2`.
pub fn version(
    stream: &TcpStream,
    host: &str,
    patience: Duration,
) -> Result<String, InspectorError> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(rename = "Browser", default)]
        browser: String,
    }
    let answer: Answer = get(stream, host, "/json/version", patience)?;
    match answer.browser.strip_prefix("node.js/") {
        Some(version) if version.starts_with('v') => Ok(version.to_owned()),
        _ => Err(InspectorError::NotNode {
            what: format!("it calls itself {:?}", answer.browser),
        }),
    }
}

/// What can be attached to.
pub fn list(
    stream: &TcpStream,
    host: &str,
    patience: Duration,
) -> Result<Vec<Page>, InspectorError> {
    get(stream, host, "/json/list", patience)
}

fn get<T: for<'a> Deserialize<'a>>(
    stream: &TcpStream,
    host: &str,
    path: &str,
    patience: Duration,
) -> Result<T, InspectorError> {
    let deadline = Instant::now() + patience;
    stream
        .set_read_timeout(Some(patience))
        .map_err(InspectorError::Broken)?;
    let mut writer = stream;
    write!(writer, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
        .map_err(InspectorError::Broken)?;
    let body = answer(&mut BufReader::with_capacity(4096, stream), deadline)?;
    serde_json::from_slice(&body).map_err(|error| InspectorError::NotNode {
        what: format!("its answer to {path} is no JSON ({error})"),
    })
}

/// Reads one answer. The reader is thrown away afterwards, which loses nothing: Node says nothing
/// that it was not asked for.
fn answer(reader: &mut dyn BufRead, deadline: Instant) -> Result<Vec<u8>, InspectorError> {
    let mut header = reader.take(LARGEST_HEADER);
    let mut line = String::new();
    let mut length = None;
    let mut is_first = true;
    loop {
        if Instant::now() > deadline {
            return Err(InspectorError::Late {
                method: "an HTTP request",
                after: Duration::ZERO,
            });
        }
        line.clear();
        if header
            .read_line(&mut line)
            .map_err(InspectorError::Broken)?
            == 0
        {
            return Err(InspectorError::Closed);
        }
        let text = line.trim();
        if is_first && !(text.starts_with("HTTP/1.") && text.contains(" 200")) {
            return Err(InspectorError::NotNode {
                what: format!("it answers {:?}", text.chars().take(80).collect::<String>()),
            });
        }
        is_first = false;
        if text.is_empty() {
            break;
        }
        if let Some((key, value)) = text.split_once(':')
            && key.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse::<u64>().ok();
        }
    }
    let length = length.filter(|length| *length <= LARGEST_ANSWER);
    let Some(length) = length else {
        return Err(InspectorError::NotNode {
            what: "its answer has no sensible length".to_owned(),
        });
    };
    let mut body = Vec::new();
    reader
        .take(length)
        .read_to_end(&mut body)
        .map_err(InspectorError::Broken)?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<u8>, InspectorError> {
        let deadline = Instant::now() + Duration::from_secs(5);
        answer(&mut text.as_bytes(), deadline)
    }

    #[test]
    fn an_answer_is_as_long_as_it_says() {
        let text = "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}next";
        assert_eq!(read(text).unwrap(), b"{}");
    }

    #[test]
    fn other_servers_are_not_believed() {
        for text in [
            "HTTP/1.1 404 Not Found\r\n\r\n",
            "HTTP/1.0 200 OK\r\n\r\nno length",
            "HTTP/1.0 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            "SSH-2.0-OpenSSH\r\n",
            "",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_path_of_a_page_is_what_follows_the_host() {
        let page = |address: &str| Page {
            kind: "node".to_owned(),
            title: String::new(),
            web_socket_debugger_url: Some(address.to_owned()),
        };
        assert_eq!(page("ws://127.0.0.1:9229/a-b").path(), Some("/a-b"));
        assert_eq!(page("http://127.0.0.1/x").path(), None);
    }
}
