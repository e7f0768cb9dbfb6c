/* SPDX-License-Identifier: MIT */
/* Locks of table jobs: all in one batch, or none. */
#include "worker/run/locks.h"

#include <stdio.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/crypto.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/run/ledger.h"
#include "worker/run/ledger_change.h"
#include "worker/store/retry.h"
#include "worker/store/store.h"

/* Maximum number of tries while other runs change the locks. */
#define LOCKS_ROUNDS 5
/* Longest ACCOUNT in a key; a longer ACCOUNT is replaced by its SHA-256. */
#define ACCOUNT_MAX_BYTES 100
/* The want of a run counts until this time after the run's ResumesAt or
 * UpdatedAt. */
#define WANT_LATE_TICKS (600 * TICKS_PER_S)
#define CAUSE_MAX_BYTES 300
/* After a lock was taken over, requests of the ended run may still arrive for
 * this time. The 3 s allow for errors of Date: it has whole seconds, and the
 * Dates of two servers differ by up to 2 s. */
#define LATE_TICKS (STORE_LATE_REQUEST_MS * TICKS_PER_MS + 3 * TICKS_PER_S)
/* The property Run of a lock that its run has given up (add_left()). No run has
 * this id. */
#define NO_RUN "!left"
/* Maximum number of keys of one table: one with the store's identity, and one
 * with its AccountName. */
#define TABLE_KEYS 2

/* A row of the lock table: a lock, or a want, which says that a run waits for
 * the lock. */
struct row {
    struct slice row_key, etag, key, job, id;
    int64_t requested_ticks, taken_over_ticks;
    bool is_want;
    bool is_newer; /* written by a newer version, so the run of this row is not
                      known */
};

/* A table that the run needs. */
struct need {
    struct slice key; /* ACCOUNT!TABLE */
    const char *table;
    const struct row *lock; /* the stored lock; NULL: none */
    bool mine, want_stored;
    int64_t taken_over_ticks; /* when the lock was taken from an ended run; 0:
                                 it was not */
};

/* A stored `closed!` row. */
struct closed {
    struct slice row_key, etag, job, id;
    struct slice end; /* property End: see locks.h */
};

struct locking {
    const struct locks_request *request; /* NULL: locks are only released */
    struct slice job, id;                /* job and id of the run */
    struct arena arena;
    struct need *needs;
    size_t need_count, need_room;
    struct slice sources[TABLE_KEYS]; /* keys of the table that a copy job
                                         reads */
    size_t source_count;
    const char *source_table; /* the name of this table */
    struct row *rows;
    size_t row_count, row_room;
    struct closed *closed;
    size_t closed_count, closed_room;
    int64_t now_ticks; /* the present time by the service's clock */
    /* The run has a lock. Then it does not wait because of a want: the run of
     * the want would wait for this lock, and both runs would wait for ever. */
    bool holds;
    struct err *err;
};

/* ---- keys ---- */

/* Compose the ACCOUNT of a store. Escapes the characters that a key must not
 * have. */
static struct slice account_of(struct slice name, struct arena *arena)
{
    unsigned char digest[CRYPTO_SHA256_BYTES];
    struct buf text;
    struct slice kept;

    buf_init(&text, 4 * STORE_IDENTITY_MAX + 4096);
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        bool upper = c >= 'A' && c <= 'Z';
        bool plain = upper || (c >= 'a' && c <= 'z') ||
                     (c >= '0' && c <= '9') || c == '.' || c == '-';

        if (plain)
            buf_add_char(&text, upper ? (char)(c | 0x20) : c);
        else
            buf_add_format(&text, "=%02X", (unsigned)(unsigned char)c);
    }
    if (text.len > ACCOUNT_MAX_BYTES) {
        char hex[2 * CRYPTO_SHA256_BYTES + 1];

        crypto_sha256(buf_slice(&text), digest);
        text_hex(hex, digest, sizeof(digest));
        buf_clear(&text);
        buf_add_text(&text, hex);
    }
    kept = arena_copy(arena, buf_slice(&text));
    buf_done(&text);
    return kept;
}

