//! One sample, taken apart.

use nodespy_model::{Nanoseconds, Registers};

use super::attribute::{Attribute, has, reads};
use super::fields::Fields;

/// Where the processor was, from the flags of a record.
const MODE_MASK: u16 = 7;
const MODE_KERNEL: u16 = 1;
const MODE_USER: u16 = 2;

/// Values in a call chain that say whose addresses follow (`enum perf_callchain_context`).
const CONTEXT_KERNEL: u64 = -128i64 as u64;
const CONTEXT_USER: u64 = -512i64 as u64;
const CONTEXT_USER_DEFERRED: u64 = -640i64 as u64;
/// Values from here on are no addresses.
const FIRST_CONTEXT: u64 = -4095i64 as u64;

/// A chain is followed no further: `perf_event_max_stack` is 127 by default.
const CHAIN_LIMIT: usize = 16_384;

// Positions in the kernel's numbering (asm/perf_regs.h of x86) of DWARF registers 0 to 16:
// rax rdx rcx rbx rsi rdi rbp rsp r8..r15 and the instruction pointer.
const REGISTER_POSITIONS: [u32; 17] = [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 8];
/// A register dump of a 64-bit process.
const ABI_64: u64 = 2;

/// The fields of a sample that a CPU profile is made of; the rest is skipped.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sample<'a> {
    pub(super) time: Nanoseconds,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) cpu: Option<u16>,
    ip: u64,
    mode: u16,
    chain: &'a [[u8; 8]],
    /// From and to, leaf first, of a call stack that the processor kept.
    branches: &'a [[u8; 24]],
    pub(super) registers: Option<Registers>,
    /// The top of the stack as far as it could be copied.
    pub(super) stack: &'a [u8],
    pub(super) is_stack_full: bool,
}

/// The addresses of a sample, reused from one to the next.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    pub(super) kernel: Vec<u64>,
    pub(super) user: Vec<u64>,
    /// What names the user addresses that the kernel sends later.
    pub(super) deferred: Option<u64>,
}

impl<'a> Sample<'a> {
    /// Reads the body of a sample of an event; none when it ends too soon.
    pub(super) fn read(attribute: &Attribute, flags: u16, body: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(body);
        let mut sample = Self {
            mode: flags & MODE_MASK,
            ..Self::default()
        };
        let mut number = |field: u64| match attribute.has(field) {
            true => fields.u64().map(Some),
            false => Some(None),
        };
        number(has::IDENTIFIER)?;
        sample.ip = number(has::IP)?.unwrap_or(0);
        let thread = number(has::TID)?.unwrap_or(0);
        (sample.pid, sample.tid) = (thread as u32, (thread >> 32) as u32);
        sample.time = number(has::TIME)?.unwrap_or(0);
        number(has::ADDRESS)?;
        number(has::ID)?;
        number(has::STREAM_ID)?;
        sample.cpu = number(has::CPU)?.and_then(|cpu| u16::try_from(cpu as u32).ok());
        number(has::PERIOD)?;
        if attribute.has(has::READ) {
            skip_read(attribute.read_format, &mut fields)?;
        }
        if attribute.has(has::CALLCHAIN) {
            let count = usize::try_from(fields.u64()?).ok()?;
            sample.chain = fields.take(count.checked_mul(8)?)?.as_chunks().0;
        }
        if attribute.has(has::RAW) {
            let size = fields.u32()? as usize;
            fields.take(size)?;
        }
        sample.read_stacks(attribute, &mut fields)?;
        Some(sample)
    }

