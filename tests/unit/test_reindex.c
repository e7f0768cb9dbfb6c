/* SPDX-License-Identifier: MIT */
/* The kind reindex: what its configuration may say, and copies that are built,
 * repaired and pruned beside their sources. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/faulty.h"
#include "tests/support/hosted.h"
#include "tests/support/loading.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"

static const char JOBS[] =
    "index:\n"
    "  kind: reindex\n"
    "  table: Footwear\n"
    "  copies:\n"
    "    - {row_key: \"size:{Size:02}_{Model}\", properties: [Brand]}\n"
    "    - {row_key: \"model:{Model}_{Size:02}\"}\n"
    "other:\n"
    "  kind: reindex\n"
    "  table: Footwear\n"
    "  copies: [{partition_key: \"brand:{Brand}\"}]\n"
    "boots:\n"
    "  kind: reindex\n"
    "  table: Footwear\n"
    "  filter: \"Type eq 'Boot'\"\n"
    "  copies: [{row_key: \"boot:{Model}\", properties: [Brand]}]\n"
    "skips:\n"
    "  kind: reindex\n"
    "  table: Footwear\n"
    "  on_conflict: skip\n"
    "  copies: [{row_key: \"size:{Size:02}_{Model}\", properties: [Brand]}]\n"
    "replaces:\n"
    "  kind: reindex\n"
    "  table: Footwear\n"
    "  on_conflict: replace\n"
    "  copies: [{row_key: \"size:{Size:02}_{Model}\", properties: [Brand]}]\n"
    "models:\n"
    "  kind: reindex\n"
    "  table: Footwear\n"
    "  copies: [{row_key: \"size:{Size:02}_{Model}\", properties: [Model]}]\n"
    "prefixed:\n"
    "  kind: reindex\n"
    "  args: [{start: {allow_empty: true}}]\n"
    "  table: Footwear\n"
    "  row_key_prefix: \"{start}\"\n"
    "  copies: [{row_key: \"copy:{RowKey}\"}]\n"
    "mirrors:\n"
    "  kind: reindex\n"
    "  table: Footwear\n"
    "  copies: [{row_key: \"copy:{RowKey}\"}]\n"
    "ranks:\n"
    "  kind: reindex\n"
    "  table: Footwear\n"
    "  copies: [{row_key: \"rank:{Size}\", properties: [Model]}]\n"
    "lost:\n"
    "  kind: reindex\n"
    "  table: Nowhere\n"
    "  copies: [{row_key: \"copy:{RowKey}\"}]\n"
    "files:\n"
    "  kind: migrate\n"
    "  from: {table: Footwear, filter: \"Size gt 0\"}\n"
    "  to: {table: Footwear, row_key: \"size:{Size:02}_{Model}\"}\n"
    "  properties: [Brand]\n"
    "  mode: move\n"
    "branded:\n"
    "  kind: reindex\n"
    "  args: [brand]\n"
    "  table: Footwear\n"
    "  filter: \"Brand eq '{brand}'\"\n"
    "  copies: [{row_key: \"size:{Size:02}_{RowKey}\"}]\n";

static struct hosted h;

static int set_up(void **state)
{
    (void)state;
    hosted_init(&h, JOBS);
    hosted_table(&h, "Footwear");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hosted_done(&h);
    return 0;
}

static char *shoe(int size, const char *model, const char *brand)
{
    return mem_format(
        "\"Size\":%d,\"Model\":\"%s\",\"Brand\":\"%s\"", size, model, brand);
}

static void put(const char *row_key, int size, const char *model)
{
    char *properties = shoe(size, model, "b");

    hosted_put(&h, "Footwear", "p", row_key, properties);
    mem_free(properties);
}

static void change(const char *row_key, int size, const char *model)
{
    char *properties = shoe(size, model, "b");

    hosted_replace(&h, "Footwear", "p", row_key, properties);
    mem_free(properties);
}

static void run_again(const char *job)
{
    static char id[16];
    static int runs;

    (void)snprintf(id, sizeof(id), "again%d", runs++);
    hosted_forget(&h, id);
    h.written = h.deleted = h.passes = 0;
    assert_int_equal(hosted_run(&h, job, ""), RUN_SUCCEEDED);
}

static void check_holds(const char *wanted)
{
    assert_string_equal(hosted_dump(&h, "Footwear"), wanted);
}

static void check_copy(const char *row_key, const char *part)
{
    const char *json = hosted_json(&h, "Footwear", "p", row_key);

    assert_non_null(json);
    if (!strstr(json, part))
        fail_msg("'%s' has no '%s'", json, part);
}

/* ---- the configuration ---- */

