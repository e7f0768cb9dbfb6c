/* SPDX-License-Identifier: MIT */
/*
 * One lock guards the list of renewals and all that attempts hand over. A
 * thread takes the renewal that is due first, marks it busy, unlocks, sends,
 * and locks again. While the ledger part of a renewal is busy, only that thread
 * uses the ledger part of the lease. While its message part is busy, only the
 * message thread uses the message part of the lease. An attempt that waits
 * until its phase is stored makes the ledger write itself.
 *
 * One idle thread of each part is the watcher: it waits for the renewal that is
 * due first; all other idle threads wait without a time limit. So the start of
 * a run wakes a watcher only if the run's first renewal is due before the
 * watcher's wait ends.
 */
#include "worker/run/renewer.h"

#include <assert.h>

#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/run/report.h"
#include "worker/run/setup.h"
#include "worker/store/request_pool.h"

#define FAILED_ENTITIES_KEPT 10
/* Minimum interval of a run's ledger writes, and minimum wait after a failure.
 * A phase is written earlier, and so is a renewal after a pause of the machine
 * (lease_clock.h). */
#define RENEW_MIN_MS 50
/* Maximum interval of a run's ledger writes. Each write shows the owner whether
 * an operator has asked to cancel or pause the run, so that this takes effect
 * within 10 s. */
#define LEDGER_MAX_MS 5000
/* Used after an operator has asked to cancel or pause the run: the run's
 * refused requests are retried, and missing responses are awaited, for this
 * time at most. */
#define HURRY_MS 3000
/* Number of concurrent runs for each thread that writes the ledger. */
#define RUNS_PER_THREAD 4

/* What a thread renews: the lease in the ledger, or the message. */
enum part { PART_LEDGER, PART_MESSAGE, PARTS };

/* When a part of a renewal was sent, and may be sent again. */
struct schedule {
    int64_t sent_ms;  /* when the last request that succeeded was sent */
    int64_t retry_ms; /* after a failure: the part is not sent before this
                         time */
    bool busy;        /* a thread is sending a request of this part */
};

struct renewal {
    struct renewer *renewer;
    struct lease *lease;
    struct run *run; /* the run as the kind sees it; its counts are atomic */
    struct pool_client *pool_client;
    int64_t base_transactions; /* Transactions of earlier attempts */
    int32_t base_throttled;    /* throttled requests of earlier attempts */

    /* renewer->lock guards all fields below. */
    struct renewal *next;
    struct schedule parts[PARTS];
    struct platform_cond changed; /* wakes the attempt's thread */
    bool message_stops;           /* the renewer no longer renews the message */
    bool stops;                   /* the renewer no longer writes the ledger */
    bool ledger_now;   /* the last ledger write failed: repeat it at retry_ms */
    int64_t answer_ms; /* longest recent duration of a ledger write */

    enum lease_status status;
    bool progress; /* the attempt has made progress */
    bool fresh;    /* the checkpoint here is newer than the one in lease->run */
    bool fresh_progress; /* progress since the last ledger write */
    bool accepts; /* accept_deletes of `run` when the newest checkpoint was
                     handed over */
    char *checkpoint;
    size_t checkpoint_len;
    char *phase;        /* the phase to store; NULL: none */
    bool phase_taken;   /* phase was copied to lease->run */
    bool phase_stored;  /* phase is stored in the ledger */
    struct err refusal; /* why the last write of the phase failed */
    char *failed[FAILED_ENTITIES_KEPT];
    size_t failed_count; /* number of lines in `failed`, for the next write */
    size_t failed_total; /* number of all lines of the run, including those in
                            the ledger */
    int failed_logged;   /* failed_logged of struct ledger_run, with the lines
                            logged since the last write */
    bool forget_failed;  /* the next write removes the failed entities' lines
                            from the ledger */
    struct buf notes;    /* sentences for the next write, each with a NUL */
    enum lease_asked asked;
    bool logs_progress;
    struct report report; /* used only if logs_progress is set */
};

struct renewer_thread {
    struct renewer *renewer;
    enum part part;
    struct platform_thread thread;
    struct platform_cond wake;
    bool idle; /* guarded by renewer->lock */
};

