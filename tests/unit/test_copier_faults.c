/* SPDX-License-Identifier: MIT */
/*
 * Copies and moves while requests fail, one at a time, each in turn, and while
 * somebody writes: whatever ends an attempt, the next ones bring it to the same
 * end. A hundred times as fast as it takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/support/fast_world.h"
#include "tests/support/faulty.h"
#include "tests/support/hosted.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/base/world.h"

#define FROM_TO                                                                \
    "  from: {table: Blogs}\n"                                                 \
    "  to: {table: Months, partition_key: \"{Month}\", "                       \
    "row_key: \"{RowKey}\"}\n"

static const char JOBS[] =
    "copies:\n"
    "  kind: migrate\n" FROM_TO "strips:\n"
    "  kind: migrate\n"
    "  strip: true\n" FROM_TO "moves:\n"
    "  kind: migrate\n"
    "  verify: true\n"
    "  mode: move\n" FROM_TO "moves-strips:\n"
    "  kind: migrate\n"
    "  strip: true\n"
    "  mode: move\n" FROM_TO "moves-twice:\n"
    "  kind: migrate\n"
    "  mode: move\n"
    "  from: {table: Blogs}\n"
    "  to:\n"
    "    - {table: Months, partition_key: \"{Month}\", row_key: \"{RowKey}\"}\n"
    "    - {table: Titles, partition_key: \"all\", row_key: \"{Title}\"}\n";

#define ATTEMPTS_MAX 40
#define ENTITIES 6

/* What the application has last written, and has been told. */
struct blog {
    bool is, was_removed;
    char month;
    unsigned version;
};

static struct trial {
    struct hosted h;
    struct faulty faulty;
    struct blog blogs[ENTITIES + 1];

    enum fault fault;
    unsigned at, seen; /* of the requests that the fault may meet */
    bool stops;        /* the first attempt, when it asks for the at-th time */
    bool dies;         /* what an attempt that failed has saved is lost */
    bool writes;       /* somebody does, beside it */

    struct world_mutex lock; /* guards the rest */
    unsigned batches;
} t;

static _Thread_local bool application;

/* ---- the application ---- */

static void row_key_of(unsigned n, char to[8])
{
    (void)snprintf(to, 8, "b%u", n);
}

static char *json_of(const struct blog *blog, unsigned n)
{
    return mem_format("\"Month\":\"m%c\",\"Title\":\"t%u-%u\"", blog->month, n,
        blog->version);
}

static void write_blog(unsigned n, char month, bool is_new)
{
    struct blog *blog = &t.blogs[n];
    char row_key[8];
    char *json;

    blog->is = true;
    blog->month = month;
    blog->version++;
    row_key_of(n, row_key);
    json = json_of(blog, n);
    if (is_new)
        hosted_put(&t.h, "Blogs", "p", row_key, json);
    else
        hosted_replace(&t.h, "Blogs", "p", row_key, json);
    mem_free(json);
}

/* What has been moved already is changed where it is now, by others. */
static bool is_at_source(unsigned n)
{
    char row_key[8];

    row_key_of(n, row_key);
    return hosted_has(&t.h, "Blogs", "p", row_key);
}

static void change(unsigned n, char month)
{
    if (is_at_source(n))
        write_blog(n, month, false);
}

static void take_away(unsigned n)
{
    char row_key[8];

    if (!is_at_source(n))
        return;
    row_key_of(n, row_key);
    hosted_remove(&t.h, "Blogs", "p", row_key);
    t.blogs[n].is = false;
    t.blogs[n].was_removed = true;
}

/* Before the n-th batch is applied. */
static void write_something(unsigned n)
{
    switch (n) {
    case 1:
        change(1, '1');
        change(2, '9');
        break;
    case 2:
        take_away(3);
        change(4, '8');
        write_blog(6, '2', true);
        break;
    case 3:
        change(5, '7');
        break;
    case 5:
        change(5, '6');
        change(1, '9');
        break;
    default:
        break;
    }
}

