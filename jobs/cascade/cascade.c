/* SPDX-License-Identifier: MIT */
/*
 * cascade-delete: deletes a parent and everything under it, and no other
 * entity.
 *
 * The tombstone is the lock. The run merges the tombstone, with the run's own
 * name, into the parent before it deletes anything, so that writers add no more
 * children and no other run works on the same parent. Then:
 *
 *   hold the parent      every pass begins by reading the parent: does it still
 *                        carry this run's tombstone?
 *   walk                 delete what is under it, leaves first
 *   settle passes        (`look` in names) walk again some time after the
 *                        tombstone, for late children; an entity with child
 *                        rules is deleted only in the last settle pass, when
 *                        nothing is found under it
 *   delete the parent    after a settle pass that found nothing
 *
 * Every attempt decides by the entities that it reads, and every change carries
 * the ETag that was read. So an attempt may stop anywhere: the next attempt
 * reads the current state and continues.
 */
#include "jobs/cascade/cascade.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "jobs/cascade/checkpoint.h"
#include "jobs/cascade/count.h"
#include "jobs/cascade/order.h"
#include "jobs/cascade/rules.h"
#include "jobs/cascade/verify.h"
#include "jobs/cascade/walk.h"
#include "jobs/engine/archive.h"
#include "jobs/engine/batch_writer.h"
#include "jobs/engine/call.h"
#include "jobs/engine/checkpoint_queue.h"
#include "jobs/engine/run.h"
#include "jobs/engine/scan.h"
#include "jobs/engine/template.h"
#include "jobs/job.h"
#include "worker/base/crypto.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/canonical.h"
#include "worker/store/store.h"

/* Maximum number of batches of one run in flight. */
#define BATCHES_IN_FLIGHT 16

/* Maximum number of reads of a parent that changes between read and write; then
 * the attempt ends with RUN_TRY_AGAIN. */
#define PARENT_TRIES 20

/* Interval of checks whether another run still owns the parent. */
#define OTHER_RUN_MS 5000

/* Time after which a request without a response can no longer be applied: the
 * service ends every request after 30 s. */
#define LATE_WRITE_MS 30000

/* Number of complete last settle passes in a row that find entities and delete
 * none, after which the run fails: the cause is a cycle, not late children. */
#define STUCK_LOOKS 3

#define PHASE_PARENT "parent"

/* Context of a page's operations: what they need to decide again after a
 * conflict. */
struct held {
    struct cascade_run *c;
    struct match *match;
    uint64_t sequence; /* of the last operation that may use this context */
    struct held *next;
};

/* One attempt. */
struct cascade_run {
    const struct cascade *cascade;
    const struct job_stores *stores;
    struct run *run;
    struct err *err;
    enum run_end end; /* result of the attempt, set when a step returns false */

    struct arena arena; /* memory of the parent's keys and of usable.rules */
    struct slice partition_key, row_key;
    char *owner;           /* JOB/ID, the value of TablewardRun; owned */
    struct page parent;    /* the parent as last read */
    bool parent_is_ours;   /* the last read found this run's tombstone, and this
                              run wrote nothing since */
    struct cascade usable; /* the job's cascade; if there was no parent, without
                              the rules that read the parent's properties */

    /* Saved in the checkpoint. */
    int64_t tombstone_ticks;  /* service's clock when the tombstone was written;
                                 0: not written, or not in the checkpoint */
    int64_t began_ticks;      /* service's clock when this pass began */
    int64_t not_before_ticks; /* earliest start of the last settle pass */
    int parent_found; /* the parent existed before the tombstone: 1; it did not:
                         0; unknown: -1 */
    bool crashed; /* an attempt of this run crashed: counts may be too low */
    char values[CASCADE_DIGEST_MAX]; /* digest of the parent's values that
                                        first-level rules read; "": unknown, or
                                        they read none */
    struct walk_path *from;          /* path at which this pass resumes */

    int64_t read_ms; /* boot clock at began_ticks */
    bool last_look; /* this is the last settle pass: it may delete entities with
                       child rules */
    bool checked;   /* all tables were found to exist */
    bool counted;   /* refuse_above has been checked */
    struct scan *ahead; /* scan of this pass, opened before the parent was read;
                           NULL: none */
    int64_t ahead_ticks; /* service's clock when `ahead` was opened; 0: opened
                            before the tombstone was written */
    struct batch_writer *batch_writer;
    struct archive *archive;
    /* Checkpoints that wait for leaf deletes. */
    struct checkpoint_queue checkpoint_queue;
    struct held *held, **held_end;
    unsigned stuck;  /* passes in a row without a delete, see STUCK_LOOKS */
    char left[1024]; /* text of the first entity that this pass did not delete
                        because something is under it */
};

/* ---- end of the attempt ---- */

/* A step returns false to end the attempt; c->end has the result. */
static bool ends(struct cascade_run *c, enum run_end end)
{
    c->end = end;
    return false;
}

static bool ends_by(struct cascade_run *c, enum tw_err outcome)
{
    return ends(c, run_end_of(c->run, outcome));
}

/* True: outcome is TW_OK, and the attempt continues. */
static bool goes_on(struct cascade_run *c, enum tw_err outcome)
{
    if (outcome != TW_OK)
        return ends_by(c, outcome);
    return true;
}

/* ---- the checkpoint ---- */

static char *write_checkpoint(
    const struct cascade_run *c, const struct walk_path *path)
{
    struct cascade_checkpoint checkpoint = {
        .tombstone_ticks = c->tombstone_ticks,
        .began_ticks = c->began_ticks,
        .not_before_ticks = c->not_before_ticks,
        .parent_found = c->parent_found,
        .crashed = c->crashed,
    };

    memcpy(checkpoint.values, c->values, sizeof(checkpoint.values));
    return cascade_checkpoint_write(&checkpoint, path);
}

static void read_checkpoint(struct cascade_run *c)
{
    struct cascade_checkpoint checkpoint;

    cascade_checkpoint_read(c->run->checkpoint, &checkpoint, c->from);
    c->tombstone_ticks = checkpoint.tombstone_ticks;
    c->began_ticks = checkpoint.began_ticks;
    c->not_before_ticks = checkpoint.not_before_ticks;
    c->parent_found = checkpoint.parent_found;
    c->crashed = checkpoint.crashed || c->run->previous_owner_crashed;
    memcpy(c->values, checkpoint.values, sizeof(c->values));
}

