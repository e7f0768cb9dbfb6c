/* SPDX-License-Identifier: MIT */
/* Open runs that no worker of a configuration can take. */
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include "worker/base/text.h"
#include "worker/run/unserved.h"

#define JOB "delete-channel"
#define NOW (TICKS_1970 + 100000 * TICKS_PER_S)

struct unserved_case {
    const char *name, *job, *kind, *queue;
    enum ledger_state state;
    int64_t lease_s;    /* LeaseUntil, seconds after NOW; 0: no owner */
    int64_t ago_s;      /* UpdatedAt, seconds before NOW */
    const char *reason; /* a part of the reason; NULL: a worker can take it */
};

static const struct unserved_case cases[] = {
    {"served", JOB, "", BENCH_QUEUE, LEDGER_QUEUED, 0, 0, NULL},
    {"waits in a served queue", JOB, "scripted", BENCH_BOUND, LEDGER_WAITING, 0,
        0, NULL},
    {"begun by run, its job is served", JOB, "", "", LEDGER_RUNNING, -1, 1000,
        NULL},
    {"its queue was renamed", JOB, "", "old", LEDGER_QUEUED, 0, 0,
        "queue old is not in `queues`: restore it, or move the run to queue "
        "" BENCH_BOUND " with `tableward resume r1`"},
    {"waits in a renamed queue", JOB, "", "old", LEDGER_WAITING, 0, 0,
        "queue old is not"},
    {"its worker has died", JOB, "", "old", LEDGER_RUNNING, -1, 0,
        "queue old is not"},
    {"a worker of the former configuration has it", JOB, "", "old",
        LEDGER_RUNNING, 1, 0, NULL},
    {"a person has paused it", JOB, "", "old", LEDGER_PAUSED, 0, 1000, NULL},
    {"it has ended", JOB, "", "old", LEDGER_SUCCEEDED, 0, 1000, NULL},
    {"its queue is bound to another job", "other", "", BENCH_BOUND,
        LEDGER_QUEUED, 0, 0,
        "queue " BENCH_BOUND " is bound to another job now"},
    {"its job was removed", "gone", "", BENCH_QUEUE, LEDGER_QUEUED, 0, 0,
        "job gone is not in the configuration"},
    {"its job has another kind", JOB, "copy", BENCH_QUEUE, LEDGER_QUEUED, 0, 0,
        "is a scripted now, and was a copy"},
    {"run may still wait with it", "gone", "", "", LEDGER_WAITING, 0, 100,
        NULL},
    {"run was killed", "gone", "", "", LEDGER_RUNNING, -1000, 1000,
        "job gone is not in the configuration"},
    {"an import", "~import", "", "", LEDGER_RUNNING, -1000, 1000, NULL},
};

static void set_run(struct ledger_run *run, const struct unserved_case *c)
{
    run->job = slice_of(c->job);
    run->id = slice_of("r1");
    run->kind = slice_of(c->kind);
    run->queue = slice_of(c->queue);
    run->state = c->state;
    run->updated_ticks = NOW - c->ago_s * TICKS_PER_S;
    if (c->lease_s == 0)
        return;
    run->owner = slice_of("somebody");
    run->lease_until_ticks = NOW + c->lease_s * TICKS_PER_S;
}

BENCH_TEST(a_run_without_job_or_queue_is_found)
{
    struct job list[2] = {bench->job, bench->job};
    struct jobs jobs = {.list = list, .count = 2};
    struct ledger_run run;
    struct buf reason;

    list[1].name = "other";
    bench->queues[1].job = &list[0];
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        ledger_run_init(&run);
        set_run(&run, &cases[i]);
        assert_int_equal(unserved_is(&jobs, &bench->setup, &run, NOW),
            cases[i].reason != NULL);
        if (cases[i].reason) {
            buf_init(&reason, 4096);
            unserved_add_reason(&jobs, &bench->setup, &run, &reason);
            assert_non_null(strstr(buf_text(&reason), cases[i].reason));
            buf_done(&reason);
        }
        ledger_run_done(&run);
    }
}

/* No queue serves the job, so only the command `run` executes it. */
BENCH_TEST(a_job_without_a_queue_is_named)
{
    struct ledger_run run;
    struct buf reason;

    ledger_run_init(&run);
    set_run(&run, &cases[0]);
    bench->setup.queue_count = 0;
    assert_true(unserved_is(&bench->jobs, &bench->setup, &run, NOW));
    buf_init(&reason, 4096);
    unserved_add_reason(&bench->jobs, &bench->setup, &run, &reason);
    assert_string_equal(buf_text(&reason),
        "no queue in `queues` serves job " JOB
        ": add one, or execute the run with `tableward run`");
    buf_done(&reason);
    ledger_run_done(&run);
}
