// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Copies of an object what is of interest by its class, which user space knows by its map or constructor.

// Tells a map from another that V8 puts in its place once it has died. User space computes the same.
static __always_inline u64 fingerprint(struct scratch *s)
{
    return 3 * s->map[MAP_CONSTRUCTOR] + s->map[MAP_DESCRIPTORS] + (s->map[MAP_FLAGS] & OWN_DESCRIPTORS);
}

// What is copied of objects with this map: its own fields, else those of the map it came from, up to its constructor. What
// comes from a map of no interest may be of some.
static __always_inline struct fields *fields_of(struct scratch *s, u64 map)
{
    // All maps have the same.
    u64 map_of_maps = s->map[0];

    for (int hop = 0; hop < MAX_HOPS; hop++) {
        struct fields *fields = known_fields(map);
        if (fields && (!hop || fields->flags & LEADS_TO_REQUEST) &&
            (!fields->fingerprint || fields->fingerprint == fingerprint(s)))
            return fields;
        if (s->map[0] != map_of_maps)
            return 0;
        map = s->map[MAP_CONSTRUCTOR];
        if (!is_object(map) || bpf_probe_read_user(s->map, sizeof(s->map), (void *)(map - 1)))
            return 0;
    }
    return 0;
}

// Copies a field of an object, or of the array with its other properties, and follows what it holds. Fields come in order, so that
// most are in the chunk of the one before.
__noinline int copy_field(u64 of, u32 field, u32 kind)
{
    struct scratch *s = scratch();

    if (!s)
        return 0;
    u64 address = of - 1 + 8 * (field & FIELD_WORD);
    if (address - s->chunk >= 8 * (s->out[(s->chunk_at - 1) & (OUT_WORDS - 1)] >> CHUNK_SHIFT)) {
        int at = copy_words(s, address, OBJECT_WORDS);
        if (at <= 0)
            return 0;
        s->chunk = address;
        s->chunk_at = at;
    }
    u64 value = s->out[(s->chunk_at + (address - s->chunk) / 8) & (OUT_WORDS - 1)];
    enqueue(s, value, field & FIELD_IS_TEXT ? TEXT : kind);
    return 0;
}

// Copies fields of an object whose first words are at this place of `out`: the second one is the array with its other properties.
static __always_inline void copy_fields(struct scratch *s, struct fields *fields, u64 object, u32 at, u32 kind)
{
    u64 properties = s->out[(at + 1) & (OUT_WORDS - 1)];

    s->chunk = object - 1;
    s->chunk_at = at;
    for (int i = 0; i < MAX_FIELDS; i++) {
        u32 field = fields->fields[i];
        if (!field)
            break;
        copy_field(field & FIELD_OF_PROPERTIES ? properties : object, field, kind);
    }
}

// An entry of a dictionary: its text, or what it leads to, is copied where there is a rule for its name.
CALLBACK(copy_entry)
{
    struct scratch *s = scratch();

    if (!s || index >= s->capacity)
        return 1;
    u64 entry = s->entries + 8ull * ENTRY_WORDS * index;
    if (bpf_probe_read_user(s->pair, sizeof(s->pair), (void *)entry) || !is_object(s->pair[0]))
        return 0;
    struct fields *name = known_fields(s->pair[0] | OF_NAME);
    if (name)
        follow_later(s->pair[1], name->flags & LEADS_TO_REQUEST ? REQUEST : TEXT);
    return 0;
}

// The dictionary of an object, where it is small.
__noinline int copy_dictionary(u64 object)
{
    struct scratch *s = scratch();

    if (!s || !is_object(object) || s->dictionaries >= MAX_DICTIONARIES ||
        bpf_probe_read_user(s->table, sizeof(s->table), (void *)(object - 1)) || !is_small(s->table[1]) ||
        !is_small(s->table[4]))
        return 0;
    u64 words = 2 + (s->table[1] >> 32);
    u64 capacity = s->table[4] >> 32;
    u64 own_words = words - 2 - ENTRY_WORDS * capacity;
    if (capacity > MAX_CAPACITY || own_words < MIN_OWN_WORDS || own_words > MAX_OWN_WORDS)
        return 0;
    s->dictionaries++;
    s->capacity = capacity;
    s->entries = object - 1 + 8 * (2 + own_words);
    for (u32 word = 0; word < DICTIONARY_WORDS; word += MAX_CHUNK)
        if (word < words)
            copy(object - 1 + 8 * word, words - word < MAX_CHUNK ? words - word : MAX_CHUNK);
    LOOP(MAX_CAPACITY, copy_entry);
    return 0;
}

// Copies a small context; where its words are in `out`, or 0 where it is none.
__noinline int copy_context(u64 object)
{
    struct scratch *s = scratch();

    if (!s || !is_object(object))
        return 0;
    u32 before = s->used;
    int at = copy(object - 1, CONTEXT_WORDS);
    if (at <= 0)
        return 0;
    u64 length = s->out[(at + 1) & (OUT_WORDS - 1)];
    if (!is_small(length) || length >> 32 < 3 || length >> 32 > 16) {
        s->used = before;
        return 0;
    }
    s->context_words = 2 + (length >> 32);
    return at;
}

// The same once a sample, and from where the collector has moved it to.
__noinline int copy_new_context(u64 object)
{
    struct scratch *s = scratch();
    int at = s && is_new(s, object) ? copy_context(object) : 0;

    if (!s || at <= 0)
        return 0;
    meet(s, object);
    u64 map = s->out[at & (OUT_WORDS - 1)];
    if (map & 1)
        return at;
    return is_object(map | 1) ? copy(map, CONTEXT_WORDS) : 0;
}

// What the context of a function leads to.
__noinline int copy_slots(u64 object)
{
    struct scratch *s = scratch();
    int at = copy_context(object);

    if (!s || at <= 0)
        return 0;
    for (u32 slot = FIRST_SLOT; slot < CONTEXT_WORDS; slot++)
        if (slot < s->context_words)
            follow_later(s->out[(at + slot) & (OUT_WORDS - 1)], REQUEST);
    return 0;
}
