/* Values as the pure reader sees them (evidence/flight_table.py): known keys, texts, numbers, containers. */

#include "scan.h"

static const struct {
    const char *text;
    Field field;
} KEYS[] = {
    {"record_id", F_RECORD_ID},
    {"profiling_name", F_PROFILING_NAME},
    {"frames", F_FRAMES},
    {"pg_id", F_PG_ID},
    {"process_group", F_PROCESS_GROUP},
    {"pg_name", F_PG_NAME},
    {"collective_seq_id", F_SEQ},
    {"p2p_seq_id", F_P2P_SEQ},
    {"op_id", F_OP_ID},
    {"time_created_ns", F_CREATED},
    {"time_discovered_started_ns", F_STARTED},
    {"time_discovered_completed_ns", F_COMPLETED},
    {"duration_ms", F_DURATION},
    {"input_sizes", F_IN_SIZES},
    {"output_sizes", F_OUT_SIZES},
    {"input_dtypes", F_IN_DTYPES},
    {"output_dtypes", F_OUT_DTYPES},
    {"state", F_STATE},
    {"retired", F_RETIRED},
    {"timeout_ms", F_TIMEOUT},
    {"is_p2p", F_IS_P2P},
    {"name", F_NAME},
    {"filename", F_FILENAME},
    {"line", F_LINE},
    {"version", F_VERSION},
    {"pg_config", F_PG_CONFIG},
    {"pg_status", F_PG_STATUS},
    {"comm_lib_version", F_COMM_LIB_VERSION},
    {"nccl_version", F_NCCL_VERSION},
    {"entries", F_ENTRIES},
};

Field field_of(const uint8_t *text, size_t length)
{
    if (length < 4 || length > 28)
        return F_NONE;
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        if (KEYS[i].text[0] == (char)text[0] && strlen(KEYS[i].text) == length &&
            memcmp(KEYS[i].text, text, length) == 0)
            return KEYS[i].field;
    return F_NONE;
}

/* What Python's strict decoder takes: no surrogates, no longer forms than needed, nothing above U+10FFFF. */
int valid_utf8(const uint8_t *text, size_t length)
{
    const uint8_t *end = text + length;
    while (text < end) {
        while (end - text >= 8) {
            uint64_t word;
            memcpy(&word, text, 8);
            if (word & 0x8080808080808080ULL)
                break;
            text += 8;
        }
        if (text == end)
            break;
        uint8_t first = *text++;
        if (first < 0x80)
            continue;
        int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
        if (first < 0xC2 || first > 0xF4 || end - text < more)
            return 0;
        uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
        uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
        if (text[0] < low || text[0] > high)
            return 0;
        for (int i = 1; i < more; i++)
            if ((text[i] & 0xC0) != 0x80)
                return 0;
        text += more;
    }
    return 1;
}

/* Bytes of the first MAX_NAME characters of a valid text. */
size_t cut_name(const uint8_t *text, size_t length)
{
    if (length <= MAX_NAME)
        return length;
    size_t characters = 0;
    for (size_t i = 0; i < length; i++)
        if ((text[i] & 0xC0) != 0x80 && characters++ == MAX_NAME)
            return i;
    return length;
}

/* `_integer` of flight_table.py. */
int integer_of(const Scan *s, const Slot *value, int64_t absent, int64_t *number)
{
    *number = absent;
    if (value == NULL)
        return OK;
    if (value->tag == T_INT) {
        *number = value->v.number;
    } else if (value->tag == T_FLOAT) {
        if (value->v.real >= -9223372036854775808.0 && value->v.real < 9223372036854775808.0)
            *number = (int64_t)value->v.real;
    } else if (value->tag == T_TEXT) {
        const uint8_t *text = s->data + value->v.at;
        size_t length = value->length, i = 0;
        int negative = length > 0 && text[0] == '-';
        size_t digits = length - (size_t)negative;
        int64_t sum = 0;
        for (i = (size_t)negative; i < length && digits <= 9; i++) {
            if (text[i] >= 0x80)
                return NOT_MINE; /* other scripts have digits too */
            if (text[i] < '0' || text[i] > '9')
                return OK;
            sum = sum * 10 + (text[i] - '0');
        }
        if (digits > 9) {
            for (i = 0; i < length && length <= 40; i++)
                if (text[i] >= 0x80)
                    return NOT_MINE;
            return OK;
        }
        if (digits > 0)
            *number = negative ? -sum : sum;
    }
    return OK;
}

/* `text` of flight_table.py, for names: numbers as names are left to it. */
int name_of(const Scan *s, const Slot *value, const uint8_t **text, size_t *length)
{
    *text = s->data;
    *length = 0;
    if (value == NULL)
        return OK;
    if (value->tag == T_INT || value->tag == T_TRUE || value->tag == T_FALSE)
        return NOT_MINE;
    if (value->tag == T_TEXT) {
        *text = s->data + value->v.at;
        *length = cut_name(*text, value->length);
    }
    return OK;
}

int new_node(Scan *s, uint64_t *index)
{
    TRY(grow((void **)&s->nodes, &s->nodes_room, s->nodes_count + 1, sizeof *s->nodes));
    s->nodes[s->nodes_count] = (Node){.start = s->items_count, .depth = 1};
    *index = s->nodes_count++;
    return OK;
}

/* Puts items behind those that the container has. One that grows at the end of all items stays where it is. */
int add_items(Scan *s, Node *node, const Slot *items, size_t count)
{
    if (node->shared || node->consumed || count > UINT32_MAX / 4 - node->count)
        return NOT_MINE;
    if (count == 0)
        return OK;
    uint32_t total = node->count + (uint32_t)count;
    if (total > node->capacity) {
        int last = node->capacity && node->start + node->capacity == s->items_count;
        uint32_t capacity = node->count ? total + total / 2 : total;
        uint64_t start = last ? node->start : s->items_count;
        TRY(grow((void **)&s->items, &s->items_room, start + capacity, sizeof *s->items));
        if (!last && node->count)
            memcpy(s->items + start, s->items + node->start, node->count * sizeof *s->items);
        node->start = start;
        node->capacity = capacity;
        s->items_count = start + capacity;
    }
    Slot *place = s->items + node->start + node->count;
    for (size_t i = 0; i < count; i++) {
        if (items[i].tag == T_KNOWN || items[i].tag == T_MARK)
            return NOT_MINE;
        if (items[i].tag >= T_LIST) {
            uint16_t inner = s->nodes[items[i].v.at].depth;
            if (inner >= node->depth)
                node->depth = inner < UINT16_MAX ? inner + 1 : UINT16_MAX;
        }
        place[i] = items[i];
    }
    node->count = total;
    return OK;
}
