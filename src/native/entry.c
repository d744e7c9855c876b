/* One entry of a dump into the columns, as ColumnBuilder.add of evidence/flight_table.py does it. */

#include "scan.h"

static int more_columns(Columns *c)
{
    if (c->count < c->capacity)
        return OK;
    if (c->count >= INT32_MAX / 2)
        return NOT_MINE;
    size_t room = c->capacity;
#define MORE(column)                                                                    \
    do {                                                                                \
        room = c->capacity;                                                             \
        TRY(grow((void **)&c->column, &room, c->count + 1, sizeof *c->column));         \
    } while (0)
    MORE(record_id);
    MORE(seq);
    MORE(p2p_seq);
    MORE(op_id);
    MORE(created);
    MORE(started);
    MORE(completed);
    MORE(duration);
    MORE(call);
    MORE(stack);
    MORE(state);
    MORE(retired);
#undef MORE
    c->capacity = room;
    return OK;
}

int scratch(Scan *s, size_t wanted)
{
    return grow((void **)&s->scratch, &s->scratch_room, wanted, sizeof *s->scratch);
}

/* The items of a list, as far as the dump's allowance holds them. */
static void take_items(Scan *s, const Slot *value, const Slot **items, size_t *count)
{
    *count = 0;
    if (value == NULL || (value->tag != T_LIST && value->tag != T_TUPLE))
        return;
    const Node *node = &s->nodes[value->v.at];
    if ((int64_t)node->count > s->allowance)
        return;
    s->allowance -= node->count;
    *items = s->items + node->start;
    *count = node->count;
}

/* A list that was looked up by its bytes: 1, unless the allowance does not hold it, which the pure reader sees to. */
static int take_known(Scan *s, const Slot *value, uint32_t *index, int *known)
{
    *known = value != NULL && value->tag == T_KNOWN;
    if (!*known)
        return OK;
    const Run *run = &s->runs[value->v.at];
    if ((int64_t)run->items > s->allowance)
        return NOT_MINE;
    s->allowance -= run->items;
    return run_index(s, value->v.at, index);
}

/* Sizes are interned as the number of shapes, then each shape's length and dimensions. */
static int take_sizes(Scan *s, const Slot *value, uint32_t *index)
{
    const Slot *shapes = NULL, *dims = NULL;
    size_t count, length, used = 1;
    int known;
    TRY(take_known(s, value, index, &known));
    if (known)
        return OK;
    take_items(s, value, &shapes, &count);
    TRY(scratch(s, count + 1));
    s->scratch[0] = (int64_t)count;
    for (size_t i = 0; i < count; i++) {
        take_items(s, &shapes[i], &dims, &length);
        TRY(scratch(s, used + 1 + length));
        s->scratch[used++] = (int64_t)length;
        for (size_t k = 0; k < length; k++)
            TRY(integer_of(s, &dims[k], -1, &s->scratch[used++]));
    }
    return intern(&s->sizes, s->seed, s->scratch, used * sizeof *s->scratch, index);
}

/* A name into a table; one that stands where the last of its kind stood is the same. */
static int take_name(Scan *s, const Slot *value, Interner *table, Recent *recent, uint32_t *index)
{
    const uint8_t *text;
    size_t length;
    if (value != NULL && value->tag == T_TEXT && value->length) {
        recent += value->v.at % RECENT;
        if (recent->at == value->v.at && recent->length == value->length) {
            *index = recent->index;
            return OK;
        }
    } else {
        recent = NULL;
    }
    TRY(name_of(s, value, &text, &length));
    TRY(intern(table, s->seed, text, length, index));
    if (recent != NULL)
        *recent = (Recent){value->v.at, value->length, *index};
    return OK;
}

int take_dtype(Scan *s, const Slot *value, uint32_t *index)
{
    return take_name(s, value, &s->names, s->recent_names, index);
}

static int take_dtypes(Scan *s, const Slot *value, uint32_t *index)
{
    const Slot *items = NULL;
    size_t count;
    int known;
    TRY(take_known(s, value, index, &known));
    if (known)
        return OK;
    take_items(s, value, &items, &count);
    TRY(scratch(s, count + 1));
    for (size_t i = 0; i < count; i++) {
        uint32_t name;
        TRY(take_dtype(s, &items[i], &name));
        s->scratch[i] = name;
    }
    return intern(&s->dtypes, s->seed, s->scratch, count * sizeof *s->scratch, index);
}