static struct slice key_of(
    struct slice name, const char *table, struct arena *arena)
{
    struct slice account = account_of(name, arena);
    struct buf key;
    struct slice kept;

    buf_init(&key, 512);
    buf_add_slice(&key, account);
    buf_add_char(&key, '!');
    for (const char *at = table; *at; at++)
        buf_add_char(&key, *at >= 'A' && *at <= 'Z' ? (char)(*at | 0x20) : *at);
    kept = arena_copy(arena, buf_slice(&key));
    buf_done(&key);
    return kept;
}

static void add_key(struct locking *l, struct slice account, const char *table,
    enum job_access access)
{
    struct slice key = key_of(account, table, &l->arena);

    if (access == JOB_READS) {
        l->source_table = table;
        if (l->source_count < TABLE_KEYS)
            l->sources[l->source_count++] = key;
        return;
    }
    for (size_t i = 0; i < l->need_count; i++)
        if (slice_equal(l->needs[i].key, key))
            return;
    if (l->need_count == l->need_room) {
        l->need_room = l->need_room ? 2 * l->need_room : 8;
        l->needs = mem_resize(l->needs, l->need_room * sizeof(*l->needs));
    }
    l->needs[l->need_count++] = (struct need){.key = key, .table = table};
}

/* Add the locks that a table needs. Older versions may use the same ledger.
 * They take and respect only the key with the store's identity. */
static void add_need(
    void *context, size_t store, const char *table, enum job_access access)
{
    struct locking *l = context;
    const struct job_stores *stores = l->request->stores;
    const struct store *at =
        store < stores->count ? stores->stores[store] : NULL;
    const char *name = at ? at->capabilities.account_name : NULL;

    if (!at)
        return;
    add_key(l, slice_of(store_account(at)), table, access);
    if (name)
        add_key(l, arena_format(&l->arena, "account.%s", name), table, access);
}

/* Is the table that the job writes also the one that it reads? */
static bool is_source(const struct locking *l, const struct need *need)
{
    for (size_t i = 0; i < l->source_count; i++)
        if (slice_equal(l->sources[i], need->key))
            return true;
    return false;
}

/* Returns the beginning of the RowKeys of the `closed!` rows of two tables. */
static struct slice closed_prefix(
    struct locking *l, struct slice source, const struct need *need)
{
    return arena_format(&l->arena, "closed!%.*s!%.*s!", SLICE_ARG(source),
        SLICE_ARG(need->key));
}

static struct slice lock_key(struct locking *l, const struct need *need)
{
    return arena_format(&l->arena, "lock!%.*s", SLICE_ARG(need->key));
}

static struct slice want_key(struct locking *l, const struct need *need)
{
    return arena_format(&l->arena, "want!%.*s!%.*s!%.*s", SLICE_ARG(need->key),
        SLICE_ARG(l->job), SLICE_ARG(l->id));
}

/* ---- reading the partition ---- */

static struct slice text_of(
    const struct entity *entity, const char *name, struct arena *arena)
{
    const struct property *property = entity_find(entity, slice_of(name));
    struct slice text = {0};

    if (property)
        (void)property_text(property, arena, &text);
    return text;
}

/* Returns the ACCOUNT!TABLE of a RowKey: the text between its first and its
 * third '!'. */
static struct slice key_in(struct slice row_key)
{
    struct slice key = {row_key.at + 5, row_key.len - 5};
    unsigned marks = 0;

    for (size_t i = 0; i < key.len; i++)
        if (key.at[i] == '!' && ++marks == 2)
            return (struct slice){key.at, i};
    return key;
}

static void add_closed(struct locking *l, const struct entity *entity)
{
    if (l->closed_count == l->closed_room) {
        l->closed_room = l->closed_room ? 2 * l->closed_room : 16;
        l->closed = mem_resize(l->closed, l->closed_room * sizeof(*l->closed));
    }
    l->closed[l->closed_count++] =
        (struct closed){.row_key = arena_copy(&l->arena, entity->row_key),
            .etag = arena_copy(&l->arena, entity->etag),
            .job = text_of(entity, "Job", &l->arena),
            .id = text_of(entity, "Run", &l->arena),
            .end = text_of(entity, "End", &l->arena)};
}

