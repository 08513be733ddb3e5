//! One conversation with the main thread of a Node process and, through it, with its workers.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Message as Frame, WebSocket};

use crate::InspectorError;
use crate::message::{AttachedToWorker, Complaint, Message, OfWorker, ScriptParsed};

/// A profile is one message; a day of samples stays below this.
const LARGEST_MESSAGE: usize = 1 << 30;
/// Workers of one process that are listened to.
const MOST_WORKERS: usize = 4096;
/// Replies nobody asked for are dropped beyond this.
const MOST_REPLIES: usize = 4 * MOST_WORKERS;
/// Scripts of one process that are remembered.
const MOST_SCRIPTS: usize = 100_000;
/// What scripts say of their source maps, all together: maps may be in it.
const MOST_MAP_BYTES: usize = 256 << 20;
/// How long one look at the socket waits.
const LOOK: Duration = Duration::from_millis(20);

/// Which thread of the process is spoken to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// The main thread.
    Main,
    /// The worker with this session.
    Worker(String),
}

/// A worker thread.
#[derive(Debug, Clone)]
pub struct Worker {
    /// Its session.
    pub session: String,
    /// `Worker 1`, or `[worker 1] name` from Node 18 on.
    pub title: String,
    /// Its script.
    pub url: String,
}

impl Worker {
    /// Its `threadId`, the same in every conversation; the session is not.
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
    /// What `Debugger.getScriptSource` wants.
    pub id: String,
    /// Where it came from.
    pub url: String,
    /// What it says of its source map; empty when it has none, or the maps before it were too large.
    pub map_url: String,
    /// Its length in UTF-16 units, where V8 tells it.
    pub length: Option<u64>,
}

type Reply = Result<String, Complaint>;