struct renewer {
    struct renewer_thread *threads; /* room for SETUP_SLOTS_MAX runs */

    struct platform_mutex lock; /* guards all fields below, and each renewal */
    size_t thread_count;
    struct {
        struct renewer_thread *thread; /* the watcher; NULL: no thread is
                                          idle */
        int64_t until_ms;              /* when the wait of `thread` ends */
    } watchers[PARTS];
    struct renewal *first;
    size_t started; /* number of threads that exist */
    bool ending;
};

/* ---- schedule ---- */

/*
 * Returns the interval between two ledger writes: a third of the visibility
 * timeout, at most LEDGER_MAX_MS. The interval is shorter if writes are slow,
 * because even if the next write fails and only its second try succeeds, the
 * deadline must leave time for a request of the run.
 */
static int64_t interval_ms(const struct renewal *renewal)
{
    const struct lease *lease = renewal->lease;
    int64_t interval = lease->visibility_timeout_ms / 3;
    int64_t room = lease->visibility_timeout_ms - lease->deadline.request_ms -
                   3 * renewal->answer_ms;

    if (interval > LEDGER_MAX_MS)
        interval = LEDGER_MAX_MS;
    if (interval > room)
        interval = room;
    return interval > RENEW_MIN_MS ? interval : RENEW_MIN_MS;
}

static int64_t retry_ms(const struct renewal *renewal)
{
    int64_t most = renewal->lease->visibility_timeout_ms / 16;

    if (most > 1000)
        most = 1000;
    return platform_boot_ms() + RENEW_MIN_MS +
           (int64_t)platform_random_below((uint64_t)most);
}

static void note_answer(struct renewal *renewal, int64_t took_ms)
{
    int64_t faded = renewal->answer_ms - renewal->answer_ms / 8;

    renewal->answer_ms = took_ms > faded ? took_ms : faded;
}

static int64_t later_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t message_due_ms(const struct renewal *renewal)
{
    const struct schedule *message = &renewal->parts[PART_MESSAGE];

    if (renewal->message_stops || !renewal->lease->has_message)
        return PLATFORM_NEVER;
    return later_of(
        message->sent_ms + renewal->lease->visibility_timeout_ms / 3,
        message->retry_ms);
}

static int64_t ledger_due_ms(const struct renewal *renewal)
{
    const struct schedule *ledger = &renewal->parts[PART_LEDGER];

    if (renewal->stops)
        return PLATFORM_NEVER;
    if (renewal->ledger_now || (renewal->phase && !renewal->phase_taken) ||
        lease_clock_in_doubt(&renewal->lease->clock))
        return ledger->retry_ms;
    return later_of(ledger->sent_ms + interval_ms(renewal), ledger->retry_ms);
}

/* Returns when the part is due. PLATFORM_NEVER: a thread is sending the part
 * now, the lease is lost, or the part is not renewed any more. */
static int64_t due_ms(const struct renewal *renewal, enum part part)
{
    if (renewal->parts[part].busy || renewal->status != LEASE_VALID)
        return PLATFORM_NEVER;
    return part == PART_LEDGER ? ledger_due_ms(renewal)
                               : message_due_ms(renewal);
}

/* ---- what the attempt handed over ---- */

/* Call with the lock held. Moves the lines about failed entities to
 * lease->run. */
static void take_failed(struct renewal *renewal)
{
    struct ledger_run *run = &renewal->lease->run;
    struct buf list;

    run->failed_logged = renewal->failed_logged;
    if (renewal->forget_failed)
        run->failed_entities = slice_of("");
    renewal->forget_failed = false;
    if (renewal->failed_count == 0)
        return;
    buf_init(&list, LEDGER_MAX_ERROR_BYTES);
    buf_add_slice(&list, run->failed_entities);
    for (size_t i = 0; i < renewal->failed_count; i++) {
        if (list.len > 0)
            buf_add_char(&list, '\n');
        buf_add_text(&list, renewal->failed[i]);
        mem_free(renewal->failed[i]);
    }
    renewal->failed_count = 0;
    run->failed_entities = ledger_text(run, buf_slice(&list));
    buf_done(&list);
}

