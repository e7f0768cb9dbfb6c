/* SPDX-License-Identifier: MIT */
/* The property of a copy that says where it comes from: written and read. */
#include "jobs/provenance.h"

#include <stdint.h>
#include <strings.h>

#include "jobs/engine/keys.h"
#include "jobs/engine/tally.h"
#include "worker/base/buf.h"
#include "worker/base/json.h"

#define DEPTH 2 /* an object, and a list in it */

/* The members that are texts, as they are written. */
static const struct {
    const char *name;
    size_t offset; /* in struct provenance */
} TEXTS[] = {
    {"store", offsetof(struct provenance, store)},
    {"table", offsetof(struct provenance, table)},
    {"etag", offsetof(struct provenance, etag)},
    {"job", offsetof(struct provenance, job)},
    {"run", offsetof(struct provenance, run)},
    {"digest", offsetof(struct provenance, digest)},
};

#define TEXT_COUNT (sizeof(TEXTS) / sizeof(TEXTS[0]))
#define KEYS_BEFORE 2 /* of TEXTS: then comes the list of keys */

/* And one that need not be there. */
#define IDENTITY "identity"

static struct slice *text_of(struct provenance *provenance, size_t i)
{
    return (struct slice *)(void *)((char *)provenance + TEXTS[i].offset);
}

/* ---- writing ---- */

static void add_provenance(struct provenance *provenance, struct buf *to)
{
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        if (i == KEYS_BEFORE) {
            buf_add_text(to, ",\"key\":");
            keys_write(to, provenance->partition_key, provenance->row_key);
        }
        buf_add_format(to, "%c\"%s\":", i == 0 ? '{' : ',', TEXTS[i].name);
        json_add_string(to, *text_of(provenance, i));
    }
    if (provenance->identity.len > 0) {
        buf_add_text(to, ",\"" IDENTITY "\":");
        json_add_string(to, provenance->identity);
    }
    buf_add_text(to, provenance->moved ? ",\"mode\":\"move\"}" : "}");
}

void provenance_stamp(struct entity *copy, struct slice name,
    const struct provenance *provenance, struct arena *arena)
{
    struct provenance stamped = *provenance;
    char hex[2 * DIGEST_BYTES + 1];
    struct digest digest = entity_digest(copy, name);
    struct buf text, json;

    digest_text(&digest, hex);
    stamped.digest = slice_of(hex);
    buf_init(&text, SIZE_MAX / 2);
    buf_init(&json, SIZE_MAX / 2);
    add_provenance(&stamped, &text);
    json_add_string(&json, buf_slice(&text));
    entity_set(
        copy, arena, &(struct property){name, EDM_STRING, buf_slice(&json)});
    buf_done(&text);
    buf_done(&json);
}

/* ---- reading ---- */

static bool read_text(
    const struct json *json, struct arena *arena, struct slice *ret)
{
    if (!json || json_type(json) != JSON_STRING)
        return false;
    *ret = arena_copy(arena, json_string(json));
    return true;
}

static bool read_members(
    const struct json *json, struct arena *arena, struct provenance *ret)
{
    struct slice partition_key, row_key;
    const struct json *mode;

    for (size_t i = 0; i < TEXT_COUNT; i++)
        if (!read_text(json_get(json, TEXTS[i].name), arena, text_of(ret, i)))
            return false;
    if (!keys_read(json_get(json, "key"), &partition_key, &row_key))
        return false;
    ret->partition_key = arena_copy(arena, partition_key);
    ret->row_key = arena_copy(arena, row_key);
    if (!read_text(json_get(json, IDENTITY), arena, &ret->identity))
        ret->identity = slice_of("");
    ret->at_home = false;
    mode = json_get(json, "mode");
    ret->moved = mode && json_type(mode) == JSON_STRING &&
                 slice_is(json_string(mode), "move");
    return true;
}

bool provenance_read(const struct entity *copy, struct slice name,
    struct arena *arena, struct provenance *ret)
{
    const struct property *property = entity_find(copy, name);
    struct provenance read;
    struct digest digest;
    struct slice text;
    struct json *json;
    bool good;

    if (!property || property->type != EDM_STRING ||
        !property_peek_text(property, arena, &text) ||
        json_parse(text, DEPTH, &json, NULL) != TW_OK)
        return false;
    good = json_type(json) == JSON_OBJECT && read_members(json, arena, &read) &&
           digest_parse(read.digest, &digest);
    json_free(json);
    if (good)
        *ret = read;
    return good;
}

/* ---- comparing ---- */

/* Their names differ in case only. */
static bool same_table(struct slice a, struct slice b)
{
    return a.len == b.len &&
           (a.len == 0 || strncasecmp(a.at, b.at, a.len) == 0);
}

bool provenance_same_store(
    const struct provenance *provenance, const struct provenance *wanted)
{
    bool known = provenance->identity.len > 0 && wanted->identity.len > 0;

    if (known && slice_equal(provenance->identity, wanted->identity))
        return true;
    return (!known || wanted->at_home) &&
           slice_equal(provenance->store, wanted->store);
}

bool provenance_is_from(
    const struct provenance *provenance, const struct provenance *wanted)
{
    return provenance_same_store(provenance, wanted) &&
           same_table(provenance->table, wanted->table) &&
           slice_equal(provenance->job, wanted->job);
}

bool provenance_is_of(
    const struct provenance *provenance, const struct provenance *wanted)
{
    return provenance_same_store(provenance, wanted) &&
           same_table(provenance->table, wanted->table) &&
           slice_equal(provenance->partition_key, wanted->partition_key) &&
           slice_equal(provenance->row_key, wanted->row_key);
}

bool provenance_is_intact(const struct provenance *provenance,
    const struct entity *copy, struct slice name)
{
    char hex[2 * DIGEST_BYTES + 1];
    struct digest digest = entity_digest(copy, name);

    digest_text(&digest, hex);
    return slice_is(provenance->digest, hex);
}
