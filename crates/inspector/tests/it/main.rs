//! The client against servers that are slow, hostile or long-lived.

mod fake_server;
mod hostile;
mod long_lived;
