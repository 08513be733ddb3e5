//! How many connections there may be, and which one goes when there are too many: the one that has
//! been sending its head for longest. Those that are being answered know the token, and stay.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, MutexGuard};

/// Browsers use six connections to a server.
const MAX_CONNECTIONS: usize = 64;

/// Counts connections.
#[derive(Debug, Default)]
pub struct Gate(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    count: usize,
    next: u64,
    /// Those whose head is not read yet, the oldest first.
    heads: VecDeque<(u64, TcpStream)>,
}

impl Gate {
    /// Lets a connection in and numbers it; none where all others are being answered.
    pub fn enter(&self, connection: &TcpStream) -> Option<u64> {
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
    pub fn keep(&self, number: u64) {
        self.open().heads.retain(|(other, _)| *other != number);
    }

    /// A connection has ended.
    pub fn leave(&self, number: u64) {
        self.keep(number);
        self.open().count -= 1;
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
