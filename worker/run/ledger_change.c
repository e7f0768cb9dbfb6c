/* SPDX-License-Identifier: MIT */
/* The one conditional write of the ledger. */
#include "worker/run/ledger_change.h"

#include <inttypes.h>

#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

/* CHANGE_ROUNDS: maximum number of tries to change a run that other processes
 * write at the same time. INDEX_ROUNDS: maximum number of tries to write a
 * batch while other processes change its ledger index rows. */
#define CHANGE_ROUNDS 8
#define INDEX_ROUNDS 3
#define OPERATION_ID_CHARS (LEDGER_OPERATION_MAX - 1)
/* Maximum number of operations in a batch: the run's entity, two ledger index
 * rows, and two rows of a job that is closed. */
#define OPERATIONS_MAX 5

/* ---- one batch ---- */

/* A ledger index row, or a `!closed` row, that the batch changes. */
struct row {
    struct slice key;
    char etag[96];
    bool known; /* etag was read or is assumed; etag "": there is no such row */
};

struct writing {
    struct store *store;
    const struct ledger_run *was; /* the run as stored; without an ETag it is
                                     not stored yet */
    struct ledger_run *is;        /* run to store; NULL: delete the run */
    /* old_row: the ledger index row to delete. new_row: the ledger index row to
     * write. A row without a key is ignored. */
    struct row old_row, new_row;
    struct row closed[2]; /* the `!closed` rows of the job and of the run, each
                             written even if it exists; a row without a key is
                             ignored */
    struct arena arena;

    struct operation operations[OPERATIONS_MAX];
    struct row *rows[OPERATIONS_MAX]; /* rows[i]: the row that operation i
                                         writes; NULL: operation i writes the
                                         run */
    size_t count;
    struct batch_result result;
};

static struct operation *add_operation(
    struct writing *w, enum operation_type type, struct row *row)
{
    struct operation *operation = &w->operations[w->count];

    w->rows[w->count++] = row;
    operation->type = type;
    if (row) {
        entity_init(&operation->entity, &w->arena, w->was->job, row->key);
        operation->entity.etag = slice_of(row->etag);
    }
    return operation;
}

/* Set those properties of the ledger index row that a list shows, so that a
 * list need not read the run's entity. */
static void set_row_properties(
    struct writing *w, const struct ledger_run *run, struct entity *row)
{
    entity_set_string(
        row, &w->arena, "State", slice_of(ledger_state_name(run->state)));
    if (run->queue.len > 0)
        entity_set_string(row, &w->arena, "Queue", run->queue);
    if (run->requested_ticks != 0)
        entity_set_datetime(
            row, &w->arena, "RequestedAt", run->requested_ticks);
    if (run->finished_ticks != 0)
        entity_set_datetime(row, &w->arena, "FinishedAt", run->finished_ticks);
}

static void add_run(struct writing *w)
{
    struct operation *operation;

    if (!w->is) {
        operation = add_operation(w, OPERATION_DELETE, NULL);
        entity_init(&operation->entity, &w->arena, w->was->job, w->was->id);
    } else {
        operation = add_operation(w,
            w->was->etag.len > 0 ? OPERATION_REPLACE : OPERATION_INSERT, NULL);
        ledger_entity(w->is, &w->arena, &operation->entity);
    }
    operation->entity.etag = w->was->etag;
}

static void add_rows(struct writing *w)
{
    struct operation *operation;

    if (w->old_row.key.len > 0 && w->old_row.etag[0])
        (void)add_operation(w, OPERATION_DELETE, &w->old_row);
    if (w->new_row.key.len > 0) {
        operation = add_operation(w,
            w->new_row.etag[0] ? OPERATION_REPLACE : OPERATION_INSERT,
            &w->new_row);
        set_row_properties(w, w->is, &operation->entity);
    }
    for (size_t i = 0; i < 2; i++)
        if (w->closed[i].key.len > 0) {
            operation = add_operation(w,
                w->closed[i].etag[0] ? OPERATION_REPLACE : OPERATION_INSERT,
                &w->closed[i]);
            entity_set_string(&operation->entity, &w->arena, "Run", w->was->id);
        }
}