static void add_row(struct locking *l, const struct entity *entity)
{
    const struct property *requested =
        entity_find(entity, slice_of("RequestedAt"));
    const struct property *taken_over =
        entity_find(entity, slice_of("TakenOverAt"));
    struct row row = {
        .is_want = slice_begins(entity->row_key, slice_of("want!")),
        .is_newer = ledger_is_newer(entity)};

    if (slice_begins(entity->row_key, slice_of("closed!")))
        add_closed(l, entity);
    if (!row.is_want && !slice_begins(entity->row_key, slice_of("lock!")))
        return;
    row.row_key = arena_copy(&l->arena, entity->row_key);
    row.etag = arena_copy(&l->arena, entity->etag);
    row.key = key_in(row.row_key);
    row.job = text_of(entity, "Job", &l->arena);
    row.id = text_of(entity, "Run", &l->arena);
    if (requested)
        (void)property_ticks(requested, &row.requested_ticks);
    if (taken_over)
        (void)property_ticks(taken_over, &row.taken_over_ticks);
    if (l->row_count == l->row_room) {
        l->row_room = l->row_room ? 2 * l->row_room : 16;
        l->rows = mem_resize(l->rows, l->row_room * sizeof(*l->rows));
    }
    l->rows[l->row_count++] = row;
}

static enum tw_err read_rows(
    struct locking *l, struct store *store, const struct deadline *deadline)
{
    struct scan_request scan = {.table = LEDGER_TABLE,
        .partition_key = key_range_exact(slice_of(LOCKS_PARTITION))};
    struct retry_call call;
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    l->row_count = l->closed_count = 0;
    do {
        call = retry_call(deadline, RETRY_BUSY_MS, 0);
        scan.from = page.next;
        do
            outcome = store_scan(store, &call.exchange, &scan, &page);
        while (retry_call_again(&call, outcome));
        for (size_t i = 0; outcome == TW_OK && i < page.count; i++)
            add_row(l, &page.entities[i]);
    } while (outcome == TW_OK && page.next.more);
    page_done(&page);
    l->now_ticks = call.exchange.date_ticks;
    if (outcome != TW_OK)
        (void)err_fail(l->err, outcome, "locks: %s", call.exchange.err.text);
    return outcome;
}

/* ---- tables that `finish` has closed ---- */

/* Calls each() with every `closed!` row of tables that the job reads and
 * writes, until the outcome is not TW_OK. */
static enum tw_err each_closed(struct locking *l,
    enum tw_err (*each)(struct locking *l, const struct need *need,
        const struct closed *closed, void *context),
    void *context)
{
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < l->need_count; i++)
        for (size_t s = 0; s < l->source_count && !is_source(l, &l->needs[i]);
             s++) {
            struct slice prefix = closed_prefix(l, l->sources[s], &l->needs[i]);

            for (size_t c = 0; c < l->closed_count && outcome == TW_OK; c++)
                if (slice_begins(l->closed[c].row_key, prefix))
                    outcome = each(l, &l->needs[i], &l->closed[c], context);
        }
    return outcome;
}

/* Does a `closed!` row count? It is written before its run ends, so it counts
 * only if the end of the run was written too. */
static enum tw_err read_end(
    struct locking *l, const struct closed *closed, bool *ret)
{
    struct retry_call call = retry_call(l->request->deadline, RETRY_BUSY_MS, 0);
    enum tw_err outcome;

    *ret = false;
    if (closed->job.len == 0 || closed->end.len == 0)
        return TW_OK;
    do
        outcome = ledger_has_closed(
            l->request->store, &call.exchange, closed->job, closed->end, ret);
    while (retry_call_again(&call, outcome));
    if (outcome != TW_OK)
        return err_fail(l->err, outcome, "locks: %s", call.exchange.err.text);
    return TW_OK;
}

