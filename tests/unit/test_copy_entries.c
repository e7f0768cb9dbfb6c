/* SPDX-License-Identifier: MIT */
/*
 * Copies that the present job did not make (rules C1 and C6). There are two
 * cases:
 *
 * - The job's `to:` was edited between two runs. The job must tell which entry
 *   of `to:` made a copy, and must recognise a former copy, which no present
 *   entry made.
 * - The table was exported, with its index rows, and imported into another
 *   account. The TablewardSource of its rows names the former account.
 *
 * The first test makes every edit: each list of one or two entries becomes each
 * other list, with and without --accept-deletes, while sources are changed,
 * deleted, and get other keys.
 */
#include <stdio.h>
#include <string.h>

#include "jobs/copy/source.h"
#include "tests/support/scene.h"
#include "tests/support/test.h"

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

/* Puts source i with K = `k` and T = `text`. */
static void put_source(int i, int k, const char *text, bool replaces)
{
    char row_key[16], properties[64];

    (void)snprintf(row_key, sizeof(row_key), "%d", i);
    (void)snprintf(
        properties, sizeof(properties), "\"K\":%d,\"T\":\"%s\"", k, text);
    (replaces ? scene_replace : scene_put)("Blogs", "a", row_key, properties);
}

static int set_up(void **state)
{
    scene_begin("c: {kind: copy, from: {table: Blogs}, to: {table: One}}\n",
        "Blogs One Two");
    for (int i = 0; i < SOURCES; i++)
        put_source(i, i, "old", false);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(name, set_up, scene_end)

/* ---- the job ---- */

static void load_to(const char *to, const char *on_conflict)
{
    hosted_load(&h, arena_format(&h.arena,
                        "c:\n  kind: copy\n  from: {table: Blogs}\n"
                        "  to: %s\n  on_conflict: %s\n",
                        to, on_conflict)
                        .at);
}

static void load(const struct list *list, const char *on_conflict)
{
    const char *to = "[";

    for (int i = 0; i < list->count; i++)
        to = arena_format(&h.arena, "%s%s{table: %s, partition_key: \"%s\"}",
            to, i > 0 ? ", " : "", CATALOGUE[list->entries[i]].table,
            CATALOGUE[list->entries[i]].partition_key)
                 .at;
    load_to(arena_format(&h.arena, "%s]", to).at, on_conflict);
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

static void ends(enum run_end wanted)
{
    scene_new_run();
    scene_run("c", "", wanted);
}

static void succeeds(void)
{
    ends(RUN_SUCCEEDED);
}

static void refused(const char *part)
{
    ends(RUN_FAILED);
    if (!strstr(h.err.text, part))
        fail_msg("\"%s\" is not in: %s", part, h.err.text);
}

/* ---- the application ---- */

/* Changes sources: source 0 stays, source 1 gets another text, source 2 is
 * deleted, source 3 gets another K, so that its copies get other keys. */
static void change_sources(void)
{
    put_source(1, 1, "new", true);
    scene_remove("Blogs", "a", "2");
    put_source(3, 7, "old", true);
}

/* ---- what a run must leave ---- */

/* Fails unless the copy of source i by this entry is as before, or after,
 * change_sources(). */
static void check_copy(int entry, int i, bool after)
{
    char partition_key[16], row_key[16], text[32];

    (void)snprintf(partition_key, sizeof(partition_key), "%s%d",
        CATALOGUE[entry].prefix, i == 3 && after ? 7 : i);
    (void)snprintf(row_key, sizeof(row_key), "%d", i);
    (void)snprintf(
        text, sizeof(text), "\"T\":\"%s\"", i == 1 && after ? "new" : "old");
    scene_check_has(CATALOGUE[entry].table, partition_key, row_key, text);
}

/* Fails unless both tables together have `wanted` copies. */
static void check_count(unsigned wanted)
{
    unsigned count = hosted_count(&h, "One") + hosted_count(&h, "Two");

    if (count != wanted)
        fail_msg("%u copies, wanted %u: One %s, Two %s", count, wanted,
            hosted_dump(&h, "One"), hosted_dump(&h, "Two"));
}

/* Returns the number of copies in tables of `after` whose entry is missing in
 * `after`. */
static int64_t former_of(const struct list *before, const struct list *after)
{
    int64_t count = 0;

    for (int e = 0; e < ENTRIES; e++)
        if (has(before, e) && !has(after, e) &&
            has_table(after, CATALOGUE[e].table))
            count += SOURCES;
    return count;
}

/* Checks a run that was allowed to delete. It must leave the copies of the
 * present entries, all copies in the tables that `to:` no longer names, and no
 * others. */
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
        /* If the entry stays, only the copies of sources 1 and 3 are
         * written. */
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

/* All lists of entries that `to:` may have. */
static const struct list LISTS[] = {{{0}, 1}, {{1}, 1}, {{2}, 1}, {{3}, 1},
    {{0, 1}, 2}, {{0, 2}, 2}, {{1, 0}, 2}, {{1, 2}, 2}, {{1, 3}, 2},
    {{2, 0}, 2}, {{2, 1}, 2}, {{2, 3}, 2}, {{3, 1}, 2}, {{3, 2}, 2}};
#define LIST_COUNT (sizeof(LISTS) / sizeof(LISTS[0]))

static void check_edit(const struct list *before, const struct list *after,
    const char *on_conflict, bool accepts)
{
    int64_t former = former_of(before, after);

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

/* Each edit is tested with one value of on_conflict, because all three give the
 * same result. */
TEST(every_edit_of_to_is_done_or_refused)
{
    static const char *const CONFLICTS[] = {"fail", "skip", "replace"};

    for (size_t a = 0; a < LIST_COUNT; a++)
        for (size_t b = 0; b < LIST_COUNT; b++)
            for (int accepts = 0; accepts < 2; accepts++) {
                const char *on_conflict = CONFLICTS[(a + b) % 3];

                if (accepts && former_of(&LISTS[a], &LISTS[b]) == 0)
                    continue;
                test_case("list %zu becomes list %zu, on_conflict: %s, "
                          "accept_deletes: %d",
                    a, b, on_conflict, accepts);
                (void)set_up(NULL);
                check_edit(&LISTS[a], &LISTS[b], on_conflict, accepts > 0);
                (void)scene_end(NULL);
            }
}

/* ---- cases that the edits above do not cover ---- */

static const struct list ONE_Y_TWO = {{1, 2}, 2}, ONE_X_ONE_Y = {{0, 1}, 2},
                         ONE_Y = {{1}, 1}, TWO = {{2}, 1},
                         TWO_ONE_Y = {{2, 1}, 2};

/* While `to:` does not name table One, the copies in One are not updated, and
 * the source of one of them is deleted. */
FIXTURE_TEST(an_entry_that_is_added_again_finds_its_copies)
{
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

/* The index of the entry in TablewardSource is only a hint. An index that is
 * wrong after the entries changed places is not corrected, because that would
 * write every copy again. */
FIXTURE_TEST(another_order_writes_nothing)
{
    load(&ONE_Y_TWO, "fail");
    succeeds();
    scene_check_has("Two", "x_0", "0", "\\\"to\\\":1,");
    load(&TWO_ONE_Y, "fail");
    h.read = 0;
    succeeds();
    assert_int_equal(h.written + h.deleted, 0);
    /* Two rounds: each reads 4 sources and 8 copies, and repairs nothing. */
    assert_int_equal(h.read, 2 * (4 + 8));
    assert_int_equal(hosted_differences(&h, "c", ""), 0);
    scene_check_has("Two", "x_0", "0", "\\\"to\\\":1,");
}

/* A digest of other length or content would make every copy of former versions
 * a former copy. */
FIXTURE_TEST(the_digest_of_the_key_templates_is_that_of_former_versions)
{
    load(&TWO, "fail");
    succeeds();
    scene_check_has(
        "Two", "x_0", "0", "\\\"to\\\":0,\\\"by\\\":\\\"d852d503\\\",");
}

/* Rule C3: an edited copy is never deleted. */
FIXTURE_TEST(an_edited_former_copy_stays_and_refuses_no_run)
{
    load(&ONE_X_ONE_Y, "fail");
    succeeds();
    scene_edit("One", "x_0", "0", "old", "mine");
    load(&ONE_Y, "fail");
    refused("(e.g. 'x_1' / '1')");
    h.accept_deletes = true;
    succeeds();
    assert_int_equal(h.deleted, SOURCES - 1);
    h.accept_deletes = false;
    succeeds();
    assert_int_equal(h.deleted, 0);
    assert_int_equal(h.skipped, 1);
    scene_check_has("One", "x_0", "0", "mine");
    assert_int_equal(hosted_differences(&h, "c", "edited"), 1);
    assert_non_null(strstr(h.note, "(e.g. One 'x_0' / '0')"));
}

/* An edited index row is deleted (rule C3). */
FIXTURE_TEST(an_edited_index_row_of_a_former_entry_needs_consent)
{
    hosted_load(&h, "c:\n  kind: copy\n"
                    "  from: {table: Blogs, row_key_below: \"a\"}\n"
                    "  to: [{table: Blogs, row_key: \"i_{K}\"},\n"
                    "       {table: Blogs, row_key: \"j_{K}\"}]\n");
    succeeds();
    scene_edit("Blogs", "a", "i_0", "old", "mine");
    hosted_load(&h, "c:\n  kind: copy\n"
                    "  from: {table: Blogs, row_key_below: \"a\"}\n"
                    "  to: {table: Blogs, row_key: \"j_{K}\"}\n");
    refused("(e.g. 'a' / 'i_0')");
    h.accept_deletes = true;
    succeeds();
    assert_int_equal(h.deleted, SOURCES);
    assert_int_equal(hosted_count(&h, "Blogs"), 2 * SOURCES);
}

/* The first copies of the table are read before the first round; here they
 * belong to an entry that stays. The changed entry gives the copy of source 0
 * the keys of the former copy of source 1. */
FIXTURE_TEST(a_former_copy_is_not_replaced_by_anothers_without_consent)
{
    scene_quietly(hosted_fill(&h, "Blogs", "b", 120));
    load_to("[{table: One, partition_key: y}, {table: One, partition_key: z}]",
        "fail");
    succeeds();
    put_source(0, 1, "old", true);
    put_source(1, 0, "old", true);
    load_to("[{table: One, partition_key: y}, {table: One, partition_key: z, "
            "row_key: \"{if(RowKey < 'b', K, RowKey)}\"}]",
        "fail");
    ends(RUN_FAILED);
    scene_check_has("One", "z", "0", "\\\"key\\\":[\\\"a\\\",\\\"0\\\"]");
    scene_check_has("One", "z", "1", "\\\"key\\\":[\\\"a\\\",\\\"1\\\"]");
    scene_check_reported("--accept-deletes");
    h.accept_deletes = true;
    succeeds();
    scene_check_has("One", "z", "0", "\\\"key\\\":[\\\"a\\\",\\\"1\\\"]");
    scene_check_has("One", "z", "1", "\\\"key\\\":[\\\"a\\\",\\\"0\\\"]");
}

/* Rule C2: the text of the template changes, and the keys do not. Source 0,
 * which is copied first, gets the key of the former copy of source 1. */
FIXTURE_TEST(a_former_copy_whose_source_has_its_key_collides)
{
    load_to("{table: One, partition_key: p, row_key: \"{K}\"}", "fail");
    succeeds();
    put_source(0, 1, "new", true);
    load_to("{table: One, partition_key: p, row_key: \"{K + 0}\"}", "fail");
    h.accept_deletes = true;
    ends(RUN_FAILED);
    scene_check_reported("the copy of 'a' / '1' have the same keys");
    scene_check_has("One", "p", "1", "\\\"key\\\":[\\\"a\\\",\\\"1\\\"]");
    assert_int_equal(h.written, SOURCES - 1);
    assert_int_equal(hosted_count(&h, "One"), SOURCES - 1);
}

/* Two entries name the same table by two names of one store, and have the same
 * templates. `check` cannot know that the two stores are one. The index tells
 * the copies of the two entries apart, so the second copy is reported, in
 * whatever order the entries are. */
FIXTURE_TEST(of_two_equal_entries_the_second_collides)
{
    static const char *const NAMES[] = {"main", "other"};
    static const char *const TEXTS[] = {
        "[{store: main, table: One}, {store: other, table: One}]",
        "[{store: other, table: One}, {store: main, table: One}]"};
    struct store *stores[] = {h.store, h.store};

    h.stores = (struct job_stores){
        .count = 2, .names = NAMES, .stores = stores, .by_default = 0};
    for (size_t i = 0; TEST_EACH(i, TEXTS); i++) {
        load_to(TEXTS[i], "fail");
        ends(RUN_FAILED);
        scene_check_reported("have the same keys");
        assert_int_equal(h.deleted, 0);
        assert_int_equal(h.written, i == 0 ? SOURCES : 0);
        assert_int_equal(hosted_count(&h, "One"), SOURCES);
    }
}

/* ---- the dry run ---- */

FIXTURE_TEST(a_dry_run_counts_former_copies)
{
    struct job_estimate estimate = {.table_count = 0};

    load(&ONE_X_ONE_Y, "fail");
    succeeds();
    load(&ONE_Y, "fail");
    assert_ok(hosted_estimate(&h, "c", "", &estimate));
    assert_non_null(strstr(estimate.details, "8 copies exist of this job"));
    assert_non_null(
        strstr(estimate.details, "4 of them were made by earlier key"));
    arena_done(&estimate.arena);
}

/* ---- index rows of another account ---- */

/* Loads a job whose `from:` has no range and no filter, so that it could read
 * the index rows as sources. */
static void load_index(const char *on_conflict)
{
    load_to("{table: Blogs, row_key: \"i_{K}\"}", on_conflict);
}

/* Leaves index rows that the job wrote while the store was another account. */
static void restore(const char *on_conflict)
{
    const char *identity = h.store->capabilities.identity;

    load_index(on_conflict);
    h.store->capabilities.identity = "another-account";
    succeeds();
    h.store->capabilities.identity = identity;
    assert_int_equal(hosted_count(&h, "Blogs"), 2 * SOURCES);
}

static void check_row(const char *row_key, const char *part)
{
    scene_check_has("Blogs", "a", row_key, part);
}

/* The ETag of a restored source may equal the ETag in its index row. The row is
 * written again nevertheless, because it names another account. */
TEST(the_next_run_writes_restored_index_rows_again)
{
    static const char *const ON_CONFLICT[] = {"fail", "skip", "replace"};

    for (size_t i = 0; TEST_EACH(i, ON_CONFLICT); i++) {
        (void)set_up(NULL);
        restore(ON_CONFLICT[i]);
        put_source(1, 1, "new", true);
        assert_true(hosted_differences(&h, "c", "differ") >= SOURCES);
        succeeds();
        assert_int_equal(h.written, SOURCES);
        assert_int_equal(h.deleted, 0);
        assert_int_equal(hosted_count(&h, "Blogs"), 2 * SOURCES);
        check_row("i_0", "\"T\":\"old\"");
        check_row("i_1", "\"T\":\"new\"");
        assert_null(strstr(scene_json("Blogs", "a", "i_0"), "another-account"));
        assert_int_equal(hosted_differences(&h, "c", ""), 0);
        succeeds();
        assert_int_equal(h.written, 0);
        (void)scene_end(NULL);
    }
}

/* The source may be in a file that was not imported. */
FIXTURE_TEST(a_restored_index_row_without_its_source_needs_consent)
{
    restore("replace");
    scene_remove("Blogs", "a", "2");
    ends(RUN_FAILED);
    assert_non_null(strstr(h.err.text, "1 former copy would be deleted"));
    assert_non_null(strstr(h.err.text, "in another account"));
    assert_int_equal(h.deleted, 0);
    check_row("i_2", "\"T\":\"old\"");
    check_row("i_0", "\"T\":\"old\"");
    h.accept_deletes = true;
    succeeds();
    assert_int_equal(h.deleted, 1);
    assert_int_equal(hosted_count(&h, "Blogs"), 2 * SOURCES - 2);
    assert_int_equal(hosted_differences(&h, "c", ""), 0);
}

FIXTURE_TEST(a_restored_index_row_is_not_replaced_by_anothers_without_consent)
{
    restore("replace");
    put_source(0, 1, "old", true);
    put_source(1, 0, "old", true);
    ends(RUN_FAILED);
    scene_check_reported("--accept-deletes");
    check_row("i_0", "\\\"key\\\":[\\\"a\\\",\\\"0\\\"]");
    check_row("i_1", "\\\"key\\\":[\\\"a\\\",\\\"1\\\"]");
    h.accept_deletes = true;
    succeeds();
    check_row("i_0", "\\\"key\\\":[\\\"a\\\",\\\"1\\\"]");
    check_row("i_1", "\\\"key\\\":[\\\"a\\\",\\\"0\\\"]");
}

/* Rule C1: rows of another job are no sources, but this job does not touch
 * them. */
FIXTURE_TEST(restored_index_rows_of_another_job_stay)
{
    restore("fail");
    hosted_load(&h, "c: {kind: copy, from: {table: Blogs}, to: {table: One}}\n"
                    "d: {kind: copy, from: {table: Blogs}, to: {table: Blogs, "
                    "row_key: \"d_{K}\"}}\n");
    succeeds();
    assert_int_equal(hosted_count(&h, "One"), SOURCES);
    scene_run("d", "", RUN_SUCCEEDED);
    assert_int_equal(hosted_count(&h, "Blogs"), 3 * SOURCES);
    check_row("i_0", "another-account");
}

/* A job copies table Blogs of another account to table Blogs of this account.
 * So TablewardSource of these copies names two tables Blogs, in two accounts.
 * For the jobs of this account these copies are sources. */
FIXTURE_TEST(copies_from_a_table_of_that_name_are_sources)
{
    struct operation operation = {.type = OPERATION_INSERT};
    const struct batch batch = {"Blogs", &operation, 1};
    struct exchange exchange = {.deadline = NULL};
    struct batch_result result;
    const struct source source = {.job = slice_of("c"),
        .by = slice_of("00000000"),
        .from = {slice_of("another-account"), slice_of("Blogs")},
        .at = source_table_of(h.store, "Blogs"),
        .partition_key = slice_of("a"),
        .row_key = slice_of("0"),
        .etag = slice_of("e")};

    load_index("fail");
    entity_init(&operation.entity, &h.arena, slice_of("b"), slice_of("0"));
    entity_set_int32(&operation.entity, &h.arena, "K", 5);
    source_stamp(&operation.entity, &source, &h.arena);
    assert_ok(store_batch(h.store, &exchange, &batch, &result));
    succeeds();
    assert_int_equal(h.deleted, 0);
    scene_check_has("Blogs", "b", "i_5", "\"K\":5");
    assert_true(hosted_has(&h, "Blogs", "b", "0"));
}
