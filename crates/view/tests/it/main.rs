//! What the views promise, checked from outside.

mod events;
mod findings;
mod golden;
mod loops;
mod odd;
mod sample;
mod waits;
