//! What wakes a thread that sleeps between two turns of its work: it is to hurry, or to end.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Why a thread was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Nobody rang.
    TimedOut,
    /// There is something to do at once.
    ToHurry,
    /// It is to end.
    ToEnd,
}

/// Wakes one thread.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Mutex<Rung>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Rung {
    to_hurry: bool,
    to_end: bool,
}

impl Bell {
    /// The thread has something to do at once.
    pub(crate) fn hurry(&self) {
        self.lock().to_hurry = true;
        self.changed.notify_all();
    }

    /// The thread is to end, now or when it next waits.
    pub(crate) fn end(&self) {
        self.lock().to_end = true;
        self.changed.notify_all();
    }

    /// Sleeps until somebody rings or the time is over. Being told to end is never forgotten, being told to hurry counts once.
    pub(crate) fn wait(&self, time: Duration) -> Woken {
        let until = Instant::now() + time;
        let mut rung = self.lock();
        loop {
            if rung.to_end {
                return Woken::ToEnd;
            }
            if std::mem::take(&mut rung.to_hurry) {
                return Woken::ToHurry;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Woken::TimedOut;
            }
            let waited = self.changed.wait_timeout(rung, left);
            rung = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Rung> {
        self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_before_and_while_somebody_waits() {
        let bell = Bell::default();
        let long = Duration::from_secs(60);
        assert_eq!(bell.wait(Duration::ZERO), Woken::TimedOut);
        bell.hurry();
        bell.hurry();
        assert_eq!(bell.wait(long), Woken::ToHurry);
        assert_eq!(bell.wait(Duration::ZERO), Woken::TimedOut);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| bell.wait(long));
            bell.end();
            assert_eq!(waiting.join().unwrap(), Woken::ToEnd);
        });
        bell.hurry();
        assert_eq!(bell.wait(long), Woken::ToEnd);
    }
}
