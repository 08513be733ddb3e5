//! Where windows of samples are kept for weeks: many processes in, merged stacks out.
//!
//! A [`Window`] is what one [`Series`] (an event of one process of a service) saw in ten seconds, by stack.
//! [`Store`] is deliberately thin: append windows, merge them by stack, sum them over time, list labels, name stacks,
//! drop what is old. Trees, comparisons and statistics are made of its answers elsewhere, so that every engine gives
//! the same. There are two: [`SqliteStore`], a single file, and [`ClickHouseStore`], where one machine is not enough.
//!
//! Not here: sampling, sending, tenants (a tenant is a file or a database of its own), drawing.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod block;
mod clickhouse;
mod convert;
mod engine;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod location;
mod open_windows;
mod retention;
mod selection;
mod sqlite;
mod symbols;
mod window;
mod wire;

pub use clickhouse::{ClickHouseOptions, ClickHouseStore, ClickHouseTables};
pub use convert::{
    CPU_EVENT, HOST, MAX_LABEL_BYTES, PID, REQUESTS_EVENT, SAMPLING_RATE, StoredThread, batch_of,
    label_bytes, name_bytes, profile_of, profile_of_threads,
};
pub use engine::{Appended, Detail, Store};
pub use error::StoreError;
pub use location::{OpenStore, StoreLocation};
pub use open_windows::OpenWindows;
pub use retention::{Kept, Retention, Upkeep};
pub use selection::{
    Group, Matcher, Merged, NameBudget, Selection, SeriesSpan, StackId, StackWeight, TimeSeries,
    TimeSeriesSet,
};
pub use sqlite::{OpenMode, SqliteStore};
pub use symbols::{MAX_DEPTH, MAX_TEXT_BYTES, StackHash, StoredFrame, StoredFunction, Symbols};
pub use window::{
    Batch, Count, HOUR_SECONDS, MAX_NAME_BYTES, Series, UnixSeconds, WINDOW_SECONDS, Window,
};
pub use wire::{WireError, batch_from_bytes, batch_to_bytes, hashes_from_bytes, hashes_to_bytes};
