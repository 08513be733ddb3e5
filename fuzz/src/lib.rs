//! What every fuzz target does: feed bytes to one importer, within limits that show a leak early.

use nodespy_formats::{ImportOptions, Limits, import};
use nodespy_model::Contents;

/// Feeds `bytes` to the importer called `from`; only a panic or a hang is a finding.
pub fn feed(from: &str, bytes: &[u8]) {
    let options = ImportOptions {
        limits: Limits {
            input_bytes: 1 << 20,
            unpacked_bytes: 16 << 20,
            line_bytes: 1 << 16,
            ..Limits::default()
        },
        ..ImportOptions::from(Some(from))
    };
    if let Ok(recording) = import(bytes.to_vec().into(), &options)
        && let Contents::Events(events) = recording.contents
    {
        // Raw events are read only when they are handed over.
        events.replay(&mut |_| {});
    }
}
