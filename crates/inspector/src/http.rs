//! The two questions an inspector answers over plain HTTP: which version, and which page.
//!
//! Node keeps the connection open after its answer, so the length it announces is read and not a
//! byte more (seen on 12 to 26).

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde::Deserialize;

use crate::stream::DeadlineStream;
use crate::{InspectorError, Wait};

/// More than any answer to these questions.
const MAX_ANSWER_BYTES: u64 = 1 << 20;
/// More than any header.
const MAX_HEADER_BYTES: u64 = 64 << 10;
const REQUEST: &str = "an HTTP request";

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
    /// Where to attach. Node 8 leaves it out while another client is attached.
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
pub fn version(stream: &TcpStream, host: &str, wait: &Wait) -> Result<String, InspectorError> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(rename = "Browser", default)]
        browser: String,
    }
    let answer: Answer = get(stream, host, "/json/version", wait)?;
    match answer.browser.strip_prefix("node.js/") {
        Some(version) if version.starts_with('v') => Ok(version.to_owned()),
        _ => Err(InspectorError::NotNode {
            what: format!("it calls itself {:?}", shorten(&answer.browser)),
        }),
    }
}

/// What can be attached to.
pub fn list(stream: &TcpStream, host: &str, wait: &Wait) -> Result<Vec<Page>, InspectorError> {
    get(stream, host, "/json/list", wait)
}

fn get<T: for<'a> Deserialize<'a>>(
    stream: &TcpStream,
    host: &str,
    path: &str,
    wait: &Wait,
) -> Result<T, InspectorError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::TimedOut => wait.expired(REQUEST),
        _ => InspectorError::Broken(error),
    };
    let stream = stream.try_clone().map_err(InspectorError::Broken)?;
    let mut stream = DeadlineStream::new(stream, wait);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").map_err(failed)?;
    let body =
        answer(&mut BufReader::with_capacity(4096, stream)).map_err(|error| match error {
            InspectorError::Broken(error) => failed(error),
            error => error,
        })?;
    serde_json::from_slice(&body).map_err(|error| InspectorError::NotNode {
        what: format!("its answer to {path} is not JSON ({error})"),
    })
}

/// Reads one answer. The reader is dropped afterwards, which loses nothing: Node sends nothing
/// unasked.
fn answer(reader: &mut dyn BufRead) -> Result<Vec<u8>, InspectorError> {
    let length = content_length(reader)?;
    let Some(length) = length.filter(|length| *length <= MAX_ANSWER_BYTES) else {
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

/// Reads the header of an answer.
fn content_length(reader: &mut dyn BufRead) -> Result<Option<u64>, InspectorError> {
    let mut header = reader.take(MAX_HEADER_BYTES);
    let mut line = Vec::new();
    let mut length = None;
    let mut is_first = true;
    loop {
        line.clear();
        let read = header.read_until(b'\n', &mut line);
        if read.map_err(InspectorError::Broken)? == 0 {
            return Err(InspectorError::Closed);
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if is_first && !(text.starts_with("HTTP/1.") && text.contains(" 200")) {
            return Err(InspectorError::NotNode {
                what: format!("it answers {:?}", shorten(text)),
            });
        }
        is_first = false;
        if text.is_empty() {
            return Ok(length);
        }
        if let Some((key, value)) = text.split_once(':')
            && key.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse::<u64>().ok();
        }
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<u8>, InspectorError> {
        answer(&mut text.as_bytes())
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
