/* SPDX-License-Identifier: MIT */
/*
 * The book of runs and messages. Its rules:
 *
 *   - a run is acquired only after the lease of its last owner has expired (or
 *     the owner's process has died on the same host), and not before the run
 *     may be resumed;
 *   - a run ends once;
 *   - an owner sends requests only during its lease; it sends no request to the
 *     job's tables after all its work is done except the run's poison copy;
 *   - counts never fall;
 *   - an open run is on the list of open runs, an ended run on another list;
 *   - a message is deleted only when its run has ended or was once paused: a
 *     worker that received the message during the pause may delete it after the
 *     resume.
 */
#include "tests/simulate/book.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tests/simulate/worker.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/run/lease.h"

/* A lease whose owner has sent a write. It is identified by the addresses of
 * its two deadlines. */
struct leaseholder {
    struct leaseholder *next;
    const void *process;
    const struct deadline *deadline; /* the deadline of the run's requests */
    const struct deadline *own;      /* the deadline of the lease's own
                                        requests */
    char key[QUEUE_ID_MAX + 64];
    char owner[LOCK_FILE_OWNER_MAX];
    int32_t epoch;
    bool claimed; /* the ledger names this owner, or named it last */
    int64_t lease_until_ticks; /* the latest LeaseUntil that was sent */
    bool unaware;    /* the clocks of the process have stood still since
                        the owner sent LeaseUntil */
    int64_t told_ms; /* when, after that, a response told the process
                        the time; 0: none did */
};

struct message_note {
    struct message_note *next;
    char id[QUEUE_ID_MAX];
    char key[QUEUE_ID_MAX + 64]; /* key of its run; empty: it cannot be read */
    const char *queue;
    bool deleted;
    bool lost; /* it was lost with its queue */
};

struct book {
    struct sim *sim;
    struct sim_run *runs;
    struct leaseholder *leaseholders;
    struct message_note *messages;
    unsigned poisoned; /* number of messages put into poison queues */
};

struct book *book_new(struct sim *sim)
{
    struct book *book = mem_alloc(sizeof(*book));

    book->sim = sim;
    return book;
}

/* ---- runs ---- */

struct sim_run *book_find(struct book *book, struct slice key)
{
    struct sim_run *run = book->runs;

    while (run && !slice_is(key, run->key))
        run = run->next;
    return run;
}

static struct sim_run *run_of(
    struct book *book, struct slice job, struct slice id)
{
    char key[sizeof(((struct sim_run *)0)->key)];
    struct sim_run *run;

    (void)snprintf(
        key, sizeof(key), "%.*s/%.*s", SLICE_ARG(job), SLICE_ARG(id));
    run = book_find(book, slice_of(key));
    if (run)
        return run;
    run = mem_alloc(sizeof(*run));
    ledger_run_init(&run->now);
    memcpy(run->key, key, sizeof(key));
    run->next = book->runs;
    book->runs = run;
    book->sim->result->runs++;
    return run;
}

/* Reads the argument of the run from JSON such as {"what":"News"}. */
static void read_what(struct sim_run *run)
{
    static const char before[] = "{\"" SIM_ARGUMENT "\":\"";
    struct slice args = run->now.args;
    size_t len = sizeof(before) - 1;

    if (args.len <= len + 2 || memcmp(args.at, before, len) != 0)
        return;
    (void)snprintf(run->what, sizeof(run->what), "%.*s",
        (int)(args.len - len - 2), args.at + len);
}

