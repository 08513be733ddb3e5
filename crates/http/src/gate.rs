//! How many connections there may be, and which one goes when there are too many: the one that has
//! been sending its head for longest. Those that are being answered know the token, and stay.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard};

/// Browsers use six connections to a server.
const MAX_CONNECTIONS: usize = 64;

/// Serves connections until [`stop_accepting`], a thread for each; those that are being answered then are waited for. `serve`
/// calls the function it is given once the request has turned out to be allowed.
pub fn accept<F>(listener: &TcpListener, serve: F)
where
    F: Fn(TcpStream, &dyn Fn()) -> io::Result<()> + Sync,
{
    let serve = &serve;
    let gate = &Gate::default();
    std::thread::scope(|scope| {
        for connection in listener.incoming() {
            let connection = match connection {
                Ok(connection) => connection,
                Err(error) if is_stopped(&error) => break,
                Err(_) => continue,
            };
            let Some(number) = gate.enter(&connection) else {
                continue;
            };
            scope.spawn(move || {
                // A reader that goes away is its own affair.
                let _ = serve(connection, &|| gate.keep(number));
                gate.leave(number);
            });
        }
        gate.end_heads();
    });
}

/// Ends [`accept`] of this listener: later connections are refused.
pub fn stop_accepting(listener: &TcpListener) -> io::Result<()> {
    // A listening socket is shut down as a connection is; there is no other name for it in std.
    let socket = TcpStream::from(OwnedFd::from(listener.try_clone()?));
    socket.shutdown(Shutdown::Both)
}

/// accept(2) says EINVAL of a socket that does not listen.
fn is_stopped(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput
}

/// Counts connections.
#[derive(Debug, Default)]
struct Gate(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    count: usize,
    next: u64,
    /// Those whose head is not read yet, the oldest first.
    heads: VecDeque<(u64, TcpStream)>,
}

impl Gate {
    /// Lets a connection in and numbers it; none where all others are being answered.
    fn enter(&self, connection: &TcpStream) -> Option<u64> {
        let mut open = self.open();
        if open.count >= MAX_CONNECTIONS {
            // Its thread wakes, and leaves.
            let (_, oldest) = open.heads.pop_front()?;
            let _ = oldest.shutdown(Shutdown::Both);
            if open.count >= 2 * MAX_CONNECTIONS {
                return None;
            }
        }
        let connection = connection.try_clone().ok()?;
        open.count += 1;
        open.next += 1;
        let number = open.next;
        open.heads.push_back((number, connection));
        Some(number)
    }

    /// The head of a connection is read: it is not ended in favour of others any more.
    fn keep(&self, number: u64) {
        self.open().heads.retain(|(other, _)| *other != number);
    }

    /// Closes connections whose request head was not read yet.
    fn end_heads(&self) {
        for (_, connection) in self.open().heads.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// A connection has ended.
    fn leave(&self, number: u64) {
        self.keep(number);
        self.open().count -= 1;
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