static enum tw_err check_closed(struct locking *l, const struct need *need,
    const struct closed *closed, void *context)
{
    bool is_closed;
    enum tw_err outcome = read_end(l, closed, &is_closed);

    (void)context;
    if (outcome != TW_OK || !is_closed)
        return outcome;
    return err_fail(l->err, TW_CONFLICT,
        "the copy from table %s to table %s was closed by the `finish` of run "
        "%.*s/%.*s. A new run could undo what has been written to %s since "
        "then: to allow it, use `run %.*s --reopen`",
        l->source_table, need->table, SLICE_ARG(closed->job),
        SLICE_ARG(closed->id), need->table, SLICE_ARG(l->job));
}

/* ---- which run blocks ---- */

static bool is_mine(const struct locking *l, const struct row *row)
{
    return !row->is_newer && slice_equal(row->job, l->job) &&
           slice_equal(row->id, l->id);
}

/* Is it unknown which run the row belongs to? Such a lock is never free, and
 * such a want is ignored. */
static bool is_strange(const struct row *row)
{
    return row->is_newer || row->job.len == 0 || row->id.len == 0;
}

static void set_strange(
    struct locking *l, const struct need *need, const struct row *row)
{
    (void)err_fail(l->err, TW_CONFLICT,
        "waits for its turn: the lock of table %s (%s/%.*s in %s) %s",
        need->table, LOCKS_PARTITION, SLICE_ARG(row->row_key), LEDGER_TABLE,
        row->is_newer
            ? "was written by a newer version: let that version finish its runs"
            : "does not say which run has the lock; if no copy, move or "
              "schema-upgrade of this table is running, delete this lock "
              "entity");
}

/* Read the run of a row. *ret_open: true if the run exists and has not ended.
 */
static enum tw_err read_run(struct locking *l, const struct row *row,
    struct ledger_run *ret, bool *ret_open)
{
    struct retry_call call = retry_call(l->request->deadline, RETRY_BUSY_MS, 0);
    enum tw_err outcome;

    do
        outcome = ledger_get(
            l->request->store, &call.exchange, row->job, row->id, ret);
    while (retry_call_again(&call, outcome));
    *ret_open = outcome == TW_OK && !ledger_state_ended(ret->state);
    if (outcome == TW_NOT_FOUND)
        return TW_OK;
    if (outcome == TW_INVALID && call.exchange.http_status < 400) {
        *ret_open = true; /* an unreadable run counts as open */
        ret->state = LEDGER_DAMAGED;
        return TW_OK;
    }
    if (outcome != TW_OK)
        (void)err_fail(l->err, outcome, "locks: %s", call.exchange.err.text);
    return outcome;
}

/* Set err to a text that names the blocking run, and says what the blocking run
 * waits for. */
static void set_blocked(struct locking *l, const struct need *need,
    const struct row *row, const struct ledger_run *run)
{
    struct slice cause = text_cut(run->error, CAUSE_MAX_BYTES);
    struct slice waits =
        run->state == LEDGER_WAITING ? run->waits_for : (struct slice){0};

    (void)err_fail(l->err, TW_CONFLICT,
        "waits for its turn: run %.*s/%.*s %s table %s and is %.*s%s%.*s%s%.*s",
        SLICE_ARG(row->job), SLICE_ARG(row->id),
        row->is_want ? "has waited longer for" : "has", need->table,
        SLICE_ARG(ledger_state_shown(run)), waits.len > 0 ? " for " : "",
        SLICE_ARG(waits), cause.len > 0 ? ": " : "", SLICE_ARG(cause));
}

static bool is_older(const struct locking *l, const struct row *row)
{
    int order;

    if (row->requested_ticks != l->request->requested_ticks)
        return row->requested_ticks < l->request->requested_ticks;
    order = slice_compare(row->job, l->job);
    return order != 0 ? order < 0 : slice_compare(row->id, l->id) < 0;
}

/* Can the run of a want take its locks soon? */
static bool comes(const struct locking *l, const struct ledger_run *run)
{
    if (run->state == LEDGER_WAITING) {
        if (!slice_is(run->waits_for, LEDGER_WAITS_FOR_TURN) &&
            run->waits_for.len > 0)
            return false;
        return run->resumes_ticks + WANT_LATE_TICKS > l->now_ticks;
    }
    return (run->state == LEDGER_QUEUED || run->state == LEDGER_RUNNING) &&
           run->updated_ticks + WANT_LATE_TICKS > l->now_ticks;
}

