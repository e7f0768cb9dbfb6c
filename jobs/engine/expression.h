/* SPDX-License-Identifier: MIT */
/*
 * An expression between the braces of a template: parsed and checked once, then
 * evaluated for each entity. The operators have the precedence of C, from the
 * lowest:
 *
 *   == != < <= > >=  at most one comparison, as in a < b
 *   + -
 *   * / %
 *   -                the sign before an operand
 *
 * As in C, division truncates towards zero, and the result of % has the sign of
 * the left operand.
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
    VALUE_UNKNOWN, /* the value of a property, before an entity is known */
    VALUE_INTEGER,
    VALUE_TEXT, /* an Edm.String, an Edm.Guid, or the base64 of an Edm.Binary */
    VALUE_BOOLEAN,
    VALUE_DATETIME,
    VALUE_DOUBLE,
};

struct value {
    enum value_kind kind;
    int64_t integer;   /* the value of VALUE_INTEGER, VALUE_BOOLEAN (0 or 1),
                        * VALUE_DATETIME (ticks) */
    bool wide;         /* true for a VALUE_INTEGER that was computed from an
                        * Edm.Int64 or from ticks */
    double real;       /* the value of VALUE_DOUBLE */
    struct slice text; /* the canonical text of VALUE_TEXT and VALUE_DOUBLE */
};

/* value_text: returns the canonical text of a value (worker/store/canonical.h),
 * which lives in arena or in value. */
struct slice value_text(const struct value *value, struct arena *arena);

/* value_kind_name: returns "a text", "an integer", ..., for messages. Static.
 */
const char *value_kind_name(enum value_kind kind);

/* A text with expressions in it, and the position of the parser. */
struct expression_reader {
    struct slice text;
    size_t at;
    struct mark mark; /* position of the text's first character */
    const struct template_scope *scope;
    struct arena *arena;
    struct problems *problems;
    struct slice *properties; /* names of the properties found so far, without
                               * PartitionKey and RowKey; the array is in
                               * arena */
    size_t property_count;
    bool reads_entity;    /* a property or a key was found */
    bool reads_key[2];    /* [0]: PartitionKey was found; [1]: RowKey was
                             found */
    bool *reads_args;     /* reads_args[i]: argument i was found. The array is
                           * in arena; NULL: no argument was found */
    unsigned depth, size; /* nesting depth and number of nodes of the expression
                           * that is being parsed */
};

struct expression; /* lives in the reader's arena; immutable */

/*
 * expression_read: parse the expression that begins at in->at and move in->at
 * behind the expression. Returns NULL if a problem was added; in->at is then
 * undefined.
 */
const struct expression *expression_read(struct expression_reader *in);

/*
 * expression_problem: add a problem at the position of byte `offset` of the
 * text.
 */
void expression_problem(const struct expression_reader *in, size_t offset,
    const char *format, ...) TW_PRINTF(3, 4);

/* expression_function_name: returns the name of the index-th function that an
 * expression may call, or NULL if there are no more functions. Static. */
const char *expression_function_name(size_t index);

/* expression_kind: returns the kind of the expression's value, or VALUE_UNKNOWN
 * if the kind is known only when the value is computed. */
enum value_kind expression_kind(const struct expression *expression);

/* expression_source: returns the source text of the expression, for messages.
 */
struct slice expression_source(const struct expression *expression);

/* expression_arg: returns the index of the argument if the expression is a
 * single argument, else -1. */
int expression_arg(const struct expression *expression);

/* expression_property: returns the name if the expression is a single property
 * or key of the entity, else an empty slice. */
struct slice expression_property(const struct expression *expression);

/*
 * expression_evaluate: compute the value. Texts in *ret live in arena, args or
 * entity. TW_INVALID: a property is missing or of the wrong type, a function
 * refuses its arguments, a number overflows, or a divisor is zero.
 */
TW_MUST_USE enum tw_err expression_evaluate(const struct expression *expression,
    const struct run_args *args, const struct entity *entity,
    struct arena *arena, struct value *ret, struct err *err);

#endif
