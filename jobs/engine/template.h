/* SPDX-License-Identifier: MIT */
/*
 * Templates: a text in which {x} is replaced by an argument of the job, a
 * property of an entity, or the value of an expression over them:
 *
 *   {PartitionKey}_{9999 - year(CreatedOn)}_{13 - month(CreatedOn):02}
 *
 * jobs/templates.md is the reference of functions, types, text forms and
 * errors. A value that is missing or of the wrong type fails the entity; it
 * never becomes an empty text. A value renders as its canonical text
 * (worker/store/canonical.h), which does not depend on the spelling that the
 * service or a client program used.
 */
#ifndef TW_JOBS_ENGINE_TEMPLATE_H
#define TW_JOBS_ENGINE_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "config/problems.h"
#include "jobs/engine/run.h"
#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

struct filter;
struct yaml_node;
struct template; /* lives in the arena of template_compile(); immutable */

/* The names that a template may use. */
struct template_scope {
    const struct slice *args; /* the job's arguments; all are strings */
    size_t arg_count;
    bool has_entity; /* a name that is not an argument is a property or a key of
                      * an entity (in a template for a child: of the parent) */
};

/*
 * template_mark: returns the position of a scalar's first character, after an
 * opening quote.
 */
struct mark template_mark(const struct yaml_node *scalar);

/*
 * template_compile: compile text, whose first character is at mark. Call after
 * environment variables are replaced. Returns NULL if there are mistakes. Each
 * mistake is added to problems with its position. For an unknown name, the
 * problem shows the most similar known name.
 */
const struct template *template_compile(struct slice text, struct mark mark,
    const struct template_scope *scope, struct arena *arena,
    struct problems *problems);

/*
 * template_compile_filter: compile an OData filter. A text in quotes with {x}
 * in it, '...{x}...', renders as one quoted literal, and quotes in the value of
 * x are doubled. A bare {x} must render as a number, true or false (L is
 * appended to an Int64, and a Double gets a decimal point). The syntax of the
 * filter is checked here, with sample values, and again at each rendering, with
 * the real values, because a value may be invalid at its position, as in
 * datetime'{x}'.
 */
const struct template *template_compile_filter(struct slice text,
    struct mark mark, const struct template_scope *scope, struct arena *arena,
    struct problems *problems);

/*
 * template_render: append the rendered text to `to`. The arguments in args have
 * the order of scope->args; entity is NULL if scope->has_entity is false.
 * TW_INVALID: err names the property or argument and what is wrong with it;
 * `to` is then incomplete.
 */
TW_MUST_USE enum tw_err template_render(const struct template *template,
    const struct run_args *args, const struct entity *entity, struct buf *to,
    struct err *err);

/*
 * template_render_key: render a template without an entity as a key, which
 * lives in arena. TW_INVALID also if the service forbids the key, or the key is
 * too long. `which` is the name of the key for err, such as "PartitionKey".
 */
TW_MUST_USE enum tw_err template_render_key(const struct template *template,
    const struct run_args *args, const char *which, struct arena *arena,
    struct slice *ret, struct err *err);

/* template_properties: returns the names of the properties that the template
 * reads, each once, without PartitionKey and RowKey; borrowed. */
const struct slice *template_properties(
    const struct template *template, size_t *ret_count);

/* template_reads_entity: does the template read a property or a key of the
 * entity? */
bool template_reads_entity(const struct template *template);

/* template_reads_key: does the template read the RowKey (if row_key is true) or
 * the PartitionKey (if not) of the entity? */
bool template_reads_key(const struct template *template, bool row_key);

/* template_reads_arg: does the template read the argument with this index? */
bool template_reads_arg(const struct template *template, size_t arg);

/* template_values: returns the number of {..} in the template. */
size_t template_values(const struct template *template);

/* template_source: returns the text that the template was compiled from. */
struct slice template_source(const struct template *template);

/* template_is_constant: true if the template has no {..}. */
bool template_is_constant(const struct template *template);

/*
 * template_holds: does every result contain the whole value of the property or
 * key `name`, as the results of "{name}" and "c{name}_" do? *ret_longer becomes
 * true if the template also has literal text, which makes every result longer
 * than that value.
 */
bool template_holds(
    const struct template *template, const char *name, bool *ret_longer);

/* template_beginning: returns the literal text that every result begins with;
 * borrowed, may be empty. *ret_whole becomes true if every result is exactly
 * that text. */
struct slice template_beginning(
    const struct template *template, bool *ret_whole);

/* template_leading_arg: returns the index of the argument if the template is
 * one {argument} followed by literal text (*ret_rest), else -1. */
int template_leading_arg(
    const struct template *template, struct slice *ret_rest);

/* template_lone_property: returns the name if the whole template is one {name}
 * of a property or key of the entity, else an empty slice.
 * template_leading_property: the same for a template that has literal text
 * (*ret_rest) after the {name}. */
struct slice template_lone_property(const struct template *template);
struct slice template_leading_property(
    const struct template *template, struct slice *ret_rest);

/* A comparison `property eq '...'` of a filter that is true for each entity
 * that the filter matches. The slices are borrowed from the template. */
struct template_equality {
    struct slice property; /* name of the property, as it is written in the
                              filter */
    bool is_constant;      /* there is no {..} between the quotes; the property
                            * must equal `text` */
    struct slice text;
    int arg;           /* index of the argument, if the text between the
                        * quotes is one {argument}; else -1 */
    struct slice read; /* the name, if the text between the quotes is one
                          {property} or key of the entity that the template
                          reads; else empty */
};

/* template_equalities: returns all comparisons of this sort in a template that
 * was compiled with template_compile_filter(). A comparison within `or` or
 * `not` is not included. */
const struct template_equality *template_equalities(
    const struct template *template, size_t *ret_count);

/*
 * template_filter: returns the filter of a template that was compiled with
 * template_compile_filter(). In this filter a sample value replaces each {..},
 * so the constants of its comparisons are valid only if template_is_constant().
 * Lives as long as the template.
 */
const struct filter *template_filter(const struct template *template);

/* template_lone_arg: returns the index of the argument if the template is
 * exactly one {argument}, else -1. Used to find the value of that argument in
 * an entity. */
int template_lone_arg(const struct template *template);

#endif
