//! SHA-256 (FIPS 180-4), for the hashes by which a page's own policy lets its script run.

const ROUND_CONSTANTS: [u32; 64] = round_constants();

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
const fn round_constants() -> [u32; 64] {
    let mut constants = [0; 64];
    let mut found = 0;
    let mut candidate = 2u128;
    while found < 64 {
        if is_prime(candidate) {
            constants[found] = root(candidate << 96, 3) as u32;
            found += 1;
        }
        candidate += 1;
    }
    constants
}

/// The first 32 bits of the fractional parts of the square roots of the first 8 primes.
const fn initial_state() -> [u32; 8] {
    let mut state = [0; 8];
    let mut found = 0;
    let mut candidate = 2u128;
    while found < 8 {
        if is_prime(candidate) {
            state[found] = root(candidate << 64, 2) as u32;
            found += 1;
        }
        candidate += 1;
    }
    state
}

const fn is_prime(number: u128) -> bool {
    let mut divisor = 2;
    while divisor * divisor <= number {
        if number.is_multiple_of(divisor) {
            return false;
        }
        divisor += 1;
    }
    true
}

/// The whole part of the square or cube root of `number`, found bit by bit.
const fn root(number: u128, degree: u32) -> u128 {
    let mut root = 0u128;
    let mut bit = 1u128 << 40;
    while bit > 0 {
        let next = root | bit;
        if next.pow(degree) <= number {
            root = next;
        }
        bit >>= 1;
    }
    root
}

/// The digest of `message`.
pub(crate) fn sha256(message: &[u8]) -> [u8; 32] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((message.len() as u64 * 8).to_be_bytes());
    let mut state = initial_state();
    for block in padded.chunks_exact(64) {
        compress(&mut state, block);
    }
    let mut digest = [0; 32];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

fn compress(state: &mut [u32; 8], block: &[u8]) {
    let mut schedule = [0u32; 64];
    for (word, bytes) in schedule.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    for at in 16..64 {
        let early = schedule[at - 15];
        let late = schedule[at - 2];
        let early = early.rotate_right(7) ^ early.rotate_right(18) ^ (early >> 3);
        let late = late.rotate_right(17) ^ late.rotate_right(19) ^ (late >> 10);
        schedule[at] = schedule[at - 16]
            .wrapping_add(early)
            .wrapping_add(schedule[at - 7])
            .wrapping_add(late);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for at in 0..64 {
        let mixed_e = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let first = h
            .wrapping_add(mixed_e)
            .wrapping_add(choice)
            .wrapping_add(ROUND_CONSTANTS[at])
            .wrapping_add(schedule[at]);
        let mixed_a = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        let second = mixed_a.wrapping_add(majority);
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(second));
    }
    for (word, added) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(added);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(message: &[u8]) -> String {
        sha256(message)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    #[test]
    fn the_examples_of_the_standard_come_out() {
        assert_eq!(
            hex(b""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(
            hex(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            hex(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        );
    }
}
