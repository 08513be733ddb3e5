//! Other rates while a recording goes on: events are opened again, for the rings there are.
//!
//! `PERF_EVENT_IOC_PERIOD` is no way to do it: it reaches an event, but not those that threads have inherited from it, and
//! the two change places between threads (measured on Linux 6.18). Enabling and disabling reaches all of them.
//!
//! One of so many samples is taken then and counts for the others, so that sums of weights stay what they are. Which it was
//! taken for is known by the number of the event that it carries.

use std::io;
use std::os::fd::AsFd;

use super::opening::{MAX_OPENINGS, check_descriptors};
use super::walking::{SAMPLED, Walking};
use super::{OpenEvent, PerfSession};
use crate::error::CaptureError;
use crate::sys::perf_event::{Counted, Every, PerfEvent, Sampling, Subject};
use crate::target::proc;

impl PerfSession {
    /// Takes one of `divisor` of the samples that were asked for from now on, of these processes.
    pub(super) fn set_divisor(&mut self, divisor: u32, pids: &[u32]) -> Result<(), CaptureError> {
        let changed: Vec<(usize, Sampling)> = self
            .asked
            .iter()
            .enumerate()
            .filter_map(|(at, sampling)| Some((at, thinned(sampling, divisor)?)))
            .collect();
        let opened = self.open_again(&changed, pids)?;
        for (at, sampling) in changed {
            self.samplings[at] = sampling;
        }
        self.weigh(&opened)?;
        let is_old = |open: &&OpenEvent| {
            let changes = |new: &OpenEvent| new.sampling == open.sampling;
            open.sampling.is_some() && opened.iter().any(changes)
        };
        let old = self.events.iter().filter(is_old);
        old.for_each(|open| open.event.disable());
        opened.iter().for_each(|open| open.event.enable());
        self.replace(opened);
        Ok(())
    }

    /// Events of these samplings that are not enabled yet, for the rings there are.
    fn open_again(
        &self,
        changed: &[(usize, Sampling)],
        pids: &[u32],
    ) -> Result<Vec<OpenEvent>, CaptureError> {
        let opening = |error| CaptureError::call("opening events at another rate", error);
        let mut attempts = 0;
        loop {
            let threads = threads_of(pids);
            let count = 2 * self.samplings.len();
            check_descriptors(threads.len(), self.ring_owners.len(), count)?;
            let opened = self.open_on_all(changed, &threads).map_err(opening)?;
            attempts += 1;
            // One that was born before its parent had the new event has the old one alone.
            let is_new = |thread: &u32| !threads.contains(thread);
            if attempts == MAX_OPENINGS || !threads_of(pids).iter().any(is_new) {
                return Ok(opened);
            }
        }
    }

    fn open_on_all(
        &self,
        changed: &[(usize, Sampling)],
        threads: &[u32],
    ) -> io::Result<Vec<OpenEvent>> {
        let mut opened = Vec::new();
        let program = self.walking.as_ref().map(Walking::program);
        for owners in &self.ring_owners {
            for (at, sampling) in changed {
                let subjects: Vec<Subject<'_>> = match &self.group {
                    _ if self.is_cpu_wide() => vec![Subject::Cpu],
                    Some(group) => vec![Subject::Group(group.as_fd())],
                    None => threads.iter().copied().map(Subject::Thread).collect(),
                };
                for subject in subjects {
                    let event = match PerfEvent::sampling(subject, owners.cpu, sampling) {
                        Ok(event) => event,
                        // A thread may end meanwhile.
                        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
                        Err(error) => return Err(error),
                    };
                    event.write_to_ring_of(&self.events[owners.samples[*at]].event)?;
                    if let (Some(program), &SAMPLED) = (program, at) {
                        program.attach(&event)?;
                    }
                    opened.push(OpenEvent {
                        event,
                        sampling: Some(*at),
                    });
                }
            }
        }
        Ok(opened)
    }

    /// Has samples of these events count for what their samplings say.
    pub(super) fn weigh(&mut self, opened: &[OpenEvent]) -> Result<(), CaptureError> {
        for open in opened {
            if let Some(at) = open.sampling {
                let id = open.event.id();
                let id = id.map_err(|error| CaptureError::call("asking for an event", error))?;
                self.rings.weigh(id, self.samplings[at].weight);
            }
        }
        Ok(())
    }

    /// Keeps new events instead of those of the same samplings, of which only the owners of rings stay.
    fn replace(&mut self, opened: Vec<OpenEvent>) {
        let owners = &mut self.ring_owners;
        let mut kept = Vec::new();
        for (at, mut open) in std::mem::take(&mut self.events).into_iter().enumerate() {
            let is_old =
                open.sampling.is_some() && opened.iter().any(|new| new.sampling == open.sampling);
            let mut owned = owners
                .iter_mut()
                .flat_map(|of| of.samples.iter_mut().chain([&mut of.sideband]));
            let place = owned.find(|place| **place == at);
            let is_owner = place.is_some();
            if let Some(place) = place {
                // The same number can't be met twice: new places are not behind old ones.
                *place = kept.len();
            }
            if is_old {
                open.sampling = None;
            }
            match is_old && !is_owner {
                true => self.wakers.retain(|waker| *waker != open.event.waker()),
                false => kept.push(open),
            }
        }
        kept.extend(opened);
        self.events = kept;
    }
}