static enum tw_err check_lock(struct locking *l, struct need *need,
    const struct row *row, bool *ret_blocked)
{
    struct ledger_run run;
    bool open = false;
    enum tw_err outcome;

    need->lock = row;
    need->mine = is_mine(l, row);
    if (need->mine) {
        need->taken_over_ticks = row->taken_over_ticks;
        return TW_OK;
    }
    if (is_strange(row)) {
        *ret_blocked = true;
        set_strange(l, need, row);
        return TW_OK;
    }
    ledger_run_init(&run);
    outcome = read_run(l, row, &run, &open);
    if (outcome == TW_OK && open) {
        *ret_blocked = true;
        set_blocked(l, need, row, &run);
    } else if (outcome == TW_OK) {
        need->taken_over_ticks = l->now_ticks;
    }
    ledger_run_done(&run);
    return outcome;
}

static enum tw_err check_want(struct locking *l, struct need *need,
    const struct row *row, bool *ret_blocked)
{
    struct ledger_run run;
    bool open = false;
    enum tw_err outcome;

    if (is_mine(l, row)) {
        need->want_stored = true;
        return TW_OK;
    }
    if (*ret_blocked || l->holds || is_strange(row) || !is_older(l, row))
        return TW_OK;
    ledger_run_init(&run);
    outcome = read_run(l, row, &run, &open);
    if (outcome == TW_OK && open && comes(l, &run)) {
        *ret_blocked = true;
        set_blocked(l, need, row, &run);
    }
    ledger_run_done(&run);
    return outcome;
}

static enum tw_err check_need(
    struct locking *l, struct need *need, bool *ret_blocked)
{
    enum tw_err outcome = TW_OK;

    need->lock = NULL;
    need->mine = need->want_stored = false;
    need->taken_over_ticks = 0;
    for (size_t i = 0; i < l->row_count && outcome == TW_OK; i++)
        if (!l->rows[i].is_want && slice_equal(l->rows[i].key, need->key))
            outcome = check_lock(l, need, &l->rows[i], ret_blocked);
    for (size_t i = 0; i < l->row_count && outcome == TW_OK; i++)
        if (l->rows[i].is_want && slice_equal(l->rows[i].key, need->key) &&
            !need->mine)
            outcome = check_want(l, need, &l->rows[i], ret_blocked);
    return outcome;
}

/* ---- writing ---- */

static void set_row(struct locking *l, struct operation *operation,
    struct slice row_key, const char *table, bool is_lock)
{
    struct entity *entity = &operation->entity;
    const struct locks_request *request = l->request;

    entity_init(entity, &l->arena, slice_of(LOCKS_PARTITION), row_key);
    entity_set_int32(entity, &l->arena, "Format", LEDGER_FORMAT);
    entity_set_string(entity, &l->arena, "Job", l->job);
    entity_set_string(entity, &l->arena, "Run", l->id);
    entity_set_string(entity, &l->arena, "Table", slice_of(table));
    if (request->requested_ticks > 0)
        entity_set_datetime(
            entity, &l->arena, "RequestedAt", request->requested_ticks);
    if (is_lock && l->now_ticks > 0)
        entity_set_datetime(entity, &l->arena, "LockedAt", l->now_ticks);
}

static enum tw_err send(struct store *store, const struct deadline *deadline,
    const struct operation *operations, size_t count, struct err *err)
{
    const struct batch batch = {LEDGER_TABLE, operations, count};
    struct batch_result *result = mem_alloc(sizeof(*result));
    struct retry_call call = retry_call(deadline, RETRY_BUSY_MS, 0);
    enum tw_err outcome;

    do
        outcome = store_batch(store, &call.exchange, &batch, result);
    while (retry_call_again(&call, outcome));
    mem_free(result);
    if (outcome != TW_OK)
        (void)err_fail(err, outcome, "locks: %s", call.exchange.err.text);
    return outcome;
}

static bool is_needed(const struct locking *l, const struct row *row)
{
    for (size_t i = 0; i < l->need_count; i++)
        if (slice_equal(l->needs[i].key, row->key))
            return true;
    return false;
}