static void judge_lease(struct book *book, const struct sim_run *run,
    const struct ledger_run *was, const struct ledger_run *is)
{
    int64_t now = sim_now_ticks();

    if (is->epoch != was->epoch + 1)
        sim_complain(book->sim, "%s: epoch %d follows %d", run->key,
            (int)is->epoch, (int)was->epoch);
    if (was->owner.len > 0 && was->lease_until_ticks > now &&
        !worker_is_known_dead(book->sim, was->owner, is->owner))
        sim_complain(book->sim,
            "%s: claimed although another owner's lease has %lld ms left",
            run->key,
            (long long)((was->lease_until_ticks - now) / TICKS_PER_MS));
    if (was->resumes_ticks > now)
        sim_complain(book->sim, "%s: claimed before its time", run->key);
    if (is->state != LEDGER_RUNNING || is->owner.len == 0)
        sim_complain(book->sim, "%s: claimed without an owner", run->key);
    if (slice_equal(was->owner, is->owner))
        sim_complain(book->sim, "%s: claimed under the same name", run->key);
}

static void judge_same_epoch(struct book *book, const struct sim_run *run,
    const struct ledger_run *was, const struct ledger_run *is)
{
    if (is->owner.len > 0 && !slice_equal(was->owner, is->owner))
        sim_complain(
            book->sim, "%s: another owner in the same epoch", run->key);
    if (is->state != LEDGER_CANCELLED &&
        (is->owner.len > 0) != (is->state == LEDGER_RUNNING))
        sim_complain(book->sim, "%s: %s, and an owner is %s", run->key,
            ledger_state_name(is->state),
            is->owner.len > 0 ? "named" : "not named");
}

static void judge_counts(struct book *book, const struct sim_run *run,
    const struct ledger_run *was, const struct ledger_run *is)
{
    if (is->read < was->read || is->deleted < was->deleted ||
        is->written < was->written || is->transactions < was->transactions ||
        is->attempt < was->attempt || is->rounds < was->rounds)
        sim_complain(book->sim, "%s: its counts have fallen", run->key);
    if (was->requested_ticks != 0 &&
        is->requested_ticks != was->requested_ticks)
        sim_complain(book->sim, "%s: its time of request has moved", run->key);
    if (!slice_equal(is->args, was->args))
        sim_complain(book->sim, "%s: its arguments have changed", run->key);
}

/* Judges a later write of a run that is in the ledger already. */
static void judge_change(struct book *book, const struct sim_run *run,
    const struct ledger_run *was, const struct ledger_run *is)
{
    if (run->ended)
        sim_complain(book->sim, "%s: written after its end (%s, then %s)",
            run->key, ledger_state_name(was->state),
            ledger_state_name(is->state));
    if (is->epoch != was->epoch)
        judge_lease(book, run, was, is);
    else
        judge_same_epoch(book, run, was, is);
    judge_counts(book, run, was, is);
}

/* Notes which leases the ledger now names as owner and which it has released. A
 * lease that was released may not know this yet, because the response was lost
 * or the write arrived late; it may then write its release again. */
static void note_acquired(struct book *book, const struct sim_run *run)
{
    for (struct leaseholder *leaseholder = book->leaseholders; leaseholder;
         leaseholder = leaseholder->next) {
        if (strcmp(leaseholder->key, run->key) != 0)
            continue;
        if (slice_is(run->now.owner, leaseholder->owner))
            leaseholder->claimed = true;
        else if (run->now.owner.len == 0 &&
                 run->now.epoch == leaseholder->epoch)
            leaseholder->claimed = false;
    }
}

/* The front ends ask only for runs that the jobs accept. */
static void run_ended(struct book *book, const struct sim_run *run)
{
    const struct sim_kind *kind = book->sim->kind;

    if (run->now.state == LEDGER_POISONED)
        sim_complain(book->sim, "%s is poisoned: %.*s", run->key,
            SLICE_ARG(run->now.error));
    if (kind->run_ended)
        kind->run_ended(book->sim->state, run);
}

