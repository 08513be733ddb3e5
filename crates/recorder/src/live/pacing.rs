//! How often samples are taken while a recording goes on: less where it costs too much, and for an agent more or less often by what
//! processes do.

use nodespy_capture::engine::Pace;
use nodespy_capture::target::{Target, proc};
use nodespy_capture::{CaptureError, monotonic_now, process_cpu_time};

use super::watches::Watches;
use super::{Live, own_cpu_time, upper_first};
use crate::budget::Spent;
use crate::habits::Usage;
use crate::observer::{Observer, Paced};

impl Live<'_> {
    /// Takes samples less often where the recording costs more than it may.
    pub(super) fn keep_budget(&mut self, observer: &mut dyn Observer) -> Result<(), CaptureError> {
        let elapsed = self.elapsed();
        let Some(budget) = &mut self.budget else {
            return Ok(());
        };
        if !budget.is_due(elapsed) {
            return Ok(());
        }
        let spent = Spent {
            at: elapsed,
            own: own_cpu_time(),
            samples: self.taken_samples,
            switches: self.watches.as_ref().map_or(0, Watches::switches),
        };
        let Some(pace) = budget.judge(spent, self.engine.prices()) else {
            return Ok(());
        };
        let before = own_cpu_time();
        let change = match &mut self.rates {
            Some(rates) => rates.step(pace),
            None => Some(pace),
        };
        let changed = match change {
            Some(change) => self.engine.change_pace(change)?,
            None => None,
        };
        let said = match (changed, pace) {
            (Some(rates), _) => Some(budget.stepped(pace, elapsed, &rates)),
            (None, Pace::Slower) => budget.exhausted(elapsed),
            (None, _) => None,
        };
        budget.forgive(own_cpu_time().saturating_sub(before));
        if let Some(said) = said {
            observer.note(&format!("{}.", upper_first(&said)));
            match &self.rates {
                Some(rates) => observer.paced(&Paced {
                    one_in: rates.divisor(),
                    pacing: None,
                }),
                // A recording has an end, and a reader.
                None => self.remarks.push(said),
            }
        }
        Ok(())
    }

    /// Takes samples as often as what processes do asks for.
    pub(super) fn follow_habits(
        &mut self,
        observer: &mut dyn Observer,
    ) -> Result<(), CaptureError> {
        let (Some(habits), Some(rates)) = (&mut self.habits, &mut self.rates) else {
            return Ok(());
        };
        let now = monotonic_now();
        if !habits.is_due(now) {
            return Ok(());
        }
        let pids = self.subject.targets.iter().map(Target::pid);
        let activity = habits.judge(now, pids.filter_map(usage_of));
        let before = rates.divisor();
        let Some(pacing) = rates.follow(now, activity) else {
            return Ok(());
        };
        let one_in = rates.divisor();
        if one_in != before {
            self.engine.change_pace(Pace::OneIn(one_in))?;
        }
        observer.paced(&Paced {
            one_in,
            pacing: Some(pacing),
        });
        Ok(())
    }
}

fn usage_of(pid: u32) -> Option<Usage> {
    Some(Usage {
        pid,
        cpu: process_cpu_time(pid)?,
        main: proc::thread_cpu_time(pid, pid)?,
    })
}
