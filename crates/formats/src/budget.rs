//! What one input may cost: a budget that follows from its size as it is stored.
//!
//! Packed bytes can hold packed bytes, which can hold tables whose rows take more memory than they
//! take in the file; short rows can name long texts. Each step alone looks harmless, so all of them
//! draw from one budget: bytes that are unpacked, rows, bytes of names, and time.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use nodespy_model::ProfileBuilder;

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
/// Reading may take this long, and longer by [`TIME_PER_MIB`] for each stored MiB: hundreds of times
/// what a busy machine needs. What takes longer would take forever.
const SMALL_TIME: Duration = Duration::from_secs(120);
const TIME_PER_MIB: Duration = Duration::from_secs(10);
/// How many rows a [`Meter`] lets pass between two checks of the budget.
const ROWS_AT_ONCE: usize = 1024;

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
    /// Rows of its tables, whatever a format calls them.
    pub rows: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            input_bytes: 64 << 30,
            unpacked_bytes: 8 << 30,
            line_bytes: 16 << 20,
            rows: u64::MAX,
        }
    }
}

/// What an input has more of than is read of one of its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Excess {
    /// Rows of tables, whatever the format calls them.
    #[error(
        "its tables hold more than {limit} rows, which is as many as are read of {stored_bytes} bytes"
    )]
    Rows {
        /// The limit.
        limit: u64,
        /// How many bytes the input has as it is stored.
        stored_bytes: u64,
    },
    /// Names, files and labels.
    #[error(
        "its names take more than {limit_bytes} bytes, which is as much as is read of {stored_bytes} bytes"
    )]
    Names {
        /// The limit.
        limit_bytes: u64,
        /// How many bytes the input has as it is stored.
        stored_bytes: u64,
    },
    /// Time to read it.
    #[error(
        "reading takes longer than {limit_seconds} seconds, which is as long as {stored_bytes} bytes may take"
    )]
    Time {
        /// The limit.
        limit_seconds: u64,
        /// How many bytes the input has as it is stored.
        stored_bytes: u64,
    },
}

/// What is left of what one input may cost. Parts of an input share its budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Budget {
    stored_bytes: u64,
    limit_bytes: u64,
    bytes_left: u64,
    limit_items: u64,
    items_left: u64,
    limit_name_bytes: u64,
    name_bytes_left: u64,
    limit_time: Duration,
    started: Instant,
}

impl Budget {
    /// The budget of an input of which `stored_bytes` are stored. Its time runs from now on.
    pub(crate) fn of(stored_bytes: u64) -> Self {
        let limit_bytes = stored_bytes.saturating_mul(EXPANSION).max(SMALL_BYTES);
        let limit_items = stored_bytes.saturating_mul(ITEMS_PER_BYTE).max(SMALL_ITEMS);
        let mib = u32::try_from(stored_bytes >> 20).unwrap_or(u32::MAX);
        Self {
            stored_bytes,
            limit_bytes,
            bytes_left: limit_bytes,
            limit_items,
            items_left: limit_items,
            limit_name_bytes: limit_bytes,
            name_bytes_left: limit_bytes,
            limit_time: SMALL_TIME.saturating_add(TIME_PER_MIB.saturating_mul(mib)),
            started: Instant::now(),
        }
    }

    /// The same within the limits that hold for every input.
    pub(crate) fn within(mut self, limits: &Limits) -> Self {
        let narrow = |limit: &mut u64, left: &mut u64, most: u64| {
            let drawn = *limit - *left;
            *limit = most.min(*limit);
            *left = limit.saturating_sub(drawn);
        };
        let bytes = limits.unpacked_bytes;
        narrow(&mut self.limit_bytes, &mut self.bytes_left, bytes);
        narrow(&mut self.limit_name_bytes, &mut self.name_bytes_left, bytes);
        narrow(&mut self.limit_items, &mut self.items_left, limits.rows);
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

    /// Pays for `rows` rows of a table that holds values of `T`, if there is time left for them.
    pub(crate) fn draw_rows<T>(&mut self, rows: usize) -> Result<(), Excess> {
        let items = (rows as u64).saturating_mul(size_of::<T>().div_ceil(ITEM_BYTES) as u64);
        let left = self.items_left.checked_sub(items);
        self.items_left = left.ok_or(Excess::Rows {
            limit: self.limit_items,
            stored_bytes: self.stored_bytes,
        })?;
        self.check_time()
    }

    /// Pays for names that are copied.
    pub(crate) fn draw_names(&mut self, bytes: usize) -> Result<(), Excess> {
        let left = self.name_bytes_left.checked_sub(bytes as u64);
        self.name_bytes_left = left.ok_or(Excess::Names {
            limit_bytes: self.limit_name_bytes,
            stored_bytes: self.stored_bytes,
        })?;
        Ok(())
    }

    /// Whether there is time left.
    fn check_time(&self) -> Result<(), Excess> {
        match self.started.elapsed() > self.limit_time {
            true => Err(Excess::Time {
                limit_seconds: self.limit_time.as_secs(),
                stored_bytes: self.stored_bytes,
            }),
            false => Ok(()),
        }
    }

    /// What is said when there are no bytes left.
    pub(crate) fn too_large(&self) -> ImportError {
        ImportError::TooLarge {
            limit_bytes: self.limit_bytes,
        }
    }

    /// A meter that draws from what is left.
    pub(crate) fn meter(self) -> Meter {
        Meter {
            budget: RefCell::new(self),
            rows: Cell::new(0),
            is_due: Cell::new(false),
            built_rows: Cell::new(0),
            built_bytes: Cell::new(0),
            exceeded: Cell::new(None),
        }
    }
}

/// Draws rows from a budget, many at a time: a row costs an addition.
#[derive(Debug)]
pub(crate) struct Meter {
    budget: RefCell<Budget>,
    /// Rows that are not paid for yet.
    rows: Cell<usize>,
    /// Whether it is time to look at the profile that is being built.
    is_due: Cell<bool>,
    /// What was paid for of that profile.
    built_rows: Cell<usize>,
    built_bytes: Cell<usize>,
    /// What there was too much of, first.
    exceeded: Cell<Option<Excess>>,
}

impl Meter {
    /// Pays for a row.
    #[inline]
    pub(crate) fn row(&self) -> Result<(), Excess> {
        self.rows(1)
    }

