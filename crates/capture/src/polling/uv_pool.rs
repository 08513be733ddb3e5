//! libuv's thread pool in the memory of a process: two queues of jobs and a few counters. What jobs
//! look like is part of libuv's interface since 1.0, and was the same in 1.43 to 1.52.

use nodespy_model::PoolAddresses;

use super::memory::Memory;

/// Longer queues are not walked to their end.
const MAX_JOBS: usize = 4096;
/// A queue changes while it is walked: how often it is walked again then.
const ATTEMPTS: u32 = 3;
/// More jobs than this are not asked what they are: the rest is like them.
const MAX_KINDS_READ: usize = 64;
/// A pool has no more threads than this (`MAX_THREADPOOL_SIZE`).
const MAX_THREADS: u32 = 1024;

/// From a job's place in the queue to its parts.
const WORK_FUNCTION: i64 = -24;
const FS_TYPE: i64 = -296;
const FS_PATH: i64 = -256;
const HOST_NAME: i64 = 32;
/// `node::ThreadPoolWork::type_`, from Node 18 on.
const NODE_WORK_TYPE: i64 = 16;

/// `uv_fs_type`, in its order from `UV_FS_CUSTOM` on.
const FS_NAMES: [&str; 37] = [
    "custom",
    "open",
    "close",
    "read",
    "write",
    "sendfile",
    "stat",
    "lstat",
    "fstat",
    "ftruncate",
    "utime",
    "futime",
    "access",
    "chmod",
    "fchmod",
    "fsync",
    "fdatasync",
    "unlink",
    "rmdir",
    "mkdir",
    "mkdtemp",
    "rename",
    "scandir",
    "link",
    "symlink",
    "readlink",
    "chown",
    "fchown",
    "realpath",
    "copyFile",
    "lchown",
    "opendir",
    "readdir",
    "closedir",
    "statfs",
    "mkstemp",
    "lutime",
];

/// What was read of a pool.
#[derive(Debug, Clone)]
pub(super) struct PoolReading {
    pub(super) threads: u32,
    pub(super) idle: u32,
    pub(super) slow_running: u32,
    pub(super) fast_jobs: Vec<Job>,
    pub(super) slow_jobs: Vec<Job>,
}

/// A job that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    /// `fs.open`, `dns.lookup`, `crypto`.
    pub(super) kind: String,
    /// A path or a host name; empty where there is none.
    pub(super) about: String,
}

impl PoolReading {
    /// Reads the pool of a process; none when it is not in use, or changed too fast.
    pub(super) fn of(pid: u32, at: &PoolAddresses) -> Option<Self> {
        let memory = Memory { pid };
        let threads = memory.u32(at.threads)?;
        if threads == 0 || threads > MAX_THREADS {
            return None;
        }
        let (fast, slow) = (0..ATTEMPTS)
            .find_map(|_| Some((walk(memory, at.queue)?, walk(memory, at.slow_queue)?)))?;
        let is_job = |node: &u64| *node != at.slow_message && *node != at.exit_message;
        let fast: Vec<u64> = fast.into_iter().filter(is_job).collect();
        Some(Self {
            threads,
            idle: memory.u32(at.idle_threads)?.min(threads),
            slow_running: memory.u32(at.slow_running)?,
            fast_jobs: jobs(memory, at, &fast),
            slow_jobs: jobs(memory, at, &slow),
        })
    }

    /// How many threads run a job.
    pub(super) fn busy(&self) -> u32 {
        self.threads.saturating_sub(self.idle)
    }

    /// How many jobs wait.
    pub(super) fn waiting(&self) -> usize {
        self.fast_jobs.len() + self.slow_jobs.len()
    }
}

fn jobs(memory: Memory, at: &PoolAddresses, nodes: &[u64]) -> Vec<Job> {
    let mut jobs: Vec<Job> = nodes
        .iter()
        .take(MAX_KINDS_READ)
        .map(|node| Job::read(memory, at, *node))
        .collect();
    let unread = nodes.len() - jobs.len();
    let like: Vec<Job> = jobs.iter().cycle().take(unread).cloned().collect();
    jobs.extend(like);
    jobs
}

impl Job {
    fn read(memory: Memory, at: &PoolAddresses, node: u64) -> Self {
        let place = |offset: i64| node.wrapping_add_signed(offset);
        let text_at = |offset: i64| {
            let text = memory.u64(place(offset)).filter(|pointer| *pointer != 0);
            text.and_then(|pointer| memory.text(pointer))
                .unwrap_or_default()
        };
        let work = memory.u64(place(WORK_FUNCTION)).unwrap_or(0);
        let (kind, about) = if work == at.fs_work {
            let number = memory.u32(place(FS_TYPE)).unwrap_or(u32::MAX) as usize;
            let name = FS_NAMES.get(number).copied().unwrap_or("other");
            (format!("fs.{name}"), text_at(FS_PATH))
        } else if work == at.getaddrinfo_work {
            ("dns.lookup".to_owned(), text_at(HOST_NAME))
        } else if work == at.getnameinfo_work {
            ("dns.lookupService".to_owned(), String::new())
        } else if work == at.queue_work {
            let name = text_at(NODE_WORK_TYPE);
            let is_name = (2..=16).contains(&name.len())
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            let name = if is_name {
                name
            } else {
                "native work".to_owned()
            };
            (name, String::new())
        } else {
            ("other work".to_owned(), String::new())
        };
        Self { kind, about }
    }
}

/// The members of a list that leads back to its head; none when it did not stand still.
fn walk(memory: Memory, head: u64) -> Option<Vec<u64>> {
    let mut nodes = Vec::new();
    let mut node = memory.u64(head)?;
    let mut before = head;
    while node != head {
        if nodes.len() >= MAX_JOBS {
            return Some(nodes);
        }
        let next = memory.u64(node)?;
        let previous = memory.u64(node.wrapping_add(8))?;
        if previous != before {
            return None;
        }
        nodes.push(node);
        (before, node) = (node, next);
    }
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two words that lead on and back.
    fn address(node: &[u64; 2]) -> u64 {
        std::ptr::from_ref(node) as u64
    }

    #[test]
    fn a_queue_is_walked_to_its_head_and_a_torn_one_is_not() {
        let mut nodes = Box::new([[0u64; 2]; 3]);
        let [head, one, two] = [0, 1, 2].map(|at| address(&nodes[at]));
        nodes[0] = [one, two];
        nodes[1] = [two, head];
        nodes[2] = [head, one];
        let memory = Memory {
            pid: std::process::id(),
        };
        assert_eq!(walk(memory, head), Some(vec![one, two]));
        nodes[2][1] = head;
        assert_eq!(walk(memory, head), None);
        nodes[1] = [8, head];
        assert_eq!(walk(memory, head), None);
    }
}
