//! Base64, written without holding the whole text.

use std::io::{self, Write};

use data_encoding::BASE64;

/// Whole groups of three bytes, so that only the last chunk is padded.
const CHUNK_BYTES: usize = 3 << 12;

/// Writes `bytes` as base64.
pub(crate) fn write(bytes: &[u8], output: &mut dyn Write) -> io::Result<()> {
    let mut text = [0; CHUNK_BYTES / 3 * 4];
    for chunk in bytes.chunks(CHUNK_BYTES) {
        let text = &mut text[..BASE64.encode_len(chunk.len())];
        BASE64.encode_mut(chunk, text);
        output.write_all(text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_join_to_one_text() {
        for length in [
            0,
            1,
            2,
            3,
            CHUNK_BYTES,
            CHUNK_BYTES + 1,
            2 * CHUNK_BYTES + 2,
        ] {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
            let mut text = Vec::new();
            write(&bytes, &mut text).unwrap();
            assert_eq!(text, BASE64.encode(&bytes).into_bytes());
        }
    }
}
