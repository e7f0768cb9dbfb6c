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
#include "worker/store/retry.h"
#include "worker/store/store.h"

/* Maximum number of tries while other runs change the locks. */
#define LOCKS_ROUNDS 5
/* Longest ACCOUNT in a key; a longer ACCOUNT is replaced by its SHA-256. */
#define ACCOUNT_MAX_BYTES 100
/* How long after ResumesAt or UpdatedAt of a run its want still counts. */
#define WANT_LATE_TICKS (600 * TICKS_PER_S)
#define CAUSE_MAX_BYTES 300

/* A stored lock or want. */
struct row {
    struct slice row_key, etag, key, job, id;
    int64_t requested_ticks;
    bool is_want;
    bool is_newer; /* written by a newer version: it is not known which run it
                      belongs to */
};

/* A table that the run needs. */
struct need {
    struct slice key; /* ACCOUNT!TABLE */
    const char *table;
    const struct row *lock; /* the stored lock; NULL: none */
    bool mine, want_stored;
};

struct locking {
    const struct locks_request *request; /* NULL: locks are only released */
    struct slice job, id;                /* job and id of the run */
    struct arena arena;
    struct need *needs;
    size_t need_count, need_room;
    struct row *rows;
    size_t row_count, row_room;
    int64_t now_ticks; /* the present time by the service's clock */
    bool takes_over;
    /* The run has a lock. Then it waits for no want, because the run of the
     * want would wait for this lock, and both for ever. */
    bool holds;
    struct err *err;
};

/* ---- keys ---- */

/* Compose the ACCOUNT of a store, with the characters escaped that a key must
 * not have. */
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

static void add_key(struct locking *l, struct slice account, const char *table)
{
    struct slice key = key_of(account, table, &l->arena);

    for (size_t i = 0; i < l->need_count; i++)
        if (slice_equal(l->needs[i].key, key))
            return;
    if (l->need_count == l->need_room) {
        l->need_room = l->need_room ? 2 * l->need_room : 8;
        l->needs = mem_resize(l->needs, l->need_room * sizeof(*l->needs));
    }
    l->needs[l->need_count++] = (struct need){.key = key, .table = table};
}

/* Add the locks that a table needs. The key with the store's identity is the
 * only one that older versions, which may use the same ledger, take and
 * respect. */
