//! Ctrl-C and SIGTERM, counted rather than obeyed at once.

use std::sync::atomic::{AtomicU32, Ordering};

static INTERRUPTS: AtomicU32 = AtomicU32::new(0);
static TERMINATIONS: AtomicU32 = AtomicU32::new(0);

/// How often the user asked to stop.
#[derive(Debug, Clone, Copy)]
pub struct Interrupts(());

impl Interrupts {
    /// How many times Ctrl-C was pressed or SIGTERM arrived.
    pub fn count(self) -> u32 {
        INTERRUPTS.load(Ordering::Relaxed) + TERMINATIONS.load(Ordering::Relaxed)
    }
}

extern "C" fn count(signal: libc::c_int) {
    let counter = if signal == libc::SIGINT {
        &INTERRUPTS
    } else {
        &TERMINATIONS
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// From now on SIGINT, SIGTERM and SIGHUP are counted instead of ending nodespy.
pub fn catch_interrupts() -> Interrupts {
    catch(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
}

/// The same for a program that is nothing without its terminal: SIGHUP still ends it.
pub fn catch_interrupts_but_hangup() -> Interrupts {
    catch(&[libc::SIGINT, libc::SIGTERM])
}

fn catch(signals: &[libc::c_int]) -> Interrupts {
    for &signal in signals {
        // SAFETY: the handler only adds to an atomic, which is safe in a signal handler; the
        // zeroed structure is a valid `sigaction` with an empty mask and no SA_RESTART, so that
        // waits end at once.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = count as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
    Interrupts(())
}
