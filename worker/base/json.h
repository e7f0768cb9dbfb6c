/* SPDX-License-Identifier: MIT */
/*
 * JSON, parsed in one pass without copying: each value is a slice of the input
 * with its exact text, because a value that is not understood must be written
 * back unchanged. Only names and strings with escapes are copied, to be
 * decoded.
 *
 * Refused: anything that is not strict JSON (RFC 8259), invalid UTF-8,
 * duplicate names, nesting beyond the caller's limit, more values than the
 * limits below, trailing bytes, a NUL in a name. These limits bound the memory
 * that any input can take: a value of two bytes, "1,", takes some 250 bytes of
 * memory.
 *
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

/* The largest max_depth of json_parse(). */
#define JSON_DEPTH_LIMIT 64

/* Maximum number of values in a text; 64 KiB, the largest property or message,
 * cannot hold more. */
#define JSON_MAX_VALUES 32768
/* Maximum number of members of a flat object: enough for 255 properties, each
 * with its type, and annotations. */
#define JSON_MAX_MEMBERS 1024
/* Maximum number of annotation names that may be repeated. */
#define JSON_MAX_ANNOTATIONS 16

/* ---- flat objects ---- */

struct json_member {
    struct slice name; /* decoded name */
    struct slice raw; /* the value's exact text in the input, quotes included */
    const char *name_at; /* position of the name's first quote in the input */
    enum json_type type;
    bool escaped; /* a JSON_STRING with escapes */
};

/*
 * The members of one flat object, and the memory to read them. The caller
 * reuses one such struct for many objects, so that the thousand entities of a
 * page need no allocation each. json_members_init before first use;
 * json_members_done frees.
 */
struct json_members {
    struct json_member *list; /* array of `count` members, in the order of the
                                 text */
    size_t count;
    size_t room;       /* members that list has memory for */
    uint32_t *by_name; /* indices into list, sorted by name; used only if list
                          has many members */
    size_t by_name_room;
};
void json_members_init(struct json_members *members);
void json_members_done(struct json_members *members);

/*
 * json_flat_object: read the one object at the start of text. Nested values are
 * refused. Names that begin with `annotation` ("odata."; NULL: none) may be
 * repeated: the last value replaces the first, at its position. This applies to
 * the first JSON_MAX_ANNOTATIONS different names; any further name must be
 * unique. *ret_end: the offset of the first byte after the object. On failure
 * err has the byte offset, and members is empty.
 *
 * Members are valid until the next object is read. Their slices point into
 * text; names with escapes are decoded into arena.
 */
TW_MUST_USE enum tw_err json_flat_object(struct slice text,
    const char *annotation, struct arena *arena, struct json_members *members,
    size_t *ret_end, struct err *err);

/* json_members_find: return the index of the member with that name;
 * members->count: there is none. */
size_t json_members_find(const struct json_members *members, struct slice name);

/* json_member_text: return the decoded text of a JSON_STRING, NULs included. It
 * is a slice of raw if raw has no escapes, else allocated in arena. */
struct slice json_member_text(
    const struct json_member *member, struct arena *arena);

/* json_has_lone_surrogate: does raw, the text of a JSON string, escape half a
 * surrogate pair? Decoding replaces that half by U+FFFD, so the decoded text
 * differs from the original. */
bool json_has_lone_surrogate(struct slice raw);

/* json_unquote: decode raw, the text of a value. False: raw is not exactly one
 * JSON string, from quote to quote. */
bool json_unquote(struct slice raw, struct arena *arena, struct slice *ret);

/* ---- whole texts ---- */

struct json; /* a parsed value; its children are borrowed from it */

/*
 * json_parse: parse a whole text. max_depth counts nested arrays and objects; 1
 * allows a flat object. On failure err has the byte offset. The caller owns
 * *ret, and frees it with json_free(). text is borrowed for the life of *ret,
 * because names and strings without escapes point into text.
 */
TW_MUST_USE enum tw_err json_parse(
    struct slice text, unsigned max_depth, struct json **ret, struct err *err);
void json_free(struct json *json);

enum json_type json_type(const struct json *json);
struct slice json_raw(const struct json *json);    /* exact text of the value in
                                                      the input */
struct slice json_string(const struct json *json); /* value must be a
                                                      JSON_STRING */
bool json_boolean(const struct json *json);        /* value must be a
                                                      JSON_BOOLEAN */

/* json_int64: read a number without point or exponent into *ret. False: json is
 * another value, or out of range. */
bool json_int64(const struct json *json, int64_t *ret);

size_t json_count(const struct json *json); /* number of items or members */
const struct json *json_at(const struct json *array, size_t index);
const struct json *json_get(const struct json *object, const char *name);
/* json_name: return the name of the index-th member of object, in the order of
 * the text. */
struct slice json_name(const struct json *object, size_t index);
const struct json *json_value(const struct json *object, size_t index);

/* ---- writing ---- */

/*
 * json_add_string: add text (valid UTF-8, NULs allowed) quoted and escaped: \"
 * \\ \n \r \t in this short form, hidden characters (text_is_hidden()) as
 * \uXXXX because the output may be shown on a terminal, all others unchanged.
 * One byte of text becomes at most six.
 */
void json_add_string(struct buf *to, struct slice text);

/* json_add_escaped: add text escaped as json_add_string() does, without
 * quotes. */
void json_add_escaped(struct buf *to, struct slice text);

#endif