    /// Pays for rows.
    #[inline]
    pub(crate) fn rows(&self, rows: usize) -> Result<(), Excess> {
        let rows = self.rows.get() + rows;
        self.rows.set(rows);
        match rows < ROWS_AT_ONCE {
            true => Ok(()),
            false => self.settle(),
        }
    }

    /// Pays for a row of the input, and now and then for what a profile got of such rows: stacks, frames and their names.
    #[inline]
    pub(crate) fn row_into(&self, builder: &ProfileBuilder) -> Result<(), Excess> {
        self.rows_into(1, builder)
    }

    /// The same of several rows.
    #[inline]
    pub(crate) fn rows_into(&self, rows: usize, builder: &ProfileBuilder) -> Result<(), Excess> {
        self.rows(rows)?;
        match self.is_due.get() {
            true => self.built(builder),
            false => Ok(()),
        }
    }

    /// Pays for names that are copied.
    pub(crate) fn names(&self, bytes: usize) -> Result<(), Excess> {
        self.keep(self.budget.borrow_mut().draw_names(bytes))
    }

    /// Why nothing could be made of an input: because it was not read to its end, if it was not.
    pub(crate) fn explain(&self, error: ImportError) -> ImportError {
        match (error, self.exceeded.get()) {
            (ImportError::NoStacks, Some(excess)) => excess.into(),
            (error, _) => error,
        }
    }

    fn keep(&self, paid: Result<(), Excess>) -> Result<(), Excess> {
        if let Err(excess) = paid {
            self.exceeded.set(self.exceeded.get().or(Some(excess)));
        }
        paid
    }

    #[cold]
    fn settle(&self) -> Result<(), Excess> {
        self.is_due.set(true);
        let mut budget = self.budget.borrow_mut();
        self.keep(budget.draw_rows::<u8>(self.rows.take()))
    }

    #[cold]
    fn built(&self, builder: &ProfileBuilder) -> Result<(), Excess> {
        self.is_due.set(false);
        let profile = builder.so_far();
        let rows = profile.stacks.len() + profile.frames.len() + profile.functions.len();
        let bytes = profile.strings.byte_len();
        let mut budget = self.budget.borrow_mut();
        let rows = budget.draw_rows::<u8>(rows - self.built_rows.replace(rows));
        let names = budget.draw_names(bytes - self.built_bytes.replace(bytes));
        self.keep(rows.and(names))
    }
}

/// What is said of an input that was read up to here.
pub(crate) fn left_out(place: impl std::fmt::Display, excess: Excess) -> String {
    format!("what follows {place} was left out: {excess}")
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
        budget.draw_names(SMALL_BYTES as usize).unwrap();
        let error = budget.draw_names(1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "its names take more than 134217728 bytes, which is as much as is read of 1000 bytes"
        );
    }

    #[test]
    fn time_is_limited_by_the_size_of_the_input() {
        let mut budget = Budget::of(3 << 20);
        budget.check_time().unwrap();
        budget.started -= SMALL_TIME + 4 * TIME_PER_MIB;
        let error = budget.check_time().unwrap_err();
        assert_eq!(
            error.to_string(),
            "reading takes longer than 150 seconds, which is as long as 3145728 bytes may take"
        );
        let meter = budget.meter();
        (1..ROWS_AT_ONCE).for_each(|_| meter.row().unwrap());
        assert_eq!(meter.row(), Err(error));
    }

    #[test]
    fn a_meter_pays_for_what_is_built_of_its_rows() {
        let meter = Budget::of(1000).meter();
        let mut builder = ProfileBuilder::new(nodespy_model::WeightUnit::Samples);
        let long = "x".repeat(4000);
        let name_all = |builder: &mut ProfileBuilder| -> Result<(), Excess> {
            for number in 0..1 << 16 {
                builder.function(nodespy_model::FunctionSpec {
                    name: &format!("{number}{long}"),
                    ..Default::default()
                });
                meter.row_into(builder)?;
            }
            Ok(())
        };
        let error = name_all(&mut builder).unwrap_err();
        assert!(matches!(error, Excess::Names { limit_bytes, .. } if limit_bytes == SMALL_BYTES));
        let named = builder.so_far().functions.len();
        assert!((32_000..36_000).contains(&named), "{named}");
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
