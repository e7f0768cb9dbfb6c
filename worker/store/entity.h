/* SPDX-License-Identifier: MIT */
/*
 * An entity: keys, ETag and typed properties. A value keeps its Edm type and
 * its exact text: it is stored as the service's JSON text, so an unchanged
 * value is sent back exactly as it was received.
 *
 * Source: Table service REST, "Payload format for Table service operations" and
 * "Understanding the Table service data model".
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

/* edm_type_name: return the name of a type, such as "Edm.Int64".
 * edm_type_named: find the type with that name; false: the name is unknown. */
const char *edm_type_name(enum edm_type type);
bool edm_type_named(struct slice name, enum edm_type *ret);

#define ENTITY_MAX_BYTES (1024 * 1024)
#define ENTITY_MAX_PROPERTIES 252
/* Maximum number of properties of an entity that is read:
 * ENTITY_MAX_PROPERTIES, both keys and Timestamp; no store keeps more. */
#define ENTITY_MAX_READ_PROPERTIES 255
#define ENTITY_MAX_VALUE_BYTES (64 * 1024) /* size of one String or Binary */
#define ENTITY_MAX_KEY_UNITS 512           /* UTF-16 units of one key */
/* Size of one key in UTF-8: room for 512 UTF-16 units, and for the larger limit
 * of Cosmos DB. */
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
    struct slice etag;                   /* opaque; empty: unknown */
    struct slice timestamp;              /* Timestamp as the service wrote it;
                                            empty: unknown */
    struct property *properties;         /* all properties but keys and
                                            Timestamp */
    size_t property_count;
};

/*
 * entity_parse: parse one JSON object in minimalmetadata (as the service and
 * our export write it) at the start of text. odata.* members are used or
 * ignored. They may be repeated, and then the last one counts: an SDK may store
 * odata.metadata as a property, which Azurite then returns beside its own. null
 * properties count as absent. *ret_end (may be NULL): bytes used. need_keys:
 * both keys are required. Keys, names, values and the ETag point into text,
 * which must outlive them; those with escapes live in arena. None of them is
 * NUL-terminated.
 *
 * TW_INVALID: err names the property, never its value. Refused: any other
 * repeated name, also NAME@odata.type; numbers outside their type; unknown Edm
 * types; malformed values; more than ENTITY_MAX_READ_PROPERTIES properties.
 */
TW_MUST_USE enum tw_err entity_parse(struct slice text, bool need_keys,
    struct arena *arena, struct entity *ret, size_t *ret_end, struct err *err);

/*
 * entity_parse_exact: like entity_parse() with need_keys, for a text that does
 * not come from a service: nothing in it is ignored or replaced silently. So it
 * also refuses
 *
 * - a name with an @ that is not an annotation of OData, because a value or its
 *   type would be lost;
 * - a key with half of a surrogate pair, because the decoded key would be that
 *   of another entity.
 */
TW_MUST_USE enum tw_err entity_parse_exact(struct slice text,
    struct arena *arena, struct entity *ret, size_t *ret_end, struct err *err);

/*
 * entity_read: like entity_parse(), with a reader, which keeps its memory from
 * one entity to the next, so that a page's thousand entities need no allocation
 * each. The caller of entity_reader_new() owns the reader, and one thread at a
 * time may use it; no entity borrows from it.
 */
struct entity_reader;
struct entity_reader *entity_reader_new(void);
void entity_reader_free(struct entity_reader *reader);
TW_MUST_USE enum tw_err entity_read(struct entity_reader *reader,
    struct slice text, bool need_keys, struct arena *arena, struct entity *ret,
    size_t *ret_end, struct err *err);

/*
 * entity_write: add the entity as one line of JSON: PartitionKey, RowKey, then
 * its properties in their order, each with its type if the service needs one (a
 * Double always has one). No ETag, no Timestamp.
 */
void entity_write(const struct entity *entity, struct buf *to);

/* entity_write_properties: like entity_write(), without the keys; {} if there
 * are no properties. */
void entity_write_properties(const struct entity *entity, struct buf *to);

/* entity_find: return the property of that name, or NULL. Keys are fields, not
 * properties. */
