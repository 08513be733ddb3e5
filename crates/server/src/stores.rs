//! The store, opened a few times for reading: so many questions are answered at once, others wait for their turn.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nodespy_store::{OpenMode, OpenStore, StoreError, StoreLocation};

/// How many questions are answered at once.
const MAX_OPEN: usize = 4;
/// How long one waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(20);

/// A store that threads share.
#[derive(Debug)]
pub struct Stores {
    location: StoreLocation,
    idle: Mutex<Idle>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct Idle {
    stores: Vec<OpenStore>,
    used: usize,
}

impl Stores {
    /// Opens a store, once; more often when it is asked for.
    pub fn open(location: impl Into<StoreLocation>) -> Result<Self, StoreError> {
        let location = location.into();
        let first = OpenStore::open(&location, OpenMode::Read)?;
        Ok(Self {
            location,
            idle: Mutex::new(Idle {
                stores: vec![first],
                used: 0,
            }),
            returned: Condvar::new(),
        })
    }

    /// Asks the store; none when too many others do.
    pub(crate) fn ask<T>(
        &self,
        question: impl FnOnce(&OpenStore) -> T,
    ) -> Result<Option<T>, StoreError> {
        let until = Instant::now() + TURN_TIMEOUT;
        let mut idle = self.lock();
        while idle.used >= MAX_OPEN {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let waited = self.returned.wait_timeout(idle, left);
            idle = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        idle.used += 1;
        let store = idle.stores.pop();
        drop(idle);
        let _turn = Turn(self);
        let store = match store {
            Some(store) => store,
            None => OpenStore::open(&self.location, OpenMode::Read)?,
        };
        let answer = question(&store);
        self.lock().stores.push(store);
        Ok(Some(answer))
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Given back when it is dropped, however the question ended.
struct Turn<'a>(&'a Stores);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.lock().used -= 1;
        self.0.returned.notify_one();
    }
}