#define HEAD "r: {kind: reindex, table: Footwear"
#define TWINS "[{row_key: \"a{A}\"}, {row_key: \"a{A}\"}]"

static void what_is_wrong_in_a_job_is_told(void **state)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {HEAD "}", "copies"},
        {HEAD ", copies: []}", "copies wants a list"},
        {HEAD ", copies: {row_key: a}}", "copies wants a list"},
        {HEAD ", copies: [{row_key: \"{RowKey}\"}]}", "its source itself"},
        {HEAD ", copies: [{properties: [A]}]}", "its source itself"},
        {HEAD ", copies: " TWINS "}", "would have the same keys"},
        {HEAD ", copies: [{row_key: \"{\"}]}", "expected a name"},
        {HEAD ", copies: [{row_key: \"a{A}\", table: Other}]}", "table"},
        {HEAD ", copies: [{row_key: \"a{A}\"}], on_conflict: merge}", "merge"},
        {HEAD ", copies: [{row_key: \"a{A}\"}], max_passes: 0}", "max_passes"},
        {HEAD ", copies: [{row_key: \"a{A}\"}], filter: \"A eq\"}", "filter"},
        {HEAD ", copies: [{row_key: \"a{A}\"}], store: nowhere}", "nowhere"},
        {HEAD ", args: [key], copies: [{row_key: \"a{A}{key}\"}]}",
            "made of its source alone"},
        {HEAD ", args: [key], copies: [{partition_key: \"{lower(key)}\"}]}",
            "made of its source alone"},
        {"r: {kind: reindex, copies: [{row_key: \"a{A}\"}]}", "table"},
        {"r: {kind: reindex, tabel: Footwear, copies: " TWINS "}", "tabel"},
        {"r: {kind: reindex, tabel: Footwear, copies: " TWINS "}",
            "would have the same keys"},
        {"r: {kind: reindex, table: a-b, copies: " TWINS "}", "'a-b'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        loading_refused(cases[i].text, cases[i].part);
}

static void more_than_sixteen_copies_are_refused(void **state)
{
    struct buf text;

    (void)state;
    buf_init(&text, 4096);
    buf_add_text(&text, HEAD ", copies: [");
    for (int i = 0; i < 17; i++)
        buf_add_format(&text, "{row_key: \"a%d{A}\"},", i);
    buf_add_text(&text, "]}");
    loading_refused(buf_text(&text), "1 to 16 copies");
    buf_done(&text);
}

static const char *explained(const char *job)
{
    const struct job *found = jobs_find(&h.jobs, slice_of(job));
    const char *copy;
    struct buf text;

    buf_init(&text, 4096);
    found->kind->explain(found, &text);
    copy = arena_copy(&h.arena, buf_slice(&text)).at;
    buf_done(&text);
    return copy;
}

static void a_job_says_what_it_keeps(void **state)
{
    (void)state;
    assert_string_equal(explained("index"),
        "read Footwear\n"
        "keep in it, of each that has no TablewardSource,\n"
        "  PartitionKey of the source, RowKey \"size:{Size:02}_{Model}\", "
        "nothing but Brand\n"
        "  PartitionKey of the source, RowKey \"model:{Model}_{Size:02}\"\n"
        "where another entity stands that is no copy, the source fails\n"
        "delete copies of this job whose source is gone or has other keys\n"
        "read again until nothing is left to do, 10 passes at most\n");
    assert_non_null(
        strstr(explained("boots"), "read Footwear where Type eq 'Boot'\n"));
    assert_non_null(strstr(explained("skips"), "there is no copy\n"));
    assert_non_null(strstr(explained("replaces"), "it is replaced\n"));
}

