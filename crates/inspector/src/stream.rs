//! A TCP stream whose reads and writes end at a deadline, however slowly bytes trickle in.
//!
//! The kernel's own timeouts count from the last byte: a server that sends one byte a second never
//! meets them.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::InspectorError;

/// How often a wait checks whether it was cancelled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Ends waits early: the user's Ctrl-C, for example.
#[derive(Clone)]
pub struct Cancel(Arc<dyn Fn() -> bool + Send + Sync>);

impl Cancel {
    /// Cancels as soon as `is_cancelled` returns true.
    pub fn when(is_cancelled: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_cancelled))
    }

    /// Whether waits end now.
    pub fn is_cancelled(&self) -> bool {
        (self.0)()
    }
}

impl Default for Cancel {
    /// Never cancels.
    fn default() -> Self {
        Self::when(|| false)
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = formatter.debug_tuple("Cancel");
        tuple.field(&self.is_cancelled()).finish()
    }
}

/// How long to wait, and what ends the wait early.
#[derive(Debug, Clone, Default)]
pub struct Wait {
    /// From the first byte sent to the last byte received.
    pub timeout: Duration,
    /// Ends it early.
    pub cancel: Cancel,
}

impl Wait {
    /// A wait that only time ends.
    pub fn at_most(timeout: Duration) -> Self {
        Self {
            timeout,
            cancel: Cancel::default(),
        }
    }

    /// The error of a wait that ended without its answer.
    pub(crate) fn expired(&self, method: &'static str) -> InspectorError {
        match self.cancel.is_cancelled() {
            true => InspectorError::Cancelled { method },
            false => InspectorError::Timeout {
                method,
                after: self.timeout,
            },
        }
    }
}

/// A stream with a deadline across reads and writes. Past it they fail with `TimedOut`; they never
/// fail with `WouldBlock` or `Interrupted`.
#[derive(Debug)]
pub(crate) struct DeadlineStream {
    stream: TcpStream,
    deadline: Instant,
    cancel: Cancel,
}

impl DeadlineStream {
    pub(crate) fn new(stream: TcpStream, wait: &Wait) -> Self {
        Self {
            stream,
            deadline: Instant::now() + wait.timeout,
            cancel: wait.cancel.clone(),
        }
    }

    /// Sets the deadline of what is read and written next; nothing else ends it.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.deadline = Instant::now() + timeout;
        self.cancel = Cancel::default();
    }

    pub(crate) fn get_ref(&self) -> &TcpStream {
        &self.stream
    }

    /// How long the next system call may block.
    fn time_left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match left.is_zero() || self.cancel.is_cancelled() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(left.min(POLL_INTERVAL)),
        }
    }
}

impl Read for DeadlineStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.stream.set_read_timeout(Some(self.time_left()?))?;
            match self.stream.read(buffer) {
                Err(error) if is_retry(&error) => {}
                done => return done,
            }
        }
    }
}

impl Write for DeadlineStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.stream.set_write_timeout(Some(self.time_left()?))?;
            match self.stream.write(bytes) {
                Err(error) if is_retry(&error) => {}
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Whether a system call ended without doing anything.
fn is_retry(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
