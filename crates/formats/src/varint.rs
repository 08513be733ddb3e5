//! Unsigned LEB128, which protocol buffers and `.nspy` write: seven bits a byte, the lowest first.
//!
//! Only writing is shared. The readers differ on purpose: protocol buffers drop bits beyond 64, `.nspy`
//! refuses them.

/// Appends a number.
pub(crate) fn put(output: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        output.push(number as u8 | 0x80);
        number >>= 7;
    }
    output.push(number as u8);
}