static void set_etag(struct row *row, struct slice etag)
{
    row->known = etag.len < sizeof(row->etag);
    row->etag[0] = '\0';
    if (row->known && etag.len > 0) {
        memcpy(row->etag, etag.at, etag.len);
        row->etag[etag.len] = '\0';
    }
}

/* Read the row's ETag; "" if the row does not exist. */
static enum tw_err read_row(
    struct writing *w, struct exchange *exchange, struct row *row)
{
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = store_get(
        w->store, exchange, LEDGER_TABLE, w->was->job, row->key, &page);
    if (outcome == TW_OK)
        set_etag(row, page.entities[0].etag);
    if (outcome == TW_NOT_FOUND)
        set_etag(row, (struct slice){0});
    page_done(&page);
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

static enum tw_err read_unknown_rows(struct writing *w,
    struct exchange *exchange, void (*made)(void *, const struct exchange *),
    void *context)
{
    struct row *rows[] = {
        &w->old_row, &w->new_row, &w->closed[0], &w->closed[1]};
    const struct deadline *deadline = exchange->deadline;
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < 4 && outcome == TW_OK; i++) {
        if (rows[i]->key.len == 0 || rows[i]->known)
            continue;
        *exchange =
            (struct exchange){.deadline = deadline, .retry_after_ms = -1};
        outcome = read_row(w, exchange, rows[i]);
        if (made)
            made(context, exchange);
    }
    return outcome;
}

static void take_results(struct writing *w)
{
    struct ledger_run *is = w->is;

    if (!is)
        return;
    is->etag = ledger_text(is, slice_of(w->result.etags[0]));
    for (size_t i = 1; i < w->count; i++)
        if (w->rows[i] == &w->new_row)
            is->index_etag = ledger_text(is, slice_of(w->result.etags[i]));
}

/* If the batch failed because another process has changed a ledger index row or
 * a `!closed` row, mark this row, so that it is read before the next batch.
 * True: a row is marked. */
static bool mark_changed_row(struct writing *w, enum tw_err outcome)
{
    if (outcome != TW_CONFLICT && outcome != TW_NOT_FOUND)
        return false;
    if (w->result.failed == 0 || w->result.failed >= w->count)
        return false;
    w->rows[w->result.failed]->known = false;
    return true;
}

/* Find which ledger index row to delete and which to insert. */
static void plan_rows(struct writing *w)
{
    struct slice old = {0}, new = {0};

    if (w->was->etag.len > 0)
        old = ledger_index_key(w->was, &w->arena);
    if (w->is)
        new = ledger_index_key(w->is, &w->arena);
    if (slice_equal(old, new))
        return;
    w->old_row = (struct row){.key = old};
    if (w->was->index_etag.len > 0)
        set_etag(&w->old_row, w->was->index_etag);
    w->new_row = (struct row){.key = new, .known = true};
}

/* Write the run and its rows in one batch. If another process has changed a
 * row, read the row and write again. */
static enum tw_err write_batch(struct writing *w, struct exchange *exchange,
    void (*made)(void *, const struct exchange *), void *context)
{
    const struct deadline *deadline = exchange->deadline;
    struct batch batch = {LEDGER_TABLE, w->operations, 0};
    enum tw_err outcome = TW_CONFLICT;

    for (int round = 0; round < INDEX_ROUNDS; round++) {
        outcome = read_unknown_rows(w, exchange, made, context);
        if (outcome != TW_OK)
            return outcome == TW_UNKNOWN ? TW_BUSY : outcome;
        w->count = 0;
        add_run(w);
        add_rows(w);
        batch.count = w->count;
        *exchange =
            (struct exchange){.deadline = deadline, .retry_after_ms = -1};
        outcome = store_batch(w->store, exchange, &batch, &w->result);
        if (made)
            made(context, exchange);
        if (outcome == TW_OK)
            take_results(w);
        if (!mark_changed_row(w, outcome))
            return outcome;
    }
    return outcome;
}

