//! A store over HTTP, for people and programs: the page with services over time, the profile of any selection in any format,
//! and what got slower between versions.
//!
//! [`query`] turns a selection into an answer and knows no HTTP. [`Server`] joins it with `nodespy-http`. What agents send is
//! taken by [`Ingest`]. A request is one thread; there is no async runtime. A thread for each store that is written compacts it.
//!
//! Not here: sampling.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod access;
mod bell;
mod ingest;
mod keeper;
mod metrics;
mod otlp;
mod page;
mod push;
mod push_request;
mod pyroscope;
pub mod query;
mod routes;
mod server;
mod stores;
mod tenant;
mod turns;
mod webhook;

pub use access::{Access, Token, Transport};
pub use ingest::{Ingest, IngestLimits};
pub use server::Server;
pub use stores::Stores;
pub use tenant::Tenant;
pub use webhook::{Courier, Watch, Webhook};
