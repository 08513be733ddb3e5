//! Section 9, the samples: most of a file, so the one section that has changed.
//!
//! Since version 2 it holds what differs from the sample before. A profiler's clock ticks in whole
//! microseconds or slower, which the unit of time takes out; weights are mostly one number or the
//! time to the next sample; and a stack is mostly near the one before it. Steps of time are noise
//! around one length, which packs best as one byte each: since version 3 they are, and what a byte
//! cannot hold follows. On a `.cpuprofile` of 52 MB the packed times get a sixth smaller.

use nodespy_model::{Cpu, Sample, StackIndex, ThreadIndex};

use super::columns::{Columns, put, zigzag};
use crate::import::ImportError;

/// How weights are held since version 2.
mod weights {
    /// A column of numbers.
    pub(super) const EACH: u64 = 0;
    /// One number for all.
    pub(super) const EQUAL: u64 = 1;
    /// The time to the next sample; one number for the last.
    pub(super) const UNTIL_NEXT: u64 = 2;
}

/// The byte of a step that does not fit into one; how much longer it is follows in a column.
const LONG_STEP: u64 = 255;

/// What is wrong with weights that no sum holds.
pub(super) const TOO_HEAVY: &str = "the weights add up to more than 64 bits hold";

/// The sample before the first of a section.
#[derive(Debug, Default)]
pub(super) struct Before {
    time: u64,
    /// Row + 1, 0: none.
    stack: u32,
    /// Every sum of weights in a profile is part of this one, so none of them can overflow.
    total_weight: u64,
}

impl Before {
    /// Before samples that start at a time.
    pub(super) fn at(time: u64) -> Self {
        Self {
            time,
            ..Self::default()
        }
    }

    /// What comes after starts at a time of its own, from no stack.
    pub(super) fn restart(&mut self, time: u64) {
        (self.time, self.stack) = (time, 0);
    }

    /// Takes a step of time and returns when that is.
    fn after(&mut self, step: u64, unit: u64, columns: &Columns<'_>) -> Result<u64, ImportError> {
        self.time = step
            .checked_mul(unit)
            .and_then(|step| self.time.checked_add(step))
            .ok_or_else(|| columns.error("a time has more than 64 bits"))?;
        Ok(self.time)
    }
}

/// What the rows of a section may refer to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) threads: usize,
    pub(super) stacks: usize,
}

/// The greatest unit of time in which every step between samples, the first from `start`, is a whole
/// number.
pub(super) fn unit_of(samples: &[Sample], start: u64) -> u64 {
    let mut before = start;
    let mut unit = 0;
    for sample in samples {
        unit = greatest_divisor(sample.time - before, unit);
        before = sample.time;
    }
    unit.max(1)
}

/// A section of version 3. The samples are in order of time, their steps multiples of `unit`; `row`
/// says where the file has a stack.
pub(super) fn section(
    rows: &[Sample],
    unit: u64,
    row: impl Fn(StackIndex) -> u32,
    before: &mut Before,
) -> Vec<u8> {
    let mut content = Vec::new();
    put(&mut content, rows.len() as u64);
    let mut steps = Vec::with_capacity(rows.len());
    for sample in rows {
        steps.push(sample.time - before.time);
        before.time = sample.time;
    }
    put(&mut content, unit);
    let in_units = || steps.iter().map(|step| step / unit);
    content.extend(in_units().map(|step| step.min(LONG_STEP) as u8));
    in_units()
        .filter_map(|step| step.checked_sub(LONG_STEP))
        .for_each(|excess| put(&mut content, excess));
    put_weights(&mut content, rows, &steps);
    for sample in rows {
        put(&mut content, u64::from(sample.thread.0));
    }
    for sample in rows {
        let stack = sample.stack.map_or(0, |stack| row(stack) + 1);
        put(
            &mut content,
            zigzag(i64::from(stack) - i64::from(before.stack)),
        );
        before.stack = stack;
    }
    if rows.iter().any(|sample| sample.cpu.is_some()) {
        for sample in rows {
            put(
                &mut content,
                sample.cpu.map_or(0, |cpu| u64::from(cpu.get()) + 1),
            );
        }
    }
    content
}

