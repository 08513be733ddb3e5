//! Which listeners were asked whether they are the inspector that a signal opens.
//!
//! One that does not answer as an inspector may be the application's own, or an inspector on a machine that is too busy to answer
//! in time: it is asked again, each time later, and once a minute for as long as one is waited for.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// When a listener that did not answer as an inspector is asked again; twice as late after each time.
const PROBE_AGAIN: Duration = Duration::from_secs(1);
const MAX_INTERVAL: Duration = Duration::from_secs(60);
/// One that did not answer so often, two minutes in all, is not waited for where nothing else is left to do.
const MAX_WAITED: u32 = 8;

#[derive(Debug)]
pub(super) struct Probes<'a> {
    /// Those from before the signal.
    ignored: &'a [SocketAddr],
    /// How often each was asked, and when it is asked again.
    asked: Vec<(SocketAddr, u32, Instant)>,
}

impl<'a> Probes<'a> {
    pub(super) fn new(ignored: &'a [SocketAddr]) -> Self {
        Self {
            ignored,
            asked: Vec::new(),
        }
    }

    /// The first new listener that answers as an inspector, by a function that asks it.
    pub(super) fn find<T>(
        &mut self,
        listeners: &[SocketAddr],
        ask: impl Fn(SocketAddr) -> Option<T>,
    ) -> Option<T> {
        self.keep(listeners);
        for &listener in listeners {
            if !self.is_due(listener, Instant::now()) {
                continue;
            }
            if let Some(found) = ask(listener) {
                return Some(found);
            }
            self.failed(listener, Instant::now());
        }
        None
    }

    /// Forgets listeners that are gone: the next at the same address may be another.
    fn keep(&mut self, listeners: &[SocketAddr]) {
        self.asked.retain(|(known, ..)| listeners.contains(known));
    }

    /// Whether a listener should be asked now.
    fn is_due(&self, listener: SocketAddr, now: Instant) -> bool {
        let again = self.asked(listener).is_none_or(|(_, again)| now >= again);
        again && !self.ignored.contains(&listener)
    }

    /// Whether one of these may still answer as an inspector soon.
    pub(super) fn are_waited_for(&self, listeners: &[SocketAddr]) -> bool {
        let mut new = listeners.iter().filter(|it| !self.ignored.contains(it));
        new.any(|it| self.asked(*it).is_none_or(|(times, _)| times < MAX_WAITED))
    }

    /// Takes note that a listener did not answer as an inspector.
    fn failed(&mut self, listener: SocketAddr, now: Instant) {
        let known = self.asked.iter().position(|(known, ..)| *known == listener);
        let place = known.unwrap_or_else(|| {
            self.asked.push((listener, 0, now));
            self.asked.len() - 1
        });
        let (_, times, again) = &mut self.asked[place];
        let later = 2u32.saturating_pow(*times);
        *again = now + PROBE_AGAIN.saturating_mul(later).min(MAX_INTERVAL);
        *times = times.saturating_add(1);
    }

    fn asked(&self, listener: SocketAddr) -> Option<(u32, Instant)> {
        let mut asked = self.asked.iter();
        let known = asked.find(|(known, ..)| *known == listener)?;
        Some((known.1, known.2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_that_did_not_answer_is_asked_again_and_again() {
        let [old, new] = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let ignored = [old];
        let mut probes = Probes::new(&ignored);
        let started = Instant::now();
        let mut now = started;
        assert!(!probes.is_due(old, now));
        let mut times = 0;
        while now - started < Duration::from_secs(3600) {
            if probes.is_due(new, now) {
                assert_eq!(probes.are_waited_for(&[old, new]), times < MAX_WAITED);
                probes.failed(new, now);
                assert!(!probes.is_due(new, now));
                times += 1;
            }
            now += Duration::from_secs(1);
        }
        // Seven times in the first two minutes, and then once a minute.
        assert_eq!(times, 65);
        assert!(!probes.are_waited_for(&[old]));
        // It is closed, and another opens there.
        probes.keep(&[old]);
        assert!(probes.is_due(new, now));
        assert!(probes.are_waited_for(&[new]));
    }

    #[test]
    fn an_application_s_new_port_is_asked_once_and_not_at_every_poll() {
        let [old, application, inspector] =
            [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let ignored = [old];
        let mut probes = Probes::new(&ignored);
        let asked = std::cell::Cell::new(0);
        let ask = |listener| {
            asked.set(asked.get() + 1);
            (listener == inspector).then_some(listener)
        };
        for _ in 0..10 {
            assert_eq!(probes.find(&[old, application], ask), None);
        }
        assert_eq!(asked.get(), 1);
        let found = probes.find(&[old, application, inspector], ask);
        assert_eq!((found, asked.get()), (Some(inspector), 2));
    }
}
