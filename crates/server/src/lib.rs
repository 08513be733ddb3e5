//! A store over HTTP, for people and programs: the page with services over time, the profile of any selection in any format,
//! and what got slower between versions.
//!
//! [`http`] has what every server of nodespy needs: heads with a deadline, a bound on connections, answers. [`query`] turns a
//! selection into an answer and knows no HTTP. [`Server`] joins both. A request is one thread; there is no async runtime.
//!
//! Not here: sampling, writing (the store is opened for reading), TLS.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod access;
pub mod http;
mod metrics;
mod page;
pub mod query;
mod routes;
mod server;
mod stores;

pub use access::{Access, Token};
pub use server::Server;
pub use stores::Stores;
