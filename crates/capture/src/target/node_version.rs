//! Which Node a binary is, read from its bytes: a foreign binary is never run.

use std::fs::File;
use std::io::Read;

use memchr::memmem;

/// How much of a binary is searched. The string is in the middle of `.rodata`; node 26 has 120 MB.
const SEARCH_LIMIT_BYTES: u64 = 512 << 20;
const CHUNK: usize = 1 << 20;
const OVERLAP: usize = 256;

/// `v20.20.2`, when the binary says so. Release builds carry the address of their own headers:
/// `…/download/release/v20.20.2/node-v20.20.2-headers.tar.gz`.
pub(crate) fn node_version_of(file: File) -> Option<String> {
    let finder = memmem::Finder::new(b"/node-v");
    let mut file = file.take(SEARCH_LIMIT_BYTES);
    let mut buffer = Vec::with_capacity(CHUNK + OVERLAP);
    loop {
        let kept = buffer.len().min(OVERLAP);
        buffer.drain(..buffer.len() - kept);
        let read = file
            .by_ref()
            .take(CHUNK as u64)
            .read_to_end(&mut buffer)
            .ok()?;
        if read == 0 {
            return None;
        }
        let found = finder
            .find_iter(&buffer)
            .find_map(|at| parse_version(&buffer[at + b"/node-".len()..]));
        if found.is_some() {
            return found;
        }
    }
}

/// `v20.20.2` from `v20.20.2-headers.tar.gz` or `v20.20.2.tar.gz`.
fn parse_version(bytes: &[u8]) -> Option<String> {
    let end = bytes
        .iter()
        .take(40)
        .position(|byte| !byte.is_ascii_alphanumeric() && !b".-+".contains(byte))?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    let version = text
        .strip_suffix("-headers.tar.gz")
        .or_else(|| text.strip_suffix(".tar.gz"))?;
    let numbers = version.strip_prefix('v')?.split(['-', '+']).next()?;
    let is_version = numbers.split('.').count() == 3
        && numbers
            .split('.')
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    is_version.then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_taken_only_from_a_whole_address() {
        assert_eq!(
            parse_version(b"v20.20.2-headers.tar.gz\0").as_deref(),
            Some("v20.20.2")
        );
        assert_eq!(
            parse_version(b"v26.0.0-rc.1.tar.gz\0").as_deref(),
            Some("v26.0.0-rc.1")
        );
        assert_eq!(parse_version(b"v20.x.tar.gz\0"), None);
        assert_eq!(parse_version(b"v20.20.2"), None);
    }
}
