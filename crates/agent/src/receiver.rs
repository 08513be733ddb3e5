//! Who gets windows over the network, and what becomes of them there.

use std::time::Duration;

use nodespy_http::{Client, ClientError, Reply};
use nodespy_store::{Appended, Batch, Symbols, batch_to_bytes, hashes_from_bytes};

/// What a receiver made of a batch.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It has it.
    Taken(Appended),
    /// It has some of it, and will never take the rest.
    TakenInPart {
        windows: u64,
        refused: u64,
        why: String,
    },
    /// Trying again can help.
    Later {
        why: String,
        /// How long it wants to be left alone.
        after: Option<Duration>,
    },
    /// It failed with this one; it may do so with others, or until it is set right.
    Failed {
        why: String,
        after: Option<Duration>,
    },
    /// Its windows are of a time to come there; others may not be.
    TooEarly {
        why: String,
        /// When it is that time.
        after: Duration,
    },
    /// It will never take this one.
    Refused(String),
}

/// Somebody who takes windows.
pub(crate) trait Receiver: Send {
    /// What is sent next is of this file, as far as it is not settled.
    fn begin(&mut self, _file: u64) {}

    /// Sends a batch and waits for what becomes of it.
    fn send(&mut self, batch: &Batch) -> Verdict;

    /// Whether it finds out by itself which windows are refused, so that what is refused was so window by window.
    fn finds_refused(&self) -> bool {
        false
    }
}

/// What a reply without success means: contents that are refused are so for good, unless it says until when, and everything
/// else may be set right.
pub(crate) fn verdict_of(reply: &Reply) -> Verdict {
    match (reply.status, reply.retry_after) {
        (422, Some(after)) => Verdict::TooEarly {
            why: reply.text(),
            after,
        },
        (400 | 413 | 415 | 422, _) => Verdict::Refused(reply.text()),
        (500, after) => Verdict::Failed {
            why: reply.text(),
            after,
        },
        _ => Verdict::Later {
            why: reply.text(),
            after: reply.retry_after,
        },
    }
}

pub(crate) fn not_reached(error: &ClientError) -> Verdict {
    Verdict::Later {
        why: error.to_string(),
        after: None,
    }
}

/// A server of nodespy: it gets windows without the names of their stacks, and those that it asks for.
#[derive(Debug)]
pub(crate) struct NodespyServer(pub(crate) Client);

impl NodespyServer {
    fn post(&self, batch: &Batch) -> Result<Reply, ClientError> {
        let headers = [("Content-Type", "application/x-nodespy-windows")];
        let body = batch_to_bytes(batch);
        self.0.post("/api/v1/windows", &headers, &body)
    }
}

impl Receiver for NodespyServer {
    fn send(&mut self, whole: &Batch) -> Verdict {
        let mut batch = Batch {
            series: whole.series.clone(),
            windows: whole.windows.clone(),
            symbols: Symbols::default(),
        };
        let mut reply = match self.post(&batch) {
            Ok(reply) => reply,
            Err(error) => return not_reached(&error),
        };
        if reply.status == 409 {
            let Ok(unknown) = hashes_from_bytes(&reply.body) else {
                return verdict_of(&reply);
            };
            batch.symbols = whole.symbols.clone();
            batch.keep_names_of(&unknown);
            if batch.symbols == Symbols::default() {
                let why = "the server asks for names that are not known here";
                return Verdict::Refused(why.to_owned());
            }
            reply = match self.post(&batch) {
                Ok(reply) => reply,
                Err(error) => return not_reached(&error),
            };
            if reply.status == 409 {
                let why = "the server does not recognize the names that it asked for";
                return Verdict::Refused(why.to_owned());
            }
        }
        match reply.is_ok() {
            true => Verdict::Taken(appended_of(&reply.body, batch.windows.len() as u64)),
            false => verdict_of(&reply),
        }
    }
}

/// What a server says it did: `windows=3 repeated=1 too_old=0`.
fn appended_of(body: &[u8], windows: u64) -> Appended {
    let text = String::from_utf8_lossy(body);
    let number = |key: &str| {
        let mut words = text.split_ascii_whitespace();
        words.find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
    };
    Appended {
        windows: number("windows").unwrap_or(windows),
        repeated: number("repeated").unwrap_or(0),
        too_old: number("too_old").unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_decides_whether_a_batch_is_sent_again() {
        let reply = |status| Reply {
            status,
            retry_after: Some(Duration::from_secs(7)),
            body: b"why".to_vec(),
            ..Reply::default()
        };
        for status in [400, 413] {
            assert!(matches!(verdict_of(&reply(status)), Verdict::Refused(_)));
        }
        let early = verdict_of(&reply(422));
        assert!(
            matches!(early, Verdict::TooEarly { after, .. } if after == Duration::from_secs(7))
        );
        let for_good = Reply {
            retry_after: None,
            ..reply(422)
        };
        assert!(matches!(verdict_of(&for_good), Verdict::Refused(_)));
        assert!(matches!(verdict_of(&reply(500)), Verdict::Failed { .. }));
        for status in [302, 401, 403, 404, 429, 502, 503, 507] {
            let Verdict::Later { after, .. } = verdict_of(&reply(status)) else {
                panic!("{status} is not for good");
            };
            assert_eq!(after, Some(Duration::from_secs(7)));
        }
    }

    #[test]
    fn what_a_server_did_is_read() {
        let appended = appended_of(b"windows=3 repeated=1 too_old=2\n", 6);
        assert_eq!(
            (appended.windows, appended.repeated, appended.too_old),
            (3, 1, 2)
        );
        assert_eq!(appended_of(b"fine", 6).windows, 6);
    }
}
