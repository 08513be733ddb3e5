//! The client: its messages are read by a thread of their own, so that a ping or a cancellation is heard while a command runs.

use std::collections::VecDeque;
use std::io::{BufRead, Read};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::output;

/// No client sends a longer message.
pub(super) const MAX_MESSAGE_BYTES: u64 = 1 << 20;
/// How many messages wait for the end of a command; the client's pipe holds back the rest.
const MAX_WAITING: usize = 64;

/// What comes from a client.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A line.
    Message(Vec<u8>),
    /// A line of more than [`MAX_MESSAGE_BYTES`]: where the next one starts is not known any more.
    TooLong,
}

/// The other end of standard input and output.
#[derive(Debug)]
pub(super) struct Client {
    incoming: Receiver<Incoming>,
    /// What came while a command was running.
    waiting: VecDeque<Incoming>,
}

impl Client {
    /// The one that started nodespy.
    pub(super) fn on_standard_input() -> Self {
        let (sender, incoming) = mpsc::sync_channel(1);
        std::thread::spawn(move || read_messages(&sender));
        Self::sending(incoming)
    }

    pub(super) fn sending(incoming: Receiver<Incoming>) -> Self {
        Self {
            incoming,
            waiting: VecDeque::new(),
        }
    }

    /// The next message; none once the client has closed its end.
    pub(super) fn next(&mut self) -> Option<Incoming> {
        let waiting = self.waiting.pop_front();
        waiting.or_else(|| self.incoming.recv().ok())
    }

    /// Sends a message; false once the client has closed the pipe.
    pub(super) fn send(&self, message: &Value) -> bool {
        output::stream(&format!("{message}\n"))
    }

    /// Takes what came in since: pings are answered, the rest waits.
    fn listen(&mut self, running: &Value) -> Heard {
        while self.waiting.len() < MAX_WAITING {
            let incoming = match self.incoming.try_recv() {
                Ok(incoming) => incoming,
                Err(TryRecvError::Empty) => return Heard::Nothing,
                Err(TryRecvError::Disconnected) if self.waiting.is_empty() => return Heard::End,
                Err(TryRecvError::Disconnected) => return Heard::Nothing,
            };
            let request = parsed(&incoming);
            match (request["method"].as_str(), &request["id"]) {
                (Some("ping"), id) if !id.is_null() => {
                    self.send(&super::success(id, &json!({})));
                }
                (Some("notifications/cancelled"), _) => {
                    let cancelled = &request["params"]["requestId"];
                    if cancelled == running {
                        return Heard::Cancelled;
                    }
                    self.waiting.retain(|message| {
                        cancelled.is_null() || parsed(message)["id"] != *cancelled
                    });
                }
                _ => self.waiting.push_back(incoming),
            }
        }
        Heard::Nothing
    }
}

/// What a client has sent about the request that is being answered.
#[derive(Debug, PartialEq)]
enum Heard {
    Nothing,
    Cancelled,
    /// It is gone, and waits for nothing else.
    End,
}

fn parsed(incoming: &Incoming) -> Value {
    match incoming {
        Incoming::Message(line) => serde_json::from_slice(line).unwrap_or_default(),
        Incoming::TooLong => Value::Null,
    }
}

fn read_messages(sender: &SyncSender<Incoming>) {
    let mut input = std::io::stdin().lock();
    loop {
        let mut line = Vec::new();
        let read = Read::by_ref(&mut input)
            .take(MAX_MESSAGE_BYTES)
            .read_until(b'\n', &mut line);
        let incoming = match read {
            Ok(0) | Err(_) => return,
            Ok(read) if line.last() != Some(&b'\n') && read as u64 == MAX_MESSAGE_BYTES => {
                Incoming::TooLong
            }
            Ok(_) => Incoming::Message(line),
        };
        let is_last = matches!(incoming, Incoming::TooLong);
        if sender.send(incoming).is_err() || is_last {
            return;
        }
    }
}