static void run_written(struct book *book, const struct entity *entity)
{
    struct sim_run *run = run_of(book, entity->partition_key, entity->row_key);
    bool known = run->now.etag.len > 0;
    struct ledger_run is;
    struct err err;

    ledger_run_init(&is);
    if (ledger_parse(entity, &is, &err) != TW_OK) {
        sim_complain(book->sim, "%s: unreadable: %s", run->key, err.text);
        return;
    }
    is.etag = ledger_text(&is, slice_of("known"));
    if (known)
        judge_change(book, run, &run->now, &is);
    ledger_run_done(&run->now);
    run->now = is;
    if (run->acquired_ms == 0 && is.epoch > 0)
        run->acquired_ms = virtual_ms();
    run->ended = ledger_state_ended(is.state);
    run->was_paused |= is.state == LEDGER_PAUSED;
    run->was_asked |= is.control.len > 0;
    note_acquired(book, run);
    read_what(run);
    virtual_note("%s: %s, epoch %d, phase %.*s, resumes %lld", run->key,
        ledger_state_name(is.state), (int)is.epoch, SLICE_ARG(is.phase),
        (long long)is.resumes_ticks);
    if (run->ended && !slice_is(is.job, BESIDE_JOB) &&
        !slice_is(is.job, LEDGER_UNREADABLE))
        run_ended(book, run);
}

/* Notes on which lists of the index the run is, after an index row was written
 * or deleted. A run must be on exactly one list. */
static void row_written(
    struct book *book, const struct entity *entity, bool there)
{
    struct slice id;
    unsigned list = slice_begins(entity->row_key, slice_of("!open!")) ? 1u : 2u;
    struct sim_run *run;

    if (!ledger_index_id(entity->row_key, &id))
        return;
    run = run_of(book, entity->partition_key, id);
    run->lists = there ? run->lists | list : run->lists & ~list;
}

void book_commit(struct book *book, const struct batch *batch, bool by_worker)
{
    for (size_t i = 0; i < batch->count; i++) {
        const struct operation *operation = &batch->operations[i];
        const struct entity *entity = &operation->entity;
        bool gone = operation->type == OPERATION_DELETE;

        if (slice_begins(entity->partition_key, slice_of("!")))
            continue; /* not a job's partition: intents, locks, steps of
                         upgrades */
        if (slice_begins(entity->row_key, slice_of("!")))
            row_written(book, entity, !gone);
        else if (gone)
            sim_complain(book->sim, "a run's entity is deleted");
        else
            run_written(book, entity);
    }
    for (struct sim_run *run = book->runs; run; run = run->next)
        if (run->now.etag.len > 0 && run->lists != (run->ended ? 2u : 1u))
            sim_complain(book->sim, "%s: %s, and on lists %u of the index",
                run->key, ledger_state_name(run->now.state), run->lists);
}

/* ---- messages ---- */

void book_queue_deleted(struct book *book, const char *queue)
{
    for (struct message_note *note = book->messages; note; note = note->next)
        if (!note->deleted && strcmp(note->queue, queue) == 0)
            note->deleted = note->lost = true;
}

void book_message(struct book *book, const char *queue, struct slice message_id,
    const char *run)
{
    struct message_note *note = mem_alloc(sizeof(*note));
    size_t len = strlen(run);

    (void)snprintf(note->id, sizeof(note->id), "%.*s", SLICE_ARG(message_id));
    (void)snprintf(note->key, sizeof(note->key), "%s%s", run,
        len > 0 && run[len - 1] == '/' ? note->id : "");
    note->queue = strcmp(queue, SIM_BOUND) == 0 ? SIM_BOUND : SIM_QUEUE;
    note->next = book->messages;
    book->messages = note;
    virtual_note("message %s for %s", note->id, note->key);
}

const struct sim_run *book_some_run(struct book *book)
{
    const struct sim_run *run, *found = NULL;
    unsigned seen = 0;

    for (run = book->runs; run; run = run->next)
        if (run->now.etag.len > 0 && sim_draw(++seen) == 0)
            found = run;
    return found;
}

bool book_any(struct book *book,
    bool (*test)(const void *ctx, const struct sim_run *run), const void *ctx)
{
    for (const struct sim_run *run = book->runs; run; run = run->next)
        if (test(ctx, run))
            return true;
    return false;
}

