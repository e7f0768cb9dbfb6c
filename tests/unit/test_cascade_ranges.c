/* SPDX-License-Identifier: MIT */
/* Goal: the children of many neighbouring entities are read as ranges. That
 * takes few requests, and finds exactly the entities that a query for each
 * entity would find. */
#include "tests/support/hosted.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/cascade_job.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"

#define NESTED(by)                                                             \
    CASCADE_JOB("job", "settle: 0s",                                           \
        RULE_WITH("Blogs", "partition_key_prefix: \"{channel}\"",              \
            RULE("Comments", by)))

static const char BY_ROW_PREFIX[] =
    NESTED(BY_PREFIX ", filter: \"Blog eq '{RowKey}'\"");
static const char BY_ROW[] = NESTED(IN_PARTITION ", row_key: \"{RowKey}\"");
static const char BY_PARTITION[] =
    NESTED("partition_key: \"{PartitionKey}_{RowKey}\"");
static const char BY_PARTITIONS[] =
    NESTED("partition_key_prefix: \"{RowKey}_\"");
static const char BACKWARDS[] = NESTED(IN_PARTITION ", row_key: \"{Back}\"");

static void tables(struct hosted *h, const char *configuration)
{
    hosted_restart(h, configuration, "Channels Blogs Comments Kept");
    hosted_rows(h, "Channels c/");
}

/* ---- requests ---- */

static int64_t pages_of_comments(struct hosted *h)
{
    struct job_estimate estimate;
    int64_t pages = -1;

    assert_ok(hosted_estimate(h, "job", "c", &estimate));
    for (size_t i = 0; i < estimate.table_count; i++)
        if (strcmp(estimate.tables[i].table, "Comments") == 0)
            pages = estimate.tables[i].pages;
    arena_done(&estimate.arena);
    return pages;
}

HOSTED_TEST(many_blogs_cost_few_pages)
{
    tables(h, BY_ROW_PREFIX);
    hosted_fill(h, "Blogs", "c", 2500);
    assert_true(pages_of_comments(h) <= 3);
    for (int i = 0; i < 2500; i += 7) {
        char *rows =
            mem_format("Comments c/b%05d_%d(Blog=b%05d) c/b%05d_%d(Blog=b%05d)",
                i, i, i, i, i + 1, i);

        hosted_rows(h, rows);
        mem_free(rows);
    }
    hosted_rows(h, "Comments c/b00003_x(Blog=another) c/b00003(Blog=b00003)");
    assert_true(pages_of_comments(h) <= 7);
    hosted_succeeds(h, "job", "c", "Blogs; Comments c/b00003 c/b00003_x");
}

/* If the children are far apart in the table, what lies between them is not
 * read. */
HOSTED_TEST(what_lies_far_apart_is_not_read_through)
{
    tables(h, BY_PARTITION);
    for (int i = 0; i < 20; i++) {
        char *blog = mem_format("Blogs c/%02d", i);
        char *between = mem_format("c_%02dx", i);

        hosted_rows(h, blog);
        hosted_fill(h, "Comments", between, 1500);
        mem_free(between);
        mem_free(blog);
    }
    hosted_rows(h, "Comments c_19/x");
    assert_true(pages_of_comments(h) < 60);
    hosted_succeeds(h, "job", "c", "Comments 30000");
}

/* ---- the same result as a query for each entity ---- */

static uint64_t seed;

static unsigned below(unsigned n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(seed >> 33) % n;
}

/* Returns a random key. Keys are short, so that many are prefixes of others.
 * Some are ordered differently by UTF-16 units and by code points. */
static char *random_key(void)
{
    static const char *const parts[] = {"1", "2", "_", "b", "~", " a",
        "\xee\x80\x80", "\xf0\x9f\x98\x80", "\xef\xbf\xbd", "\xc3\xa9"};
    char *key = mem_format("%s", parts[below(4)]);

    for (unsigned more = below(3); more > 0; more--) {
        char *longer = mem_format(
            "%s%s", key, parts[below(sizeof(parts) / sizeof(parts[0]))]);

        mem_free(key);
        key = longer;
    }
    return key;
}

static void put_once(struct hosted *h, const char *table,
    const char *partition_key, const char *row_key, const char *properties)
{
    if (!hosted_has(h, table, partition_key, row_key))
        hosted_put(h, table, partition_key, row_key, properties);
}

static bool begins(const char *text, const char *prefix, const char *more)
{
    size_t len = strlen(prefix);

    return strncmp(text, prefix, len) == 0 &&
           strncmp(text + len, more, strlen(more)) == 0;
}

struct blog {
    char *partition_key, *row_key;
};

