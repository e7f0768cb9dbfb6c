/* SPDX-License-Identifier: MIT */
/*
 * A copy job whose `to:` is edited between two runs: which entry made a copy,
 * and former copies, which no entry made (rules C1 and C6).
 *
 * The first test makes every edit: each list of one or two entries becomes each
 * other list, with and without --accept-deletes, while sources are changed,
 * deleted, and get other keys.
 */
#include <stdio.h>
#include <string.h>

#include "jobs/copy/source.h"
#include "tests/support/hosted.h"
#include "tests/support/test.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"

#define SOURCES 4
#define ENTRIES 4
#define LIST_MAX 2

/* Entries 0 and 3 give the same keys; they are never in one list. Entries 0 and
 * 2 have the same templates in two tables. */
static const struct entry {
    const char *table, *partition_key, *prefix;
} CATALOGUE[ENTRIES] = {
    {"One", "x_{K}", "x_"},
    {"One", "y_{K}", "y_"},
    {"Two", "x_{K}", "x_"},
    {"One", "x_{K + 0}", "x_"},
};

struct list {
    int entries[LIST_MAX];
    int count;
};

static struct hosted h;

static int set_up(void **state)
{
    hosted_begin(&h,
        "c: {kind: copy, from: {table: Blogs}, to: {table: One}}\n",
        "Blogs One Two");
    return 0;
}

static int tear_down(void **state)
{
    hosted_done(&h);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, tear_down)

/* ---- the job ---- */

static void load(const struct list *list, const char *on_conflict)
{
    struct buf text;

    buf_init(&text, 4096);
    buf_add_text(&text, "c:\n  kind: copy\n  from: {table: Blogs}\n  to:\n");
    for (int i = 0; i < list->count; i++)
        buf_add_format(&text, "    - {table: %s, partition_key: \"%s\"}\n",
            CATALOGUE[list->entries[i]].table,
            CATALOGUE[list->entries[i]].partition_key);
    buf_add_format(&text, "  on_conflict: %s\n", on_conflict);
    hosted_load(&h, buf_text(&text));
    buf_done(&text);
}

static bool has(const struct list *list, int entry)
{
    for (int i = 0; i < list->count; i++)
        if (list->entries[i] == entry)
            return true;
    return false;
}

static bool has_table(const struct list *list, const char *table)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(CATALOGUE[list->entries[i]].table, table) == 0)
            return true;
    return false;
}

static enum run_end run_once(void)
{
    static unsigned count;
    static char id[16];

    (void)snprintf(id, sizeof(id), "r%u", ++count);
    hosted_forget(&h, id);
    h.written = h.deleted = 0;
    return hosted_run(&h, "c", "");
}

static void succeeds(void)
{
    if (run_once() != RUN_SUCCEEDED)
        fail_msg(
            "the run ended %d: %s (%s)", (int)h.end, h.err.text, h.failed_why);
}

static void refused(const char *part)
{
    if (run_once() != RUN_FAILED)
        fail_msg("the run ended %d: %s", (int)h.end, h.err.text);
    if (!strstr(h.err.text, part))
        fail_msg("\"%s\" is not in: %s", part, h.err.text);
}

/* ---- the application ---- */

/* Source i has K equal to i at first. */
static void put_source(int i, int k, const char *text, bool replaces)
{
    char row_key[16], properties[64];

    (void)snprintf(row_key, sizeof(row_key), "%d", i);
    (void)snprintf(
        properties, sizeof(properties), "\"K\":%d,\"T\":\"%s\"", k, text);
    (replaces ? hosted_replace : hosted_put)(
        &h, "Blogs", "a", row_key, properties);
}

/* Source 0 stays, 1 is changed, 2 is deleted, 3 gets other keys. */
static void change_sources(void)
{
    put_source(1, 1, "new", true);
    hosted_remove(&h, "Blogs", "a", "2");
    put_source(3, 7, "old", true);
}

static void reset_tables(void)
{
    static const char *const TABLES[] = {"Blogs", "One", "Two"};

    for (size_t i = 0; i < 3; i++) {
        char *keys = mem_text(
            hosted_dump(&h, TABLES[i]), strlen(hosted_dump(&h, TABLES[i])));
        char *saved = NULL;

        for (char *key = strtok_r(keys, " ", &saved); key;
             key = strtok_r(NULL, " ", &saved)) {
            char *slash = strchr(key, '/');

            *slash = '\0';
            hosted_remove(&h, TABLES[i], key, slash + 1);
        }
        mem_free(keys);
    }
    for (int i = 0; i < SOURCES; i++)
        put_source(i, i, "old", false);
    arena_clear(&h.arena);
}

/* ---- the oracle ---- */

