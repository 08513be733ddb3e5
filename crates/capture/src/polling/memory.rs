//! The memory of a process, every byte of which it may have chosen.

use nodespy_model::printable;

use crate::sys::memory::{read_process_memories, read_process_memory};

/// How much is read of a path or a name.
const TEXT_BYTES: usize = 256;

/// What is read of a process's memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    pub(super) pid: u32,
}

impl Memory {
    pub(super) fn read<const BYTES: usize>(self, address: u64) -> Option<[u8; BYTES]> {
        let mut bytes = [0; BYTES];
        (read_process_memory(self.pid, address, &mut bytes) == BYTES).then_some(bytes)
    }

    /// What is in two places, of one moment.
    pub(super) fn read_both<const FIRST: usize, const SECOND: usize>(
        self,
        first_at: u64,
        second_at: u64,
    ) -> Option<([u8; FIRST], [u8; SECOND])> {
        let (mut first, mut second) = ([0; FIRST], [0; SECOND]);
        let places = [(first_at, &mut first[..]), (second_at, &mut second[..])];
        let read = read_process_memories(self.pid, places);
        (read == FIRST + SECOND).then_some((first, second))
    }

    /// At most so many bytes, or as many as are mapped.
    pub(super) fn read_up_to(self, address: u64, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        let length = read_process_memory(self.pid, address, &mut read);
        read.truncate(length);
        read
    }

    pub(super) fn u32(self, address: u64) -> Option<u32> {
        self.read(address).map(u32::from_le_bytes)
    }

    pub(super) fn u64(self, address: u64) -> Option<u64> {
        self.read(address).map(u64::from_le_bytes)
    }

    /// A text that ends with a zero, or is cut.
    pub(super) fn text(self, address: u64) -> Option<String> {
        let bytes = self.read_up_to(address, TEXT_BYTES);
        let text = bytes.split(|byte| *byte == 0).next()?;
        Some(printable(&String::from_utf8_lossy(text)).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_places_are_read_at_once_or_not_at_all() {
        let (one, other) = ([1u8, 2, 3], [4u8; 5]);
        let own = Memory {
            pid: std::process::id(),
        };
        let [at, also_at] = [one.as_ptr() as u64, other.as_ptr() as u64];
        assert_eq!(own.read_both(at, also_at), Some((one, other)));
        assert_eq!(own.read_both::<3, 5>(at, 0), None);
        assert_eq!(own.read_both::<3, 5>(0, at), None);
    }
}