/// A conversation. Dropping it drops the connection, which ends every profiler it started.
#[derive(Debug)]
pub struct Session {
    socket: WebSocket<TcpStream>,
    next_id: u64,
    replies: HashMap<(Place, u64), Reply>,
    started: Vec<Worker>,
    scripts: Vec<(Place, Script)>,
    map_bytes: usize,
    /// Sessions of workers that ended.
    ended: HashSet<String>,
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
        patience: Duration,
    ) -> Result<Self, InspectorError> {
        stream
            .set_read_timeout(Some(patience))
            .and_then(|()| stream.set_write_timeout(Some(patience)))
            .and_then(|()| stream.set_nodelay(true))
            .map_err(InspectorError::Broken)?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(LARGEST_MESSAGE))
            .max_frame_size(Some(LARGEST_MESSAGE));
        let address = format!("ws://{host}{path}");
        let (socket, _) = tungstenite::client::client_with_config(address, stream, Some(config))
            .map_err(|error| InspectorError::Refused {
                what: error.to_string(),
            })?;
        socket
            .get_ref()
            .set_read_timeout(Some(LOOK))
            .map_err(InspectorError::Broken)?;
        Ok(Self {
            socket,
            next_id: 1,
            replies: HashMap::new(),
            started: Vec::new(),
            scripts: Vec::new(),
            map_bytes: 0,
            ended: HashSet::new(),
            is_waiting_for_disconnect: false,
            is_paused: false,
            is_closed: false,
        })
    }

    /// The stream, for telling which local port it has.
    pub fn stream(&self) -> &TcpStream {
        self.socket.get_ref()
    }

    /// Whether the process has ended but for us: it goes when we hang up.
    pub fn is_waiting_for_disconnect(&self) -> bool {
        self.is_waiting_for_disconnect
    }

    /// Whether the process was stopped by the debugger and has not gone on since.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// The scripts of a thread that were told since the last call, after `Debugger.enable`.
    pub fn new_scripts(&mut self, place: &Place) -> Vec<Script> {
        let told = std::mem::take(&mut self.scripts);
        let (of_place, others) = told.into_iter().partition(|(of, _)| of == place);
        self.scripts = others;
        let of_place: Vec<(Place, Script)> = of_place;
        of_place.into_iter().map(|(_, script)| script).collect()
    }

    /// Whether a thread has ended.
    pub fn has_ended(&self, place: &Place) -> bool {
        matches!(place, Place::Worker(session) if self.ended.contains(session))
    }

    /// Whether the other side has said goodbye.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Workers that were found since the last call.
    pub fn new_workers(&mut self) -> Vec<Worker> {
        std::mem::take(&mut self.started)
    }

    /// Sends a command and returns its number.
    pub fn send(
        &mut self,
        place: &Place,
        method: &'static str,
        params: &Value,
    ) -> Result<u64, InspectorError> {
        let id = self.next_id;
        self.next_id += 1;
        let command = json!({ "id": id, "method": method, "params": params });
        let text = match place {
            Place::Main => command.to_string(),
            Place::Worker(session) => {
                // The outer command has a number of its own, whose reply says nothing of interest.
                let outer = self.next_id;
                self.next_id += 1;
                json!({
                    "id": outer,
                    "method": "NodeWorker.sendMessageToWorker",
                    "params": { "sessionId": session, "message": command.to_string() },
                })
                .to_string()
            }
        };
        self.socket.send(Frame::text(text)).map_err(broken)?;
        Ok(id)
    }

    /// Waits for the reply to a command: the raw JSON of its result.
    pub fn reply(
        &mut self,
        place: &Place,
        id: u64,
        method: &'static str,
        patience: Duration,
    ) -> Result<String, InspectorError> {
        let deadline = Instant::now() + patience;
        loop {
            match self.reply_so_far(place, id, method) {
                Some(reply) => return reply,
                None if Instant::now() > deadline => {
                    return Err(InspectorError::Late {
                        method,
                        after: patience,
                    });
                }
                None => self.look()?,
            }
        }
    }

    /// The reply to a command if it has arrived, or an error if it never will.
    pub fn reply_so_far(
        &mut self,
        place: &Place,
        id: u64,
        method: &'static str,
    ) -> Option<Result<String, InspectorError>> {
        match self.replies.remove(&(place.clone(), id)) {
            Some(Ok(result)) => Some(Ok(result)),
            Some(Err(complaint)) => Some(Err(InspectorError::Command {
                method,
                message: complaint.message.chars().take(300).collect(),
            })),
            None if self.is_closed || self.has_ended(place) => Some(Err(InspectorError::Closed)),
            None => None,
        }
    }

    /// Sends a command and waits for its reply.
    pub fn call(
        &mut self,
        place: &Place,
        method: &'static str,
        params: &Value,
        patience: Duration,
    ) -> Result<String, InspectorError> {
        let id = self.send(place, method, params)?;
        self.reply(place, id, method, patience)
    }

    /// Takes in what has arrived, waiting for it a moment.
    pub fn look(&mut self) -> Result<(), InspectorError> {
        match self.socket.read() {
            Ok(Frame::Text(text)) => self.take(&text),
            Ok(Frame::Close(_)) => {
                self.is_closed = true;
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(tungstenite::Error::Io(error)) if is_timeout(&error) => Ok(()),
            Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => {
                self.is_closed = true;
                Err(InspectorError::Closed)
            }
            Err(error) => Err(broken(error)),
        }
    }

    fn take(&mut self, text: &str) -> Result<(), InspectorError> {
        let message = Message::parse(text)?;
        if message.id.is_some() {
            self.take_reply(Place::Main, &message);
            return Ok(());
        }
        let params = message.params.map_or("{}", |params| params.get());
        match message.method.as_deref() {
            Some("NodeRuntime.waitingForDisconnect") => self.is_waiting_for_disconnect = true,
            Some("NodeWorker.attachedToWorker") if self.started.len() < MOST_WORKERS => {
                let event: AttachedToWorker = parse(params)?;
                self.started.push(Worker {
                    session: event.session_id,
                    title: event.worker_info.title,
                    url: event.worker_info.url,
                });
            }
            Some("NodeWorker.receivedMessageFromWorker") => {
                let event: OfWorker = parse(params)?;
                let inner = Message::parse(&event.message)?;
                let place = Place::Worker(event.session_id);
                match inner.method.as_deref() {
                    Some("Debugger.scriptParsed") => self.take_script(place, inner.params)?,
                    _ if inner.id.is_some() => self.take_reply(place, &inner),
                    _ => {}
                }
            }
            Some("NodeWorker.detachedFromWorker") => {
                let event: OfWorker = parse(params)?;
                self.started
                    .retain(|worker| worker.session != event.session_id);
                if self.ended.len() < MOST_WORKERS {
                    self.ended.insert(event.session_id);
                }
            }
            Some("Debugger.scriptParsed") => self.take_script(Place::Main, message.params)?,
            Some("Debugger.paused") => self.is_paused = true,
            Some("Debugger.resumed") => self.is_paused = false,
            _ => {}
        }
        Ok(())
    }

    fn take_script(
        &mut self,
        place: Place,
        params: Option<&serde_json::value::RawValue>,
    ) -> Result<(), InspectorError> {
        let event: ScriptParsed = parse(params.map_or("{}", |params| params.get()))?;
        if self.scripts.len() < MOST_SCRIPTS && !event.url.is_empty() {
            let map_url = event.map_url.unwrap_or_default();
            self.map_bytes = self.map_bytes.saturating_add(map_url.len());
            let script = Script {
                id: event.script_id,
                url: event.url,
                map_url: match self.map_bytes <= MOST_MAP_BYTES {
                    true => map_url,
                    false => String::new(),
                },
                length: event.length,
            };
            self.scripts.push((place, script));
        }
        Ok(())
    }

    fn take_reply(&mut self, place: Place, message: &Message<'_>) {
        let Some(id) = message.id else { return };
        if self.replies.len() >= MOST_REPLIES {
            return;
        }
        let reply = match (&message.error, message.result) {
            (Some(complaint), _) => Err(complaint.clone()),
            (None, Some(result)) => Ok(result.get().to_owned()),
            (None, None) => Ok("{}".to_owned()),
        };
        self.replies.insert((place, id), reply);
    }

    /// Ends the conversation properly: says so and waits a moment for the answer.
    pub fn close(mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        if self.socket.close(None).is_err() {
            return;
        }
        while Instant::now() < deadline && !self.is_closed {
            match self.socket.read() {
                Ok(_) => {}
                Err(tungstenite::Error::Io(error)) if is_timeout(&error) => {}
                Err(_) => return,
            }
        }
    }
}

fn parse<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, InspectorError> {
    serde_json::from_str(text).map_err(|error| InspectorError::BadMessage {
        what: error.to_string(),
    })
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn broken(error: tungstenite::Error) -> InspectorError {
    match error {
        tungstenite::Error::Io(error) => InspectorError::Broken(error),
        tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => {
            InspectorError::Closed
        }
        other => InspectorError::BadMessage {
            what: other.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_told_apart_by_the_number_in_their_title() {
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