/* Call with the lock held. Moves the notes to lease->run. */
static void take_notes(struct renewal *renewal)
{
    struct ledger_run *run = &renewal->lease->run;

    for (size_t at = 0; at < renewal->notes.len;) {
        struct slice sentence = slice_of(renewal->notes.at + at);

        ledger_add_note(run, sentence);
        at += sentence.len + 1;
    }
    buf_clear(&renewal->notes);
}

/* Copy to lease->run the progress that only some kinds report. */
static void take_progress(struct renewal *renewal)
{
    struct ledger_run *to = &renewal->lease->run;
    int64_t caught_up = atomic_load(&renewal->run->caught_up_ticks);
    int share = atomic_load(&renewal->run->share);

    to->behind = atomic_load(&renewal->run->behind);
    if (caught_up != 0)
        to->caught_up_ticks = caught_up;
    to->parent_found = atomic_load(&renewal->run->parent_found);
    if (share >= 0)
        to->share = share < 1000 ? share / 1000.0 : 1;
}

/* Call with the lock held. If the round for which deletes were accepted is
 * complete, let the next write remove the acceptance. The same write stores the
 * checkpoint of the next round, so that a round that is made again still
 * accepts deletes, and the next round does not. A newer acceptance, of which
 * the kind does not know yet, is kept. */
static void take_acceptance(struct renewal *renewal)
{
    struct lease *lease = renewal->lease;

    if (!lease->newly_accepted)
        lease->run.accept_deletes = renewal->accepts;
}

static void take_counts(struct renewal *renewal)
{
    struct ledger_run *to = &renewal->lease->run;
    struct run_counts *counts = &renewal->run->counts;
    int64_t throttled =
        renewal->base_throttled + request_pool_throttled(renewal->pool_client);

    to->read = atomic_load(&counts->read);
    to->written = atomic_load(&counts->written);
    to->deleted = atomic_load(&counts->deleted);
    to->skipped = atomic_load(&counts->skipped);
    to->failed = atomic_load(&counts->failed);
    to->rounds = atomic_load(&renewal->run->rounds);
    to->transactions = renewal->base_transactions + renewal->lease->requests +
                       request_pool_requests(renewal->pool_client);
    to->throttled = throttled < INT32_MAX ? (int32_t)throttled : INT32_MAX;
}

/* Call with the lock held. Copies to lease->run all that the attempt has handed
 * over. */
static void take_handed(struct renewal *renewal)
{
    struct ledger_run *run = &renewal->lease->run;

    if (renewal->fresh)
        run->checkpoint = ledger_text(
            run, (struct slice){renewal->checkpoint, renewal->checkpoint_len});
    renewal->fresh = false;
    if (renewal->fresh_progress)
        run->failures = run->silent = 0;
    renewal->fresh_progress = false;
    if (renewal->phase && !renewal->phase_taken) {
        run->phase = ledger_text(run, slice_of(renewal->phase));
        renewal->phase_taken = true;
    }
    take_failed(renewal);
    take_notes(renewal);
    take_counts(renewal);
    take_progress(renewal);
    take_acceptance(renewal);
}

/* ---- renewing ---- */

/* Call with the lock held. Sets the status, wakes the attempt, and closes the
 * deadline if the lease is lost. */
static void set_status(struct renewal *renewal, enum lease_status status)
{
    renewal->status = status;
    platform_wake_all(&renewal->changed);
    if (status == LEASE_LOST)
        deadline_close(&renewal->lease->deadline);
}

/* Call with the lock held, which is released while the request is in flight.
 * Renews the message. */
static void renew_message(struct renewal *renewal)
{
    struct schedule *message = &renewal->parts[PART_MESSAGE];
    struct platform_mutex *lock = &renewal->renewer->lock;
    int64_t at_ms = platform_boot_ms();
    enum tw_err outcome;
    struct err err;

    platform_unlock(lock);
    outcome = lease_renew_message(renewal->lease, &err);
    if (outcome != TW_OK)
        log_run_debug(run_log(renewal->run), "%s: %s",
            outcome == TW_CONFLICT
                ? "another worker has received the run's message"
                : "the visibility timeout of the run's message could not be "
                  "renewed",
            err.text);
    platform_lock(lock);
    if (outcome == TW_OK)
        message->sent_ms = at_ms;
    else
        message->retry_ms = retry_ms(renewal);
}

