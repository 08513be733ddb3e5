//! Rings: how large they may be, and which events share one.

use std::io;

use nodespy_model::Nanoseconds;

use super::WALKED_STACK_BYTES;
use super::opening::{CpuEvents, USUALLY_COPIED_BYTES};
use super::records::RingOf;
use super::ring_set::RingSet;
use crate::error::CaptureError;
use crate::sys::perf_event::{PerfEvent, Sampling};
use crate::sys::ring::{Ring, page_size};

/// What a program copies for a sample, of a stack with many async callers.
const COPIED_BYTES: u32 = 8 << 10;
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
fn ring_bytes(samplings: &[Sampling], cpus: usize) -> usize {
    let wish = |sampling: &Sampling| {
        let sample_bytes = sample_bytes(sampling, COPIED_BYTES) as usize + 1024;
        (sampling.every.expected_rate_hz() as usize * sample_bytes).next_power_of_two()
    };
    let large = samplings.iter().filter(|it| !it.is_of_javascript);
    let wish = large.map(wish).max().unwrap_or(0);
    let allowed = (ALL_RINGS_BYTES / (cpus.max(1) * samplings.len()) + 1).next_power_of_two() / 2;
    wish.min(allowed)
        .clamp(SMALLEST_RING_BYTES, LARGEST_RING_BYTES)
}

/// How long samples of busy CPUs may gather until a ring is half full. The kernel wakes us when there are some bytes, but of a ring that is
/// smaller than that it never does.
pub(super) fn fill_time(smallest_ring: usize, samplings: &[Sampling]) -> Nanoseconds {
    let bytes_per_second = |sampling: &Sampling| {
        let sample_bytes = sample_bytes(sampling, USUALLY_COPIED_BYTES);
        u64::from(sampling.every.expected_rate_hz()) * u64::from(sample_bytes)
    };
    let large = samplings.iter().filter(|it| !it.is_of_javascript);
    let most = large.map(bytes_per_second).max().unwrap_or(0);
    smallest_ring as u64 / 2 * 1_000_000_000 / most.max(1)
}

/// The stack of a sample, and what a program copies for it, where one does.
fn sample_bytes(sampling: &Sampling, copied_bytes: u32) -> u32 {
    match sampling.stack_bytes {
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
    fn small_rings_are_read_before_they_are_full() {
        let walked = Sampling {
            every: Every::Rate(999),
            stack_bytes: WALKED_STACK_BYTES,
            ..PROBE
        };
        let roomy = ring_bytes(std::slice::from_ref(&walked), 2);
        let milliseconds = |bytes| fill_time(bytes, std::slice::from_ref(&walked)) / 1_000_000;
        assert!(milliseconds(roomy) > 1_000);
        assert!((100..150).contains(&milliseconds(2 << 20)));
        assert_eq!(milliseconds(0), 0);
    }
}
