//! OTLP profiles over HTTP, `POST /v1development/profiles`: what OpenTelemetry's collectors and profilers send, with the answers
//! that they understand.

use nodespy_http::{Answer, Head};
use nodespy_model::Labels;
use nodespy_otlp::Decoded;

use crate::ingest::Refusal;

/// What a request has.
pub(crate) fn decoded(head: &Head, body: &[u8]) -> Result<Decoded, Refusal> {
    let kind = head.content_type.as_deref().unwrap_or_default();
    if kind.starts_with("application/json") {
        let why = "OTLP as JSON is not taken: encoding: proto, application/x-protobuf";
        return Err(Refusal::Unreadable(why.to_owned()));
    }
    nodespy_otlp::decode(body, head.content_encoding.as_deref())
        .map_err(|error| Refusal::Unreadable(error.to_string()))
}

/// What a sender of OTLP sends again; it drops what is answered with any other error.
const SENT_AGAIN: [&str; 4] = ["429", "502", "503", "504"];

/// An answer as OTLP wants it: a message, and a status that is sent again where that makes sense, as in an hour for what is ahead of the
/// clock here. So many attributes were left out.
pub(crate) fn answer(plain: Answer, left_out: u64) -> Answer {
    if plain.status.starts_with('2') {
        let message = match left_out {
            0 => nodespy_otlp::success(),
            _ => nodespy_otlp::success_but(&format!(
                "{left_out} attributes were left out: a process has at most {}",
                Labels::MAX
            )),
        };
        return Answer::ok(nodespy_otlp::CONTENT_TYPE, message);
    }
    let is_retry_after = |header: &&String| header.starts_with("Retry-After:");
    let retry_after = plain.headers.iter().find(is_retry_after).cloned();
    let is_known = SENT_AGAIN.iter().any(|it| plain.status.starts_with(it));
    let can_be_sent_again = is_known || plain.status.starts_with('5') || retry_after.is_some();
    let text = String::from_utf8_lossy(&plain.body);
    let body = nodespy_otlp::failure(text.trim_end(), can_be_sent_again);
    Answer {
        status: match can_be_sent_again {
            true if is_known => plain.status,
            true => "503 Service Unavailable",
            false => "400 Bad Request",
        },
        headers: retry_after.into_iter().collect(),
        ..Answer::ok(nodespy_otlp::CONTENT_TYPE, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_taken_later_is_answered_so_that_it_is_sent_again() {
        let answered = |status, retry_after: Option<&str>| {
            let mut plain = Answer::text(status, "why");
            plain
                .headers
                .extend(retry_after.map(|it| format!("Retry-After: {it}")));
            let answer = answer(plain, 0);
            (answer.status, answer.headers.join("\n"))
        };
        let retry_after = |seconds| format!("Retry-After: {seconds}");
        // Ahead of the clock here.
        assert_eq!(
            answered("422 Unprocessable Content", Some("120")),
            ("503 Service Unavailable", retry_after(120))
        );
        assert_eq!(
            answered("429 Too Many Requests", Some("7")),
            ("429 Too Many Requests", retry_after(7))
        );
        let none = String::new();
        for (plain, expected) in [
            ("422 Unprocessable Content", "400 Bad Request"),
            ("413 Content Too Large", "400 Bad Request"),
            ("429 Too Many Requests", "429 Too Many Requests"),
            ("507 Insufficient Storage", "503 Service Unavailable"),
            ("500 Internal Server Error", "503 Service Unavailable"),
        ] {
            assert_eq!(answered(plain, None), (expected, none.clone()), "{plain}");
        }
    }
}
