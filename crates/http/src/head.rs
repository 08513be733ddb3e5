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

/// A connection whose reads end together at a deadline, or each after a timeout.
#[derive(Debug)]
pub struct TimedStream {
    connection: TcpStream,
    limit: Limit,
}

#[derive(Debug)]
enum Limit {
    Deadline(Instant),
    EachRead(Duration),
}

impl TimedStream {
    /// All reads together may take until `deadline`.
    pub fn until(connection: TcpStream, deadline: Instant) -> Self {
        Self {
            connection,
            limit: Limit::Deadline(deadline),
        }
    }

    /// What it reads from.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.connection
    }

    /// From now on all reads together may take until `deadline`.
    pub fn allow_until(&mut self, deadline: Instant) {
        self.limit = Limit::Deadline(deadline);
    }

    /// From now on each read may take as long as `timeout`.
    pub fn allow_each_read(&mut self, timeout: Duration) {
        self.limit = Limit::EachRead(timeout);
    }
}

impl Write for TimedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.connection.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.connection.flush()
    }
}

impl Read for TimedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = match self.limit {
            Limit::Deadline(deadline) => deadline.saturating_duration_since(Instant::now()),
            Limit::EachRead(timeout) => timeout,
        };
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.connection.set_read_timeout(Some(left))?;
        self.connection.read(buffer)
    }
}