static void note_table(
    void *ctx, size_t store, const char *table, enum job_access access)
{
    (void)access;
    assert_int_equal(store, 0);
    *(const char **)ctx = table;
}

static void a_job_names_its_table(void **state)
{
    const struct job *job = jobs_find(&h.jobs, slice_of("index"));
    const char *table = NULL;

    (void)state;
    job->kind->tables(job, note_table, &table);
    assert_string_equal(table, "Footwear");
}

static void an_empty_prefix_selects_nothing(void **state)
{
    const struct job *job = jobs_find(&h.jobs, slice_of("prefixed"));
    const struct slice value = slice_of("");
    const struct run_args args = {1, &job->args[0].name, &value};

    (void)state;
    assert_int_equal(job->kind->accept(job, &args, &h.err), TW_INVALID);
    put("1", 42, "Trail");
    assert_int_equal(hosted_run(&h, "prefixed", ""), RUN_FAILED);
    assert_non_null(strstr(h.err.text, "it would select everything"));
    check_holds("p/1 ");
    assert_int_equal(hosted_run(&h, "prefixed", "1"), RUN_SUCCEEDED);
    check_holds("p/1 p/copy:1 ");
}

/* Nor is it made because copies would go there. */
static void a_table_that_is_missing_is_told(void **state)
{
    struct job_estimate estimate;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            hosted_estimate(&h, "lost", "", &estimate), TW_NOT_FOUND);
        arena_done(&estimate.arena);
        assert_int_equal(hosted_run(&h, "lost", ""), RUN_FAILED);
        assert_string_equal(
            h.err.text, "table Nowhere does not exist in store main");
    }
}

/* ---- building ---- */

static void copies_are_built_beside_their_sources(void **state)
{
    (void)state;
    put("1", 42, "Trail");
    put("2", 7, "Road");
    assert_int_equal(hosted_run(&h, "index", ""), RUN_SUCCEEDED);
    check_holds("p/1 p/2 p/model:Road_07 p/model:Trail_42 p/size:07_Road "
                "p/size:42_Trail ");
    assert_int_equal(h.written, 4);
    check_copy("size:42_Trail", "{\"Brand\":\"b\",\"TablewardSource\":");
    check_copy("model:Road_07", "\"Size\":7");
    check_copy("1", "{\"Size\":42,\"Model\":\"Trail\",\"Brand\":\"b\"}");
}

static void a_second_run_writes_nothing(void **state)
{
    (void)state;
    put("1", 42, "Trail");
    put("2", 7, "Road");
    assert_int_equal(hosted_run(&h, "index", ""), RUN_SUCCEEDED);
    run_again("index");
    assert_int_equal(h.written + h.deleted, 0);
}

static void an_equal_entity_becomes_a_copy(void **state)
{
    (void)state;
    put("1", 42, "Trail");
    hosted_put(&h, "Footwear", "p", "size:42_Trail", "\"Brand\":\"b\"");
    hosted_put(&h, "Footwear", "p", "model:Trail_42",
        "\"Size\":42,\"Model\":\"Trail\",\"Brand\":\"b\","
        "\"TablewardSource\":\"not one of ours\"");
    /* Before, it was a source, of which there was no copy to be made. */
    assert_int_equal(hosted_run(&h, "index", ""), RUN_SUCCEEDED);
    check_copy("size:42_Trail", "\"TablewardSource\":\"{");
    check_copy("model:Trail_42", "\"TablewardSource\":\"{");
    check_holds("p/1 p/model:Trail_42 p/size:42_Trail ");
    assert_int_equal(h.failed, 0);
}

/* ---- repairing and pruning ---- */

