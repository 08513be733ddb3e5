//! Where a process has what libuv keeps to itself.

/// Addresses of libuv's variables and functions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LibuvAddresses {
    /// The event loop of the main thread, `default_loop_struct`.
    pub default_loop: u64,
    /// The thread pool.
    pub pool: PoolAddresses,
}

/// Those of its thread pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolAddresses {
    /// The queue of jobs, `wq`.
    pub queue: u64,
    /// The queue of slow ones, `slow_io_pending_wq`.
    pub slow_queue: u64,
    /// What stands in the first queue for the second, `run_slow_work_message`.
    pub slow_message: u64,
    /// What ends the threads, `exit_message`.
    pub exit_message: u64,
    /// `nthreads`.
    pub threads: u64,
    /// `idle_threads`.
    pub idle_threads: u64,
    /// `slow_io_work_running`.
    pub slow_running: u64,
    /// `uv__fs_work`.
    pub fs_work: u64,
    /// `uv__getaddrinfo_work`.
    pub getaddrinfo_work: u64,
    /// `uv__getnameinfo_work`.
    pub getnameinfo_work: u64,
    /// `uv__queue_work`.
    pub queue_work: u64,
}
