// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The stores of AsyncLocalStorage: texts, Maps, and the objects that have them.

// The characters of a string, or the strings that have them: one, or the two of a concatenation; those of an external string are
// outside of the heap, behind its resource.
__noinline int copy_text(u64 object)
{
    struct scratch *s = scratch();

    if (!s || !is_object(object) || !is_new(s, object))
        return 0;
    meet(s, object);
    int at = copy(object - 1, OBJECT_WORDS);
    if (at <= 0)
        return 0;
    u64 *header = &s->out[(at - 1) & (OUT_WORDS - 1)];
    u64 words = 2 + ((header[2] >> 32) + 7) / 8, copied = header[0] >> CHUNK_SHIFT;
    words = words < SHORTEST_TEXT ? SHORTEST_TEXT : words > OBJECT_WORDS ? OBJECT_WORDS : words;
    // What follows it is none of it.
    if (copied > words) {
        header[0] = (object - 1) | words << CHUNK_SHIFT;
        s->used = at + words;
    }
    u64 first = header[3], second = header[4];
    follow_later(first, TEXT);
    follow_later(second, TEXT);
    if (is_address(first) && !(first & 7) && is_address(second))
        copy(second, words - 2);
    return 0;
}

// The table of a Map, and what its values are.
__noinline int copy_table(u64 table)
{
    struct scratch *s = scratch();

    if (!s || !is_object(table) || bpf_probe_read_user(s->table, sizeof(s->table), (void *)(table - 1)) ||
        !is_small(s->table[2]) || !is_small(s->table[3]) || !is_small(s->table[4]))
        return 0;
    u64 buckets = s->table[4] >> 32;
    u64 entries = (s->table[2] >> 32) + (s->table[3] >> 32);
    if (buckets > MAX_BUCKETS || entries > MAX_ENTRIES)
        return 0;
    u64 start = TABLE_START + buckets;
    for (u32 word = 0; word < TABLE_WORDS; word += MAX_CHUNK)
        if (word < start + ENTRY_WORDS * entries)
            copy(table - 1 + 8 * word, MAX_CHUNK);
    for (u32 entry = 0; entry < MAX_ENTRIES; entry++) {
        u64 value = 0;
        if (entry < entries &&
            !bpf_probe_read_user(&value, sizeof(value), (void *)(table - 1 + 8 * (start + ENTRY_WORDS * entry + 1))))
            follow_later(value, STORE);
    }
    return 0;
}

// Copies what a store, or something in one, says, as far as user space knows its class; else its map, so that it learns it.
__noinline int look_at_store(u64 object)
{
    struct scratch *s = scratch();
    u64 map = 0;

    if (!s || !is_object(object) || s->store_looks >= MAX_STORE_LOOKS || !is_new(s, object ^ 3))
        return 0;
    meet(s, object ^ 3);
    if (bpf_probe_read_user(&map, sizeof(map), (void *)(object - 1)) || !is_object(map) ||
        bpf_probe_read_user(s->map, sizeof(s->map), (void *)(map - 1)))
        return 0;
    if ((s->map[1] >> 32 & 0xffff) < FIRST_NONSTRING_TYPE)
        return copy_text(object);
    struct fields *fields = known_fields(map | OF_STORE);
    if (fields && fields->fingerprint != fingerprint(s))
        fields = 0;
    if (fields && !fields->fields[0] && !fields->flags)
        return 0;
    s->store_looks++;
    copy(map - 1, MAP_WORDS);
    int at = copy(object - 1, OBJECT_WORDS);
    if (!fields || at <= 0)
        return 0;
    if (fields->flags & IS_MAP)
        return copy_table(s->out[(at + MAP_TABLE) & (OUT_WORDS - 1)]);
    copy_fields(s, fields, object, at, STORE);
    return 0;
}

// What a frame has that may have stores, or be one. Text is neither.
__noinline int look_at_scope(u64 object)
{
    struct scratch *s = scratch();
    u64 map = 0, type = 0;

    if (!s || !is_object(object) || bpf_probe_read_user(&map, sizeof(map), (void *)(object - 1)) || !is_object(map) ||
        bpf_probe_read_user(&type, sizeof(type), (void *)(map + 7)) || (type >> 32 & 0xffff) < FIRST_RESOURCE_TYPE)
        return 0;
    return look_at_store(object);
}

// Before Node 24 what a callback was made for has the stores: an object that Node's own functions have in their frames, as
// receiver or argument. Which they are user space knows.
__noinline int note_scope(void)
{
    struct scratch *s = scratch();

    if (!s || s->scopes >= MAX_SCOPES)
        return 0;
    u64 start = s->frame + 16;
    s->scopes++;
    int at = window_at(start, SCOPE_WORDS);
    if (at < 0)
        return 0;
    __builtin_memcpy(s->scope, &s->window[at & (WINDOW_WORDS - 1)], sizeof(s->scope));
    if (start + sizeof(s->scope) > s->stack_end || start < s->stack_start)
        append(s, start, s->scope, SCOPE_WORDS);
    for (u32 i = 0; i < SCOPE_WORDS; i++)
        follow_later(s->scope[i], SCOPE);
    return 0;
}

// The stores of the thread, where it keeps them itself: from Node 24 on.
static __always_inline void follow_stores(struct scratch *s, u64 slot)
{
    int at = slot ? copy(slot, 1) : 0;

    if (at > 0)
        follow_later(s->out[at & (OUT_WORDS - 1)], STORE);
}
