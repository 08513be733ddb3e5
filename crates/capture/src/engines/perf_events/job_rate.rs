//! How often breakpoints of JavaScript are hit, before they are sampled: each hit that is sampled takes a copy of the
//! stack, which at thousands a second is more than the program should pay.

use std::time::Duration;

use super::probing::PROBE;
use super::refusals::explain_event;
use super::sources::counted;
use super::spec::EventSpec;
use crate::error::CaptureError;
use crate::sys::perf_event::{Every, PerfEvent, Sampling, Subject};

/// How long hits are counted.
const COUNTED_FOR: Duration = Duration::from_millis(100);
/// Up to so many a second all are sampled.
const ALL_HZ: u64 = 1_000;
/// Above that about so many.
const SOME_HZ: u64 = 500;
/// Programs submit jobs in rounds: with a prime period no job of a round is always the one that is left out.
const PERIODS: [u64; 6] = [3, 7, 13, 31, 61, 127];
/// A period that is never over.
const NEVER: u64 = 1 << 40;

/// Counts for a moment how often the breakpoints of JavaScript among these are hit in a process, and has only some of the
/// hits sampled where they are many.
pub fn thin_out(specs: &mut [EventSpec], pid: u32) -> Result<(), CaptureError> {
    let mut events = Vec::new();
    for spec in specs.iter().filter(|spec| spec.is_of_javascript()) {
        let sampling = Sampling {
            counted: counted(spec)?,
            every: Every::Period(NEVER),
            ..PROBE
        };
        let event = PerfEvent::sampling(Subject::Thread(pid), PerfEvent::ANY_CPU, &sampling);
        events.push(event.map_err(|error| explain_event(pid, spec, error))?);
    }
    events.iter().for_each(PerfEvent::enable);
    std::thread::sleep(COUNTED_FOR);
    let hits: u64 = events.iter().map(|event| event.count().unwrap_or(0)).sum();
    let period = period_for(hits * 1000 / COUNTED_FOR.as_millis() as u64);
    for spec in specs.iter_mut().filter(|spec| spec.is_of_javascript()) {
        spec.set_period(period);
    }
    Ok(())
}

/// Of how many hits one is sampled where there are so many a second.
fn period_for(rate_hz: u64) -> u64 {
    if rate_hz <= ALL_HZ {
        return 1;
    }
    let mut periods = PERIODS.into_iter();
    let enough = periods.find(|period| rate_hz / period <= SOME_HZ);
    enough.unwrap_or(PERIODS[PERIODS.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_hits_are_sampled_in_part() {
        assert_eq!(period_for(0), 1);
        assert_eq!(period_for(1_000), 1);
        assert_eq!(period_for(1_200), 3);
        assert_eq!(period_for(15_000), 31);
        assert_eq!(period_for(u64::MAX), 127);
    }
}