static void add_need(
    void *context, size_t store, const char *table, enum job_access access)
{
    struct locking *l = context;
    const struct job_stores *stores = l->request->stores;
    const struct store *at =
        store < stores->count ? stores->stores[store] : NULL;
    const char *name = at ? at->capabilities.account_name : NULL;

    if (access == JOB_READS || !at)
        return;
    add_key(l, slice_of(store_account(at)), table);
    if (name)
        add_key(l, arena_format(&l->arena, "account.%s", name), table);
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

static void add_row(struct locking *l, const struct entity *entity)
{
    const struct property *requested =
        entity_find(entity, slice_of("RequestedAt"));
    struct row row = {
        .is_want = slice_begins(entity->row_key, slice_of("want!")),
        .is_newer = ledger_is_newer(entity)};

    if (!row.is_want && !slice_begins(entity->row_key, slice_of("lock!")))
        return;
    row.row_key = arena_copy(&l->arena, entity->row_key);
    row.etag = arena_copy(&l->arena, entity->etag);
    row.key = key_in(row.row_key);
    row.job = text_of(entity, "Job", &l->arena);
    row.id = text_of(entity, "Run", &l->arena);
    if (requested)
        (void)property_ticks(requested, &row.requested_ticks);
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
    /* Only page 1 can be retried, because a failed request loses page.next. */
    bool first = true;

    page_init(&page);
    l->row_count = 0;
    do {
        call = retry_call(deadline, RETRY_BUSY_MS, 0);
        do {
            scan.from = page.next;
            outcome = store_scan(store, &call.exchange, &scan, &page);
        } while (first && retry_call_again(&call, outcome));
        first = false;
        for (size_t i = 0; outcome == TW_OK && i < page.count; i++)
            add_row(l, &page.entities[i]);
    } while (outcome == TW_OK && page.next.more);
    page_done(&page);
    l->now_ticks = call.exchange.date_ticks;
    if (outcome != TW_OK)
        (void)err_fail(l->err, outcome, "locks: %s", call.exchange.err.text);
    return outcome;
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

/* Set err to a text that says which run blocks, and what blocks that run. */
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
    if (need->mine)
        return TW_OK;
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
        l->takes_over = true;
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

/* Add deletes of the run's wants and, if locks_too is true, of its locks. */
static size_t add_deletes(struct locking *l, struct operation *operations,
    size_t count, bool locks_too)
{
    for (size_t i = 0; i < l->row_count; i++) {
        const struct row *row = &l->rows[i];

        if (!is_mine(l, row) || !(row->is_want || locks_too))
            continue;
        operations[count].type = OPERATION_DELETE;
        entity_init(&operations[count].entity, &l->arena,
            slice_of(LOCKS_PARTITION), row->row_key);
        operations[count++].entity.etag = row->etag;
    }
    return count;
}

/* Insert the locks and delete the wants in one batch. Locks that the run has
 * already are written again. Another run may have read this run as ended,
 * before a `retry`, and may be about to replace these locks. The new ETags make
 * its batch fail. */
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
        count++;
    }
    count = add_deletes(l, operations, count, false);
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
        mem_array(l->need_count, sizeof(*operations));
    struct err ignored;
    size_t count = 0;

    for (size_t i = 0; i < l->need_count; i++) {
        if (l->needs[i].want_stored || l->needs[i].mine)
            continue;
        operations[count].type = OPERATION_INSERT;
        set_row(l, &operations[count++], want_key(l, &l->needs[i]),
            l->needs[i].table, false);
    }
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
    l->takes_over = l->holds = false;
    for (size_t i = 0; i < l->row_count; i++)
        l->holds |= !l->rows[i].is_want && is_mine(l, &l->rows[i]);
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

enum locks_outcome locks_take(
    const struct locks_request *request, bool *ret_taken_over, struct err *err)
{
    struct locking l = {.request = request,
        .job = slice_of(request->job->name),
        .id = request->id,
        .err = err};
    enum locks_outcome outcome = LOCKS_OUTAGE;
    bool done = false;

    arena_init(&l.arena);
    request->job->kind->tables(request->job, add_need, &l);
    for (int round = 0; round < LOCKS_ROUNDS && !done; round++)
        done = try_once(&l, &outcome);
    *ret_taken_over = outcome == LOCKS_TAKEN && l.takes_over;
    mem_free(l.needs);
    mem_free(l.rows);
    arena_done(&l.arena);
    return outcome;
}

/* Try once to release the locks. False: other runs have changed the locks, or
 * may have, so the caller tries again. */
static bool release_once(
    struct locking *l, struct store *store, const struct deadline *deadline)
{
    struct operation *operations;
    enum tw_err outcome = read_rows(l, store, deadline);
    size_t count;

    if (outcome != TW_OK)
        return true;
    operations = mem_array(l->row_count, sizeof(*operations));
    count = add_deletes(l, operations, 0, true);
    if (count > 0)
        outcome = send(store, deadline, operations, count, l->err);
    mem_free(operations);
    return outcome != TW_CONFLICT && outcome != TW_NOT_FOUND &&
           outcome != TW_UNKNOWN;
}

void locks_release(struct store *store, const struct deadline *deadline,
    struct slice job, struct slice id)
{
    struct err err = {""};
    struct locking l = {.job = job, .id = id, .err = &err};
    bool done = false;

    arena_init(&l.arena);
    for (int round = 0; round < LOCKS_ROUNDS && !done; round++) {
        err.text[0] = '\0';
        done = release_once(&l, store, deadline);
    }
    if (err.text[0] != '\0')
        log_debug("locks",
            "run %.*s/%.*s has ended, but its locks could not be deleted yet: "
            "%s",
            SLICE_ARG(job), SLICE_ARG(id), err.text);
    mem_free(l.rows);
    arena_done(&l.arena);
}