void book_put(struct book *book, const char *queue, struct slice text)
{
    if (strcmp(queue, SIM_QUEUE "-poison") != 0 &&
        strcmp(queue, SIM_BOUND "-poison") != 0)
        sim_complain(book->sim, "a worker puts into queue %s", queue);
    book->poisoned++;
}

static bool is_unreadable_and_told(struct book *book, const char *id)
{
    char key[QUEUE_ID_MAX + 64];
    const struct sim_run *run;

    (void)snprintf(key, sizeof(key), "%s/%s", LEDGER_UNREADABLE, id);
    run = book_find(book, slice_of(key));
    return run && run->ended && run->now.state == LEDGER_POISONED &&
           book->poisoned > 0;
}

void book_deleted(struct book *book, const char *queue, struct slice id)
{
    struct message_note *note = book->messages;
    const struct sim_run *run;

    while (note && !slice_is(id, note->id))
        note = note->next;
    if (!note) {
        sim_complain(
            book->sim, "queue %s: deleted a message nobody put there", queue);
        return;
    }
    note->deleted = true;
    if (!note->key[0]) {
        if (!is_unreadable_and_told(book, note->id))
            sim_complain(
                book->sim, "an unreadable message is deleted without a word");
        return;
    }
    run = book_find(book, slice_of(note->key));
    if (!run || !(run->ended || run->was_paused))
        sim_complain(book->sim, "%s: its message is deleted, and it is %s",
            note->key, run ? ledger_state_name(run->now.state) : "unknown");
}

/* ---- deadlines ---- */

static struct leaseholder *leaseholder_of(struct book *book,
    const void *process, const struct deadline *deadline, bool *ret_own)
{
    struct leaseholder *leaseholder = book->leaseholders;

    while (leaseholder && (leaseholder->process != process ||
                              (leaseholder->deadline != deadline &&
                                  leaseholder->own != deadline)))
        leaseholder = leaseholder->next;
    if (leaseholder)
        *ret_own = leaseholder->own == deadline;
    return leaseholder;
}

static const struct entity *staked(const struct store_request *request)
{
    const struct batch *batch = request->batch;

    if (request->call != CALL_BATCH || strcmp(request->name, LEDGER_TABLE) != 0)
        return NULL;
    for (size_t i = 0; i < batch->count; i++) {
        const struct entity *entity = &batch->operations[i].entity;

        if (batch->operations[i].type != OPERATION_DELETE &&
            entity_find(entity, slice_of("Owner")))
            return entity;
    }
    return NULL;
}

/* Notes the lease that has sent this write. The write names the owner of the
 * run, so it shows whose lease the deadline belongs to. Both deadlines of a
 * lease are members of the same struct lease. */
static void learn(struct book *book, const void *process,
    const struct deadline *deadline, const struct entity *entity)
{
    const char *lease = (const char *)deadline - offsetof(struct lease, own);
    struct ledger_run run;
    struct leaseholder *leaseholder;
    bool own;

    ledger_run_init(&run);
    if (ledger_parse(entity, &run, NULL) == TW_OK && run.owner.len > 0) {
        leaseholder = leaseholder_of(book, process, deadline, &own);
        if (!leaseholder) {
            leaseholder = mem_alloc(sizeof(*leaseholder));
            leaseholder->next = book->leaseholders;
            book->leaseholders = leaseholder;
        }
        if (!slice_is(run.owner, leaseholder->owner))
            leaseholder->claimed = false;
        leaseholder->process = process;
        leaseholder->own = deadline;
        leaseholder->deadline =
            (const struct deadline *)(lease + offsetof(struct lease, deadline));
        leaseholder->epoch = run.epoch;
        if (!leaseholder->unaware ||
            run.lease_until_ticks > leaseholder->lease_until_ticks)
            leaseholder->lease_until_ticks = run.lease_until_ticks;
        (void)snprintf(leaseholder->owner, sizeof(leaseholder->owner), "%.*s",
            SLICE_ARG(run.owner));
        (void)snprintf(leaseholder->key, sizeof(leaseholder->key), "%.*s/%.*s",
            ENTITY_KEYS(entity));
    }
    ledger_run_done(&run);
}

