//! Where the thread pools of processes are, by the symbols of the program each of them runs.

use nodespy_capture::target::proc;
use nodespy_capture::{LiveOrigin, PoolPlaces, ThreadPools};
use nodespy_model::{FastMap, Mapping, Origin};
use nodespy_symbolize::pool_symbols;

/// Reads the pools of processes, each found once.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    pub(crate) pools: ThreadPools,
    /// By file and where it is mapped: symbols are many megabytes.
    known: FastMap<(u64, u64), Option<PoolPlaces>>,
}

impl Pools {
    /// Reads the pool of a process from now on, if its program has the symbols.
    pub(crate) fn watch(&mut self, pid: u32) {
        let program = proc::exe(pid).unwrap_or_default();
        let mappings = proc::code_mappings(pid).unwrap_or_default();
        let Some(mapping) = mappings
            .iter()
            .find(|mapping| program.to_str() == Some(&mapping.path))
        else {
            return;
        };
        let key = (mapping.file.inode, mapping.start);
        let places = *self.known.entry(key).or_insert_with(|| places_in(mapping));
        if let Some(places) = places {
            self.pools.watch(pid, places);
        }
    }
}

fn places_in(mapping: &Mapping) -> Option<PoolPlaces> {
    let image = LiveOrigin::new().open_image(mapping).ok()?;
    let symbols = pool_symbols(image, mapping)?;
    let of = |name: &str| symbols.get(name).copied();
    Some(PoolPlaces {
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
    })
}
