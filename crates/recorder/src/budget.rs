//! `--max-overhead`: what a recording may cost, nodespy and the recorded processes together, and when samples get fewer.
//!
//! What nodespy takes is the kernel's count. What the processes pay can't be seen from outside: it is estimated from how many
//! samples were taken and how often threads were put on a CPU ([`Prices`]).

use nodespy_capture::engine::{Pace, Prices};
use nodespy_model::Nanoseconds;

/// How often a recording is judged.
pub(crate) const INTERVAL: Nanoseconds = 1_000_000_000;
/// What attaching and the first samples cost is not what a recording costs that goes on.
const SETTLING: Nanoseconds = 2_000_000_000;
/// So many intervals in a row have to cost too much.
const MAX_OVER: u32 = 2;
/// So many in a row have to cost less than half before samples get more again; twice as many each time that was wrong.
const MIN_UNDER: u32 = 10;

/// What has been spent since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) at: Nanoseconds,
    /// CPU time of nodespy.
    pub(crate) own: Nanoseconds,
    /// Samples taken in the processes.
    pub(crate) samples: u64,
    /// How often their threads were put on a CPU.
    pub(crate) switches: u64,
}

/// What a recording may cost.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Of one CPU.
    share: f64,
    /// How often it is judged: not more often than what costs comes back.
    interval: Nanoseconds,
    /// When it was last judged.
    last: Option<Spent>,
    over: u32,
    under: u32,
    min_under: u32,
    /// Whether samples got more again since they last got fewer.
    has_risen: bool,
    /// Whether there is no lower rate, and that was said.
    is_exhausted: bool,
    total: Costs,
}

/// What a time has cost, of one CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Costs {
    elapsed: Nanoseconds,
    own: Nanoseconds,
    sampled: Nanoseconds,
    switched: Nanoseconds,
}

impl Costs {
    fn all(&self) -> Nanoseconds {
        let theirs = self.sampled.saturating_add(self.switched);
        self.own.saturating_add(theirs)
    }

    fn share_of(&self, cost: Nanoseconds) -> f64 {
        cost as f64 / self.elapsed.max(1) as f64
    }
}

impl Budget {
    /// Of one CPU, `share` at most.
    pub(crate) fn new(share: f64, interval: Nanoseconds) -> Self {
        Self {
            share,
            interval,
            last: None,
            over: 0,
            under: 0,
            min_under: MIN_UNDER,
            has_risen: false,
            is_exhausted: false,
            total: Costs::default(),
        }
    }

    /// Whether it is time to judge.
    pub(crate) fn is_due(&self, elapsed: Nanoseconds) -> bool {
        match self.last {
            Some(last) => elapsed >= last.at.saturating_add(self.interval),
            None => elapsed >= SETTLING,
        }
    }

    /// Leaves out what nodespy did once and will not do again.
    pub(crate) fn forgive(&mut self, own: Nanoseconds) {
        if let Some(last) = &mut self.last {
            last.own = last.own.saturating_add(own);
        }
    }

    /// How samples are to be taken from now on, where that should change.
    pub(crate) fn judge(&mut self, spent: Spent, prices: Prices) -> Option<Pace> {
        let last = self.last.replace(spent)?;
        let costs = Costs {
            elapsed: spent.at.saturating_sub(last.at),
            own: spent.own.saturating_sub(last.own),
            sampled: spent.samples.saturating_sub(last.samples) * prices.sample,
            switched: spent.switches.saturating_sub(last.switches) * prices.switch,
        };
        self.total = Costs {
            elapsed: self.total.elapsed + costs.elapsed,
            own: self.total.own + costs.own,
            sampled: self.total.sampled + costs.sampled,
            switched: self.total.switched + costs.switched,
        };
        let share = costs.share_of(costs.all());
        log::debug!("the last interval cost {:.2} % of a CPU", 100.0 * share);
        self.over = if share > self.share { self.over + 1 } else { 0 };
        self.under = if share < self.share / 2.0 {
            self.under + 1
        } else {
            0
        };
        if self.over >= MAX_OVER {
            (self.over, self.under) = (0, 0);
            if std::mem::take(&mut self.has_risen) {
                self.min_under = self.min_under.saturating_mul(2);
            }
            return Some(Pace::Slower);
        }
        if self.under >= self.min_under {
            (self.over, self.under) = (0, 0);
            return Some(Pace::Faster);
        }
        None
    }

    /// What to say of a step that was taken, at `elapsed`; `rates` as the engine says them.
    pub(crate) fn stepped(&mut self, pace: Pace, elapsed: Nanoseconds, rates: &str) -> String {
        self.has_risen = pace == Pace::Faster;
        self.is_exhausted = false;
        format!(
            "from {:.1} s on: {rates}, so that recording costs no more than {} of a CPU \
             (--max-overhead); each sample counts for those that were not taken",
            elapsed as f64 / 1e9,
            percent(self.share),
        )
    }