static bool is_paused_or_cancelled(const struct entity *entity)
{
    struct ledger_run run;
    bool is;

    ledger_run_init(&run);
    is = ledger_parse(entity, &run, NULL) == TW_OK &&
         (run.state == LEDGER_PAUSED || run.state == LEDGER_CANCELLED);
    ledger_run_done(&run);
    return is;
}

/* True if this leaseholder may have sent the write. False for a write by which
 * a worker carries out an operator's cancel or pause because the owner has
 * crashed. Such a write names no owner. Its lease may have its deadlines at the
 * addresses of a freed lease, so it looks like a write of this leaseholder. The
 * operator may have withdrawn the cancel or pause since. */
static bool is_of(struct book *book, const struct leaseholder *leaseholder,
    const struct entity *entity)
{
    const struct sim_run *run = book_find(book, slice_of(leaseholder->key));
    const struct property *control = entity_find(entity, slice_of("Control"));
    char key[sizeof(leaseholder->key)];

    (void)snprintf(key, sizeof(key), "%.*s/%.*s", ENTITY_KEYS(entity));
    if (strcmp(key, leaseholder->key) != 0)
        return false;
    return !run || control ||
           (run->now.control.len == 0 &&
               !(run->was_asked && is_paused_or_cancelled(entity)));
}

/* Returns why, by the ledger, this lease may no longer send requests; NULL: it
 * may. */
static const char *overtaken(
    struct book *book, const struct leaseholder *leaseholder)
{
    const struct sim_run *run = book_find(book, slice_of(leaseholder->key));

    if (!run || run->now.epoch < leaseholder->epoch)
        return "it was never claimed";
    if (run->now.epoch > leaseholder->epoch)
        return "another has claimed it";
    if (run->now.owner.len == 0)
        return "it was let go";
    if (!slice_is(run->now.owner, leaseholder->owner))
        return "another owns it";
    if (run->now.lease_until_ticks < sim_now_ticks())
        return "its lease is over";
    return NULL;
}

/* True if the work is done and only the poison copy is missing. */
static bool is_ending(struct book *book, const struct leaseholder *leaseholder)
{
    const struct sim_run *run = book_find(book, slice_of(leaseholder->key));

    return run && run->now.ending.len > 0;
}

/* Returns why this lease may not send its own writes (such as a renewal); NULL:
 * it may. It may send them until the stored LeaseUntil. */
static const char *overdue(
    struct book *book, const struct leaseholder *leaseholder)
{
    const struct sim_run *run = book_find(book, slice_of(leaseholder->key));

    if (!run || !leaseholder->claimed || run->ended)
        return NULL;
    if (run->now.epoch > leaseholder->epoch)
        return "another has claimed it";
    if (slice_is(run->now.owner, leaseholder->owner) &&
        run->now.lease_until_ticks < sim_now_ticks())
        return "its lease is over";
    return NULL;
}

bool book_holds(const struct book *book, const void *process)
{
    const struct leaseholder *leaseholder = book->leaseholders;

    while (leaseholder &&
           (leaseholder->process != process || !leaseholder->claimed))
        leaseholder = leaseholder->next;
    return leaseholder != NULL;
}

void book_paused(struct book *book, const void *process)
{
    for (struct leaseholder *leaseholder = book->leaseholders; leaseholder;
         leaseholder = leaseholder->next)
        if (leaseholder->process == process) {
            leaseholder->unaware = true;
            leaseholder->told_ms = 0;
        }
}

bool book_was_paused(const struct book *book, struct slice key)
{
    const struct leaseholder *leaseholder = book->leaseholders;

    while (leaseholder &&
           !(leaseholder->unaware && slice_is(key, leaseholder->key)))
        leaseholder = leaseholder->next;
    return leaseholder != NULL;
}