static void copies_follow_their_source(void **state)
{
    (void)state;
    put("1", 42, "Trail");
    put("2", 7, "Road");
    assert_int_equal(hosted_run(&h, "index", ""), RUN_SUCCEEDED);
    change("1", 43, "Trail");
    hosted_remove(&h, "Footwear", "p", "2");
    run_again("index");
    check_holds("p/1 p/model:Trail_43 p/size:43_Trail ");
    assert_int_equal(h.written, 2);
    assert_int_equal(h.deleted, 4);
}

static void what_others_did_to_a_copy_is_repaired(void **state)
{
    const char *before;
    char *spoilt;

    (void)state;
    put("1", 42, "Trail");
    assert_int_equal(hosted_run(&h, "index", ""), RUN_SUCCEEDED);
    before = hosted_json(&h, "Footwear", "p", "size:42_Trail");
    spoilt = mem_format(
        "\"Brand\":\"spoilt\",%s", strstr(before, "\"TablewardSource\""));
    spoilt[strlen(spoilt) - 1] = '\0'; /* the brace */
    hosted_replace(&h, "Footwear", "p", "size:42_Trail", spoilt);
    mem_free(spoilt);
    hosted_remove(&h, "Footwear", "p", "model:Trail_42");
    run_again("index");
    check_copy("size:42_Trail", "{\"Brand\":\"b\",");
    check_holds("p/1 p/model:Trail_42 p/size:42_Trail ");
    assert_int_equal(h.written, 2);
}

static void copies_of_another_job_are_neither_sources_nor_pruned(void **state)
{
    (void)state;
    put("1", 42, "Trail");
    assert_int_equal(hosted_run(&h, "index", ""), RUN_SUCCEEDED);
    run_again("other");
    check_holds("brand:b/1 p/1 p/model:Trail_42 p/size:42_Trail ");
    hosted_remove(&h, "Footwear", "p", "1");
    run_again("other");
    check_holds("p/model:Trail_42 p/size:42_Trail ");
    run_again("index");
    check_holds("");
}

/* It would be anew with each change of the source, by turns. */
static void another_jobs_copy_is_not_replaced_when_its_source_has_changed(
    void **state)
{
    (void)state;
    put("1", 42, "Trail");
    assert_int_equal(hosted_run(&h, "index", ""), RUN_SUCCEEDED);
    change("1", 42, "Trail");
    hosted_forget(&h, "models1");
    assert_int_equal(hosted_run(&h, "models", ""), RUN_FAILED);
    assert_non_null(strstr(h.failed_why, "that another job has made of it"));
    check_copy("size:42_Trail", "{\"Brand\":\"b\",");
    run_again("index");
    check_copy("size:42_Trail", "{\"Brand\":\"b\",");
}

static void a_copy_that_a_move_relied_on_is_not_pruned(void **state)
{
    (void)state;
    put("a", 1, "Trail");
    assert_int_equal(hosted_run(&h, "skips", ""), RUN_SUCCEEDED);
    check_holds("p/a p/size:01_Trail ");
    hosted_forget(&h, "m1");
    assert_int_equal(hosted_run(&h, "files", ""), RUN_SUCCEEDED);
    check_holds("p/size:01_Trail ");
    run_again("skips");
    check_holds("p/size:01_Trail ");
}

static void what_the_filter_no_longer_takes_loses_its_copy(void **state)
{
    (void)state;
    hosted_put(&h, "Footwear", "p", "1",
        "\"Type\":\"Boot\",\"Model\":\"A\",\"Brand\":\"b\"");
    hosted_put(&h, "Footwear", "p", "2",
        "\"Type\":\"Shoe\",\"Model\":\"B\",\"Brand\":\"b\"");
    run_again("boots");
    check_holds("p/1 p/2 p/boot:A ");
    hosted_replace(&h, "Footwear", "p", "1",
        "\"Type\":\"Shoe\",\"Model\":\"A\",\"Brand\":\"b\"");
    run_again("boots");
    check_holds("p/1 p/2 ");
}

/* The filter takes none of the other brand's sources, and still knows whose
 * copies those are. */