const struct property *entity_find(
    const struct entity *entity, struct slice name);

/* Values. Each function returns false if the property has another type. */
bool property_boolean(const struct property *property, bool *ret);
bool property_int32(const struct property *property, int32_t *ret);
bool property_int64(const struct property *property, int64_t *ret);
/* property_integer: read an Int32 or Int64. */
bool property_integer(const struct property *property, int64_t *ret);
bool property_double(const struct property *property, double *ret);
bool property_ticks(const struct property *property, int64_t *ret_ticks);
/* property_text: decode the text of a String, or of a Guid, DateTime or Binary
 * as it is written in JSON, into arena. */
bool property_text(
    const struct property *property, struct arena *arena, struct slice *ret);

/* property_peek_text: like property_text(), but copies only a text with
 * escapes. *ret lives as long as both arena and property->json. */
bool property_peek_text(
    const struct property *property, struct arena *arena, struct slice *ret);

/* property_equal: do a and b have the same type and the same value? DateTimes
 * are compared by ticks, Guids without case, Binaries and Strings by bytes,
 * Doubles by bits; NaN equals NaN. */
bool property_equal(const struct property *a, const struct property *b);

/* entity_has_all: does entity have all properties of wanted with the same
 * values? Keys and further properties are ignored. */
bool entity_has_all(const struct entity *entity, const struct entity *wanted);

/* entity_without: return entity without the property `name`. Only the list of
 * properties is new, in arena; everything in it is borrowed from entity. */
struct entity entity_without(
    const struct entity *entity, struct slice name, struct arena *arena);

/*
 * Building: properties are added or replaced by name; names and values are
 * copied into arena. entity_init begins an entity with copied keys.
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

/* entity_copy: make a deep copy in arena. */
void entity_copy(
    struct entity *to, struct arena *arena, const struct entity *from);

/* entity_add_keys: add 'PartitionKey' / 'RowKey', quoted, for messages. */
void entity_add_keys(
    struct buf *to, struct slice partition_key, struct slice row_key);

/* entity_size: estimate the bytes that entity takes in memory; for budgets. */
size_t entity_size(const struct entity *entity);

/* entity_json_bytes: return a lower bound of the JSON bytes sent for entity.
 * Cheap. */
size_t entity_json_bytes(const struct entity *entity);

/* entity_service_bytes: return the size of entity as the service counts it; the
 * service's limit is 1 MiB. */
size_t entity_service_bytes(const struct entity *entity);

/*
 * entity_check: refuse what no store accepts:
 *
 * TW_INVALID    a key that entity_check_key() refuses; a name that
 *               entity_check_name() refuses; a property named as a key or
 *               Timestamp; a value that is not UTF-8 (it could not be read
 *               back); more than 252 properties.
 * TW_TOO_LARGE  a String or Binary over 64 KiB; an entity over 1 MiB. Sizes are
 *               counted as the service counts them: two bytes for each UTF-16
 *               unit of a String.
 */
TW_MUST_USE enum tw_err entity_check(
    const struct entity *entity, struct err *err);

/*
 * entity_check_key: refuse what the service forbids in keys (/ \ # ?,
 * U+0000-001F, U+007F-009F, over 512 UTF-16 units, invalid UTF-8) with an error
 * text. which: "PartitionKey" or "RowKey".
 */
TW_MUST_USE enum tw_err entity_check_key(
    const char *which, struct slice key, struct err *err);

/* entity_check_key_prefix: like entity_check_key(), for a prefix of keys. A
 * prefix may have any length; one that is longer than a key matches nothing. */
TW_MUST_USE enum tw_err entity_check_key_prefix(
    const char *which, struct slice prefix, struct err *err);

/* entity_check_name: check that name is a valid property name of the
 * service. */
TW_MUST_USE enum tw_err entity_check_name(struct slice name, struct err *err);

/* entity_check_table: check that name matches ^[A-Za-z][A-Za-z0-9]{2,62}$ and
 * is not "tables". */
TW_MUST_USE enum tw_err entity_check_table(struct slice name, struct err *err);

#endif
