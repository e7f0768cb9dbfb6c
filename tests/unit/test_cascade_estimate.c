/* SPDX-License-Identifier: MIT */
/* Goal: the requests that a dry run of a cascade estimates are those that the
 * run then makes. */
#include "tests/support/hosted.h"
#include "tests/support/test.h"

#include "tests/support/bent_platform.h"
#include "tests/support/cascade_job.h"
#include "tests/support/interpose.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

static struct bend *bend;

static struct interposed counted; /* counts the requests to the host's store */
static _Atomic int64_t requests;

static enum tw_err count_request(struct interposed *self,
    struct exchange *exchange, const struct store_request *request)
{
    requests++;
    return request_send(self->inner, exchange, request);
}

static void count_requests(struct hosted *h)
{
    interposed_init(&counted, "main", h->store, count_request);
    h->store = &counted.store;
    requests = 0;
}

/* Advances the clocks to `ticks`. The number of settle passes depends on the
 * time at which they begin, so the clocks advance only here, for the waits
 * between the passes, and not while a pass runs. */
static void skip_to(int64_t ticks)
{
    bent_platform_skip(
        bend, (ticks - platform_wall_ticks()) / TICKS_PER_MS + 1);
}

#define SETTLED(options)                                                       \
    CASCADE_JOB("settled", options,                                            \
        RULES(                                                                 \
            RULE_WITH("Blogs", BY_CHANNEL,                                     \
                RULE_WITH("Comments", BY_PREFIX, RULE("Likes", BY_ROW_KEY))),  \
            RULE("Flat", BY_CHANNEL)))

static void fill(
    struct hosted *h, unsigned blogs, unsigned comments, unsigned likes)
{
    hosted_rows(h, "Channels News/");
    hosted_fill(h, "Flat", "News", 1500);
    hosted_fill(h, "Blogs", "News", blogs);
    for (unsigned i = 0; i < comments; i++) {
        char *key = mem_format("b%05u_%u", i % blogs, i);

        hosted_put(h, "Comments", "News", key, NULL);
        hosted_fill(h, "Likes", key, likes);
        mem_free(key);
    }
}

HOSTED_TEST(a_dry_run_counts_what_the_run_then_uses)
{
    static const struct {
        const char *job;
        /* likes: number of likes of each comment. */
        unsigned blogs, comments, likes;
    } CASES[] = {
        {SETTLED("settle: 0s"), 0, 0, 0},
        {SETTLED("settle: 0s"), 250, 0, 0},
        {SETTLED("settle: 1s"), 250, 60, 0},
        {SETTLED("settle: 0s"), 250, 60, 2},
        {SETTLED("settle: 1s"), 250, 60, 2},
        {SETTLED("settle: [0s, 1s]"), 40, 20, 2},
        {SETTLED("settle: [1s, 2s]"), 1100, 20, 2},
        {SETTLED("settle: 1s\n    refuse_above: 10000"), 250, 60, 2},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        struct job_estimate estimate;

        hosted_restart(h, CASES[i].job, "Channels Blogs Comments Likes Flat");
        fill(h, CASES[i].blogs, CASES[i].comments, CASES[i].likes);
        assert_ok(hosted_estimate(h, "settled", "News", &estimate));
        arena_done(&estimate.arena);
        count_requests(h);
        while (hosted_attempt(h, "settled", "News") == RUN_WAITING)
            skip_to(h->resumes_ticks);
        assert_int_equal(h->end, RUN_SUCCEEDED);
        assert_in_range(
            requests, estimate.transactions - 2, estimate.transactions + 2);
    }
}

int main(void)
{
    bend = bent_platform_use(NULL);
    bend->speed = 0;
    log_set(LOG_ERROR, LOG_TEXT);
    return test_run_all(NULL, NULL);
}
