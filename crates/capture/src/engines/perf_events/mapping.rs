//! Rings: how large they may be, and which events share one.

use std::io;

use super::WALKED_STACK_BYTES;
use super::opening::CpuEvents;
use super::records::RingOf;
use super::ring_set::RingSet;
use crate::error::CaptureError;
use crate::sys::perf_event::{PerfEvent, Sampling};
use crate::sys::ring::{Ring, page_size};

/// What there is room for of what a program copies for each sample: four times as much as most have, while deep recursions have
/// up to [`MAX_COPIED_BYTES`].
const COPIED_BYTES: u32 = 16 << 10;
/// The most that a program copies for a sample, a record of it (`MAX_WORDS` of `bpf/walk.h`).
pub(super) const MAX_COPIED_BYTES: u32 = 57 << 10;
/// Where samples are few there is room for some of the largest all the same.
const FEWEST_BYTES: usize = 256 << 10;
/// The sample rings of all CPUs together never exceed this.
const ALL_RINGS_BYTES: usize = 256 << 20;
pub(super) const LARGEST_RING_BYTES: usize = 32 << 20;
const SIDEBAND_RING_BYTES: usize = 256 << 10;
/// Room for a quarter of a second of the jobs that are sampled.
const JOBS_RING_BYTES: usize = 8 << 20;
const SMALLEST_RING_BYTES: usize = 64 << 10;

/// Maps a ring per CPU and event and one for the sideband, all as large as the first wish allows:
/// what may be locked is shared by all of them, so when one is refused they all become smaller.
pub(super) fn map_rings(
    events: &[CpuEvents],
    samplings: &[Sampling],
) -> Result<RingSet<Ring>, CaptureError> {
    let mut size = ring_bytes(samplings, events.len());
    loop {
        match try_map_rings(events, samplings, size) {
            Ok(rings) => return Ok(rings),
            // EPERM: more than may be locked. ENOMEM: more than there is.
            Err(error) if is_too_large(&error) && size > 2 * page_size() => size /= 2,
            Err(error) => return Err(CaptureError::call("mapping a ring buffer", error)),
        }
    }
}

fn try_map_rings(
    events: &[CpuEvents],
    samplings: &[Sampling],
    size: usize,
) -> io::Result<RingSet<Ring>> {
    let mut rings = RingSet::new(samplings[0].sideband_layout());
    for of_cpu in events {
        for (events, sampling) in of_cpu.samples.iter().zip(samplings) {
            let size = match sampling.is_of_javascript {
                // Who may set breakpoints may lock memory too.
                true => JOBS_RING_BYTES,
                false => size,
            };
            if let Some(ring) = share_ring(events, size)? {
                let of = RingOf {
                    cpu: of_cpu.cpu,
                    event: sampling.event,
                    weight: sampling.weight,
                };
                rings.add_samples(of, sampling.sample_layout(), ring);
                if let Some(format) = &sampling.format {
                    rings.label(sampling.event, format.clone());
                }
            }
        }
        if let Some(ring) = share_ring(&of_cpu.sideband, SIDEBAND_RING_BYTES.min(size))? {
            rings.add_sideband(ring);
        }
    }
    Ok(rings)
}

/// Room for a second of samples of a busy CPU, within what all rings together may take. More
/// would only make attaching slower: the kernel clears every page first.
pub(super) fn ring_bytes(samplings: &[Sampling], cpus: usize) -> usize {
    let wish = |sampling: &Sampling| {
        let sample_bytes = sample_bytes(sampling.stack_bytes, COPIED_BYTES) as usize + 1024;
        (sampling.every.expected_rate_hz() as usize * sample_bytes).next_power_of_two()
    };
    let large = samplings.iter().filter(|it| !it.is_of_javascript);
    let wish = large.map(wish).max().unwrap_or(0).max(FEWEST_BYTES);
    let allowed = (ALL_RINGS_BYTES / (cpus.max(1) * samplings.len()) + 1).next_power_of_two() / 2;
    wish.min(allowed)
        .clamp(SMALLEST_RING_BYTES, LARGEST_RING_BYTES)
}

/// The stack of a sample, and what a program copies for it, where one does.
pub(super) fn sample_bytes(stack_bytes: u32, copied_bytes: u32) -> u32 {
    match stack_bytes {
        WALKED_STACK_BYTES => WALKED_STACK_BYTES + copied_bytes,
        whole => whole,
    }
}

fn is_too_large(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM))
}

/// Maps a ring for the first event and sends the others' records there.
pub(super) fn share_ring(events: &[PerfEvent], size: usize) -> io::Result<Option<Ring>> {
    let Some((first, others)) = events.split_first() else {
        return Ok(None);
    };
    let ring = Ring::map(first, size)?;
    for other in others {
        other.write_to_ring_of(first)?;
    }
    Ok(Some(ring))
}

#[cfg(test)]
mod tests {
    use super::super::probing::PROBE;
    use super::*;
    use crate::sys::perf_event::Every;

    #[test]
    fn rings_have_room_for_a_second_of_large_samples_and_for_few_that_are_largest() {
        let bytes = |rate, cpus| {
            let walked = Sampling {
                every: Every::Rate(rate),
                stack_bytes: WALKED_STACK_BYTES,
                ..PROBE
            };
            ring_bytes(&[walked], cpus)
        };
        let largest = (WALKED_STACK_BYTES + MAX_COPIED_BYTES) as usize;
        for (rate, mebibytes) in [(99, 4), (499, 16), (999, 32)] {
            assert_eq!(bytes(rate, 2), mebibytes << 20);
            assert!(bytes(rate, 2) / largest > rate as usize / 2);
        }
        assert!(bytes(1, 2) > 4 * largest);
        assert_eq!(bytes(999, 128), 2 << 20);
    }
}
