//! Record headers: type, misc flags, size.

use crate::error::RecordError;
use crate::field_reader::FieldReader;

/// Values of [`RecordHeader::kind`]: `PERF_RECORD_*`.
#[allow(missing_docs)]
pub mod record_type {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const THROTTLE: u32 = 5;
    pub const UNTHROTTLE: u32 = 6;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const LOST_SAMPLES: u32 = 13;
    pub const SWITCH: u32 = 14;
    pub const SWITCH_CPU_WIDE: u32 = 15;
    pub const CALLCHAIN_DEFERRED: u32 = 22;

    // What perf itself adds in a perf.data (tools/lib/perf/include/perf/event.h).
    pub const HEADER_ATTR: u32 = 64;
    pub const HEADER_TRACING_DATA: u32 = 66;
    pub const HEADER_BUILD_ID: u32 = 67;
    pub const FINISHED_ROUND: u32 = 68;
    pub const AUXTRACE: u32 = 71;
    pub const EVENT_UPDATE: u32 = 78;
    pub const HEADER_FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    /// The same with the length of the content first, of perf 6.16.
    pub const COMPRESSED2: u32 = 83;
}

/// Bits of [`RecordHeader::misc`]: `PERF_RECORD_MISC_*`. A bit means what the record's type says.
pub mod misc {
    /// The bits of [`CpuMode`](super::CpuMode).
    pub const CPUMODE_MASK: u16 = 7;
    /// The CPU ran the kernel.
    pub const KERNEL: u16 = 1;
    /// The CPU ran a process.
    pub const USER: u16 = 2;
    /// Of MMAP: a mapping that is not executable.
    pub const MMAP_DATA: u16 = 1 << 13;
    /// Of COMM: the name comes from an `exec`.
    pub const COMM_EXEC: u16 = 1 << 13;
    /// Of SWITCH: the thread left the CPU.
    pub const SWITCH_OUT: u16 = 1 << 13;
    /// Of SWITCH: it was still runnable.
    pub const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
    /// Of MMAP2: a build-id stands where device and inode would.
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
    /// Of perf's build-id records: the byte after the id says how long it is.
    pub const BUILD_ID_SIZE: u16 = 1 << 15;
}

/// What the CPU ran when a record was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CpuMode {
    /// The kernel.
    Kernel,
    /// A process.
    User,
    /// A hypervisor, a guest, or not known.
    #[default]
    Other,
}

impl CpuMode {
    /// From the misc flags of a record.
    #[inline]
    pub fn of(flags: u16) -> Self {
        match flags & misc::CPUMODE_MASK {
            misc::KERNEL => Self::Kernel,
            misc::USER => Self::User,
            _ => Self::Other,
        }
    }
}

/// `perf_event_header`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// One of [`record_type`].
    pub kind: u32,
    /// Bits of [`misc`].
    pub misc: u16,
    /// Bytes of the whole record; at least [`Self::BYTES`].
    pub size: u16,
}

impl RecordHeader {
    /// How long a header is.
    pub const BYTES: usize = 8;

    /// Reads the header that `bytes` start with.
    #[inline]
    pub fn read(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut fields = FieldReader::new(bytes);
        let word = fields.u64("the record's header")?;
        let header = Self {
            kind: word as u32,
            misc: (word >> 32) as u16,
            size: (word >> 48) as u16,
        };
        match usize::from(header.size) < Self::BYTES {
            true => Err(RecordError::Size {
                at: 6,
                size: header.size,
            }),
            false => Ok(header),
        }
    }

    /// Bytes after the header.
    #[inline]
    pub fn body_len(&self) -> usize {
        usize::from(self.size) - Self::BYTES
    }
}

/// A record as it lies in a ring or a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// One of [`record_type`].
    pub kind: u32,
    /// Bits of [`misc`].
    pub misc: u16,
    /// What follows the header.
    pub body: &'a [u8],
}

impl<'a> RawRecord<'a> {
    /// The record that `bytes` start with.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let header = RecordHeader::read(bytes)?;
        let mut fields = FieldReader::new(bytes);
        fields.bytes(RecordHeader::BYTES, "the record's header")?;
        Ok(Self {
            kind: header.kind,
            misc: header.misc,
            body: fields.bytes(header.body_len(), "the record's body")?,
        })
    }

    /// Fields of the body, with offsets that count from the header.
    #[inline]
    pub(crate) fn fields(&self) -> FieldReader<'a> {
        FieldReader::starting_at(RecordHeader::BYTES, self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_type_misc_and_size() {
        let bytes = [9, 0, 0, 0, 2, 0, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 99];
        let record = RawRecord::read(&bytes).unwrap();
        assert_eq!((record.kind, record.misc), (record_type::SAMPLE, 2));
        assert_eq!(record.body, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(CpuMode::of(record.misc), CpuMode::User);
    }

    #[test]
    fn a_size_below_the_header_is_an_error_with_its_offset() {
        for size in 0..8 {
            let bytes = [9, 0, 0, 0, 0, 0, size, 0];
            let error = RecordHeader::read(&bytes).unwrap_err();
            assert_eq!(error.at(), 6);
            assert_eq!(
                error.to_string(),
                format!("byte 6: the record claims to have {size} bytes")
            );
        }
    }

    #[test]
    fn a_size_past_the_end_is_an_error_with_its_offset() {
        let bytes = [9, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let error = RawRecord::read(&bytes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "byte 8: the record's body needs 9 bytes, 8 are left"
        );
        for length in 0..8 {
            assert_eq!(RawRecord::read(&bytes[..length]).unwrap_err().at(), 0);
        }
    }

    #[test]
    fn the_cpu_mode_ignores_other_flags() {
        assert_eq!(CpuMode::of(misc::KERNEL | 1 << 14), CpuMode::Kernel);
        // A hypervisor and both kinds of guest.
        for mode in [0, 3, 4, 5] {
            assert_eq!(CpuMode::of(mode), CpuMode::Other);
        }
    }
}
