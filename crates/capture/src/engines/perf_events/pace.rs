//! How much less often than asked for samples are taken, where they would cost too much.

use std::fmt;

use crate::engine::{PACE_DIVISORS, pace_step};

/// Samples are not taken less often than this, however much they cost.
const MIN_RATE_HZ: f64 = 19.0;

/// What was asked for, and what is done of it. A poll of every thread costs more than a sample of one that runs, so that polls
/// get fewer first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    /// None where threads are not polled.
    polls: Option<Ladder>,
    samples: Ladder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ladder {
    rate_hz: u32,
    step: usize,
}

impl Ladder {
    fn divisor(self) -> u32 {
        PACE_DIVISORS[self.step]
    }

    fn rate_hz(self) -> f64 {
        f64::from(self.rate_hz) / f64::from(self.divisor())
    }

    fn slower(self) -> Option<Self> {
        let step = self.step + 1;
        let next = Self { step, ..self };
        (step < PACE_DIVISORS.len() && next.rate_hz() >= MIN_RATE_HZ).then_some(next)
    }

    fn faster(self) -> Option<Self> {
        let step = self.step.checked_sub(1)?;
        Some(Self { step, ..self })
    }
}

impl Pace {
    /// As often as asked for.
    pub(super) fn new(rate_hz: u32, polls_hz: Option<u32>) -> Self {
        let ladder = |rate_hz| Ladder { rate_hz, step: 0 };
        Self {
            polls: polls_hz.map(ladder),
            samples: ladder(rate_hz),
        }
    }

    /// One of so many samples is taken.
    pub(super) fn divisor(self) -> u32 {
        self.samples.divisor()
    }

    /// How often threads are polled.
    pub(super) fn polls_hz(self) -> Option<f64> {
        self.polls.map(Ladder::rate_hz)
    }

    /// One step less often; none where that would be too seldom to say anything.
    pub(super) fn slower(self) -> Option<Self> {
        if let Some(polls) = self.polls.and_then(Ladder::slower) {
            return Some(Self {
                polls: Some(polls),
                ..self
            });
        }
        let samples = self.samples.slower()?;
        Some(Self { samples, ..self })
    }

    /// One in so many samples, or the step before that; polls as before.
    pub(super) fn one_in(self, divisor: u32) -> Self {
        let samples = Ladder {
            step: pace_step(divisor),
            ..self.samples
        };
        Self { samples, ..self }
    }

    /// One step back.
    pub(super) fn faster(self) -> Option<Self> {
        if let Some(samples) = self.samples.faster() {
            return Some(Self { samples, ..self });
        }
        let polls = self.polls?.faster()?;
        Some(Self {
            polls: Some(polls),
            ..self
        })
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(polls) = self.polls {
            write!(out, "threads polled {:.0}/s, ", polls.rate_hz())?;
        }
        write!(out, "CPU time sampled {:.0}/s", self.samples.rate_hz())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All steps down from here, as divisors of the samples and rates of the polls.
    fn down(pace: Pace) -> Vec<(u32, Option<f64>)> {
        let steps = std::iter::successors(Some(pace), |pace| pace.slower());
        steps
            .map(|pace| (pace.divisor(), pace.polls_hz()))
            .collect()
    }

    #[test]
    fn polls_get_fewer_before_samples_do() {
        let steps = down(Pace::new(99, Some(99)));
        let polls: Vec<f64> = steps.iter().map(|step| step.1.unwrap()).collect();
        assert_eq!(polls, [99.0, 49.5, 19.8, 19.8, 19.8]);
        let divisors: Vec<u32> = steps.iter().map(|step| step.0).collect();
        assert_eq!(divisors, [1, 1, 1, 2, 5]);
    }

    #[test]
    fn a_step_can_be_asked_for() {
        let pace = Pace::new(95, None);
        let divisor = |divisor| pace.one_in(divisor).divisor();
        assert_eq!([0, 1, 5, 7, 20, 1000].map(divisor), [1, 1, 5, 5, 20, 100]);
        assert_eq!(pace.one_in(5).to_string(), "CPU time sampled 19/s");
        assert_eq!(pace.one_in(20).faster().unwrap().divisor(), 10);
    }

    #[test]
    fn every_step_leads_back() {
        let mut pace = Pace::new(999, None);
        let down = std::iter::from_fn(|| {
            let before = pace;
            pace = pace.slower()?;
            Some(before)
        });
        let mut before: Vec<Pace> = down.collect();
        assert_eq!(before.len(), 5, "1, 2, 5, 10, 20, then 50");
        while let Some(expected) = before.pop() {
            pace = pace.faster().unwrap();
            assert_eq!(pace, expected);
        }
        assert_eq!(pace.faster(), None);
    }

    #[test]
    fn what_is_seldom_already_stays_as_it_is() {
        assert_eq!(Pace::new(10, None).slower(), None);
    }
}
