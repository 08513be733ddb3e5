//! The code of the procedure linkage table.

/// How long an entry is. Those of `.plt.got` have half of it and are seen as pairs, by the first.
pub(crate) const ENTRY_BYTES: usize = 16;

/// `jmp [rip + distance]`, and how long it is.
const JUMP: [u8; 2] = [0xff, 0x25];
const JUMP_BYTES: usize = 6;

/// The slot of the global offset table whose address an entry jumps to: after `endbr64` and with
/// `bnd` where branches are protected.
pub(crate) fn got_slot(code: &[u8], address: u64) -> Option<u64> {
    let at = [0, 1, 4, 5]
        .into_iter()
        .find(|at| code.get(*at..at + JUMP.len()) == Some(&JUMP))?;
    let distance = code.get(at + JUMP.len()..at + JUMP_BYTES)?;
    let distance = i32::from_le_bytes(distance.try_into().ok()?);
    let next = address.checked_add((at + JUMP_BYTES) as u64)?;
    next.checked_add_signed(distance.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jump_of_an_entry_is_found_with_and_without_branch_protection() {
        let lazy = [0xff, 0x25, 0xb2, 0xdf, 0xac, 0x04, 0x68, 0, 0, 0, 0, 0xe9];
        assert_eq!(got_slot(&lazy, 0xb6f030), Some(0x563cfe8));
        let protected = [
            0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0xad, 0x2f, 0, 0, 0x0f,
        ];
        assert_eq!(got_slot(&protected, 0x1020), Some(0x3fd8));
        let head = [0xff, 0x35, 0xb2, 0xdf, 0xac, 0x04];
        assert_eq!(got_slot(&head, 0xb6f020), None);
        assert_eq!(got_slot(&lazy[..4], 0x1000), None);
    }
}