struct shape {
    const char *configuration;
    /* Does a comment with these keys, and with this value of property Blog,
     * belong to blog? */
    bool (*has)(const struct blog *blog, const char *partition_key,
        const char *row_key, const char *of);
};

static bool has_prefix(const struct blog *blog, const char *partition_key,
    const char *row_key, const char *of)
{
    return strcmp(partition_key, blog->partition_key) == 0 &&
           begins(row_key, blog->row_key, "_") &&
           strcmp(of, blog->row_key) == 0;
}

static bool has_row(const struct blog *blog, const char *partition_key,
    const char *row_key, const char *of)
{
    return strcmp(partition_key, blog->partition_key) == 0 &&
           strcmp(row_key, blog->row_key) == 0;
}

static bool has_partition(const struct blog *blog, const char *partition_key,
    const char *row_key, const char *of)
{
    size_t len = strlen(blog->partition_key);

    return begins(partition_key, blog->partition_key, "_") &&
           strcmp(partition_key + len + 1, blog->row_key) == 0;
}

static bool has_partitions(const struct blog *blog, const char *partition_key,
    const char *row_key, const char *of)
{
    return begins(partition_key, blog->row_key, "_");
}

static bool has_back(const struct blog *blog, const char *partition_key,
    const char *row_key, const char *of)
{
    return strcmp(partition_key, blog->partition_key) == 0 &&
           begins(row_key, "back", blog->row_key) &&
           strlen(row_key) == 4 + strlen(blog->row_key);
}

static const struct shape SHAPES[] = {
    {BY_ROW_PREFIX, has_prefix},
    {BY_ROW, has_row},
    {BY_PARTITION, has_partition},
    {BY_PARTITIONS, has_partitions},
    {BACKWARDS, has_back},
};

#define BLOGS 12
#define COMMENTS 60

static void put_blog(struct hosted *h, struct blog *blog)
{
    char *key = random_key(), *back;

    blog->partition_key = mem_format("c%s", below(2) ? "" : key);
    blog->row_key = random_key();
    back = mem_format("\"Back\":\"back%s\"", blog->row_key);
    put_once(h, "Blogs", blog->partition_key, blog->row_key, back);
    mem_free(back);
    mem_free(key);
}

/* Puts a random comment. Its keys are mostly similar to those of a blog. */
static void put_random_comment(
    struct hosted *h, const struct blog *blogs, const struct shape *shape)
{
    const struct blog *blog = &blogs[below(BLOGS)];
    char *key = random_key();
    char *partition_key =
        below(3) == 0 ? mem_format("%s_%s", blog->partition_key, blog->row_key)
        : below(3) == 0 ? mem_format("%s_%s", blog->row_key, key)
                        : mem_format("%s", blog->partition_key);
    char *row_key = below(3) == 0   ? mem_format("%s_%s", blog->row_key, key)
                    : below(3) == 0 ? mem_format("back%s", blog->row_key)
                    : below(3) == 0 ? mem_format("%s", key)
                                    : mem_format("%s", blog->row_key);
    const char *of = below(4) ? blog->row_key : key;
    char *properties = mem_format("\"Blog\":\"%s\"", of);
    bool found = false;

    for (size_t i = 0; i < BLOGS; i++)
        found = found || shape->has(&blogs[i], partition_key, row_key, of);
    if (!hosted_has(h, "Comments", partition_key, row_key)) {
        hosted_put(h, "Comments", partition_key, row_key, properties);
        if (!found)
            hosted_put(h, "Kept", partition_key, row_key, NULL);
    }
    mem_free(properties);
    mem_free(row_key);
    mem_free(partition_key);
    mem_free(key);
}

static void try_shape(struct hosted *h, const struct shape *shape)
{
    struct blog blogs[BLOGS];

    tables(h, shape->configuration);
    for (size_t i = 0; i < BLOGS; i++)
        put_blog(h, &blogs[i]);
    for (size_t i = 0; i < COMMENTS; i++)
        put_random_comment(h, blogs, shape);
    hosted_succeeds(h, "job", "c", "Blogs");
    assert_string_equal(hosted_dump(h, "Comments"), hosted_dump(h, "Kept"));
    for (size_t i = 0; i < BLOGS; i++) {
        mem_free(blogs[i].partition_key);
        mem_free(blogs[i].row_key);
    }
}

HOSTED_TEST(ranges_find_what_a_query_for_each_finds)
{
    for (uint64_t i = 0; i < 40; i++) {
        seed = i;
        for (size_t j = 0; TEST_EACH(j, SHAPES); j++)
            try_shape(h, &SHAPES[j]);
    }
}

int main(void)
{
    log_set(LOG_ERROR, LOG_TEXT);
    return test_run_all(NULL, NULL);
}
