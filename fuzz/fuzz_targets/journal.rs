//! No bytes may crash, hang or exhaust the journal importer, nor sections whose checksum is right.
#![no_main]

use nodespy_formats::{JournalWriter, pack_block};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    nodespy_fuzz::feed("journal", bytes);
    let mut journal = JournalWriter::header();
    journal.extend(pack_block(bytes));
    nodespy_fuzz::feed("journal", &journal);
});
