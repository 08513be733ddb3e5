//! How often breakpoints of JavaScript are hit, before they are sampled: each hit that is sampled takes a copy of the
//! stack, which at thousands a second is more than the program should pay.

use std::sync::Arc;
use std::time::Duration;

use super::probing::PROBE;
use super::refusals::explain_event;
use super::sources::counted;
use super::spec::EventSpec;
use crate::error::CaptureError;
use crate::sys::one_in::OneIn;
use crate::sys::perf_event::{Every, PerfEvent, Sampling, Subject};

/// How long hits are counted.
const COUNTED_FOR: Duration = Duration::from_millis(100);
/// Up to so many a second all are sampled.
const ALL_HZ: u64 = 1_000;
/// Above that about so many.
const SOME_HZ: u64 = 500;
/// Of so many one. Programs submit jobs in rounds: where none can be chosen at random, a prime period meets all jobs of most
/// of them.
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

/// Has a program choose at random which hits of a breakpoint of JavaScript are sampled, where only some are.
pub(super) fn keep_one_in(mut sampling: Sampling, remarks: &mut Vec<String>) -> Sampling {
    let Every::Period(n @ 2..) = sampling.every else {
        return sampling;
    };
    if !sampling.is_of_javascript {
        return sampling;
    }
    match OneIn::load(n as u32) {
        Ok(program) => {
            sampling.every = Every::Period(1);
            sampling.one_in = Some(Arc::new(program));
        }
        Err(why) => {
            log::info!("no program chooses jobs at random: {why}");
            let remark = format!(
                "each {n}th job of libuv's pool was sampled: where a program submits them in rounds of a multiple of that, the shares of lines are wrong (choosing at random needs eBPF)"
            );
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
        }
    }
    sampling
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
