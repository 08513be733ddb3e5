// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// walk.bpf.c in user space: the same walk over the memory that a caller can read. src/sys/walk.rs calls it.

#define USER_SPACE
#include "walk.bpf.c"

// Who reads memory and knows classes: `struct Callbacks` of walk.rs.
struct callbacks {
    void *context;
    int (*read)(void *context, void *to, __u32 bytes, __u64 from);
    int (*fields)(void *context, __u64 key, struct fields *found);
};

static __thread struct scratch *current;
static __thread const struct callbacks *callbacks;
static __thread struct fields found;

static long bpf_probe_read_user(void *to, __u32 bytes, const void *from)
{
    long failed = callbacks->read(callbacks->context, to, bytes, (__u64)from);

    // As the kernel does.
    if (failed)
        __builtin_memset(to, 0, bytes);
    return failed;
}

static struct scratch *scratch(void)
{
    return current;
}

static struct fields *known_fields(__u64 key)
{
    return callbacks->fields(callbacks->context, key, &found) ? &found : 0;
}

__u64 nodespy_scratch_bytes(void)
{
    return sizeof(struct scratch);
}

const __u64 *nodespy_walked_words(const struct scratch *s)
{
    return s->out;
}

// Returns how many words were copied.
__u32 nodespy_walk(struct scratch *s, const struct callbacks *with, const struct options *options, __u64 slot,
                   __u64 stack_pointer, __u64 frame_pointer)
{
    struct options wanted = *options;

    current = s;
    callbacks = with;
    __u32 used = walk_stack(s, &wanted, slot, stack_pointer, frame_pointer);
    current = 0;
    callbacks = 0;
    return used > MAX_WORDS + 1 ? 0 : used;
}