/* The copy of source i by an entry is as before, or after, change_sources(). */
static void check_copy(int entry, int i, bool after)
{
    char partition_key[16], row_key[16], text[32];
    const char *json;

    (void)snprintf(partition_key, sizeof(partition_key), "%s%d",
        CATALOGUE[entry].prefix, i == 3 && after ? 7 : i);
    (void)snprintf(row_key, sizeof(row_key), "%d", i);
    (void)snprintf(
        text, sizeof(text), "\"T\":\"%s\"", i == 1 && after ? "new" : "old");
    json = hosted_json(&h, CATALOGUE[entry].table, partition_key, row_key);
    if (!json || !strstr(json, text))
        fail_msg("the copy of %d by entry %d is %s", i, entry,
            json ? json : "missing");
}

/* The number of copies in both tables is `wanted`. */
static void check_count(unsigned wanted)
{
    unsigned count = hosted_count(&h, "One") + hosted_count(&h, "Two");

    if (count != wanted)
        fail_msg("%u copies, wanted %u: One %s, Two %s", count, wanted,
            hosted_dump(&h, "One"), hosted_dump(&h, "Two"));
}

/* Copies of entries that `after` does not have, in tables that it has. */
static int64_t former_of(const struct list *before, const struct list *after)
{
    int64_t count = 0;

    for (int e = 0; e < ENTRIES; e++)
        if (has(before, e) && !has(after, e) &&
            has_table(after, CATALOGUE[e].table))
            count += SOURCES;
    return count;
}

/* After a run that may delete: exactly the copies of the present entries, and
 * in the tables that `to:` no longer names all that was there. */
static void check_done(const struct list *before, const struct list *after)
{
    unsigned count = 0;
    int64_t written = 0;

    for (int e = 0; e < ENTRIES; e++) {
        bool abandoned = has(before, e) && !has(after, e) &&
                         !has_table(after, CATALOGUE[e].table);

        if (!has(after, e) && !abandoned)
            continue;
        for (int i = 0; i < SOURCES; i++)
            if (abandoned || i != 2) {
                check_copy(e, i, !abandoned);
                count++;
            }
        /* Copies of the sources 1 and 3 by an entry that stays. */
        written += abandoned ? 0 : has(before, e) ? 2 : SOURCES - 1;
    }
    check_count(count);
    assert_int_equal(h.written, written);
    assert_int_equal(hosted_differences(&h, "c", ""), 0);
    succeeds();
    assert_int_equal(h.written + h.deleted, 0);
}

static void check_refused(const struct list *before, const struct list *after)
{
    assert_int_equal(h.deleted, 0);
    for (int e = 0; e < ENTRIES; e++)
        for (int i = 0; i < SOURCES && has(before, e) && !has(after, e); i++)
            check_copy(e, i, false);
}

/* ---- every edit of `to:` ---- */

static size_t list_all(struct list lists[16])
{
    size_t count = 0;

    for (int number = 0; number < 5 * 5; number++) {
        struct list list = {.count = 0};
        bool good = true;

        for (int left = number; left > 0; left /= 5) {
            int entry = left % 5 - 1;

            good &= entry >= 0 && !has(&list, entry);
            if (good)
                list.entries[list.count++] = entry;
        }
        if (good && list.count > 0 && !(has(&list, 0) && has(&list, 3)))
            lists[count++] = list;
    }
    return count;
}

static void check_edit(const struct list *before, const struct list *after,
    const char *on_conflict, bool accepts)
{
    int64_t former = former_of(before, after);

    reset_tables();
    h.accept_deletes = false;
    load(before, on_conflict);
    succeeds();
    change_sources();
    load(after, on_conflict);
    assert_int_equal(hosted_differences(&h, "c", "former"), former);
    h.accept_deletes = accepts;
    if (former > 0 && !accepts) {
        refused("earlier key templates");
        check_refused(before, after);
    } else {
        succeeds();
        check_done(before, after);
    }
}

/* Each edit has one on_conflict: the three give the same result. */
FIXTURE_TEST(every_edit_of_to_is_done_or_refused)
{
    static const char *const CONFLICTS[] = {"fail", "skip", "replace"};
    struct list lists[16];
    size_t count = list_all(lists);

    assert_int_equal(count, 14);
    for (size_t a = 0; a < count; a++)
        for (size_t b = 0; b < count; b++)
            for (int accepts = 0; accepts < 2; accepts++) {
                const char *on_conflict = CONFLICTS[(a + b) % 3];

                if (accepts && former_of(&lists[a], &lists[b]) == 0)
                    continue;
                test_case("list %zu becomes list %zu, on_conflict: %s, "
                          "accept_deletes: %d",
                    a, b, on_conflict, accepts);
                check_edit(&lists[a], &lists[b], on_conflict, accepts > 0);
            }
}

/* ---- what the edits above leave out ---- */

