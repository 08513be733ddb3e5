//! A bit for each pid, in the memory of a map that an eBPF program reads.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

const WORD_BITS: u32 = 64;

/// The bits, shared with the program: changing one is no system call, and needs no capability once they are mapped.
#[derive(Debug)]
pub(crate) struct PidBits {
    base: *mut AtomicU64,
    words: usize,
}

impl PidBits {
    /// How many words have a bit for each pid below `pids`.
    pub(crate) fn words_for(pids: u32) -> u32 {
        pids.div_ceil(WORD_BITS)
    }

    /// Maps an array map of so many words (`BPF_F_MMAPABLE`).
    pub(crate) fn map(map: BorrowedFd<'_>, words: u32) -> io::Result<Self> {
        let words = words as usize;
        // SAFETY: a new mapping at an address the kernel chooses; nothing else refers to it.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                words * size_of::<u64>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            base: base.cast(),
            words,
        })
    }

    /// Sets the bit of a pid; one that there is no bit for is left out.
    pub(crate) fn set(&self, pid: u32) {
        if let Some((word, bit)) = self.place_of(pid) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub(crate) fn clear(&self, pid: u32) {
        if let Some((word, bit)) = self.place_of(pid) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    fn place_of(&self, pid: u32) -> Option<(&AtomicU64, u64)> {
        let at = (pid / WORD_BITS) as usize;
        // SAFETY: `at` is one of the mapped words, which live as long as `self` and are accessed atomically.
        let word = (at < self.words).then(|| unsafe { &*self.base.add(at) });
        word.map(|word| (word, 1 << (pid % WORD_BITS)))
    }
}

impl Drop for PidBits {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `map`; no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.cast(), self.words * size_of::<u64>()) };
    }
}