static void copies_of_other_arguments_stay(void **state)
{
    char *adidas = shoe(42, "Samba", "Adidas"), *puma = shoe(7, "King", "Puma");

    (void)state;
    hosted_put(&h, "Footwear", "p", "1", adidas);
    hosted_put(&h, "Footwear", "p", "2", puma);
    assert_int_equal(hosted_run(&h, "branded", "Adidas"), RUN_SUCCEEDED);
    hosted_forget(&h, "puma");
    assert_int_equal(hosted_run(&h, "branded", "Puma"), RUN_SUCCEEDED);
    check_holds("p/1 p/2 p/size:07_2 p/size:42_1 ");
    hosted_forget(&h, "puma again");
    hosted_remove(&h, "Footwear", "p", "2");
    assert_int_equal(hosted_run(&h, "branded", "Puma"), RUN_SUCCEEDED);
    check_holds("p/1 p/size:42_1 ");
    mem_free(adidas);
    mem_free(puma);
}

/* ---- what stands in the way ---- */

static void two_sources_at_one_key_are_both_told(void **state)
{
    (void)state;
    put("1", 42, "Trail");
    put("2", 42, "Trail");
    assert_int_equal(hosted_run(&h, "index", ""), RUN_FAILED);
    assert_non_null(strstr(h.failed_why, "each source needs keys of its own"));
    assert_int_equal(hosted_count(&h, "Footwear"), 4);
}

static void what_is_no_copy_stays_unless_it_may_be_replaced(void **state)
{
    static const char THEIRS[] =
        "\"Size\":1,\"Model\":\"Of its own\",\"Brand\":\"theirs\"";

    (void)state;
    put("1", 42, "Trail");
    hosted_put(&h, "Footwear", "p", "size:42_Trail", THEIRS);
    assert_int_equal(hosted_run(&h, "index", ""), RUN_FAILED);
    check_copy("size:42_Trail", "theirs");
    hosted_remove(&h, "Footwear", "p", "model:Trail_42");
    run_again("skips");
    check_copy("size:42_Trail", "theirs");
    assert_true(h.skipped >= 1);
}

/* Its copy would be the other one, which is a source. */
static void an_equal_source_does_not_become_a_copy(void **state)
{
    char *properties = shoe(1, "Trail", "b");

    (void)state;
    hosted_put(&h, "Footwear", "p", "1", properties);
    hosted_put(&h, "Footwear", "p", "copy:1", properties);
    mem_free(properties);
    assert_int_equal(hosted_run(&h, "mirrors", ""), RUN_FAILED);
    check_holds("p/1 p/copy:1 p/copy:copy:1 ");
    assert_non_null(
        strstr(h.failed_why, "stands another entity that is to be copied"));
    hosted_remove(&h, "Footwear", "p", "1");
    run_again("mirrors");
    check_holds("p/copy:1 p/copy:copy:1 ");
}

/* The former copy stood in the way for ever: that another source is to have
 * one there was taken for its own. */
static void a_key_that_one_source_leaves_another_may_take(void **state)
{
    (void)state;
    put("1", 1, "one");
    put("2", 2, "two");
    run_again("ranks");
    check_holds("p/1 p/2 p/rank:1 p/rank:2 ");
    change("1", 2, "one");
    change("2", 1, "two");
    run_again("ranks");
    check_copy("rank:1", "two");
    check_copy("rank:2", "one");
    change("1", 3, "one");
    change("2", 2, "two");
    run_again("ranks");
    check_copy("rank:2", "two");
    check_copy("rank:3", "one");
    hosted_remove(&h, "Footwear", "p", "1");
    change("2", 3, "two");
    run_again("ranks");
    check_holds("p/2 p/rank:3 ");
    check_copy("rank:3", "two");
}

static void a_source_without_the_property_is_told_and_the_rest_done(
    void **state)
{
    (void)state;
    put("1", 42, "Trail");
    hosted_put(&h, "Footwear", "p", "2", "\"Model\":\"Road\"");
    assert_int_equal(hosted_run(&h, "index", ""), RUN_FAILED);
    assert_int_equal(h.failed, 1);
    assert_non_null(strstr(h.failed_why, "Footwear p/2"));
    check_holds("p/1 p/2 p/model:Trail_42 p/size:42_Trail ");
}