/// A request that is being answered by commands.
#[derive(Debug)]
pub(super) struct Call<'a> {
    client: &'a mut Client,
    id: &'a Value,
    /// What the client wants to be told about progress by.
    progress_token: Option<&'a Value>,
    /// How long the recording under way takes, and how much of it the client knows of.
    recording: Option<(u64, u64)>,
    /// Whether the client has cancelled the request.
    pub(super) is_cancelled: bool,
}

impl<'a> Call<'a> {
    pub(super) fn new(client: &'a mut Client, id: &'a Value, parameters: &'a Value) -> Self {
        let token = &parameters["_meta"]["progressToken"];
        Self {
            client,
            id,
            progress_token: (token.is_string() || token.is_number()).then_some(token),
            recording: None,
            is_cancelled: false,
        }
    }

    /// The next command records for so many seconds.
    pub(super) fn record_for(&mut self, seconds: u64) {
        self.recording = Some((seconds, 0));
    }

    /// The recording is done, and is being read.
    pub(super) fn has_recorded(&mut self) {
        if let Some((seconds, _)) = self.recording.take() {
            self.tell_progress(seconds, seconds);
        }
    }

    /// Hears the client while a command runs, and tells it how far a recording is. False when the command is to end.
    pub(super) fn goes_on(&mut self, elapsed: Duration) -> bool {
        let is_wanted = match self.client.listen(self.id) {
            Heard::Nothing => true,
            Heard::Cancelled => false,
            // Short commands still answer: a script sends all its requests and closes its end.
            Heard::End => self.recording.is_none(),
        };
        if let Some((seconds, told)) = &mut self.recording
            && *told < elapsed.as_secs().min(seconds.saturating_sub(1))
        {
            *told = elapsed.as_secs().min(seconds.saturating_sub(1));
            let (done, seconds) = (*told, *seconds);
            self.tell_progress(done, seconds);
        }
        self.is_cancelled |= !is_wanted;
        is_wanted
    }

    fn tell_progress(&self, done: u64, seconds: u64) {
        let Some(token) = self.progress_token else {
            return;
        };
        self.client.send(&json!({
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {
                "progressToken": token,
                "progress": done,
                "total": seconds,
                "message": format!("recorded {done} of {seconds} s"),
            },
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_that_sent(messages: &[Value]) -> Client {
        let (sender, incoming) = mpsc::sync_channel(messages.len());
        for message in messages {
            let line = message.to_string().into_bytes();
            sender.send(Incoming::Message(line)).unwrap();
        }
        Client::sending(incoming)
    }

    fn cancellation(id: u64) -> Value {
        json!({ "method": "notifications/cancelled", "params": { "requestId": id } })
    }

    #[test]
    fn a_cancelled_request_ends_and_one_that_waits_is_dropped() {
        let list = |id: u64| json!({ "id": id, "method": "tools/list" });
        let mut client = client_that_sent(&[list(2), list(3), cancellation(2), cancellation(1)]);
        let (id, parameters) = (json!(1), json!({}));
        let mut call = Call::new(&mut client, &id, &parameters);
        assert!(!call.goes_on(Duration::ZERO));
        assert!(call.is_cancelled);
        let next = client
            .next()
            .map(|incoming| parsed(&incoming)["id"].clone());
        assert_eq!(next, Some(json!(3)));
        assert!(client.next().is_none());
    }

    #[test]
    fn only_recordings_end_with_the_client() {
        for (seconds, is_wanted) in [(None, true), (Some(5), false)] {
            let mut client = client_that_sent(&[]);
            let (id, parameters) = (json!(1), json!({}));
            let mut call = Call::new(&mut client, &id, &parameters);
            if let Some(seconds) = seconds {
                call.record_for(seconds);
            }
            assert_eq!(call.goes_on(Duration::ZERO), is_wanted, "{seconds:?}");
        }
    }
}
