/* The stack machine of a pickle of plain data, as evidence/flight_opcodes.py has it, and nothing that could run code.

   Every opcode that is not listed here is left to the pure reader, which refuses it or says why it is damaged. */

#include "scan.h"

static inline int push(Scan *s, Slot value)
{
    if (s->top == s->stack_room)
        TRY(grow((void **)&s->stack, &s->stack_room, s->top + 1, sizeof *s->stack));
    s->stack[s->top++] = value;
    return OK;
}

static inline int is_container(const Slot *value)
{
    return value->tag >= T_LIST && value->tag <= T_DICT;
}

/* What the memo holds. A container may not change from here on: there can be no cycle, and what was read stays true. */
int fetch(Scan *s, uint64_t index, Slot *value)
{
    if (index >= s->memo_count)
        return NOT_MINE;
    *value = s->memo[index];
    if (is_container(value)) {
        Node *node = &s->nodes[value->v.at];
        if (node->consumed)
            return NOT_MINE;
        node->shared = 1;
    }
    return OK;
}

static int get(Scan *s, uint64_t index)
{
    Slot value;
    TRY(fetch(s, index, &value));
    return push(s, value);
}

/* Every writer counts up by one; where one does not, the pure reader looks whether it runs too far ahead. */
static int put(Scan *s, uint64_t index)
{
    if (index != s->memo_count || s->top == 0)
        return NOT_MINE;
    const Slot *value = &s->stack[s->top - 1];
    if (value->tag == T_MARK || value->tag == T_KNOWN)
        return NOT_MINE;
    TRY(grow((void **)&s->memo, &s->memo_room, s->memo_count + 1, sizeof *s->memo));
    s->memo[s->memo_count++] = *value;
    if (is_container(value) && (int64_t)value->v.at > s->memoised_node)
        s->memoised_node = (int64_t)value->v.at;
    return OK;
}

static int text(Scan *s, size_t *position, uint64_t length)
{
    if (length > s->size - *position || length > UINT32_MAX || !valid_utf8(s->data + *position, (size_t)length))
        return NOT_MINE;
    Slot value = {.tag = T_TEXT, .length = (uint32_t)length, .v.at = *position};
    value.field = (uint8_t)field_of(s->data + *position, (size_t)length);
    *position += (size_t)length;
    return push(s, value);
}

static int long_number(Scan *s, size_t *position)
{
    if (s->size - *position < 1)
        return NOT_MINE;
    size_t length = s->data[(*position)++];
    if (length > MAX_LONG_BYTES || length > s->size - *position)
        return NOT_MINE;
    const uint8_t *bytes = s->data + *position;
    *position += length;
    uint8_t sign = length && bytes[length - 1] & 0x80 ? 0xFF : 0;
    uint8_t low[8];
    memset(low, sign, sizeof low);
    memcpy(low, bytes, length < 8 ? length : 8);
    Slot value = {.tag = T_INT};
    memcpy(&value.v.number, low, sizeof low);
    for (size_t i = 8; i < length; i++)
        if (bytes[i] != sign || (low[7] & 0x80) != (sign & 0x80))
            value.tag = T_BIG;
    return push(s, value);
}

static int container(Scan *s, Tag tag)
{
    Slot value = {.tag = (uint8_t)tag};
    TRY(new_node(s, &value.v.at));
    return push(s, value);
}

/* The topmost `count` values become a tuple. */
static int tuple(Scan *s, size_t count)
{
    if (s->top < count)
        return NOT_MINE;
    Slot value = {.tag = T_TUPLE};
    TRY(new_node(s, &value.v.at));
    TRY(add_items(s, &s->nodes[value.v.at], s->stack + s->top - count, count));
    s->top -= count;
    s->values += count;
    return push(s, value);
}

/* Values since the last mark: `*first` is where they start on the stack. The mark goes. */
static int since_mark(Scan *s, size_t *first, size_t *count)
{
    if (s->marks_count == 0)
        return NOT_MINE;
    *first = (size_t)s->marks[--s->marks_count] + 1;
    *count = s->top - *first;
    return OK;
}

