/* SPDX-License-Identifier: MIT */
/* `run --dry-run`: makes the estimate and prints the result. */
#include "worker/cli/dry_run.h"

#include <inttypes.h>
#include <stdio.h>

#include "jobs/job.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/cli/progress.h"
#include "worker/cli/say.h"
#include "worker/cli/session.h"
#include "worker/run/ledger_change.h"
#include "worker/run/local_run.h"
#include "worker/run/locks.h"
#include "worker/store/store.h"

/* The service's published maximum rates of an account and of a partition, in
 * entities a second. */
#define ACCOUNT_PER_S 20000
#define PARTITION_PER_S 2000

#define FIRST_KEYS 5
#define LINE_MAX_BYTES 8192

/* ---- what is printed ---- */

static void print_line(struct buf *line)
{
    printf("%s\n", buf_text(line));
    buf_clear(line);
}

static void print_table(
    const struct job_estimate_table *table, struct buf *line)
{
    buf_add_format(
        line, "%s: %s", table->table, table->incomplete ? "at least " : "");
    print_number(line, table->entities, "entity", "entities");
    buf_add_text(line, ", ");
    print_number(line, table->batches, "batch", "batches");
    buf_add_text(line, ", ");
    print_number(line, table->pages, "page", "pages");
    if (table->table_scan)
        buf_add_text(line, " (table scan: the whole table is read)");
    print_line(line);
    for (size_t i = 0; i < FIRST_KEYS && table->first_keys[i]; i++) {
        buf_add_text(line, "  ");
        text_visible(line, slice_of(table->first_keys[i]));
        print_line(line);
    }
}

static void add_seconds(struct buf *to, int64_t entities, int64_t per_s)
{
    double seconds = (double)entities / (double)per_s;

    if (seconds < 120)
        buf_add_format(to, "%.1f s", seconds);
    else
        buf_add_format(to, "%" PRId64 " min", (int64_t)(seconds / 60));
}

static void print_sums(
    const struct job_estimate *estimate, double price_per_10k, struct buf *line)
{
    int64_t entities = estimate->read;

    for (size_t i = 0; i < estimate->table_count; i++)
        entities += estimate->tables[i].entities;
    buf_add_text(line, "transactions: ");
    print_count(line, estimate->transactions);
    buf_add_format(line, ", about $%.6f at $%g per 10,000",
        (double)estimate->transactions / 10000 * price_per_10k, price_per_10k);
    print_line(line);
    buf_add_text(line, "time: at least ");
    add_seconds(line, entities, ACCOUNT_PER_S);
    buf_add_text(line, " (20,000 entities/s per account); ");
    add_seconds(line, entities, PARTITION_PER_S);
    buf_add_text(line, " if all are in one partition (2,000/s)");
    print_line(line);
}

static void print_estimate(
    const struct job_estimate *estimate, double price_per_10k)
{
    struct buf line;

    buf_init(&line, LINE_MAX_BYTES);
    for (size_t i = 0; i < estimate->table_count; i++)
        print_table(&estimate->tables[i], &line);
    if (estimate->details)
        printf("%s\n", estimate->details);
    print_sums(estimate, price_per_10k, &line);
    if (estimate->note)
        printf("%s\n", estimate->note);
    if (estimate->refused)
        printf("the run would be refused: %s\n", estimate->refused);
    printf("dry run: nothing was written\n");
    buf_done(&line);
}

/* ---- the estimate ---- */

static void look(void *context, struct progress_state *ret)
{
    struct run *run = context;

    ret->done = atomic_load(&run->counts.read);
    ret->share = atomic_load(&run->share);
}

static int estimate(struct session *session, const struct job *job,
    struct run *run, struct job_estimate *ret)
{
    struct progress *progress =
        progress_start(run_log(run)->object, "counted", look, run);
    struct err err;
    enum tw_err outcome;

    session_read_only(session);
    outcome = job->kind->estimate(job, &session->load->stores, run, ret, &err);
    if (outcome != TW_OK)
        session_name_store(session, outcome, &err);
    progress_end(progress);
    if (atomic_load(&session->stopped))
        return session_stopped();
    return outcome == TW_OK ? EXIT_DONE : print_failed(outcome, &err);
}

/* ---- a job that `finish` has closed ---- */

struct checking {
    struct locks_request tables; /* the tables of the job, and the ledger's
                                    store */
    struct err err;              /* why the job accepts no run */
};

static enum tw_err check_open(void *context, struct exchange *exchange)
{
    struct checking *checking = context;
    struct locks_request tables = checking->tables;
    enum tw_err outcome = ledger_check_open(
        tables.store, exchange, slice_of(tables.job->name), &checking->err);

    if (outcome != TW_OK)
        return outcome;
    tables.deadline = exchange->deadline;
    outcome = locks_check_closed(&tables, &checking->err);
    if (outcome != TW_OK)
        exchange->err = checking->err;
    return outcome;
}

/* Would the run be refused because its job is closed? */
static int find_closed(struct session *session, const struct dry_run *what,
    struct job_estimate *ret)
{
    struct checking checking = {.tables = {.store = what->ledger,
                                    .job = what->job,
                                    .stores = &session->load->stores}};
    struct err err;
    enum tw_err outcome =
        session_call(session, what->ledger, check_open, &checking, true, &err);

    if (atomic_load(&session->stopped))
        return session_stopped();
    if (outcome == TW_CONFLICT)
        ret->refused = arena_copy(&ret->arena, slice_of(checking.err.text)).at;
    else if (outcome != TW_OK)
        say_note("the ledger cannot be read, so this dry run does not check "
                 "whether `finish` has closed job %s: %s",
            what->job->name, err.text);
    return EXIT_DONE;
}

int dry_run(struct session *session, const struct dry_run *what)
{
    struct job_estimate result = {.table_count = 0};
    char *object = mem_format("dry run %s", what->job->name);
    struct local_run local;
    int code;

    session_request_pool(session);
    session_local_run(session, what->job->name, object, &local);
    local.run.args = what->args;
    local.run.accept_deletes = what->accept_deletes;
    local.run.ledger = what->ledger;
    local.run.ledger_table = LEDGER_TABLE;
    arena_init(&result.arena);
    code = estimate(session, what->job, &local.run, &result);
    if (code == EXIT_DONE && what->ledger && !what->reopen)
        code = find_closed(session, what, &result);
    if (code == EXIT_DONE)
        print_estimate(&result, session->load->setup.price_per_10k);
    arena_done(&result.arena);
    mem_free(object);
    return code;
}
