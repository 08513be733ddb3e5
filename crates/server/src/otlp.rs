//! OTLP profiles over HTTP, `POST /v1development/profiles`: what OpenTelemetry's collectors and profilers send, with the answers
//! that they understand.

use nodespy_http::{Answer, Head};
use nodespy_store::Batch;

use crate::ingest::Refusal;

/// The windows of a request.
pub(crate) fn batch_of_request(head: &Head, body: &[u8]) -> Result<Batch, Refusal> {
    let kind = head.content_type.as_deref().unwrap_or_default();
    if kind.starts_with("application/json") {
        let why = "OTLP as JSON is not taken: encoding: proto, application/x-protobuf";
        return Err(Refusal::Unreadable(why.to_owned()));
    }
    nodespy_otlp::decode(body, head.content_encoding.as_deref())
        .map_err(|error| Refusal::Unreadable(error.to_string()))
}

/// An answer as OTLP wants it: a message, and 503 where it makes sense to send the same again.
pub(crate) fn answer(plain: Answer) -> Answer {
    if plain.status.starts_with('2') {
        return Answer::ok(nodespy_otlp::CONTENT_TYPE, nodespy_otlp::success());
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