static void before_batch(void *ctx, const struct batch *batch)
{
    (void)ctx;
    (void)batch;
    if (application)
        return;
    world_lock(&t.lock);
    application = true;
    t.batches++;
    if (t.writes)
        write_something(t.batches);
    application = false;
    world_unlock(&t.lock);
}

static enum fault choose(void *ctx, enum store_call call, unsigned n)
{
    (void)ctx;
    (void)n;
    if (application || t.stops || !faulty_happens(t.fault, call))
        return FAULT_NONE;
    return t.seen++ == t.at ? t.fault : FAULT_NONE;
}

/* ---- a trial ---- */

static void begin(void)
{
    world_mutex_init(&t.lock);
    hosted_init(&t.h, JOBS);
    hosted_table(&t.h, "Blogs");
    memset(t.blogs, 0, sizeof(t.blogs));
    for (unsigned i = 1; i < ENTITIES; i++)
        write_blog(i, (char)('0' + i % 3), true);
    faulty_init(&t.faulty, t.h.store);
    t.h.store = &t.faulty.outer.store;
    t.h.store->traits.late_writes = t.fault == FAULT_LATE;
    t.faulty.late_ms = 20000;
    t.faulty.choose = choose;
    t.faulty.before = before_batch;
    t.seen = t.batches = 0;
}

static void finish(void)
{
    faulty_done(&t.faulty);
    hosted_done(&t.h);
    world_mutex_done(&t.lock);
}

static bool is_over(enum run_end end)
{
    return end == RUN_SUCCEEDED || end == RUN_FAILED;
}

static void sleep_until(int64_t ticks)
{
    struct world_mutex mutex;
    struct world_cond cond;

    world_mutex_init(&mutex);
    world_cond_init(&cond);
    world_lock(&mutex);
    while (world_wall_ticks() < ticks)
        (void)world_wait(&cond, &mutex, world_boot_ms() + 1000);
    world_unlock(&mutex);
    world_cond_done(&cond);
    world_mutex_done(&mutex);
}

static enum run_end attempt(const char *job)
{
    char *before =
        t.dies && t.h.checkpoint ? mem_format("%s", t.h.checkpoint) : NULL;
    enum run_end end = hosted_attempt(&t.h, job, NULL);

    t.h.took_over = false;
    if (end == RUN_WAITING)
        sleep_until(t.h.resumes_ticks);
    if (t.dies && end != RUN_WAITING && !is_over(end)) {
        mem_free(t.h.checkpoint);
        t.h.checkpoint = before;
        t.h.took_over = true;
        before = NULL;
    }
    mem_free(before);
    return end;
}

static void run(const char *job)
{
    enum run_end end;
    int tries = 0;

    t.h.took_over = false;
    t.h.stop_after = t.stops ? (int64_t)t.at : -1;
    do {
        end = attempt(job);
        t.seen += t.stops && end == RUN_STOPPED ? t.at + 1 : 0;
        t.h.stop_after = -1;
    } while (!is_over(end) && ++tries < ATTEMPTS_MAX);
    if (end != RUN_SUCCEEDED)
        fail_msg("%s, %s at %u: ended %d: %s %s", job, faulty_name(t.fault),
            t.at, (int)end, t.h.err.text, t.h.failed_why);
    faulty_land(&t.faulty, INT64_MAX);
    t.faulty.choose = NULL;
}

/* ---- the end state ---- */

static void differs(const char *job, unsigned n, const char *what)
{
    fail_msg("%s, %s at %u%s%s: blog %u %s; Blogs: %s; Months: %s", job,
        faulty_name(t.fault), t.at, t.dies ? ", dies" : "",
        t.writes ? ", writes" : "", n, what, hosted_dump(&t.h, "Blogs"),
        hosted_dump(&t.h, "Months"));
}

