//! The registers of x86-64: the kernel's numbers and DWARF's.

use crate::sample::Words;

/// How many registers an unwinder wants.
pub const REGISTER_COUNT: usize = 17;

/// The kernel's numbers (`asm/perf_regs.h`) of DWARF registers 0 to 16: rax rdx rcx rbx rsi rdi rbp
/// rsp r8 to r15, then the instruction pointer.
const KERNEL_NUMBERS: [u32; REGISTER_COUNT] =
    [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 8];

/// Those registers as a mask for `sample_regs_user`.
pub const REGISTER_MASK: u64 = {
    let mut mask = 0;
    let mut dwarf = 0;
    while dwarf < KERNEL_NUMBERS.len() {
        mask |= 1 << KERNEL_NUMBERS[dwarf];
        dwarf += 1;
    }
    mask
};

/// Registers of a sample in DWARF's order. `values` are in the order of the kernel's numbers; a
/// register that is not in `mask` is 0.
#[inline]
pub fn dwarf_registers(mask: u64, values: Words<'_>) -> [u64; REGISTER_COUNT] {
    KERNEL_NUMBERS.map(|number| {
        let bit = 1 << number;
        let rank = (mask & (bit - 1)).count_ones() as usize;
        match mask & bit != 0 {
            true => values.get(rank).unwrap_or(0),
            false => 0,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::words;

    #[test]
    fn every_register_is_where_dwarf_wants_it() {
        // In the kernel's order: ax bx cx dx si di bp sp ip r8 to r15.
        let bytes = words(0..17);
        let registers = dwarf_registers(REGISTER_MASK, Words(bytes.as_chunks().0));
        let expected = [0, 3, 2, 1, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 8];
        assert_eq!(registers, expected);
    }

    #[test]
    fn a_register_that_was_not_asked_for_is_zero() {
        // bx, sp, ip.
        let bytes = words([11, 12, 13]);
        let registers = dwarf_registers(1 << 1 | 1 << 7 | 1 << 8, Words(bytes.as_chunks().0));
        let mut expected = [0; REGISTER_COUNT];
        (expected[3], expected[7], expected[16]) = (11, 12, 13);
        assert_eq!(registers, expected);
    }

    #[test]
    fn registers_the_table_does_not_know_are_skipped() {
        // Flags (9) and the segments (10 to 15) lie between ip and r8.
        let bytes = words(0..24);
        let registers = dwarf_registers((1 << 24) - 1, Words(bytes.as_chunks().0));
        assert_eq!((registers[16], registers[8]), (8, 16));
    }
}
