//! The body of a request: so many bytes, or in chunks, never more than are allowed. Depends on nothing else here, so that it
//! can be fuzzed.

use std::io::{self, BufRead, Read};

/// The longest line that says how long a chunk is.
const CHUNK_LINE_BYTES: u64 = 1024;

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// Neither a length nor chunks.
    #[error("how long is it?")]
    NoLength,
    /// It is too long.
    #[error("more than {0} bytes")]
    TooLong(u64),
    /// Its chunks make no sense.
    #[error("chunks that make no sense")]
    BadChunks,
    /// It does not arrive.
    #[error("cannot read the request")]
    Read(#[from] io::Error),
}

/// Reads a body of this length, or in chunks, of at most `max` bytes.
pub fn read_body(
    reader: &mut impl BufRead,
    length: Option<u64>,
    is_chunked: bool,
    max: u64,
) -> Result<Vec<u8>, BodyError> {
    if is_chunked {
        return read_chunks(reader, max);
    }
    let length = length.ok_or(BodyError::NoLength)?;
    if length > max {
        return Err(BodyError::TooLong(max));
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    match body.len() as u64 == length {
        true => Ok(body),
        false => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
    }
}

fn read_chunks(reader: &mut impl BufRead, max: u64) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    loop {
        let length = chunk_length(&read_line(reader)?)?;
        if length > max - body.len() as u64 {
            return Err(BodyError::TooLong(max));
        }
        if length == 0 {
            // What may follow are trailers, which are not used.
            return Ok(body);
        }
        let before = body.len() as u64;
        reader.by_ref().take(length).read_to_end(&mut body)?;
        if body.len() as u64 != before + length || !read_line(reader)?.is_empty() {
            return Err(BodyError::BadChunks);
        }
    }
}

fn read_line(reader: &mut impl BufRead) -> Result<String, BodyError> {
    let mut line = String::new();
    let read = reader
        .by_ref()
        .take(CHUNK_LINE_BYTES)
        .read_line(&mut line)?;
    match read == 0 || !line.ends_with('\n') {
        true => Err(BodyError::BadChunks),
        false => Ok(line.trim_end().to_owned()),
    }
}

/// `1f;name=value`.
fn chunk_length(line: &str) -> Result<u64, BodyError> {
    let digits = line.split(';').next().unwrap_or_default().trim();
    let is_plain = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_hexdigit());
    let length = is_plain.then(|| u64::from_str_radix(digits, 16).ok());
    length.flatten().ok_or(BodyError::BadChunks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(text: &str) -> Result<Vec<u8>, BodyError> {
        read_body(&mut text.as_bytes(), None, true, 10)
    }

    #[test]
    fn chunks_are_put_together() {
        let text = "4\r\nwiki\r\n5;x=y\r\npedia\r\n0\r\n\r\n";
        assert_eq!(chunks(text).unwrap(), b"wikipedia");
        assert_eq!(chunks("0\r\n\r\n").unwrap(), b"");
    }

    #[test]
    fn what_is_too_long_or_makes_no_sense_is_refused() {
        assert!(matches!(
            chunks("b\r\nwikipedia"),
            Err(BodyError::TooLong(10))
        ));
        let rest = "6\r\nfolded\r\n5\r\nabcde\r\n0\r\n\r\n";
        assert!(matches!(chunks(rest), Err(BodyError::TooLong(10))));
        for odd in ["", "-1\r\n", "x\r\n", "4\r\nwikipedia", "4\r\nwi"] {
            assert!(matches!(chunks(odd), Err(BodyError::BadChunks)), "{odd:?}");
        }
        let body = |length| read_body(&mut "wiki".as_bytes(), length, false, 10);
        assert_eq!(body(Some(4)).unwrap(), b"wiki");
        assert!(matches!(body(Some(5)), Err(BodyError::Read(_))));
        assert!(matches!(body(Some(11)), Err(BodyError::TooLong(10))));
        assert!(matches!(body(None), Err(BodyError::NoLength)));
    }
}