static void writing_init(struct writing *w, struct store *store,
    const struct ledger_run *was, struct ledger_run *is)
{
    w->store = store;
    w->was = was;
    w->is = is;
    w->old_row = w->new_row = (struct row){.known = true};
    w->closed[0] = w->closed[1] = (struct row){.known = true};
    arena_init(&w->arena);
    plan_rows(w);
}

enum tw_err ledger_remove(struct store *store, struct exchange *exchange,
    const struct ledger_run *run)
{
    struct writing *w = mem_alloc(sizeof(*w));
    enum tw_err outcome;

    writing_init(w, store, run, NULL);
    outcome = write_batch(w, exchange, NULL, NULL);
    arena_done(&w->arena);
    mem_free(w);
    return outcome;
}

/* ---- the change ---- */

struct changing {
    struct ledger_change *change;
    struct ledger_run *stored; /* run as read, or as the caller knows it */
    struct ledger_run next;    /* run as apply() changed it, to be stored */
    struct buf operations;     /* ids of all writes that were sent, joined */
    bool is_written;           /* one of these writes stored the run that is in
                                  `stored` */
    struct err *err;
};

static void begin_try(struct ledger_change *change)
{
    change->last =
        (struct exchange){.deadline = change->deadline, .retry_after_ms = -1};
}

static void count_attempt(struct ledger_change *change)
{
    if (change->made)
        change->made(change->context, &change->last);
}

/* Wait before a retry. False: no retry follows, because the request may have
 * been carried out, or no time is left. */
static bool again(
    struct ledger_change *change, enum tw_err outcome, struct retry *retry)
{
    return outcome == TW_BUSY && change->limits &&
           retry_wait(retry, &change->last, change->limits);
}

static enum tw_err read_stored(struct changing *c)
{
    struct ledger_change *change = c->change;
    struct retry retry = {0};
    struct ledger_run read;
    enum tw_err outcome;

    ledger_run_init(&read);
    do {
        begin_try(change);
        outcome = ledger_get(
            change->store, &change->last, c->stored->job, c->stored->id, &read);
        count_attempt(change);
        if (outcome == TW_UNKNOWN) /* a read can be repeated, because it changes
                                      nothing */
            outcome = TW_BUSY;
    } while (again(change, outcome, &retry));
    if (outcome == TW_NOT_FOUND && change->last.date_ticks != 0) {
        read.job = ledger_text(&read, c->stored->job);
        read.id = ledger_text(&read, c->stored->id);
        outcome = TW_OK;
    }
    change->damaged = outcome == TW_INVALID && change->last.http_status < 400;
    change->of_run = change->damaged;
    if (outcome != TW_OK) {
        ledger_run_done(&read);
        return err_fail(c->err, outcome, "%s", change->last.err.text);
    }
    ledger_run_done(c->stored);
    *c->stored = read;
    return TW_OK;
}

static int64_t now_of(const struct ledger_change *change)
{
    return change->last.date_ticks ? change->last.date_ticks
                                   : platform_wall_ticks();
}

/* Check that the new state may follow the stored state. */
static enum tw_err check_next(struct changing *c)
{
    const struct ledger_run *was = c->stored, *is = &c->next;

    if (was->etag.len == 0 || ledger_may_move(was->state, is->state))
        return TW_OK;
    return err_fail(c->err, TW_INVALID,
        "run %.*s/%.*s is %s: it cannot become %s", SLICE_ARG(was->job),
        SLICE_ARG(was->id), ledger_state_name(was->state),
        ledger_state_name(is->state));
}

static enum tw_err refuse_newer(struct changing *c)
{
    const struct ledger_run *was = c->stored;
    struct slice state = ledger_state_shown(was);

