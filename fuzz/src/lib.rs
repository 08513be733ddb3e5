//! What every fuzz target does: feed bytes to one importer, within limits that show a leak early.

use nodespy_formats::{Limits, import};

/// Feeds `bytes` to the importer called `from`; only a panic or a hang is a finding.
pub fn feed(from: &str, mut bytes: &[u8]) {
    let limits = Limits {
        input_bytes: 1 << 20,
        unpacked_bytes: 16 << 20,
        line_bytes: 1 << 16,
    };
    drop(import(&mut bytes, Some(from), &limits));
}
