//! The ring buffer the kernel writes records into.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::{perf_event_header, perf_event_mmap_page};

use super::perf_event::PerfEvent;

/// A ring shared with the kernel.
#[derive(Debug)]
pub(crate) struct Ring {
    base: *mut u8,
    data_offset: usize,
    data_len: usize,
    mapped_len: usize,
    /// Up to where records have been read.
    tail: u64,
    /// Where a record that wraps around the end is put together.
    scratch: Vec<u8>,
}

/// The kind and flags of a record, and its bytes after the header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) kind: u32,
    pub(crate) misc: u16,
    pub(crate) body: &'a [u8],
}

const HEADER: usize = std::mem::size_of::<perf_event_header>();

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
            data_len,
            mapped_len,
            tail: 0,
            scratch: Vec::new(),
        })
    }

    pub(crate) fn data_len(&self) -> usize {
        self.data_len
    }

    /// Where the kernel has written to so far.
    pub(crate) fn head(&self) -> u64 {
        self.position(std::mem::offset_of!(perf_event_mmap_page, data_head))
            .load(Ordering::Acquire)
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page is a `perf_event_mmap_page` and `offset` one of its u64 fields,
        // which the kernel and we access atomically; it lives as long as the mapping.
        unsafe { &*self.base.add(offset).cast::<AtomicU64>() }
    }

    /// The next record before `end`, or none. The record stays in the ring until [`Self::skip`].
    pub(crate) fn peek(&mut self, end: u64) -> Option<Record<'_>> {
        if end.wrapping_sub(self.tail) < HEADER as u64 {
            return None;
        }
        let header = self.bytes(self.tail, HEADER);
        let header: [u8; HEADER] = header.try_into().expect("the slice has this length");
        let kind = u32::from_ne_bytes(header[0..4].try_into().expect("four bytes"));
        let misc = u16::from_ne_bytes(header[4..6].try_into().expect("two bytes"));
        let size = usize::from(u16::from_ne_bytes(
            header[6..8].try_into().expect("two bytes"),
        ));
        // The kernel never writes a shorter record than its header, nor one past the head; if it
        // did, everything up to the head is given up rather than looped over.
        if size < HEADER || (size as u64) > end - self.tail {
            self.tail = end;
            return None;
        }
        let body = self.bytes(self.tail + HEADER as u64, size - HEADER);
        Some(Record { kind, misc, body })
    }

    /// Moves past the record that [`Self::peek`] returned, whose body had `body_len` bytes.
    pub(crate) fn skip(&mut self, body_len: usize) {
        self.tail += (HEADER + body_len) as u64;
    }

    /// Tells the kernel that everything read so far may be overwritten.
    pub(crate) fn release(&mut self) {
        self.position(std::mem::offset_of!(perf_event_mmap_page, data_tail))
            .store(self.tail, Ordering::Release);
    }

    fn bytes(&mut self, at: u64, len: usize) -> &[u8] {
        let start = (at % self.data_len as u64) as usize;
        let first = len.min(self.data_len - start);
        // SAFETY: `start + first` is inside the data area, which is mapped as long as we live.
        // The kernel does not write between the tail it was told of and its head, and these
        // bytes are there: callers ask only for records before a head they loaded.
        let direct =
            unsafe { std::slice::from_raw_parts(self.base.add(self.data_offset + start), first) };
        if first == len {
            return direct;
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(direct);
        // SAFETY: as above, for the part that wrapped to the start of the data area.
        let wrapped =
            unsafe { std::slice::from_raw_parts(self.base.add(self.data_offset), len - first) };
        self.scratch.extend_from_slice(wrapped);
        &self.scratch
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
