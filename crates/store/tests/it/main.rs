//! What every store promises, on each engine; and what the embedded one does when it is killed or damaged.

mod agreement;
mod crash;
mod damage;
mod fleet;
mod plain;
mod promises;
mod retention;
mod round_trip;
