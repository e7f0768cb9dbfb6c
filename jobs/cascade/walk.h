/* SPDX-License-Identifier: MIT */
/*
 * The walk of a cascade: reads everything under a parent, depth first, rule by
 * rule, each rule in the order of its scan. A run deletes what the walk finds;
 * an estimate counts what the walk finds and writes nothing.
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

/* The position of a walk at one level of the rule tree. */
struct walk_level {
    size_t rule;            /* index of the current rule at this level */
    struct walk_key done;   /* the visitor has received all entities up to this
                               key */
    struct walk_key inside; /* the entity whose children the next level reads */
    bool found; /* an entity was found at this level, under the `inside` entity
                   of the level above */
};

/* A position in the rule tree, as a checkpoint stores it. */
struct walk_path {
    struct walk_level levels[CASCADE_MAX_DEPTH];
    size_t depth; /* levels in use; 0: the beginning */
};

/* walk_path_new: returns a path at the beginning of the walk. Owned by the
 * caller, who releases it with mem_free(). The struct is large, so keys are not
 * initialised before they are used. */
struct walk_path *walk_path_new(void);

/* walk_path_write: append path as JSON. walk_path_read: parse such JSON; false:
 * json is invalid, and *path is at the beginning. */
void walk_path_write(const struct walk_path *path, struct buf *to);
bool walk_path_read(const struct json *json, struct walk_path *path);

/*
 * A match is a rule bound to the entity above it (the rule's templates are
 * rendered). match_has() tests exactly whether a match finds entity; call it
 * again when the entity has changed. A match is reference-counted and may
 * outlive the walk.
 */
const struct rule *match_rule(const struct match *match);
bool match_has(const struct match *match, const struct entity *entity);
void match_hold(struct match *match);
void match_release(struct match *match); /* match may be NULL */

/*
 * Callbacks for what the walk finds; each gets context. An outcome other than
 * TW_OK ends the walk with that outcome.
 */
struct walk_visitor {
    /* leaves: called with entities of one page that a rule without children
     * found. */
    enum tw_err (*leaves)(void *context, struct match *match,
        const struct entity *const *entities, size_t count, struct err *err);

    /* emptied: called with entities of one page that a rule with children
     * found, if the walk found nothing under them. */
    enum tw_err (*emptied)(void *context, struct match *match,
        const struct entity *const *entities, size_t count, struct err *err);

    /* met: called for an entity whose rule has children, if something is or may
     * be under the entity. May be NULL. */
    void (*met)(
        void *context, struct match *match, const struct entity *entity);

    /*
     * reached: leaves() has received every leaf before path. There may be
     * emptied entities before path that emptied() has not received. So `found`
     * of path tells that an entity was found before path. A walk that resumes
     * at path then sets `found` of its result, and another pass reads
     * everything again. path is borrowed for the call. May be NULL.
     */
    void (*reached)(void *context, const struct walk_path *path);

    /* pages: called with the number of pages that were read for a rule, and the
     * number of scans that read them. May be NULL. */
    void (*pages)(
        void *context, const struct rule *rule, size_t pages, size_t scans);

    void *context;
};

struct walk_plan {
    const struct cascade *cascade;
    const struct job_stores *stores;
    struct run *run;
    struct slice partition_key,
        row_key; /* keys of the parent, which is never its own child */
    const struct entity
        *parent; /* first-level rules are bound to the parent's properties;
                    NULL: only to partition_key and row_key. Borrowed */
    bool whole;  /* read all properties of each entity, for an archive */
    int *share;  /* receives the share of the walk that was read, in
                    thousandths, while the last first-level rule is walked
                    (share.h); it is up to date in visitor->reached(). NULL: not
                    wanted. Borrowed */
    const struct walk_path *from; /* where to resume; NULL: walk everything */
    struct scan *first; /* scan of the first rule, from walk_read_ahead(); or
                           NULL. The walk closes the scan */
    bool too_early;     /* the first page of `first` may be older than the
                           tombstone, so this walk always sets `found` of its
                           result */
};

struct walk_result {
    bool found;     /* this walk found an entity, or the walk that it resumes
                       found one before the keys of plan.from */
    int64_t failed; /* number of entities whose child rules cannot be bound;
                       each was reported by run->callbacks->failed() */
};

/* walk_check: check that the first-level rules can be bound. Sends no request.
 * TW_INVALID as for walk_run(). */
TW_MUST_USE enum tw_err walk_check(
    const struct walk_plan *plan, struct err *err);

/*
 * walk_read_ahead: request the first page of the first rule now, for a later
 * walk of the same plan. Returns the scan, owned by the caller, who gives it to
 * the walk or calls scan_close(). Returns NULL if there is no rule, a rule
 * reads properties of the parent, or a rule cannot be bound.
 */
struct scan *walk_read_ahead(const struct walk_plan *plan);

/*
 * walk_run: walk the whole tree on the calling thread, rule by rule and page by
 * page. The entities of a page that the rule finds are handed to
 * visitor->leaves(), or, if the rule has children, to visitor->emptied() after
 * everything under them was walked. If a leaf rule and a rule with children
 * find the same entity, only the rule with children handles it.
 * visitor->reached() is called after each page, and after each entity whose
 * children were walked. *ret is set on TW_OK.
 *
 * TW_INVALID    a rule cannot be bound for this run; err has the reason.
 * TW_NOT_FOUND  a table is missing; err names it.
 * TW_STOPPED    run_stopping(), or the deadline is closed.
 * Other outcomes are those of the request pool or of the visitor.
 */
TW_MUST_USE enum tw_err walk_run(const struct walk_plan *plan,
    const struct walk_visitor *visitor, struct walk_result *ret,
    struct err *err);

#endif
