//! Clocks: the monotonic one that samples carry, and a process's own CPU time.

use nodespy_model::Nanoseconds;

/// Now, on the clock that samples carry.
pub fn monotonic_now() -> Nanoseconds {
    read(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// Now, in nanoseconds since 1970.
pub fn unix_now() -> Nanoseconds {
    read(libc::CLOCK_REALTIME).unwrap_or(0)
}

/// The time since the machine was started, sleep included.
fn since_boot() -> Nanoseconds {
    read(libc::CLOCK_BOOTTIME).unwrap_or(0)
}

/// A clock tick of `/proc`, which is the same on every x86-64 Linux.
pub(crate) const TICK: Nanoseconds = 10_000_000;

/// So many ticks after the machine was started, on the clock that says `now`.
pub(crate) fn ticks_after_boot(ticks: u64, now: Nanoseconds) -> Nanoseconds {
    let after_boot = ticks.saturating_mul(TICK);
    now.saturating_sub(since_boot().saturating_sub(after_boot))
}

/// CPU time process `pid` has used; none when it is gone.
pub fn process_cpu_time(pid: u32) -> Option<Nanoseconds> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is a valid place for the answer.
    let result = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) };
    if result != 0 {
        return None;
    }
    read(clock)
}

fn read(clock: libc::clockid_t) -> Option<Nanoseconds> {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid place for the answer.
    let result = unsafe { libc::clock_gettime(clock, &mut now) };
    (result == 0).then(|| now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}
