/* Arrays that double, and the end of everything that a scan holds. */

#include "scan.h"

int enlarge(void **array, size_t *room, size_t wanted, size_t item)
{
    size_t next = *room ? *room * 2 : 64;
    if (next < wanted)
        next = wanted;
    if (next > SIZE_MAX / 2 / item)
        return NO_MEMORY;
    void *bigger = realloc(*array, next * item);
    if (bigger == NULL)
        return NO_MEMORY;
    *array = bigger;
    *room = next;
    return OK;
}

void scan_free(Scan *s)
{
    Columns *c = &s->columns;
    void *owned[] = {
        s->stack, s->marks, s->memo, s->nodes, s->items, s->group_pg_id, s->scratch, s->runs,
        s->run_table,
        c->record_id, c->seq, c->p2p_seq, c->op_id, c->created, c->started, c->completed, c->duration,
        c->call, c->stack, c->state, c->retired,
    };
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    Interner *tables[] = {
        &s->names, &s->sizes, &s->dtypes, &s->groups, &s->ops, &s->calls,
        &s->frame_texts, &s->frames, &s->tree, &s->leaves,
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        intern_free(tables[i]);
}
