//! The head of a request, read before a deadline: a client that sends a byte now and then gets no
//! more time than others. Depends on nothing else here, so that it can be fuzzed.

use std::io::{self, BufRead, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const HEAD_BYTES: u64 = 16 << 10;

/// What a request asks for, as far as it matters here.
#[derive(Debug, Default)]
pub struct Head {
    /// `GET`.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The name that it was sent to.
    pub host: Option<String>,
    /// The site whose page sent it.
    pub origin: Option<String>,
    /// What proves who sent it.
    pub authorization: Option<String>,
    /// What a browser kept for this server.
    pub cookie: Option<String>,
    /// How long its body is.
    pub length: Option<u64>,
    /// Whether its body comes in chunks.
    pub is_chunked: bool,
    /// The media type of its body.
    pub content_type: Option<String>,
    /// How its body is packed.
    pub content_encoding: Option<String>,
    /// Whether the body is sent when it is asked for.
    pub waits_for_go: bool,
}

/// Reads the head of a request, however odd it is: what is not understood asks for nothing.
pub fn read_head(reader: &mut impl BufRead) -> io::Result<Head> {
    let mut reader = reader.take(HEAD_BYTES);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_ascii_whitespace();
    let mut head = Head {
        method: words.next().unwrap_or_default().to_owned(),
        target: words.next().unwrap_or_default().to_owned(),
        ..Head::default()
    };
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            return Ok(head);
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "host" => head.host = Some(value.to_owned()),
            "origin" => head.origin = Some(value.to_owned()),
            "authorization" => head.authorization = Some(value.to_owned()),
            "cookie" => head.cookie = Some(value.to_owned()),
            "content-length" => head.length = value.parse().ok(),
            "transfer-encoding" => head.is_chunked = value.eq_ignore_ascii_case("chunked"),
            "content-type" => head.content_type = Some(value.to_owned()),
            "content-encoding" => head.content_encoding = Some(value.to_owned()),
            "expect" => head.waits_for_go = value.eq_ignore_ascii_case("100-continue"),
            _ => {}
        }
    }
}

/// A connection whose reads and writes end together at a deadline: who takes a byte now and then gets no more time than others.
#[derive(Debug)]
pub struct TimedStream {
    connection: TcpStream,
    deadline: Instant,
}

impl TimedStream {
    /// All reads and writes together may take until `deadline`.
    pub fn until(connection: TcpStream, deadline: Instant) -> Self {
        Self {
            connection,
            deadline,
        }
    }

    /// What it reads from.
    pub fn socket(&self) -> &TcpStream {
        &self.connection
    }

    /// From now on all reads and writes together may take until `deadline`.
    pub fn allow_until(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    fn time_left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(left),
        }
    }
}

impl Write for TimedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.connection.set_write_timeout(Some(self.time_left()?))?;
        self.connection.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.connection.flush()
    }
}

impl Read for TimedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.connection.set_read_timeout(Some(self.time_left()?))?;
        self.connection.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn a_client_that_takes_a_byte_now_and_then_gets_no_more_time() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let mut slow = TcpStream::connect(address).unwrap();
        let (connection, _) = listener.accept().unwrap();
        let deadline = Instant::now() + Duration::from_millis(300);
        let mut timed = TimedStream::until(connection, deadline);
        let reading = std::thread::spawn(move || {
            // It ends when the server has given up.
            while matches!(slow.read(&mut [0; 64]), Ok(1..)) {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let started = Instant::now();
        let written = (0..1 << 12).try_for_each(|_| timed.write_all(&[0; 1 << 16]));
        assert!(written.is_err());
        assert!(started.elapsed() < Duration::from_secs(20));
        // What it has in its buffers is not waited for.
        drop(timed);
        drop(reading);
    }
}
