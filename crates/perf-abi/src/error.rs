//! Why a record can't be decoded, and where in it.

/// Why a record can't be decoded. Offsets count from the start of the record, header included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A field is longer than what is left of the record.
    #[error("byte {at}: {field} needs {needed} bytes, {left} are left")]
    Short {
        /// Where the field starts.
        at: usize,
        /// The field.
        field: &'static str,
        /// What the field needs; a count that overflows is `u64::MAX`.
        needed: u64,
        /// What the record still has.
        left: usize,
    },
    /// The header claims a size that can't be.
    #[error("byte {at}: the record claims to have {size} bytes")]
    Size {
        /// Where the size is.
        at: usize,
        /// What it claims.
        size: u16,
    },
    /// A build-id is longer than its field.
    #[error("byte {at}: the build-id claims to have {length} bytes")]
    BuildId {
        /// Where the length is.
        at: usize,
        /// What it claims.
        length: u8,
    },
}

impl RecordError {
    /// The offset of the field that can't be decoded.
    pub fn at(&self) -> usize {
        match *self {
            Self::Short { at, .. } | Self::Size { at, .. } | Self::BuildId { at, .. } => at,
        }
    }
}
