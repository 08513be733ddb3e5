//! A receiver of OTLP profiles: a collector of OpenTelemetry, or what takes the same. All windows of a batch are one request.

use nodespy_http::{Client, Reply};
use nodespy_store::{Appended, Batch};

use crate::receiver::{Receiver, Verdict, not_reached, verdict_of};

/// A receiver of OTLP profiles.
#[derive(Debug)]
pub(crate) struct Otlp(pub(crate) Client);

impl Receiver for Otlp {
    fn send(&mut self, batch: &Batch) -> Verdict {
        let headers = [
            ("Content-Type", nodespy_otlp::CONTENT_TYPE),
            ("Content-Encoding", "gzip"),
        ];
        let body = nodespy_otlp::encode(batch);
        match self.0.post(nodespy_otlp::PATH, &headers, &body) {
            Ok(reply) => verdict(&reply, batch.windows.len() as u64),
            Err(error) => not_reached(&error),
        }
    }
}

fn verdict(reply: &Reply, windows: u64) -> Verdict {
    if !reply.is_ok() {
        // What it says is a message of protobuf, not a line of text.
        let body = nodespy_otlp::failure_message(&reply.body);
        let body = body.map_or_else(|| reply.body.clone(), String::into_bytes);
        return verdict_of(&Reply {
            body,
            ..reply.clone()
        });
    }
    match nodespy_otlp::rejected(&reply.body) {
        Some((rejected, why)) if rejected >= windows => Verdict::Refused(why),
        Some((rejected, why)) => Verdict::TakenInPart {
            windows: windows - rejected,
            refused: rejected,
            why,
        },
        None => Verdict::Taken(Appended {
            windows,
            ..Appended::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_receiver_says_decides_what_becomes_of_windows() {
        let reply = |status, body: Vec<u8>| Reply {
            status,
            body,
            ..Reply::default()
        };
        let taken = verdict(&reply(200, nodespy_otlp::success()), 3);
        assert!(matches!(taken, Verdict::Taken(it) if it.windows == 3));
        // partial_success { rejected_profiles: 1, error_message: "why" }
        let part = vec![10, 7, 8, 1, 18, 3, b'w', b'h', b'y'];
        let taken = verdict(&reply(200, part.clone()), 3);
        let Verdict::TakenInPart {
            windows, refused, ..
        } = taken
        else {
            panic!("{taken:?}")
        };
        assert_eq!((windows, refused), (2, 1));
        assert!(matches!(verdict(&reply(200, part), 1), Verdict::Refused(why) if why == "why"));
        let failure = nodespy_otlp::failure("too many series", false);
        let refused = verdict(&reply(400, failure), 1);
        assert!(matches!(refused, Verdict::Refused(why) if why == "400 too many series"));
        let later = verdict(&reply(503, nodespy_otlp::failure("full", true)), 1);
        assert!(matches!(later, Verdict::Later { why, .. } if why == "503 full"));
    }
}
