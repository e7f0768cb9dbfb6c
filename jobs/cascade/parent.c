/* SPDX-License-Identifier: MIT */
/* The tombstone, and the delete of the parent. */
#include "jobs/cascade/parent.h"

#include <stdio.h>
#include <string.h>

#include "jobs/cascade/precheck.h"
#include "jobs/engine/archive.h"
#include "jobs/engine/call.h"
#include "worker/base/crypto.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/canonical.h"

/* Maximum number of reads of a parent that changes between read and write; then
 * the attempt ends with RUN_TRY_AGAIN. */
#define PARENT_TRIES 20

/* Interval at which the run checks which run the parent belongs to: while it
 * waits for another run, and during a pass. */
#define OWNER_CHECK_MS 5000

#define PHASE_NONE "" /* the phase in which the passes are made */
#define PHASE_TOMBSTONE "tombstone"

enum tombstone_owner {
    TOMBSTONE_NONE,        /* the parent does not exist */
    TOMBSTONE_OURS,        /* the parent carries this run's tombstone */
    TOMBSTONE_OF_NAMESAKE, /* the parent carries a tombstone with this run's
                              name, which this run is not known to have
                              written */
    TOMBSTONE_OF_OTHER,    /* TablewardRun names another run. The tombstone may
                              have the properties of another job */
    TOMBSTONE_OF_NOBODY,   /* the parent carries no tombstone; or a tombstone
                              without TablewardRun; or this run's name, but not
                              all properties of the job's tombstone */
};

/* Sets *ret to the value of TablewardRun of the parent in page, even if the
 * parent lacks the tombstone's properties. False: there is no such value. */
static bool owner_in(struct page *page, struct slice *ret)
{
    const struct property *owner =
        page->count > 0
            ? entity_find(&page->entities[0], slice_of(CASCADE_OWNER))
            : NULL;

    return owner && property_text(owner, &page->arena, ret);
}

static bool has_tombstone(const struct cascade_attempt *c)
{
    return entity_has_all(cascade_parent(c), c->cascade->tombstone);
}

/*
 * Does this run know that one of its attempts has written the tombstone, or may
 * have written it? If not, a tombstone with this run's name may be that of an
 * earlier run: one with the same id that was pruned, or one in another ledger.
 * The checkpoint may have been dropped since, because the job's definition
 * changed, but `rounds` stays.
 */
static bool knows_tombstone(const struct cascade_attempt *c)
{
    return c->state.tombstone_ticks > 0 || c->run->rounds > 0 ||
           c->tombstone_sent || c->state.unmarked;
}

/* Returns which run the parent belongs to. Does not ask whether this run knows
 * its tombstone, so the result is never TOMBSTONE_OF_NAMESAKE. */
static enum tombstone_owner tombstone_owner_of(
    struct cascade_attempt *c, struct slice *ret_owner)
{
    if (!cascade_parent(c))
        return TOMBSTONE_NONE;
    if (!owner_in(&c->parent, ret_owner))
        return TOMBSTONE_OF_NOBODY;
    if (!slice_is(*ret_owner, c->owner))
        return TOMBSTONE_OF_OTHER;
    return has_tombstone(c) ? TOMBSTONE_OURS : TOMBSTONE_OF_NOBODY;
}

static enum tw_err get_parent(struct cascade_attempt *c, struct page *page,
    int64_t *ret_ticks, struct err *err)
{
    return call_get(c->run->pool_client, cascade_parent_store(c),
        c->cascade->table, c->partition_key, c->row_key, page, ret_ticks, err);
}

enum tw_err cascade_read_parent(struct cascade_attempt *c, int64_t *ret_ticks)
{
    enum tw_err outcome = get_parent(c, &c->parent, ret_ticks, c->err);

    c->parent_is_ours = false;
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

static enum tw_err write_parent(struct cascade_attempt *c,
    enum operation_type type, const struct entity *entity, int64_t *ret_ticks)
{
    const struct operation operation = {.type = type, .entity = *entity};
    const struct batch batch = {
        .table = c->cascade->table, .operations = &operation, .count = 1};
    struct batch_result *result = mem_alloc(sizeof(*result));
    enum tw_err outcome = call_batch(c->run->pool_client,
        cascade_parent_store(c), &batch, result, ret_ticks, c->err);

