/* SPDX-License-Identifier: MIT */
/*
 * The profile: two tables of counts, one by property name and one by version,
 * and the largest entity so far. The key of a version is a letter for its type,
 * then its value, so that keys sort like versions.
 */
#include "jobs/engine/profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/base/arena.h"
#include "worker/base/hash.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

#define TYPES (EDM_STRING + 1)
#define FIRST_SLOTS 64
#define BUF_MAX ((size_t)1 << 40)

/* The first byte of a version's key: the type of the version. */
#define INTEGER 'a'
#define TEXT 'b'
#define OTHER 'c'
#define INTEGER_BYTES 9

#define ABSENT "(absent)"

struct type_counts {
    struct slice key;
    uint64_t hash;
    int64_t counts[TYPES];
};

struct table {
    struct arena *arena; /* arena that holds the keys */
    struct type_counts *entries;
    uint32_t *slots; /* slots of the hash table: index of an entry + 1; 0:
                      * free */
    size_t count, slot_count;
};

struct largest {
    struct buf partition_key, row_key;
    size_t bytes; /* size of the largest entity; 0: no entity yet */
};

struct profile {
    struct arena arena;
    struct slice version;
    struct table names, versions;
    struct largest largest;
    int64_t entities, absent;
    struct arena scratch; /* memory that is cleared after each entity */
    struct buf key;
};

/* ---- tables of counts ---- */

static void table_init(struct table *table, struct arena *arena)
{
    *table = (struct table){
        .arena = arena,
        .entries = mem_array(FIRST_SLOTS / 2, sizeof(struct type_counts)),
        .slots = mem_array(FIRST_SLOTS, sizeof(uint32_t)),
        .slot_count = FIRST_SLOTS,
    };
}

static void table_done(struct table *table)
{
    mem_free(table->entries);
    mem_free(table->slots);
}

static uint64_t hash_of(struct slice key)
{
    uint64_t hash = hash_slice(HASH_BEGIN, key);

    return hash ^ hash >> 32;
}

/* Returns the slot of the key or, if the table does not have the key, the free
 * slot for it. */
static uint32_t *slot_of(
    const struct table *table, struct slice key, uint64_t hash)
{
    size_t mask = table->slot_count - 1, at = (size_t)hash & mask;

    while (table->slots[at] > 0) {
        const struct type_counts *entry = &table->entries[table->slots[at] - 1];

        if (entry->hash == hash && slice_equal(entry->key, key))
            break;
        at = (at + 1) & mask;
    }
    return &table->slots[at];
}

/* Double the number of slots, of which at most half are used. */
static void grow(struct table *table)
{
    mem_free(table->slots);
    table->slot_count *= 2;
    table->slots = mem_array(table->slot_count, sizeof(uint32_t));
    table->entries = mem_resize(
        table->entries, table->slot_count / 2 * sizeof(struct type_counts));
    for (size_t i = 0; i < table->count; i++) {
        const struct type_counts *entry = &table->entries[i];

        *slot_of(table, entry->key, entry->hash) = (uint32_t)(i + 1);
    }
}

/* Returns the counts of key. A missing key is added first. NULL: the key is
 * missing, and the table already has `max` keys. */
static int64_t *counts_of(struct table *table, struct slice key, size_t max)
{
    uint64_t hash = hash_of(key);
    uint32_t *slot = slot_of(table, key, hash);

    if (*slot > 0)
        return table->entries[*slot - 1].counts;
    if (table->count == max)
        return NULL;
    if (table->count == table->slot_count / 2) {
        grow(table);
        slot = slot_of(table, key, hash);
    }
    table->entries[table->count] = (struct type_counts){
        .key = arena_copy(table->arena, key),
        .hash = hash,
    };
    *slot = (uint32_t)++table->count;
    return table->entries[table->count - 1].counts;
}

static int compare_keys(const void *a, const void *b)
{
    return slice_compare((*(const struct type_counts *const *)a)->key,
        (*(const struct type_counts *const *)b)->key);
}

/* Returns all entries in the order of their keys, in a list owned by the
 * caller. */
static const struct type_counts **in_order(const struct table *table)
{
    const struct type_counts **list =
        mem_array(table->count + 1, sizeof(*list));

    for (size_t i = 0; i < table->count; i++)
        list[i] = &table->entries[i];
    qsort(list, table->count, sizeof(*list), compare_keys);
    return list;
}