/* Call with the lock held, after each ledger write. If the write contained the
 * phase, note whether it is stored, and wake the waiting attempt. */
static void answer_phase(
    struct renewal *renewal, bool stored, const struct err *err)
{
    if (!renewal->phase || !renewal->phase_taken)
        return;
    renewal->phase_stored = stored;
    if (!stored)
        renewal->refusal = *err;
    platform_wake_all(&renewal->changed);
}

/* Call with the lock held. Obey what an operator has asked of this run since
 * the last ledger write. True: the run must stop, and the caller logs this. */
static bool take_asked(struct renewal *renewal)
{
    const struct lease *lease = renewal->lease;
    bool news = renewal->asked != lease->asked;

    if (slice_is(lease->run.finish, LEDGER_FINISH))
        atomic_store(&renewal->run->finish, RUN_FINISHING);
    if (slice_is(lease->run.finish, LEDGER_FINISH_NOW))
        atomic_store(&renewal->run->finish, RUN_FINISHING_NOW);
    if (renewal->lease->newly_accepted) {
        atomic_store(&renewal->run->accept_deletes, true);
        renewal->accepts = true;
    }
    renewal->lease->newly_accepted = false;
    renewal->asked = lease->asked;
    if (news && !renewal->run->ends_load)
        request_pool_hurry(renewal->pool_client,
            lease->asked != LEASE_ASKED_NOTHING ? HURRY_MS : PLATFORM_NEVER);
    return news && lease->asked != LEASE_ASKED_NOTHING;
}

/* Call with the lock held. Note the result of a ledger write. True: the run
 * must stop, and the caller logs this. */
static bool take_answer(struct renewal *renewal, enum lease_status status,
    int64_t sent_ms, const struct err *err)
{
    struct schedule *ledger = &renewal->parts[PART_LEDGER];

    note_answer(renewal, platform_boot_ms() - sent_ms);
    answer_phase(renewal, status == LEASE_VALID, err);
    if (status == LEASE_VALID) {
        ledger->sent_ms = sent_ms;
        renewal->ledger_now = false;
        if (lease_clock_in_doubt(&renewal->lease->clock))
            ledger->retry_ms = retry_ms(renewal);
        return take_asked(renewal);
    }
    if (status == LEASE_LOST) {
        set_status(renewal, status);
        return false;
    }
    renewal->ledger_now = true;
    ledger->retry_ms = retry_ms(renewal);
    return false;
}

/* Logs the result of a ledger write. Call without the lock, so that a log that
 * blocks delays neither leases nor the end of the process. The renewal's ledger
 * part is busy. */
static void log_answer(struct renewal *renewal, enum lease_status status,
    bool asked, const struct err *err)
{
    if (status != LEASE_VALID)
        log_run_debug(run_log(renewal->run),
            "the ledger could not be written: %s", err->text);
    if (asked)
        log_run_info(run_log(renewal->run),
            "stops, because an operator has asked to %s the run",
            renewal->lease->asked == LEASE_ASKED_CANCEL ? "cancel" : "pause");
    if (status == LEASE_VALID && renewal->logs_progress)
        report_progress(&renewal->report, run_log(renewal->run),
            &renewal->lease->run, platform_boot_ms());
}

/* Call with the lock held, which is released while requests are in flight.
 * Writes the ledger. */
static void renew_ledger(struct renewal *renewal)
{
    struct platform_mutex *lock = &renewal->renewer->lock;
    int64_t sent_ms = platform_boot_ms();
    struct err err = {""};
    enum lease_status status;
    bool asked;

    if (sent_ms >= renewal->lease->deadline_ms ||
        lease_clock_is_over(&renewal->lease->clock)) {
        set_status(renewal, LEASE_LOST);
        return;
    }
    take_handed(renewal);
    platform_unlock(lock);
    status = lease_write_run(renewal->lease, NULL, &err);
    platform_lock(lock);
    asked = take_answer(renewal, status, sent_ms, &err);
    platform_unlock(lock);
    log_answer(renewal, status, asked, &err);
    platform_lock(lock);
}