    mem_free(result);
    c->parent_is_ours = false;
    return outcome;
}

/* Does the parent consist of the tombstone and its owner alone? If so, a run
 * inserted the parent. */
static bool is_bare(const struct cascade_attempt *c)
{
    return has_tombstone(c) && cascade_parent(c)->property_count ==
                                   c->cascade->tombstone->property_count + 1;
}

/* Set *ret to whether the parent was created after the run was requested. */
static enum tw_err is_newer(struct cascade_attempt *c, bool *ret)
{
    const struct property *created;
    int64_t ticks;

    *ret = false;
    if (c->cascade->created.len == 0)
        return TW_OK;
    created = entity_find(cascade_parent(c), c->cascade->created);
    if (!created)
        return TW_OK;
    if (!property_ticks(created, &ticks))
        return err_fail(c->err, TW_INVALID,
            "property %s of the parent in %s is not an Edm.DateTime, so it is "
            "unknown whether the parent is newer than the request",
            c->cascade->created.at, c->cascade->table);
    *ret = ticks >= c->run->requested_ticks + TICKS_PER_S;
    return TW_OK;
}

/*
 * Makes the last settle pass wait until a late insert can no longer be applied:
 * an insert without a response, or one of a crashed attempt. A later attempt
 * must wait too, so the time is saved at once. The checkpoint has no path,
 * because the time at which the pass began is not known here.
 */
static void expect_late_insert(struct cascade_attempt *c)
{
    int64_t until =
        cascade_service_ticks(c) + STORE_LATE_REQUEST_MS * TICKS_PER_MS;

    until = (until / TICKS_PER_S + 1) * TICKS_PER_S;
    if (!cascade_parent_store(c)->capabilities.late_writes ||
        until <= c->state.not_before_ticks)
        return;
    c->state.not_before_ticks = until;
    cascade_save(c, NULL, false);
}

/*
 * Call when the parent exists without this run's tombstone. While a late insert
 * of the tombstone may still be applied, the run must not end or delete the
 * parent, because a tombstone that is applied after that would never be
 * removed. So the attempt ends as RUN_WAITING. The time that
 * expect_late_insert() saved is stored in the ledger when the attempt ends.
 */
static enum run_end wait_for_late_insert(struct cascade_attempt *c)
{
    if (c->state.not_before_ticks <= cascade_service_ticks(c))
        return RUN_CONTINUES;
    log_run_info(run_log(c->run), "waits: an earlier request to insert the "
                                  "tombstone may still be applied");
    c->run->waits_for = RUN_WAITS_FOR_SETTLE;
    run_wait(c->run, cascade_parent_store(c), cascade_service_ticks(c),
        c->state.not_before_ticks);
    return RUN_WAITING;
}

/* ---- what first-level rules read of the parent ---- */

void cascade_choose_rules(struct cascade_attempt *c)
{
    const struct cascade *cascade = c->cascade;
    struct rule *rules;
    size_t count = 0;

    c->usable = *cascade;
    if (c->state.parent_found != 0)
        return;
    rules = arena_alloc(&c->arena, cascade->rule_count * sizeof(*rules));
    for (size_t i = 0; i < cascade->rule_count; i++)
        if (!cascade->rules[i].reads_parent)
            rules[count++] = cascade->rules[i];
    c->usable.rules = rules;
    c->usable.rule_count = count;
}

/* Sets *ret to one digest of all values that first-level rules read; "" if they
 * read none, or if there was no parent. */
static void digest_values(const struct cascade_attempt *c, char *ret)
{
    const struct entity *parent = cascade_parent(c);
    unsigned char digest[CRYPTO_SHA256_BYTES];
    struct arena arena;
    struct buf text;

    ret[0] = '\0';
    if (c->cascade->need_count == 0 || c->state.parent_found == 0)
        return;
    arena_init(&arena);
    buf_init(&text, 2 * ENTITY_MAX_BYTES);
    for (size_t i = 0; i < c->cascade->need_count; i++) {
        const struct property *property =
            parent ? entity_find(parent, c->cascade->needs[i]) : NULL;
        struct slice value;

        if (property && canonical_text(property, &arena, &value)) {
            buf_add_format(
                &text, "%s %zu ", edm_type_name(property->type), value.len);
            buf_add_slice(&text, value);
        } else {
            buf_add_text(&text, "absent ");
        }
    }
    crypto_sha256(buf_slice(&text), digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(ret + 2 * i, 3, "%02x", digest[i]);
    buf_done(&text);
    arena_done(&arena);
}

/*
 * Fail unless the values that the rules read are still those from before the
 * tombstone. With other values the rules would find other entities, and might
 * miss the entities that belong to the original values.
 */
static enum run_end check_values(struct cascade_attempt *c)
{
    char now[CASCADE_DIGEST_MAX];

    digest_values(c, now);
    if (!c->state.values[0] || strcmp(now, c->state.values) == 0)
        return RUN_CONTINUES;
    err_fail(c->err, TW_INVALID,
        "the parent in %s was changed after this run had written its "
        "tombstone: a property that the job's rules read has another value or "
        "is gone. Nothing more was deleted. Restore the property, then retry",
        c->cascade->table);
    return RUN_FAILED;
}

void cascade_read_values(struct cascade_attempt *c, bool found)
{
    c->state.parent_found = found;
    digest_values(c, c->state.values);
    cascade_choose_rules(c);
}

/* Fills in what c->state does not have yet of the parent's values, chooses the
 * rules, and fails if the values differ from those in c->state. Call after each
 * read that finds this run's tombstone, and after a read that finds no parent
 * although the run has written its tombstone. */
static enum run_end keep_values(struct cascade_attempt *c)
{
    if (c->state.parent_found < 0)
        c->state.parent_found = !is_bare(c);
    if (!c->state.values[0])
        digest_values(c, c->state.values);
    c->run->parent_found = c->state.parent_found;
    cascade_choose_rules(c);
    return check_values(c);
}

static void note_absent(struct cascade_attempt *c)
{
    struct buf keys;

    buf_init(&keys, 512);
    entity_add_keys(&keys, c->partition_key, c->row_key);
    cascade_note(c, "the parent %s in %s did not exist", buf_text(&keys),
        c->cascade->table);
    buf_done(&keys);
    for (size_t i = 0; i < c->cascade->rule_count; i++)
        if (c->cascade->rules[i].reads_parent)
            cascade_note(c,
                "the rule for %s (line %u) was not used, because it reads a "
                "property of the parent",
                c->cascade->rules[i].table, c->cascade->rules[i].mark.line);
}

/* Call when the parent is absent although this run had written its tombstone,
 * and this run has not deleted the parent. */
static void note_removed(struct cascade_attempt *c)
{
    struct buf keys;

    if (c->state.removed || c->state.parent_found == 0)
        return;
    c->state.removed = true;
    buf_init(&keys, 512);
    entity_add_keys(&keys, c->partition_key, c->row_key);
    cascade_note(c,
        "the parent %s in %s was removed by another writer before this run "
        "deleted it: if it was moved to another table, it has this run's "
        "tombstone there, and no run deletes it",
        buf_text(&keys), c->cascade->table);
    buf_done(&keys);
}

/* ---- the tombstone ---- */

/*
 * Archive the parent before the tombstone changes it, or else before its
 * delete. TablewardRun is left out, because a restored parent must not belong
 * to a run.
 *
 * The parent may have a tombstone already: of a run that has ended, of a
 * crashed attempt, or of this run, if the job had no archive at that time. If
 * the parent is only a tombstone that a run inserted, there is nothing to
 * archive. If a run merged the tombstone into an existing parent, only an
 * archive from before that merge has the parent without the tombstone.
 */
static enum run_end archive_parent(struct cascade_attempt *c)
{
    struct entity parent;
    struct slice owner = {0};
    enum tw_err outcome;

    if (tombstone_owner_of(c, &owner) != TOMBSTONE_OF_NOBODY) {
        if (is_bare(c))
            return RUN_CONTINUES;
        log_run_warn(run_log(c->run),
            "the parent in %s is archived with the tombstone of run %.*s: only "
            "an archive that was made before that tombstone was written has "
            "the parent without a tombstone",
            c->cascade->table, SLICE_ARG(owner));
    }
    parent = entity_without(
        cascade_parent(c), slice_of(CASCADE_OWNER), &c->parent.arena);
    outcome = archive_add(c->archive, c->cascade->table, &parent, c->err);
    if (outcome == TW_OK)
        outcome = archive_sync(c->archive, c->err);
    c->state.archived = outcome == TW_OK;
    return run_end_of(c->run, cascade_archive_outcome(c, outcome));
}

/*
 * Archive the parent, and store in the ledger that this was done, before the
 * tombstone is written. If this attempt crashes, the next attempt then knows
 * that a tombstone with this run's name may be its own, and does not archive
 * the parent with that tombstone. (In an archive, the last line of an entity is
 * the valid one.)
 */
static enum run_end archive_before_tombstone(struct cascade_attempt *c)
{
    enum run_end end = archive_parent(c);

    if (end != RUN_CONTINUES || !c->state.archived)
        return end;
    return cascade_enter_phase(c, PHASE_TOMBSTONE);
}

/*
 * Call when the parent carries the tombstone of another run, owner (JOB/ID).
 * Returns RUN_WAITING if that run is still open, RUN_CONTINUES if it is not.
 * Before it returns RUN_WAITING, sets c->state.waited, which is stored in the
 * ledger when the attempt ends.
 */
static enum run_end leave_to_other(
    struct cascade_attempt *c, struct slice owner)
{
    const char *slash = owner.len > 0 ? memchr(owner.at, '/', owner.len) : NULL;
    struct slice job, id;
    bool open = false;
    enum tw_err outcome;

    if (!slash)
        return RUN_CONTINUES;
    job = (struct slice){owner.at, (size_t)(slash - owner.at)};
    id = (struct slice){slash + 1, owner.len - job.len - 1};
    outcome = c->run->callbacks->is_open(c->run, job, id, &open, c->err);
    if (outcome != TW_OK || !open)
        return run_end_of(c->run, outcome);
    c->state.waited = true;
    cascade_save(c, NULL, false);
    err_fail(c->err, TW_CONFLICT,
        "waits for its turn: run %.*s is deleting this parent",
        SLICE_ARG(owner));
    c->run->waits_for = RUN_WAITS_FOR_TURN;
    run_wait(c->run, cascade_parent_store(c), c->state.began_ticks,
        c->state.began_ticks + OWNER_CHECK_MS * TICKS_PER_MS);
    return RUN_WAITING;
}

/*
 * Call when this run has written its tombstone on the parent, and TablewardRun
 * names another run, which is not open: a run of another ledger, or a run that
 * was requested since and has ended without deleting the parent. It is unknown
 * whether the parent is still to be deleted. The run fails.
 */
static enum run_end fail_marked_by_other(
    struct cascade_attempt *c, struct slice owner)
{
    err_fail(c->err, TW_CONFLICT,
        "TablewardRun of the parent in %s names run %.*s, which has replaced "
        "this run's tombstone and is not open in this ledger: nothing more was "
        "deleted. If the parent is to be deleted, enqueue a new run",
        c->cascade->table, SLICE_ARG(owner));
    return RUN_FAILED;
}

/* Call when TablewardRun names another run. Decides whether this run waits,
 * fails or continues. */
static enum run_end check_other(struct cascade_attempt *c, struct slice owner)
{
    enum run_end end = leave_to_other(c, owner);

    if (end == RUN_CONTINUES && c->state.tombstone_ticks > 0)
        end = fail_marked_by_other(c, owner);
    return end;
}

/*
 * Call when the parent carries no tombstone and the checkpoint says that this
 * run has written none. If a pass has begun (rounds > 0), the run had written a
 * tombstone, and the checkpoint was dropped because the job's definition
 * changed. In that case the run fails.
 */
static enum run_end check_never_began(struct cascade_attempt *c)
{
    if (c->run->rounds == 0)
        return RUN_CONTINUES;
    err_fail(c->err, TW_INVALID,
        "this run wrote its tombstone before the job's definition changed, and "
        "the parent in %s no longer has that tombstone: the parent may have "
        "been created again. If the parent is to be deleted, enqueue a new run",
        c->cascade->table);
    return RUN_FAILED;
}

/* Does the parent have this run's name, but not the job's current tombstone
 * properties? */
static bool is_marked_otherwise(struct cascade_attempt *c)
{
    struct slice owner;

    return owner_in(&c->parent, &owner) && slice_is(owner, c->owner) &&
           !has_tombstone(c);
}

/* Store that the parent was found without its tombstone. Once the parent has
 * the tombstone again, the passes and the settle times begin again, because
 * writers may have added children meanwhile. */
static enum run_end begin_again(struct cascade_attempt *c)
{
    c->state.unmarked = true;
    return cascade_enter_phase(c, PHASE_NONE);
}

/*
 * Call when the parent has this run's name. No writer that recreates the parent
 * writes this name, so it is the parent to which this run added its tombstone:
 * a writer has changed the tombstone's properties, or the job defines other
 * properties now. It is unknown whether the parent is still to be deleted. If
 * the run succeeded without deleting it, children would stay, and the tombstone
 * would never be removed.
 */
static enum run_end fail_marked_otherwise(struct cascade_attempt *c)
{
    enum run_end end = begin_again(c);

    if (end != RUN_CONTINUES)
        return end;
    err_fail(c->err, TW_INVALID,
        "the parent in %s is still the one that this run marked (TablewardRun "
        "names this run), but it no longer has the tombstone that the job "
        "defines: nothing more was deleted. To delete the parent, merge the "
        "tombstone's properties into it, or restore the former tombstone in "
        "the job, then retry. To keep the parent, leave this run failed",
        c->cascade->table);
    return RUN_FAILED;
}

static enum run_end give_way(struct cascade_attempt *c)
{
    cascade_note(c,
        "the parent in %s no longer had this run's tombstone, because the "
        "parent was created again: the run ended, and left the parent and the "
        "entities that were then under it",
        c->cascade->table);
    return RUN_SUCCEEDED;
}

/* End the run if it has waited for a run that was deleting the parent, and the
 * parent has no tombstone now: the parent that this run was to delete is
 * gone. */
static enum run_end leave_recreated(struct cascade_attempt *c)
{
    if (!c->state.waited)
        return RUN_CONTINUES;
    c->run->parent_found = 1;
    cascade_note(c,
        "the parent in %s was created again while this run waited for another "
        "run that was deleting it: nothing was deleted",
        c->cascade->table);
    return RUN_SUCCEEDED;
}

/* End the run if the parent was created after the request, because it is then a
 * new parent with the same keys. */
static enum run_end leave_newer(struct cascade_attempt *c)
{
    bool newer;

    if (is_newer(c, &newer) != TW_OK)
        return RUN_FAILED;
    if (!newer)
        return RUN_CONTINUES;
    c->run->parent_found = 1;
    cascade_note(c,
        "the parent in %s was created after the request: nothing was deleted",
        c->cascade->table);
    return RUN_SUCCEEDED;
}

/*
 * May this run write its tombstone? Call when the parent exists and is not
 * known to have this run's tombstone. If the parent has a tombstone with this
 * run's name, the run need not wait for a late insert here. While the parent
 * exists, the service refuses such an insert. Before the parent is deleted, the
 * last settle pass waits until no late insert can be applied.
 */
static enum run_end check_may_mark(struct cascade_attempt *c,
    enum tombstone_owner tombstone_owner, struct slice owner)
{
    enum run_end end = RUN_CONTINUES;

    if (knows_tombstone(c) && is_marked_otherwise(c))
        return fail_marked_otherwise(c);
    if (tombstone_owner != TOMBSTONE_OF_NAMESAKE)
        end = wait_for_late_insert(c);
    if (end == RUN_CONTINUES && tombstone_owner == TOMBSTONE_OF_OTHER)
        end = check_other(c, owner);
    if (end == RUN_CONTINUES && c->state.tombstone_ticks > 0)
        end = give_way(c);
    if (end == RUN_CONTINUES && tombstone_owner == TOMBSTONE_OF_NOBODY)
        end = leave_recreated(c);
    if (end == RUN_CONTINUES)
        end = leave_newer(c);
    if (end == RUN_CONTINUES && tombstone_owner == TOMBSTONE_OF_NOBODY)
        end = check_never_began(c);
    return end;
}

/* Do what must come before this run writes its tombstone, in this order: check
 * that this run may delete the parent, that the rules can be bound to the
 * parent's values, that the tables exist, and that refuse_above is not
 * exceeded. Then archive the parent. */
static enum run_end check_before_tombstone(struct cascade_attempt *c,
    enum tombstone_owner tombstone_owner, struct slice owner)
{
    bool bare_of_other = (tombstone_owner == TOMBSTONE_OF_OTHER ||
                             tombstone_owner == TOMBSTONE_OF_NAMESAKE) &&
                         is_bare(c);
    enum run_end end = RUN_CONTINUES;

    if (tombstone_owner != TOMBSTONE_NONE)
        end = check_may_mark(c, tombstone_owner, owner);
    if (end == RUN_CONTINUES && c->state.tombstone_ticks == 0)
        cascade_read_values(c, cascade_parent(c) && !bare_of_other);
    else if (end == RUN_CONTINUES)
        end = keep_values(c);
    if (end == RUN_CONTINUES)
        end = cascade_check_first(c);
    if (end == RUN_CONTINUES)
        end = cascade_count_first(c);
    if (end == RUN_CONTINUES && c->archive && cascade_parent(c))
        end = archive_before_tombstone(c);
    return end;
}

/* Merge the tombstone into the parent that was just read, or insert the
 * tombstone if there is no parent. RUN_REPEATS: the parent changed after the
 * read, or the outcome is unknown. */
static enum run_end write_tombstone(struct cascade_attempt *c)
{
    const struct entity *parent = cascade_parent(c);
    struct entity entity;
    struct arena arena;
    enum tw_err outcome;
    int64_t ticks;

    arena_init(&arena);
    entity_copy(&entity, &arena, c->cascade->tombstone);
    entity.partition_key = c->partition_key;
    entity.row_key = c->row_key;
    entity.etag = parent ? parent->etag : slice_of("");
    entity_set_string(&entity, &arena, CASCADE_OWNER, slice_of(c->owner));
    outcome = write_parent(
        c, parent ? OPERATION_MERGE : OPERATION_INSERT, &entity, &ticks);
    arena_done(&arena);
    switch (outcome) {
    case TW_OK:
        c->run->parent_found = c->state.parent_found;
        c->state.began_ticks = ticks;
        c->read_ms = platform_boot_ms();
        return RUN_CONTINUES;
    case TW_UNKNOWN:
        c->tombstone_sent = true;
        if (!parent)
            expect_late_insert(c);
        return RUN_REPEATS;
    case TW_CONFLICT:
        return RUN_REPEATS;
    case TW_NOT_FOUND:
        if (parent)
            return RUN_REPEATS;
        err_fail(c->err, TW_NOT_FOUND,
            "table %s does not exist in store %s: create it, then retry",
            c->cascade->table, cascade_parent_store(c)->name);
        return RUN_FAILED;
    default:
        return cascade_end_of(c, outcome);
    }
}

/* Read the parent once. If it does not carry this run's tombstone, check
 * whether the run may write one, and write it. RUN_REPEATS: the parent must be
 * read again. */
static enum run_end take_hold(struct cascade_attempt *c)
{
    struct slice owner = {0};
    enum tombstone_owner tombstone_owner;
    enum run_end end;
    int64_t now_ticks;
    enum tw_err outcome = cascade_read_parent(c, &now_ticks);

    if (outcome != TW_OK)
        return run_end_of(c->run, outcome);
    c->state.began_ticks = now_ticks;
    c->read_ms = platform_boot_ms();
    tombstone_owner = tombstone_owner_of(c, &owner);
    if (c->run->previous_owner_crashed &&
        (tombstone_owner != TOMBSTONE_OURS || is_bare(c)))
        expect_late_insert(c);
    c->run->previous_owner_crashed = false;
    if (tombstone_owner == TOMBSTONE_OURS && !knows_tombstone(c))
        tombstone_owner = TOMBSTONE_OF_NAMESAKE;
    if (tombstone_owner == TOMBSTONE_NONE && c->state.tombstone_ticks > 0)
        note_removed(c);
    if (tombstone_owner == TOMBSTONE_OURS) {
        end = keep_values(c);
        c->parent_is_ours = end == RUN_CONTINUES;
        return end;
    }
    end = check_before_tombstone(c, tombstone_owner, owner);
    return end == RUN_CONTINUES ? write_tombstone(c) : end;
}

enum run_end cascade_hold_parent(struct cascade_attempt *c)
{
    for (int i = 0; i < PARENT_TRIES; i++) {
        enum run_end end = take_hold(c);

        if (end == RUN_CONTINUES && c->state.unmarked) {
            c->state.unmarked = false;
            c->state.tombstone_ticks = 0;
        }
        if (end == RUN_CONTINUES && c->state.tombstone_ticks == 0) {
            /* The settle times count from the time at which this run first
             * knows that its tombstone is on the parent. */
            c->state.tombstone_ticks = c->state.began_ticks;
            if (c->state.parent_found == 0)
                note_absent(c);
        }
        if (end != RUN_REPEATS)
            return end;
        if (run_stopping(c->run))
            return RUN_STOPPED;
    }
    err_fail(c->err, TW_CONFLICT,
        "other writers changed the parent in %s before each attempt to write "
        "its tombstone",
        c->cascade->table);
    return RUN_TRY_AGAIN;
}

void cascade_watch_parent(struct cascade_attempt *c)
{
    int64_t now_ms = platform_boot_ms();
    struct slice owner = {0};
    struct err ignored; /* not reported: if this read fails, the parent is read
                           again later */
    struct page page;

    if (c->parent_lost || now_ms - c->checked_ms < OWNER_CHECK_MS)
        return;
    c->checked_ms = now_ms;
    page_init(&page);
    if (get_parent(c, &page, NULL, &ignored) == TW_OK)
        c->parent_lost = !owner_in(&page, &owner) || !slice_is(owner, c->owner);
    page_done(&page);
}

/* ---- delete the parent ---- */

/* Delete the parent that was just read. RUN_REPEATS: as for delete_once(). */
static enum run_end send_delete(struct cascade_attempt *c)
{
    bool sent_before = c->delete_sent;
    enum tw_err outcome;

    c->delete_sent = true;
    outcome =
        write_parent(c, OPERATION_DELETE, cascade_parent(c), &(int64_t){0});
    switch (outcome) {
    case TW_OK:
        if (c->state.parent_found != 0 && !c->state.removed)
            c->run->counts.deleted++;
        return RUN_CONTINUES;
    case TW_NOT_FOUND:
        if (!sent_before)
            note_removed(c);
        return RUN_CONTINUES;
    case TW_CONFLICT:
    case TW_UNKNOWN:
        return RUN_REPEATS;
    default:
        return run_end_of(c->run, outcome);
    }
}

/* Call when all children are deleted, and TablewardRun names another run. That
 * run has marked a new parent after this run had deleted the former one, or
 * that run is in another ledger. */
static void note_left_to_other(struct cascade_attempt *c, struct slice owner)
{
    cascade_note(c,
        "the parent in %s has the tombstone of run %.*s now: this run left the "
        "parent to that run",
        c->cascade->table, SLICE_ARG(owner));
}

/* Delete the parent once. RUN_REPEATS: the parent changed after the read, or
 * the outcome is unknown. A parent that the last pass read and did not write is
 * not read again; the delete carries the ETag of that read. */
static enum run_end delete_once(struct cascade_attempt *c)
{
    struct slice owner = {0};
    enum tombstone_owner tombstone_owner;
    enum tw_err outcome = TW_OK;
    enum run_end end;

    if (!c->parent_is_ours)
        outcome = cascade_read_parent(c, &(int64_t){0});
    if (outcome != TW_OK)
        return run_end_of(c->run, outcome);
    if (is_marked_otherwise(c))
        return fail_marked_otherwise(c);
    if (!cascade_parent(c) && !c->delete_sent)
        note_removed(c);
    tombstone_owner = tombstone_owner_of(c, &owner);
    if (tombstone_owner == TOMBSTONE_OF_OTHER)
        note_left_to_other(c, owner);
    if (tombstone_owner != TOMBSTONE_OURS)
        return RUN_CONTINUES; /* the parent was deleted or recreated */
    end = check_values(c);
    if (end == RUN_CONTINUES && c->archive && !c->state.archived)
        end = archive_parent(c);
    return end == RUN_CONTINUES ? send_delete(c) : end;
}

enum run_end cascade_delete_parent(struct cascade_attempt *c)
{
    for (int i = 0; i < PARENT_TRIES; i++) {
        enum run_end end = delete_once(c);

        if (end == RUN_REPEATS)
            continue;
        if (end != RUN_CONTINUES)
            return end;
        if (c->state.parent_found == 0 && !c->state.crashed &&
            c->run->counts.deleted == 0)
            cascade_note(c, "nothing was deleted: no rule found an entity");
        return RUN_SUCCEEDED;
    }
    err_fail(c->err, TW_CONFLICT,
        "other writers changed the parent in %s before each attempt to delete "
        "it",
        c->cascade->table);
    return RUN_TRY_AGAIN;
}
