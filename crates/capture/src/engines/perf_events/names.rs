//! Perf's names of software, hardware and cache events.

use perf_event_open_sys::bindings;

/// Which rights an event needs and what it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Time on a CPU.
    Clock,
    /// Happens while the program runs, so that its owner can sample it.
    Faults,
    /// Happens inside the kernel: with `exclude_kernel` it opens and never fires.
    KernelOnly,
    /// Counted by the processor.
    Hardware,
}

/// An event that has a number of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: &'static str,
    pub(super) alias: &'static str,
    /// `PERF_TYPE_*`.
    pub(super) kind: u32,
    pub(super) config: u64,
    pub(super) class: Class,
    /// How many occurrences make a sample; by rate when absent. Faults come by the ten thousand a
    /// second, migrations don't.
    pub(super) period: Option<u64>,
}

const fn software(
    name: &'static str,
    alias: &'static str,
    config: u32,
    class: Class,
    period: Option<u64>,
) -> Named {
    Named {
        name,
        alias,
        kind: bindings::PERF_TYPE_SOFTWARE,
        config: config as u64,
        class,
        period,
    }
}

const fn hardware(name: &'static str, alias: &'static str, config: u32) -> Named {
    Named {
        name,
        alias,
        kind: bindings::PERF_TYPE_HARDWARE,
        config: config as u64,
        class: Class::Hardware,
        period: None,
    }
}

/// `PERF_COUNT_SW_CGROUP_SWITCHES` (Linux 5.13).
const CGROUP_SWITCHES: u32 = 11;

/// Every event with a fixed name, but for those of caches.
#[rustfmt::skip]
pub(super) const NAMED: &[Named] = &[
    software("cpu-clock", "", bindings::PERF_COUNT_SW_CPU_CLOCK, Class::Clock, None),
    software("task-clock", "", bindings::PERF_COUNT_SW_TASK_CLOCK, Class::Clock, None),
    software("page-faults", "faults", bindings::PERF_COUNT_SW_PAGE_FAULTS, Class::Faults, Some(100)),
    software("minor-faults", "", bindings::PERF_COUNT_SW_PAGE_FAULTS_MIN, Class::Faults, Some(100)),
    software("major-faults", "", bindings::PERF_COUNT_SW_PAGE_FAULTS_MAJ, Class::Faults, Some(1)),
    software("alignment-faults", "", bindings::PERF_COUNT_SW_ALIGNMENT_FAULTS, Class::Faults, Some(1)),
    software("emulation-faults", "", bindings::PERF_COUNT_SW_EMULATION_FAULTS, Class::Faults, Some(1)),
    software("context-switches", "cs", bindings::PERF_COUNT_SW_CONTEXT_SWITCHES, Class::KernelOnly, Some(10)),
    software("cpu-migrations", "migrations", bindings::PERF_COUNT_SW_CPU_MIGRATIONS, Class::KernelOnly, Some(1)),
    software("cgroup-switches", "", CGROUP_SWITCHES, Class::KernelOnly, Some(1)),
    hardware("cycles", "cpu-cycles", bindings::PERF_COUNT_HW_CPU_CYCLES),
    hardware("instructions", "", bindings::PERF_COUNT_HW_INSTRUCTIONS),
    hardware("cache-references", "", bindings::PERF_COUNT_HW_CACHE_REFERENCES),
    hardware("cache-misses", "", bindings::PERF_COUNT_HW_CACHE_MISSES),
    hardware("branches", "branch-instructions", bindings::PERF_COUNT_HW_BRANCH_INSTRUCTIONS),
    hardware("branch-misses", "", bindings::PERF_COUNT_HW_BRANCH_MISSES),
    hardware("bus-cycles", "", bindings::PERF_COUNT_HW_BUS_CYCLES),
    hardware("stalled-cycles-frontend", "idle-cycles-frontend", bindings::PERF_COUNT_HW_STALLED_CYCLES_FRONTEND),
    hardware("stalled-cycles-backend", "idle-cycles-backend", bindings::PERF_COUNT_HW_STALLED_CYCLES_BACKEND),
    hardware("ref-cycles", "", bindings::PERF_COUNT_HW_REF_CPU_CYCLES),
];

/// The caches, in the kernel's order.
pub(super) const CACHES: [&str; 7] = [
    "L1-dcache",
    "L1-icache",
    "LLC",
    "dTLB",
    "iTLB",
    "branch",
    "node",
];
/// Operation and result, as `PERF_COUNT_HW_CACHE` numbers them.
const ACCESSES: [(&str, u64); 6] = [
    ("loads", 0),
    ("stores", 1),
    ("prefetches", 2),
    ("load-misses", 1 << 8),
    ("store-misses", 1 << 8 | 1),
    ("prefetch-misses", 1 << 8 | 2),
];

/// The event that perf calls so.
pub(super) fn find(name: &str) -> Option<Named> {
    let is_it = |named: &&Named| named.name == name || (!name.is_empty() && named.alias == name);
    NAMED
        .iter()
        .find(is_it)
        .copied()
        .or_else(|| find_cache(name))
        .or_else(|| find_raw(name))
}

/// `LLC-load-misses`.
fn find_cache(name: &str) -> Option<Named> {
    let (number, access) = CACHES.iter().enumerate().find_map(|(number, cache)| {
        let access = name.strip_prefix(cache)?.strip_prefix('-')?;
        Some((number as u64, access))
    })?;
    let (_, access) = ACCESSES.iter().find(|(known, _)| *known == access)?;
    Some(Named {
        name: "",
        alias: "",
        kind: bindings::PERF_TYPE_HW_CACHE,
        config: number | access << 8,
        class: Class::Hardware,
        period: None,
    })
}

/// `r1a8`: an event of the processor by its number.
fn find_raw(name: &str) -> Option<Named> {
    let config = u64::from_str_radix(name.strip_prefix('r')?, 16).ok()?;
    Some(Named {
        name: "",
        alias: "",
        kind: bindings::PERF_TYPE_RAW,
        config,
        class: Class::Hardware,
        period: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_perf() {
        assert_eq!(find("faults"), find("page-faults"));
        assert_eq!(find("cs").unwrap().config, 3);
        let misses = find("LLC-load-misses").unwrap();
        assert_eq!((misses.kind, misses.config), (3, 0x1_0002));
        let raw = find("r1a8").unwrap();
        assert_eq!((raw.kind, raw.config), (4, 0x1a8));
        for unknown in ["", "LLC", "LLC-", "LLC-loadz", "page_faults", "rat"] {
            assert_eq!(find(unknown), None, "{unknown}");
        }
    }
}
