//! gRPC-Web: a call of gRPC as a request of HTTP/1.1, and its status where that is in the reply.
//!
//! Messages and trailers are frames: a byte that says which, four for the length, and the content. Depends on nothing else here,
//! so that it can be fuzzed.

/// The media type of requests and replies.
pub(crate) const CONTENT_TYPE: &str = "application/grpc-web+proto";

/// `google.rpc.Code`: the contents are wrong, whenever they are sent.
pub(crate) const INVALID_ARGUMENT: u32 = 3;
/// `google.rpc.Code`: too much, in this message or at this time.
pub(crate) const RESOURCE_EXHAUSTED: u32 = 8;

/// Set in the first byte of a frame of trailers.
const TRAILERS: u8 = 0x80;
/// The longest message of a status that is shown.
const MAX_MESSAGE_CHARS: usize = 200;

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Status {
    /// Zero is success.
    pub(crate) code: u32,
    /// What the server says of it.
    pub(crate) message: String,
}

/// A message as the body of a request.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("messages are far below 4 GiB");
    let mut body = Vec::with_capacity(5 + message.len());
    body.push(0);
    body.extend(length.to_be_bytes());
    body.extend(message);
    body
}

/// The status of a reply: among the trailers at the end of its body, or, where there is no message, among its headers.
pub(crate) fn status(headers: &[(String, String)], body: &[u8]) -> Option<Status> {
    let of_headers = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    status_among(of_headers).or_else(|| {
        let text = std::str::from_utf8(trailers(body)?).ok()?;
        status_among(text.lines().filter_map(|line| line.split_once(':')))
    })
}

/// The content of the first frame of trailers.
fn trailers(mut body: &[u8]) -> Option<&[u8]> {
    loop {
        let (head, rest) = body.split_at_checked(5)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let (content, after) = rest.split_at_checked(length as usize)?;
        if head[0] & TRAILERS != 0 {
            return Some(content);
        }
        body = after;
    }
}

fn status_among<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Option<Status> {
    let value = |name: &str| {
        let mut pairs = pairs.clone();
        let found = pairs.find(|(known, _)| known.trim().eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    };
    Some(Status {
        code: value("grpc-status")?.parse().ok()?,
        message: decoded(value("grpc-message").unwrap_or_default()),
    })
}

/// The beginning of a text with its `%20`s, in one line.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|byte| (*byte as char).to_digit(16));
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(MAX_MESSAGE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
        let mut frame = framed(content);
        frame[0] = kind;
        frame
    }

    #[test]
    fn a_status_is_found_in_trailers_and_in_headers() {
        let trailers = frame(
            0x80,
            b"Grpc-Status: 3\r\ngrpc-message: invalid%20label%0Aname\r\n",
        );
        let body = [framed(b"reply"), trailers].concat();
        let found = status(&[], &body).unwrap();
        assert_eq!((found.code, &*found.message), (3, "invalid label"));
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers = [
            header("grpc-status", "14"),
            header("grpc-message", "100%, %C3%A4"),
        ];
        let found = status(&headers, &[]).unwrap();
        assert_eq!((found.code, &*found.message), (14, "100%, \u{e4}"));
    }

    #[test]
    fn replies_that_are_none_have_no_status() {
        let huge = [0x80, 0xff, 0xff, 0xff, 0xff, b'g'];
        let odd = [
            frame(0x80, b"grpc-status: tea"),
            frame(0x80, b"\xff\xfe"),
            frame(0, b"grpc-status: 0"),
            huge.to_vec(),
            b"<!doctype html>".to_vec(),
            Vec::new(),
        ];
        for body in odd {
            assert_eq!(status(&[], &body), None, "{body:?}");
        }
    }
}
