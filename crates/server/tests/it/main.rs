//! Regressions between versions, on fleets whose truth is known.

#![allow(
    clippy::print_stderr,
    reason = "how often a change is found is printed"
)]

mod fleet;
mod regressions;
