//! What the views promise, checked from outside.

mod golden;
mod odd;
mod sample;