fn threads_of(pids: &[u32]) -> Vec<u32> {
    pids.iter().flat_map(|&pid| proc::threads(pid)).collect()
}

/// What takes one of `divisor` of these samples; none of what has no samples, and of breakpoints, which take long to be set.
fn thinned(sampling: &Sampling, divisor: u32) -> Option<Sampling> {
    if sampling.counted == Counted::NOTHING || sampling.counted.place.is_some() {
        return None;
    }
    let divisor = u64::from(divisor.max(1));
    let mut thinned = sampling.clone();
    thinned.start_on_exec = false;
    match sampling.every {
        // The clock ticks in nanoseconds: no fraction of a sample is lost.
        Every::Rate(rate_hz) if sampling.counted == Counted::CPU_CLOCK => {
            thinned.every = Every::Period(1_000_000_000 * divisor / u64::from(rate_hz.max(1)));
            thinned.weight = sampling.weight.saturating_mul(divisor);
        }
        Every::Rate(rate_hz) => {
            let rate_hz = (f64::from(rate_hz) / divisor as f64).round();
            thinned.every = Every::Rate((rate_hz as u32).max(1));
            thinned.weight = sampling.weight.saturating_mul(divisor);
        }
        Every::Period(period) => {
            thinned.every = Every::Period(period.saturating_mul(divisor));
            thinned.weight = sampling.weight.saturating_mul(divisor);
        }
    }
    Some(thinned)
}

#[cfg(test)]
mod tests {
    use super::super::probing::PROBE;
    use super::*;

    fn sampling(counted: Counted, every: Every) -> Sampling {
        Sampling {
            counted,
            every,
            weight: every.weight(),
            ..PROBE
        }
    }

    #[test]
    fn weights_make_up_for_the_samples_that_are_not_taken() {
        let clock = sampling(Counted::CPU_CLOCK, Every::Rate(99));
        let half = thinned(&clock, 2).unwrap();
        assert_eq!((half.every, half.weight), (Every::Period(20_202_020), 2));
        let cycles = sampling(Counted::CYCLES, Every::Rate(999));
        let tenth = thinned(&cycles, 10).unwrap();
        assert_eq!((tenth.every, tenth.weight), (Every::Rate(100), 10));
        let faults = sampling(Counted::CPU_CLOCK, Every::Period(100));
        let fifth = thinned(&faults, 5).unwrap();
        assert_eq!((fifth.every, fifth.weight), (Every::Period(500), 500));
    }

    #[test]
    fn breakpoints_stay_as_they_are() {
        let mut probe = sampling(Counted::CPU_CLOCK, Every::Period(1));
        probe.counted.place = Some((c"/bin/node".to_owned(), 1));
        assert!(thinned(&probe, 2).is_none());
        assert!(thinned(&sampling(Counted::NOTHING, Every::Rate(99)), 2).is_none());
    }
}
