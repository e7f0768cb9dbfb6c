/* SPDX-License-Identifier: MIT */
/*
 * The walk of a cascade: everything under a parent, depth first, rule by rule,
 * in the order of the scans. Used to delete and, with nothing written, to
 * count.
 */
#ifndef TW_JOBS_CASCADE_WALK_H
#define TW_JOBS_CASCADE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/cascade/rules.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

struct json;
struct job_stores;
struct match;
struct run;
struct scan;

struct walk_key {
    bool is_set;
    size_t partition_key_len, row_key_len;
    char partition_key[ENTITY_MAX_KEY_BYTES], row_key[ENTITY_MAX_KEY_BYTES];
};

/* Where a walk is at one level of the tree. */
struct walk_level {
    size_t rule;            /* index among the rules of this level         */
    struct walk_key done;   /* all of this rule up to here is handed out   */
    struct walk_key inside; /* the entity that the next level is under     */
    bool found;             /* something was met at this level, under the
                               entity that the level above is inside of    */
};

/* A place in the tree: what a checkpoint keeps. */
struct walk_path {
    struct walk_level levels[CASCADE_MAX_DEPTH];
    size_t depth; /* levels in use; 0: the beginning */
};

/* walk_path_new: the beginning; with mem_free(). Most of it is not written
 * before it is needed: it is large. */
struct walk_path *walk_path_new(void);

/* walk_path_write: add it as JSON. walk_path_read: from that; false where it
 * is something else: *path is then the beginning. */
void walk_path_write(const struct walk_path *path, struct buf *to);
bool walk_path_read(const struct json *json, struct walk_path *path);

/*
 * A match is a rule bound to the entity above it: the exact test that is made
 * again whenever an entity turns out to have changed. It outlives the walk's
 * interest in it as long as somebody holds it.
 */
const struct rule *match_rule(const struct match *match);
bool match_has(const struct match *match, const struct entity *entity);
void match_hold(struct match *match);
void match_release(struct match *match); /* NULL: nothing */

/*
 * Who is told what the walk meets; context is given back. Anything but TW_OK
 * ends the walk with that outcome.
 */
struct walk_visitor {
    /* leaves: entities of one page whose rule has no children. */
    enum tw_err (*leaves)(void *context, struct match *match,
        const struct entity *const *entities, size_t count, struct err *err);

    /* emptied: entities of one page whose rule has children, under which the
     * walk met nothing. */
    enum tw_err (*emptied)(void *context, struct match *match,
        const struct entity *const *entities, size_t count, struct err *err);

    /* met: any other entity with children: something was under it. May be
     * NULL. */
    void (*met)(
        void *context, struct match *match, const struct entity *entity);

    /*
     * reached: every leaf before path has been handed out. (An emptied entity
     * before it may not have been: whoever goes on from path looks at
     * everything once more, because path says that something was found.)
     * Borrowed for the call. May be NULL.
     */
    void (*reached)(void *context, const struct walk_path *path);

    /* pages: so many pages were read for a rule, by so many scans. May be
     * NULL. */
    void (*pages)(
        void *context, const struct rule *rule, size_t pages, size_t scans);

    void *context;
};

struct walk_plan {
    const struct cascade *cascade;
    const struct job_stores *stores;
    struct run *run;
    struct slice partition_key,
        row_key;                 /* of the parent: never its own child */
    const struct entity *parent; /* what first-level rules are bound to; NULL:
                                    its keys alone. Borrowed */
    bool whole; /* entities with all their properties, for an archive */
    const struct walk_path *from; /* go on from here; NULL: all */
    struct scan *first; /* of the first rule, by walk_look_ahead(); NULL: none.
                           The walk closes it */
    bool too_early;     /* its first page may be of before the tombstone, so
                           this walk has `found` something in any case */
};

struct walk_result {
    bool found;     /* something was met (or had been, says plan.from) */
    int64_t failed; /* entities whose children cannot be looked for: their keys
                       and the reason went to run_callbacks->failed() */
};

/* walk_check: can the first-level rules be bound? Sends nothing. TW_INVALID as
 * for walk_run(). */
TW_MUST_USE enum tw_err walk_check(
    const struct walk_plan *plan, struct err *err);

/*
 * walk_look_ahead: ask for the first page of the first rule now, for a walk of
 * the same plan that follows. Owned; scan_close(). NULL: there is none, because
 * a rule reads properties of the parent or cannot be bound.
 */
struct scan *walk_look_ahead(const struct walk_plan *plan);

/*
 * walk_run: walk it all.
 *
 * TW_INVALID    a rule cannot be bound for this run; err says why.
 * TW_NOT_FOUND  a table is missing; err names it.
 * TW_STOPPED    run_stopping(), or the deadline is shut.
 * Others are the request pool's last word, or the visitor's.
 */
TW_MUST_USE enum tw_err walk_run(const struct walk_plan *plan,
    const struct walk_visitor *visitor, struct walk_result *ret,
    struct err *err);

#endif