/* Add writes that give up the locks of tables that the run's job used only
 * under a former definition: their Run becomes NO_RUN. The next run that needs
 * such a lock finds no run with this id, and so knows that requests of the
 * former run may still arrive. If the locks were deleted, the next run would
 * not know this. */
static size_t add_left(
    struct locking *l, struct operation *operations, size_t count)
{
    for (size_t i = 0; i < l->row_count; i++) {
        const struct row *row = &l->rows[i];

        if (row->is_want || !is_mine(l, row) || is_needed(l, row))
            continue;
        operations[count].type = OPERATION_REPLACE;
        set_row(l, &operations[count], row->row_key, "", true);
        entity_set_string(
            &operations[count].entity, &l->arena, "Run", slice_of(NO_RUN));
        operations[count++].entity.etag = row->etag;
    }
    return count;
}

/* May requests of the run from which the lock was taken over still arrive? */
static bool may_be_late(const struct locking *l, int64_t taken_over_ticks)
{
    return taken_over_ticks > 0 && taken_over_ticks + LATE_TICKS > l->now_ticks;
}

/* Add deletes of the run's wants and, if locks_too is true, of its locks. A
 * lock for which may_be_late() is true is kept, because not every kind of job
 * waits for late requests. */
static size_t add_deletes(struct locking *l, struct operation *operations,
    size_t count, bool locks_too)
{
    for (size_t i = 0; i < l->row_count; i++) {
        const struct row *row = &l->rows[i];

        if (!is_mine(l, row) || !(row->is_want || locks_too) ||
            may_be_late(l, row->taken_over_ticks))
            continue;
        operations[count].type = OPERATION_DELETE;
        entity_init(&operations[count].entity, &l->arena,
            slice_of(LOCKS_PARTITION), row->row_key);
        operations[count++].entity.etag = row->etag;
    }
    return count;
}

/* Insert the locks, delete the wants and give up the locks that are not needed
 * any more (add_left()), in one batch. Locks that the run has already are
 * written again. Another run may have read this run as ended, before a `retry`,
 * and may be about to replace these locks. The new ETags make that batch
 * fail. */
static enum tw_err take_all(struct locking *l)
{
    struct operation *operations =
        mem_array(l->need_count + l->row_count, sizeof(*operations));
    enum tw_err outcome = TW_OK;
    size_t count = 0;

    for (size_t i = 0; i < l->need_count; i++) {
        struct need *need = &l->needs[i];

        operations[count].type =
            need->lock ? OPERATION_REPLACE : OPERATION_INSERT;
        set_row(l, &operations[count], lock_key(l, need), need->table, true);
        if (need->lock)
            operations[count].entity.etag = need->lock->etag;
        if (need->taken_over_ticks > 0)
            entity_set_datetime(&operations[count].entity, &l->arena,
                "TakenOverAt", need->taken_over_ticks);
        count++;
    }
    count = add_deletes(l, operations, count, false);
    count = add_left(l, operations, count);
    if (count > 0)
        outcome = send(
            l->request->store, l->request->deadline, operations, count, l->err);
    mem_free(operations);
    return outcome;
}

/* Insert the wants that are not stored yet. If a want cannot be stored, a
 * younger run may lock the table first; this has no other effect. */
static void write_wants(struct locking *l)
{
    struct operation *operations =
        mem_array(l->need_count + l->row_count, sizeof(*operations));
    struct err ignored;
    size_t count = 0;

    for (size_t i = 0; i < l->need_count; i++) {
        if (l->needs[i].want_stored || l->needs[i].mine)
            continue;
        operations[count].type = OPERATION_INSERT;
        set_row(l, &operations[count++], want_key(l, &l->needs[i]),
            l->needs[i].table, false);
    }
    count = add_left(l, operations, count);
    if (count > 0 && send(l->request->store, l->request->deadline, operations,
                         count, &ignored) != TW_OK)
        log_debug("locks", "%s", ignored.text);
    mem_free(operations);
}

/* ---- take and release ---- */

/* Try once to take the locks. True: *ret is the outcome. False: other runs have
 * changed the locks, so the caller tries again. */
