/* Stacks, kept as a tree of frames and their callers, for most stacks of a program share their outer frames.

   torch writes a stack as a run of memo references. The same bytes mean the same stack for the rest of the file, since
   the memo only grows; so all but the first of each kind cost one look-up. Frames are texts once, for somebody to ask. */

#include "scan.h"

static int frame_text(Scan *s, const Slot *value, int64_t *index)
{
    const uint8_t *text;
    size_t length;
    uint32_t found;
    TRY(name_of(s, value, &text, &length));
    TRY(intern(&s->frame_texts, s->seed, text, length, &found));
    *index = found;
    return OK;
}

/* A frame is three numbers: the text of its name, of its file (-1: the name is all there is), and the line. */
static int frame_of(Scan *s, const Slot *value, uint32_t *frame)
{
    int64_t parts[3] = {0, -1, 0};
    if (value->tag != T_DICT) {
        TRY(frame_text(s, value, &parts[0]));
        return intern(&s->frames, s->seed, parts, sizeof parts, frame);
    }
    Node *node = &s->nodes[value->v.at];
    if (node->frame) {
        *frame = node->frame - 1;
        return OK;
    }
    const Slot *name = NULL, *file = NULL, *line = NULL;
    const Slot *items = s->items + node->start;
    for (size_t i = 0; i + 1 < node->count; i += 2) {
        if (items[i].tag != T_TEXT)
            continue;
        if (items[i].field == F_NAME)
            name = &items[i + 1];
        else if (items[i].field == F_FILENAME)
            file = &items[i + 1];
        else if (items[i].field == F_LINE)
            line = &items[i + 1];
    }
    TRY(frame_text(s, name, &parts[0]));
    TRY(frame_text(s, file, &parts[1]));
    TRY(integer_of(s, line, 0, &parts[2]));
    TRY(intern(&s->frames, s->seed, parts, sizeof parts, frame));
    node->frame = *frame + 1;
    return OK;
}

/* The index of a stack of frames, innermost first. */
static int stack_of(Scan *s, const uint32_t *frames, size_t count, uint32_t *stack)
{
    uint32_t node = 0;
    for (size_t i = count; i-- > 0;) {
        uint32_t link[2] = {frames[i], i + 1 == count ? 0 : node + 1};
        TRY(intern(&s->tree, s->seed, link, sizeof link, &node));
    }
    return intern(&s->leaves, s->seed, &node, sizeof node, stack);
}

int take_frames(Scan *s, const Slot *value, int32_t *stack)
{
    *stack = -1;
    if (value == NULL)
        return OK;
    if (value->tag == T_STACK) {
        *stack = (int32_t)value->v.at;
        return OK;
    }
    if (value->tag != T_LIST && value->tag != T_TUPLE)
        return OK;
    const Node *node = &s->nodes[value->v.at];
    size_t count = node->count < MAX_FRAMES ? node->count : MAX_FRAMES;
    if (count == 0)
        return OK;
    uint32_t frames[MAX_FRAMES], found;
    for (size_t i = 0; i < count; i++)
        TRY(frame_of(s, &s->items[node->start + i], &frames[i]));
    TRY(stack_of(s, frames, count, &found));
    *stack = (int32_t)found;
    return OK;
}

static int resolve(Scan *s, size_t position, size_t end, uint32_t *stack)
{
    uint32_t frames[MAX_FRAMES];
    size_t count = 0;
    while (position < end) {
        uint32_t index = s->data[position + 1];
        if (s->data[position] == 'j')
            memcpy(&index, s->data + position + 1, 4);
        position += s->data[position] == 'j' ? 5 : 2;
        Slot value;
        TRY(fetch(s, index, &value));
        if (count < MAX_FRAMES)
            TRY(frame_of(s, &value, &frames[count++]));
    }
    return stack_of(s, frames, count, stack);
}

static int more_runs(Scan *s)
{
    if ((s->runs_count + 1) * 2 <= s->runs_slots)
        return OK;
    size_t slots = s->runs_slots ? s->runs_slots * 2 : 256;
    Run *fresh = calloc(slots, sizeof *fresh);
    if (fresh == NULL)
        return NO_MEMORY;
    for (size_t i = 0; i < s->runs_slots; i++) {
        if (s->runs[i].length == 0)
            continue;
        size_t place = s->runs[i].hash & (slots - 1);
        while (fresh[place].length)
            place = (place + 1) & (slots - 1);
        fresh[place] = s->runs[i];
    }
    free(s->runs);
    s->runs = fresh;
    s->runs_slots = slots;
    return OK;
}

/* Reads "(", memo references and "e" at `position`, and moves it behind them; `found` is 0 where something else is. */
int take_run(Scan *s, size_t *position, int *found, uint32_t *stack)
{
    const uint8_t *data = s->data;
    size_t start = *position + 1, end = start;
    *found = 0;
    if (*position >= s->size || data[*position] != '(')
        return OK;
    while (s->size - end >= 6 && (data[end] == 'j' || data[end] == 'h'))
        end += data[end] == 'j' ? 5 : 2;
    if (end >= s->size || data[end] != 'e' || end == start || end - start > UINT32_MAX)
        return OK;
    TRY(more_runs(s));
    uint32_t length = (uint32_t)(end - start);
    uint64_t hash = hash_bytes(s->seed, data + start, length);
    size_t place = hash & (s->runs_slots - 1);
    *found = 1;
    *position = end + 1;
    for (int probe = 0; s->runs[place].length; probe++) {
        const Run *run = &s->runs[place];
        if (run->hash == hash && run->length == length && memcmp(data + run->at, data + start, length) == 0) {
            *stack = run->stack;
            return OK;
        }
        if (probe == MAX_PROBES)
            return NOT_MINE;
        place = (place + 1) & (s->runs_slots - 1);
    }
    TRY(resolve(s, start, end, stack));
    s->runs[place] = (Run){hash, start, length, *stack};
    s->runs_count++;
    return OK;
}
