//! What the views promise, checked from outside.

mod events;
mod exact_waits;
mod findings;
mod gc_pauses;
mod golden;
mod loops;
mod odd;
mod pools;
mod routes;
mod sample;
mod waits;
