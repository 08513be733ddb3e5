//! Going first on a busy machine.

/// What a thread that reads samples gets: enough to be woken at once beside threads that compute.
const NICE: libc::c_int = -10;

/// The calling thread runs before others until this is dropped.
#[derive(Debug)]
pub struct Priority {
    before: libc::c_int,
}

impl Priority {
    /// Raises the priority of the calling thread; none where that is not permitted, or where nodespy
    /// was started under `nice`.
    ///
    /// Samples are named by what is in the memory of the process when they are read. On a machine whose
    /// CPUs are all busy a thread of ordinary priority waits for its turn, and meanwhile the process goes on,
    /// or ends.
    pub fn raise() -> Option<Self> {
        let before = nice();
        (before == 0 && set_nice(NICE)).then_some(Self { before })
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        set_nice(self.before);
    }
}

fn nice() -> libc::c_int {
    // SAFETY: the call takes two integers; zero is the calling thread.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

fn set_nice(value: libc::c_int) -> bool {
    // SAFETY: the call takes three integers; zero is the calling thread. Refusal changes nothing.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) == 0 }
}

/// Has the calling thread run on this CPU only.
pub(crate) fn pin_to(cpu: u32) -> bool {
    // SAFETY: a set of CPUs is plain bits, of which all may be zero.
    let mut cpus: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if cpu as usize >= 8 * size_of::<libc::cpu_set_t>() {
        return false;
    }
    // SAFETY: the set is valid and the CPU inside it; zero is the calling thread.
    unsafe {
        libc::CPU_SET(cpu as usize, &mut cpus);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const cpus) == 0
    }
}

/// Whether the calling thread goes before all that are not of a real-time class (the lowest of them), or as others do.
pub(crate) fn set_real_time(is_real_time: bool) -> bool {
    let (policy, sched_priority) = match is_real_time {
        true => (libc::SCHED_FIFO, 1),
        false => (libc::SCHED_OTHER, 0),
    };
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: the parameters live through the call; zero is the calling thread. Refusal changes nothing.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_goes_first_for_a_while_and_others_are_as_they_were() {
        // A thread of its own, because what it is lowered to can't always be taken back.
        let thread = std::thread::spawn(|| {
            let Some(raised) = Priority::raise() else {
                return; // not permitted, or this test runs under `nice`
            };
            assert_eq!(nice(), NICE);
            assert_eq!(std::thread::spawn(nice).join().unwrap(), NICE);
            assert!(Priority::raise().is_none());
            drop(raised);
            assert_eq!(nice(), 0);
            assert!(set_nice(5));
            assert!(
                Priority::raise().is_none(),
                "a nice value that was chosen stays"
            );
            assert_eq!(nice(), 5);
        });
        thread.join().unwrap();
    }
}
