//! `perf_event_attr`: what an event counts and which fields its records have.
//!
//! Layout: include/uapi/linux/perf_event.h, as of Linux 6.18. The structure grew over the years
//! and says its own size; what it does not hold is zero.

use super::fields::Fields;

/// Bits of `sample_type`, in the order of their fields in a sample.
pub(super) mod has {
    pub(in super::super) const IP: u64 = 1 << 0;
    pub(in super::super) const TID: u64 = 1 << 1;
    pub(in super::super) const TIME: u64 = 1 << 2;
    pub(in super::super) const ADDRESS: u64 = 1 << 3;
    pub(in super::super) const READ: u64 = 1 << 4;
    pub(in super::super) const CALLCHAIN: u64 = 1 << 5;
    pub(in super::super) const ID: u64 = 1 << 6;
    pub(in super::super) const CPU: u64 = 1 << 7;
    pub(in super::super) const PERIOD: u64 = 1 << 8;
    pub(in super::super) const STREAM_ID: u64 = 1 << 9;
    pub(in super::super) const RAW: u64 = 1 << 10;
    pub(in super::super) const BRANCH_STACK: u64 = 1 << 11;
    pub(in super::super) const USER_REGISTERS: u64 = 1 << 12;
    pub(in super::super) const USER_STACK: u64 = 1 << 13;
    pub(in super::super) const IDENTIFIER: u64 = 1 << 16;
}

/// Bits of `read_format`.
pub(super) mod reads {
    pub(in super::super) const TIME_ENABLED: u64 = 1 << 0;
    pub(in super::super) const TIME_RUNNING: u64 = 1 << 1;
    pub(in super::super) const ID: u64 = 1 << 2;
    pub(in super::super) const GROUP: u64 = 1 << 3;
    pub(in super::super) const LOST: u64 = 1 << 4;
}

const FREQUENCY: u64 = 1 << 10;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCK: u64 = 1 << 25;
/// Of `branch_sample_type`.
const BRANCH_CALL_STACK: u64 = 1 << 11;
const BRANCH_HARDWARE_INDEX: u64 = 1 << 17;

const TYPE_HARDWARE: u32 = 0;
const TYPE_SOFTWARE: u32 = 1;
const SOFTWARE_CPU_CLOCK: u64 = 0;
const SOFTWARE_TASK_CLOCK: u64 = 1;
const CLOCK_MONOTONIC: i32 = 1;

/// One event of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Attribute {
    kind: u32,
    config: u64,
    period: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    flags: u64,
    branch_type: u64,
    pub(super) user_registers: u64,
    clock: i32,
}

impl Attribute {
    /// Reads a structure that has as many bytes as are passed.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let mut attribute = Self {
            kind: fields.u32()?,
            ..Self::default()
        };
        let _size = fields.u32()?;
        attribute.config = fields.u64()?;
        attribute.period = fields.u64()?;
        attribute.sample_type = fields.u64()?;
        attribute.read_format = fields.u64()?;
        attribute.flags = fields.u64()?;
        let _wakeup_and_breakpoint = fields.u64();
        let _config1 = fields.u64();
        let _config2 = fields.u64();
        attribute.branch_type = fields.u64().unwrap_or(0);
        attribute.user_registers = fields.u64().unwrap_or(0);
        let _user_stack_bytes = fields.u32();
        attribute.clock = fields.u32().unwrap_or(0) as i32;
        Some(attribute)
    }

    pub(super) fn has(&self, field: u64) -> bool {
        self.sample_type & field != 0
    }

    /// Whether records other than samples end with who and when.
    pub(super) fn has_trailers(&self) -> bool {
        self.flags & SAMPLE_ID_ALL != 0
    }

    /// Whether branch records hold a call stack (`--call-graph lbr`) rather than jumps.
    pub(super) fn has_branch_call_stack(&self) -> bool {
        self.branch_type & BRANCH_CALL_STACK != 0
    }

    pub(super) fn has_branch_index(&self) -> bool {
        self.branch_type & BRANCH_HARDWARE_INDEX != 0
    }

    /// Whether times are of the clock that jitdumps use.
    pub(super) fn is_monotonic(&self) -> bool {
        self.flags & USE_CLOCK != 0 && self.clock == CLOCK_MONOTONIC
    }

    /// Samples per second that were asked for; 0 when something else than time was counted.
    pub(super) fn rate_hz(&self) -> u32 {
        if self.flags & FREQUENCY != 0 {
            return u32::try_from(self.period).unwrap_or(0);
        }
        let is_clock = self.kind == TYPE_SOFTWARE
            && matches!(self.config, SOFTWARE_CPU_CLOCK | SOFTWARE_TASK_CLOCK);
        match is_clock && self.period > 0 {
            true => u32::try_from(1_000_000_000 / self.period).unwrap_or(0),
            false => 0,
        }
    }

    /// What perf calls the event, where the file does not say.
    pub(super) fn default_name(&self) -> String {
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

/// Whether an event with this name measures the use of the CPU: `cycles`, `cycles:u`,
/// `cpu-cycles`, `cpu_core/cycles/`, `cpu-clock:HpppP`, `task-clock`.
pub(super) fn is_cpu_event(name: &str) -> bool {
    let name = name.trim_end_matches('/');
    let name = name.rsplit('/').next().unwrap_or(name);
    let base = name.split(':').next().unwrap_or(name);
    matches!(base, "cycles" | "cpu-cycles" | "cpu-clock" | "task-clock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_events_are_known_by_name() {
        for name in ["cycles", "cycles:u", "cpu_core/cycles/", "cpu-clock:HpppP"] {
            assert!(is_cpu_event(name), "{name}");
        }
        for name in ["page-faults", "sched:sched_switch", "instructions"] {
            assert!(!is_cpu_event(name), "{name}");
        }
    }

    #[test]
    fn a_short_structure_is_read_as_far_as_it_goes() {
        let bytes = [1u8; 48];
        assert!(Attribute::read(&bytes).is_some());
        assert!(Attribute::read(&bytes[..47]).is_none());
    }
}
