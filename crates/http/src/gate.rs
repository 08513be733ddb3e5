//! How many connections there may be, and which one goes when there are too many: the one that has
//! been sending its head for longest. Those that are being answered know the token, and stay unless
//! that takes long: where no token is asked for, anybody can be answered slowly.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Browsers use six connections to a server.
const MAX_CONNECTIONS: usize = 64;

/// How long an answer is not ended in favour of others.
const KEPT_FOR: Duration = Duration::from_secs(20);
/// What is waited after accept(2) has failed: there are no descriptors left, and trying again at once would only burn a CPU.
const BACKOFF: Duration = Duration::from_millis(100);

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
                Err(_) => {
                    std::thread::sleep(BACKOFF);
                    continue;
                }
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
    /// Those that are being answered, with the time they have been since, the oldest first.
    answered: VecDeque<(u64, TcpStream, Instant)>,
}

impl Open {
    /// The connection that goes in favour of another.
    fn pop_slowest(&mut self) -> Option<TcpStream> {
        if let Some((_, head)) = self.heads.pop_front() {
            return Some(head);
        }
        let (_, _, since) = self.answered.front()?;
        if since.elapsed() <= KEPT_FOR {
            return None;
        }
        let slow = self.answered.pop_front();
        slow.map(|(_, connection, _)| connection)
    }
}

impl Gate {
    /// Lets a connection in and numbers it; none where all others are being answered.
    fn enter(&self, connection: &TcpStream) -> Option<u64> {
        let mut open = self.open();
        if open.count >= MAX_CONNECTIONS {
            // Its thread wakes, and leaves.
            let slowest = open.pop_slowest()?;
            let _ = slowest.shutdown(Shutdown::Both);
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

    /// The head of a connection is read: it is not ended in favour of others for a while.
    fn keep(&self, number: u64) {
        let mut open = self.open();
        let place = open.heads.iter().position(|(other, _)| *other == number);
        if let Some((_, connection)) = place.and_then(|place| open.heads.remove(place)) {
            open.answered
                .push_back((number, connection, Instant::now()));
        }
    }

    /// Closes connections whose request head was not read yet.
    fn end_heads(&self) {
        for (_, connection) in self.open().heads.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// A connection has ended.
    fn leave(&self, number: u64) {
        let mut open = self.open();
        open.heads.retain(|(other, _)| *other != number);
        open.answered.retain(|(other, ..)| *other != number);
        open.count -= 1;
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn slow_answers_go_in_favour_of_others_and_fresh_ones_stay() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let gate = Gate::default();
        for _ in 0..MAX_CONNECTIONS {
            let number = gate.enter(&connection).unwrap();
            gate.keep(number);
        }
        assert_eq!(gate.enter(&connection), None);
        // The oldest has been answered for long.
        gate.open().answered[0].2 -= 2 * KEPT_FOR;
        assert!(gate.enter(&connection).is_some());
        assert_eq!(gate.open().answered.len(), MAX_CONNECTIONS - 1);
    }
}