static void save(
    struct cascade_run *c, const struct walk_path *path, bool progress)
{
    char *text = write_checkpoint(c, path);

    c->run->callbacks->save(c->run, slice_of(text), progress);
    mem_free(text);
}

/* Write a warning about a run that does not fail to the log and to the ledger's
 * Note. */
static void note(struct cascade_run *c, const char *format, ...)
    TW_PRINTF(2, 3);

static void note(struct cascade_run *c, const char *format, ...)
{
    char sentence[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    log_warn(run_object(c->run), "%s", sentence);
    c->run->callbacks->note(c->run, sentence);
}

/* ---- the parent ---- */

/* The service's clock now, computed from began_ticks; never ahead of the
 * service's actual clock. */
static int64_t service_ticks(const struct cascade_run *c)
{
    return c->began_ticks + (platform_boot_ms() - c->read_ms) * TICKS_PER_MS;
}

enum tombstone_owner {
    TOMBSTONE_NONE,        /* the parent does not exist */
    TOMBSTONE_OURS,        /* the parent carries this run's tombstone */
    TOMBSTONE_OF_OTHER,    /* the parent carries another run's tombstone */
    TOMBSTONE_OWNER_ENDED, /* the parent carries no tombstone with an owner */
};

static const struct entity *parent_of(const struct cascade_run *c)
{
    return c->parent.count > 0 ? &c->parent.entities[0] : NULL;
}

/* *ret: the parent's value of TablewardRun, whether or not the parent has the
 * tombstone's properties. False: the parent has no such value. */
static bool parent_owner(struct cascade_run *c, struct slice *ret)
{
    const struct entity *parent = parent_of(c);
    const struct property *owner =
        parent ? entity_find(parent, slice_of(CASCADE_OWNER)) : NULL;

    return owner && property_text(owner, &c->parent.arena, ret);
}

static bool has_tombstone(const struct cascade_run *c)
{
    return entity_has_all(parent_of(c), c->cascade->tombstone);
}

static enum tombstone_owner tombstone_owner_of(
    struct cascade_run *c, struct slice *ret_owner)
{
    if (!parent_of(c))
        return TOMBSTONE_NONE;
    if (!has_tombstone(c) || !parent_owner(c, ret_owner))
        return TOMBSTONE_OWNER_ENDED;
    return slice_is(*ret_owner, c->owner) ? TOMBSTONE_OURS : TOMBSTONE_OF_OTHER;
}

static bool is_here(const struct cascade_run *c)
{
    return parent_of(c) != NULL;
}

static struct store *parent_store(const struct cascade_run *c)
{
    return c->stores->stores[c->cascade->store];
}

/* TW_OK: c->parent is the current state, possibly absent; *ret_ticks: the
 * service's clock at the read. */
static enum tw_err read_parent(struct cascade_run *c, int64_t *ret_ticks)
{
    enum tw_err outcome =
        call_get(c->run->request_pool, parent_store(c), c->cascade->table,
            c->partition_key, c->row_key, &c->parent, ret_ticks, c->err);

    c->parent_is_ours = false;
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

static enum tw_err write_parent(struct cascade_run *c, enum operation_type type,
    const struct entity *entity, int64_t *ret_ticks)
{
    const struct operation operation = {.type = type, .entity = *entity};
    const struct batch batch = {
        .table = c->cascade->table, .operations = &operation, .count = 1};
    struct batch_result *result = mem_alloc(sizeof(*result));
    enum tw_err outcome = call_batch(c->run->request_pool, parent_store(c),
        &batch, result, ret_ticks, c->err);

    mem_free(result);
    c->parent_is_ours = false;
    return outcome;
}

/* Does the parent consist of the tombstone and its owner alone? If so, a run
 * inserted the parent. */
static bool is_bare(const struct cascade_run *c)
{
    return parent_of(c)->property_count ==
           c->cascade->tombstone->property_count + 1;
}

/* *ret: the parent was created after the run was requested. */
static enum tw_err is_newer(struct cascade_run *c, bool *ret)
{
    const struct property *created;
    int64_t ticks;

    *ret = false;
    if (c->cascade->created.len == 0)
        return TW_OK;
    created = entity_find(parent_of(c), c->cascade->created);
    if (!created)
        return TW_OK;
    if (!property_ticks(created, &ticks))
        return err_fail(c->err, TW_INVALID,
            "property %s of the parent in %s is no Edm.DateTime, so it cannot "
            "be told whether the parent is newer than the request",
            c->cascade->created.at, c->cascade->table);
    *ret = ticks >= c->run->requested_ticks + TICKS_PER_S;
    return TW_OK;
}

/*
 * An insert without a response, or one of a crashed attempt, may still be
 * applied: the last settle pass waits until the insert can no longer be
 * applied. A later attempt must wait too, so this function saves the time at
 * once. It saves no path, because it does not know when the pass began.
 */
static void expect_late_insert(struct cascade_run *c)
{
    int64_t until = service_ticks(c) + LATE_WRITE_MS * TICKS_PER_MS;

    until = (until / TICKS_PER_S + 1) * TICKS_PER_S;
    if (!parent_store(c)->capabilities.late_writes ||
        until <= c->not_before_ticks)
        return;
    c->not_before_ticks = until;
    save(c, NULL, false);
}

/*
 * Call when the parent exists without this run's tombstone. While a late insert
 * of the tombstone may still be applied, the run must not end or delete the
 * parent: a tombstone that is applied after that would never be removed. So the
 * attempt ends as RUN_WAITING (false). The end of the attempt stores what
 * expect_late_insert() saved, before anything is written.
 */
static bool wait_for_late_insert(struct cascade_run *c)
{
    if (c->not_before_ticks <= service_ticks(c))
        return true;
    log_info(run_object(c->run), "waits: a tombstone of an earlier request may "
                                 "still land beside this parent");
    c->run->waits_for = RUN_WAITS_FOR_SETTLE;
    run_wait(c->run, parent_store(c), service_ticks(c), c->not_before_ticks);
    return ends(c, RUN_WAITING);
}

static struct walk_plan walk_plan(const struct cascade_run *c, bool whole)
{
    return (struct walk_plan){.cascade = &c->usable,
        .stores = c->stores,
        .run = c->run,
        .partition_key = c->partition_key,
        .row_key = c->row_key,
        .parent = parent_of(c),
        .whole = whole};
}

/* ---- what first-level rules read of the parent ---- */

static bool fails_by(struct cascade_run *c, enum tw_err outcome)
{
    if (outcome == TW_INVALID || outcome == TW_NOT_FOUND ||
        outcome == TW_TOO_LARGE)
        return ends(c, RUN_FAILED);
    return ends_by(c, outcome);
}

/* Select the rules that can be bound: if there was no parent, rules that read
 * the parent's properties cannot be bound. */
static void choose_rules(struct cascade_run *c)
{
    const struct cascade *cascade = c->cascade;
    struct rule *rules;
    size_t count = 0;

    c->usable = *cascade;
    if (c->parent_found != 0)
        return;
    rules = arena_alloc(&c->arena, cascade->rule_count * sizeof(*rules));
    for (size_t i = 0; i < cascade->rule_count; i++)
        if (!cascade->rules[i].reads_parent)
            rules[count++] = cascade->rules[i];
    c->usable.rules = rules;
    c->usable.rule_count = count;
}

/* One digest of the values that first-level rules read; "" if they read none,
 * or if there was no parent. */
static void digest_values(const struct cascade_run *c, char *ret)
{
    const struct entity *parent = parent_of(c);
    unsigned char digest[CRYPTO_SHA256_BYTES];
    struct arena arena;
    struct buf text;

    ret[0] = '\0';
    if (c->cascade->need_count == 0 || c->parent_found == 0)
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
 * Are the values that the rules read still those from before the tombstone?
 * With other values the rules would find other entities, and might miss the
 * entities that belong to the original values.
 */
static bool has_same_values(struct cascade_run *c)
{
    char now[CASCADE_DIGEST_MAX];

    digest_values(c, now);
    if (!c->values[0] || strcmp(now, c->values) == 0)
        return true;
    err_fail(c->err, TW_INVALID,
        "a property of the parent in %s that the job's rules read was changed "
        "or removed after this run had written its tombstone: nothing more was "
        "deleted. Restore the property, then retry",
        c->cascade->table);
    return ends(c, RUN_FAILED);
}

/* Call before the tombstone is written: record the values that this run's rules
 * are bound to. */
static void read_values(struct cascade_run *c, bool found)
{
    c->parent_found = found;
    digest_values(c, c->values);
    choose_rules(c);
}

/* Call after each read that finds this run's tombstone, or finds no parent
 * after the run wrote its tombstone. False: a value has changed. */
static bool keep_values(struct cascade_run *c)
{
    if (c->parent_found < 0)
        c->parent_found = !is_bare(c);
    if (!c->values[0])
        digest_values(c, c->values);
    c->run->parent_found = c->parent_found;
    choose_rules(c);
    return has_same_values(c);
}

static void note_absent(struct cascade_run *c)
{
    struct buf keys;

    buf_init(&keys, 512);
    entity_add_keys(&keys, c->partition_key, c->row_key);
    note(c, "the parent %s in %s did not exist", buf_text(&keys),
        c->cascade->table);
    buf_done(&keys);
    for (size_t i = 0; i < c->cascade->rule_count; i++)
        if (c->cascade->rules[i].reads_parent)
            note(c,
                "the rule for %s (line %u) was not used, because it reads a "
                "property of the parent",
                c->cascade->rules[i].table, c->cascade->rules[i].mark.line);
}

/* ---- before the tombstone ---- */

/* Does a rule before `rule` require the same table? *ret_met: the search has
 * reached `rule`. */
static bool is_checked(const struct rule *rules, size_t count,
    const struct rule *rule, bool *ret_met)
{
    for (size_t i = 0; i < count && !*ret_met; i++) {
        const struct rule *other = &rules[i];

        if (other == rule)
            *ret_met = true;
        else if ((!other->optional &&
                     cascade_same_table(other->store, other->table, rule->store,
                         rule->table)) ||
                 is_checked(other->children, other->child_count, rule, ret_met))
            return true;
    }
    return false;
}

/* Read an empty range: TW_NOT_FOUND if the table does not exist. */
static enum tw_err check_table(
    struct cascade_run *c, size_t store, const char *table, const char *advice)
{
    static const struct slice none = {"", 0};
    struct scan_spec spec = {
        .store = c->stores->stores[store],
        .table = table,
        .partition_key = key_range_exact(none),
        .row_key = key_range_exact(none),
        .select = &none,
        .run = c->run,
    };
    struct scan *scan = scan_open(c->run->request_pool, &spec);
    const struct page *page;
    enum tw_err outcome = scan_next(scan, &page, c->err);

    scan_close(scan);
    if (outcome != TW_NOT_FOUND)
        return outcome;
    return err_fail(c->err, TW_NOT_FOUND,
        "table %s does not exist in store %s; nothing was changed: create "
        "it%s, "
        "then retry",
        table, c->stores->names[store], advice);
}

/* Check that the table of rule exists. An open scan of the first rule that has
 * not failed shows that the first rule's table exists. */
static enum tw_err check_child_table(
    struct cascade_run *c, const struct rule *rule)
{
    if (c->ahead && rule == c->cascade->rules && scan_wait(c->ahead) == TW_OK)
        return TW_OK;
    return check_table(
        c, rule->store, rule->table, ", or write optional: true into its rule");
}

static enum tw_err check_tables(
    struct cascade_run *c, const struct rule *rules, size_t count)
{
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < count && outcome == TW_OK; i++) {
        bool met = false;

        if (!rules[i].optional && !is_checked(c->cascade->rules,
                                      c->cascade->rule_count, &rules[i], &met))
            outcome = check_child_table(c, &rules[i]);
        if (outcome == TW_OK)
            outcome = check_tables(c, rules[i].children, rules[i].child_count);
    }
    return outcome;
}

/* Fail before anything is written for all causes that can be known now: a
 * missing table, a rule that cannot be bound. */
static bool check_first(struct cascade_run *c)
{
    struct walk_plan plan;
    enum tw_err outcome;

    if (c->tombstone_ticks > 0)
        return true;
    plan = walk_plan(c, false);
    outcome = walk_check(&plan, c->err);
    if (outcome == TW_OK && !c->checked && !is_here(c))
        outcome = check_table(c, c->cascade->store, c->cascade->table, "");
    if (outcome == TW_OK && !c->checked)
        outcome = check_tables(c, c->cascade->rules, c->cascade->rule_count);
    if (outcome != TW_OK)
        return fails_by(c, outcome);
    c->checked = true;
    return true;
}

/* Check refuse_above before anything is written. Attempts after the tombstone
 * do not count: earlier attempts may have deleted entities. */
static bool count_first(struct cascade_run *c)
{
    struct walk_plan plan = walk_plan(c, false);
    struct job_estimate estimate;
    enum tw_err outcome;

    if (c->cascade->refuse_above < 0 || c->counted || c->tombstone_ticks > 0)
        return true;
    outcome = cascade_count(&plan, c->cascade->refuse_above, &estimate, c->err);
    arena_done(&estimate.arena);
    if (outcome != TW_OK)
        return fails_by(c, outcome);
    c->counted = true;
    return true;
}

/* If outcome is TW_FULL, set archive_full: the disk of the archive is full. */
static enum tw_err of_archive(struct cascade_run *c, enum tw_err outcome)
{
    c->run->archive_full = outcome == TW_FULL;
    return outcome;
}

/* Does the parent consist of a tombstone that another, ended run inserted? If
 * that run merged its tombstone into an existing parent, only that run's
 * archive has the original state. */
static bool is_nothing_but_other_s(struct cascade_run *c)
{
    struct slice owner;

    if (tombstone_owner_of(c, &owner) != TOMBSTONE_OF_OTHER)
        return false;
    if (is_bare(c))
        return true;
    log_warn(run_object(c->run),
        "the parent in %s is archived with the tombstone of run %.*s: as it "
        "was before it is in that run's archive",
        c->cascade->table, SLICE_ARG(owner));
    return false;
}

/* Archive the parent before the tombstone changes it, without TablewardRun: a
 * restored parent must not belong to a run. */
static bool archive_parent(struct cascade_run *c)
{
    struct entity parent;
    enum tw_err outcome;

    if (!c->archive || !is_here(c) || is_nothing_but_other_s(c))
        return true;
    parent =
        entity_without(parent_of(c), slice_of(CASCADE_OWNER), &c->parent.arena);
    outcome = archive_add(c->archive, c->cascade->table, &parent, c->err);
    if (outcome == TW_OK)
        outcome = archive_sync(c->archive, c->err);
    return goes_on(c, of_archive(c, outcome));
}

/* Merge the tombstone into the parent, or insert the tombstone if there is no
 * parent. */
static enum tw_err write_tombstone(struct cascade_run *c, int64_t *ret_ticks)
{
    const struct entity *parent = parent_of(c);
    struct entity entity;
    struct arena arena;
    enum tw_err outcome;

    arena_init(&arena);
    entity_copy(&entity, &arena, c->cascade->tombstone);
    entity.partition_key = c->partition_key;
    entity.row_key = c->row_key;
    entity.etag = parent ? parent->etag : slice_of("");
    entity_set_string(&entity, &arena, CASCADE_OWNER, slice_of(c->owner));
    outcome = write_parent(
        c, parent ? OPERATION_MERGE : OPERATION_INSERT, &entity, ret_ticks);
    arena_done(&arena);
    return outcome;
}

/*
 * Write the tombstone to the parent that was just read. *ret_again: the parent
 * changed after the read, or the outcome is unknown: the caller must read the
 * parent again.
 */
static bool ensure_tombstone(struct cascade_run *c,
    enum tombstone_owner tombstone_owner, bool *ret_again)
{
    bool inserts = !is_here(c);
    int64_t ticks;
    enum tw_err outcome;

    *ret_again = true;
    if (c->tombstone_ticks == 0)
        read_values(c, is_here(c) && !(tombstone_owner == TOMBSTONE_OF_OTHER &&
                                         is_bare(c)));
    else if (!keep_values(c))
        return false;
    if (!check_first(c) || !count_first(c) || !archive_parent(c))
        return false;
    outcome = write_tombstone(c, &ticks);
    switch (outcome) {
    case TW_OK:
        c->run->parent_found = c->parent_found;
        if (c->tombstone_ticks == 0 && c->parent_found == 0)
            note_absent(c);
        if (c->tombstone_ticks == 0)
            c->tombstone_ticks = ticks;
        c->began_ticks = ticks;
        c->read_ms = platform_boot_ms();
        *ret_again = false;
        return true;
    case TW_UNKNOWN:
        if (inserts)
            expect_late_insert(c);
        return true;
    case TW_CONFLICT:
        return true;
    case TW_NOT_FOUND:
        if (!inserts)
            return true;
        err_fail(c->err, TW_NOT_FOUND,
            "table %s does not exist in store %s: create it, then retry",
            c->cascade->table, parent_store(c)->name);
        return ends(c, RUN_FAILED);
    case TW_INVALID:
    case TW_TOO_LARGE:
        return ends(c, RUN_FAILED);
    default:
        return ends_by(c, outcome);
    }
}

/* Call when the parent carries another run's tombstone: while that run is open,
 * this attempt ends as RUN_WAITING. True: that run has ended. */
static bool leave_to_other(
    struct cascade_run *c, struct slice owner, int64_t now_ticks)
{
    const char *slash = owner.len > 0 ? memchr(owner.at, '/', owner.len) : NULL;
    struct slice job, id;
    bool open = false;
    enum tw_err outcome;

    if (!slash)
        return true;
    job = (struct slice){owner.at, (size_t)(slash - owner.at)};
    id = (struct slice){slash + 1, owner.len - job.len - 1};
    outcome = c->run->callbacks->is_open(c->run, job, id, &open, c->err);
    if (outcome != TW_OK)
        return ends_by(c, outcome);
    if (!open)
        return true;
    log_info(run_object(c->run), "waits: run %.*s is deleting this parent",
        SLICE_ARG(owner));
    run_wait(c->run, parent_store(c), now_ticks,
        now_ticks + OTHER_RUN_MS * TICKS_PER_MS);
    return ends(c, RUN_WAITING);
}

/*
 * Call when the parent carries no tombstone and the checkpoint says that this
 * run has written none. If a pass has begun (rounds > 0), the run had written a
 * tombstone, and the checkpoint was dropped because the job's definition
 * changed: the run fails.
 */
static bool may_take(struct cascade_run *c)
{
    if (c->run->rounds == 0)
        return true;
    err_fail(c->err, TW_INVALID,
        "this run laid its tombstone before the job's definition changed, and "
        "the parent in %s no longer carries it: whether it was made anew "
        "cannot be told; ask for it again if it is to go",
        c->cascade->table);
    return ends(c, RUN_FAILED);
}

static bool gives_way(struct cascade_run *c)
{
    note(c,
        "the parent in %s no longer carried this run's tombstone: somebody had "
        "created it again, so the run ended and left it and what is under it",
        c->cascade->table);
    return ends(c, RUN_SUCCEEDED);
}

/* May the run delete this parent? A parent created after the request is a new
 * parent with the same keys. */
static bool is_meant(struct cascade_run *c)
{
    bool newer;

    if (is_newer(c, &newer) != TW_OK)
        return ends(c, RUN_FAILED);
    if (!newer)
        return true;
    c->run->parent_found = 1;
    note(c,
        "the parent in %s was created after the request: nothing was deleted",
        c->cascade->table);
    return ends(c, RUN_SUCCEEDED);
}

/* Read the parent once and act on its state. */
static bool take_hold(struct cascade_run *c, bool *ret_again)
{
    struct slice owner;
    enum tombstone_owner tombstone_owner;
    int64_t now_ticks;
    enum tw_err outcome = read_parent(c, &now_ticks);

    *ret_again = false;
    if (outcome != TW_OK)
        return ends_by(c, outcome);
    c->began_ticks = now_ticks;
    c->read_ms = platform_boot_ms();
    tombstone_owner = tombstone_owner_of(c, &owner);
    if (c->run->previous_owner_crashed &&
        (tombstone_owner != TOMBSTONE_OURS || is_bare(c)))
        expect_late_insert(c);
    c->run->previous_owner_crashed = false;
    if (tombstone_owner == TOMBSTONE_OURS) {
        if (!keep_values(c))
            return false;
        if (c->tombstone_ticks == 0 && c->parent_found == 0)
            note_absent(c);
        if (c->tombstone_ticks == 0)
            c->tombstone_ticks = now_ticks;
        c->parent_is_ours = true;
        return true;
    }
    if (tombstone_owner != TOMBSTONE_NONE && !wait_for_late_insert(c))
        return false;
    if (tombstone_owner != TOMBSTONE_NONE && c->tombstone_ticks > 0)
        return gives_way(c);
    if (tombstone_owner == TOMBSTONE_OF_OTHER &&
        !leave_to_other(c, owner, now_ticks))
        return false;
    if (tombstone_owner != TOMBSTONE_NONE && !is_meant(c))
        return false;
    if (tombstone_owner == TOMBSTONE_OWNER_ENDED && !may_take(c))
        return false;
    return ensure_tombstone(c, tombstone_owner, ret_again);
}

/*
 * First step of every pass. True: the parent carries this run's tombstone,
 * c->parent is what was read, and c->began_ticks is the service's clock at the
 * read (at the write, if this call wrote the tombstone).
 */
static bool hold_parent(struct cascade_run *c)
{
    for (int i = 0; i < PARENT_TRIES; i++) {
        bool again;

        if (!take_hold(c, &again))
            return false;
        if (!again)
            return true;
        if (run_stopping(c->run))
            return ends(c, RUN_STOPPED);
    }
    err_fail(c->err, TW_CONFLICT,
        "the parent in %s changes faster than it can be marked",
        c->cascade->table);
    return ends(c, RUN_TRY_AGAIN);
}

/* ---- settle ---- */

/* When settle pass `index` is due. If the tombstone's time was cut to whole
 * seconds, round up to the next second, so that the full settle time has
 * passed. */
static int64_t due_ticks(const struct cascade_run *c, size_t index)
{
    int64_t settle_ticks = c->cascade->settle_ms[index] * TICKS_PER_MS;
    int64_t due = c->tombstone_ticks + settle_ticks;

    if (settle_ticks > 0 && c->tombstone_ticks % TICKS_PER_S == 0)
        due = (due / TICKS_PER_S + 1) * TICKS_PER_S;
    return due;
}

static size_t looks_due_at(const struct cascade_run *c, int64_t ticks)
{
    size_t due = 0;

    while (due < c->cascade->settle_count && due_ticks(c, due) <= ticks)
        due++;
    return due;
}

static bool is_last_look_at(const struct cascade_run *c, int64_t ticks)
{
    return looks_due_at(c, ticks) == c->cascade->settle_count &&
           ticks >= c->not_before_ticks;
}

/* How many settle passes were due when this pass began: this pass counts as all
 * of them. */
static size_t looks_due(const struct cascade_run *c)
{
    return looks_due_at(c, c->began_ticks);
}

static bool is_last_look(const struct cascade_run *c)
{
    return is_last_look_at(c, c->began_ticks);
}

/* When the next settle pass may begin. */
static int64_t next_look_ticks(const struct cascade_run *c)
{
    size_t due = looks_due(c);

    return due < c->cascade->settle_count ? due_ticks(c, due)
                                          : c->not_before_ticks;
}

/* End the attempt until the next settle pass is due, which frees the worker
 * thread. True: the next settle pass is due already. */
static bool wait_for_look(struct cascade_run *c)
{
    int64_t at_ticks = next_look_ticks(c);

    if (at_ticks <= service_ticks(c))
        return true;
    save(c, NULL, true);
    c->run->waits_for = RUN_WAITS_FOR_SETTLE;
    run_wait(c->run, parent_store(c), service_ticks(c), at_ticks);
    return ends(c, RUN_WAITING);
}

/* ---- a pass ---- */

/* Save the newest path before which everything is deleted. */
static void save_reached(struct cascade_run *c)
{
    checkpoint_queue_save(
        &c->checkpoint_queue, c->run, batch_writer_low_water(c->batch_writer));
}

static void release_held(struct cascade_run *c, uint64_t low_water)
{
    while (c->held && c->held->sequence <= low_water) {
        struct held *held = c->held;

        c->held = held->next;
        if (!c->held)
            c->held_end = &c->held;
        match_release(held->match);
        mem_free(held);
    }
}

/* Returns a context that keeps a reference to match until all operations up to
 * its sequence are complete. The sequence is known only after the operations
 * are added; until then it is UINT64_MAX. */
static struct held *hold_match(struct cascade_run *c, struct match *match)
{
    struct held *held = mem_alloc(sizeof(*held));

    match_hold(match);
    held->c = c;
    held->match = match;
    held->sequence = UINT64_MAX;
    *c->held_end = held;
    c->held_end = &held->next;
    return held;
}

static void reached(void *context, const struct walk_path *path)
{
    struct cascade_run *c = context;

    save_reached(c);
    release_held(c, batch_writer_low_water(c->batch_writer));
    checkpoint_queue_add(&c->checkpoint_queue,
        batch_writer_sequence(c->batch_writer), write_checkpoint(c, path));
}

/* Archive the entities of a page and sync to disk. Call before the first delete
 * of the page is sent. */
static enum tw_err archive_page(struct cascade_run *c, const char *table,
    const struct entity *const *entities, size_t count, struct err *err)
{
    enum tw_err outcome = TW_OK;

    if (!c->archive)
        return TW_OK;
    for (size_t i = 0; i < count && outcome == TW_OK; i++)
        outcome = archive_add(c->archive, table, entities[i], err);
    if (outcome == TW_OK)
        outcome = archive_sync(c->archive, err);
    return of_archive(c, outcome);
}

/*
 * A leaf changed since it was read: delete the leaf if it still matches its
 * rule. If a rule with children may now find the leaf, skip it: the next settle
 * pass decides. The current state is archived too; if that fails, the leaf is
 * not deleted, and the next settle pass reports the failure.
 */
static enum write_decision decide_leaf(void *context,
    const struct operation *sent, const struct entity *now, struct arena *arena,
    struct operation *ret, struct err *err)
{
    const struct held *held = context;
    const struct rule *rule = match_rule(held->match);

    (void)arena;
    if (!match_has(held->match, now) ||
        cascade_is_contested(held->c->cascade, rule))
        return WRITE_SKIP;
    if (archive_page(held->c, rule->table, &now, 1, err) != TW_OK)
        return WRITE_SKIP;
    *ret = *sent;
    ret->entity.etag = now->etag;
    return WRITE_SEND;
}

/* An entity with child rules changed since it was read: its child rules may
 * find other children now. The next settle pass visits the entity again. */
static enum write_decision decide_emptied(void *context,
    const struct operation *sent, const struct entity *now, struct arena *arena,
    struct operation *ret, struct err *err)
{
    (void)context;
    (void)sent;
    (void)now;
    (void)arena;
    (void)ret;
    (void)err;
    return WRITE_SKIP;
}

static enum tw_err delete_page(struct cascade_run *c, struct match *match,
    const struct entity *const *entities, size_t count, bool is_leaf,
    struct err *err)
{
    const struct rule *rule = match_rule(match);
    struct held *held = hold_match(c, match);
    struct batch_item item = {
        .store = c->stores->stores[rule->store],
        .table = rule->table,
        .operation = {.type = OPERATION_DELETE},
        .decide = is_leaf ? decide_leaf : decide_emptied,
        .context = held,
    };
    enum tw_err outcome = archive_page(c, rule->table, entities, count, err);

    for (size_t i = 0; i < count && outcome == TW_OK; i++) {
        item.operation.entity =
            (struct entity){.partition_key = entities[i]->partition_key,
                .row_key = entities[i]->row_key,
                .etag = entities[i]->etag};
        outcome = batch_writer_add(c->batch_writer, &item, err);
    }
    held->sequence = batch_writer_sequence(c->batch_writer);
    return outcome;
}

static enum tw_err delete_leaves(void *context, struct match *match,
    const struct entity *const *entities, size_t count, struct err *err)
{
    return delete_page(context, match, entities, count, true, err);
}

static enum tw_err delete_emptied(void *context, struct match *match,
    const struct entity *const *entities, size_t count, struct err *err)
{
    struct cascade_run *c = context;

    if (!c->last_look)
        return TW_OK;
    return delete_page(c, match, entities, count, false, err);
}

static void note_left(
    void *context, struct match *match, const struct entity *entity)
{
    struct cascade_run *c = context;
    struct buf keys;

    if (c->left[0])
        return;
    buf_init(&keys, sizeof(c->left) - 1);
    entity_add_keys(&keys, entity->partition_key, entity->row_key);
    buf_add_format(&keys, " of %s", match_rule(match)->table);
    memcpy(c->left, buf_text(&keys), keys.len + 1);
    buf_done(&keys);
}

/* Complete the operations in flight and save the progress, whatever the result
 * of the pass. */
static void end_pass(struct cascade_run *c)
{
    batch_writer_finish(c->batch_writer);
    save_reached(c);
    checkpoint_queue_drop(&c->checkpoint_queue);
    release_held(c, UINT64_MAX);
    batch_writer_free(c->batch_writer);
    c->batch_writer = NULL;
    c->from->depth = 0;
}

static bool failed_entities(struct cascade_run *c, int64_t failed)
{
    if (failed == 0)
        return true;
    err_fail(c->err, TW_INVALID,
        "%lld entities cannot be deleted; the first of them are listed. The "
        "parent stays, with its tombstone",
        (long long)failed);
    return ends(c, RUN_FAILED);
}

/* stuck: this pass deleted nothing, because every entity left has another
 * entity under it. False: too many passes were stuck, the run fails. */
static bool in_no_circle(struct cascade_run *c, bool stuck)
{
    c->stuck = stuck ? c->stuck + 1 : 0;
    if (c->stuck < STUCK_LOOKS)
        return true;
    err_fail(c->err, TW_INVALID,
        "by the job's rules what is left is under one another in a circle, so "
        "none of it can go first: %s, for one. The parent stays, with its "
        "tombstone: delete one of the circle yourself, then retry",
        c->left);
    return ends(c, RUN_FAILED);
}

/*
 * May the page that was read ahead be older than the tombstone? Such a page may
 * lack children that were added in between, so another settle pass must follow.
 */
static bool is_too_early(const struct cascade_run *c)
{
    return c->ahead_ticks == 0 || !c->parent_is_ours;
}

static bool pass_ended(struct cascade_run *c, enum tw_err outcome)
{
    return outcome == TW_OK || fails_by(c, outcome);
}

/*
 * Walk once and delete what the walk finds. *ret_found: another pass must
 * follow at once, if a settle pass was due. Before the last settle pass
 * entities with child rules are not deleted, and do not set *ret_found.
 */
static bool walk_once(struct cascade_run *c, bool *ret_found)
{
    const struct walk_visitor visitor = {
        .leaves = delete_leaves,
        .emptied = delete_emptied,
        .met = note_left,
        .reached = reached,
        .context = c,
    };
    struct walk_plan plan = walk_plan(c, c->archive != NULL);
    struct walk_result result = {.failed = 0};
    bool whole = c->from->depth == 0, stuck;
    int64_t failed, deleted;
    enum tw_err outcome;

    plan.from = c->from;
    plan.too_early = c->ahead && is_too_early(c);
    plan.first = c->ahead;
    c->ahead = NULL;
    c->left[0] = '\0';
    c->run->rounds++;
    c->batch_writer = batch_writer_new(c->run, BATCHES_IN_FLIGHT);
    outcome = walk_run(&plan, &visitor, &result, c->err);
    if (outcome == TW_OK)
        outcome = batch_writer_drain(c->batch_writer, c->err);
    failed = result.failed + batch_writer_failed(c->batch_writer);
    deleted = batch_writer_done(c->batch_writer);
    stuck = c->last_look && whole && result.found && !plan.too_early &&
            batch_writer_sequence(c->batch_writer) == 0;
    end_pass(c);
    *ret_found = c->last_look ? result.found : deleted > 0;
    return pass_ended(c, outcome) && failed_entities(c, failed) &&
           in_no_circle(c, stuck);
}

/*
 * May the first page of a pass be requested before the parent is read? Before
 * the tombstone only if the first rule has no children: a leaf is deleted with
 * the ETag that was read, but the children of an entity that no longer belongs
 * to the parent would be deleted. After the tombstone only if the last settle
 * pass is due already. Never with an archive: whole entities are too large to
 * be read in vain.
 */
static bool may_look_ahead(const struct cascade_run *c)
{
    if (c->from->depth > 0 || c->archive || c->usable.rule_count == 0)
        return false;
    if (c->tombstone_ticks == 0)
        return c->usable.rules[0].child_count == 0;
    return c->read_ms != 0 && is_last_look_at(c, service_ticks(c));
}

static void look_ahead(struct cascade_run *c)
{
    struct walk_plan plan = walk_plan(c, false);

    if (!may_look_ahead(c))
        return;
    c->ahead_ticks = c->tombstone_ticks > 0 ? service_ticks(c) : 0;
    c->ahead = walk_look_ahead(&plan);
}

static void drop_ahead(struct cascade_run *c)
{
    scan_close(c->ahead);
    c->ahead = NULL;
}

/* Move the start of the pass back to ticks (0: unknown): the pass may have read
 * data as old as that. */
static void set_began(struct cascade_run *c, int64_t ticks)
{
    if (ticks == 0 || ticks >= c->began_ticks)
        return;
    c->read_ms -= (c->began_ticks - ticks) / TICKS_PER_MS;
    c->began_ticks = ticks;
}

/*
 * A pass that resumes an earlier attempt's pass keeps the time at which that
 * pass began, because part of its data was read then.
 */
static bool pass(struct cascade_run *c, bool *ret_found)
{
    int64_t began_ticks = c->from->depth > 0 ? c->began_ticks : 0;

    look_ahead(c);
    if (!hold_parent(c)) {
        drop_ahead(c);
        return false;
    }
    set_began(c, began_ticks);
    if (c->ahead)
        set_began(c, c->ahead_ticks);
    c->last_look = is_last_look(c);
    if (c->from->depth == 0) {
        /* The pass finds the failed entities again. */
        c->run->callbacks->forget_failed(c->run, 0);
        save(c, NULL, false);
    }
    return walk_once(c, ret_found);
}

/* ---- delete the parent ---- */

/* Does the parent have this run's name, but not the job's current tombstone
 * properties? */
static bool is_marked_otherwise(struct cascade_run *c)
{
    struct slice owner;

    return parent_owner(c, &owner) && slice_is(owner, c->owner) &&
           !has_tombstone(c);
}

/* Call when the parent has this run's name, which no writer that recreates the
 * parent writes. So this run marked the parent; if the run succeeded without
 * deleting the parent, the mark would never be removed. */
static bool fail_marked_otherwise(struct cascade_run *c)
{
    err_fail(c->err, TW_INVALID,
        "the parent in %s was marked by this run, but not with the tombstone "
        "that the job has now: put the old one back into the job and retry, or "
        "delete the parent yourself",
        c->cascade->table);
    return ends(c, RUN_FAILED);
}

/* *ret_again: the parent changed after the read, or the outcome is unknown. A
 * parent that the last pass read and did not write is not read again: the
 * delete carries the ETag of that read. */
static bool delete_once(struct cascade_run *c, bool *ret_again)
{
    struct slice owner;
    enum tw_err outcome = TW_OK;

    *ret_again = false;
    if (!c->parent_is_ours)
        outcome = read_parent(c, &(int64_t){0});
    if (outcome != TW_OK)
        return ends_by(c, outcome);
    if (is_marked_otherwise(c))
        return fail_marked_otherwise(c);
    if (tombstone_owner_of(c, &owner) != TOMBSTONE_OURS)
        return true; /* deleted or recreated */
    if (!has_same_values(c))
        return false;
    outcome = write_parent(c, OPERATION_DELETE, parent_of(c), &(int64_t){0});
    switch (outcome) {
    case TW_OK:
        if (c->parent_found != 0)
            c->run->counts.deleted++;
        return true;
    case TW_NOT_FOUND:
        return true;
    case TW_CONFLICT:
    case TW_UNKNOWN:
        *ret_again = true;
        return true;
    default:
        return ends_by(c, outcome);
    }
}

/* The last step of a run; after a crash an attempt may begin with this step. */
static void delete_parent(struct cascade_run *c)
{
    for (int i = 0; i < PARENT_TRIES; i++) {
        bool again;

        if (!delete_once(c, &again))
            return;
        if (!again) {
            if (c->parent_found == 0 && !c->crashed &&
                c->run->counts.deleted == 0)
                note(c, "nothing was deleted: no rule found an entity");
            c->end = RUN_SUCCEEDED;
            return;
        }
    }
    err_fail(c->err, TW_CONFLICT,
        "the parent in %s changes faster than it can be deleted",
        c->cascade->table);
    c->end = RUN_TRY_AGAIN;
}

/*
 * Begin the phase that only deletes the parent. An application may reuse the
 * parent's keys as soon as the parent is deleted, so no attempt may walk again.
 */
static bool enter_last_phase(struct cascade_run *c)
{
    char *checkpoint = write_checkpoint(c, NULL);
    enum tw_err outcome = c->run->callbacks->phase(
        c->run, PHASE_PARENT, slice_of(checkpoint), c->err);

    mem_free(checkpoint);
    return goes_on(c, outcome);
}

/* ---- the attempt ---- */

static bool render_key(struct cascade_run *c, const struct template *template,
    const char *which, struct slice *ret)
{
    if (template_render_key(
            template, &c->run->args, which, &c->arena, ret, c->err) == TW_OK)
        return true;
    err_prefix(c->err, "parent");
    return ends(c, RUN_FAILED);
}

static bool open_archive(struct cascade_run *c)
{
    const char *folder = c->cascade->archive;
    enum tw_err outcome;
    char *path;

    if (!folder)
        return true;
    path = folder[0] == '/'
               ? mem_text(folder, strlen(folder))
               : mem_format("%s/%s", c->run->archive_folder, folder);
    outcome = archive_open(
        path, c->run->job, c->run->id, c->run->epoch, &c->archive, c->err);
    mem_free(path);
    return goes_on(c, of_archive(c, outcome));
}

static bool set_up(struct cascade_run *c)
{
    c->owner = mem_format("%s/%s", c->run->job, c->run->id);
    c->from = walk_path_new();
    c->held_end = &c->held;
    arena_init(&c->arena);
    page_init(&c->parent);
    read_checkpoint(c);
    c->run->parent_found = c->parent_found;
    choose_rules(c);
    return render_key(c, c->cascade->partition_key, "PartitionKey",
               &c->partition_key) &&
           render_key(c, c->cascade->row_key, "RowKey", &c->row_key) &&
           open_archive(c);
}

static void tear_down(struct cascade_run *c)
{
    archive_close(c->archive);
    page_done(&c->parent);
    arena_done(&c->arena);
    mem_free(c->from);
    mem_free(c->owner);
}

static void cascade(struct cascade_run *c)
{
    bool found;

    while (pass(c, &found)) {
        if (found && looks_due(c) > 0)
            continue; /* a settle pass found entities: begin another at once */
        if (!found && c->last_look) {
            if (enter_last_phase(c))
                delete_parent(c);
            return;
        }
        if (!wait_for_look(c))
            return;
    }
}

static enum run_end cascade_delete_run(const struct job *job,
    const struct job_stores *stores, struct run *run, struct err *err)
{
    struct cascade_run c = {.cascade = job->settings,
        .stores = stores,
        .run = run,
        .err = err,
        .end = RUN_SUCCEEDED};

    if (set_up(&c)) {
        if (slice_is(run->phase, PHASE_PARENT))
            delete_parent(&c);
        else
            cascade(&c);
    }
    tear_down(&c);
    return c.end;
}

/* ---- the other functions of the kind ---- */

static void *cascade_delete_load(
    const struct yaml_node *node, struct job_loader *loader)
{
    return cascade_rules_load(node, loader);
}

static void cascade_delete_explain(const struct job *job, struct buf *to)
{
    cascade_rules_explain(job->settings, to);
}

static void each_table(const struct rule *rules, size_t count,
    void (*each)(
        void *ctx, size_t store, const char *table, enum job_access access),
    void *ctx)
{
    for (size_t i = 0; i < count; i++) {
        each(ctx, rules[i].store, rules[i].table,
            rules[i].optional ? JOB_MAKES : JOB_WRITES);
        each_table(rules[i].children, rules[i].child_count, each, ctx);
    }
}

static void cascade_delete_tables(const struct job *job,
    void (*each)(
        void *ctx, size_t store, const char *table, enum job_access access),
    void *ctx)
{
    const struct cascade *cascade = job->settings;

    each(ctx, cascade->store, cascade->table, JOB_WRITES);
    each_table(cascade->rules, cascade->rule_count, each, ctx);
}

static const char *cascade_delete_archive(const struct job *job)
{
    const struct cascade *cascade = job->settings;

    return cascade->archive;
}

/* Refuse arguments that render an invalid key or filter: with them no run can
 * succeed. */
static enum tw_err cascade_delete_accept(
    const struct job *job, const struct run_args *args, struct err *err)
{
    const struct cascade *cascade = job->settings;
    struct run run = {.args = *args};
    struct cascade_run c = {.cascade = cascade, .run = &run, .err = err};
    struct selection selection;
    bool good;

    arena_init(&c.arena);
    good = render_key(
               &c, cascade->partition_key, "PartitionKey", &c.partition_key) &&
           render_key(&c, cascade->row_key, "RowKey", &c.row_key);
    for (size_t i = 0; i < cascade->rule_count && good; i++)
        good = selector_reads_entity(&cascade->rules[i].selector) ||
               selection_bind(&cascade->rules[i].selector, args, NULL, &c.arena,
                   &selection, err) == TW_OK;
    arena_done(&c.arena);
    return good ? TW_OK : TW_INVALID;
}

static enum tw_err cascade_delete_estimate(const struct job *job,
    const struct job_stores *stores, struct run *run, struct job_estimate *ret,
    struct err *err)
{
    struct cascade_run c = {.cascade = job->settings,
        .stores = stores,
        .run = run,
        .err = err,
        .end = RUN_FAILED};
    enum tw_err outcome = TW_INVALID;

    arena_init(&c.arena);
    page_init(&c.parent);
    if (render_key(
            &c, c.cascade->partition_key, "PartitionKey", &c.partition_key) &&
        render_key(&c, c.cascade->row_key, "RowKey", &c.row_key))
        outcome = read_parent(&c, &(int64_t){0});
    if (outcome == TW_OK) {
        struct walk_plan plan;

        read_values(&c, is_here(&c));
        plan = walk_plan(&c, false);
        outcome = cascade_count(&plan, -1, ret, err);
        if (outcome != TW_OK)
            arena_done(&ret->arena);
        else if (!is_here(&c))
            ret->note = "the parent does not exist: a run inserts it as a "
                        "tombstone, and takes it away at the end";
    }
    page_done(&c.parent);
    arena_done(&c.arena);
    return outcome;
}

static const struct settings_section *const SECTIONS[] = {
    &cascade_job_section,
    &cascade_parent_section,
    &cascade_rule_section,
    NULL,
};

const struct kind cascade_delete_kind = {
    .name = "cascade-delete",
    .summary = "deletes an entity and everything under it",
    .destructive = true,
    .has_parent = true,
    .sections = SECTIONS,
    .load = cascade_delete_load,
    .link = cascade_order_check,
    .explain = cascade_delete_explain,
    .accept = cascade_delete_accept,
    .archive = cascade_delete_archive,
    .tables = cascade_delete_tables,
    .verify = cascade_verify,
    .estimate = cascade_delete_estimate,
    .run = cascade_delete_run,
};
