//! `perf_event_attr`: what an event counts and which fields its records have.

use crate::error::RecordError;
use crate::field_reader::FieldReader;

/// Bits of [`EventAttributes::sample_type`]: `PERF_SAMPLE_*`.
#[allow(missing_docs)]
pub mod sample_type {
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const REGS_USER: u64 = 1 << 12;
    pub const STACK_USER: u64 = 1 << 13;
    pub const WEIGHT: u64 = 1 << 14;
    pub const DATA_SRC: u64 = 1 << 15;
    pub const IDENTIFIER: u64 = 1 << 16;
    pub const TRANSACTION: u64 = 1 << 17;
    pub const REGS_INTR: u64 = 1 << 18;
    pub const PHYS_ADDR: u64 = 1 << 19;
    pub const AUX: u64 = 1 << 20;
    pub const CGROUP: u64 = 1 << 21;
    pub const DATA_PAGE_SIZE: u64 = 1 << 22;
    pub const CODE_PAGE_SIZE: u64 = 1 << 23;
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
}

/// Bits of [`EventAttributes::read_format`]: `PERF_FORMAT_*`.
#[allow(missing_docs)]
pub mod read_format {
    pub const TOTAL_TIME_ENABLED: u64 = 1 << 0;
    pub const TOTAL_TIME_RUNNING: u64 = 1 << 1;
    pub const ID: u64 = 1 << 2;
    pub const GROUP: u64 = 1 << 3;
    pub const LOST: u64 = 1 << 4;
}

/// Bits of [`EventAttributes::branch_sample_type`]: `PERF_SAMPLE_BRANCH_*`.
#[allow(missing_docs)]
pub mod branch_sample_type {
    pub const CALL_STACK: u64 = 1 << 11;
    pub const HW_INDEX: u64 = 1 << 17;
    pub const COUNTERS: u64 = 1 << 19;
}

// Bits of the flags after `read_format`.
const FREQ: u64 = 1 << 10;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;

const TYPE_HARDWARE: u32 = 0;
const TYPE_SOFTWARE: u32 = 1;
const SOFTWARE_CPU_CLOCK: u64 = 0;
const SOFTWARE_TASK_CLOCK: u64 = 1;
const CLOCK_MONOTONIC: i32 = 1;

/// The parts of `perf_event_attr` that decide what records look like and mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventAttributes {
    /// `PERF_TYPE_*`.
    pub kind: u32,
    /// Which event of that type.
    pub config: u64,
    /// Every how many events a sample is taken, or how many samples a second.
    pub period_or_freq: u64,
    /// Whether [`Self::period_or_freq`] is a frequency.
    pub is_freq: bool,
    /// Fields of a sample, bits of [`sample_type`].
    pub sample_type: u64,
    /// Bits of [`read_format`].
    pub read_format: u64,
    /// Whether records other than samples end with a [`SampleId`](crate::SampleId).
    pub has_sample_id_all: bool,
    /// Bits of [`branch_sample_type`].
    pub branch_sample_type: u64,
    /// The user registers of a sample, by the kernel's numbers.
    pub sample_regs_user: u64,
    /// The same for registers at the interrupt.
    pub sample_regs_intr: u64,
    /// The clock of all times; none for perf's own.
    pub clock_id: Option<i32>,
}

impl EventAttributes {
    /// Reads a structure that has as many bytes as are passed: it grew over the years, and what an
    /// old one does not hold is zero.
    pub fn read(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut fields = FieldReader::new(bytes);
        let kind = fields.u32("the event's type")?;
        let _size = fields.u32("the attributes' size")?;
        let config = fields.u64("the event's config")?;
        let period_or_freq = fields.u64("the sample period")?;
        let sample_type = fields.u64("sample_type")?;
        let read_format = fields.u64("read_format")?;
        let flags = fields.u64("the attributes' flags")?;
        // wakeup, breakpoint type, config1, config2.
        let _ = fields.bytes(24, "config2");
        let mut optional = |name| fields.u64(name).unwrap_or(0);
        let branch_sample_type = optional("branch_sample_type");
        let sample_regs_user = optional("sample_regs_user");
        let stack_and_clock = optional("clockid");
        let sample_regs_intr = optional("sample_regs_intr");
        Ok(Self {
            kind,
            config,
            period_or_freq,
            is_freq: flags & FREQ != 0,
            sample_type,
            read_format,
            has_sample_id_all: flags & SAMPLE_ID_ALL != 0,
            branch_sample_type,
            sample_regs_user,
            sample_regs_intr,
            clock_id: (flags & USE_CLOCKID != 0).then_some((stack_and_clock >> 32) as i32),
        })
    }

    /// Whether samples have a field of [`sample_type`].
    #[inline]
    pub fn has(&self, field: u64) -> bool {
        self.sample_type & field != 0
    }

