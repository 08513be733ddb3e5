//! How often a recording without an end takes samples: as often as usual, more often for a while when something is unusual, less often
//! when nothing goes on; and less often than that where it costs too much.
//!
//! Samples are asked for at the fast rate, of which one in so many is taken otherwise and counts for the others: sums stay
//! comparable, whatever the rate was.

use nodespy_capture::engine::{PACE_DIVISORS, Pace, pace_step};
use nodespy_model::Nanoseconds;

use crate::habits::{Activity, Unusual};

/// How many steps less often when nothing goes on.
const IDLE_STEPS: usize = 2;
/// How long nothing has to go on: opening events anew is work too.
const MIN_IDLE: Nanoseconds = 300_000_000_000;
/// How long samples are taken fast at least, at most, and how long not after that.
const MIN_FAST: Nanoseconds = 20_000_000_000;
const MAX_FAST: Nanoseconds = 60_000_000_000;
const REST: Nanoseconds = 300_000_000_000;

/// Why samples are taken as often as they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pacing {
    /// Nothing is unusual, or it has been sampled fast for long enough.
    Usual,
    /// A process does not do what it usually does.
    Unusual(Unusual),
    /// No process does anything.
    Idle,
}

/// How often samples are taken.
#[derive(Debug)]
pub(crate) struct Rates {
    /// The step of the usual rate.
    usual: usize,
    /// The last step there is.
    last: usize,
    pacing: Pacing,
    /// Since when it has been fast.
    fast_since: Nanoseconds,
    /// Until when it is not to be fast.
    rests_until: Nanoseconds,
    idle_since: Option<Nanoseconds>,
    /// Steps that it is slower than that, because it costs too much.
    spared: usize,
    /// The same before it was fast: what fast samples cost says nothing about usual ones.
    spared_before: usize,
}

impl Rates {
    /// One in `usual` of the samples that are asked for, and one in `slowest` at least.
    pub(crate) fn new(usual: u32, slowest: u32) -> Self {
        Self {
            usual: pace_step(usual),
            last: pace_step(slowest).max(pace_step(usual)),
            pacing: Pacing::Usual,
            fast_since: 0,
            rests_until: 0,
            idle_since: None,
            spared: 0,
            spared_before: 0,
        }
    }

    /// One in so many samples is to be taken.
    pub(crate) fn divisor(&self) -> u32 {
        PACE_DIVISORS[self.wanted().saturating_add(self.spared).min(self.last)]
    }

    fn wanted(&self) -> usize {
        match self.pacing {
            Pacing::Usual => self.usual,
            Pacing::Unusual(_) => 0,
            Pacing::Idle => self.usual + IDLE_STEPS,
        }
    }

    /// Takes note of what goes on; why the rate is another from now on, if it is.
    pub(crate) fn follow(&mut self, now: Nanoseconds, activity: Activity) -> Option<Pacing> {
        if activity != Activity::Idle {
            self.idle_since = None;
        }
        let next = match (activity, self.pacing) {
            (Activity::Idle | Activity::Usual, pacing @ Pacing::Unusual(_))
                if now.saturating_sub(self.fast_since) < MIN_FAST =>
            {
                pacing
            }
            (Activity::Idle, Pacing::Unusual(_)) => Pacing::Usual,
            (Activity::Idle, pacing) => {
                let since = *self.idle_since.get_or_insert(now);
                match now.saturating_sub(since) >= MIN_IDLE {
                    true => Pacing::Idle,
                    false => pacing,
                }
            }
            (Activity::Unusual(_), pacing @ Pacing::Unusual(_))
                if now.saturating_sub(self.fast_since) < MAX_FAST =>
            {
                pacing
            }
            (Activity::Unusual(unusual), Pacing::Usual | Pacing::Idle)
                if now >= self.rests_until && self.usual > 0 =>
            {
                self.fast_since = now;
                self.spared_before = self.spared;
                Pacing::Unusual(unusual)
            }
            (Activity::Unusual(_) | Activity::Usual, _) => Pacing::Usual,
        };
        if matches!(self.pacing, Pacing::Unusual(_)) && next == Pacing::Usual {
            self.rests_until = now.saturating_add(REST);
            self.spared = self.spared.min(self.spared_before);
        }
        (std::mem::replace(&mut self.pacing, next) != next).then_some(next)
    }

