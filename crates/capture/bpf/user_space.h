// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What walk.bpf.c takes from the kernel, for user space.

typedef unsigned long long __u64;
typedef unsigned int __u32;
typedef unsigned char __u8;

#define NO_BPF_LOOP
#define __always_inline inline __attribute__((always_inline))
// Nothing else of the program sees these functions.
#define __noinline static __attribute__((noinline))

struct scratch;
struct fields;

// Reads memory of the process; 0 where all of it was read.
static long bpf_probe_read_user(void *to, __u32 bytes, const void *from);
static struct scratch *scratch(void);
static struct fields *known_fields(__u64 key);
