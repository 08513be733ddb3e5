//! What became of a thread's time, and how much of it samples have been given.

use nodespy_model::Nanoseconds;

use crate::target::proc::Schedstat;

/// The time of a thread: what it ran, could have run and waited, exactly, and what of that is
/// yet to be given to samples.
#[derive(Debug)]
pub(super) struct Account {
    since: Nanoseconds,
    before: Schedstat,
    until: Nanoseconds,
    now: Schedstat,
    given_on_cpu: Nanoseconds,
    given_runnable: Nanoseconds,
    given_waiting: Nanoseconds,
    /// How many samples of its CPU time there were.
    cpu_samples: u64,
}

impl Account {
    pub(super) fn new(since: Nanoseconds, before: Schedstat) -> Self {
        Self {
            since,
            before,
            until: since,
            now: before,
            given_on_cpu: 0,
            given_runnable: 0,
            given_waiting: 0,
            cpu_samples: 0,
        }
    }

    /// What was counted so far.
    pub(super) fn counters(&self) -> Schedstat {
        self.now
    }

    pub(super) fn update(&mut self, until: Nanoseconds, now: Schedstat) {
        (self.until, self.now) = (until.max(self.until), now);
    }

    fn on_cpu(&self) -> Nanoseconds {
        self.now.on_cpu.saturating_sub(self.before.on_cpu)
    }

    fn run_delay(&self) -> Nanoseconds {
        self.now.run_delay.saturating_sub(self.before.run_delay)
    }

    /// The time it waited that no sample has.
    pub(super) fn waiting_left(&self) -> Nanoseconds {
        let elapsed = self.until - self.since;
        let waited = elapsed.saturating_sub(self.on_cpu().saturating_add(self.run_delay()));
        waited.saturating_sub(self.given_waiting)
    }

    pub(super) fn give_waiting(&mut self, time: Nanoseconds) -> Nanoseconds {
        let time = time.min(self.waiting_left());
        self.given_waiting += time;
        time
    }

    /// The time it ran that no sample has.
    pub(super) fn on_cpu_left(&self) -> Nanoseconds {
        self.on_cpu().saturating_sub(self.given_on_cpu)
    }

    /// What a sample of its CPU time stands for: what one did on average so far, as far as it
    /// ran so long. `usual` is the time from sample to sample, of which it is the only one of `count` that was taken.
    pub(super) fn give_on_cpu(&mut self, usual: Nanoseconds, count: u64) -> Nanoseconds {
        self.cpu_samples += count;
        let average = self.on_cpu() / self.cpu_samples.max(1);
        let time = average.clamp(usual / 2, usual.saturating_mul(2));
        let time = time.saturating_mul(count);
        let time = time.min(self.on_cpu_left());
        self.given_on_cpu += time;
        time
    }

    /// The rest of the time it ran.
    pub(super) fn give_rest_on_cpu(&mut self) -> Nanoseconds {
        let time = self.on_cpu_left();
        self.given_on_cpu += time;
        time
    }

    /// The time it had no CPU, once that is at least `least`.
    pub(super) fn give_runnable(&mut self, least: Nanoseconds) -> Option<Nanoseconds> {
        let time = self.run_delay().saturating_sub(self.given_runnable);
        (time >= least.max(1)).then(|| {
            self.given_runnable += time;
            time
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(on_cpu: u64, run_delay: u64, slices: u64) -> Schedstat {
        Schedstat {
            on_cpu,
            run_delay,
            slices,
        }
    }

    #[test]
    fn everything_that_is_given_adds_up_to_what_went_by() {
        let mut account = Account::new(1_000, counters(500, 50, 7));
        account.update(2_000, counters(800, 150, 9));
        let mut given = account.give_waiting(200);
        given += account.give_on_cpu(100, 1);
        given += account.give_runnable(1).unwrap();
        // What ran is counted late: then less is left to wait.
        account.update(3_000, counters(1_700, 150, 9));
        given += account.give_on_cpu(100, 1);
        given += account.give_rest_on_cpu();
        given += account.give_waiting(u64::MAX);
        assert_eq!(account.give_runnable(1), None);
        assert_eq!(given, 2_000);
    }

    #[test]
    fn a_sample_stands_for_what_one_did_so_far() {
        let mut account = Account::new(0, counters(0, 0, 0));
        account.update(100_000, counters(100_000, 0, 1));
        // Half as many samples as there should be.
        let given: u64 = (0..5).map(|_| account.give_on_cpu(10_000, 1)).sum();
        assert_eq!(given, 100_000 - account.give_rest_on_cpu());
        assert!(given >= 90_000, "{given}");
    }
}