static unsigned copies_of(unsigned n)
{
    unsigned count = 0;

    for (char month = '0'; month <= '9'; month++) {
        char partition_key[3] = {'m', month, '\0'}, row_key[8];

        row_key_of(n, row_key);
        count += hosted_has(&t.h, "Months", partition_key, row_key);
    }
    return count;
}

static bool is_copied(unsigned n)
{
    char partition_key[3] = {'m', t.blogs[n].month, '\0'}, row_key[8];
    char *json = json_of(&t.blogs[n], n);
    const char *is;
    bool good;

    row_key_of(n, row_key);
    is = hosted_json(&t.h, "Months", partition_key, row_key);
    good = is && strncmp(is + 1, json, strlen(json)) == 0;
    mem_free(json);
    return good;
}

static void check(const char *job)
{
    bool moves = strncmp(job, "moves", 5) == 0;

    for (unsigned n = 1; n <= ENTITIES; n++) {
        const struct blog *blog = &t.blogs[n];

        if (moves && is_at_source(n))
            differs(job, n, "is still there");
        if (!blog->is && !blog->was_removed && copies_of(n) > 0)
            differs(job, n, "was never there");
        if (blog->is && !is_copied(n))
            differs(job, n, "is lost");
        if (blog->is && copies_of(n) != 1)
            differs(job, n, "is there twice");
        /* Who took it cannot be told once something has failed. */
        if (!blog->is && copies_of(n) > (moves && t.seen > t.at))
            differs(job, n, "is back");
    }
}

static void try_job(const char *job)
{
    begin();
    run(job);
    check(job);
    finish();
}

/* Every request in turn, until there are no more. */
static void sweep(const char *job, enum fault fault, bool dies, bool writes)
{
    t.fault = fault;
    t.dies = dies;
    t.writes = writes;
    for (t.at = 0;; t.at++) {
        try_job(job);
        if (t.seen <= t.at)
            break;
    }
    assert_true(t.at > 3);
}

static const char *const KINDS[] = {
    "copies", "strips", "moves", "moves-strips", "moves-twice"};

static void sweep_all(enum fault fault, bool dies)
{
    for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++) {
        sweep(KINDS[i], fault, dies, false);
        sweep(KINDS[i], fault, dies, true);
    }
}

static void what_ends_an_attempt_is_gone_on_from(void **state)
{
    (void)state;
    sweep_all(FAULT_REFUSED, false);
}

static void what_ends_an_attempt_without_a_word_is_too(void **state)
{
    (void)state;
    sweep_all(FAULT_REFUSED, true);
}

static void lost_answers_change_nothing(void **state)
{
    (void)state;
    sweep_all(FAULT_LOSE_ANSWER, false);
}

static void lost_requests_change_nothing(void **state)
{
    (void)state;
    sweep_all(FAULT_LOSE_REQUEST, false);
}

/* A move is built on that a request is sent once: the second answer to a delete
 * would tell that somebody else has taken the source. */
static void requests_that_come_twice_change_nothing(void **state)
{
    (void)state;
    sweep("copies", FAULT_TWICE, false, true);
    sweep("strips", FAULT_TWICE, false, true);
    sweep_all(FAULT_TWICE_UNSEEN, false);
}

static void requests_that_come_late_change_nothing(void **state)
{
    (void)state;
    sweep_all(FAULT_LATE, false);
}

static void a_run_may_stop_anywhere(void **state)
{
    (void)state;
    t.stops = true;
    sweep_all(FAULT_NONE, false);
    sweep_all(FAULT_NONE, true);
    t.stops = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ends_an_attempt_is_gone_on_from),
        cmocka_unit_test(what_ends_an_attempt_without_a_word_is_too),
        cmocka_unit_test(a_run_may_stop_anywhere),
        cmocka_unit_test(lost_answers_change_nothing),
        cmocka_unit_test(lost_requests_change_nothing),
        cmocka_unit_test(requests_that_come_twice_change_nothing),
        cmocka_unit_test(requests_that_come_late_change_nothing),
    };

    fast_world_use();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
