//! One session with the main thread of a Node process and, through it, with its workers.

use std::collections::HashSet;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{HandshakeError, Message as Frame, WebSocket};

use crate::message::{AttachedToWorker, Message, OfWorker, ScriptParsed};
use crate::pending::Pending;
use crate::stream::DeadlineStream;
use crate::{Cancel, InspectorError, Wait};

/// Workers of one process that are followed at a time.
const MAX_WORKERS: usize = 4096;
/// Scripts of one process that are kept.
const MAX_SCRIPTS: usize = 100_000;
/// Source map URLs of all scripts together: a URL may hold a whole map.
const MAX_MAP_URL_BYTES: usize = 256 << 20;
/// How long one poll waits for the socket.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long the peer may take to read a command.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
const HANDSHAKE: &str = "the websocket handshake";

/// How much a session holds of what the peer sends.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of one message.
    pub message_bytes: usize,
    /// Of all that was received and not taken yet.
    pub queued_bytes: usize,
}

impl Default for Limits {
    /// A profile is one message: seven hours at 1 kHz in one slice stay below the first limit, and
    /// slices last a minute at most.
    fn default() -> Self {
        Self {
            message_bytes: 256 << 20,
            queued_bytes: 512 << 20,
        }
    }
}

/// The thread of the process a command goes to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Recipient {
    /// The main thread.
    Main,
    /// The worker with this session id.
    Worker(String),
}

/// A worker thread.
#[derive(Debug, Clone)]
pub struct Worker {
    /// Its session id.
    pub session: String,
    /// `Worker 1`, or `[worker 1] name` from Node 18 on.
    pub title: String,
    /// Its script.
    pub url: String,
}

impl Worker {
    fn bytes(&self) -> usize {
        self.session.len() + self.title.len() + self.url.len()
    }

    /// Its `threadId`, the same in every session; the session id is not.
    pub fn number(&self) -> Option<u32> {
        let digits = |text: &str| text.split(']').next()?.trim().parse().ok();
        let title = self.title.trim();
        let rest = title.strip_prefix("[worker ");
        digits(rest.or_else(|| title.strip_prefix("Worker "))?)
    }
}

/// A script that V8 knows.
#[derive(Debug, Clone)]
pub struct Script {
    /// The argument of `Debugger.getScriptSource`.
    pub id: String,
    /// Where it came from.
    pub url: String,
    /// Its `sourceMapURL`; empty when it has none, or those before it were too large.
    pub map_url: String,
    /// Its length in UTF-16 units, where V8 reports it.
    pub length: Option<u64>,
}

impl Script {
    fn bytes(&self) -> usize {
        self.id.len() + self.url.len() + self.map_url.len()
    }
}

impl AsRawFd for Session {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.get_ref().get_ref().as_raw_fd()
    }
}

/// A session. Dropping it drops the connection, which ends every profiler it started.
#[derive(Debug)]
pub struct Session {
    socket: WebSocket<DeadlineStream>,
    limits: Limits,
    cancel: Cancel,
    next_id: u64,
    pending: Pending,
    /// Session ids of workers that run.
    workers: HashSet<String>,
    started: Vec<Worker>,
    scripts: Vec<(Recipient, Script)>,
    /// Bytes of `started` and `scripts`, and of map URLs among them.
    event_bytes: usize,
    map_url_bytes: usize,
    /// The limit that ended the session.
    exceeded: Option<(&'static str, usize)>,
    is_waiting_for_disconnect: bool,
    is_paused: bool,
    is_closed: bool,
}

impl Session {
    /// Attaches through an open stream.
    pub fn open(
        stream: TcpStream,
        host: &str,
        path: &str,
        wait: &Wait,
    ) -> Result<Self, InspectorError> {
        Self::open_with(stream, host, path, wait, Limits::default())
    }