static const struct list ONE_Y_TWO = {{1, 2}, 2}, ONE_X_ONE_Y = {{0, 1}, 2},
                         ONE_Y = {{1}, 1}, TWO = {{2}, 1},
                         TWO_ONE_Y = {{2, 1}, 2};

static void check_has(const char *table, const char *partition_key,
    const char *row_key, const char *part)
{
    const char *json = hosted_json(&h, table, partition_key, row_key);

    if (!json || !strstr(json, part))
        fail_msg("%s is not in %s", part, json ? json : "nothing");
}

/* An application replaces the text `from` in an entity by `to`. */
static void edit(const char *table, const char *partition_key,
    const char *row_key, const char *from, const char *to)
{
    const char *json = hosted_json(&h, table, partition_key, row_key), *at;
    char *text;

    assert_non_null(json);
    at = strstr(json, from);
    assert_non_null(at);
    text = mem_format("%.*s%s%.*s", (int)(at - json - 1), json + 1, to,
        (int)(strlen(at) - strlen(from) - 1), at + strlen(from));
    hosted_replace(&h, table, partition_key, row_key, text);
    mem_free(text);
}

/* While `to:` does not name One, its copies become stale, and one loses its
 * source. */
FIXTURE_TEST(an_entry_that_is_added_again_finds_its_copies)
{
    reset_tables();
    load(&ONE_Y_TWO, "fail");
    succeeds();
    load(&TWO, "fail");
    change_sources();
    succeeds();
    assert_int_equal(hosted_count(&h, "One"), SOURCES);
    load(&TWO_ONE_Y, "fail");
    assert_int_equal(hosted_differences(&h, "c", "copies without a source"), 2);
    succeeds();
    for (int i = 0; i < SOURCES; i++)
        if (i != 2) {
            check_copy(1, i, true);
            check_copy(2, i, true);
        }
    check_count(2 * (SOURCES - 1));
    assert_int_equal(hosted_differences(&h, "c", ""), 0);
}

/* The index is only a hint, so one that no longer fits is not corrected: that
 * would write every copy again. */
FIXTURE_TEST(another_order_writes_nothing)
{
    reset_tables();
    load(&ONE_Y_TWO, "fail");
    succeeds();
    check_has("Two", "x_0", "0", "\\\"to\\\":1,");
    load(&TWO_ONE_Y, "fail");
    h.read = 0;
    succeeds();
    assert_int_equal(h.written + h.deleted, 0);
    /* A round reads 4 sources and 8 copies, without repairs. */
    assert_int_equal(h.read, 2 * (4 + 8));
    assert_int_equal(hosted_differences(&h, "c", ""), 0);
    check_has("Two", "x_0", "0", "\\\"to\\\":1,");
}

/* A digest of other length or content would make every copy of former versions
 * a former copy. */
FIXTURE_TEST(the_digest_of_the_key_templates_is_that_of_former_versions)
{
    reset_tables();
    load(&TWO, "fail");
    succeeds();
    check_has("Two", "x_0", "0", "\\\"to\\\":0,\\\"by\\\":\\\"d852d503\\\",");
}

/* Rule C3: an edited copy is never deleted. */
FIXTURE_TEST(an_edited_former_copy_stays_and_refuses_no_run)
{
    reset_tables();
    load(&ONE_X_ONE_Y, "fail");
    succeeds();
    edit("One", "x_0", "0", "old", "mine");
    load(&ONE_Y, "fail");
    refused("(e.g. 'x_1' / '1')");
    h.accept_deletes = true;
    succeeds();
    assert_int_equal(h.deleted, SOURCES - 1);
    h.accept_deletes = false;
    succeeds();
    assert_int_equal(h.deleted, 0);
    assert_int_equal(h.skipped, 1);
    check_has("One", "x_0", "0", "mine");
    assert_int_equal(hosted_differences(&h, "c", "edited"), 1);
    assert_non_null(strstr(h.note, "(e.g. One 'x_0' / '0')"));
}

/* An edited index row is deleted (rule C3). */
FIXTURE_TEST(an_edited_index_row_of_a_former_entry_needs_consent)
{
    reset_tables();
    hosted_load(&h, "c:\n  kind: copy\n"
                    "  from: {table: Blogs, row_key_below: \"a\"}\n"
                    "  to: [{table: Blogs, row_key: \"i_{K}\"},\n"
                    "       {table: Blogs, row_key: \"j_{K}\"}]\n");
    succeeds();
    edit("Blogs", "a", "i_0", "old", "mine");
    hosted_load(&h, "c:\n  kind: copy\n"
                    "  from: {table: Blogs, row_key_below: \"a\"}\n"
                    "  to: {table: Blogs, row_key: \"j_{K}\"}\n");
    refused("(e.g. 'a' / 'i_0')");
    h.accept_deletes = true;
    succeeds();
    assert_int_equal(h.deleted, SOURCES);
    assert_int_equal(hosted_count(&h, "Blogs"), 2 * SOURCES);
}