/* ---- versions ---- */

static bool is_whole(double value)
{
    const double limit = 9223372036854775808.0; /* 2 to the 63rd */

    return value >= -limit && value < limit && (double)(int64_t)value == value;
}

static bool whole_of(const struct property *property, int64_t *ret)
{
    double value;

    if (property_integer(property, ret))
        return true;
    if (!property_double(property, &value) || !is_whole(value))
        return false;
    *ret = (int64_t)value;
    return true;
}

/*
 * Append an integer as big-endian bytes with the sign bit inverted, so that
 * keys sort like the numbers.
 */
static void add_integer(struct buf *key, int64_t value)
{
    uint64_t bits = (uint64_t)value ^ UINT64_C(1) << 63;

    buf_add_char(key, INTEGER);
    for (int shift = 56; shift >= 0; shift -= 8)
        buf_add_char(key, (char)(bits >> shift & 0xFF));
}

static int64_t integer_of(struct slice key)
{
    uint64_t bits = 0;

    for (size_t i = 1; i < INTEGER_BYTES; i++)
        bits = bits << 8 | (unsigned char)key.at[i];
    return (int64_t)(bits ^ UINT64_C(1) << 63);
}

static struct slice after_letter(struct slice key)
{
    return (struct slice){key.at + 1, key.len - 1};
}

static struct slice version_key(
    struct profile *profile, const struct property *property)
{
    struct slice text;
    int64_t value;

    buf_clear(&profile->key);
    if (whole_of(property, &value)) {
        add_integer(&profile->key, value);
    } else if (property->type == EDM_STRING &&
               property_peek_text(property, &profile->scratch, &text)) {
        buf_add_char(&profile->key, TEXT);
        buf_add_slice(&profile->key, text);
    } else {
        buf_add_char(&profile->key, OTHER);
        buf_add_text(&profile->key, edm_type_name(property->type));
    }
    return buf_slice(&profile->key);
}

static int64_t total_of(const struct type_counts *entry)
{
    int64_t total = 0;

    for (int i = 0; i < TYPES; i++)
        total += entry->counts[i];
    return total;
}

static void add_version_name(struct buf *to, struct slice key)
{
    switch (key.at[0]) {
    case INTEGER:
        buf_add_format(to, "%" PRId64, integer_of(key));
        break;
    case TEXT:
        text_quote(to, after_letter(key));
        break;
    default:
        buf_add_format(to, "(%.*s)", SLICE_ARG(after_letter(key)));
    }
}

/* ---- adding ---- */

struct profile *profile_new(struct slice version)
{
    struct profile *profile = mem_alloc(sizeof(*profile));

    arena_init(&profile->arena);
    arena_init(&profile->scratch);
    profile->version = arena_copy(&profile->arena, version);
    table_init(&profile->names, &profile->arena);
    table_init(&profile->versions, &profile->arena);
    buf_init(&profile->largest.partition_key, BUF_MAX);
    buf_init(&profile->largest.row_key, BUF_MAX);
    buf_init(&profile->key, BUF_MAX);
    return profile;
}

void profile_free(struct profile *profile)
{
    if (!profile)
        return;
    table_done(&profile->names);
    table_done(&profile->versions);
    buf_done(&profile->largest.partition_key);
    buf_done(&profile->largest.row_key);
    buf_done(&profile->key);
    arena_done(&profile->scratch);
    arena_done(&profile->arena);
    mem_free(profile);
}

static enum tw_err count_property(
    struct profile *profile, const struct property *property, struct err *err)
{
    int64_t *counts =
        counts_of(&profile->names, property->name, PROFILE_MAX_PROPERTIES);

    if (!counts)
        return err_fail(err, TW_TOO_LARGE,
            "the table has more than %d different property names",
            PROFILE_MAX_PROPERTIES);
    counts[property->type]++;
    return TW_OK;
}

static enum tw_err count_version(
    struct profile *profile, const struct entity *entity, struct err *err)
{
    const struct property *property = entity_find(entity, profile->version);
    int64_t *counts;

