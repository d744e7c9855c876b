/* Stacks, kept as a tree of frames and their callers, for most stacks of a program share their outer frames.

   Names and files are texts once; nobody joins them until somebody asks for a stack. */

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
int frame_of(Scan *s, const Slot *value, uint32_t *frame)
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
int stack_of(Scan *s, const uint32_t *frames, size_t count, uint32_t *stack)
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
    uint32_t frames[MAX_FRAMES], found;
    *stack = -1;
    if (value == NULL)
        return OK;
    if (value->tag == T_KNOWN) {
        TRY(run_index(s, value->v.at, &found));
        *stack = (int32_t)found;
        return OK;
    }
    if (value->tag != T_LIST && value->tag != T_TUPLE)
        return OK;
    const Node *node = &s->nodes[value->v.at];
    size_t count = node->count < MAX_FRAMES ? node->count : MAX_FRAMES;
    if (count == 0)
        return OK;
    for (size_t i = 0; i < count; i++)
        TRY(frame_of(s, &s->items[node->start + i], &frames[i]));
    TRY(stack_of(s, frames, count, &found));
    *stack = (int32_t)found;
    return OK;
}