/* ---- the threads ---- */

/* Call with the lock held. Find the renewal whose part is due first;
 * *ret_due_ms: when the part is due. NULL: no part will be due. */
static struct renewal *next_renewal(
    struct renewer *renewer, enum part part, int64_t *ret_due_ms)
{
    struct renewal *next = NULL;

    *ret_due_ms = PLATFORM_NEVER;
    for (struct renewal *at = renewer->first; at; at = at->next) {
        int64_t due = due_ms(at, part);

        if (due < *ret_due_ms) {
            *ret_due_ms = due;
            next = at;
        }
    }
    return next;
}

/* Call with the lock held. Wake each part's watcher if the part is due before
 * the watcher's wait ends. */
static void wake_watchers(const struct renewal *renewal)
{
    struct renewer *renewer = renewal->renewer;

    for (enum part part = 0; part < PARTS; part++) {
        struct renewer_thread *watcher = renewer->watchers[part].thread;

        if (watcher && due_ms(renewal, part) < renewer->watchers[part].until_ms)
            platform_wake_all(&watcher->wake);
    }
}

/* Call with the lock held. Renews one part. */
static void renew(struct renewal *renewal, enum part part)
{
    renewal->parts[part].busy = true;
    if (part == PART_LEDGER)
        renew_ledger(renewal);
    else
        renew_message(renewal);
    renewal->parts[part].busy = false;
    platform_wake_all(&renewal->changed);
    /* A thread that became the watcher meanwhile did not see this renewal,
     * because the renewal was busy. */
    wake_watchers(renewal);
}

/* Call with the lock held. If there is no watcher, self becomes the watcher and
 * waits until at_ms; otherwise self waits until another thread wakes it. */
static void wait_idle(struct renewer_thread *self, int64_t at_ms)
{
    struct renewer *renewer = self->renewer;
    bool watches = renewer->watchers[self->part].thread == NULL;

    if (watches) {
        renewer->watchers[self->part].thread = self;
        renewer->watchers[self->part].until_ms = at_ms;
    }
    self->idle = true;
    (void)platform_wait(
        &self->wake, &renewer->lock, watches ? at_ms : PLATFORM_NEVER);
    self->idle = false;
    if (watches)
        renewer->watchers[self->part].thread = NULL;
}

/* Call with the lock held, before self sends. Wakes another idle thread of the
 * part to become the watcher. */
static void leave_watch(const struct renewer_thread *self)
{
    struct renewer *renewer = self->renewer;

    for (size_t i = 0; i < renewer->thread_count; i++) {
        struct renewer_thread *thread = &renewer->threads[i];

        if (thread->idle && thread->part == self->part &&
            renewer->watchers[self->part].thread == NULL) {
            platform_wake_all(&thread->wake);
            return;
        }
    }
}

static void serve(void *arg)
{
    struct renewer_thread *self = arg;
    struct renewer *renewer = self->renewer;
    struct renewal *renewal;
    int64_t at_ms;

    platform_lock(&renewer->lock);
    while (!renewer->ending) {
        renewal = next_renewal(renewer, self->part, &at_ms);
        if (renewal && at_ms <= platform_boot_ms()) {
            leave_watch(self);
            renew(renewal, self->part);
        } else {
            wait_idle(self, at_ms);
        }
    }
    platform_unlock(&renewer->lock);
}

/* Call with the lock held. Starts the threads that are missing. */
static void start_threads(struct renewer *renewer)
{
    for (; renewer->started < renewer->thread_count; renewer->started++) {
        struct renewer_thread *thread = &renewer->threads[renewer->started];

        thread->renewer = renewer;
        thread->part = renewer->started == 0 ? PART_MESSAGE : PART_LEDGER;
        platform_start(&thread->thread, "renewer", serve, thread);
    }
}

