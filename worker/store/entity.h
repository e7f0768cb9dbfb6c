/* SPDX-License-Identifier: MIT */
/*
 * An entity: keys, ETag and typed properties. A value keeps its Edm type and
 * its exact text: it is held as the JSON text in which the service writes it,
 * so that what is not changed goes back as it came.
 *
 * Source: Table service REST, "Payload format for Table service operations"
 * and "Understanding the Table service data model".
 */
#ifndef TW_STORE_ENTITY_H
#define TW_STORE_ENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

enum edm_type {
    EDM_BINARY,
    EDM_BOOLEAN,
    EDM_DATETIME,
    EDM_DOUBLE,
    EDM_GUID,
    EDM_INT32,
    EDM_INT64,
    EDM_STRING,
};

/* "Edm.Int64"; edm_type_named: false when there is no such type. */
const char *edm_type_name(enum edm_type type);
bool edm_type_named(struct slice name, enum edm_type *ret);

#define ENTITY_MAX_BYTES (1024 * 1024)
#define ENTITY_MAX_PROPERTIES 252
/* What an entity that is read may have: those, and both keys and Timestamp,
 * for no store has kept more. */
#define ENTITY_MAX_READ_PROPERTIES 255
#define ENTITY_MAX_VALUE_BYTES (64 * 1024) /* of one String or Binary */
#define ENTITY_MAX_KEY_UNITS 512           /* UTF-16 */
/* 512 UTF-16 units in UTF-8, and what Cosmos DB allows beyond that. */
#define ENTITY_MAX_KEY_BYTES 2048

struct property {
    struct slice name;
    enum edm_type type;
    struct slice json; /* the value's JSON text: "text", 5, 5.0, "NaN",
                          "123" (Int64), true, "2024-01-01T00:00:00Z" */
};

/* All slices are borrowed, mostly from the arena of a page or a batch. */
struct entity {
    struct slice partition_key, row_key; /* decoded UTF-8 */
    struct slice etag;                   /* opaque; empty: none known */
    struct slice timestamp;              /* as the service wrote it, or empty */
    struct property *properties;         /* without keys and Timestamp */
    size_t property_count;
};

/*
 * entity_parse: one JSON object in minimalmetadata (as the service and our
 * export write it) at the start of text. odata.* members are understood or
 * passed over; of one that is repeated the last counts (an SDK may store
 * odata.metadata as a property, which Azurite then returns beside its own).
 * null properties count as absent. *ret_end (may be NULL): bytes used.
 * need_keys: both keys must be there. Keys, names, values and ETag point into
 * text, which must stay, or live in arena where they have escapes; nothing is
 * NUL-terminated.
 *
 * TW_INVALID: err names the property, never its value. Refused: duplicate
 * names of properties and of their types, numbers outside their type, unknown
 * Edm types, malformed values, more than ENTITY_MAX_READ_PROPERTIES.
 */
TW_MUST_USE enum tw_err entity_parse(struct slice text, bool need_keys,
    struct arena *arena, struct entity *ret, size_t *ret_end, struct err *err);

/*
 * entity_read: the same with what reading takes kept from one entity to the
 * next, so that none of a page's thousand allocates it anew. A reader is owned,
 * for entity_reader_free(), and is one thread's at a time; no entity borrows
 * from it.
 */
struct entity_reader;
struct entity_reader *entity_reader_new(void);
void entity_reader_free(struct entity_reader *reader);
TW_MUST_USE enum tw_err entity_read(struct entity_reader *reader,
    struct slice text, bool need_keys, struct arena *arena, struct entity *ret,
    size_t *ret_end, struct err *err);

/*
 * entity_write: add the entity as one line of JSON: PartitionKey, RowKey, then
 * its properties in their order, each with its type where the service needs
 * one (Double always). No ETag, no Timestamp.
 */
void entity_write(const struct entity *entity, struct buf *to);

/* entity_write_properties: the same without the keys; {} where there are no
 * properties. */
void entity_write_properties(const struct entity *entity, struct buf *to);

/* entity_find: the property of that name, or NULL. Keys are fields, not
 * properties. */
const struct property *entity_find(
    const struct entity *entity, struct slice name);

