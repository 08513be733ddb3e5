//! Where libuv's thread pool is: the variables of its `threadpool.c`, by their symbols.

use nodespy_model::{FastMap, ImageBytes, Mapping};

use crate::elf::{Elf, data_symbols, function_symbols};

/// The variables and functions, by the names that libuv gives them.
const NAMES: [&str; 11] = [
    "wq",
    "slow_io_pending_wq",
    "run_slow_work_message",
    "exit_message",
    "nthreads",
    "idle_threads",
    "slow_io_work_running",
    "uv__fs_work",
    "uv__getaddrinfo_work",
    "uv__getnameinfo_work",
    "uv__queue_work",
];

/// The addresses of these symbols in a process that has the image mapped so; none when it was
/// stripped of them. Names as general as these may be there twice: those next to `wq` are meant.
pub fn pool_symbols(
    mut image: ImageBytes,
    mapping: &Mapping,
) -> Option<FastMap<&'static str, u64>> {
    let elf = Elf::read(&mut image)?;
    let bias = mapping
        .start
        .wrapping_sub(elf.address_of_offset(mapping.file_offset)?);
    let is_wanted = |name: &str| NAMES.contains(&name);
    let mut found = data_symbols(&mut image, is_wanted);
    found.extend(function_symbols(&mut image, is_wanted));
    let (_, queue, _) = found.iter().find(|(name, _, _)| name == "wq")?;
    let nearest = |name: &'static str| {
        let named = found.iter().filter(|(found, _, _)| found == name);
        let addresses = named.map(|(_, address, _)| *address);
        let address = addresses.min_by_key(|address| address.abs_diff(*queue))?;
        Some((name, address.wrapping_add(bias)))
    };
    NAMES.into_iter().map(nearest).collect()
}