    /// What to say where there is no lower rate; once.
    pub(crate) fn exhausted(&mut self, elapsed: Nanoseconds) -> Option<String> {
        if std::mem::replace(&mut self.is_exhausted, true) {
            return None;
        }
        let remedy = match self.total.switched > self.total.all() / 2 {
            true => {
                "most of it are events of threads that switch often, whatever the rate: \
                 as root, nodespy uses those of whole CPUs"
            }
            false => "samples are taken as seldom as makes sense",
        };
        Some(format!(
            "from {:.1} s on recording cost more than {} of a CPU (--max-overhead): {remedy}",
            elapsed as f64 / 1e9,
            percent(self.share),
        ))
    }

    /// What it came to; none where it was too short to say.
    pub(crate) fn sentence(&self) -> Option<String> {
        let total = &self.total;
        let theirs = total.sampled.saturating_add(total.switched);
        (total.elapsed > 0).then(|| {
            format!(
                "recording cost {} of a CPU, and the recorded processes about {} by estimate \
                 (--max-overhead {})",
                percent(total.share_of(total.own)),
                percent(total.share_of(theirs)),
                percent(self.share),
            )
        })
    }
}

fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent == percent.round() {
        true => format!("{percent:.0} %"),
        false => format!("{percent:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: Prices = Prices {
        sample: 10_000,
        switch: 2_000,
    };

    /// A budget of 2 % that has settled, and what was spent so far.
    struct Run(Budget, Spent);

    impl Run {
        fn new() -> Self {
            let mut budget = Budget::new(0.02, INTERVAL);
            let spent = Spent {
                at: SETTLING,
                own: 3_000_000_000,
                ..Spent::default()
            };
            assert_eq!(
                budget.judge(spent, PRICES),
                None,
                "the start is not counted"
            );
            Self(budget, spent)
        }

        /// A second in which so much was spent.
        fn second(&mut self, own_ms: u64, samples: u64, switches: u64) -> Option<Pace> {
            self.1.at += INTERVAL;
            self.1.own += own_ms * 1_000_000;
            self.1.samples += samples;
            self.1.switches += switches;
            assert!(self.0.is_due(self.1.at));
            self.0.judge(self.1, PRICES)
        }
    }

    #[test]
    fn two_dear_seconds_in_a_row_make_samples_fewer() {
        let mut run = Run::new();
        assert_eq!(run.second(50, 0, 0), None);
        assert_eq!(run.second(1, 0, 0), None);
        assert_eq!(run.second(50, 0, 0), None);
        assert_eq!(run.second(50, 0, 0), Some(Pace::Slower));
        assert_eq!(run.second(50, 0, 0), None);
    }

    #[test]
    fn both_sides_count() {
        // 10 ms of ours, 990 samples of 10 us, 1,000 switches of 2 us.
        let mut run = Run::new();
        assert_eq!(run.second(10, 990, 1_000), None);
        assert_eq!(run.second(10, 990, 1_000), Some(Pace::Slower));
        let mut run = Run::new();
        assert_eq!(run.second(10, 99, 1_000), None);
        assert_eq!(run.second(10, 99, 1_000), None);
    }

    #[test]
    fn ten_cheap_seconds_make_samples_more_and_being_wrong_takes_longer_next_time() {
        let mut run = Run::new();
        let cheap = |run: &mut Run| (1..100).find(|_| run.second(5, 0, 0) == Some(Pace::Faster));
        assert_eq!(cheap(&mut run), Some(10));
        run.0.stepped(Pace::Faster, run.1.at, "");
        assert_eq!(run.second(50, 0, 0), None);
        assert_eq!(run.second(50, 0, 0), Some(Pace::Slower));
        run.0.stepped(Pace::Slower, run.1.at, "");
        assert_eq!(cheap(&mut run), Some(20));
    }

    #[test]
    fn what_is_done_once_is_forgiven() {
        let mut run = Run::new();
        for _ in 0..5 {
            run.0.forgive(100_000_000);
            assert_eq!(run.second(110, 0, 0), None);
        }
    }

    #[test]
    fn the_end_of_the_ladder_is_said_once() {
        let mut run = Run::new();
        run.second(1, 10, 20_000);
        let said = run.0.exhausted(run.1.at).unwrap();
        assert!(
            said.contains("2 % of a CPU") && said.contains("as root"),
            "{said}"
        );
        assert_eq!(run.0.exhausted(run.1.at), None);
        let sentence = run.0.sentence().unwrap();
        assert!(
            sentence.starts_with("recording cost 0.1 % of a CPU"),
            "{sentence}"
        );
        assert!(sentence.contains("about 4.0 % by estimate"), "{sentence}");
    }
}
