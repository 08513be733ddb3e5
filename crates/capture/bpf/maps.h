// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What user space and the program tell each other: eBPF maps, and what is asked of them.

// One for each CPU, as many as user space says there are: maps that are the kernel's own per CPU end at 32 KiB.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct scratch);
} scratches SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct options);
} options SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, u64);
    __type(value, struct fields);
} classes SEC(".maps");

// Where threads have the Map of their stores: a word of their isolate.
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, u32);
    __type(value, u64);
} store_slots SEC(".maps");

// An event of each CPU whose records go into the ring of samples.
struct {
    __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
    __uint(key_size, sizeof(u32));
    __uint(value_size, sizeof(u32));
} outputs SEC(".maps");

// Processes whose samples are dropped, where events are of whole CPUs: a bit for each pid. Too short for any where events are
// of threads. A process that is not judged yet is let through: user space judges it, in the order of forks.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} others SEC(".maps");

// The pid namespace that pids are of; an inode of 0 for the initial one, and where no process is dropped.
struct pid_namespace {
    u64 device, inode;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct pid_namespace);
} pid_namespaces SEC(".maps");

// Whether the sample is of a process that is recorded, or may be. What idles, and what has no number in the namespace, is not.
static __always_inline int is_wanted(void)
{
    u32 first = 0;
    u32 pid = bpf_get_current_pid_tgid() >> 32;
    struct pid_namespace *namespace = bpf_map_lookup_elem(&pid_namespaces, &first);

    if (namespace && namespace->inode) {
        struct bpf_pidns_info inner = {};

        if (bpf_get_ns_current_pid_tgid(namespace->device, namespace->inode, &inner, sizeof(inner)))
            return 0;
        pid = inner.tgid;
    }
    if (!pid)
        return 0;
    u32 at = pid / 64;
    u64 *word = bpf_map_lookup_elem(&others, &at);
    return !word || !(*word >> pid % 64 & 1);
}

// Where the thread has its stores; 0 where that is not known, or not wanted.
static __always_inline u64 store_slot(struct options *wanted)
{
    u32 tid = bpf_get_current_pid_tgid();

    if (!wanted->wants_stores)
        return 0;
    if (wanted->inode) {
        struct bpf_pidns_info inner = {};

        if (bpf_get_ns_current_pid_tgid(wanted->device, wanted->inode, &inner, sizeof(inner)))
            return 0;
        tid = inner.pid;
    }
    u64 *slot = bpf_map_lookup_elem(&store_slots, &tid);
    return slot ? *slot : 0;
}

static __always_inline struct scratch *scratch(void)
{
    u32 cpu = bpf_get_smp_processor_id();

    return bpf_map_lookup_elem(&scratches, &cpu);
}

static __always_inline struct fields *known_fields(u64 key)
{
    return bpf_map_lookup_elem(&classes, &key);
}
