//! What is known of V8's objects beyond what it exports, for the chore that finds it out.
//!
//! `cargo run -p xtask -- v8-probe` derives the facts of a Node binary and compares them with the
//! table, and `nodespy --version` lists it. Nothing else should need this.

use std::fs::File;

use nodespy_model::ImageBytes;

use crate::elf::Elf;
use crate::image::v8_exports;
pub use crate::v8::{CodeStart, Facts, PositionEncoding, ScopeEncoding};

/// The table: one row per version.
pub fn table() -> &'static [Facts] {
    crate::v8::FACTS
}

/// What a V8 exports of itself.
#[derive(Debug)]
pub struct Exports(crate::image::V8Exports);

impl Exports {
    /// Reads them from a binary; none when it holds no V8.
    pub fn read(file: File) -> Option<Self> {
        let mut bytes = ImageBytes::File(file);
        let elf = Elf::read(&mut bytes)?;
        v8_exports(&elf, &mut bytes).map(Self)
    }

    /// Major and minor version.
    pub fn version(&self) -> (u32, u32) {
        self.0.version
    }

    /// A constant, without its `v8dbg_`.
    pub fn constant(&self, name: &str) -> Option<i32> {
        self.0.constants.get(name).copied()
    }
}

/// The entries of a source position table: offset into the code, offset into the source, and
/// which inlining the place belongs to (0: none).
pub fn source_positions(table: &[u8], encoding: PositionEncoding) -> Vec<(i64, u32, u32)> {
    crate::v8::all_positions(table, encoding)
        .filter_map(|(at, position)| position.map(|place| (at, place.offset, place.inlining)))
        .collect()
}
