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

/// An answer as OTLP wants it: a message, and 503 where it makes sense to send the same again. So many attributes were left out.
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
    let can_be_sent_again = plain.status.starts_with('5');
    let text = String::from_utf8_lossy(&plain.body);
    let body = nodespy_otlp::failure(text.trim_end(), can_be_sent_again);
    Answer {
        status: match can_be_sent_again {
            true => "503 Service Unavailable",
            false => "400 Bad Request",
        },
        ..Answer::ok(nodespy_otlp::CONTENT_TYPE, body)
    }
}