static bool try_once(struct locking *l, enum locks_outcome *ret)
{
    bool blocked = false;
    enum tw_err outcome = read_rows(l, l->request->store, l->request->deadline);

    *ret = LOCKS_OUTAGE;
    l->holds = false;
    for (size_t i = 0; i < l->row_count; i++)
        l->holds |= !l->rows[i].is_want && is_mine(l, &l->rows[i]) &&
                    is_needed(l, &l->rows[i]);
    for (size_t i = 0; i < l->need_count && outcome == TW_OK; i++)
        outcome = check_need(l, &l->needs[i], &blocked);
    if (outcome != TW_OK)
        return true;
    if (blocked) {
        write_wants(l);
        *ret = LOCKS_BLOCKED;
        return true;
    }
    outcome = take_all(l);
    if (outcome == TW_OK)
        *ret = LOCKS_TAKEN;
    return outcome != TW_CONFLICT && outcome != TW_NOT_FOUND &&
           outcome != TW_UNKNOWN;
}

static void begin(
    struct locking *l, const struct locks_request *request, struct err *err)
{
    *l = (struct locking){.request = request,
        .job = slice_of(request->job->name),
        .id = request->id,
        .err = err};
    arena_init(&l->arena);
    request->job->kind->tables(request->job, add_need, l);
}

static void end(struct locking *l)
{
    mem_free(l->needs);
    mem_free(l->rows);
    mem_free(l->closed);
    arena_done(&l->arena);
}

static bool took_over(const struct locking *l)
{
    for (size_t i = 0; i < l->need_count; i++)
        if (may_be_late(l, l->needs[i].taken_over_ticks))
            return true;
    return false;
}

/* Call when all locks are taken. Has `finish` closed the copy between the job's
 * tables? */
static enum locks_outcome check_tables(struct locking *l)
{
    enum tw_err outcome = read_rows(l, l->request->store, l->request->deadline);

    if (outcome == TW_OK)
        outcome = each_closed(l, check_closed, NULL);
    if (outcome == TW_OK)
        return LOCKS_TAKEN;
    return outcome == TW_CONFLICT ? LOCKS_CLOSED : LOCKS_OUTAGE;
}

enum locks_outcome locks_take(
    const struct locks_request *request, bool *ret_taken_over, struct err *err)
{
    struct locking l;
    enum locks_outcome outcome = LOCKS_OUTAGE;
    bool done = false;

    begin(&l, request, err);
    for (int round = 0; round < LOCKS_ROUNDS && !done; round++)
        done = try_once(&l, &outcome);
    if (outcome == LOCKS_TAKEN && l.source_count > 0)
        outcome = check_tables(&l);
    *ret_taken_over =
        (outcome == LOCKS_TAKEN || outcome == LOCKS_CLOSED) && took_over(&l);
    end(&l);
    return outcome;
}

/* Try once to release the locks. False: other runs have changed the locks, or
 * may have, so the caller tries again. */
static bool release_once(struct locking *l, struct store *store,
    const struct deadline *deadline, bool locks_too)
{
    struct operation *operations;
    enum tw_err outcome = read_rows(l, store, deadline);
    size_t count;

    if (outcome != TW_OK)
        return true;
    operations = mem_array(l->row_count, sizeof(*operations));
    count = add_deletes(l, operations, 0, locks_too);
    if (count > 0)
        outcome = send(store, deadline, operations, count, l->err);
    mem_free(operations);
    return outcome != TW_CONFLICT && outcome != TW_NOT_FOUND &&
           outcome != TW_UNKNOWN;
}

void locks_release(struct store *store, const struct deadline *deadline,
    struct slice job, struct slice id, bool locks_too)
{
    struct err err = {""};
    struct locking l = {.job = job, .id = id, .err = &err};
    bool done = false;

    arena_init(&l.arena);
    for (int round = 0; round < LOCKS_ROUNDS && !done; round++) {
        err.text[0] = '\0';
        done = release_once(&l, store, deadline, locks_too);
    }
    if (err.text[0] != '\0')
        log_debug("locks",
            "run %.*s/%.*s has ended, but its locks could not be deleted: "
            "%s",
            SLICE_ARG(job), SLICE_ARG(id), err.text);
    end(&l);
}