/* Sets keys and values that lie on the stack into the dict at `target`, and takes it into columns if it is an entry. */
static int set_items(Scan *s, size_t target, size_t first, size_t count)
{
    const Slot *items = s->stack + first;
    Slot *place = s->stack + target;
    uint32_t marks = 0;
    if (place->tag != T_DICT || count % 2)
        return NOT_MINE;
    for (size_t i = 0; i < count; i += 2) {
        if (items[i].tag != T_TEXT && items[i].tag != T_INT && items[i].tag != T_BIG)
            return NOT_MINE;
        if (items[i + 1].tag == T_MARK)
            return NOT_MINE;
        marks |= items[i].tag == T_TEXT ? 1u << items[i].field : 0;
    }
    size_t index = (size_t)place->v.at;
    Node *node = &s->nodes[index];
    marks = (marks & ENTRY_MARKS) | node->marks;
    int entry = marks == ENTRY_MARKS && target > 0;
    if (node->shared || node->consumed)
        return NOT_MINE;
    if (entry && node->count == 0) {
        TRY(take_entry(s, items, count));
    } else {
        TRY(add_items(s, node, items, count));
        if (entry)
            TRY(take_entry(s, s->items + node->start, node->count));
    }
    node->marks = marks;
    s->top = target + 1;
    s->values += count;
    if (!entry)
        return OK;
    node->consumed = 1;
    *place = (Slot){.tag = T_TRUE};
    if (s->memoised_node < (int64_t)index) {
        /* Nothing made since then can be reached any more. */
        s->items_count = (size_t)node->start;
        s->nodes_count = index;
    }
    return OK;
}

static int append(Scan *s, size_t target, size_t first, size_t count)
{
    if (s->stack[target].tag != T_LIST)
        return NOT_MINE;
    TRY(add_items(s, &s->nodes[s->stack[target].v.at], s->stack + first, count));
    s->values += count;
    s->top = target + 1;
    return OK;
}

static int list(Scan *s, size_t *position)
{
    const Slot *before = s->top ? &s->stack[s->top - 1] : NULL;
    RunKind kind = before != NULL && before->tag == T_TEXT ? run_kind((Field)before->field) : R_NONE;
    if (kind != R_NONE) {
        int found;
        Slot value = {.tag = T_KNOWN};
        TRY(take_run(s, kind, position, &found, &value.v.at));
        if (found)
            return push(s, value);
    }
    return container(s, T_LIST);
}

static inline uint64_t little(const uint8_t *bytes, size_t length)
{
    uint64_t number = 0;
    memcpy(&number, bytes, length);
    return number;
}

static int real(Scan *s, const uint8_t *bytes)
{
    uint64_t bits = __builtin_bswap64(little(bytes, 8));
    Slot value = {.tag = T_FLOAT};
    memcpy(&value.v.real, &bits, sizeof bits);
    return push(s, value);
}

#define NEED(bytes)                      \
    do {                                 \
        if (s->size - position < (bytes)) \
            return NOT_MINE;             \
    } while (0)
#define NUMBER(value) push(s, (Slot){.tag = T_INT, .v.number = (value)})
#define CONSTANT(name) push(s, (Slot){.tag = (name)})

/* Up to where to read on; 0 at the end, and where there are more values than a dump may hold. Inlined it costs a tenth. */
__attribute__((noinline)) static size_t further(const Scan *s, size_t position)
{
    if (position >= s->size || s->values + s->top + s->memo_count > MAX_VALUES - MARGIN)
        return 0;
    size_t next = (position / LOOK_EVERY + 1) * LOOK_EVERY;
    return next < s->size ? next : s->size;
}