    /// Whether branches are a call stack (`--call-graph lbr`) rather than jumps.
    pub fn has_branch_call_stack(&self) -> bool {
        self.branch_sample_type & branch_sample_type::CALL_STACK != 0
    }

    /// Whether times are of `CLOCK_MONOTONIC`, the clock of jitdumps.
    pub fn is_monotonic(&self) -> bool {
        self.clock_id == Some(CLOCK_MONOTONIC)
    }

    /// Whether a sample says how many events it stands for.
    pub fn has_period(&self) -> bool {
        self.sample_type & crate::sample_type::PERIOD != 0
    }

    /// Samples per second that were asked for; 0 when something else than time is counted.
    pub fn rate_hz(&self) -> u32 {
        if self.is_freq {
            return u32::try_from(self.period_or_freq).unwrap_or(0);
        }
        let is_clock = self.kind == TYPE_SOFTWARE
            && matches!(self.config, SOFTWARE_CPU_CLOCK | SOFTWARE_TASK_CLOCK);
        match is_clock && self.period_or_freq > 0 {
            true => u32::try_from(1_000_000_000 / self.period_or_freq).unwrap_or(0),
            false => 0,
        }
    }

    /// What perf calls the event, where nothing else names it.
    pub fn default_name(&self) -> String {
        let name = match (self.kind, self.config) {
            (TYPE_HARDWARE, 0) => "cycles",
            (TYPE_HARDWARE, 1) => "instructions",
            (TYPE_HARDWARE, 2) => "cache-references",
            (TYPE_HARDWARE, 3) => "cache-misses",
            (TYPE_HARDWARE, 4) => "branches",
            (TYPE_HARDWARE, 5) => "branch-misses",
            (TYPE_HARDWARE, 6) => "bus-cycles",
            (TYPE_HARDWARE, 9) => "ref-cycles",
            (TYPE_SOFTWARE, SOFTWARE_CPU_CLOCK) => "cpu-clock",
            (TYPE_SOFTWARE, SOFTWARE_TASK_CLOCK) => "task-clock",
            (TYPE_SOFTWARE, 2) => "page-faults",
            (TYPE_SOFTWARE, 3) => "context-switches",
            (TYPE_SOFTWARE, 4) => "cpu-migrations",
            (TYPE_SOFTWARE, 5) => "minor-faults",
            (TYPE_SOFTWARE, 6) => "major-faults",
            (TYPE_SOFTWARE, 9) => "dummy",
            (kind, config) => return format!("event {kind}:{config:#x}"),
        };
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_read_field_by_field() {
        let mut bytes = vec![0; 128];
        let mut put = |at: usize, value: u64| {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        put(0, 1 | 128 << 32);
        put(8, SOFTWARE_TASK_CLOCK);
        put(16, 1_000_000);
        put(24, sample_type::IP | sample_type::TIME);
        put(32, read_format::GROUP);
        put(40, SAMPLE_ID_ALL | USE_CLOCKID);
        put(72, branch_sample_type::CALL_STACK);
        put(80, 0xff);
        put(88, 8192 | (CLOCK_MONOTONIC as u64) << 32);
        put(96, 0xf0);
        let attributes = EventAttributes::read(&bytes).unwrap();
        let expected = EventAttributes {
            kind: TYPE_SOFTWARE,
            config: SOFTWARE_TASK_CLOCK,
            period_or_freq: 1_000_000,
            is_freq: false,
            sample_type: sample_type::IP | sample_type::TIME,
            read_format: read_format::GROUP,
            has_sample_id_all: true,
            branch_sample_type: branch_sample_type::CALL_STACK,
            sample_regs_user: 0xff,
            sample_regs_intr: 0xf0,
            clock_id: Some(CLOCK_MONOTONIC),
        };
        assert_eq!(attributes, expected);
        assert_eq!(attributes.rate_hz(), 1000);
        assert_eq!(attributes.default_name(), "task-clock");
        assert!(attributes.is_monotonic() && attributes.has_branch_call_stack());
    }

    #[test]
    fn a_short_structure_is_read_as_far_as_it_goes() {
        let bytes = [1; 48];
        let attributes = EventAttributes::read(&bytes).unwrap();
        assert_eq!(attributes.sample_regs_user, 0);
        let error = EventAttributes::read(&bytes[..47]).unwrap_err();
        assert_eq!(error.at(), 40);
    }

    #[test]
    fn a_frequency_is_the_rate() {
        let attributes = EventAttributes {
            period_or_freq: 999,
            is_freq: true,
            ..EventAttributes::default()
        };
        assert_eq!(attributes.rate_hz(), 999);
        assert_eq!(attributes.default_name(), "cycles");
    }
}
