//! perf's records, decoded once for the kernel's rings and for `perf.data` files.
//!
//! A [`RawRecord`] is a header and a body; the [`RecordLayout`] of its event turns the body into a
//! [`Sample`] or a [`Sideband`] record that borrows from the bytes. Layouts follow
//! include/uapi/linux/perf_event.h of Linux 6.18, little-endian. Every length is checked: a record
//! that lies is a [`RecordError`] with its offset. Deliberately absent: input, output, names,
//! other machines than [`x86_64`].

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod attributes;
mod callchain;
mod error;
mod field_reader;
mod layout;
mod record;
mod sample;
mod sideband;
#[cfg(test)]
mod testing;
mod tracepoint;
pub mod x86_64;

pub use attributes::{EventAttributes, branch_sample_type, read_format, sample_type};
pub use callchain::{Addresses, context};
pub use error::RecordError;
pub use field_reader::{FieldReader, u64_at, until_nul};
pub use layout::{RecordLayout, SampleId};
pub use record::{CpuMode, RawRecord, RecordHeader, misc, record_type};
pub use sample::{Branch, Sample, SampledRegisters, Words};
pub use sideband::{Comm, DeferredCallchain, FileId, Mmap, Sideband, Task};
pub use tracepoint::{FieldValue, TracepointField, TracepointFormat};
