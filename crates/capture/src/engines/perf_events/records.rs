//! Records of a ring, decoded. The kernel wrote them, but paths and names in them are anybody's.

use std::borrow::Cow;

use nodespy_model::{Event, FileIdentity, Mapping, Nanoseconds, RawSample, UserStack};
use perf_event_open_sys::bindings;

use super::Losses;
use crate::sys::registers;
use crate::sys::ring::Record;

/// Addresses at or above this are marks between parts of a call chain, not addresses.
const CONTEXT_MARKS: u64 = -4095i64 as u64;

/// What the samples of this session hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct SampleLayout {
    pub(super) has_callchain: bool,
    pub(super) stack_bytes: usize,
}

/// Reads numbers from the body of a record.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.bytes(8)?.try_into().ok()?))
    }
}

/// When a sample was taken; none when the record is no sample.
pub(super) fn sample_time(record: &Record<'_>) -> Option<Nanoseconds> {
    if record.kind != bindings::PERF_RECORD_SAMPLE {
        return None;
    }
    Fields(record.body.get(16..)?).u64()
}

/// A sample from the ring of a CPU; none when the record is too short to be one.
pub(super) fn sample<'a>(
    record: &Record<'a>,
    layout: SampleLayout,
    cpu: u16,
) -> Option<RawSample<'a>> {
    let mut fields = Fields(record.body);
    let _instruction_pointer = fields.u64()?;
    let pid = fields.u32()?;
    let tid = fields.u32()?;
    let time = fields.u64()?;
    let mut kernel = Vec::new();
    if layout.has_callchain {
        let count = fields.u64()?;
        let chain = fields.bytes(usize::try_from(count).ok()?.checked_mul(8)?)?;
        kernel.extend(
            chain
                .chunks_exact(8)
                .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
                .filter(|&address| address < CONTEXT_MARKS),
        );
    }
    Some(RawSample {
        time,
        pid,
        tid,
        cpu: Some(cpu),
        kernel: Cow::Owned(kernel),
        user: user_stack(&mut fields, layout).unwrap_or(UserStack::Absent),
    })
}

fn user_stack<'a>(fields: &mut Fields<'a>, layout: SampleLayout) -> Option<UserStack<'a>> {
    if fields.u64()? != u64::from(bindings::PERF_SAMPLE_REGS_ABI_64) {
        return None;
    }
    let values = fields.bytes(registers::COUNT * 8)?;
    let registers = registers::from_sample(|rank| {
        u64::from_ne_bytes(
            values[rank * 8..rank * 8 + 8]
                .try_into()
                .expect("eight bytes"),
        )
    });
    let size = usize::try_from(fields.u64()?).ok()?;
    let stack = fields.bytes(size)?;
    // The kernel always takes the whole space and says afterwards how much of it is filled.
    let filled = match size {
        0 => 0,
        _ => usize::try_from(fields.u64()?).ok()?.min(size),
    };
    Some(UserStack::Copy {
        registers,
        stack: Cow::Borrowed(&stack[..filled]),
        is_full: filled >= layout.stack_bytes,
    })
}

