/* SPDX-License-Identifier: MIT */
/*
 * What stands between the braces of a template: read and checked once, then
 * evaluated for each entity. Precedence as in C: comparisons (one, they do not
 * chain), + and -, then * / and %, then a leading -. Division truncates
 * towards zero and % has the sign of its left side, as in C.
 */
#ifndef TW_JOBS_ENGINE_EXPRESSION_H
#define TW_JOBS_ENGINE_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/problems.h"
#include "jobs/engine/template.h"
#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

enum value_kind {
    VALUE_UNKNOWN, /* of a property, before there is an entity */
    VALUE_INTEGER,
    VALUE_TEXT, /* Edm.String, Edm.Guid, Edm.Binary (its base64) */
    VALUE_BOOLEAN,
    VALUE_DATETIME,
    VALUE_DOUBLE,
};

struct value {
    enum value_kind kind;
    int64_t integer;   /* VALUE_INTEGER, _BOOLEAN (0, 1), _DATETIME (ticks) */
    bool wide;         /* VALUE_INTEGER: made of an Edm.Int64 or of ticks */
    double real;       /* VALUE_DOUBLE */
    struct slice text; /* VALUE_TEXT and VALUE_DOUBLE: the canonical text */
};

/* value_text: the canonical text of a value (worker/store/canonical.h); lives
 * in arena or in value. */
struct slice value_text(const struct value *value, struct arena *arena);

/* "a text", "an integer", ... for messages. */
const char *value_kind_name(enum value_kind kind);

/* A text with expressions in it, and a place in it. */
struct expression_reader {
    struct slice text;
    size_t at;
    struct mark mark; /* of the text's first character */
    const struct template_scope *scope;
    struct arena *arena;
    struct problems *problems;
    struct slice *properties; /* met so far, keys left out; in arena */
    size_t property_count;
    bool reads_entity;    /* a property or a key was met */
    unsigned depth, size; /* of the expression under way */
};

struct expression; /* lives in the reader's arena; immutable */

/*
 * expression_read: the expression at in->at; in->at moves behind it. NULL: a
 * problem was added, and in->at is anywhere.
 */
const struct expression *expression_read(struct expression_reader *in);

/* expression_problem: add one with the place of that byte of the text. */
void expression_problem(const struct expression_reader *in, size_t offset,
    const char *format, ...) TW_PRINTF(3, 4);

/* expression_function_name: of the functions that an expression may call, one
 * by one; NULL behind the last. Static. */
const char *expression_function_name(size_t index);

/* expression_kind: what it is known to give before there is an entity. */
enum value_kind expression_kind(const struct expression *expression);

/* expression_source: its text, for messages. */
struct slice expression_source(const struct expression *expression);

/* expression_arg: the index of the argument that it is; else -1. */
int expression_arg(const struct expression *expression);

/*
 * expression_evaluate: texts in *ret live in arena, args or entity.
 * TW_INVALID: something is missing, of the wrong type, overflows or divides
 * by zero.
 */
TW_MUST_USE enum tw_err expression_evaluate(const struct expression *expression,
    const struct run_args *args, const struct entity *entity,
    struct arena *arena, struct value *ret, struct err *err);

#endif
