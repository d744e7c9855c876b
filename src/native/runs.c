/* Lists of an entry that torch writes with the same bytes again and again: frames, sizes, dtypes.

   The same bytes mean the same for the rest of the file, since they are numbers and memo references, and the memo only
   grows. So all but the first of each kind cost one look-up, and no value of theirs is built. */

#include "scan.h"

/* Behind a run of memo references that starts at `at`; 6 bytes have to be left for each, so that its end is there. */
static size_t references(const Scan *s, size_t at, uint32_t *count)
{
    *count = 0;
    while (s->size - at >= 6 && (s->data[at] == 'j' || s->data[at] == 'h')) {
        at += s->data[at] == 'j' ? 5 : 2;
        ++*count;
    }
    return at;
}

/* Behind a run of lists of small numbers; `at` itself where it is something else. */
static size_t shapes(const Scan *s, size_t at, uint32_t *count)
{
    size_t start = at;
    *count = 0;
    while (s->size - at >= 8 && s->data[at] == ']') {
        ++*count;
        if (s->data[++at] != '(')
            continue;
        for (at++;; ++*count) {
            size_t width = 0;
            switch (s->size - at >= 6 ? s->data[at] : 0) {
            case 'K':
                width = 2;
                break;
            case 'M':
                width = 3;
                break;
            case 'J':
                width = 5;
                break;
            case 'e':
                break;
            default:
                return start;
            }
            at += width ? width : 1;
            if (width == 0)
                break;
        }
    }
    return at;
}

static int next_reference(Scan *s, size_t *at, Slot *value)
{
    uint32_t index = s->data[*at + 1];
    if (s->data[*at] == 'j')
        memcpy(&index, s->data + *at + 1, 4);
    *at += s->data[*at] == 'j' ? 5 : 2;
    return fetch(s, index, value);
}

/* Every reference has to be there when it is met, not only when it is looked up. */
static int check_references(Scan *s, size_t at, size_t end)
{
    Slot value;
    while (at < end)
        TRY(next_reference(s, &at, &value));
    return OK;
}

static int read_frames(Scan *s, size_t at, size_t end, uint32_t *stack)
{
    uint32_t frames[MAX_FRAMES];
    size_t count = 0;
    while (at < end) {
        Slot value;
        TRY(next_reference(s, &at, &value));
        if (count < MAX_FRAMES)
            TRY(frame_of(s, &value, &frames[count++]));
    }
    return stack_of(s, frames, count, stack);
}

static int read_dtypes(Scan *s, size_t at, size_t end, uint32_t *index)
{
    size_t count = 0;
    while (at < end) {
        Slot value;
        uint32_t name;
        TRY(next_reference(s, &at, &value));
        TRY(take_dtype(s, &value, &name));
        TRY(scratch(s, count + 1));
        s->scratch[count++] = name;
    }
    return intern(&s->dtypes, s->seed, s->scratch, count * sizeof *s->scratch, index);
}

/* As entry.c interns them: the number of shapes, then each one's length and dimensions. */
static int read_sizes(Scan *s, size_t at, size_t end, uint32_t items, uint32_t *index)
{
    const uint8_t *data = s->data;
    size_t used = 1, length = 0, width;
    TRY(scratch(s, (size_t)items + 1));
    s->scratch[0] = 0;
    for (; at < end; at += width) {
        int64_t number = 0;
        int32_t wide;
        width = 1;
        switch (data[at]) {
        case ']':
            s->scratch[0]++;
            length = used++;
            s->scratch[length] = 0;
            break;
        case 'K':
            number = data[at + 1];
            width = 2;
            break;
        case 'M':
            number = data[at + 1] | data[at + 2] << 8;
            width = 3;
            break;
        case 'J':
            memcpy(&wide, data + at + 1, 4);
            number = wide;
            width = 5;
            break;
        default: /* "(" and "e" */
            break;
        }
        if (width > 1) {
            s->scratch[length]++;
            s->scratch[used++] = number;
        }
    }
    return intern(&s->sizes, s->seed, s->scratch, used * sizeof *s->scratch, index);
}

static int more_runs(Scan *s)
{
    TRY(grow((void **)&s->runs, &s->runs_room, s->runs_count + 1, sizeof *s->runs));
    if ((s->runs_count + 1) * 2 <= s->run_slots)
        return OK;
    size_t slots = s->run_slots ? s->run_slots * 2 : 256;
    uint32_t *fresh = calloc(slots, sizeof *fresh);
    if (fresh == NULL)
        return NO_MEMORY;
    for (size_t i = 0; i < s->runs_count; i++) {
        size_t place = s->runs[i].hash & (slots - 1);
        while (fresh[place])
            place = (place + 1) & (slots - 1);
        fresh[place] = (uint32_t)i + 1;
    }
    free(s->run_table);
    s->run_table = fresh;
    s->run_slots = slots;
    return OK;
}

/* Reads a whole list at `position`, the byte behind "]", and moves behind it; `found` is 0 where it is no such list. */
int take_run(Scan *s, RunKind kind, size_t *position, int *found, uint64_t *run)
{
    const uint8_t *data = s->data;
    size_t start = *position + 1;
    uint32_t items;
    *found = 0;
    if (*position >= s->size || data[*position] != '(')
        return OK;
    size_t end = kind == R_SIZES ? shapes(s, start, &items) : references(s, start, &items);
    if (end >= s->size || data[end] != 'e' || end == start || end - start > UINT32_MAX / 2)
        return OK;
    TRY(more_runs(s));
    uint32_t length = (uint32_t)(end - start);
    uint64_t hash = hash_bytes(s->seed + kind, data + start, length);
    size_t place = hash & (s->run_slots - 1);
    *found = 1;
    *position = end + 1;
    s->values += items;
    for (int probe = 0; s->run_table[place]; probe++) {
        *run = s->run_table[place] - 1;
        const Run *known = &s->runs[*run];
        if (known->hash == hash && known->length == length && known->kind == kind &&
            same_bytes(data + known->at, data + start, length))
            return OK;
        if (probe == MAX_PROBES)
            return NOT_MINE;
        place = (place + 1) & (s->run_slots - 1);
    }
    if (s->runs_count >= INT32_MAX)
        return NOT_MINE;
    if (kind != R_SIZES)
        TRY(check_references(s, start, end));
    *run = s->runs_count++;
    s->runs[*run] = (Run){hash, start, length, UNREAD, kind == R_FRAMES ? 0 : items, (uint8_t)kind};
    s->run_table[place] = (uint32_t)*run + 1;
    return OK;
}

/* What a run stands for. It is read when the first entry has it: tables are in the order of the entries' values. */
int run_index(Scan *s, uint64_t run, uint32_t *index)
{
    const Run known = s->runs[run];
    *index = known.index;
    if (known.index != UNREAD)
        return OK;
    size_t start = (size_t)known.at, end = start + known.length;
    if (known.kind == R_FRAMES)
        TRY(read_frames(s, start, end, index));
    else if (known.kind == R_DTYPES)
        TRY(read_dtypes(s, start, end, index));
    else
        TRY(read_sizes(s, start, end, known.items, index));
    s->runs[run].index = *index;
    return OK;
}
