/* SPDX-License-Identifier: MIT */
/*
 * Digests of entities.
 *
 * The digest of an entity is computed from these bytes; numbers are
 * little-endian:
 *
 *   PartitionKey, RowKey      each key as a piece
 *   each property, by name    the name as a piece; one byte for the type, one
 *                             for the form of the value; the value as a piece
 *   a piece                   the length in four bytes, then the bytes
 *
 * A value (form 'v') is what property_equal() compares: a number, ticks or bits
 * in eight bytes, or a decoded text. Form 'r' is the raw text of a value that
 * is invalid for its type. Digests are stored in entities, so this format may
 * never change.
 */
#include "jobs/engine/digest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/base/arena.h"
#include "worker/base/crypto.h"

/* ---- the digest of an entity ---- */

static const char type_letters[] = {
    [EDM_BINARY] = 'y',
    [EDM_BOOLEAN] = 'b',
    [EDM_DATETIME] = 't',
    [EDM_DOUBLE] = 'd',
    [EDM_GUID] = 'g',
    [EDM_INT32] = 'i',
    [EDM_INT64] = 'l',
    [EDM_STRING] = 's',
};

/* PIECE_BYTES: size of the length of a piece. PROPERTY_BYTES: maximum number of
 * bytes of a property besides its name and its JSON text. */
#define PIECE_BYTES 4
#define PROPERTY_BYTES (PIECE_BYTES + 2 + PIECE_BYTES + 8)

/* Returns an upper limit of the number of digested bytes of entity. It counts
 * the JSON of a text, because a decoded text is never longer. */
static size_t most_bytes(const struct entity *entity)
{
    size_t bytes =
        2 * PIECE_BYTES + entity->partition_key.len + entity->row_key.len;

    for (size_t i = 0; i < entity->property_count; i++)
        bytes += PROPERTY_BYTES + entity->properties[i].name.len +
                 entity->properties[i].json.len;
    return bytes;
}

/* Each put_ function writes at `to` and returns the end of what was written. */

static char *put_number(char *to, uint64_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        *to++ = (char)(number >> (8 * i) & 0xff);
    return to;
}

static char *put_piece(char *to, struct slice piece)
{
    to = put_number(to, piece.len, PIECE_BYTES);
    if (piece.len > 0)
        memcpy(to, piece.at, piece.len);
    return to + piece.len;
}

static char *put_value(char *to, uint64_t number)
{
    *to++ = 'v';
    to = put_number(to, 8, PIECE_BYTES);
    return put_number(to, number, 8);
}

static char *put_text(char *to, char form, struct slice text)
{
    *to++ = form;
    return put_piece(to, text);
}

static char *put_lower(char *to, struct slice text)
{
    char *end = put_text(to, 'v', text);

    for (char *at = end - text.len; at < end; at++)
        if (*at >= 'A' && *at <= 'Z')
            *at += 'a' - 'A';
    return end;
}

static uint64_t bits_of(double value)
{
    uint64_t bits;

    if (isnan(value))
        return UINT64_C(0x7ff8000000000000);
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static char *put_property(
    char *to, const struct property *property, struct arena *arena)
{
    struct slice text;
    int64_t number;
    double value;

    to = put_piece(to, property->name);
    *to++ = type_letters[property->type];
    if (property_integer(property, &number) ||
        property_ticks(property, &number))
        return put_value(to, (uint64_t)number);
    if (property_double(property, &value))
        return put_value(to, bits_of(value));
    if (property->type == EDM_GUID)
        return put_lower(to, property->json);
    if (property->type != EDM_DATETIME &&
        property_peek_text(property, arena, &text))
        return put_text(to, 'v', text);
    return put_text(to, 'r', property->json);
}

static int compare_names(const void *left, const void *right)
{
    const struct property *a = *(const struct property *const *)left;
    const struct property *b = *(const struct property *const *)right;

    return slice_compare(a->name, b->name);
}

/* Up to this number of properties sort_few() is used, because qsort() is slow
 * for few elements, and most entities have few properties. */
#define FEW 24

static void sort_few(const struct property **list, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const struct property *moved = list[i];
        size_t at = i;

        for (; at > 0 && slice_compare(list[at - 1]->name, moved->name) > 0;
             at--)
            list[at] = list[at - 1];
        list[at] = moved;
    }
}

/* Returns all properties except `but`, sorted by name. */
static const struct property **sort_properties(const struct entity *entity,
    struct slice but, struct arena *arena, size_t *ret_count)
{
    const struct property **sorted =
        arena_alloc(arena, entity->property_count * sizeof(*sorted));
    size_t count = 0;

    for (size_t i = 0; i < entity->property_count; i++)
        if (but.len == 0 || !slice_equal(entity->properties[i].name, but))
            sorted[count++] = &entity->properties[i];
    if (count <= FEW)
        sort_few(sorted, count);
    else
        qsort(sorted, count, sizeof *sorted, compare_names);
    *ret_count = count;
    return sorted;
}

static uint64_t big_endian(const unsigned char *at)
{
    uint64_t number = 0;

    for (size_t i = 0; i < 8; i++)
        number = number << 8 | at[i];
    return number;
}

struct digest digest_of(struct slice bytes)
{
    unsigned char sha256[CRYPTO_SHA256_BYTES];

    crypto_sha256(bytes, sha256);
    return (struct digest){
        .high = big_endian(sha256), .low = big_endian(sha256 + 8)};
}

struct digest entity_digest(const struct entity *entity, struct slice but)
{
    const struct property **sorted;
    struct digest digest;
    struct arena arena;
    char *bytes, *at;
    size_t count;

    arena_init(&arena);
    bytes = arena_alloc(&arena, most_bytes(entity));
    sorted = sort_properties(entity, but, &arena, &count);
    at = put_piece(bytes, entity->partition_key);
    at = put_piece(at, entity->row_key);
    for (size_t i = 0; i < count; i++)
        at = put_property(at, sorted[i], &arena);
    digest = digest_of((struct slice){bytes, (size_t)(at - bytes)});
    arena_done(&arena);
    return digest;
}

void digest_text(const struct digest *digest, char to[2 * DIGEST_BYTES + 1])
{
    (void)snprintf(to, 2 * DIGEST_BYTES + 1, "%016llx%016llx",
        (unsigned long long)digest->high, (unsigned long long)digest->low);
}

bool digest_parse(struct slice text, struct digest *ret)
{
    static const char DIGITS[] = "0123456789abcdef";
    uint64_t halves[2] = {0, 0};

    if (text.len != (size_t)2 * DIGEST_BYTES)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        const char *digit = memchr(DIGITS, text.at[i], 16);

        if (!digit)
            return false;
        halves[i / 16] = halves[i / 16] << 4 | (uint64_t)(digit - DIGITS);
    }
    *ret = (struct digest){.high = halves[0], .low = halves[1]};
    return true;
}

void digest_add(struct digest *sum, struct digest more)
{
    sum->low += more.low;
    sum->high += more.high + (sum->low < more.low);
}
