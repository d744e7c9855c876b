/* rankmuster.evidence._flight_scan: the walk without the interpreter's lock, then its results as Python values. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "scan.h"

/* What scan() returns; counted up with every change, so that a build that was left behind is not used. */
#define LAYOUT 1

static uint64_t process_seed;

typedef struct {
    Scan *scan;
    PyObject **made; /* of nodes that are shared, borrowed from `keep` */
    PyObject *texts; /* offset -> str: a text that is referred to often is one object */
    PyObject *keep;  /* what `made` points to */
} Maker;

static PyObject *value_of(Maker *m, const Slot *value);

static PyObject *text_of(Maker *m, const Slot *value)
{
    PyObject *key = PyLong_FromUnsignedLongLong(value->v.at);
    if (key == NULL)
        return NULL;
    PyObject *text = PyDict_GetItemWithError(m->texts, key);
    if (text != NULL) {
        Py_INCREF(text);
    } else if (!PyErr_Occurred()) {
        const char *bytes = (const char *)m->scan->data + value->v.at;
        text = PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)value->length, "strict");
        if (text != NULL && PyDict_SetItem(m->texts, key, text) < 0)
            Py_CLEAR(text);
    }
    Py_DECREF(key);
    return text;
}

static PyObject *dict_of(Maker *m, const Slot *items, size_t count)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict != NULL && i + 1 < count; i += 2) {
        PyObject *key = value_of(m, &items[i]);
        PyObject *value = key ? value_of(m, &items[i + 1]) : NULL;
        if (value == NULL || PyDict_SetItem(dict, key, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *sequence_of(Maker *m, const Slot *items, size_t count, int is_list)
{
    PyObject *made = is_list ? PyList_New((Py_ssize_t)count) : PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; made != NULL && i < count; i++) {
        PyObject *item = value_of(m, &items[i]);
        if (item == NULL)
            Py_CLEAR(made);
        else if (is_list)
            PyList_SetItem(made, (Py_ssize_t)i, item);
        else
            PyTuple_SetItem(made, (Py_ssize_t)i, item);
    }
    return made;
}

static PyObject *container_of(Maker *m, const Slot *value)
{
    const Node *node = &m->scan->nodes[value->v.at];
    const Slot *items = m->scan->items + node->start;
    if (m->made[value->v.at] != NULL) {
        Py_INCREF(m->made[value->v.at]);
        return m->made[value->v.at];
    }
    PyObject *made = value->tag == T_DICT ? dict_of(m, items, node->count)
                                          : sequence_of(m, items, node->count, value->tag == T_LIST);
    if (made != NULL && node->shared) {
        if (PyList_Append(m->keep, made) < 0)
            Py_CLEAR(made);
        else
            m->made[value->v.at] = made;
    }
    return made;
}

/* NULL without an exception: a value that is left to the pure reader. */
static PyObject *value_of(Maker *m, const Slot *value)
{
    switch (value->tag) {
    case T_NONE:
        Py_INCREF(Py_None);
        return Py_None;
    case T_TRUE:
    case T_FALSE:
        return PyBool_FromLong(value->tag == T_TRUE);
    case T_INT:
        return PyLong_FromLongLong(value->v.number);
    case T_FLOAT:
        return PyFloat_FromDouble(value->v.real);
    case T_TEXT:
        return text_of(m, value);
    case T_LIST:
    case T_TUPLE:
    case T_DICT:
        return container_of(m, value);
    default:
        return NULL;
    }
}

/* What of the outermost dict is read, by its keys; `entries` only says that it is there. */
static PyObject *top_of(Scan *s)
{
    static const char *const names[F_COUNT] = {
        [F_VERSION] = "version",
        [F_PG_CONFIG] = "pg_config",
        [F_PG_STATUS] = "pg_status",
        [F_COMM_LIB_VERSION] = "comm_lib_version",
        [F_NCCL_VERSION] = "nccl_version",
        [F_ENTRIES] = "entries",
    };
    static const Slot nothing = {.tag = T_NONE};
    Maker m = {s, calloc(s->nodes_count + 1, sizeof(PyObject *)), PyDict_New(), PyList_New(0)};
    PyObject *top = PyDict_New();
    const Node *node = &s->nodes[s->result.v.at];
    if (m.made == NULL || m.texts == NULL || m.keep == NULL) {
        Py_CLEAR(top);
        PyErr_NoMemory();
    }
    const Slot *last[F_COUNT] = {NULL};
    for (size_t i = 0; i + 1 < node->count; i += 2) {
        const Slot *key = s->items + node->start + i;
        if (key->tag == T_TEXT && names[key->field] != NULL)
            last[key->field] = key->field == F_ENTRIES ? &nothing : key + 1;
    }
    for (int field = 0; top != NULL && field < F_COUNT; field++) {
        if (last[field] == NULL)
            continue;
        int container = last[field]->tag >= T_LIST;
        int deep = container && s->nodes[last[field]->v.at].depth > MAX_DEPTH;
        PyObject *value = deep ? NULL : value_of(&m, last[field]);
        if (value == NULL || PyDict_SetItemString(top, names[field], value) < 0)
            Py_CLEAR(top);
        Py_XDECREF(value);
    }
    free(m.made);
    Py_XDECREF(m.texts);
    Py_XDECREF(m.keep);
    return top;
}

/* One after the other, widest first; a column of one value is that value, and its bit in `constant` is set. */
static PyObject *columns_of(const Columns *c, unsigned long *constant)
{
    const struct {
        const void *values;
        size_t width;
    } columns[] = {
        {c->record_id, 8}, {c->seq, 8}, {c->p2p_seq, 8}, {c->op_id, 8}, {c->created, 8}, {c->started, 8},
        {c->completed, 8}, {c->duration, 8}, {c->call, 4}, {c->stack, 4}, {c->state, 1}, {c->retired, 1},
    };
    size_t size = 0, rows[sizeof columns / sizeof *columns];
    *constant = 0;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        size_t width = columns[i].width;
        const uint8_t *values = columns[i].values;
        rows[i] = c->count;
        if (c->count > 1 && memcmp(values, values + width, (c->count - 1) * width) == 0) {
            *constant |= 1UL << i;
            rows[i] = 1;
        }
        size += rows[i] * width;
    }
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    char *place = made ? PyBytes_AsString(made) : NULL;
    for (size_t i = 0; place != NULL && i < sizeof columns / sizeof *columns; i++) {
        size_t width = rows[i] * columns[i].width;
        if (width)
            memcpy(place, columns[i].values, width);
        place += width;
    }
    return made;
}

static PyObject *string_of(const Interner *table, size_t index)
{
    size_t length;
    const uint8_t *text = interned(table, index, &length);
    return PyUnicode_DecodeUTF8(length ? (const char *)text : "", (Py_ssize_t)length, "strict");
}

static PyObject *numbers_of(const int64_t *numbers, size_t count)
{
    PyObject *made = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; made != NULL && i < count; i++) {
        PyObject *number = PyLong_FromLongLong(numbers[i]);
        if (number == NULL)
            Py_CLEAR(made);
        else
            PyTuple_SetItem(made, (Py_ssize_t)i, number);
    }
    return made;
}

