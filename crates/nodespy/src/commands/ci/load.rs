//! A fixed number of HTTP requests: each connection sends one, reads the whole answer, and sends the next, so that a
//! slow server gets no more to do at once than a fast one (closed loop).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nodespy_capture::Interrupts;

use crate::failure::Failure;

/// An answer that takes longer is none, however it drips in.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a wait looks whether it is to end.
const READ_TIMEOUT: Duration = Duration::from_millis(200);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_HEAD_BYTES: u64 = 64 << 10;
const MAX_BODY_BYTES: u64 = 1 << 30;

/// Where requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// Host and port, as in the Host header.
    authority: String,
    pub(crate) port: u16,
    path: String,
}

/// The address that a `http://` URL names.
pub(crate) fn parse_address(text: &str) -> Result<Address, String> {
    let wanted = "expected http://HOST[:PORT]/PATH";
    let rest = text.strip_prefix("http://").ok_or_else(|| {
        let is_tls = text.starts_with("https://");
        let reason = if is_tls {
            "TLS is not spoken here; "
        } else {
            ""
        };
        format!("{reason}{wanted}")
    })?;
    let (authority, path) = match rest.find(['/', '?']) {
        Some(start) => rest.split_at(start),
        None => (rest, ""),
    };
    // A colon inside of brackets is part of the address.
    let host_end = authority.rfind(']').map_or(0, |end| end + 1);
    let port = match authority[host_end..].split_once(':') {
        Some((_, port)) => port.parse().map_err(|_| wanted.to_owned())?,
        None => 80,
    };
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if authority.is_empty() || authority.starts_with(':') || !is_plain(rest) {
        return Err(wanted.to_owned());
    }
    let path = match path.split('#').next().unwrap_or("") {
        path if path.starts_with('/') => path.to_owned(),
        path => format!("/{path}"),
    };
    Ok(Address {
        authority: authority.to_owned(),
        port,
        path,
    })
}

impl Address {
    /// Connects to the first of the host's addresses that listens.
    pub(super) fn connect(&self) -> std::io::Result<TcpStream> {
        let has_port = self
            .authority
            .rsplit(']')
            .next()
            .unwrap_or("")
            .contains(':');
        let named = match has_port {
            true => self.authority.clone(),
            false => format!("{}:{}", self.authority, self.port),
        };
        let mut last = None;
        for address in named.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(READ_TIMEOUT))?;
                    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
                    return Ok(stream);
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| std::io::ErrorKind::AddrNotAvailable.into()))
    }
}

/// Sends `requests` requests over `connections` connections and waits for all answers.
pub(super) fn send(
    address: &Address,
    requests: u64,
    connections: u64,
    interrupts: Interrupts,
) -> anyhow::Result<()> {
    let left = AtomicU64::new(requests);
    let take = || {
        let less = |left: u64| left.checked_sub(1);
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
    };
    let connection = || -> anyhow::Result<()> {
        let mut stream = None;
        while take() {
            let mut reader = match stream.take() {
                Some(reader) => reader,
                None => BufReader::new(Connection::new(address.connect()?, interrupts)),
            };
            let is_kept = one(&mut reader, address);
            if interrupts.is_stop_requested() {
                bail!(Failure::Discarded);
            }
            if is_kept? {
                stream = Some(reader);
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..connections.min(requests).max(1))
            .map(|_| scope.spawn(connection))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            let done = thread.join();
            done.unwrap_or_else(|_| bail!("a connection ended early"))
        })
    })
    .with_context(|| format!("requesting http://{}{}", address.authority, address.path))
}

/// A connection that is read until the answer's time is over, or a signal asks for the end.
struct Connection {
    stream: TcpStream,
    deadline: Instant,
    interrupts: Interrupts,
}

impl Connection {
    fn new(stream: TcpStream, interrupts: Interrupts) -> Self {
        Self {
            stream,
            deadline: Instant::now() + ANSWER_TIMEOUT,
            interrupts,
        }
    }

    fn ask(&mut self, request: &[u8]) -> std::io::Result<()> {
        self.deadline = Instant::now() + ANSWER_TIMEOUT;
        self.stream.write_all(request)
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
        while !self.interrupts.is_stop_requested() && Instant::now() < self.deadline {
            match self.stream.read(buffer) {
                Err(error) if matches!(error.kind(), WouldBlock | TimedOut | Interrupted) => {}
                read => return read,
            }
        }
        Err(TimedOut.into())
    }
}

