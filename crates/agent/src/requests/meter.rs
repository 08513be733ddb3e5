//! A counter that is read now and then, as requests in windows.
//!
//! Between two reads the requests are taken to have come evenly. A window is handed out once and whole: when all of it lies between reads. What
//! lies before the first read, or between reads that are too far apart, is not known.

use nodespy_model::Nanoseconds;
use nodespy_store::{UnixSeconds, WINDOW_SECONDS};

use crate::wall_clock::Moment;

const SECOND: Nanoseconds = 1_000_000_000;
const WINDOW: Nanoseconds = WINDOW_SECONDS * SECOND;
/// Reads that are further apart say too little about when requests came.
const MAX_GAP: Nanoseconds = 6 * WINDOW;
/// By how much the time of day may differ from the monotonic clock between reads before it was set.
const MAX_STEP: Nanoseconds = SECOND;

/// What one process's counter has said so far.
#[derive(Debug, Default)]
pub(super) struct Meter {
    last: Option<Read>,
}

#[derive(Debug)]
struct Read {
    at: Moment,
    value: u64,
    /// Requests of the window that goes on; none where it was not read from its start.
    open: Option<u64>,
}

/// What a read tells.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Windows that are whole now, by their start, with their requests.
    pub(super) windows: Vec<(UnixSeconds, u64)>,
    /// Whether the counter has fallen.
    pub(super) was_reset: bool,
}

impl Meter {
    /// Takes a read of the counter.
    pub(super) fn read(&mut self, at: Moment, value: u64) -> Told {
        let Some(last) = self.last.take().filter(|last| is_followed_by(last.at, at)) else {
            // A window that starts now is read from its start.
            let open = at.unix.is_multiple_of(WINDOW).then_some(0);
            self.last = Some(Read { at, value, open });
            return Told::default();
        };
        let was_reset = value < last.value;
        let requests = match was_reset {
            true => value,
            false => value - last.value,
        };
        let (windows, open) = divided(&last, at.unix, requests);
        self.last = Some(Read { at, value, open });
        Told { windows, was_reset }
    }
}

/// Whether what is between two reads is known: they are near enough, and the clock was not set.
fn is_followed_by(last: Moment, at: Moment) -> bool {
    let by_day = at.unix.saturating_sub(last.unix);
    let elapsed = at.monotonic.saturating_sub(last.monotonic);
    at.unix > last.unix && elapsed <= MAX_GAP && by_day.abs_diff(elapsed) <= MAX_STEP
}

/// Requests between a read and `until`, by windows that are whole, and those of the window that goes on.
fn divided(
    last: &Read,
    until: Nanoseconds,
    requests: u64,
) -> (Vec<(UnixSeconds, u64)>, Option<u64>) {
    let length = (until - last.at.unix) as f64;
    // Rounded sums, so that the parts add up to all of it.
    let so_far = |time: Nanoseconds| {
        let part = (time - last.at.unix) as f64 / length;
        (requests as f64 * part).round() as u64
    };
    let (mut windows, mut open, mut counted) = (Vec::new(), last.open, 0);
    let mut end = (last.at.unix / WINDOW + 1) * WINDOW;
    while end <= until {
        let sum = so_far(end).min(requests);
        if let Some(open) = open {
            windows.push((
                end / SECOND - WINDOW_SECONDS,
                open.saturating_add(sum - counted),
            ));
        }
        (open, counted) = (Some(0), sum);
        end += WINDOW;
    }
    let open = open.map(|open| open.saturating_add(requests - counted));
    (windows, open)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Moment {
        let nanoseconds = (seconds * 1e9) as Nanoseconds;
        Moment {
            unix: 1_700_000_000 * SECOND + nanoseconds,
            monotonic: 77 * SECOND + nanoseconds,
        }
    }

    /// The windows by seconds after the start, and their requests.
    fn windows(told: &Told) -> Vec<(u64, u64)> {
        let windows = told.windows.iter();
        windows
            .map(|(start, requests)| (start - 1_700_000_000, *requests))
            .collect()
    }

    #[test]
    fn requests_are_divided_by_time() {
        let mut meter = Meter::default();
        assert_eq!(meter.read(at(4.0), 1000), Told::default());
        // The window of the first read is not known from its start.
        assert_eq!(windows(&meter.read(at(14.0), 1100)), []);
        assert_eq!(windows(&meter.read(at(24.0), 1100)), [(10, 40)]);
        assert_eq!(windows(&meter.read(at(44.0), 1300)), [(20, 60), (30, 100)]);
        assert_eq!(windows(&meter.read(at(50.0), 1360)), [(40, 100)]);
        assert_eq!(windows(&meter.read(at(60.0), 1363)), [(50, 3)]);
    }

    #[test]
    fn nothing_is_lost_or_counted_twice() {
        let mut meter = Meter::default();
        meter.read(at(0.0), 0);
        let (mut value, mut sum) = (0, 0);
        for turn in 1..=1000 {
            value += turn % 7;
            let told = meter.read(at(turn as f64 * 7.3), value);
            sum += told.windows.iter().map(|(_, it)| it).sum::<u64>();
        }
        assert_eq!(sum + meter.last.unwrap().open.unwrap(), value);
    }

    #[test]
    fn a_counter_that_falls_begins_anew() {
        let mut meter = Meter::default();
        meter.read(at(0.0), 1000);
        let told = meter.read(at(10.0), 25);
        assert!(told.was_reset);
        assert_eq!(windows(&told), [(0, 25)]);
        assert_eq!(
            windows(&meter.read(at(20.0), u64::MAX)),
            [(10, u64::MAX - 25)]
        );
        assert_eq!(windows(&meter.read(at(30.0), 0)), [(20, 0)]);
    }

    #[test]
    fn what_was_not_read_is_not_known() {
        let mut meter = Meter::default();
        meter.read(at(0.0), 0);
        assert_eq!(windows(&meter.read(at(61.0), 100)), []);
        assert_eq!(windows(&meter.read(at(80.0), 119)), [(70, 10)]);
        // The clock is set back, and then forward.
        let back = Moment {
            unix: at(20.0).unix,
            ..at(90.0)
        };
        assert_eq!(windows(&meter.read(back, 200)), []);
        assert_eq!(windows(&meter.read(at(100.0), 300)), []);
        assert_eq!(windows(&meter.read(at(110.0), 400)), [(100, 100)]);
        assert_eq!(meter.read(at(110.0), 400), Told::default());
    }
}