static PyObject *size_of(const Scan *s, size_t index)
{
    size_t length, used = 1;
    const int64_t *flat = (const int64_t *)(const void *)interned(&s->sizes, index, &length);
    PyObject *made = PyTuple_New((Py_ssize_t)flat[0]);
    for (Py_ssize_t i = 0; made != NULL && i < flat[0]; i++) {
        PyObject *shape = numbers_of(flat + used + 1, (size_t)flat[used]);
        used += 1 + (size_t)flat[used];
        if (shape == NULL)
            Py_CLEAR(made);
        else
            PyTuple_SetItem(made, i, shape);
    }
    return made;
}

static PyObject *names_of(const Scan *s, size_t index)
{
    size_t length;
    const int64_t *names = (const int64_t *)(const void *)interned(&s->dtypes, index, &length);
    PyObject *made = PyTuple_New((Py_ssize_t)(length / 8));
    for (size_t i = 0; made != NULL && i < length / 8; i++) {
        PyObject *name = string_of(&s->names, (size_t)names[i]);
        if (name == NULL)
            Py_CLEAR(made);
        else
            PyTuple_SetItem(made, (Py_ssize_t)i, name);
    }
    return made;
}

static PyObject *group_of(const Scan *s, size_t index)
{
    size_t length;
    uint32_t pair[2];
    memcpy(pair, interned(&s->groups, index, &length), sizeof pair);
    PyObject *name = string_of(&s->names, pair[0]), *desc = string_of(&s->names, pair[1]);
    PyObject *made = NULL;
    if (name != NULL && desc != NULL)
        made = Py_BuildValue("(OOL)", name, desc, (long long)s->group_pg_id[index]);
    Py_XDECREF(name);
    Py_XDECREF(desc);
    return made;
}

