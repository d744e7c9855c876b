/* What the parts of the native Flight Recorder reader share: the values of a walk, its tables, and the outcomes.

   The reader turns one torch pickle into columns without the interpreter's lock. It reads well-formed dumps of plain
   data; whatever else it meets it leaves to the pure reader (NOT_MINE), which knows what to say of it. So it can be
   strict: memo indexes count up by one, a container that is shared never changes again (there are no cycles, and no
   value changes after it was looked at), and every text is valid UTF-8. */

#ifndef RANKMUSTER_SCAN_H
#define RANKMUSTER_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "written for little-endian machines; the pure reader serves the others"
#endif

enum { OK = 0, NOT_MINE = 1, NO_MEMORY = 2 };

#define TRY(call)                     \
    do {                              \
        int outcome_ = (call);        \
        if (outcome_ != OK)           \
            return outcome_;          \
    } while (0)

/* The same limits as evidence/flight_table.py and evidence/flight_opcodes.py, where their reasons stand. */
enum {
    MAX_NAME = 512,
    MAX_FRAMES = 64,
    MAX_ITEMS = 10000000,
    MAX_VALUES = 16000000,
    LOOK_EVERY = 1 << 20,
    MAX_LONG_BYTES = 64,
};

enum {
    MAX_PROBES = 256, /* steps of one look-up in a table at most half full; honest data takes a few */
    MAX_DEPTH = 64,   /* of what is handed to Python; a dump's tables are two deep */
    MARGIN = 64,      /* of values: in the middle of a run the pure reader has marks on its stack, too */
};

typedef enum {
    T_MARK,
    T_NONE,
    T_FALSE,
    T_TRUE,
    T_INT,
    T_FLOAT,
    T_BIG, /* a number beyond 64 bits: no field of a dump has one, and all count it as absent */
    T_TEXT,
    T_LIST,
    T_TUPLE,
    T_DICT,
    T_KNOWN, /* a list of an entry (frames, sizes or dtypes) that was looked up by its bytes */
} Tag;

/* The keys that mean something. The first two make a dict an entry. */
typedef enum {
    F_NONE,
    F_RECORD_ID,
    F_PROFILING_NAME,
    F_FRAMES,
    F_PG_ID,
    F_PROCESS_GROUP,
    F_PG_NAME,
    F_SEQ,
    F_P2P_SEQ,
    F_OP_ID,
    F_CREATED,
    F_STARTED,
    F_COMPLETED,
    F_DURATION,
    F_IN_SIZES,
    F_OUT_SIZES,
    F_IN_DTYPES,
    F_OUT_DTYPES,
    F_STATE,
    F_RETIRED,
    F_TIMEOUT,
    F_IS_P2P,
    F_NAME,
    F_FILENAME,
    F_LINE,
    F_VERSION,
    F_PG_CONFIG,
    F_PG_STATUS,
    F_COMM_LIB_VERSION,
    F_NCCL_VERSION,
    F_ENTRIES,
    F_COUNT,
} Field;

_Static_assert(F_COUNT <= 32, "fields are bits of 32");

enum { ENTRY_MARKS = 1 << F_RECORD_ID | 1 << F_PROFILING_NAME };

typedef struct {
    uint8_t tag;
    uint8_t field;   /* of a text */
    uint32_t length; /* of a text, bytes */
    union {
        int64_t number;
        double real;
        uint64_t at; /* text: offset in the file; container: its node; known: its run */
    } v;
} Slot;

typedef struct {
    uint64_t start; /* of its items; as long as there are none, where the items ended when it was made */
    uint32_t count;
    uint32_t capacity;
    uint16_t depth;
    uint8_t shared;   /* fetched from the memo: it may no longer change */
    uint8_t consumed; /* an entry whose values are in the columns */
    uint32_t marks;   /* which of ENTRY_MARKS it has */
    uint32_t frame;   /* index + 1 where it stood in a stack; 0: not yet */
} Node;

/* Distinct byte strings in order of appearance. */
typedef struct {
    uint8_t *bytes;
    size_t used, room;
    uint64_t *ends;
    uint64_t *hashes;
    size_t count, capacity;
    uint32_t *table; /* index + 1; 0 is free */
    size_t slots;    /* a power of two, at least twice `count` */
} Interner;

#define UNREAD UINT32_MAX

typedef enum { R_NONE, R_FRAMES, R_SIZES, R_DTYPES } RunKind;

/* Raw bytes of the file, and what they stand for. */
typedef struct {
    uint64_t hash, at;
    uint32_t length;
    uint32_t index; /* of the stack, sizes or dtypes; UNREAD until an entry has it */
    uint32_t items; /* what it takes of the allowance each time */
    uint8_t kind;
} Run;

