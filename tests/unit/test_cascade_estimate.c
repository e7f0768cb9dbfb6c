/* SPDX-License-Identifier: MIT */
/* Goal: the requests that a dry run of a cascade estimates are those that the
 * run then makes. */
#include "tests/support/hosted.h"
#include "tests/support/test.h"

#include "tests/support/bent_platform.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

static struct bend *bend;

static const struct store_ops *real_ops;
static struct store_ops counting_ops;
static _Atomic int64_t requests;

static enum tw_err count_scan(struct store *store, struct exchange *exchange,
    const struct scan_request *request, struct page *ret)
{
    requests++;
    return real_ops->scan(store, exchange, request, ret);
}

static enum tw_err count_get(struct store *store, struct exchange *exchange,
    const char *table, struct slice partition_key, struct slice row_key,
    struct page *ret)
{
    requests++;
    return real_ops->get(store, exchange, table, partition_key, row_key, ret);
}

static enum tw_err count_batch(struct store *store, struct exchange *exchange,
    const struct batch *batch, struct batch_result *ret)
{
    requests++;
    return real_ops->batch(store, exchange, batch, ret);
}

static void count_requests(struct hosted *h)
{
    real_ops = h->store->ops;
    counting_ops = *real_ops;
    counting_ops.scan = count_scan;
    counting_ops.get = count_get;
    counting_ops.batch = count_batch;
    h->store->ops = &counting_ops;
    requests = 0;
}

/* Clocks advance only by the waits between settle passes, because the number of
 * passes depends on the times at which they begin. */
static void skip_to(int64_t ticks)
{
    bent_platform_skip(
        bend, (ticks - platform_wall_ticks()) / TICKS_PER_MS + 1);
}

/* Compare estimate and run for a channel of `blogs` blogs with `comments`
 * comments each, and these settle times. */
static void try_estimate(const char *settle, const char *more, unsigned blogs,
    unsigned comments, unsigned likes)
{
    char *configuration = mem_format(
        "settled:\n"
        "    kind: cascade-delete\n"
        "    args: [channel]\n"
        "    parent: {table: Channels, partition_key: \"{channel}\", "
        "row_key: \"\", tombstone: {Deleted: true}}\n"
        "    settle: %s\n%s"
        "    children:\n"
        "      - table: Blogs\n"
        "        partition_key: \"{channel}\"\n"
        "        children:\n"
        "          - table: Comments\n"
        "            partition_key: \"{PartitionKey}\"\n"
        "            row_key_prefix: \"{RowKey}_\"\n"
        "            children:\n"
        "              - {table: Likes, partition_key: \"{RowKey}\"}\n"
        "      - {table: Flat, partition_key: \"{channel}\"}\n",
        settle, more);
    struct job_estimate estimate;
    struct hosted h;
    int64_t estimated;

    hosted_begin(&h, configuration, "Channels Blogs Comments Likes Flat");
    hosted_put(&h, "Channels", "News", "", NULL);
    hosted_fill(&h, "Flat", "News", 1500);
    hosted_fill(&h, "Blogs", "News", blogs);
    for (unsigned i = 0; i < comments; i++) {
        char *key = mem_format("b%05u_%u", i % blogs, i);

        hosted_put(&h, "Comments", "News", key, NULL);
        hosted_fill(&h, "Likes", key, likes);
        mem_free(key);
    }
    assert_ok(hosted_estimate(&h, "settled", "News", &estimate));
    estimated = estimate.transactions;
    arena_done(&estimate.arena);
    count_requests(&h);
    while (hosted_attempt(&h, "settled", "News") == RUN_WAITING)
        skip_to(h.resumes_ticks);
    assert_int_equal(h.end, RUN_SUCCEEDED);
    h.store->ops = real_ops;
    print_message("settle %s %s: %u blogs, %u comments: %lld estimated, %lld "
                  "made\n",
        settle, more, blogs, comments, (long long)estimated,
        (long long)requests);
    assert_true(requests <= estimated + 2);
    assert_true(requests >= estimated - 2);
    hosted_done(&h);
    mem_free(configuration);
}

TEST(a_dry_run_counts_what_the_run_then_uses)
{
    try_estimate("0s", "", 0, 0, 0);
    try_estimate("0s", "", 250, 0, 0);
    try_estimate("1s", "", 250, 60, 0);
    try_estimate("0s", "", 250, 60, 2);
    try_estimate("1s", "", 250, 60, 2);
    try_estimate("[0s, 1s]", "", 40, 20, 2);
    try_estimate("[1s, 2s]", "", 1100, 20, 2);
    try_estimate("1s", "    refuse_above: 10000\n", 250, 60, 2);
}

int main(void)
{
    bend = bent_platform_use(NULL);
    bend->speed = 0;
    log_set(LOG_ERROR, LOG_TEXT);
    return test_run_all(NULL, NULL);
}
