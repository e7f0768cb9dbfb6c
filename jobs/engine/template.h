/* SPDX-License-Identifier: MIT */
/*
 * Templates: a text in which {x} stands for an argument of the job, a property
 * of an entity, or an expression over them:
 *
 *   {PartitionKey}_{9999 - year(CreatedOn)}_{13 - month(CreatedOn):02}
 *
 * jobs/templates.md is the reference: every function, type, text form and
 * error. Whatever is missing or of the wrong type fails the entity; it never
 * becomes an empty text. A value renders as its canonical text
 * (worker/store/canonical.h), however the service or a writer spelled it.
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

struct yaml_node;
struct template; /* lives in the arena it was compiled into; immutable */

/* What names may mean. */
struct template_scope {
    const struct slice *args; /* the job's arguments, all strings */
    size_t arg_count;
    bool has_entity; /* other names are properties of an entity (for a child:
                        of its parent), PartitionKey and RowKey among them */
};

/* template_mark: where the text of a scalar begins: behind its quote. */
struct mark template_mark(const struct yaml_node *scalar);

/*
 * template_compile: text (environment already replaced), whose first character
 * stands at mark. NULL: every mistake is added to problems at its own line and
 * column; a name that nothing bears comes with the nearest that is there.
 */
const struct template *template_compile(struct slice text, struct mark mark,
    const struct template_scope *scope, struct arena *arena,
    struct problems *problems);

/*
 * template_compile_filter: an OData filter. '...{x}...' within quotes renders
 * as one quoted literal, its quotes doubled; a bare {x} must render as a
 * number, true or false (an Int64 gets its L, a Double its point). The shape
 * of the filter is checked here, with sample values; with the real ones, as in
 * datetime'{x}', when it is rendered.
 */
const struct template *template_compile_filter(struct slice text,
    struct mark mark, const struct template_scope *scope, struct arena *arena,
    struct problems *problems);

/*
 * template_render: add the text to `to`. args in the order of the scope's;
 * entity is NULL where the scope has none. TW_INVALID: err names the property
 * or argument and what was wrong with it; `to` is then incomplete.
 */
TW_MUST_USE enum tw_err template_render(const struct template *template,
    const struct run_args *args, const struct entity *entity, struct buf *to,
    struct err *err);

/*
 * template_render_key: the same of arguments alone, as a key, which lives in
 * arena. TW_INVALID also: the service refuses such a key, or it is longer than
 * any; which: "PartitionKey", ..., for err.
 */
TW_MUST_USE enum tw_err template_render_key(const struct template *template,
    const struct run_args *args, const char *which, struct arena *arena,
    struct slice *ret, struct err *err);

/* template_properties: the properties it reads, without PartitionKey and
 * RowKey, each once; borrowed. */
const struct slice *template_properties(
    const struct template *template, size_t *ret_count);

/* template_reads_entity: a property or a key of the entity is in it. */
bool template_reads_entity(const struct template *template);

/* template_source: the text it was compiled from. */
struct slice template_source(const struct template *template);

/* template_is_constant: no {..} in it. */
bool template_is_constant(const struct template *template);

/*
 * template_holds: is one of its pieces the whole value of property or key
 * `name`, as in "{name}" or "c{name}_"? *ret_longer: there is literal text
 * beside it, so that the result is longer than that value.
 */
bool template_holds(
    const struct template *template, const char *name, bool *ret_longer);

/* template_beginning: the literal text that every result begins with, perhaps
 * empty; *ret_whole: it is the whole result. Borrowed. */
struct slice template_beginning(
    const struct template *template, bool *ret_whole);

/* template_leading_arg: where it is one {argument} and literal text behind it,
 * the argument's index, and that text; else -1. */
int template_leading_arg(
    const struct template *template, struct slice *ret_rest);

/* template_lone_arg: where it is nothing but one {argument}, its index;
 * else -1. For reading rules backwards. */
int template_lone_arg(const struct template *template);

#endif