/* ---- closing and opening tables ---- */

/* Operations on `closed!` rows, for one batch. */
struct closing {
    struct operation operations[BATCH_MAX_OPERATIONS];
    size_t count;
};

static const struct closed *find_closed(
    const struct locking *l, struct slice row_key)
{
    for (size_t i = 0; i < l->closed_count; i++)
        if (slice_equal(l->closed[i].row_key, row_key))
            return &l->closed[i];
    return NULL;
}

static void add_close(struct locking *l, struct closing *closing,
    struct slice source, const struct need *need)
{
    struct slice prefix = closed_prefix(l, source, need);
    struct slice row_key = arena_format(
        &l->arena, "%.*s%.*s", SLICE_ARG(prefix), SLICE_ARG(l->job));
    const struct closed *known = find_closed(l, row_key);
    struct operation *operation;

    if (closing->count == BATCH_MAX_OPERATIONS)
        return;
    operation = &closing->operations[closing->count++];
    operation->type = known ? OPERATION_REPLACE : OPERATION_INSERT;
    set_row(l, operation, row_key, need->table, false);
    if (known)
        operation->entity.etag = known->etag;
    entity_set_string(&operation->entity, &l->arena, "End",
        ledger_closed_key(l->id, l->request->requested_ticks, &l->arena));
}

static enum tw_err add_open(struct locking *l, const struct need *need,
    const struct closed *closed, void *context)
{
    struct closing *closing = context;
    struct operation *operation;
    bool is_closed;
    enum tw_err outcome = read_end(l, closed, &is_closed);

    (void)need;
    if (outcome != TW_OK || !is_closed ||
        closing->count == BATCH_MAX_OPERATIONS)
        return outcome;
    operation = &closing->operations[closing->count++];
    operation->type = OPERATION_DELETE;
    entity_init(&operation->entity, &l->arena, slice_of(LOCKS_PARTITION),
        closed->row_key);
    operation->entity.etag = closed->etag;
    return TW_OK;
}

/* Read the rows, let `add` compose operations for them, and send these
 * operations in one batch. */
static enum tw_err change_closed(const struct locks_request *request,
    enum tw_err (*add)(struct locking *l, struct closing *closing),
    struct err *err)
{
    struct closing *closing = mem_alloc(sizeof(*closing));
    struct locking l;
    enum tw_err outcome = TW_CONFLICT;

    begin(&l, request, err);
    for (int round = 0; round < LOCKS_ROUNDS; round++) {
        closing->count = 0;
        outcome = read_rows(&l, request->store, request->deadline);
        if (outcome == TW_OK)
            outcome = add(&l, closing);
        if (outcome != TW_OK)
            break;
        if (closing->count > 0)
            outcome = send(request->store, request->deadline,
                closing->operations, closing->count, err);
        if (outcome != TW_CONFLICT && outcome != TW_NOT_FOUND &&
            outcome != TW_UNKNOWN)
            break;
    }
    end(&l);
    mem_free(closing);
    return outcome;
}

static enum tw_err add_closes(struct locking *l, struct closing *closing)
{
    for (size_t i = 0; i < l->need_count; i++)
        for (size_t s = 0; s < l->source_count && !is_source(l, &l->needs[i]);
             s++)
            add_close(l, closing, l->sources[s], &l->needs[i]);
    return TW_OK;
}

enum tw_err locks_close(const struct locks_request *request, struct err *err)
{
    return change_closed(request, add_closes, err);
}

static enum tw_err add_opens(struct locking *l, struct closing *closing)
{
    return each_closed(l, add_open, closing);
}

enum tw_err locks_reopen(const struct locks_request *request, struct err *err)
{
    enum tw_err outcome = change_closed(request, add_opens, err);

    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

enum tw_err locks_check_closed(
    const struct locks_request *request, struct err *err)
{
    struct locking l;
    enum tw_err outcome;

    begin(&l, request, err);
    outcome = read_rows(&l, request->store, request->deadline);
    if (outcome == TW_OK)
        outcome = each_closed(&l, check_closed, NULL);
    end(&l);
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}