    /// Takes samples less often because they cost too much, or more often again; none where that is not possible.
    pub(crate) fn step(&mut self, pace: Pace) -> Option<Pace> {
        self.spared = match pace {
            Pace::Slower if self.wanted() + self.spared < self.last => self.spared + 1,
            Pace::Faster => self.spared.checked_sub(1)?,
            Pace::Slower | Pace::OneIn(_) => return None,
        };
        Some(Pace::OneIn(self.divisor()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::habits::Oddity;

    const SECOND: Nanoseconds = 1_000_000_000;
    const ODD: Unusual = Unusual {
        pid: 7,
        how: Oddity::Stalling,
    };

    #[test]
    fn what_is_unusual_is_sampled_fast_for_a_minute_and_then_not_for_five() {
        let mut rates = Rates::new(5, 95);
        assert_eq!(rates.divisor(), 5);
        let at = |rates: &mut Rates, second: u64, activity| {
            let changed = rates.follow(second * SECOND, activity);
            (changed, rates.divisor())
        };
        let unusual = Activity::Unusual(ODD);
        let changed = at(&mut rates, 0, unusual);
        assert_eq!(changed, (Some(Pacing::Unusual(ODD)), 1));
        assert_eq!(at(&mut rates, 59, unusual), (None, 1));
        assert_eq!(at(&mut rates, 60, unusual), (Some(Pacing::Usual), 5));
        assert_eq!(at(&mut rates, 100, unusual), (None, 5));
        assert_eq!(at(&mut rates, 359, unusual), (None, 5));
        assert_eq!(at(&mut rates, 360, unusual).1, 1);
        // It ends when it is over, and is not over at the first pause.
        assert_eq!(at(&mut rates, 370, Activity::Usual).1, 1);
        assert_eq!(at(&mut rates, 380, Activity::Usual).1, 5);
    }

    #[test]
    fn what_is_idle_for_minutes_is_sampled_seldom_until_something_goes_on() {
        let mut rates = Rates::new(5, 95);
        for second in (0..300).step_by(2) {
            assert_eq!(rates.follow(second * SECOND, Activity::Idle), None);
        }
        let changed = rates.follow(300 * SECOND, Activity::Idle);
        assert_eq!((changed, rates.divisor()), (Some(Pacing::Idle), 20));
        let changed = rates.follow(302 * SECOND, Activity::Usual);
        assert_eq!((changed, rates.divisor()), (Some(Pacing::Usual), 5));
        assert_eq!(rates.follow(304 * SECOND, Activity::Idle), None);
    }

    #[test]
    fn costs_win_over_everything() {
        let mut rates = Rates::new(5, 95);
        let slower = |rates: &mut Rates| rates.step(Pace::Slower);
        assert_eq!(slower(&mut rates), Some(Pace::OneIn(10)));
        rates.follow(0, Activity::Unusual(ODD));
        assert_eq!(rates.divisor(), 2);
        assert_eq!(slower(&mut rates), Some(Pace::OneIn(5)));
        // What fast samples cost does not make usual ones fewer.
        rates.follow(20 * SECOND, Activity::Usual);
        assert_eq!(rates.divisor(), 10);
        assert_eq!(slower(&mut rates), Some(Pace::OneIn(20)));
        assert_eq!(slower(&mut rates), Some(Pace::OneIn(50)));
        assert_eq!(slower(&mut rates), None, "one a second is the end");
        for one_in in [20, 10, 5] {
            assert_eq!(rates.step(Pace::Faster), Some(Pace::OneIn(one_in)));
        }
        assert_eq!(rates.step(Pace::Faster), None);
    }

    #[test]
    fn a_fixed_rate_only_gets_slower() {
        let mut rates = Rates::new(1, 19);
        assert_eq!(rates.follow(0, Activity::Unusual(ODD)), None);
        assert_eq!(rates.divisor(), 1);
        assert_eq!(rates.step(Pace::Slower), Some(Pace::OneIn(2)));
    }
}
