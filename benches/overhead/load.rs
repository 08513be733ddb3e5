//! A program of `workloads/`, and requests to it if it is a server: as many as it answers, over a few connections that stay open.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::Failure;

const CONNECTIONS: usize = 8;
/// What `server.js` and `express/app.js` are asked for.
const PAGES: [&str; 6] = [
    "GET /json",
    "GET /page",
    "GET /login",
    "GET /json",
    "GET /page",
    "GET /missing",
];
/// What `routes/server.js` is asked for.
const ROUTES: [&str; 6] = [
    "GET /shop/items/7",
    "GET /shop/report/2026",
    "POST /shop/orders/7",
    "GET /shop/search/shoes",
    "GET /shop/files/price-list",
    "GET /shop/health",
];

fn requests_to(program: &Path) -> &'static [&'static str] {
    match program.starts_with("routes") {
        true => &ROUTES,
        false => &PAGES,
    }
}

/// A program that is busy by itself, or a server that listens; ended when dropped.
pub(crate) struct Server {
    child: Child,
    /// Where it listens.
    pub(crate) port: Option<u16>,
}

impl Server {
    /// Starts a program of `workloads/` that prints `ready`, and its port if it has one.
    pub(crate) fn start(node: &str, program: &Path) -> Result<Self, Failure> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../workloads")
            .join(program);
        let script = script
            .canonicalize()
            .map_err(|error| format!("no program {} of workloads/: {error}", program.display()))?;
        let mut child = Command::new(node)
            .arg(script)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {node}: {error}"))?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output is a pipe")).read_line(&mut line)?;
        let server = Self {
            child,
            port: line
                .trim()
                .split(' ')
                .nth(1)
                .and_then(|port| port.parse().ok()),
        };
        match line.starts_with("ready") {
            true => Ok(server),
            false => Err(format!("the program said {line:?}").into()),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Requests that are sent until this is dropped.
pub(crate) struct Load {
    /// How long each request took since they were asked for last.
    latencies: Arc<Mutex<Vec<Duration>>>,
    is_over: Arc<AtomicBool>,
}

impl Load {
    pub(crate) fn start(port: u16, program: &Path) -> Self {
        let load = Self {
            latencies: Arc::default(),
            is_over: Arc::default(),
        };
        let requests = requests_to(program);
        for first in 0..CONNECTIONS {
            let (latencies, is_over) = (load.latencies.clone(), load.is_over.clone());
            std::thread::spawn(move || {
                // A connection that breaks ends with the server.
                let _ = send(
                    port,
                    requests.iter().cycle().skip(first),
                    &latencies,
                    &is_over,
                );
            });
        }
        load
    }

    /// How long the requests took that were answered since the last call.
    pub(crate) fn take_latencies(&self) -> Vec<Duration> {
        std::mem::take(&mut self.latencies.lock().expect("no thread panics with it"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn send<'a>(
    port: u16,
    requests: impl Iterator<Item = &'a &'a str>,
    latencies: &Mutex<Vec<Duration>>,
    is_over: &AtomicBool,
) -> io::Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    let mut answers = BufReader::new(stream.try_clone()?);
    for request in requests {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let start = Instant::now();
        let head = format!("{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        read_answer(&mut answers)?;
        let mut latencies = latencies.lock().expect("no thread panics with it");
        latencies.push(start.elapsed());
    }
    Ok(())
}

/// Reads an answer to its end, by its length or by its chunks.
fn read_answer(answers: &mut impl BufRead) -> io::Result<()> {
    let (mut length, mut line) = (None, String::new());
    loop {
        line.clear();
        if answers.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok();
        }
    }
    match length {
        Some(length) => skip(answers, length),
        None => skip_chunks(answers),
    }
}

fn skip_chunks(answers: &mut impl BufRead) -> io::Result<()> {
    loop {
        let mut line = String::new();
        answers.read_line(&mut line)?;
        let length = u64::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        skip(answers, length + 2)?;
        if length == 0 {
            return Ok(());
        }
    }
}

fn skip(answers: &mut impl BufRead, length: u64) -> io::Result<()> {
    io::copy(&mut answers.take(length), &mut io::sink()).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_to_their_ends() {
        let both = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc\
                    HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\nrest";
        let mut bytes = both.as_bytes();
        read_answer(&mut bytes).unwrap();
        read_answer(&mut bytes).unwrap();
        assert_eq!(bytes, b"rest");
    }
}
