//! Answers, with the headers that every one of them has.

use std::io::{self, Write};

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// `200 OK`.
    pub status: &'static str,
    /// Its media type.
    pub kind: &'static str,
    /// Further lines of its head.
    pub headers: Vec<String>,
    /// Who may show it in a frame.
    pub framing: Framing,
    /// What it holds.
    pub body: Vec<u8>,
}

/// Who may show an answer in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Nobody.
    Denied,
    /// Pages of the same server.
    SameOrigin,
}

impl Answer {
    /// Something that was asked for.
    pub fn ok(kind: &'static str, body: Vec<u8>) -> Self {
        Self {
            status: "200 OK",
            kind,
            headers: Vec::new(),
            framing: Framing::Denied,
            body,
        }
    }

    /// A line of text.
    pub fn text(status: &'static str, text: &str) -> Self {
        Self {
            status,
            ..Self::ok(
                "text/plain; charset=utf-8",
                format!("{text}\n").into_bytes(),
            )
        }
    }

    /// A value as JSON.
    pub fn json(value: &serde_json::Value) -> Self {
        Self::ok("application/json", format!("{value}\n").into_bytes())
    }

    /// The same with a line more in its head, which must have no line end in it.
    pub fn with_header(mut self, header: String) -> Self {
        debug_assert!(!header.contains(['\r', '\n']));
        self.headers.push(header);
        self
    }

    /// Writes it.
    pub fn write(&self, output: &mut dyn Write) -> io::Result<()> {
        write_head(output, self)?;
        output.write_all(&self.body)?;
        output.flush()
    }
}

/// Writes the head of an answer: nothing is kept, sniffed, framed or sent along to other sites.
pub fn write_head(output: &mut dyn Write, answer: &Answer) -> io::Result<()> {
    let framing = match answer.framing {
        Framing::Denied => "DENY",
        Framing::SameOrigin => "SAMEORIGIN",
    };
    // At once, which is one record of TLS.
    let mut head = Vec::new();
    write!(
        head,
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n\
         X-Content-Type-Options: nosniff\r\nX-Frame-Options: {framing}\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n",
        answer.status,
        answer.kind,
        answer.body.len()
    )?;
    for header in &answer.headers {
        write!(head, "{header}\r\n")?;
    }
    head.extend_from_slice(b"\r\n");
    output.write_all(&head)
}
