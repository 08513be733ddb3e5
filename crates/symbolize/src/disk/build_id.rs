//! Build-ids: what proves that a file is the one that was recorded.

use std::fs::File;
use std::os::unix::fs::FileExt;

use nodespy_model::build_id;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ReadCache};

/// The largest vdso that is read (Linux 6.18 has 16 KiB).
const VDSO_LIMIT_BYTES: u64 = 1 << 20;
/// Shorter ids prove nothing.
const SHORTEST_BYTES: usize = 8;
/// What perf records of an id; older versions fill shorter ones with zeros.
const RECORDED_BYTES: usize = 20;

/// The build-id of an ELF file.
pub(super) fn build_id_of(file: &File) -> Option<Vec<u8>> {
    let mut magic = [0; 4];
    file.read_exact_at(&mut magic, 0).ok()?;
    if magic != *b"\x7fELF" {
        return None;
    }
    let cache = ReadCache::new(file.try_clone().ok()?);
    let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    elf.build_id().ok().flatten().map(<[u8]>::to_vec)
}

/// Whether a recorded build-id is the one found in a file.
pub(super) fn is_same(recorded: &[u8], found: &[u8]) -> bool {
    let (shorter, longer) = match recorded.len() <= found.len() {
        true => (recorded, found),
        false => (found, recorded),
    };
    let is_cut = recorded.len() == RECORDED_BYTES && found.len() > RECORDED_BYTES;
    let rest_is_zero = longer[shorter.len()..].iter().all(|&byte| byte == 0);
    shorter.len() >= SHORTEST_BYTES
        && longer.starts_with(shorter)
        && (is_cut || (rest_is_zero && recorded.len() >= found.len()))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The build-id of the running kernel.
pub(super) fn kernel_build_id() -> Option<Vec<u8>> {
    let notes = std::fs::read("/sys/kernel/notes").ok()?;
    build_id::in_notes(&notes).map(<[u8]>::to_vec)
}

/// The vdso that this process has itself, if it is the one with this build-id.
pub(super) fn own_vdso(build_id: &[u8]) -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, rest) = line.split_once('-')?;
    let end = rest.split(' ').next()?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = (hex(start)?, hex(end)?);
    let size = end.checked_sub(start)?.min(VDSO_LIMIT_BYTES);
    let mut bytes = vec![0; size as usize];
    let memory = File::open("/proc/self/mem").ok()?;
    memory.read_exact_at(&mut bytes, start).ok()?;
    let elf = ElfFile64::<Endianness, _>::parse(bytes.as_slice()).ok()?;
    let found = elf.build_id().ok().flatten()?;
    is_same(build_id, found).then(|| bytes.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_build_id_proves_a_file() {
        let id: Vec<u8> = (1..=20).collect();
        assert!(is_same(&id, &id));
        assert!(!is_same(&id, &id[..16]));
        assert!(!is_same(&id[..16], &id));
        assert!(!is_same(&[], &[]));
        assert!(!is_same(&id[..4], &id[..4]));
        // perf before 5.12 fills a short id with zeros; a long one is cut.
        let mut padded = id[..16].to_vec();
        padded.extend([0; 4]);
        assert!(is_same(&padded, &id[..16]));
        let long: Vec<u8> = (1..=32).collect();
        assert!(is_same(&long[..20], &long));
    }
}
