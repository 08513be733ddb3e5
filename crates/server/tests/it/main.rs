//! Regressions between versions, and odd instances, on fleets whose truth is known.

#![allow(
    clippy::print_stderr,
    reason = "how often a change is found is printed"
)]

mod fleet;
mod instances;
mod looks;
mod regressions;
mod webhooks;