/* ---- attempts end anywhere ---- */

static void whoever_goes_on_ends_as_if_undisturbed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 700; i++) {
        char *key = mem_format("s%03u", i);

        put(key, (int)(i % 60), key);
        mem_free(key);
    }
    h.stop_after = 2;
    while (hosted_run(&h, "index", "") == RUN_STOPPED)
        h.stop_after += 3;
    assert_int_equal(h.end, RUN_SUCCEEDED);
    assert_int_equal(hosted_count(&h, "Footwear"), 2100);
    run_again("index");
    assert_int_equal(h.written + h.deleted, 0);
}

/* ---- the example ---- */

#define EXAMPLE_MAX_BYTES 65536

/* The map below `jobs:`. */
static const char *read_example(char *to)
{
    const char *source = getenv("TABLEWARD_SOURCE"), *jobs;
    char *path =
        mem_format("%s/config/examples/reindex.yaml", source ? source : ".");
    FILE *file = fopen(path, "rb");
    size_t len;

    if (!file)
        fail_msg("%s cannot be read", path);
    len = fread(to, 1, EXAMPLE_MAX_BYTES - 1, file);
    to[len] = '\0';
    (void)fclose(file);
    mem_free(path);
    jobs = strstr(to, "\njobs:\n");
    assert_non_null(jobs);
    return jobs + strlen("\njobs:\n");
}

static void the_example_makes_the_keys_that_it_shows(void **state)
{
    static char text[EXAMPLE_MAX_BYTES];

    (void)state;
    hosted_init(&h, read_example(text));
    hosted_table(&h, "Footwear");
    hosted_put(&h, "Footwear", "Adidas", "00017",
        "\"Type\":\"Shoe\",\"Size\":9,\"Model\":\"Samba\",\"Gender\":\"M\","
        "\"Name\":\"n\",\"Price\":90,\"Stock\":3");
    hosted_put(&h, "Footwear", "Adidas", "00052",
        "\"Type\":\"Boot\",\"Size\":10,\"Model\":\"Terrex\",\"Gender\":\"W\","
        "\"Name\":\"n\",\"Price\":190,\"Stock\":1");
    run_again("index-footwear");
    run_again("index-boots");
    check_holds("Adidas/00017 Adidas/00052 Adidas/model:Samba_09_M "
                "Adidas/model:Terrex_10_W Adidas/size:09_Samba_M "
                "Adidas/size:10_Terrex_W type:Boot/Adidas_00052 ");
    assert_null(strstr(
        hosted_json(&h, "Footwear", "type:Boot", "Adidas_00052"), "Stock"));
    hosted_done(&h);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wrong_in_a_job_is_told),
        cmocka_unit_test(more_than_sixteen_copies_are_refused),
        TEST(a_job_says_what_it_keeps),
        TEST(a_job_names_its_table),
        TEST(an_empty_prefix_selects_nothing),
        TEST(a_table_that_is_missing_is_told),
        TEST(copies_are_built_beside_their_sources),
        TEST(a_second_run_writes_nothing),
        TEST(an_equal_entity_becomes_a_copy),
        TEST(copies_follow_their_source),
        TEST(what_others_did_to_a_copy_is_repaired),
        TEST(copies_of_another_job_are_neither_sources_nor_pruned),
        TEST(another_jobs_copy_is_not_replaced_when_its_source_has_changed),
        TEST(a_copy_that_a_move_relied_on_is_not_pruned),
        TEST(what_the_filter_no_longer_takes_loses_its_copy),
        TEST(copies_of_other_arguments_stay),
        TEST(two_sources_at_one_key_are_both_told),
        TEST(an_equal_source_does_not_become_a_copy),
        TEST(a_key_that_one_source_leaves_another_may_take),
        TEST(what_is_no_copy_stays_unless_it_may_be_replaced),
        TEST(a_source_without_the_property_is_told_and_the_rest_done),
        TEST(whoever_goes_on_ends_as_if_undisturbed),
        cmocka_unit_test(the_example_makes_the_keys_that_it_shows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