/// One request and its answer; whether the connection can be used again.
fn one(stream: &mut BufReader<Connection>, address: &Address) -> anyhow::Result<bool> {
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nAccept: */*\r\nUser-Agent: nodespy\r\n\r\n",
        address.path, address.authority
    );
    stream.get_mut().ask(request.as_bytes())?;
    let answer = Answer::read(stream)?;
    if answer.status >= 400 {
        bail!("the server answered with status {}", answer.status);
    }
    answer.skip_body(stream)?;
    Ok(answer.is_kept_alive && answer.body != Body::UntilClosed)
}

/// How long a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Bytes(u64),
    Chunked,
    UntilClosed,
}

/// The head of an answer.
#[derive(Debug)]
struct Answer {
    status: u16,
    body: Body,
    is_kept_alive: bool,
}

impl Answer {
    fn read(stream: &mut dyn BufRead) -> anyhow::Result<Self> {
        let mut head = stream.take(MAX_HEAD_BYTES);
        let first = line(&mut head)?;
        let status = first
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.split(' ').nth(1))
            .and_then(|status| status.parse().ok());
        let Some(status) = status else {
            bail!("the server's answer is not HTTP/1.1");
        };
        let mut answer = Self {
            status,
            body: Body::UntilClosed,
            is_kept_alive: first.starts_with("HTTP/1.1"),
        };
        if matches!(status, 204 | 304) {
            answer.body = Body::Bytes(0);
        }
        loop {
            let line = line(&mut head)?;
            if line.is_empty() {
                return Ok(answer);
            }
            answer.take_header(&line)?;
        }
    }

    fn take_header(&mut self, line: &str) -> anyhow::Result<()> {
        let Some((name, value)) = line.split_once(':') else {
            bail!("the server sent a header without a colon");
        };
        let value = value.trim().to_ascii_lowercase();
        match name.to_ascii_lowercase().as_str() {
            "content-length" if self.body != Body::Chunked => {
                let length = value.parse().context("reading the length of an answer")?;
                self.body = Body::Bytes(length);
            }
            "transfer-encoding" if value.contains("chunked") => self.body = Body::Chunked,
            "connection" => self.is_kept_alive = value != "close",
            _ => {}
        }
        Ok(())
    }

    fn skip_body(&self, stream: &mut dyn BufRead) -> anyhow::Result<()> {
        match self.body {
            Body::Bytes(length) => skip(stream, length),
            Body::UntilClosed => {
                std::io::copy(&mut stream.take(MAX_BODY_BYTES), &mut std::io::sink())?;
                Ok(())
            }
            Body::Chunked => loop {
                let size = line(&mut (&mut *stream).take(MAX_HEAD_BYTES))?;
                let digits = size.split(';').next().unwrap_or("").trim();
                let size =
                    u64::from_str_radix(digits, 16).context("reading the size of a chunk")?;
                if size == 0 {
                    // Trailers, and the empty line that ends them.
                    while !line(&mut (&mut *stream).take(MAX_HEAD_BYTES))?.is_empty() {}
                    return Ok(());
                }
                skip(stream, size)?;
                line(&mut (&mut *stream).take(MAX_HEAD_BYTES))?;
            },
        }
    }
}

fn skip(stream: &mut dyn BufRead, length: u64) -> anyhow::Result<()> {
    if length > MAX_BODY_BYTES {
        bail!("an answer of {length} bytes is too long");
    }
    let skipped = std::io::copy(&mut stream.take(length), &mut std::io::sink())?;
    match skipped == length {
        true => Ok(()),
        false => bail!("the server ended an answer early"),
    }
}

fn line(stream: &mut dyn BufRead) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    stream.read_until(b'\n', &mut bytes)?;
    if bytes.pop() != Some(b'\n') {
        bail!("the server ended an answer early");
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_plain_http() {
        let address = parse_address("http://localhost:3000/x?a=1#top").unwrap();
        assert_eq!(
            (
                address.authority.as_str(),
                address.port,
                address.path.as_str()
            ),
            ("localhost:3000", 3000, "/x?a=1")
        );
        assert_eq!(parse_address("http://[::1]:81").unwrap().port, 81);
        assert_eq!(parse_address("http://[::1]/").unwrap().port, 80);
        assert_eq!(parse_address("http://host?q").unwrap().path, "/?q");
        for bad in [
            "",
            "localhost:3000",
            "http://",
            "http://:80/",
            "http://h:x/",
            "http://h/a b",
        ] {
            assert!(parse_address(bad).is_err(), "{bad}");
        }
        assert!(parse_address("https://h/").unwrap_err().contains("TLS"));
    }

    fn answer(text: &str) -> anyhow::Result<(u16, bool, String)> {
        let mut stream = BufReader::new(text.as_bytes());
        let answer = Answer::read(&mut stream)?;
        answer.skip_body(&mut stream)?;
        let mut rest = String::new();
        stream.read_to_string(&mut rest)?;
        Ok((answer.status, answer.is_kept_alive, rest))
    }

    #[test]
    fn the_next_answer_begins_where_one_ends() {
        let next = "HTTP/1.1 next";
        for (text, kept) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", true),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\nTrailer: 1\r\n\r\n",
                true,
            ),
            ("HTTP/1.1 204 No Content\r\n\r\n", true),
            (
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
                false,
            ),
        ] {
            let (status, is_kept_alive, rest) = answer(&format!("{text}{next}")).unwrap();
            assert!(
                status < 300 && is_kept_alive == kept && rest == next,
                "{text}"
            );
        }
        assert_eq!(answer("HTTP/1.0 200 OK\r\n\r\nall of it").unwrap().2, "");
    }

    #[test]
    fn an_answer_that_never_ends_is_given_up() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let dripping = std::thread::spawn(move || {
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n";
            let _ = server.write_all(head.as_bytes());
            // Trailers without end, each in time.
            while server.write_all(b"x: y\r\n").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let mut connection = Connection::new(stream, nodespy_capture::catch_interrupts());
        connection.deadline = Instant::now() + Duration::from_millis(300);
        let mut stream = BufReader::new(connection);
        let answer = Answer::read(&mut stream).unwrap();
        let error = answer.skip_body(&mut stream).unwrap_err();
        let cause = error.downcast_ref::<std::io::Error>().unwrap();
        assert_eq!(cause.kind(), std::io::ErrorKind::TimedOut);
        drop(stream);
        dripping.join().unwrap();
    }

    #[test]
    fn answers_that_lie_are_errors() {
        for text in [
            "",
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        ] {
            assert!(answer(text).is_err(), "{text}");
        }
    }
}