int walk(Scan *s)
{
    const uint8_t *data = s->data;
    size_t position = 0, stop = 0, first, count;
    while (position < stop || (stop = further(s, position)) != 0) {
        const uint8_t *at = data + position + 1;
        switch (data[position++]) {
        case 'h': /* BINGET */
            NEED(1);
            TRY(get(s, at[0]));
            position += 1;
            break;
        case 'j': /* LONG_BINGET */
            NEED(4);
            TRY(get(s, little(at, 4)));
            position += 4;
            break;
        case 'K': /* BININT1 */
            NEED(1);
            TRY(NUMBER(at[0]));
            position += 1;
            break;
        case 'M': /* BININT2 */
            NEED(2);
            TRY(NUMBER((int64_t)little(at, 2)));
            position += 2;
            break;
        case 'J': /* BININT */
            NEED(4);
            TRY(NUMBER((int32_t)little(at, 4)));
            position += 4;
            break;
        case 0x8A: /* LONG1 */
            TRY(long_number(s, &position));
            break;
        case 'G': /* BINFLOAT */
            NEED(8);
            TRY(real(s, at));
            position += 8;
            break;
        case 'N':
            TRY(CONSTANT(T_NONE));
            break;
        case 0x88: /* NEWTRUE */
            TRY(CONSTANT(T_TRUE));
            break;
        case 0x89: /* NEWFALSE */
            TRY(CONSTANT(T_FALSE));
            break;
        case '(': /* MARK */
            TRY(grow((void **)&s->marks, &s->marks_room, s->marks_count + 1, sizeof *s->marks));
            s->marks[s->marks_count++] = s->top;
            TRY(CONSTANT(T_MARK));
            break;
        case ']': /* EMPTY_LIST */
            TRY(list(s, &position));
            break;
        case '}': /* EMPTY_DICT */
            TRY(container(s, T_DICT));
            break;
        case ')': /* EMPTY_TUPLE */
            TRY(tuple(s, 0));
            break;
        case 'u': /* SETITEMS */
            TRY(since_mark(s, &first, &count));
            if (first < 2)
                return NOT_MINE;
            TRY(set_items(s, first - 2, first, count));
            break;
        case 'e': /* APPENDS */
            TRY(since_mark(s, &first, &count));
            if (first < 2)
                return NOT_MINE;
            TRY(append(s, first - 2, first, count));
            break;
        case 's': /* SETITEM */
            if (s->top < 3)
                return NOT_MINE;
            TRY(set_items(s, s->top - 3, s->top - 2, 2));
            break;
        case 'a': /* APPEND */
            if (s->top < 2)
                return NOT_MINE;
            TRY(append(s, s->top - 2, s->top - 1, 1));
            break;
        case 't': /* TUPLE */
            TRY(since_mark(s, &first, &count));
            TRY(tuple(s, count));
            s->stack[first - 1] = s->stack[s->top - 1];
            s->top = first;
            break;
        case 0x85: /* TUPLE1 */
        case 0x86: /* TUPLE2 */
        case 0x87: /* TUPLE3 */
            TRY(tuple(s, (size_t)data[position - 1] - 0x84));
            break;
        case 'X': /* BINUNICODE */
            NEED(4);
            position += 4;
            TRY(text(s, &position, little(at, 4)));
            break;
        case 0x8C: /* SHORT_BINUNICODE */
            NEED(1);
            position += 1;
            TRY(text(s, &position, at[0]));
            break;
        case 0x8D: /* BINUNICODE8 */
            NEED(8);
            position += 8;
            TRY(text(s, &position, little(at, 8)));
            break;
        case 'q': /* BINPUT */
            NEED(1);
            TRY(put(s, at[0]));
            position += 1;
            break;
        case 'r': /* LONG_BINPUT */
            NEED(4);
            TRY(put(s, little(at, 4)));
            position += 4;
            break;
        case 0x94: /* MEMOIZE */
            TRY(put(s, s->memo_count));
            break;
        case 0x80: /* PROTO */
            NEED(1);
            if (at[0] > 5)
                return NOT_MINE;
            position += 1;
            break;
        case 0x95: /* FRAME */
            NEED(8);
            position += 8;
            break;
        case '.': /* STOP */
            if (s->top != 1 || s->marks_count)
                return NOT_MINE;
            s->result = s->stack[0];
            return OK;
        default:
            return NOT_MINE;
        }
    }
    return NOT_MINE;
}
