//! The walk at a sample on memory that lies: what `fuzz/` and the short version beside the walk feed.

use nodespy_model::Registers;

use crate::sys::bpf::{CopiedAtSample, FieldsValue};
use crate::sys::walk::WalkedMemory;

/// Memory whose words look like V8's: pointers to other words of it, small integers, markers, and anything.
pub(crate) struct Lies {
    state: u64,
    words: Vec<u64>,
    pub(crate) reads: usize,
}

/// What a walk may be asked for.
pub(crate) const EVERYTHING: CopiedAtSample = CopiedAtSample {
    async_callers: true,
    requests: true,
    stores: true,
};

const BASE: u64 = 0x20_0000;
const WORDS: u64 = 512;

impl Lies {
    pub(crate) fn new(seed: u64) -> Self {
        let mut lies = Self {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            words: Vec::new(),
            reads: 0,
        };
        lies.words = (0..WORDS).map(|_| lies.word()).collect();
        lies
    }

    /// With these bytes for its first words.
    #[cfg(feature = "fuzzing")]
    fn of(bytes: &[u8]) -> Self {
        let mut lies = Self::new(bytes.len() as u64);
        for (word, bytes) in lies.words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        }
        lies
    }

    fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    fn word(&mut self) -> u64 {
        let random = self.random();
        let place = BASE + random % (8 * WORDS);
        match random >> 61 {
            0 => (random & 0xff) << 32,
            1 => random & 0x3e,
            2 => (random % (1 << 20)) << 32 | 1057 << 32,
            3 => place & !7,
            7 => random,
            _ => place & !7 | 1,
        }
    }

    pub(crate) fn registers(&self) -> Registers {
        let mut registers = Registers::default();
        registers.0[Registers::STACK_POINTER] = (BASE + self.words[0] % (8 * WORDS)) & !7;
        registers.0[Registers::FRAME_POINTER] = self.words[1];
        registers
    }
}

impl WalkedMemory for Lies {
    fn read(&mut self, address: u64, buffer: &mut [u8]) -> bool {
        self.reads += 1;
        let Some(start) = address.checked_sub(BASE) else {
            return false;
        };
        let words = &self.words;
        (start..).zip(buffer).all(|(at, byte)| {
            let word = words.get((at / 8) as usize);
            word.is_some_and(|word| {
                *byte = word.to_ne_bytes()[(at % 8) as usize];
                true
            })
        })
    }

    fn fields(&mut self, key: u64) -> Option<FieldsValue> {
        let mut value = key.to_ne_bytes().repeat(2);
        value[8..].fill(0);
        (key & 8 != 0).then(|| value.try_into().expect("sixteen bytes"))
    }
}

/// Walks over any bytes.
#[cfg(feature = "fuzzing")]
pub fn walk(bytes: &[u8]) {
    let mut memory = Lies::of(bytes);
    let registers = memory.registers();
    let options = crate::sys::bpf::ProgramOptions::new(512, EVERYTHING, None);
    crate::sys::walk::Walk::new().copy(&mut memory, &registers, options, Some(0x20_0000));
}
