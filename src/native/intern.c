/* Distinct byte strings in order of appearance, found by hash.

   The hash is seeded per process, so that a file cannot be written to collide; a look-up that takes too many steps all
   the same gives the file up. */

#include "scan.h"

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t half(const uint8_t *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, 4);
    return word;
}

uint64_t hash_bytes(uint64_t seed, const uint8_t *bytes, size_t length)
{
    const uint64_t p0 = 0xa0761d6478bd642fULL, p1 = 0xe7037ed1a0b428dbULL, p2 = 0x8ebc6af09c88c6e3ULL;
    uint64_t hash = mix(seed ^ p0, length + p1), low = 0, high = 0;
    if (length > 16) {
        const uint8_t *last = bytes + length - 16;
        uint64_t other = hash;
        for (; last - bytes > 16; bytes += 32) {
            hash = mix(word_at(bytes) ^ hash, word_at(bytes + 8) ^ seed ^ p1);
            other = mix(word_at(bytes + 16) ^ other, word_at(bytes + 24) ^ seed ^ p2);
        }
        if (last > bytes)
            hash = mix(word_at(bytes) ^ hash, word_at(bytes + 8) ^ seed ^ p1);
        hash ^= other;
        low = word_at(last);
        high = word_at(last + 8);
    } else if (length >= 8) {
        low = word_at(bytes);
        high = word_at(bytes + length - 8);
    } else if (length >= 4) {
        low = half(bytes);
        high = half(bytes + length - 4);
    } else if (length) {
        low = (uint64_t)bytes[0] << 16 | (uint64_t)bytes[length / 2] << 8 | bytes[length - 1];
    }
    return mix(mix(low ^ hash, high ^ seed ^ p1) ^ p0, length ^ p2);
}

static int rehash(Interner *table)
{
    size_t slots = table->slots ? table->slots * 2 : 64;
    uint32_t *fresh = calloc(slots, sizeof *fresh);
    if (fresh == NULL)
        return NO_MEMORY;
    for (size_t i = 0; i < table->count; i++) {
        size_t place = table->hashes[i] & (slots - 1);
        while (fresh[place])
            place = (place + 1) & (slots - 1);
        fresh[place] = (uint32_t)i + 1;
    }
    free(table->table);
    table->table = fresh;
    table->slots = slots;
    return OK;
}

int intern(Interner *table, uint64_t seed, const void *bytes, size_t length, uint32_t *index)
{
    if ((table->count + 1) * 2 > table->slots)
        TRY(rehash(table));
    uint64_t hash = hash_bytes(seed, bytes, length);
    size_t place = hash & (table->slots - 1);
    for (int probe = 0; table->table[place]; probe++) {
        size_t found = table->table[place] - 1;
        if (table->hashes[found] == hash) {
            size_t known;
            const uint8_t *same = interned(table, found, &known);
            if (known == length && same_bytes(same, bytes, length)) {
                *index = (uint32_t)found;
                return OK;
            }
        }
        if (probe == MAX_PROBES)
            return NOT_MINE;
        place = (place + 1) & (table->slots - 1);
    }
    if (table->count >= INT32_MAX)
        return NOT_MINE;
    size_t room = table->capacity;
    TRY(grow((void **)&table->bytes, &table->room, table->used + length, 1));
    TRY(grow((void **)&table->ends, &room, table->count + 1, sizeof *table->ends));
    TRY(grow((void **)&table->hashes, &table->capacity, table->count + 1, sizeof *table->hashes));
    if (length)
        memcpy(table->bytes + table->used, bytes, length);
    table->used += length;
    table->ends[table->count] = table->used;
    table->hashes[table->count] = hash;
    table->table[place] = (uint32_t)table->count + 1;
    *index = (uint32_t)table->count++;
    return OK;
}

void intern_free(Interner *table)
{
    free(table->bytes);
    free(table->ends);
    free(table->hashes);
    free(table->table);
}
