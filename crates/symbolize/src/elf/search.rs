//! Looking for something in the segments of a file, a megabyte at a time.

use super::Extent;

const CHUNK_BYTES: usize = 1 << 20;
/// How much of a segment is searched at most: Node 26 has one of 65 MB.
const SEGMENT_LIMIT_BYTES: u64 = 1 << 29;

/// What `find` makes of the first chunk in which it finds something. It is handed a chunk and its address;
/// chunks have `overlap` bytes of the next one.
pub(crate) fn search_extents<T>(
    extents: impl IntoIterator<Item = Extent>,
    read: impl Fn(u64, usize) -> Option<Vec<u8>>,
    overlap: usize,
    mut find: impl FnMut(u64, &[u8]) -> Option<T>,
) -> Option<T> {
    for extent in extents {
        let end = extent.size.min(SEGMENT_LIMIT_BYTES);
        for offset in (0..end).step_by(CHUNK_BYTES) {
            let left = usize::try_from(end - offset).unwrap_or(usize::MAX);
            let address = extent.address.checked_add(offset)?;
            let Some(chunk) = read(address, (CHUNK_BYTES + overlap).min(left)) else {
                break;
            };
            if let Some(found) = find(address, &chunk) {
                return Some(found);
            }
        }
    }
    None
}
