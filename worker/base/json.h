/* SPDX-License-Identifier: MIT */
/*
 * JSON, read in one pass where it lies: the exact text of every value is kept
 * as a slice of the text that is read, because a value that is not understood
 * must be written back exactly as it came. Only what has escapes is copied, to
 * be decoded.
 *
 * Refused: anything that is not strict JSON (RFC 8259), invalid UTF-8,
 * duplicate names, nesting deeper than asked for, more values than below,
 * trailing bytes, a NUL in a name. What a text takes in memory is so bounded,
 * whoever wrote it: a value of two bytes, "1,", takes some 250. Lone
 * surrogates in escapes are decoded as U+FFFD; raw keeps them.
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

/* The largest max_depth. */
#define JSON_DEPTH_LIMIT 64

/* The most values of a text: what fits into 64 KiB, the largest property or
 * message, never has more. The most of a flat object: an entity of 255
 * properties, each with its type, and annotations beside. */
#define JSON_MAX_VALUES 32768
#define JSON_MAX_MEMBERS 1024
#define JSON_MAX_ANNOTATIONS 16

/* ---- flat objects ---- */

struct json_member {
    struct slice name;   /* decoded */
    struct slice raw;    /* the value's text as it came, quotes included */
    const char *name_at; /* where the name's first quote is in the text */
    enum json_type type;
    bool escaped; /* a JSON_STRING with escapes */
};

/*
 * The members of one flat object, and what it takes to read them. It is kept
 * from one object to the next, so that the thousand entities of a page do not
 * allocate anything each. json_members_init before first use;
 * json_members_done frees.
 */
struct json_members {
    struct json_member *list; /* count of them, in the order of the text */
    size_t count;
    size_t room;       /* of list */
    uint32_t *by_name; /* where there are many: their indices, sorted */
    size_t by_name_room;
};
void json_members_init(struct json_members *members);
void json_members_done(struct json_members *members);

/*
 * json_flat_object: read the one object at the start of text. Nested values are
 * refused. Names that begin with `annotation` ("odata."; NULL: none) may be
 * repeated: the last value counts and has the place of the first. That holds
 * for the first JSON_MAX_ANNOTATIONS different ones; a further one may not be
 * repeated. *ret_end: bytes used. On failure err has the byte offset, and there
 * are no members.
 *
 * Members stay until the next object is read. Their slices point into text;
 * but names with escapes are decoded into arena.
 */
TW_MUST_USE enum tw_err json_flat_object(struct slice text,
    const char *annotation, struct arena *arena, struct json_members *members,
    size_t *ret_end, struct err *err);

/* json_members_find: the index of the member of that name, or count. */
size_t json_members_find(const struct json_members *members, struct slice name);

/* json_member_text: the text of a JSON_STRING, decoded, NULs included. It is a
 * slice of raw where there are no escapes, else it lives in arena. */
struct slice json_member_text(
    const struct json_member *member, struct arena *arena);

/* json_unquote: the same for a text that was not read as a member. False: it
 * is not one JSON string, from quote to quote. */
bool json_unquote(struct slice raw, struct arena *arena, struct slice *ret);

/* ---- whole texts ---- */

struct json; /* a parsed value; its children are borrowed from it */

/*
 * json_parse: a whole text. max_depth counts nested arrays and objects; 1
 * allows a flat object. On failure err has the byte offset. Owned, for
 * json_free(). text is borrowed for the life of the value: names and strings
 * point into it, unless they have escapes.
 */
TW_MUST_USE enum tw_err json_parse(
    struct slice text, unsigned max_depth, struct json **ret, struct err *err);
void json_free(struct json *json);

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

/* ---- writing ---- */

/* json_add_string: add text (valid UTF-8, NULs allowed) quoted and escaped:
 * \" \\ \n \r \t; what text_is_hidden() as \uXXXX, for a terminal may show
 * it; everything else as it is. At most six bytes for one. */
void json_add_string(struct buf *to, struct slice text);

/* json_add_escaped: the same without the quotes. */
void json_add_escaped(struct buf *to, struct slice text);

#endif
