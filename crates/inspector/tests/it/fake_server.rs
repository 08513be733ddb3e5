//! A websocket server on the loopback interface, driven by a closure on a thread of its own.

use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use nodespy_inspector::{InspectorError, Limits, Session, Wait};
use serde_json::Value;
use tungstenite::{Message, WebSocket};

/// A connection and the thread behind it. The thread ends when the connection does.
pub(crate) struct Fake {
    pub(crate) stream: TcpStream,
    _server: JoinHandle<()>,
}

impl Fake {
    /// Serves one raw connection.
    pub(crate) fn raw(serve: impl FnOnce(TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = std::thread::spawn(move || serve(listener.accept().unwrap().0));
        Self {
            stream,
            _server: server,
        }
    }

    /// Serves one websocket.
    pub(crate) fn websocket(serve: impl FnOnce(Socket) + Send + 'static) -> Self {
        Self::raw(move |stream| {
            stream.set_nodelay(true).unwrap();
            serve(Socket(tungstenite::accept(stream).unwrap()));
        })
    }

    pub(crate) fn open(self) -> Session {
        self.open_with(Limits::default()).unwrap()
    }

    pub(crate) fn open_with(self, limits: Limits) -> Result<Session, InspectorError> {
        let wait = Wait::at_most(Duration::from_secs(10));
        Session::open_with(self.stream, "127.0.0.1", "/id", &wait, limits)
    }
}

/// The server's side of a websocket. Sending to a client that is gone does nothing.
pub(crate) struct Socket(WebSocket<TcpStream>);

impl Socket {
    /// The next command; none when the client is gone.
    pub(crate) fn command(&mut self) -> Option<Value> {
        loop {
            match self.0.read().ok()? {
                Message::Text(text) => return serde_json::from_str(&text).ok(),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    /// Whether the client is still there.
    pub(crate) fn send(&mut self, message: &Value) -> bool {
        self.0.send(Message::text(message.to_string())).is_ok()
    }
}