    fn read_stacks(&mut self, attribute: &Attribute, fields: &mut Fields<'a>) -> Option<()> {
        if attribute.has(has::BRANCH_STACK) {
            let count = usize::try_from(fields.u64()?).ok()?;
            if attribute.has_branch_index() {
                fields.u64()?;
            }
            let branches = fields.take(count.checked_mul(24)?)?;
            if attribute.has_branch_call_stack() {
                self.branches = branches.as_chunks().0;
            }
        }
        if attribute.has(has::USER_REGISTERS) {
            let abi = fields.u64()?;
            if abi != 0 {
                let mask = attribute.user_registers;
                let values = fields.take(mask.count_ones() as usize * 8)?;
                self.registers = (abi == ABI_64)
                    .then(|| registers(mask, values.as_chunks().0))
                    .flatten();
            }
        }
        if attribute.has(has::USER_STACK) {
            let size = usize::try_from(fields.u64()?).ok()?;
            if size > 0 {
                let stack = fields.take(size)?;
                let filled = usize::try_from(fields.u64()?).ok()?.min(size);
                self.stack = &stack[..filled];
                self.is_stack_full = filled == size;
            }
        }
        Some(())
    }

    /// Sorts the addresses of the sample into the kernel's and the process's, leaf first.
    pub(super) fn addresses(&self, into: &mut Addresses) {
        into.kernel.clear();
        into.user.clear();
        into.deferred = None;
        let mut mode = self.mode;
        let mut chain = self.chain.iter().take(CHAIN_LIMIT);
        while let Some(bytes) = chain.next() {
            let address = u64::from_le_bytes(*bytes);
            match address {
                CONTEXT_KERNEL => mode = MODE_KERNEL,
                CONTEXT_USER => mode = MODE_USER,
                CONTEXT_USER_DEFERRED => {
                    into.deferred = chain.next().map(|bytes| u64::from_le_bytes(*bytes));
                }
                // A hypervisor or a guest: nobody here can name its addresses.
                FIRST_CONTEXT.. => mode = 0,
                _ if mode == MODE_KERNEL => into.kernel.push(address),
                _ if mode == MODE_USER => into.user.push(address),
                _ => {}
            }
        }
        self.add_branches(into);
        if into.kernel.is_empty() && into.user.is_empty() && self.ip != 0 {
            match self.mode {
                MODE_KERNEL => into.kernel.push(self.ip),
                MODE_USER => into.user.push(self.ip),
                _ => {}
            }
        }
    }

    /// Replaces the callers by those the processor kept. The leaf stays: branches tell only where
    /// its function begins.
    fn add_branches(&self, into: &mut Addresses) {
        let Some(innermost) = self.branches.first() else {
            return;
        };
        let word =
            |branch: &[u8; 24], at| Fields(&branch[at..]).u64().expect("a branch has 24 bytes");
        let leaf = match (into.user.first(), self.mode) {
            (Some(&address), _) => address,
            (None, MODE_USER) if self.ip != 0 => self.ip,
            _ => word(innermost, 8),
        };
        into.user.clear();
        into.user.push(leaf);
        // A call is told by its own address, where others tell the address behind it.
        let callers = self.branches.iter().take(CHAIN_LIMIT);
        into.user
            .extend(callers.map(|branch| word(branch, 0).saturating_add(1)));
    }
}

/// The addresses that come after a sample in a record of their own; the cookie first.
pub(super) fn read_deferred(body: &[u8], user: &mut Vec<u64>) -> Option<u64> {
    let mut fields = Fields(body);
    let cookie = fields.u64()?;
    let count = usize::try_from(fields.u64()?).ok()?;
    let chain = fields.take(count.checked_mul(8)?)?;
    user.clear();
    user.extend(
        chain
            .as_chunks()
            .0
            .iter()
            .take(CHAIN_LIMIT)
            .map(|bytes| u64::from_le_bytes(*bytes))
            .filter(|address| *address < FIRST_CONTEXT),
    );
    Some(cookie)
}

fn registers(mask: u64, values: &[[u8; 8]]) -> Option<Registers> {
    let mut registers = Registers::default();
    for (dwarf, &kernel) in REGISTER_POSITIONS.iter().enumerate() {
        let rank = (mask & ((1 << kernel) - 1)).count_ones() as usize;
        if mask >> kernel & 1 != 0 {
            registers.0[dwarf] = u64::from_le_bytes(*values.get(rank)?);
        }
    }
    Some(registers)
}

