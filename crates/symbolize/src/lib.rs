//! Raw addresses in, named frames out.
//!
//! [`resolve`] is the only door from a [`Recording`](nodespy_model::Recording) to a
//! [`Profile`](nodespy_model::Profile). A live capture goes through the same [`Resolver`], event
//! by event, so that stack copies need not be kept. Files and memory of processes are reached
//! only through the [`Origin`](nodespy_model::Origin) that is passed in; [`DiskOrigin`] is the one
//! for recordings that are opened later.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod addr2line;
mod address_map;
mod copied;
mod demangle;
mod disk;
mod elf;
mod embed;
mod embedded_builtins;
mod frame;
mod function_offset;
pub mod fuzzing;
mod go_functions;
mod hexadecimal;
mod image;
mod image_budget;
mod inlines;
mod jit;
mod kernel;
mod libuv;
mod little_endian;
mod resolve;
mod route;
mod source_map;
mod unnamed;
mod unwind;
mod usdt;
mod v8;
pub mod v8_facts;
mod x86_64;

pub use addr2line::Addr2line;
pub use disk::{DiskOptions, DiskOrigin, SourceRoot, perf_cache};
pub use embed::SourceRoots;
pub use function_offset::{function_offset, function_offsets};
pub use jit::name::{JitKind, JitName};
pub use resolve::{HeapSupport, ResolveOptions, Resolver, heap_support, resolve};
pub use source_map::{SourceMapOptions, map_sources};
pub use usdt::{UsdtProbe, usdt_probes};
pub use v8::StoreOptions;
pub use x86_64::argument_check_length;
