//! What the views promise, checked from outside.

mod findings;
mod golden;
mod odd;
mod sample;
