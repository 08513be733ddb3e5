//! Which registers a sample carries, and their order. Everything that depends on the machine's
//! architecture in this crate is here.

use nodespy_model::Registers;

// Positions in the kernel's numbering (asm/perf_regs.h) of DWARF registers 0 to 16:
// rax rdx rcx rbx rsi rdi rbp rsp r8..r15 and the instruction pointer.
const KERNEL_POSITIONS: [u32; 17] = [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 8];

/// The mask for `sample_regs_user`.
pub(crate) const MASK: u64 = {
    let mut mask = 0;
    let mut position = 0;
    while position < KERNEL_POSITIONS.len() {
        mask |= 1 << KERNEL_POSITIONS[position];
        position += 1;
    }
    mask
};

/// How many registers a sample carries.
pub(crate) const COUNT: usize = KERNEL_POSITIONS.len();

/// Registers from a sample, which holds them in the order of the kernel's numbering.
pub(crate) fn from_sample(values: impl Fn(usize) -> u64) -> Registers {
    let mut registers = Registers::default();
    for (dwarf, &kernel) in KERNEL_POSITIONS.iter().enumerate() {
        let rank = (MASK & ((1 << kernel) - 1)).count_ones() as usize;
        registers.0[dwarf] = values(rank);
    }
    registers
}

/// Registers as ptrace gives them.
pub(crate) fn from_ptrace(values: &libc::user_regs_struct) -> Registers {
    Registers([
        values.rax, values.rdx, values.rcx, values.rbx, values.rsi, values.rdi, values.rbp,
        values.rsp, values.r8, values.r9, values.r10, values.r11, values.r12, values.r13,
        values.r14, values.r15, values.rip,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_pointer_is_where_dwarf_wants_it() {
        // In the kernel's order the mask holds ax bx cx dx si di bp sp ip r8 to r15.
        let registers = from_sample(|rank| rank as u64);
        assert_eq!(registers.stack_pointer(), 7);
        assert_eq!(registers.frame_pointer(), 6);
        assert_eq!(registers.instruction_pointer(), 8);
        assert_eq!(registers.0[3], 1, "rbx");
        assert_eq!(registers.0[15], 16, "r15");
        assert_eq!(COUNT, 17);
    }
}