static int take_group(Scan *s, const Slot *group, const Slot *pg_name, uint32_t *index)
{
    uint32_t pair[2];
    int listed = group != NULL && (group->tag == T_LIST || group->tag == T_TUPLE) && s->nodes[group->v.at].count >= 2;
    const Slot *items = listed ? s->items + s->nodes[group->v.at].start : NULL;
    TRY(take_name(s, listed ? &items[0] : pg_name, &s->names, s->recent_names, &pair[0]));
    TRY(take_name(s, listed ? &items[1] : NULL, &s->names, s->recent_names, &pair[1]));
    TRY(intern(&s->groups, s->seed, pair, sizeof pair, index));
    return grow((void **)&s->group_pg_id, &s->group_room, (size_t)*index + 1, sizeof *s->group_pg_id);
}

static int8_t state_of(const Scan *s, const Slot *value)
{
    if (value == NULL || value->tag != T_TEXT)
        return 0;
    const char *text = (const char *)s->data + value->v.at;
    if (value->length == 9 && memcmp(text, "scheduled", 9) == 0)
        return 1;
    if (value->length == 7 && memcmp(text, "started", 7) == 0)
        return 2;
    return value->length == 9 && memcmp(text, "completed", 9) == 0 ? 3 : 0;
}

static double duration_of(const Slot *value)
{
    double duration = value == NULL ? 1e300 : value->tag == T_FLOAT ? value->v.real : 1e300;
    if (value != NULL && value->tag == T_INT && value->v.number < 1000000000000000 &&
        value->v.number > -1000000000000000)
        duration = (double)value->v.number;
    return duration < 1e15 && duration > -1e15 ? duration : (double)__builtin_nan("");
}

static int take_call(Scan *s, const Slot *const *value, uint32_t *index)
{
    uint32_t group, op, ins, outs, in_types, out_types;
    int64_t pg_id, timeout;
    TRY(take_group(s, value[F_PROCESS_GROUP], value[F_PG_NAME], &group));
    TRY(integer_of(s, value[F_PG_ID], -1, &pg_id));
    s->group_pg_id[group] = pg_id;
    TRY(take_name(s, value[F_PROFILING_NAME], &s->ops, s->recent_ops, &op));
    TRY(take_sizes(s, value[F_IN_SIZES], &ins));
    TRY(take_sizes(s, value[F_OUT_SIZES], &outs));
    TRY(take_dtypes(s, value[F_IN_DTYPES], &in_types));
    TRY(take_dtypes(s, value[F_OUT_DTYPES], &out_types));
    TRY(integer_of(s, value[F_TIMEOUT], -1, &timeout));
    int64_t is_p2p = value[F_IS_P2P] != NULL && value[F_IS_P2P]->tag == T_TRUE;
    int64_t call[] = {group, pg_id, op, ins, outs, in_types, out_types, is_p2p, timeout};
    return intern(&s->calls, s->seed, call, sizeof call, index);
}

int take_entry(Scan *s, const Slot *items, size_t count)
{
    const Slot *value[F_COUNT] = {NULL};
    for (size_t i = 0; i + 1 < count; i += 2)
        if (items[i].tag == T_TEXT)
            value[items[i].field] = &items[i + 1];
    Columns *c = &s->columns;
    TRY(more_columns(c));
    size_t row = c->count;
    uint32_t call;
    TRY(integer_of(s, value[F_RECORD_ID], -1, &c->record_id[row]));
    TRY(integer_of(s, value[F_SEQ], -1, &c->seq[row]));
    TRY(integer_of(s, value[F_P2P_SEQ], -1, &c->p2p_seq[row]));
    TRY(integer_of(s, value[F_OP_ID], -1, &c->op_id[row]));
    TRY(integer_of(s, value[F_CREATED], 0, &c->created[row]));
    TRY(integer_of(s, value[F_STARTED], 0, &c->started[row]));
    TRY(integer_of(s, value[F_COMPLETED], 0, &c->completed[row]));
    TRY(take_call(s, value, &call));
    TRY(take_frames(s, value[F_FRAMES], &c->stack[row]));
    c->call[row] = (int32_t)call;
    c->state[row] = state_of(s, value[F_STATE]);
    c->duration[row] = duration_of(value[F_DURATION]);
    c->retired[row] = value[F_RETIRED] != NULL && value[F_RETIRED]->tag == T_TRUE;
    c->count++;
    return OK;
}