static void load_pair(const char *partition_key, const char *row_key)
{
    char *text = mem_format("c:\n  kind: copy\n  from: {table: Blogs}\n"
                            "  to: [{table: One, partition_key: %s},\n"
                            "       {table: One, partition_key: z, row_key: "
                            "\"%s\"}]\n",
        partition_key, row_key);

    hosted_load(&h, text);
    mem_free(text);
}

/* The first copies of the table, which are read before the first round, are of
 * an entry that stays. The present entry makes the copy of source 0 with the
 * keys of the former copy of source 1. */
FIXTURE_TEST(a_former_copy_is_not_replaced_by_anothers_without_consent)
{
    reset_tables();
    hosted_fill(&h, "Blogs", "b", 120);
    hosted_load(
        &h, "c: {kind: copy, from: {table: Blogs}, to: {table: One}}\n");
    load_pair("y", "{RowKey}");
    succeeds();
    put_source(0, 1, "old", true);
    put_source(1, 0, "old", true);
    load_pair("y", "{if(RowKey < 'b', K, RowKey)}");
    (void)run_once();
    assert_int_equal(h.end, RUN_FAILED);
    check_has("One", "z", "0", "\\\"key\\\":[\\\"a\\\",\\\"0\\\"]");
    check_has("One", "z", "1", "\\\"key\\\":[\\\"a\\\",\\\"1\\\"]");
    assert_non_null(strstr(h.failed_why, "--accept-deletes"));
    h.accept_deletes = true;
    succeeds();
    check_has("One", "z", "0", "\\\"key\\\":[\\\"a\\\",\\\"1\\\"]");
    check_has("One", "z", "1", "\\\"key\\\":[\\\"a\\\",\\\"0\\\"]");
}

/* Rule C2: the text of the template changes, and the keys do not. Source 0,
 * which is copied first, gets the key of the former copy of source 1. */
FIXTURE_TEST(a_former_copy_whose_source_has_its_key_collides)
{
    static const char JOB[] =
        "c: {kind: copy, from: {table: Blogs}, to: {table: "
        "One, partition_key: p, row_key: \"{K%s}\"}}\n";
    char *before = mem_format(JOB, ""), *after = mem_format(JOB, " + 0");

    reset_tables();
    hosted_load(&h, before);
    succeeds();
    put_source(0, 1, "new", true);
    hosted_load(&h, after);
    h.accept_deletes = true;
    assert_int_equal(run_once(), RUN_FAILED);
    assert_non_null(
        strstr(h.failed_why, "the copy of 'a' / '1' have the same keys"));
    check_has("One", "p", "1", "\\\"key\\\":[\\\"a\\\",\\\"1\\\"]");
    assert_int_equal(h.written, SOURCES - 1);
    assert_int_equal(hosted_count(&h, "One"), SOURCES - 1);
    mem_free(before);
    mem_free(after);
}

/* Two entries with one table, under two names of one store, and with the same
 * templates: `check` cannot know it. The index tells their copies apart, so the
 * second copy is reported, whatever the order is now. */
FIXTURE_TEST(of_two_equal_entries_the_second_collides)
{
    static const char *const NAMES[] = {"main", "other"};
    static const char *const LISTS[] = {
        "[{store: main, table: One}, {store: other, table: One}]",
        "[{store: other, table: One}, {store: main, table: One}]"};
    struct store *stores[] = {h.store, h.store};

    reset_tables();
    h.stores = (struct job_stores){
        .count = 2, .names = NAMES, .stores = stores, .by_default = 0};
    for (size_t i = 0; TEST_EACH(i, LISTS); i++) {
        char *text = mem_format(
            "c: {kind: copy, from: {store: main, table: Blogs}, to: %s}\n",
            LISTS[i]);

        hosted_load(&h, text);
        assert_int_equal(run_once(), RUN_FAILED);
        assert_non_null(strstr(h.failed_why, "have the same keys"));
        assert_int_equal(h.deleted, 0);
        assert_int_equal(h.written, i == 0 ? SOURCES : 0);
        assert_int_equal(hosted_count(&h, "One"), SOURCES);
        mem_free(text);
    }
    h.stores.count = 1;
}

/* ---- the dry run ---- */

FIXTURE_TEST(a_dry_run_counts_former_copies)
{
    struct job_estimate estimate = {.table_count = 0};

    reset_tables();
    load(&ONE_X_ONE_Y, "fail");
    succeeds();
    load(&ONE_Y, "fail");
    assert_ok(hosted_estimate(&h, "c", "", &estimate));
    assert_non_null(strstr(estimate.details, "8 copies exist of this job"));
    assert_non_null(
        strstr(estimate.details, "4 of them were made by earlier key"));
    arena_done(&estimate.arena);
}