    c->change->left_alone = c->change->of_run = true;
    return err_fail(c->err, TW_INVALID,
        "run %.*s/%.*s was written by a newer version (Format %d, State "
        "'%.*s'): it is left unchanged",
        SLICE_ARG(was->job), SLICE_ARG(was->id), (int)was->format,
        SLICE_ARG(text_cut(state, 64)));
}

static enum tw_err apply(struct changing *c)
{
    enum tw_err outcome;

    if (c->stored->newer)
        return refuse_newer(c);
    ledger_run_done(&c->next);
    ledger_copy(&c->next, c->stored);
    outcome = c->change->apply(
        &c->next, now_of(c->change), c->change->context, c->err);
    if (outcome == TW_OK)
        outcome = check_next(c);
    c->change->of_run = outcome != TW_OK;
    return outcome;
}

static void name_operation(struct changing *c)
{
    char id[33];

    text_random_id(id);
    id[OPERATION_ID_CHARS] = '\0';
    memcpy(c->change->operation, id, LEDGER_OPERATION_MAX);
    c->next.operation = ledger_text(&c->next, slice_of(id));
    buf_add_text(&c->operations, id);
}

static bool is_our_operation(const struct changing *c, struct slice id)
{
    if (id.len != OPERATION_ID_CHARS)
        return false;
    for (size_t at = 0; at < c->operations.len; at += OPERATION_ID_CHARS)
        if (memcmp(c->operations.at + at, id.at, id.len) == 0)
            return true;
    return false;
}

/* Create the table: it was deleted, or never created. */
static enum tw_err create_table(struct changing *c)
{
    struct ledger_change *change = c->change;
    struct retry retry = {0};
    enum tw_err outcome;

    do {
        begin_try(change);
        outcome = ledger_create(change->store, &change->last);
        count_attempt(change);
        if (outcome == TW_UNKNOWN)
            outcome = TW_BUSY;
    } while (again(change, outcome, &retry));
    return outcome;
}

static enum tw_err send(struct changing *c)
{
    struct ledger_change *change = c->change;
    struct writing *w = mem_alloc(sizeof(*w));
    struct retry retry = {0};
    enum tw_err outcome;

    writing_init(w, change->store, c->stored, &c->next);
    if (change->closes_job) {
        w->closed[0].key = slice_of(LEDGER_CLOSED);
        w->closed[1].key =
            ledger_closed_key(c->next.id, c->next.requested_ticks, &w->arena);
    }
    do {
        begin_try(change);
        outcome = write_batch(w, &change->last, change->made, change->context);
    } while (again(change, outcome, &retry));
    arena_done(&w->arena);
    mem_free(w);
    return outcome;
}

static enum tw_err write_next(struct changing *c)
{
    bool is_new = c->stored->etag.len == 0;
    enum tw_err outcome;

    name_operation(c);
    outcome = send(c);
    if (outcome != TW_NOT_FOUND || !is_new)
        return outcome;
    outcome = create_table(c);
    return outcome == TW_OK ? send(c) : outcome;
}

/*
 * Is the run the cause of `sent`, the outcome of its write? Yes, if the request
 * was not sent, or the service refused one operation in the batch. If the whole
 * request was refused, a proxy may have refused it.
 */
static bool is_unstorable(enum tw_err sent, const struct exchange *last)
{
    return (sent == TW_INVALID || sent == TW_TOO_LARGE) &&
           last->http_status < 400;
}

/* Call when c->next is stored: moves c->next to c->stored. */
static void keep_next(struct changing *c)
{
    ledger_run_done(c->stored);
    *c->stored = c->next;
    ledger_run_init(&c->next);
}

/* Call with the outcome `sent` of a write. TW_OK: c->stored is the run as it is
 * in the ledger now. If c->is_written is set, the write is stored. If not, the
 * change must be applied to c->stored again. Any other outcome is that of
 * ledger_change(). */
static enum tw_err resolve_write(struct changing *c, enum tw_err sent)
{
    struct ledger_change *change = c->change;
    enum tw_err outcome;