    /// The same with limits of the caller's own.
    pub fn open_with(
        stream: TcpStream,
        host: &str,
        path: &str,
        wait: &Wait,
        limits: Limits,
    ) -> Result<Self, InspectorError> {
        // Small commands go out at once. A stream that knows no such delay refuses, and is fine.
        let _ = stream.set_nodelay(true);
        let config = WebSocketConfig::default()
            .max_message_size(Some(limits.message_bytes))
            .max_frame_size(Some(limits.message_bytes));
        let address = format!("ws://{host}{path}");
        let stream = DeadlineStream::new(stream, wait);
        let (socket, _) = tungstenite::client::client_with_config(address, stream, Some(config))
            .map_err(|error| refused(error, wait))?;
        Ok(Self {
            socket,
            limits,
            cancel: wait.cancel.clone(),
            next_id: 1,
            pending: Pending::default(),
            workers: HashSet::new(),
            started: Vec::new(),
            scripts: Vec::new(),
            event_bytes: 0,
            map_url_bytes: 0,
            exceeded: None,
            is_waiting_for_disconnect: false,
            is_paused: false,
            is_closed: false,
        })
    }

    /// Replaces what ends waits for replies early.
    pub fn set_cancel(&mut self, cancel: Cancel) {
        self.cancel = cancel;
    }

    /// Whether the process has ended and only waits for this session to disconnect.
    pub fn is_waiting_for_disconnect(&self) -> bool {
        self.is_waiting_for_disconnect
    }

    /// Whether the debugger has paused the process.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// The scripts of a thread that were reported since the last call, after `Debugger.enable`.
    pub fn new_scripts(&mut self, recipient: &Recipient) -> Vec<Script> {
        let reported = std::mem::take(&mut self.scripts);
        let (its, others): (Vec<_>, Vec<_>) =
            reported.into_iter().partition(|(of, _)| of == recipient);
        self.scripts = others;
        let scripts = its.into_iter().map(|(_, script)| script);
        scripts
            .inspect(|script| {
                self.event_bytes -= script.bytes();
                self.map_url_bytes -= script.map_url.len();
            })
            .collect()
    }

    /// Whether a thread has ended.
    pub fn has_ended(&self, recipient: &Recipient) -> bool {
        matches!(recipient, Recipient::Worker(session) if !self.workers.contains(session))
    }

    /// Drops whatever was received from a thread, or is awaited from it.
    pub fn forget(&mut self, recipient: &Recipient) {
        self.pending.forget(recipient);
        self.new_scripts(recipient);
    }

    /// Whether the peer has closed the session.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Workers that were reported since the last call.
    pub fn new_workers(&mut self) -> Vec<Worker> {
        let started = std::mem::take(&mut self.started);
        self.event_bytes -= started.iter().map(Worker::bytes).sum::<usize>();
        started
    }

    /// Replies that were dropped because no command awaited them.
    pub fn dropped_replies(&self) -> u64 {
        self.pending.dropped()
    }

    /// Commands whose replies are still awaited, or were not taken yet.
    pub fn pending_commands(&self) -> usize {
        self.pending.len()
    }

    /// Bytes that were received and not taken yet.
    pub fn queued_bytes(&self) -> usize {
        self.pending.bytes() + self.event_bytes
    }

    /// Sends a command and returns its id, whose reply must be awaited.
    pub fn send(
        &mut self,
        recipient: &Recipient,
        method: &'static str,
        params: &Value,
    ) -> Result<u64, InspectorError> {
        let (id, carrier) = self.write(recipient, method, params)?;
        self.pending.expect(id, recipient.clone(), carrier);
        Ok(id)
    }

    /// Sends a command whose reply does not matter.
    pub fn post(
        &mut self,
        recipient: &Recipient,
        method: &'static str,
        params: &Value,
    ) -> Result<(), InspectorError> {
        self.write(recipient, method, params).map(drop)
    }

    /// Writes a command: its id, and that of the command that carries it to a worker.
    fn write(
        &mut self,
        recipient: &Recipient,
        method: &'static str,
        params: &Value,
    ) -> Result<(u64, Option<u64>), InspectorError> {
        if let Some(error) = self.limit_error() {
            return Err(error);
        }
        let id = self.take_id();
        let command = json!({ "id": id, "method": method, "params": params });
        let (text, carrier) = match recipient {
            Recipient::Main => (command.to_string(), None),
            Recipient::Worker(session) => {
                let carrier = self.take_id();
                let outer = json!({
                    "id": carrier,
                    "method": "NodeWorker.sendMessageToWorker",
                    "params": { "sessionId": session, "message": command.to_string() },
                });
                (outer.to_string(), Some(carrier))
            }
        };
        self.socket.get_mut().set_timeout(WRITE_TIMEOUT);
        let sent = self.socket.send(Frame::text(text));
        sent.map_err(|error| self.broken(error))?;
        Ok((id, carrier))
    }

