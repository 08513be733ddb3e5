//! What the formats promise, checked from outside.

mod folded;
mod hostile;
mod html;
mod native;
mod sample;
