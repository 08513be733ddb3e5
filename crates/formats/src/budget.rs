//! What one input may cost: a budget that follows from its size as it is stored.
//!
//! Packed bytes can hold packed bytes, which can hold tables whose rows take more memory than they
//! take in the file. Each step alone looks harmless, so all of them draw from one budget.

use crate::import::ImportError;

/// An input may unpack to this many times as much as is stored, or to [`SMALL_BYTES`]. Text of
/// stacks packs to a fiftieth; a bomb to a thousandth.
const EXPANSION: u64 = 200;
const SMALL_BYTES: u64 = 128 << 20;
/// A stored byte may hold this many rows of tables, or the whole input [`SMALL_ITEMS`]. The times
/// of samples are noise, so that even a recording of one idle stack needs a byte for two.
const ITEMS_PER_BYTE: u64 = 16;
const SMALL_ITEMS: u64 = 4 << 20;
/// What counts as one item: larger rows are several.
const ITEM_BYTES: usize = 32;

/// How much a decoder may take in before it gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the input as it is stored.
    pub input_bytes: u64,
    /// Bytes of compressed input once unpacked. A row of a table takes up to eight times as much
    /// memory as its unpacked bytes.
    pub unpacked_bytes: u64,
    /// Bytes of one line of a text format.
    pub line_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            input_bytes: 64 << 30,
            unpacked_bytes: 8 << 30,
            line_bytes: 16 << 20,
        }
    }
}

/// What is left of what one input may cost. Parts of an input share its budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Budget {
    stored_bytes: u64,
    limit_bytes: u64,
    bytes_left: u64,
    limit_items: u64,
    items_left: u64,
}

impl Budget {
    /// The budget of an input of which `stored_bytes` are stored.
    pub(crate) fn of(stored_bytes: u64) -> Self {
        let limit_bytes = stored_bytes.saturating_mul(EXPANSION).max(SMALL_BYTES);
        let limit_items = stored_bytes.saturating_mul(ITEMS_PER_BYTE).max(SMALL_ITEMS);
        Self {
            stored_bytes,
            limit_bytes,
            bytes_left: limit_bytes,
            limit_items,
            items_left: limit_items,
        }
    }

    /// The same within the limits that hold for every input.
    pub(crate) fn within(mut self, limits: &Limits) -> Self {
        let drawn = self.limit_bytes - self.bytes_left;
        self.limit_bytes = self.limit_bytes.min(limits.unpacked_bytes);
        self.bytes_left = self.limit_bytes.saturating_sub(drawn);
        self
    }

    /// How many bytes may still be unpacked.
    pub(crate) fn bytes_left(&self) -> u64 {
        self.bytes_left
    }

    /// Pays for bytes that are unpacked, or are about to be.
    pub(crate) fn draw_bytes(&mut self, bytes: u64) -> Result<(), ImportError> {
        self.bytes_left = self
            .bytes_left
            .checked_sub(bytes)
            .ok_or_else(|| self.too_large())?;
        Ok(())
    }

    /// Pays for `rows` rows of a table that holds values of `T`.
    pub(crate) fn draw_rows<T>(&mut self, rows: usize) -> Result<(), ImportError> {
        let items = (rows as u64).saturating_mul(size_of::<T>().div_ceil(ITEM_BYTES) as u64);
        self.items_left = self
            .items_left
            .checked_sub(items)
            .ok_or(ImportError::TooManyRows {
                limit_rows: self.limit_items,
                stored_bytes: self.stored_bytes,
            })?;
        Ok(())
    }

    /// What is said when there are no bytes left.
    pub(crate) fn too_large(&self) -> ImportError {
        ImportError::TooLarge {
            limit_bytes: self.limit_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_is_gone_and_more_than_is_left_is_refused_with_the_limit() {
        let mut budget = Budget::of(1000);
        budget.draw_bytes(SMALL_BYTES - 10).unwrap();
        assert_eq!(budget.bytes_left(), 10);
        let error = budget.draw_bytes(11).unwrap_err();
        assert!(
            matches!(error, ImportError::TooLarge { limit_bytes } if limit_bytes == SMALL_BYTES)
        );
        budget
            .draw_rows::<[u8; 33]>(SMALL_ITEMS as usize / 2)
            .unwrap();
        let error = budget.draw_rows::<u8>(1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "its tables hold more than 4194304 rows, which is as many as are read of 1000 bytes"
        );
    }

    #[test]
    fn limits_for_every_input_count_what_was_drawn_before() {
        let mut budget = Budget::of(1 << 40);
        budget.draw_bytes(600).unwrap();
        let limits = Limits {
            unpacked_bytes: 1000,
            ..Limits::default()
        };
        assert_eq!(budget.within(&limits).bytes_left(), 400);
    }
}
