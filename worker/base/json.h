/* SPDX-License-Identifier: MIT */
/*
 * JSON. Only user of json-c, which validates and decodes; the raw text of
 * every member of an object is kept beside it, because a value that is not
 * understood must be written back exactly as it came.
 *
 * Refused: anything that is not strict JSON, invalid UTF-8, duplicate names,
 * nesting deeper than asked for, more values than below, trailing bytes, a NUL
 * in a name. What a text takes in memory is so bounded, whoever wrote it: a
 * value of two bytes, "1,", takes some 250. Never fails
 * for lack of memory: json-c 0.16 has no hook for an allocator, but what it
 * gives back is checked for completeness, and less ends the process (mem.h).
 * Lone surrogates in escapes are decoded as U+FFFD; raw keeps them.
 */
#ifndef TW_BASE_JSON_H
#define TW_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

enum json_type {
    JSON_NULL,
    JSON_BOOLEAN,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

struct json; /* a parsed value; its children are borrowed from it */

struct json_member {
    struct slice name; /* decoded */
    struct slice raw;  /* the value's text as it came, quotes included */
    enum json_type type;
    struct slice text; /* JSON_STRING: decoded, NULs included; JSON_NUMBER:
                          the number's text; JSON_BOOLEAN: true or false */
};

/* The largest max_depth. */
#define JSON_DEPTH_LIMIT 64

/* The most values of a text: what fits into 64 KiB, the largest property or
 * message, never has more. The most of a flat object: an entity of 255
 * properties, each with its type, and annotations beside. */
#define JSON_MAX_VALUES 32768
#define JSON_MAX_MEMBERS 1024

/*
 * json_parse: a whole text. max_depth counts nested arrays and objects; 1
 * allows a flat object. On failure err has the byte offset. Owned, for
 * json_free(). text is borrowed for the life of the value.
 */
TW_MUST_USE enum tw_err json_parse(
    struct slice text, unsigned max_depth, struct json **ret, struct err *err);
void json_free(struct json *json);

/*
 * json_flat_object: the members of the one object at the start of text, in
 * their order, without a tree: what entities are read with. Nested values are
 * refused. *ret_end: bytes used. Members live in scratch, with what it takes to
 * read them; decoded texts live in arena; raw points into text.
 */
TW_MUST_USE enum tw_err json_flat_object(struct slice text,
    struct arena *scratch, struct arena *arena, struct json_member **ret,
    size_t *ret_count, size_t *ret_end, struct err *err);

/*
 * json_annotated_object: json_flat_object, but names that begin with
 * `annotation` ("odata.") may be repeated: the last value counts and has the
 * place of the first. That holds for the first JSON_MAX_ANNOTATIONS different
 * ones; a further one may not be repeated, nor one with escapes in its name.
 */
#define JSON_MAX_ANNOTATIONS 16
TW_MUST_USE enum tw_err json_annotated_object(struct slice text,
    const char *annotation, struct arena *scratch, struct arena *arena,
    struct json_member **ret, size_t *ret_count, size_t *ret_end,
    struct err *err);

enum json_type json_type(const struct json *json);
struct slice json_raw(const struct json *json);    /* its exact text */
struct slice json_string(const struct json *json); /* of a JSON_STRING */
bool json_boolean(const struct json *json);        /* of a JSON_BOOLEAN */

/* json_int64: false unless a number without point or exponent in range. */
bool json_int64(const struct json *json, int64_t *ret);

size_t json_count(const struct json *json); /* of an array or object */
const struct json *json_at(const struct json *array, size_t index);
const struct json *json_get(const struct json *object, const char *name);
/* json_name: the name of the index-th member of an object, in its order. */
struct slice json_name(const struct json *object, size_t index);
const struct json *json_value(const struct json *object, size_t index);

/* json_add_string: add text (valid UTF-8, NULs allowed) quoted and escaped:
 * \" \\ \n \r \t; what text_is_hidden() as \uXXXX, for a terminal may show
 * it; everything else as it is. At most six bytes for one. */
void json_add_string(struct buf *to, struct slice text);

#endif