/* A response that tells the time takes effect when the thread of the request
 * runs. Maximum time until then. */
#define TO_SEE_MS 100

static bool cannot_know(const struct leaseholder *leaseholder)
{
    return leaseholder->unaware &&
           (leaseholder->told_ms == 0 ||
               platform_boot_ms() < leaseholder->told_ms + TO_SEE_MS);
}

void book_answered(struct book *book, const void *process,
    const struct deadline *deadline, int64_t date_ticks)
{
    struct leaseholder *leaseholder;
    bool own;

    if (!deadline || date_ticks == 0)
        return;
    leaseholder = leaseholder_of(book, process, deadline, &own);
    if (leaseholder && leaseholder->told_ms == 0 &&
        date_ticks > leaseholder->lease_until_ticks)
        leaseholder->told_ms = platform_boot_ms();
}

void book_sent(struct book *book, const void *process,
    const struct deadline *deadline, const struct store_request *request)
{
    const struct entity *stake = staked(request);
    const struct leaseholder *leaseholder;
    const char *why;
    bool own;

    if (!deadline)
        return;
    if (stake)
        learn(book, process, deadline, stake);
    leaseholder = leaseholder_of(book, process, deadline, &own);
    if (!leaseholder || (own && (!stake || !is_of(book, leaseholder, stake))))
        return;
    if (!own && is_ending(book, leaseholder))
        sim_complain(book->sim,
            "%s: a request (%s %s) starts although it only waits for its copy",
            leaseholder->key, call_name(request->call),
            request->name ? request->name : "");
    why = own ? overdue(book, leaseholder) : overtaken(book, leaseholder);
    if (!why || cannot_know(leaseholder))
        return;
    book->sim->result->zombie_sent++;
    sim_complain(book->sim,
        "%s, epoch %d: a request (%s %s) starts although %s", leaseholder->key,
        (int)leaseholder->epoch, call_name(request->call),
        request->name ? request->name : "", why);
}

void book_taken(struct book *book, const void *process,
    const struct deadline *deadline, const struct store_request *request)
{
    const struct leaseholder *leaseholder;
    bool own;

    if (!deadline || request->call != CALL_BATCH)
        return;
    leaseholder = leaseholder_of(book, process, deadline, &own);
    if (leaseholder && !own && overtaken(book, leaseholder))
        book->sim->result->zombie_taken++;
}

/* ---- the end ---- */

bool book_all_ended(struct book *book)
{
    for (const struct sim_run *run = book->runs; run; run = run->next)
        if (!run->ended)
            return false;
    for (const struct message_note *note = book->messages; note;
         note = note->next)
        if (!note->deleted)
            return false;
    return true;
}

bool book_has_lost(struct book *book)
{
    for (const struct message_note *note = book->messages; note;
         note = note->next)
        if (note->lost && note->key[0] && !book_find(book, slice_of(note->key)))
            return true;
    return false;
}

void book_end(struct book *book)
{
    for (const struct message_note *note = book->messages; note;
         note = note->next) {
        const struct sim_run *run = book_find(book, slice_of(note->key));

        if (note->key[0] && (run ? !run->ended : !note->lost))
            sim_complain(book->sim, "%s: never ended", note->key);
    }
}

void book_dump(struct book *book)
{
    for (const struct sim_run *run = book->runs; run; run = run->next)
        if (!run->ended)
            virtual_note("open: %s %s epoch %d silent %d phase %.*s error %.*s",
                run->key, ledger_state_name(run->now.state),
                (int)run->now.epoch, (int)run->now.silent,
                SLICE_ARG(run->now.phase), SLICE_ARG(run->now.error));
    for (const struct message_note *note = book->messages; note;
         note = note->next)
        if (!note->deleted)
            virtual_note("left: message %s for %s", note->id, note->key);
}