    if (sent == TW_OK) {
        keep_next(c);
        c->is_written = true;
        return TW_OK;
    }
    if (sent != TW_CONFLICT && sent != TW_NOT_FOUND && sent != TW_UNKNOWN) {
        change->of_run = is_unstorable(sent, &change->last);
        return err_fail(c->err, sent, "%s", change->last.err.text);
    }
    outcome = read_stored(c);
    if (outcome == TW_OK)
        c->is_written = is_our_operation(c, c->stored->operation);
    else if (sent == TW_UNKNOWN && !change->damaged)
        outcome = TW_UNKNOWN;
    return outcome;
}

enum tw_err ledger_change(struct ledger_change *change, enum ledger_known known,
    struct ledger_run *run, struct err *err)
{
    struct changing c = {.change = change, .stored = run, .err = err};
    enum tw_err outcome = TW_OK;

    change->last = (struct exchange){.retry_after_ms = -1};
    change->left_alone = change->damaged = change->of_run = false;
    change->operation[0] = '\0';
    ledger_run_init(&c.next);
    buf_init(&c.operations, CHANGE_ROUNDS * OPERATION_ID_CHARS);
    if (known == LEDGER_READ)
        outcome = read_stored(&c);
    for (int round = 0; outcome == TW_OK && !c.is_written; round++) {
        if (round == CHANGE_ROUNDS) {
            change->of_run = true;
            outcome = err_fail(err, TW_BUSY,
                "run %.*s/%.*s changed before each attempt to write it",
                SLICE_ARG(run->job), SLICE_ARG(run->id));
            break;
        }
        outcome = apply(&c);
        if (outcome == TW_OK)
            outcome = resolve_write(&c, write_next(&c));
    }
    buf_done(&c.operations);
    ledger_run_done(&c.next);
    return outcome;
}

/* ---- closed jobs ---- */

struct slice ledger_closed_key(
    struct slice id, int64_t requested_ticks, struct arena *arena)
{
    return arena_format(
        arena, LEDGER_CLOSED "!%.*s!%" PRId64, SLICE_ARG(id), requested_ticks);
}

enum tw_err ledger_has_closed(struct store *store, struct exchange *exchange,
    struct slice job, struct slice key, bool *ret)
{
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = store_get(store, exchange, LEDGER_TABLE, job, key, &page);
    *ret = outcome == TW_OK;
    page_done(&page);
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

static enum tw_err get_closed(struct store *store, struct exchange *exchange,
    struct slice job, struct page *page)
{
    return store_get(
        store, exchange, LEDGER_TABLE, job, slice_of(LEDGER_CLOSED), page);
}

enum tw_err ledger_check_open(struct store *store, struct exchange *exchange,
    struct slice job, struct err *err)
{
    const struct property *run;
    struct slice by = {0};
    struct arena arena;
    struct page page;
    enum tw_err outcome;

    arena_init(&arena);
    page_init(&page);
    outcome = get_closed(store, exchange, job, &page);
    if (outcome == TW_OK) {
        run = entity_find(&page.entities[0], slice_of("Run"));
        if (run)
            (void)property_text(run, &arena, &by);
        outcome = err_fail(err, TW_CONFLICT,
            "job %.*s was closed by the `finish` of run %.*s: `run --reopen` "
            "opens it again",
            SLICE_ARG(job), SLICE_ARG(by));
    }
    page_done(&page);
    arena_done(&arena);
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

enum tw_err ledger_reopen(
    struct store *store, struct exchange *exchange, struct slice job)
{
    struct operation operation = {.type = OPERATION_DELETE};
    struct batch batch = {LEDGER_TABLE, &operation, 1};
    struct batch_result result;
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = get_closed(store, exchange, job, &page);
    if (outcome == TW_OK) {
        const struct deadline *deadline = exchange->deadline;

        operation.entity = page.entities[0];
        *exchange =
            (struct exchange){.deadline = deadline, .retry_after_ms = -1};
        outcome = store_batch(store, exchange, &batch, &result);
    }
    page_done(&page);
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}
