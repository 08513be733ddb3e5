//! The ring buffer the kernel writes records into.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use nodespy_perf_abi::RawRecord;
use perf_event_open_sys::bindings::perf_event_mmap_page;

use super::perf_event::PerfEvent;
use super::ring_cursor::{RecordRing, RingCursor, RingError};

/// A ring shared with the kernel.
#[derive(Debug)]
pub(crate) struct Ring {
    base: *mut u8,
    data_offset: usize,
    mapped_len: usize,
    cursor: RingCursor,
}

impl Ring {
    /// Maps the ring of `event` with `data_len` bytes for records, a power of two of pages.
    pub(crate) fn map(event: &PerfEvent, data_len: usize) -> io::Result<Self> {
        let page = page_size();
        let mapped_len = data_len + page;
        // SAFETY: a new mapping at an address the kernel chooses; nothing else refers to it.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped_len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            base: base.cast(),
            data_offset: page,
            mapped_len,
            cursor: RingCursor::new(data_len),
        })
    }

    pub(crate) fn data_len(&self) -> usize {
        self.cursor.data_len()
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page is a `perf_event_mmap_page` and `offset` one of its u64 fields,
        // which the kernel and we access atomically; it lives as long as the mapping.
        unsafe { &*self.base.add(offset).cast::<AtomicU64>() }
    }
}

impl RecordRing for Ring {
    fn load_head(&mut self) {
        let head = self
            .position(std::mem::offset_of!(perf_event_mmap_page, data_head))
            .load(Ordering::Acquire);
        self.cursor.set_head(head);
    }

    fn peek(&mut self) -> Result<Option<RawRecord<'_>>, RingError> {
        let (base, offset, data_len) = (self.base, self.data_offset, self.cursor.data_len());
        self.cursor.peek(|start, len| {
            assert!(start + len <= data_len, "inside the data area");
            // SAFETY: the range is inside the data area, which is mapped as long as we live. The
            // kernel does not write between the tail it was given and the head that was loaded,
            // and the cursor asks for nothing else.
            unsafe { std::slice::from_raw_parts(base.add(offset + start), len) }
        })
    }

    /// Also lets the kernel overwrite it.
    fn consume(&mut self) {
        self.cursor.consume();
        self.position(std::mem::offset_of!(perf_event_mmap_page, data_tail))
            .store(self.cursor.tail(), Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `map`; no slice of it outlives `self`.
        unsafe { libc::munmap(self.base.cast(), self.mapped_len) };
    }
}

/// The size of a memory page.
pub(crate) fn page_size() -> usize {
    // SAFETY: the call takes a number and returns one.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}
