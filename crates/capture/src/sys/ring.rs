//! The ring buffer the kernel writes records into.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nodespy_perf_abi::{RawRecord, RecordHeader};
use perf_event_open_sys::bindings::perf_event_mmap_page;

use super::perf_event::PerfEvent;
use super::ring_cursor::{RecordRing, RingCursor, RingError};

/// A ring shared with the kernel.
#[derive(Debug)]
pub(crate) struct Ring {
    mapping: Arc<Mapping>,
    cursor: RingCursor,
}

impl Ring {
    /// Maps the ring of `event` with `data_len` bytes for records, a power of two of pages.
    pub(crate) fn map(event: &PerfEvent, data_len: usize) -> io::Result<Self> {
        Ok(Self {
            mapping: Arc::new(Mapping::new(event, data_len)?),
            cursor: RingCursor::new(data_len),
        })
    }

    pub(crate) fn data_len(&self) -> usize {
        self.cursor.data_len()
    }

    /// Whether a quarter of it is unread.
    pub(crate) fn is_filling(&self) -> bool {
        let unread = self.mapping.head().wrapping_sub(self.cursor.tail());
        unread >= self.data_len() as u64 / 4
    }

    /// A second reader of what is written from now on.
    pub(crate) fn view(&self) -> RingView {
        RingView {
            position: self.mapping.head(),
            mapping: Arc::clone(&self.mapping),
        }
    }
}

impl RecordRing for Ring {
    fn load_head(&mut self) {
        self.cursor.set_head(self.mapping.head());
    }

    fn limit_head(&mut self, position: u64) {
        self.cursor.limit_head(position);
    }

    fn peek(&mut self) -> Result<Option<RawRecord<'_>>, RingError> {
        let mapping = &self.mapping;
        self.cursor.peek(|start, len| {
            assert!(start + len <= mapping.data_len, "inside the data area");
            // SAFETY: the range is inside the data area, which is mapped as long as we live. The
            // kernel does not write between the tail it was given and the head that was loaded,
            // and the cursor asks for nothing else.
            unsafe { std::slice::from_raw_parts(mapping.data().add(start), len) }
        })
    }

    /// Also lets the kernel overwrite it.
    fn consume(&mut self) {
        self.cursor.consume();
        self.mapping
            .position(std::mem::offset_of!(perf_event_mmap_page, data_tail))
            .store(self.cursor.tail(), Ordering::Release);
    }
}

/// Sees what is written into a ring, from another thread than the one that consumes it.
#[derive(Debug)]
pub(crate) struct RingView {
    mapping: Arc<Mapping>,
    position: u64,
}

impl RingView {
    /// Up to where records were seen.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Copies the next record; false when there is none.
    pub(crate) fn next(&mut self, record: &mut Vec<u8>) -> bool {
        loop {
            let (start, head) = (self.position, self.mapping.head());
            if start == head {
                return false;
            }
            let copied = self.copy_record(start, head.wrapping_sub(start), record);
            self.position = match copied {
                true => start.wrapping_add(record.len() as u64),
                // Nothing says where the next record starts.
                false => head,
            };
            // What was overwritten meanwhile is not what was there.
            let written = self.mapping.head().wrapping_sub(start);
            if copied && written <= self.mapping.data_len as u64 {
                return true;
            }
        }
    }

    fn copy_record(&self, start: u64, available: u64, record: &mut Vec<u8>) -> bool {
        record.clear();
        if available > self.mapping.data_len as u64 || available < RecordHeader::BYTES as u64 {
            return false;
        }
        self.mapping.copy(start, RecordHeader::BYTES, record);
        let Ok(header) = RecordHeader::read(record) else {
            return false;
        };
        let size = usize::from(header.size);
        if size as u64 > available {
            return false;
        }
        record.clear();
        self.mapping.copy(start, size, record);
        true
    }
}

/// The memory of a ring.
#[derive(Debug)]
struct Mapping {
    base: *mut u8,
    data_offset: usize,
    data_len: usize,
}

// SAFETY: the positions are atomic, and the data is read by [`Ring`], which one thread owns, between its tail and its head,
// and copied by [`RingView`], which checks afterwards that it was not overwritten.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(event: &PerfEvent, data_len: usize) -> io::Result<Self> {
        let data_offset = page_size();
        // SAFETY: a new mapping at an address the kernel chooses; nothing else refers to it.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                data_len + data_offset,
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
            data_offset,
            data_len,
        })
    }

    /// Where the records start.
    fn data(&self) -> *const u8 {
        // SAFETY: the data follows the first page inside the mapping.
        unsafe { self.base.add(self.data_offset) }
    }

    /// Up to where records are written.
    fn head(&self) -> u64 {
        self.position(std::mem::offset_of!(perf_event_mmap_page, data_head))
            .load(Ordering::Acquire)
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page is a `perf_event_mmap_page` and `offset` one of its u64 fields,
        // which the kernel and we access atomically; it lives as long as the mapping.
        unsafe { &*self.base.add(offset).cast::<AtomicU64>() }
    }

    /// Appends bytes of the ring, around its end where they have to.
    fn copy(&self, start: u64, len: usize, to: &mut Vec<u8>) {
        assert!(len <= self.data_len, "no more than the data area has");
        let start = (start % self.data_len as u64) as usize;
        let first = len.min(self.data_len - start);
        to.reserve(len);
        // SAFETY: both ranges are inside the data area, and there is room for them in `to`. The kernel may write there
        // meanwhile, so they are copied as bytes of which any is one, and checked by the caller.
        unsafe {
            let target = to.as_mut_ptr().add(to.len());
            self.data().add(start).copy_to_nonoverlapping(target, first);
            self.data()
                .copy_to_nonoverlapping(target.add(first), len - first);
            to.set_len(to.len() + len);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`; no slice of it outlives `self`.
        unsafe { libc::munmap(self.base.cast(), self.data_offset + self.data_len) };
    }
}

/// The size of a memory page.
pub(crate) fn page_size() -> usize {
    // SAFETY: the call takes a number and returns one.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}
