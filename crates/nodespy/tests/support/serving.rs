//! A running `nodespy serve`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::Value;

use crate::run::nodespy;

/// A server of the store in a folder; killed, by its own pid, when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
}

impl Server {
    /// Starts one at an address, `127.0.0.1:0` for a free port.
    pub(crate) fn start(folder: &Path, listen: &str, arguments: &[&str]) -> Self {
        let mut command = nodespy(&["serve", "--store", folder.to_str().unwrap()]);
        command.args(["--listen", listen]).args(arguments);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let address = line.trim().trim_start_matches("http://");
        let address = address.trim_start_matches("https://");
        Self {
            child,
            address: address.trim_end_matches('/').to_owned(),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to end, as systemd does, and waits until it has.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(told.unwrap().success());
        self.child.wait().unwrap()
    }

    /// The answer to a request with these headers, head and body.
    pub(crate) fn ask(&self, target: &str, headers: &str) -> (String, Vec<u8>) {
        self.exchange(&format!("GET {target}"), headers, &[])
    }

    /// The answer to what is sent.
    pub(crate) fn post(&self, target: &str, headers: &str, body: &[u8]) -> (String, Vec<u8>) {
        let headers = format!("{headers}Content-Length: {}\r\n", body.len());
        self.exchange(&format!("POST {target}"), &headers, body)
    }

    fn exchange(&self, request: &str, headers: &str, body: &[u8]) -> (String, Vec<u8>) {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        let host = &self.address;
        let head = format!("{request} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n");
        connection.write_all(head.as_bytes()).unwrap();
        // A server that has heard enough answers before the end.
        let _ = connection.write_all(body);
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
        let body = answer.split_off(end + 4);
        (String::from_utf8(answer).unwrap(), body)
    }

    #[track_caller]
    pub(crate) fn json(&self, target: &str) -> Value {
        let (head, body) = self.ask(target, "");
        assert!(head.starts_with("HTTP/1.1 200"), "{target}: {head}");
        serde_json::from_slice(&body).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