    if (!property) {
        profile->absent++;
        return TW_OK;
    }
    counts = counts_of(&profile->versions, version_key(profile, property),
        PROFILE_MAX_VERSIONS);
    if (!counts)
        return err_fail(err, TW_TOO_LARGE,
            "property '%.*s' has more than %d different values, so it cannot "
            "be a version",
            SLICE_ARG(profile->version), PROFILE_MAX_VERSIONS);
    counts[property->type]++;
    return TW_OK;
}

static void keep_largest(struct largest *largest, const struct entity *entity)
{
    size_t bytes = entity_service_bytes(entity);

    if (bytes <= largest->bytes)
        return;
    largest->bytes = bytes;
    buf_clear(&largest->partition_key);
    buf_add_slice(&largest->partition_key, entity->partition_key);
    buf_clear(&largest->row_key);
    buf_add_slice(&largest->row_key, entity->row_key);
}

enum tw_err profile_add(
    struct profile *profile, const struct entity *entity, struct err *err)
{
    enum tw_err result = TW_OK;

    for (size_t i = 0; i < entity->property_count && result == TW_OK; i++)
        result = count_property(profile, &entity->properties[i], err);
    if (result == TW_OK && profile->version.len > 0)
        result = count_version(profile, entity, err);
    arena_clear(&profile->scratch);
    if (result != TW_OK)
        return result;
    keep_largest(&profile->largest, entity);
    profile->entities++;
    return TW_OK;
}

void profile_add_versions(const struct profile *profile, struct buf *to)
{
    const struct type_counts **list = in_order(&profile->versions);

    for (size_t i = 0; i < profile->versions.count; i++) {
        add_version_name(to, list[i]->key);
        buf_add_format(to, ": %" PRId64 "\n", total_of(list[i]));
    }
    if (profile->absent > 0)
        buf_add_format(to, ABSENT ": %" PRId64 "\n", profile->absent);
    mem_free(list);
}

/* ---- for people ---- */

#define PROPERTY "PROPERTY"
#define VERSION "VERSION"
#define TYPE_WIDTH 12
#define NUMBER_WIDTH 12

static void add_line(struct buf *to, size_t width, struct slice name,
    const char *type, const char *number)
{
    size_t used = text_utf16_units(name);

    buf_add_slice(to, name);
    buf_add_format(to, "%*s", (int)(width > used ? width - used : 0), "");
    if (type)
        buf_add_format(to, "  %-*s", TYPE_WIDTH, type);
    buf_add_format(to, "%*s\n", NUMBER_WIDTH, number);
}

static void add_count(struct buf *to, size_t width, struct slice name,
    const char *type, int64_t count)
{
    char number[32];

    snprintf(number, sizeof(number), "%" PRId64, count);
    add_line(to, width, name, type, number);
}

/* Returns the largest width of the title and of all names, in UTF-16 units. */
static size_t widest(const struct table *table,
    void (*add_name)(struct buf *to, struct slice key), const char *title)
{
    size_t width = strlen(title);
    struct buf name;

    buf_init(&name, BUF_MAX);
    for (size_t i = 0; i < table->count; i++) {
        size_t units;

        buf_clear(&name);
        add_name(&name, table->entries[i].key);
        units = text_utf16_units(buf_slice(&name));
        width = units > width ? units : width;
    }
    buf_done(&name);
    return width;
}

static void add_types(struct buf *to, size_t width, struct slice name,
    const struct type_counts *entry)
{
    for (int i = 0; i < TYPES; i++) {
        if (entry->counts[i] > 0)
            add_count(to, width, name, edm_type_name((enum edm_type)i),
                entry->counts[i]);
    }
}

static void add_properties_text(const struct table *names, struct buf *to)
{
    const struct type_counts **list = in_order(names);
    size_t width = widest(names, text_visible, PROPERTY);
    struct buf name;

    buf_init(&name, BUF_MAX);
    buf_add_char(to, '\n');
    add_line(to, width, slice_of(PROPERTY), "TYPE", "ENTITIES");
    for (size_t i = 0; i < names->count; i++) {
        buf_clear(&name);
        text_visible(&name, list[i]->key);
        add_types(to, width, buf_slice(&name), list[i]);
    }
    buf_done(&name);
    mem_free(list);
}