    fn take_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Waits for the reply to a command: the raw JSON of its result.
    pub fn reply(
        &mut self,
        recipient: &Recipient,
        id: u64,
        method: &'static str,
        timeout: Duration,
    ) -> Result<String, InspectorError> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(reply) = self.try_reply(recipient, id, method) {
                return reply;
            }
            if self.cancel.is_cancelled() || Instant::now() >= deadline {
                self.pending.abandon(id);
                let cancel = self.cancel.clone();
                return Err(Wait { timeout, cancel }.expired(method));
            }
            self.poll()?;
        }
    }

    /// The reply to a command if it has arrived, or an error if it never will.
    pub fn try_reply(
        &mut self,
        recipient: &Recipient,
        id: u64,
        method: &'static str,
    ) -> Option<Result<String, InspectorError>> {
        let error = match self.pending.take(id) {
            Some(Ok(result)) => return Some(Ok(result)),
            Some(Err(complaint)) => InspectorError::Command {
                method,
                message: complaint.message.chars().take(300).collect(),
            },
            None if self.exceeded.is_some() => self.limit_error()?,
            None if self.is_closed || self.has_ended(recipient) => InspectorError::Closed,
            None => return None,
        };
        self.pending.abandon(id);
        Some(Err(error))
    }

    /// Sends a command and waits for its reply.
    pub fn call(
        &mut self,
        recipient: &Recipient,
        method: &'static str,
        params: &Value,
        timeout: Duration,
    ) -> Result<String, InspectorError> {
        let id = self.send(recipient, method, params)?;
        self.reply(recipient, id, method, timeout)
    }

    /// Takes in one message, waiting up to the poll interval for it; whether one came.
    pub fn poll(&mut self) -> Result<bool, InspectorError> {
        if let Some(error) = self.limit_error() {
            return Err(error);
        }
        self.socket.get_mut().set_timeout(POLL_INTERVAL);
        match self.socket.read() {
            Ok(Frame::Text(text)) => {
                self.take(&text)?;
                self.check_queue()?;
                Ok(true)
            }
            Ok(Frame::Close(_)) => {
                self.is_closed = true;
                Ok(true)
            }
            Ok(_) => Ok(true),
            Err(tungstenite::Error::Io(error)) if error.kind() == std::io::ErrorKind::TimedOut => {
                Ok(false)
            }
            Err(error) => Err(self.broken(error)),
        }
    }

    fn check_queue(&mut self) -> Result<(), InspectorError> {
        match self.queued_bytes() > self.limits.queued_bytes {
            true => Err(self.exceed("what is queued of the messages", self.limits.queued_bytes)),
            false => Ok(()),
        }
    }

    /// Ends the session because of a limit.
    fn exceed(&mut self, what: &'static str, limit_bytes: usize) -> InspectorError {
        self.exceeded = Some((what, limit_bytes));
        self.pending = Pending::default();
        (self.started, self.scripts) = (Vec::new(), Vec::new());
        (self.event_bytes, self.map_url_bytes) = (0, 0);
        let stream = self.socket.get_ref().get_ref();
        let _ = stream.shutdown(std::net::Shutdown::Both);
        InspectorError::TooLarge { what, limit_bytes }
    }

    fn limit_error(&self) -> Option<InspectorError> {
        let (what, limit_bytes) = self.exceeded?;
        Some(InspectorError::TooLarge { what, limit_bytes })
    }

    fn take(&mut self, text: &str) -> Result<(), InspectorError> {
        let message = Message::parse(text)?;
        if message.id.is_some() {
            self.take_reply(&Recipient::Main, &message);
            return Ok(());
        }
        let params = message.params.map_or("{}", |params| params.get());
        match message.method.as_deref() {
            Some("NodeRuntime.waitingForDisconnect") => self.is_waiting_for_disconnect = true,
            Some("NodeWorker.attachedToWorker") => self.take_worker(parse(params)?),
            Some("NodeWorker.receivedMessageFromWorker") => {
                let event: OfWorker = parse(params)?;
                let inner = Message::parse(&event.message)?;
                let recipient = Recipient::Worker(event.session_id);
                match inner.method.as_deref() {
                    Some("Debugger.scriptParsed") => self.take_script(recipient, inner.params)?,
                    _ if inner.id.is_some() => self.take_reply(&recipient, &inner),
                    _ => {}
                }
            }
            Some("NodeWorker.detachedFromWorker") => {
                let event: OfWorker = parse(params)?;
                self.workers.remove(&event.session_id);
            }
            Some("Debugger.scriptParsed") => self.take_script(Recipient::Main, message.params)?,
            Some("Debugger.paused") => self.is_paused = true,
            Some("Debugger.resumed") => self.is_paused = false,
            _ => {}
        }
        Ok(())
    }

    fn take_worker(&mut self, event: AttachedToWorker) {
        if self.workers.len() >= MAX_WORKERS || self.started.len() >= MAX_WORKERS {
            return;
        }
        let worker = Worker {
            session: event.session_id,
            title: event.worker_info.title,
            url: event.worker_info.url,
        };
        self.workers.insert(worker.session.clone());
        self.event_bytes += worker.bytes();
        self.started.push(worker);
    }

    fn take_script(
        &mut self,
        recipient: Recipient,
        params: Option<&serde_json::value::RawValue>,
    ) -> Result<(), InspectorError> {
        let event: ScriptParsed = parse(params.map_or("{}", |params| params.get()))?;
        if self.scripts.len() >= MAX_SCRIPTS || event.url.is_empty() {
            return Ok(());
        }
        let mut map_url = event.map_url.unwrap_or_default();
        if self.map_url_bytes + map_url.len() > MAX_MAP_URL_BYTES {
            map_url = String::new();
        }
        let script = Script {
            id: event.script_id,
            url: event.url,
            map_url,
            length: event.length,
        };
        self.map_url_bytes += script.map_url.len();
        self.event_bytes += script.bytes();
        self.scripts.push((recipient, script));
        Ok(())
    }

    fn take_reply(&mut self, from: &Recipient, message: &Message<'_>) {
        let Some(id) = message.id else { return };
        self.pending
            .answer(from, id, || match (&message.error, message.result) {
                (Some(complaint), _) => Err(complaint.clone()),
                (None, Some(result)) => Ok(result.get().to_owned()),
                (None, None) => Ok("{}".to_owned()),
            });
    }

    /// Ends the session properly: sends a close frame and waits a moment for the answer.
    pub fn close(mut self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        self.socket.get_mut().set_timeout(timeout);
        if self.socket.close(None).is_err() {
            return;
        }
        while Instant::now() < deadline && self.socket.read().is_ok() {}
    }

    fn broken(&mut self, error: tungstenite::Error) -> InspectorError {
        match error {
            tungstenite::Error::Io(error) => InspectorError::Broken(error),
            tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => {
                self.is_closed = true;
                InspectorError::Closed
            }
            tungstenite::Error::Capacity(_) => self.exceed("a message", self.limits.message_bytes),
            other => InspectorError::BadMessage {
                what: other.to_string(),
            },
        }
    }
}

fn parse<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, InspectorError> {
    serde_json::from_str(text).map_err(|error| InspectorError::BadMessage {
        what: error.to_string(),
    })
}

/// Why a handshake failed.
fn refused<R: tungstenite::handshake::HandshakeRole>(
    error: HandshakeError<R>,
    wait: &Wait,
) -> InspectorError {
    match error {
        HandshakeError::Failure(tungstenite::Error::Io(error)) => match error.kind() {
            std::io::ErrorKind::TimedOut => wait.expired(HANDSHAKE),
            _ => InspectorError::Broken(error),
        },
        HandshakeError::Failure(error) => InspectorError::Refused {
            what: error.to_string(),
        },
        HandshakeError::Interrupted(_) => wait.expired(HANDSHAKE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_identified_by_the_number_in_their_title() {
        let number = |title: &str| {
            let worker = Worker {
                session: "7".to_owned(),
                title: title.to_owned(),
                url: String::new(),
            };
            worker.number()
        };
        assert_eq!(number("Worker 3"), Some(3));
        assert_eq!(number("[worker 12] resize"), Some(12));
        assert_eq!(number("[worker 4]"), Some(4));
        assert_eq!(number("something else"), None);
    }
}