/* Values. Each returns false when the property is of another type. */
bool property_boolean(const struct property *property, bool *ret);
bool property_int32(const struct property *property, int32_t *ret);
bool property_int64(const struct property *property, int64_t *ret);
/* property_integer: Int32 or Int64. */
bool property_integer(const struct property *property, int64_t *ret);
bool property_double(const struct property *property, double *ret);
bool property_ticks(const struct property *property, int64_t *ret_ticks);
/* property_text: a String's text, or a Guid's, DateTime's or Binary's as
 * written; decoded into arena. */
bool property_text(
    const struct property *property, struct arena *arena, struct slice *ret);

/* property_peek_text: the same without a copy where none is needed: lives as
 * long as both arena and property->json. */
bool property_peek_text(
    const struct property *property, struct arena *arena, struct slice *ret);

/* property_equal: same type and same value (DateTime by ticks, Guid without
 * case, Binary and String by bytes, Double by bits, NaN equals NaN). */
bool property_equal(const struct property *a, const struct property *b);

/* entity_has_all: has it all the properties of wanted, with the same values?
 * Keys do not count, nor what it has beside. */
bool entity_has_all(const struct entity *entity, const struct entity *wanted);

/* entity_without: entity, but without the property `name`. Its list of
 * properties is a new one in arena; all else is borrowed from entity. */
struct entity entity_without(
    const struct entity *entity, struct slice name, struct arena *arena);

/*
 * Building: properties are added or replaced by name; names and values are
 * copied into arena. entity_init starts one with copied keys.
 */
void entity_init(struct entity *entity, struct arena *arena,
    struct slice partition_key, struct slice row_key);
void entity_set_string(struct entity *entity, struct arena *arena,
    const char *name, struct slice value);
void entity_set_int32(struct entity *entity, struct arena *arena,
    const char *name, int32_t value);
void entity_set_int64(struct entity *entity, struct arena *arena,
    const char *name, int64_t value);
void entity_set_boolean(
    struct entity *entity, struct arena *arena, const char *name, bool value);
void entity_set_double(
    struct entity *entity, struct arena *arena, const char *name, double value);
void entity_set_datetime(struct entity *entity, struct arena *arena,
    const char *name, int64_t ticks);
void entity_set(struct entity *entity, struct arena *arena,
    const struct property *property);

/* entity_copy: a deep copy into arena. */
void entity_copy(
    struct entity *to, struct arena *arena, const struct entity *from);

/* entity_add_keys: add 'PartitionKey' / 'RowKey' for people, quoted. */
void entity_add_keys(
    struct buf *to, struct slice partition_key, struct slice row_key);

/* entity_size: bytes it holds in memory, roughly; for budgets. */
size_t entity_size(const struct entity *entity);

/* entity_json_bytes: at least this much JSON is sent for it. Cheap. */
size_t entity_json_bytes(const struct entity *entity);

/* entity_service_bytes: what the service counts for it, of 1 MiB. */
size_t entity_service_bytes(const struct entity *entity);

/*
 * entity_check: refuse what no store takes: keys and names as below, a value
 * that is not UTF-8 (whoever read it back would read nothing), a
 * property named as a key or Timestamp, more than 252 of them (TW_INVALID);
 * a String or Binary over 64 KiB, an entity over 1 MiB (TW_TOO_LARGE). Sizes
 * are the service's: a String counts two bytes a UTF-16 unit.
 */
TW_MUST_USE enum tw_err entity_check(
    const struct entity *entity, struct err *err);

/*
 * entity_check_key: refuse what the service forbids in keys (/ \ # ?,
 * U+0000-001F, U+007F-009F, over 512 UTF-16 units, invalid UTF-8) with a
 * sentence. which: "PartitionKey" or "RowKey".
 */
TW_MUST_USE enum tw_err entity_check_key(
    const char *which, struct slice key, struct err *err);

/* entity_check_key_prefix: the same of how a key is to begin, at any length:
 * what is longer than a key begins none. */
TW_MUST_USE enum tw_err entity_check_key_prefix(
    const char *which, struct slice prefix, struct err *err);

/* entity_check_name: a property name the service takes. */
TW_MUST_USE enum tw_err entity_check_name(struct slice name, struct err *err);

/* entity_check_table: ^[A-Za-z][A-Za-z0-9]{2,62}$, not "tables". */
TW_MUST_USE enum tw_err entity_check_table(struct slice name, struct err *err);

#endif