static size_t threads_for(size_t runs)
{
    assert(runs <= SETUP_SLOTS_MAX);
    return 1 + (runs + RUNS_PER_THREAD - 1) / RUNS_PER_THREAD;
}

struct renewer *renewer_new(size_t runs)
{
    struct renewer *renewer = mem_alloc(sizeof(*renewer));

    renewer->threads =
        mem_array(threads_for(SETUP_SLOTS_MAX), sizeof(*renewer->threads));
    platform_mutex_init(&renewer->lock);
    renewer_set_runs(renewer, runs);
    return renewer;
}

void renewer_set_runs(struct renewer *renewer, size_t runs)
{
    platform_lock(&renewer->lock);
    while (renewer->thread_count < threads_for(runs))
        platform_cond_init(&renewer->threads[renewer->thread_count++].wake);
    if (renewer->started > 0)
        start_threads(renewer);
    platform_unlock(&renewer->lock);
}

void renewer_free(struct renewer *renewer)
{
    if (renewer == NULL)
        return;
    assert(renewer->first == NULL);
    platform_lock(&renewer->lock);
    renewer->ending = true;
    for (size_t i = 0; i < renewer->thread_count; i++)
        platform_wake_all(&renewer->threads[i].wake);
    platform_unlock(&renewer->lock);
    for (size_t i = 0; i < renewer->started; i++)
        platform_join(&renewer->threads[i].thread);
    for (size_t i = 0; i < renewer->thread_count; i++)
        platform_cond_done(&renewer->threads[i].wake);
    platform_mutex_done(&renewer->lock);
    mem_free(renewer->threads);
    mem_free(renewer);
}

/* ---- one renewal ---- */

static size_t count_lines(struct slice text)
{
    size_t lines = text.len > 0;

    for (size_t i = 0; i < text.len; i++)
        lines += text.at[i] == '\n';
    return lines;
}

struct renewal *renewal_start(struct renewer *renewer, struct lease *lease,
    struct run *run, struct pool_client *pool_client)
{
    struct renewal *renewal = mem_alloc(sizeof(*renewal));

    renewal->renewer = renewer;
    renewal->lease = lease;
    renewal->run = run;
    renewal->pool_client = pool_client;
    renewal->base_transactions = lease->run.transactions;
    renewal->base_throttled = lease->run.throttled;
    renewal->status = LEASE_VALID;
    renewal->failed_total = count_lines(lease->run.failed_entities);
    renewal->failed_logged = lease->run.failed_logged;
    renewal->asked = lease->asked;
    renewal->accepts = lease->run.accept_deletes;
    renewal->parts[PART_LEDGER].sent_ms =
        lease->deadline_ms - lease->visibility_timeout_ms;
    renewal->parts[PART_MESSAGE].sent_ms = lease->message_sent_ms;
    buf_init(&renewal->notes, LEDGER_MAX_NOTE_BYTES);
    platform_cond_init(&renewal->changed);
    platform_lock(&renewer->lock);
    renewal->next = renewer->first;
    renewer->first = renewal;
    start_threads(renewer);
    wake_watchers(renewal);
    platform_unlock(&renewer->lock);
    return renewal;
}

void renewal_log_progress(struct renewal *renewal)
{
    platform_lock(&renewal->renewer->lock);
    report_begin(&renewal->report, &renewal->lease->run, platform_boot_ms());
    renewal->logs_progress = true;
    platform_unlock(&renewal->renewer->lock);
}

void renewal_save(
    struct renewal *renewal, struct slice checkpoint, bool progress)
{
    char *copy = mem_text(checkpoint.at, checkpoint.len);

    platform_lock(&renewal->renewer->lock);
    mem_free(renewal->checkpoint);
    renewal->checkpoint = copy;
    renewal->checkpoint_len = checkpoint.len;
    renewal->fresh = true;
    renewal->accepts = atomic_load(&renewal->run->accept_deletes);
    if (progress)
        renewal->progress = renewal->fresh_progress = true;
    platform_unlock(&renewal->renewer->lock);
}

enum tw_err renewal_phase(struct renewal *renewal, const char *phase,
    struct slice checkpoint, struct err *err)
{
    enum tw_err outcome = TW_OK;

