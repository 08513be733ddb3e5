//! Engines and the resolver at work.
//!
//! [`Live`] is the one live loop: it drains an engine into the resolver, takes in processes that
//! join, and hands out a profile per slice or at the end. [`record`] is what `nodespy record` does
//! with it: launching, choosing an engine, falling back, joining two engines. [`snapshot`] takes
//! every thread's stack once. Nothing here prints: an [`Observer`] is informed.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod blocker;
mod budget;
mod ended;
mod error;
mod flight;
mod habits;
mod joining;
mod journal;
mod live;
mod load;
mod named;
mod observer;
mod periods;
mod probes;
mod rates;
mod record;
mod snapshot;
mod subject;
mod submitters;
mod throttled;
mod twin;
mod warm_up;

#[cfg(test)]
mod stand_in;

pub use blocker::{Blocker, loop_of};
pub use error::RecordError;
pub use flight::{FlightOptions, Flown, Ring, Trigger, fly};
pub use habits::{Oddity, Unusual};
pub use journal::CreateJournal;
pub use live::{Continuous, End, Limits, Live, LiveOptions, SampledShare};
pub use observer::{Observer, Paced, Progress, Slice, Started};
pub use periods::{PeriodFiles, record_every};
pub use rates::Pacing;
pub use record::{EngineChoice, RecordRequest, Recorded, Sampled, continuous_inspector, record};
pub use snapshot::{Snapshot, snapshot};
pub use subject::{Subject, hold};