/// Euclid's. The divisor of 0 and a number is the number.
fn greatest_divisor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

fn put_weights(content: &mut Vec<u8>, rows: &[Sample], steps: &[u64]) {
    let Some(last) = rows.last() else {
        put(content, weights::EACH);
        return;
    };
    let are_equal = rows.iter().all(|sample| sample.weight == last.weight);
    let mut until_next = rows.iter().zip(&steps[1..]);
    if are_equal {
        put(content, weights::EQUAL);
        put(content, last.weight);
    } else if until_next.all(|(sample, step)| sample.weight == *step) {
        put(content, weights::UNTIL_NEXT);
        put(content, last.weight);
    } else {
        put(content, weights::EACH);
        rows.iter().for_each(|sample| put(content, sample.weight));
    }
}

/// Reads a section of a version.
pub(super) fn read(
    version: u32,
    columns: &mut Columns<'_>,
    rows: usize,
    known: Known,
    before: &mut Before,
) -> Result<Vec<Sample>, ImportError> {
    let (times, weights) = match version {
        1 => (
            read_times(columns, rows, 1, before)?,
            columns.column(rows, Columns::number)?,
        ),
        _ => {
            let unit = columns.number()?;
            let times = match version {
                2 => read_times(columns, rows, unit, before)?,
                _ => read_short_times(columns, rows, unit, before)?,
            };
            let weights = read_weights(columns, &times)?;
            (times, weights)
        }
    };
    // Those of several events are never added up.
    if version < 4 {
        for weight in &weights {
            before.total_weight = before
                .total_weight
                .checked_add(*weight)
                .ok_or_else(|| columns.error(TOO_HEAVY))?;
        }
    }
    let threads = columns.column(rows, |columns| columns.index(known.threads, "threads"))?;
    let stacks = match version {
        1 => columns.column(rows, |columns| columns.index(known.stacks + 1, "stacks"))?,
        _ => read_stack_steps(columns, rows, known.stacks, before)?,
    };
    let mut samples = Vec::with_capacity(rows);
    for row in 0..rows {
        // The first files had no processors, and a section where none is known has none.
        let cpu = match columns.is_at_end() {
            true => None,
            false => columns
                .index(1 + usize::from(u16::MAX) + 1, "processors")?
                .checked_sub(1),
        };
        samples.push(Sample {
            time: times[row],
            weight: weights[row],
            thread: ThreadIndex(threads[row]),
            stack: stacks[row].checked_sub(1).map(StackIndex::new),
            cpu: cpu.and_then(|cpu| Cpu::new(cpu as u16)),
            ..Sample::default()
        });
    }
    Ok(samples)
}

/// Steps of time as numbers.
fn read_times(
    columns: &mut Columns<'_>,
    rows: usize,
    unit: u64,
    before: &mut Before,
) -> Result<Vec<u64>, ImportError> {
    columns.column(rows, |columns| {
        let step = columns.number()?;
        before.after(step, unit, columns)
    })
}

/// Steps of time as bytes, and what does not fit into a byte after them.
fn read_short_times(
    columns: &mut Columns<'_>,
    rows: usize,
    unit: u64,
    before: &mut Before,
) -> Result<Vec<u64>, ImportError> {
    let short = columns.bytes(rows)?;
    let mut times = Vec::with_capacity(rows);
    for byte in short {
        let step = match u64::from(*byte) {
            LONG_STEP => LONG_STEP.checked_add(columns.number()?),
            step => Some(step),
        };
        let step = step.ok_or_else(|| columns.error("a time has more than 64 bits"))?;
        times.push(before.after(step, unit, columns)?);
    }
    Ok(times)
}