static PyObject *op_of(const Scan *s, size_t index)
{
    return string_of(&s->ops, index);
}

static PyObject *table_of(const Scan *s, size_t count, PyObject *(*row)(const Scan *, size_t))
{
    PyObject *made = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; made != NULL && i < count; i++) {
        PyObject *item = row(s, i);
        if (item == NULL)
            Py_CLEAR(made);
        else
            PyTuple_SetItem(made, (Py_ssize_t)i, item);
    }
    return made;
}

static PyObject *raw(const void *bytes, size_t length)
{
    return PyBytes_FromStringAndSize(length ? bytes : "", (Py_ssize_t)length);
}

static PyObject *stacks_of(const Scan *s)
{
    const Interner *texts = &s->frame_texts;
    return Py_BuildValue("(NNNNN)", raw(texts->bytes, texts->used), raw(texts->ends, texts->count * 8),
                         raw(s->frames.bytes, s->frames.used), raw(s->tree.bytes, s->tree.used),
                         raw(s->leaves.bytes, s->leaves.used));
}

static PyObject *results(Scan *s)
{
    PyObject *top = top_of(s);
    if (top == NULL)
        return NULL;
    unsigned long constant;
    PyObject *columns = columns_of(&s->columns, &constant);
    return Py_BuildValue("(NnNkNNNNNN)", top, (Py_ssize_t)s->columns.count, columns, constant,
                         raw(s->calls.bytes, s->calls.used), table_of(s, s->groups.count, group_of),
                         table_of(s, s->ops.count, op_of), table_of(s, s->sizes.count, size_of),
                         table_of(s, s->dtypes.count, names_of), stacks_of(s));
}

PyDoc_STRVAR(scan_doc,
             "scan(data: bytes) -> tuple | None\n\n"
             "One dump's top level (without entries), count, columns, which are constant, calls, groups, ops, sizes,\n"
             "dtypes and stacks, as flight_native.py takes them apart; None where the pure reader must look.");

static PyObject *scan(PyObject *module, PyObject *data)
{
    (void)module;
    char *bytes;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(data, &bytes, &size) < 0)
        return NULL;
    Scan s = {
        .data = (const uint8_t *)bytes,
        .size = (size_t)size,
        .seed = process_seed,
        .memoised_node = -1,
        .allowance = MAX_ITEMS,
    };
    int outcome;
    Py_BEGIN_ALLOW_THREADS
    outcome = walk(&s);
    Py_END_ALLOW_THREADS
    PyObject *made = NULL;
    if (outcome == NO_MEMORY)
        PyErr_NoMemory();
    else if (outcome == OK && s.result.tag == T_DICT)
        made = results(&s);
    scan_free(&s);
    if (made == NULL && !PyErr_Occurred()) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    return made;
}

static PyMethodDef methods[] = {
    {"scan", scan, METH_O, scan_doc},
    {NULL, NULL, 0, NULL},
};

/* Texts are hashed with a secret of the process, unless it was started without one. */
static int start(PyObject *module)
{
    PyObject *text = PyUnicode_FromString("rankmuster.evidence._flight_scan");
    if (text == NULL || PyModule_AddIntConstant(module, "LAYOUT", LAYOUT) < 0) {
        Py_XDECREF(text);
        return -1;
    }
    process_seed = (uint64_t)PyObject_Hash(text);
    Py_DECREF(text);
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)start},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_flight_scan", "Flight Recorder pickles to columns, without the interpreter's lock.", 0,
    methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__flight_scan(void)
{
    return PyModuleDef_Init(&definition);
}
