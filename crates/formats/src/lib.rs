//! Bytes to model and back: the formats nodespy reads and writes.
//!
//! [`import`] turns bytes into a [`nodespy_model::Recording`], choosing the format by what the
//! bytes look like and never by the file's name. [`export`] writes a [`nodespy_model::Profile`].
//! What is read may come from anywhere, so every decoder is bounded by [`Limits`] and none of
//! them panics.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod base64;
mod budget;
mod call_frame;
mod code_kind;
mod contexts;
mod detect;
mod diff_folded;
mod export;
mod frame_name;
mod import;
mod input;
mod json;
mod module_name;
mod native;
mod perf_script;
mod protobuf;
mod recorded;
mod varint;

pub use budget::{Excess, Limits};
pub use detect::{Confidence, detect};
pub use diff_folded::{folded_stacks, without_addresses, write_difference};
pub use export::{
    Detail, EXPORTERS, ExportError, Exporter, export, exporter, exporter_for_path, folded_exporter,
    native_exporter,
};
pub use import::{
    FoldedStacks, IMPORTERS, ImportError, ImportOptions, Importer, Progress, TextFormat,
    V8_LOG_ENGINE, event_called, import, import_file, importer_called, read_folded,
};
pub use input::Input;
pub use native::VERSION as NATIVE_VERSION;
pub use native::journal::{JournalWriter, merge_slices, pack_block, read_journal};
pub use perf_script::{CollapseOptions, Collapsed, Inlined, OddLine, collapse};
