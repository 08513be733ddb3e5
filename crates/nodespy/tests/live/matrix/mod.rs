//! What only `make test-all` runs, beside the `matrix` modules of the other files.

mod containers;
mod lifetimes;
mod runtimes;