/* The last names that were looked up, by where they stand in the file. */
typedef struct {
    uint64_t at;
    uint32_t length; /* 0: nothing yet */
    uint32_t index;
} Recent;

enum { RECENT = 64 };

typedef struct {
    int64_t *record_id, *seq, *p2p_seq, *op_id, *created, *started, *completed;
    double *duration;
    int32_t *call, *stack;
    int8_t *state;
    uint8_t *retired;
    size_t count, capacity;
} Columns;

typedef struct {
    const uint8_t *data;
    size_t size;
    uint64_t seed;

    Slot *stack;
    size_t top, stack_room;
    uint64_t *marks;
    size_t marks_count, marks_room;
    Slot *memo;
    size_t memo_count, memo_room;
    Node *nodes;
    size_t nodes_count, nodes_room;
    Slot *items;
    size_t items_count, items_room;
    int64_t memoised_node; /* the newest node in the memo, -1: none */
    size_t values;         /* in containers, as flight_opcodes.py counts them */

    Columns columns;
    int64_t allowance; /* what is left of MAX_ITEMS */
    Interner names, sizes, dtypes, groups, ops, calls;
    int64_t *group_pg_id;
    size_t group_room;
    int64_t *scratch;
    size_t scratch_room;

    Interner frame_texts, frames, tree; /* tree: (frame, caller + 1) */
    Interner leaves;                    /* the innermost node of each distinct stack */
    Run *runs;
    size_t runs_count, runs_room;
    uint32_t *run_table; /* index + 1; 0 is free */
    size_t run_slots;
    Recent recent_names[RECENT], recent_ops[RECENT];

    Slot result;
} Scan;

/* memory.c */
int enlarge(void **array, size_t *room, size_t wanted, size_t item);

static inline int grow(void **array, size_t *room, size_t wanted, size_t item)
{
    return wanted <= *room ? OK : enlarge(array, room, wanted, item);
}

void scan_free(Scan *s);

/* intern.c */
uint64_t hash_bytes(uint64_t seed, const uint8_t *bytes, size_t length);
int intern(Interner *table, uint64_t seed, const void *bytes, size_t length, uint32_t *index);
void intern_free(Interner *table);

static inline uint64_t word_at(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, 8);
    return word;
}

/* For strings of a few dozen bytes, which mostly are the same: no call. */
static inline int same_bytes(const uint8_t *one, const uint8_t *other, size_t length)
{
    for (; length >= 8; one += 8, other += 8, length -= 8)
        if (word_at(one) != word_at(other))
            return 0;
    for (; length; one++, other++, length--)
        if (*one != *other)
            return 0;
    return 1;
}

static inline const uint8_t *interned(const Interner *table, size_t index, size_t *length)
{
    uint64_t start = index ? table->ends[index - 1] : 0;
    *length = (size_t)(table->ends[index] - start);
    return table->bytes + start;
}

/* values.c */
Field field_of(const uint8_t *text, size_t length);
int valid_utf8(const uint8_t *text, size_t length);
size_t cut_name(const uint8_t *text, size_t length);
int integer_of(const Scan *s, const Slot *value, int64_t absent, int64_t *number);
int name_of(const Scan *s, const Slot *value, const uint8_t **text, size_t *length);
int new_node(Scan *s, uint64_t *index);
int add_items(Scan *s, Node *node, const Slot *items, size_t count);

/* stacks.c */
int frame_of(Scan *s, const Slot *value, uint32_t *frame);
int stack_of(Scan *s, const uint32_t *frames, size_t count, uint32_t *stack);
int take_frames(Scan *s, const Slot *value, int32_t *stack);

/* runs.c */
int take_run(Scan *s, RunKind kind, size_t *position, int *found, uint64_t *run);
int run_index(Scan *s, uint64_t run, uint32_t *index);

static inline RunKind run_kind(Field field)
{
    switch (field) {
    case F_FRAMES:
        return R_FRAMES;
    case F_IN_SIZES:
    case F_OUT_SIZES:
        return R_SIZES;
    case F_IN_DTYPES:
    case F_OUT_DTYPES:
        return R_DTYPES;
    default:
        return R_NONE;
    }
}

/* entry.c */
int scratch(Scan *s, size_t wanted);
int take_dtype(Scan *s, const Slot *value, uint32_t *index);
int take_entry(Scan *s, const Slot *items, size_t count);

/* walk.c */
int fetch(Scan *s, uint64_t index, Slot *value);
int walk(Scan *s);

#endif