fn skip_read(format: u64, fields: &mut Fields<'_>) -> Option<()> {
    let has = |bit: u64| usize::from(format & bit != 0);
    let times = has(reads::TIME_ENABLED) + has(reads::TIME_RUNNING);
    let value = 1 + has(reads::ID) + has(reads::LOST);
    let words = match has(reads::GROUP) {
        0 => times + value,
        _ => {
            let count = usize::try_from(fields.u64()?).ok()?;
            count.checked_mul(value)?.checked_add(times)?
        }
    };
    fields.take(words.checked_mul(8)?).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn attribute(sample_type: u64, change: impl FnOnce(&mut Vec<u8>)) -> Attribute {
        let mut bytes = vec![0; 128];
        bytes[24..32].copy_from_slice(&sample_type.to_le_bytes());
        change(&mut bytes);
        Attribute::read(&bytes).unwrap()
    }

    #[test]
    fn a_chain_is_split_where_it_says_so() {
        let attribute = attribute(has::IP | has::TID | has::TIME | has::CALLCHAIN, |_| {});
        let words = [
            0xffff_ffff_8100_0000,
            7 | 8 << 32,
            1234,
            5,
            CONTEXT_KERNEL,
            0xffff_ffff_8100_0000,
            CONTEXT_USER,
            0x1000,
            0x2000,
        ];
        let body = body(&words);
        let sample = Sample::read(&attribute, MODE_KERNEL, &body).unwrap();
        let mut addresses = Addresses::default();
        sample.addresses(&mut addresses);
        assert_eq!((sample.pid, sample.tid, sample.time), (7, 8, 1234));
        assert_eq!(addresses.kernel, [0xffff_ffff_8100_0000]);
        assert_eq!(addresses.user, [0x1000, 0x2000]);
        for length in 0..body.len() {
            assert!(Sample::read(&attribute, 0, &body[..length]).is_none());
        }
    }

    #[test]
    fn every_field_before_the_stack_is_skipped_by_its_size() {
        let sample_type = has::IDENTIFIER
            | has::IP
            | has::TID
            | has::TIME
            | has::ADDRESS
            | has::ID
            | has::STREAM_ID
            | has::CPU
            | has::PERIOD
            | has::READ
            | has::CALLCHAIN
            | has::RAW
            | has::BRANCH_STACK
            | has::USER_REGISTERS
            | has::USER_STACK;
        let attribute = attribute(sample_type, |bytes| {
            let format = reads::GROUP | reads::ID | reads::TIME_ENABLED;
            bytes[32..40].copy_from_slice(&format.to_le_bytes());
            // A stack of calls with the hardware's index; registers bx, sp and ip.
            bytes[72..80].copy_from_slice(&(1u64 << 11 | 1 << 17).to_le_bytes());
            bytes[80..88].copy_from_slice(&(1u64 << 1 | 1 << 7 | 1 << 8).to_le_bytes());
        });
        let mut words = vec![99, 0x5000, 7 | 8 << 32, 1234, 1, 99, 3, 1, 4];
        words.extend([2, 50, 1, 98, 2, 99]); // two values with ids, and the time
        words.extend([2, CONTEXT_USER, 0x5000]);
        words.push(4 | 0xdead << 32); // four raw bytes
        words.extend([2, 0, 0x4100, 0x5000, 0, 0x4000, 0x4050, 0]);
        words.extend([ABI_64, 11, 12, 13]);
        words.extend([16, 0xaa, 0xbb, 8]); // sixteen bytes of which eight are filled
        let body = body(&words);
        let sample = Sample::read(&attribute, MODE_USER, &body).unwrap();
        assert_eq!(sample.cpu, Some(1));
        let registers = sample.registers.unwrap();
        assert_eq!(registers.0[3], 11, "rbx");
        assert_eq!(registers.stack_pointer(), 12);
        assert_eq!(registers.instruction_pointer(), 13);
        assert_eq!(sample.stack, 0xaau64.to_le_bytes());
        assert!(!sample.is_stack_full);
        let mut addresses = Addresses::default();
        sample.addresses(&mut addresses);
        assert_eq!(addresses.user, [0x5000, 0x4101, 0x4001]);
    }
}
