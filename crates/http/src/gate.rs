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
/// How many of one tenant may be answered, so that what it holds open leaves room for others.
const MAX_PER_TENANT: usize = MAX_CONNECTIONS / 2;

/// How long an answer is not ended in favour of others.
const KEPT_FOR: Duration = Duration::from_secs(20);
/// What is waited after accept(2) has failed: there are no descriptors left, and trying again at once would only burn a CPU.
const BACKOFF: Duration = Duration::from_millis(100);

/// Serves connections until [`stop_accepting`], a thread for each; those that are being answered then are waited for. `serve`
/// marks the slot as kept once the request has turned out to be allowed.
pub fn accept<F>(listener: &TcpListener, serve: F)
where
    F: Fn(TcpStream, &Slot<'_>) -> io::Result<()> + Sync,
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
                let _ = serve(connection, &Slot { gate, number });
            });
        }
        gate.end_heads();
    });
}

/// A connection that was let in. It has left when this is dropped, also by a request that panics.
#[derive(Debug)]
pub struct Slot<'a> {
    gate: &'a Gate,
    number: u64,
}

impl Slot<'_> {
    /// Its request may be answered: it is not ended in favour of others for a while.
    pub fn keep(&self) {
        self.gate.keep(self.number, None);
    }

    /// The same for a tenant of the server; false where as many of its connections are being answered as may be.
    #[must_use]
    pub fn keep_for(&self, tenant: usize) -> bool {
        self.gate.keep(self.number, Some(tenant))
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.gate.leave(self.number);
    }
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
    /// Those that are being answered, the oldest first.
    answered: VecDeque<Answered>,
}

/// A connection that is being answered.
#[derive(Debug)]
struct Answered {
    number: u64,
    connection: TcpStream,
    since: Instant,
    /// Whose it is, of the tenants of a server.
    tenant: Option<usize>,
}

impl Open {
    /// The connection that goes in favour of another.
    fn pop_slowest(&mut self) -> Option<TcpStream> {
        if let Some((_, head)) = self.heads.pop_front() {
            return Some(head);
        }
        self.pop_slow(|_| true)
    }

    /// The oldest of some that are being answered, if that takes long.
    fn pop_slow(&mut self, is_meant: impl Fn(&Answered) -> bool) -> Option<TcpStream> {
        let place = self.answered.iter().position(is_meant)?;
        if self.answered[place].since.elapsed() <= KEPT_FOR {
            return None;
        }
        let slow = self.answered.remove(place);
        slow.map(|slow| slow.connection)
    }

    /// Whether another can be answered for a tenant. The slowest of its own goes for that.
    fn has_room_for(&mut self, tenant: usize) -> bool {
        let is_its = |it: &Answered| it.tenant == Some(tenant);
        if self.answered.iter().filter(|it| is_its(it)).count() < MAX_PER_TENANT {
            return true;
        }
        let slow = self.pop_slow(is_its);
        slow.is_some_and(|slow| slow.shutdown(Shutdown::Both).is_ok())
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

    /// The head of a connection is read: it is not ended in favour of others for a while. False where there are too many for one
    /// tenant.
    fn keep(&self, number: u64, tenant: Option<usize>) -> bool {
        let mut open = self.open();
        if tenant.is_some_and(|tenant| !open.has_room_for(tenant)) {
            return false;
        }
        let place = open.heads.iter().position(|(other, _)| *other == number);
        if let Some((_, connection)) = place.and_then(|place| open.heads.remove(place)) {
            open.answered.push_back(Answered {
                number,
                connection,
                since: Instant::now(),
                tenant,
            });
        }
        true
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
        open.answered.retain(|it| it.number != number);
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
            gate.keep(number, None);
        }
        assert_eq!(gate.enter(&connection), None);
        // The oldest has been answered for long.
        gate.open().answered[0].since -= 2 * KEPT_FOR;
        assert!(gate.enter(&connection).is_some());
        assert_eq!(gate.open().answered.len(), MAX_CONNECTIONS - 1);
    }

    #[test]
    fn a_request_that_panics_gives_its_slot_back() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let gate = &Gate::default();
        let number = gate.enter(&connection).unwrap();
        let request = std::thread::scope(|scope| {
            let request = scope.spawn(move || {
                let slot = Slot { gate, number };
                slot.keep();
                panic!("a fault of the server");
            });
            request.join()
        });
        assert!(request.is_err());
        let open = gate.open();
        assert_eq!((open.count, open.answered.len()), (0, 0));
    }

    #[test]
    fn a_tenant_has_half_of_the_connections_at_most() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let gate = Gate::default();
        let comes_for = |tenant| gate.keep(gate.enter(&connection).unwrap(), Some(tenant));
        for _ in 0..MAX_PER_TENANT {
            assert!(comes_for(0));
        }
        assert!(!comes_for(0));
        assert!(comes_for(1));
        // Its own that has been answered for long goes, nobody else's.
        gate.open().answered[3].since -= 2 * KEPT_FOR;
        gate.open().answered[MAX_PER_TENANT].since -= 2 * KEPT_FOR;
        assert!(!comes_for(0));
        gate.open().answered[0].since -= 2 * KEPT_FOR;
        assert!(comes_for(0));
        let open = gate.open();
        let of = |tenant| {
            open.answered
                .iter()
                .filter(move |it| it.tenant == Some(tenant))
        };
        assert_eq!((of(0).count(), of(1).count()), (MAX_PER_TENANT, 1));
    }
}
