//! Where libuv has its default loop and its thread pool: variables of its `loop.c` and `threadpool.c`,
//! by their symbols.

use nodespy_model::{LibuvAddresses, PoolAddresses};

/// The variables and functions, by the names that libuv gives them.
const NAMES: [&str; 12] = [
    "default_loop_struct",
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

/// Whether a symbol may be one of libuv's.
pub(crate) fn is_of_libuv(name: &str) -> bool {
    NAMES.contains(&name)
}

/// The addresses in a process, whose image lies so far from where it is linked to; none when it was
/// stripped of them. Names as general as these may be there twice: those next to `wq` are meant.
pub(crate) fn addresses(symbols: &[(String, u64, u64)], bias: u64) -> Option<LibuvAddresses> {
    let (_, queue, _) = symbols.iter().find(|(name, ..)| name == "wq")?;
    let of = |name: &str| {
        let named = symbols.iter().filter(|(found, ..)| found == name);
        let addresses = named.map(|(_, address, _)| *address);
        let address = addresses.min_by_key(|address| address.abs_diff(*queue))?;
        Some(address.wrapping_add(bias))
    };
    Some(LibuvAddresses {
        default_loop: of("default_loop_struct")?,
        pool: PoolAddresses {
            queue: of("wq")?,
            slow_queue: of("slow_io_pending_wq")?,
            slow_message: of("run_slow_work_message")?,
            exit_message: of("exit_message")?,
            threads: of("nthreads")?,
            idle_threads: of("idle_threads")?,
            slow_running: of("slow_io_work_running")?,
            fs_work: of("uv__fs_work")?,
            getaddrinfo_work: of("uv__getaddrinfo_work")?,
            getnameinfo_work: of("uv__getnameinfo_work")?,
            queue_work: of("uv__queue_work")?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_variables_with_one_name_the_one_of_the_pool_is_meant() {
        let symbol = |name: &str, address| (name.to_owned(), address, 8);
        let mut symbols: Vec<_> = (0..)
            .zip(NAMES)
            .map(|(number, name)| symbol(name, 0x5000 + 16 * number))
            .collect();
        symbols.insert(0, symbol("nthreads", 0x100));
        symbols.push(symbol("nthreads", 0x9000));
        let found = addresses(&symbols, 0x10_0000).unwrap();
        assert_eq!(found.pool.threads, 0x10_5050);
        assert_eq!(found.default_loop, 0x10_5000);
        symbols.retain(|(name, ..)| name != "uv__fs_work");
        assert_eq!(addresses(&symbols, 0), None);
    }
}
