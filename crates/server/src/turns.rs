//! So many at once, the others wait.

use std::sync::{Condvar, Mutex, PoisonError};

/// Turns that are taken and given back.
#[derive(Debug)]
pub(crate) struct Turns {
    free: Mutex<usize>,
    given_back: Condvar,
}

/// Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Turns);

impl Turns {
    pub(crate) fn of(count: usize) -> Self {
        Self {
            free: Mutex::new(count),
            given_back: Condvar::new(),
        }
    }

    /// Waits until there is one.
    pub(crate) fn wait(&self) -> Turn<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.given_back.wait_while(free, |free| *free == 0);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        *free += 1;
        self.0.given_back.notify_one();
    }
}
