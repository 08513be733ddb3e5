//! Signals that end a recording or ask for what it has, counted rather than obeyed at once.

use std::sync::atomic::{AtomicU32, Ordering};

static INTERRUPTS: AtomicU32 = AtomicU32::new(0);
static TERMINATIONS: AtomicU32 = AtomicU32::new(0);
static TRIGGERS: AtomicU32 = AtomicU32::new(0);

/// What the user asked for with signals.
#[derive(Debug, Clone, Copy)]
pub struct Interrupts(());

impl Interrupts {
    /// Whether what goes on is to end: SIGINT, SIGTERM or SIGHUP arrived.
    pub fn is_stop_requested(self) -> bool {
        INTERRUPTS.load(Ordering::Relaxed) + TERMINATIONS.load(Ordering::Relaxed) > 0
    }

    /// Whether the result is to be thrown away: Ctrl-C was pressed twice. SIGTERM and SIGHUP never
    /// ask for that: a closed terminal sends several of them.
    pub fn is_discard_requested(self) -> bool {
        INTERRUPTS.load(Ordering::Relaxed) > 1
    }
}

extern "C" fn count(signal: libc::c_int) {
    let counter = match signal {
        libc::SIGINT => &INTERRUPTS,
        libc::SIGUSR2 => &TRIGGERS,
        _ => &TERMINATIONS,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// From now on SIGINT, SIGTERM and SIGHUP are counted instead of ending nodespy. SIGHUP stays
/// ignored where it is: `nohup` asked for that.
pub fn catch_interrupts() -> Interrupts {
    if !is_ignored(libc::SIGHUP) {
        catch(libc::SIGHUP);
    }
    catch_interrupts_but_hangup()
}

/// The same for a program that is nothing without its terminal: SIGHUP still ends it.
pub fn catch_interrupts_but_hangup() -> Interrupts {
    catch(libc::SIGINT);
    catch(libc::SIGTERM);
    Interrupts(())
}

/// SIGUSR2, with which the user asks for what was recorded lately.
#[derive(Debug, Clone, Copy)]
pub struct TriggerSignal(());

impl TriggerSignal {
    /// From now on SIGUSR2 is counted instead of ending nodespy.
    pub fn catch() -> Self {
        catch(libc::SIGUSR2);
        Self(())
    }

    /// Whether it arrived since the last call.
    pub fn take(self) -> bool {
        TRIGGERS.swap(0, Ordering::Relaxed) > 0
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: a zeroed `sigaction` is valid, and without a new action the call only fills it in.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

fn catch(signal: libc::c_int) {
    // SAFETY: the handler only adds to an atomic, which is safe in a signal handler; the zeroed
    // structure is a valid `sigaction` with an empty mask and no SA_RESTART, so that waits end at
    // once.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}
