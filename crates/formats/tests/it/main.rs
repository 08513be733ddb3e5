//! What the formats promise, checked from outside.

mod folded;
mod hostile;
mod native;
mod sample;