static void add_versions_text(const struct profile *profile, struct buf *to)
{
    const struct type_counts **list = in_order(&profile->versions);
    size_t width = widest(&profile->versions, add_version_name, VERSION);
    struct buf name;

    if (profile->absent > 0 && width < strlen(ABSENT))
        width = strlen(ABSENT);
    buf_init(&name, BUF_MAX);
    buf_add_char(to, '\n');
    add_line(to, width, slice_of(VERSION), NULL, "ENTITIES");
    for (size_t i = 0; i < profile->versions.count; i++) {
        buf_clear(&name);
        add_version_name(&name, list[i]->key);
        add_count(to, width, buf_slice(&name), NULL, total_of(list[i]));
    }
    if (profile->absent > 0)
        add_count(to, width, slice_of(ABSENT), NULL, profile->absent);
    buf_done(&name);
    mem_free(list);
}

/* Adds the keys and the size of the largest entity. Keys are printed whole, so
 * that the entity can be read with them. */
static void add_largest_text(const struct largest *largest, struct buf *to)
{
    buf_add_format(to, "largest:  %zu bytes, PartitionKey '", largest->bytes);
    text_visible(to, buf_slice(&largest->partition_key));
    buf_add_text(to, "', RowKey '");
    text_visible(to, buf_slice(&largest->row_key));
    buf_add_text(to, "'\n");
}

void profile_add_text(const struct profile *profile, struct buf *to)
{
    buf_add_format(to, "entities: %" PRId64 "\n", profile->entities);
    if (profile->entities == 0)
        return;
    add_largest_text(&profile->largest, to);
    add_properties_text(&profile->names, to);
    if (profile->version.len > 0)
        add_versions_text(profile, to);
}

/* ---- for programs ---- */

static void add_largest_json(const struct profile *profile, struct buf *to)
{
    if (profile->entities == 0) {
        buf_add_text(to, "null");
        return;
    }
    buf_add_text(to, "{\"PartitionKey\":");
    json_add_string(to, buf_slice(&profile->largest.partition_key));
    buf_add_text(to, ",\"RowKey\":");
    json_add_string(to, buf_slice(&profile->largest.row_key));
    buf_add_format(to, ",\"Bytes\":%zu}", profile->largest.bytes);
}

static void add_property_json(const struct type_counts *entry, struct buf *to)
{
    buf_add_text(to, "{\"Name\":");
    json_add_string(to, entry->key);
    for (int i = 0; i < TYPES; i++) {
        if (entry->counts[i] > 0)
            buf_add_format(to, ",\"%s\":%" PRId64,
                edm_type_name((enum edm_type)i), entry->counts[i]);
    }
    buf_add_char(to, '}');
}

static void add_version_json(const struct type_counts *entry, struct buf *to)
{
    buf_add_text(
        to, entry->key.at[0] == OTHER ? "{\"Type\":" : "{\"Version\":");
    if (entry->key.at[0] == INTEGER)
        buf_add_format(to, "%" PRId64, integer_of(entry->key));
    else
        json_add_string(to, after_letter(entry->key));
    buf_add_format(to, ",\"Entities\":%" PRId64 "}", total_of(entry));
}

static void add_list_json(const struct table *table,
    void (*add)(const struct type_counts *entry, struct buf *to),
    struct buf *to)
{
    const struct type_counts **list = in_order(table);

    for (size_t i = 0; i < table->count; i++) {
        if (i > 0)
            buf_add_text(to, ",\n  ");
        add(list[i], to);
    }
    mem_free(list);
}

static void add_versions_json(const struct profile *profile, struct buf *to)
{
    buf_add_text(to, ",\n \"Versions\":[");
    add_list_json(&profile->versions, add_version_json, to);
    if (profile->absent > 0)
        buf_add_format(to, "%s{\"Version\":null,\"Entities\":%" PRId64 "}",
            profile->versions.count > 0 ? ",\n  " : "", profile->absent);
    buf_add_char(to, ']');
}

void profile_add_json(
    const struct profile *profile, const char *table, struct buf *to)
{
    buf_add_text(to, "{\"Table\":");
    json_add_string(to, slice_of(table));
    buf_add_format(
        to, ",\"Entities\":%" PRId64 ",\n \"Largest\":", profile->entities);
    add_largest_json(profile, to);
    buf_add_text(to, ",\n \"Properties\":[");
    add_list_json(&profile->names, add_property_json, to);
    buf_add_char(to, ']');
    if (profile->version.len > 0)
        add_versions_json(profile, to);
    buf_add_text(to, "}\n");
}
