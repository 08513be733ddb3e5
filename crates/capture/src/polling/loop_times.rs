//! What a loop does over time, kept until a profile takes it.

use nodespy_model::{LoopStall, LoopTimeline, MIN_STALL, Nanoseconds};

use super::uv_loop::Reading;

/// What was seen since a profile took it.
#[derive(Debug, Default)]
pub(super) struct LoopTimes {
    /// When the recording started.
    started: Nanoseconds,
    timeline: LoopTimeline,
}

impl LoopTimes {
    pub(super) fn new(started: Nanoseconds) -> Self {
        Self {
            started,
            timeline: LoopTimeline::default(),
        }
    }

    /// Takes what two readings, one after the other, tell: at the second the loop had been away
    /// from poll for `age`.
    pub(super) fn take(&mut self, before: &Reading, now: &Reading, age: Nanoseconds) {
        let from = before.at.saturating_sub(self.started);
        let to = now.at.saturating_sub(self.started);
        let idle = now.idle.saturating_sub(before.idle);
        let busy = to.saturating_sub(from).saturating_sub(idle);
        self.timeline.intervals.spread(from, to, busy);
        if age >= MIN_STALL {
            let start = now.at.saturating_sub(age).saturating_sub(self.started);
            let lasted = to.saturating_sub(start);
            self.timeline.stall(LoopStall { start, lasted });
        }
    }

    /// Hands over what was seen; none where that is nothing. A stall that goes on is handed over
    /// again, longer, the next time.
    pub(super) fn hand_over(&mut self) -> Option<LoopTimeline> {
        let timeline = std::mem::take(&mut self.timeline);
        (!timeline.intervals.rows().is_empty()).then_some(timeline)
    }
}

#[cfg(test)]
mod tests {
    use super::super::stretch::Stretches;
    use super::*;

    const MS: Nanoseconds = 1_000_000;

    fn reading(at_ms: u64, idle_ms: u64, is_in_poll: bool, time_ms: u64) -> Reading {
        Reading {
            at: at_ms * MS,
            idle: idle_ms * MS,
            is_in_poll,
            iterations: Some(time_ms),
            time: time_ms * MS,
        }
    }

    #[test]
    fn a_stall_is_seen_once_however_often_it_is_read() {
        let mut times = LoopTimes::new(1000 * MS);
        let mut stretches = Stretches::default();
        let readings = [
            reading(1000, 500, true, 990),
            reading(1050, 550, true, 1040),
            reading(1100, 560, false, 1060),
            reading(1150, 560, false, 1060),
            reading(1200, 560, false, 1060),
            reading(1250, 560, false, 1060),
            reading(1300, 590, true, 1260),
        ];
        stretches.take(readings[0]);
        let mut merged = LoopTimeline::default();
        for (position, pair) in readings.windows(2).enumerate() {
            times.take(&pair[0], &pair[1], stretches.take(pair[1]));
            if position == 3 {
                merged.merge(&times.hand_over().unwrap());
            }
        }
        merged.merge(&times.hand_over().unwrap());
        assert!(times.hand_over().is_none());
        let stalls: Vec<_> = merged.stalls().iter().collect();
        let whole = LoopStall {
            start: 60 * MS,
            lasted: 190 * MS,
        };
        assert_eq!(stalls, [&whole]);
        let busy: Vec<u64> = merged
            .intervals
            .rows()
            .iter()
            .map(|it| it.busy / MS)
            .collect();
        assert_eq!(busy, [0, 40, 50, 50, 50, 20]);
    }
}