    renewal_save(renewal, checkpoint, false);
    platform_lock(&renewal->renewer->lock);
    renewal->phase = mem_text(phase, strlen(phase));
    renewal->phase_taken = renewal->phase_stored = false;
    renewal->refusal.text[0] = '\0';
    while (!renewal->phase_stored && renewal->status == LEASE_VALID) {
        int64_t at_ms = due_ms(renewal, PART_LEDGER);

        if (at_ms <= platform_boot_ms())
            renew(renewal, PART_LEDGER);
        else
            (void)platform_wait(
                &renewal->changed, &renewal->renewer->lock, at_ms);
    }
    if (!renewal->phase_stored)
        outcome = err_fail(err, TW_STOPPED,
            "the phase '%s' could not be written to the ledger%s%s", phase,
            renewal->refusal.text[0] ? ": " : "", renewal->refusal.text);
    mem_free(renewal->phase);
    renewal->phase = NULL;
    platform_unlock(&renewal->renewer->lock);
    return outcome;
}

int renewal_failed(struct renewal *renewal, const char *line)
{
    int logged;

    platform_lock(&renewal->renewer->lock);
    logged = renewal->failed_logged;
    if (logged <= LEDGER_FAILED_LOGGED_MAX)
        renewal->failed_logged++;
    if (renewal->failed_total < FAILED_ENTITIES_KEPT) {
        renewal->failed[renewal->failed_count++] = mem_text(line, strlen(line));
        renewal->failed_total++;
    }
    platform_unlock(&renewal->renewer->lock);
    return logged;
}

void renewal_note(struct renewal *renewal, const char *sentence)
{
    struct slice text = text_cut(slice_of(sentence), LEDGER_MAX_NOTE_BYTES / 4);

    platform_lock(&renewal->renewer->lock);
    if (renewal->notes.len + text.len + 1 <= LEDGER_MAX_NOTE_BYTES) {
        buf_add_slice(&renewal->notes, text);
        buf_add_char(&renewal->notes, '\0');
    }
    platform_unlock(&renewal->renewer->lock);
}

enum lease_asked renewal_asked(struct renewal *renewal)
{
    enum lease_asked asked;

    platform_lock(&renewal->renewer->lock);
    asked = renewal->asked;
    platform_unlock(&renewal->renewer->lock);
    return asked;
}

void renewal_forget_failed(struct renewal *renewal)
{
    platform_lock(&renewal->renewer->lock);
    while (renewal->failed_count > 0)
        mem_free(renewal->failed[--renewal->failed_count]);
    renewal->failed_total = 0;
    renewal->forget_failed = true;
    platform_unlock(&renewal->renewer->lock);
}

enum lease_status renewal_status(struct renewal *renewal)
{
    enum lease_status status;

    platform_lock(&renewal->renewer->lock);
    status = renewal->status;
    platform_unlock(&renewal->renewer->lock);
    return status;
}

/* Call with the lock held. Removes the renewal from the list. */
static void remove_renewal(struct renewal *renewal)
{
    struct renewal **at = &renewal->renewer->first;

    while (*at != renewal)
        at = &(*at)->next;
    *at = renewal->next;
}

enum lease_status renewal_stop(struct renewal *renewal, bool *ret_progress)
{
    struct platform_mutex *lock = &renewal->renewer->lock;
    enum lease_status status;

    platform_lock(lock);
    /* While this function waits for the request of the message in flight, the
     * lease is still renewed. */
    renewal->message_stops = true;
    while (renewal->parts[PART_MESSAGE].busy)
        (void)platform_wait(&renewal->changed, lock, PLATFORM_NEVER);
    renewal->stops = true;
    while (renewal->parts[PART_LEDGER].busy)
        (void)platform_wait(&renewal->changed, lock, PLATFORM_NEVER);
    remove_renewal(renewal);
    take_handed(renewal);
    status = renewal->status;
    *ret_progress = renewal->progress;
    platform_unlock(lock);
    platform_cond_done(&renewal->changed);
    mem_free(renewal->checkpoint);
    buf_done(&renewal->notes);
    mem_free(renewal);
    return status;
}