/// A record about mappings, names, births and deaths; none when it is something else.
pub(super) fn bookkeeping(record: &Record<'_>) -> Option<Event<'static>> {
    // Every such record ends with pid, tid and time (sample_id_all with TID and TIME).
    let trailer = record.body.len().checked_sub(16)?;
    let time = Fields(&record.body[trailer + 8..]).u64()?;
    let mut fields = Fields(&record.body[..trailer]);
    match record.kind {
        bindings::PERF_RECORD_MMAP2 => mapping(&mut fields, time),
        bindings::PERF_RECORD_COMM => Some(Event::ThreadName {
            pid: fields.u32()?,
            tid: fields.u32()?,
            name: text(fields.0),
            is_exec: u32::from(record.misc) & bindings::PERF_RECORD_MISC_COMM_EXEC != 0,
            time,
        }),
        bindings::PERF_RECORD_FORK => {
            let pid = fields.u32()?;
            let parent_pid = fields.u32()?;
            Some(Event::Fork {
                pid,
                tid: fields.u32()?,
                parent_pid,
                time,
            })
        }
        bindings::PERF_RECORD_EXIT => {
            let pid = fields.u32()?;
            let _parent_pid = fields.u32()?;
            Some(Event::Exit {
                pid,
                tid: fields.u32()?,
                time,
            })
        }
        _ => None,
    }
}

fn mapping(fields: &mut Fields<'_>, time: Nanoseconds) -> Option<Event<'static>> {
    let pid = fields.u32()?;
    let _tid = fields.u32()?;
    let start = fields.u64()?;
    let length = fields.u64()?;
    let file_offset = fields.u64()?;
    let device = (fields.u32()?, fields.u32()?);
    let inode = fields.u64()?;
    let _generation = fields.u64()?;
    let _protection = fields.u32()?;
    let _flags = fields.u32()?;
    Some(Event::Mapping(Mapping {
        pid,
        start,
        end: start.checked_add(length)?,
        file_offset,
        path: text(fields.0),
        file: FileIdentity {
            device,
            inode,
            build_id: Vec::new(),
        },
        time,
    }))
}

fn text(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Counts what a record says was lost or slowed.
pub(super) fn count_loss(record: &Record<'_>, losses: &mut Losses, is_sample_ring: bool) {
    let mut fields = Fields(record.body);
    match record.kind {
        bindings::PERF_RECORD_LOST => {
            let _id = fields.u64();
            let lost = fields.u64().unwrap_or(1);
            if is_sample_ring {
                losses.samples = losses.samples.saturating_add(lost);
            } else {
                losses.records = losses.records.saturating_add(lost);
            }
        }
        bindings::PERF_RECORD_LOST_SAMPLES => {
            losses.samples = losses.samples.saturating_add(fields.u64().unwrap_or(1));
        }
        bindings::PERF_RECORD_THROTTLE => losses.throttled += 1,
        _ => {}
    }
}

/// When an event happened.
pub(super) fn time_of(event: &Event<'_>) -> Nanoseconds {
    match event {
        Event::Sample(sample) => sample.time,
        Event::Mapping(mapping) => mapping.time,
        Event::ThreadName { time, .. } | Event::Fork { time, .. } | Event::Exit { time, .. } => {
            *time
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_lying_records_are_refused() {
        let layout = SampleLayout {
            has_callchain: true,
            stack_bytes: 32,
        };
        let mut body = vec![0u8; 24];
        body.extend_from_slice(&u64::MAX.to_ne_bytes());
        for length in 0..body.len() {
            let record = Record {
                kind: bindings::PERF_RECORD_SAMPLE,
                misc: 0,
                body: &body[..length],
            };
            assert!(sample(&record, layout, 0).is_none());
            let record = Record {
                kind: bindings::PERF_RECORD_MMAP2,
                ..record
            };
            assert!(bookkeeping(&record).is_none());
        }
    }

    #[test]
    fn a_sample_tells_who_when_and_where() {
        let layout = SampleLayout {
            has_callchain: true,
            stack_bytes: 32,
        };
        let mut body = vec![0u8; 8];
        body.extend_from_slice(&7u32.to_ne_bytes());
        body.extend_from_slice(&8u32.to_ne_bytes());
        body.extend_from_slice(&99u64.to_ne_bytes());
        body.extend_from_slice(&0u64.to_ne_bytes());
        let record = Record {
            kind: bindings::PERF_RECORD_SAMPLE,
            misc: 0,
            body: &body,
        };
        let sample = sample(&record, layout, 3).unwrap();
        assert_eq!(
            (sample.pid, sample.tid, sample.time, sample.cpu),
            (7, 8, 99, Some(3))
        );
    }
}
