// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Finds what may be the request that a sample was taken for: arguments of functions, variables of closures.

// Whether an object may be a request, and was not looked at.
static __always_inline int may_be_request(struct scratch *s, u64 object, u32 is_field)
{
    // What is no request as an argument may lead to one as a field.
    u64 mark = is_field ? object + 3 : object | 2;

    if (!is_object(object) || (s->has_request && !is_field) || s->looks >= MAX_LOOKS || !is_new(s, mark))
        return 0;
    meet(s, mark);
    s->looks++;
    return 1;
}

// Copies what says that an object is a request, and which. Its first words are at this place of `out`. Of one whose class is not
// known its map is copied, so that user space learns it. The first request is the one; what a field leads to belongs to it.
// Returns whether the object is of interest.
static __always_inline int look_at_words(struct scratch *s, u64 object, u32 at, u32 is_field)
{
    u64 map = s->out[at & (OUT_WORDS - 1)], properties = s->out[(at + 1) & (OUT_WORDS - 1)];
    // Most objects of a sample have one of a few maps.
    u64 mark = map + 4;
    if (!is_object(map) || (!is_field && !is_new(s, mark)) ||
        bpf_probe_read_user(s->map, sizeof(s->map), (void *)(map - 1)))
        return 0;
    u32 type = s->map[1] >> 32 & 0xffff;
    // A field may be an array, of which user space knows that it is wanted.
    if (!is_field && (type < FIRST_OBJECT_TYPE || type > LAST_OBJECT_TYPE)) {
        meet(s, mark);
        return 0;
    }
    u64 has_dictionary = s->map[MAP_FLAGS] & DICTIONARY_MAP;
    u32 before = s->used;
    append(s, map - 1, s->map, MAP_WORDS);
    struct fields *fields = fields_of(s, map);
    if (!fields)
        return 1;
    if (!fields->fields[0] && !(fields->flags & (IS_DICTIONARY | IS_CONTEXT))) {
        s->used = before;
        meet(s, mark);
        return 0;
    }
    // It may be any object without a prototype: another request is looked for. Or a request like others but for its dictionary, for
    // which V8 may have made the map just now.
    if (fields->flags & IS_DICTIONARY || (has_dictionary && fields->flags & LEADS_TO_REQUEST)) {
        follow_later(properties, DICTIONARY);
        return 1;
    }
    if (fields->flags & IS_CONTEXT) {
        follow_later(object, SLOTS);
        return 1;
    }
    copy_fields(s, fields, object, at, REQUEST);
    if (!is_field)
        s->has_request |= fields->flags & LEADS_TO_REQUEST;
    return 1;
}

// The same for an object whose words may be copied already; else the place is 0.
__noinline int look_at(u64 object, u32 place, u32 is_field)
{
    struct scratch *s = scratch();

    if (!s || !may_be_request(s, object, is_field))
        return 0;
    u32 before = s->used;
    int at = place;
    if (!at)
        at = copy(object - 1, OBJECT_WORDS);
    if (at > 0 && !look_at_words(s, object, at, is_field))
        s->used = before;
    return 0;
}

// The receiver and the first arguments of a suspended function.
__noinline int look_at_kept(u64 receiver, u64 registers)
{
    struct scratch *s = scratch();

    if (!s || !s->wants_requests || s->has_request || !is_object(registers))
        return 0;
    look_at(receiver, 0, 0);
    int at = copy(registers - 1 + 16, KEPT_ARGUMENTS);
    if (at <= 0)
        return 0;
    for (u32 i = 0; i < KEPT_ARGUMENTS; i++)
        look_at(s->out[(at + i) & (OUT_WORDS - 1)], 0, 0);
    return 0;
}

// What the functions around one have in their variables. Returns the context around this one.
__noinline u64 look_at_context(u64 object)
{
    struct scratch *s = scratch();

    // Not the mark of an object that was looked at: a context may have been taken for one.
    if (!s || !is_new(s, object - 1))
        return 0;
    meet(s, object - 1);
    int at = copy_context(object);
    if (at <= 0)
        return 0;
    for (u32 slot = FIRST_SLOT; slot < LAST_SLOT; slot++)
        if (slot < s->context_words)
            look_at(s->out[(at + slot) & (OUT_WORDS - 1)], 0, 0);
    return s->out[(at + 3) & (OUT_WORDS - 1)];
}

__noinline int look_at_contexts(u64 context)
{
    struct scratch *s = scratch();

    if (!s)
        return 0;
    for (int level = 0; level < MAX_CONTEXTS; level++)
        if (context && s->wants_requests && !s->has_request)
            context = look_at_context(context);
    return 0;
}

// The receiver and the first arguments of a function in a frame.
__noinline int look_at_arguments(void)
{
    struct scratch *s = scratch();

    if (!s)
        return 0;
    u64 start = s->frame + 16;
    // Versions differ in whether the receiver is counted.
    u64 count = s->words[3] + 1;
    int at = window_at(start, ARGUMENTS);
    if (at < 0)
        return 0;
    __builtin_memcpy(s->arguments, &s->window[at & (WINDOW_WORDS - 1)], sizeof(s->arguments));
    u32 before = s->used;
    for (u32 i = 0; i < ARGUMENTS; i++)
        if (i < count)
            look_at(s->arguments[i], 0, 0);
    // Of most frames none is of interest: the room is for further frames.
    if (s->used != before && (start + sizeof(s->arguments) > s->stack_end || start < s->stack_start))
        append(s, start, s->arguments, ARGUMENTS);
    if (s->held < MAX_HELD)
        look_at_contexts(s->words[5]);
    return 0;
}