fn read_weights(columns: &mut Columns<'_>, times: &[u64]) -> Result<Vec<u64>, ImportError> {
    match columns.number()? {
        weights::EACH => columns.column(times.len(), Columns::number),
        weights::EQUAL => Ok(vec![columns.number()?; times.len()]),
        weights::UNTIL_NEXT => {
            let steps = times.windows(2).map(|pair| pair[1] - pair[0]);
            let mut weights: Vec<u64> = steps.collect();
            weights.push(columns.number()?);
            weights.truncate(times.len());
            Ok(weights)
        }
        other => Err(columns.error(format!("there is no way {other} to hold weights"))),
    }
}

/// Stacks as steps: row + 1, 0 for none.
fn read_stack_steps(
    columns: &mut Columns<'_>,
    rows: usize,
    known: usize,
    before: &mut Before,
) -> Result<Vec<u32>, ImportError> {
    columns.column(rows, |columns| {
        let step = columns.step()?;
        let stack = i64::from(before.stack).checked_add(step);
        let stack = stack.and_then(|stack| u32::try_from(stack).ok());
        before.stack = stack
            .filter(|stack| *stack as usize <= known)
            .ok_or_else(|| {
                let from = before.stack;
                columns.error(format!("a step of {step} from stack {from} of {known}"))
            })?;
        Ok(before.stack)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(time: u64, weight: u64, stack: Option<u32>) -> Sample {
        Sample {
            time,
            weight,
            stack: stack.map(StackIndex::new),
            ..Sample::default()
        }
    }

    fn read_whole(
        version: u32,
        columns: &mut Columns<'_>,
        known: Known,
    ) -> Result<Vec<Sample>, ImportError> {
        let rows = columns.count(3)?;
        read(version, columns, rows, known, &mut Before::default())
    }

    fn written_and_read(rows: &[Sample]) -> Vec<u8> {
        let before = &mut Before::default();
        let bytes = section(rows, unit_of(rows, 0), StackIndex::get, before);
        let known = Known {
            threads: 1,
            stacks: 1000,
        };
        let mut columns = Columns::new(&bytes, 0);
        let back = read_whole(3, &mut columns, known).unwrap();
        assert_eq!(back, rows);
        bytes
    }

    #[test]
    fn weights_that_follow_from_the_times_cost_two_numbers() {
        let rows = [
            sample(2000, 4000, Some(7)),
            sample(6000, 10_000, None),
            sample(16_000, 3, Some(900)),
        ];
        assert_eq!(
            written_and_read(&rows),
            // Rows; unit 2000; steps 1, 2, 5; until the next, then 3; threads; 8, -8, 901.
            [3, 0xd0, 0x0f, 1, 2, 5, 2, 3, 0, 0, 0, 16, 15, 0x8a, 0x0e]
        );
    }

    #[test]
    fn equal_weights_and_times_cost_two_numbers() {
        let rows = [sample(0, 1, None); 3];
        assert_eq!(
            written_and_read(&rows),
            [3, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn other_weights_are_written_out() {
        let rows = [sample(0, 1, None), sample(5, 1, None), sample(9, 2, None)];
        let bytes = written_and_read(&rows);
        assert_eq!(bytes[5..9], [0, 1, 1, 2]);
    }

    #[test]
    fn hostile_steps_are_refused() {
        let known = Known {
            threads: 1,
            stacks: 1,
        };
        for (bytes, expected) in [
            (&[1, 1, 0, 1, 1, 0, 1][..], "a step of -1 from stack 0 of 1"),
            (&[1, 1, 0, 1, 1, 0, 4], "a step of 2 from stack 0 of 1"),
            (&[1, 1, 0, 3, 1, 0, 0], "there is no way 3 to hold weights"),
        ] {
            let mut columns = Columns::new(bytes, 0);
            let error = read_whole(2, &mut columns, known).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        let mut bytes = vec![1];
        put(&mut bytes, u64::MAX);
        bytes.extend([2, 1, 1, 0, 0]);
        let mut columns = Columns::new(&bytes, 0);
        let error = read_whole(2, &mut columns, known).unwrap_err();
        assert!(error.to_string().contains("more than 64 bits"), "{error}");
    }
}
