/* SPDX-License-Identifier: MIT */
/* The configuration of a migrate job: what is read, and what is refused and
 * where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/yaml.h"
#include "jobs/job.h"
#include "jobs/migrate_rules.h"
#include "tests/support/fixture.h"

struct bench {
    struct arena arena;
    struct problems problems;
    const char *names[2]; /* of stores: main, the default one, and other */
    struct job_stores stores;
    struct job_loader loader;
    const struct copier_rules *rules;
};

static const struct slice ARG = {"channel", 7};

static void begin(struct bench *b, const char *text)
{
    const struct yaml_node *node;

    memset(b, 0, sizeof(*b));
    arena_init(&b->arena);
    problems_init(&b->problems);
    b->names[0] = "main";
    b->names[1] = "other";
    b->stores = (struct job_stores){.count = 2, .names = b->names};
    b->loader = (struct job_loader){.job = "move",
        .args = &ARG,
        .arg_count = 1,
        .stores = &b->stores,
        .arena = &b->arena,
        .problems = &b->problems};
    node = yaml_read(
        "t", arena_copy(&b->arena, slice_of(text)), &b->arena, &b->problems);
    assert_non_null(node);
    b->rules = migrate_rules_load(node, &b->loader);
    assert_int_equal(b->rules == NULL, b->problems.errors > 0);
}

static void done(struct bench *b)
{
    problems_done(&b->problems);
    arena_done(&b->arena);
}

static const struct copier_rules *good(struct bench *b, const char *text)
{
    begin(b, text);
    if (!b->rules) {
        problems_print(&b->problems, stderr);
        fail_msg("it should have loaded: %s", text);
    }
    return b->rules;
}

/* For one reason, at this place. */
static void refused(
    const char *text, unsigned line, unsigned column, const char *sentence)
{
    struct bench b;
    const struct problem *is;

    begin(&b, text);
    if (b.problems.errors != 1) {
        problems_print(&b.problems, stderr);
        fail_msg("%zu problems: %s", b.problems.errors, text);
    }
    is = &b.problems.list[b.problems.count - 1];
    if (is->mark.line != line || is->mark.column != column ||
        !strstr(is->text, sentence))
        fail_msg("%u:%u: %s, of\n%s", is->mark.line, is->mark.column, is->text,
            text);
    done(&b);
}

#define FROM "from: {table: Blogs}\n"
#define TO "to: {table: Months, row_key: '{Slug}'}\n"

/* ---- what is read ---- */

static void what_is_left_out_has_its_default(void **state)
{
    struct bench b;
    const struct copier_rules *rules = good(&b, FROM "to: {table: Months}\n");

    (void)state;
    assert_int_equal(rules->from.store, 0);
    assert_string_equal(rules->from.table, "Blogs");
    assert_true(selector_is_empty(&rules->selector));
    assert_int_equal(rules->target_count, 1);
    assert_string_equal(rules->targets[0].place.table, "Months");
    assert_null(rules->targets[0].partition_key);
    assert_null(rules->targets[0].row_key);
    assert_int_equal(rules->targets[0].shape.keep_count, 0);
    check_text(rules->provenance, slice_of("TablewardSource"));
    assert_int_equal(rules->on_conflict, CONFLICT_FAIL);
    assert_false(rules->move);
    assert_false(rules->owns);
    assert_int_equal(rules->prune, COPIER_PRUNE_RUN);
    assert_false(rules->sources_lack_provenance);
    assert_true(rules->verify);
    assert_false(rules->strip);
    assert_int_equal(rules->max_passes, 10);
    done(&b);
}

static void every_key_is_read(void **state)
{
    struct bench b;
    const struct copier_rules *rules = good(&b,
        "kind: migrate\n"
        "args: [channel]\n"
        "from: {store: other, table: Blogs, partition_key: '{channel}',\n"
        "  row_key_prefix: a, filter: 'Rating gt 3'}\n"
        "to: {store: main, table: Months, partition_key: '{PartitionKey}_x',\n"
        "  row_key: '{Slug}'}\n"
        "properties: {drop: [Legacy]}\n"
        "mode: move\n"
        "on_conflict: merge\n"
        "verify: false\n"
        "provenance: CopiedFrom\n"
        "strip: true\n"
        "max_passes: 1000\n");

    (void)state;
    assert_int_equal(rules->from.store, 1);
    assert_non_null(rules->selector.keys[SELECTOR_PARTITION_KEY]);
    assert_non_null(rules->selector.keys[SELECTOR_ROW_KEY_PREFIX]);
    assert_non_null(rules->selector.filter);
    assert_int_equal(rules->targets[0].place.store, 0);
    check_text(template_source(rules->targets[0].partition_key),
        slice_of("{PartitionKey}_x"));
    check_text(template_source(rules->targets[0].row_key), slice_of("{Slug}"));
    assert_int_equal(rules->targets[0].shape.drop_count, 1);
    assert_true(rules->move);
    assert_int_equal(rules->on_conflict, CONFLICT_MERGE);
    assert_false(rules->verify);
    check_text(rules->provenance, slice_of("CopiedFrom"));
    assert_true(rules->strip);
    assert_int_equal(rules->max_passes, 1000);
    done(&b);
}

static void a_source_may_have_several_copies(void **state)
{
    struct bench b;
    const struct copier_rules *rules = good(&b, FROM
        "to:\n"
        "  - {table: Index, row_key: 'size:{Size:02}'}\n"
        "  - {table: Index, row_key: 'model:{Model}', properties: [Name]}\n"
        "  - {store: other, table: Blogs}\n"
        "properties: {drop: [Text]}\n");

    (void)state;
    assert_int_equal(rules->target_count, 3);
    assert_int_equal(rules->targets[0].shape.drop_count, 1);
    assert_int_equal(rules->targets[1].shape.drop_count, 0);
    assert_int_equal(rules->targets[1].shape.keep_count, 1);
    assert_int_equal(rules->targets[2].place.store, 1);
    assert_null(rules->targets[2].row_key);
    done(&b);
}

static void each_word_for_a_conflict_is_read(void **state)
{
    static const char *const WORDS[] = {"fail", "skip", "replace", "merge"};
    struct bench b;

    (void)state;
    for (int i = 0; i < 4; i++) {
        char text[256];

        snprintf(text, sizeof(text), FROM TO "on_conflict: %s\n", WORDS[i]);
        assert_int_equal(good(&b, text)->on_conflict, i);
        done(&b);
    }
}

static void a_table_may_be_copied_into_itself_where_sources_are_selected(
    void **state)
{
    struct bench b;

    (void)state;
    (void)good(&b, "from: {table: Blogs, filter: \"Kind eq 'Blog'\"}\n"
                   "to: {table: blogs, row_key: 'by-slug:{Slug}'}\n"
                   "properties: {set: {Kind: Index}}\n");
    done(&b);
    (void)good(&b, "from: {table: Blogs, partition_key: new}\n"
                   "to:\n"
                   "  - {table: Blogs, partition_key: 'old'}\n"
                   "  - {table: Blogs, partition_key: 'older'}\n");
    done(&b);
    (void)good(&b, FROM "to: {store: other, table: Blogs}\n");
    done(&b);
}

/* ---- what is refused ---- */

static void a_map_that_lacks_what_it_needs_is_refused(void **state)
{
    (void)state;
    refused(TO, 1, 1, "from");
    refused(FROM, 1, 1, "to");
    refused("from: {store: main}\n" TO, 1, 7, "table");
    refused(FROM "to: {row_key: x}\n", 2, 5, "table");
    refused(
        FROM "to: Months\n", 2, 5, "a copy wants a map of keys, not 'Months'");
    refused("from: Blogs\n" TO, 1, 7, "from wants a map of keys, not 'Blogs'");
    refused(FROM "to: {table: Months, rowkey: x}\n", 2, 21,
        "did you mean 'row_key'?");
}

static void places_that_are_not_there_are_refused(void **state)
{
    (void)state;
    refused("from: {store: mian, table: Blogs}\n" TO, 1, 15,
        "unknown store 'mian', did you mean 'main'?");
    refused(FROM "to: {store: cloud, table: Months}\n", 2, 13,
        "unknown store 'cloud'");
    refused(FROM "to: {table: my-table}\n", 2, 13, "is no table name");
    refused("from: {table: 'B'}\n" TO, 1, 15, "is no table name");
}

static void values_out_of_their_range_are_refused(void **state)
{
    (void)state;
    refused(FROM TO "mode: mvoe\n", 3, 7, "mode");
    refused(FROM TO "on_conflict: overwrite\n", 3, 14, "on_conflict");
    refused(FROM TO "verify: maybe\n", 3, 9, "verify");
    refused(FROM TO "max_passes: 0\n", 3, 13, "max_passes");
    refused(FROM TO "max_passes: 1001\n", 3, 13, "max_passes");
    refused(FROM TO "provenance: [A]\n", 3, 13, "provenance");
    refused(FROM TO "provenance: RowKey\n", 3, 13, "RowKey is taken");
    refused(FROM TO "provenance: Timestamp\n", 3, 13, "Timestamp is taken");
    refused(FROM TO "provenance: a-b\n", 3, 13, "'a-b' is no property name");
}

static void templates_that_mean_nothing_are_refused(void **state)
{
    (void)state;
    refused("from: {table: Blogs, filter: 'Rating gt'}\n" TO, 1, 40, "filter");
    refused("from: {table: Blogs, partition_key: '{Rating}'}\n" TO, 1, 39,
        "Rating");
    refused(FROM "to: {table: Months, row_key: '{yaer(A)}'}\n", 2, 32, "year");
    refused(FROM "to: {table: Months, partition_key: [a]}\n", 2, 36,
        "this key wants a text");
}

static void keys_that_can_never_be_right_are_refused(void **state)
{
    (void)state;
    refused(FROM "to: {table: Months, row_key: '{Brand}/{Model}'}\n", 2, 30,
        "RowKey '/' contains the character /");
    refused(FROM "to: {table: Months, partition_key: '#1'}\n", 2, 36,
        "PartitionKey '#1' contains the character #");
}

static void braces_and_texts_of_templates_are_no_part_of_a_key(void **state)
{
    struct bench b;

    (void)state;
    (void)good(&b, FROM
        "to: {table: Months, row_key: \"{{{if(A == '/}?', A / 2, B)}}}\"}\n");
    done(&b);
    refused(FROM "to: {table: Months, row_key: '{{{A}}}/'}\n", 2, 30,
        "RowKey '{}/' contains the character /");
}

static void copies_that_would_be_sources_are_refused(void **state)
{
    (void)state;
    refused(FROM "to: {table: blogs, row_key: '{Slug}'}\n", 2, 5,
        "blogs is read and written at once");
    refused("from: {table: Blogs, filter: 'A eq 1'}\nto: {table: Blogs}\n", 2,
        5, "the copies would be the sources themselves");
    refused("from: {table: Blogs, filter: 'A eq 1'}\n"
            "to:\n"
            "  - {table: Months}\n"
            "  - {table: Blogs, partition_key: '{PartitionKey}'}\n",
        4, 5, "the copies would be the sources themselves");
}

static void two_copies_at_the_same_keys_are_refused(void **state)
{
    (void)state;
    refused(FROM "to:\n"
                 "  - {table: Index, row_key: '{Slug}'}\n"
                 "  - {table: Other, row_key: '{Slug}'}\n"
                 "  - {table: index, row_key: '{Slug}', partition_key: "
                 "'{PartitionKey}'}\n",
        5, 5, "two copies of each source would have the same keys");
}

static void too_few_or_too_many_copies_are_refused(void **state)
{
    struct buf text;

    (void)state;
    refused(FROM "to: []\n", 2, 5, "to wants 1 to 16 copies of each source");
    buf_init(&text, 4096);
    buf_add_text(&text, FROM "to:\n");
    for (int i = 0; i < 17; i++)
        buf_add_format(&text, "  - {table: Index, row_key: 'r%d'}\n", i);
    refused(buf_text(&text), 3, 3, "not 17");
    buf_done(&text);
}

static void properties_are_checked_with_the_name_of_provenance(void **state)
{
    (void)state;
    refused(FROM TO "properties: {drop: [TablewardSource]}\n", 3, 21,
        "TablewardSource says where a copy comes from");
    refused(FROM TO "provenance: Mine\nproperties: {keep: [Mine]}\n", 4, 21,
        "Mine says where a copy comes from");
    refused(FROM "to: {table: Months, properties: {keep: A}}\n", 2, 40,
        "keep wants a list");
}

static void all_that_is_wrong_is_said_at_once(void **state)
{
    struct bench b;

    (void)state;
    begin(&b, "from: {table: B}\n"
              "to: [{table: A, row_key: '{'}, {table: C}]\n"
              "properties: {keep: A}\n"
              "mode: x\n"
              "provenance: 5\n");
    assert_int_equal(b.problems.errors, 7);
    done(&b);
    begin(&b, "from: {table: Blogs, tabel: x}\n"
              "to:\n"
              "  - {table: Blogs, row_key: x}\n"
              "  - {table: Blogs, partition_key: x}\n");
    assert_int_equal(b.problems.errors, 1);
    done(&b);
    begin(&b, FROM "to:\n"
                   "  - {table: Blogs, row_key: x}\n"
                   "  - {table: Blogs, partition_key: x}\n"
                   "provenance: RowKey\n"
                   "properties: {drop: [A]}\n");
    assert_int_equal(b.problems.errors, 3);
    done(&b);
    begin(&b, FROM "to:\n"
                   "  - {table: Months, row_key: '#', properties: [A]}\n"
                   "  - {table: Index, row_key: x}\n");
    assert_int_equal(b.problems.errors, 1);
    done(&b);
}

static void an_environment_variable_may_be_missing(void **state)
{
    struct bench b;

    (void)state;
    unsetenv("NOT_SET_HERE");
    (void)good(&b, FROM "to: {table: Months, row_key: '${NOT_SET_HERE}'}\n");
    assert_string_equal(b.loader.unset, "NOT_SET_HERE");
    done(&b);
}

/* ---- explain ---- */

static void explained(const char *text, const char *expected)
{
    struct bench b;
    struct buf is;

    buf_init(&is, 65536);
    migrate_rules_explain(good(&b, text), &is);
    assert_string_equal(buf_text(&is), expected);
    buf_done(&is);
    done(&b);
}

static void a_copy_is_explained(void **state)
{
    (void)state;
    explained(FROM "to:\n"
                   "  - {table: Months, partition_key: '{Month}'}\n"
                   "  - {table: Index, row_key: '{Slug}', properties: [A]}\n",
        "read all of Blogs\n"
        "copy each, with TablewardSource, to\n"
        "  Months: PartitionKey \"{Month}\", RowKey of the source\n"
        "  Index: PartitionKey of the source, RowKey \"{Slug}\", nothing but "
        "A\n"
        "insert each; where another entity stands that is no copy, the source "
        "fails, and stays\n"
        "compare both sides, and mend what differs, until they agree, 10 times "
        "at most;\n"
        "  a copy that this run wrote goes when its source is gone\n"
        "fail where a copy is left over\n");
}

static void a_move_is_explained(void **state)
{
    (void)state;
    explained(FROM TO "mode: move\non_conflict: skip\nverify: false\n",
        "read all of Blogs\n"
        "copy each, with TablewardSource, to\n"
        "  Months: PartitionKey of the source, RowKey \"{Slug}\"\n"
        "insert each; where another entity stands that is no copy, the source "
        "is skipped, and stays\n"
        "delete each from Blogs once its copies are stored, with the ETag that "
        "was copied\n"
        "read again until nothing is left to move, 10 passes at most\n");
    explained("from: {table: Blogs, partition_key: '{channel}'}\n" TO
              "mode: move\non_conflict: replace\nstrip: true\nmax_passes: 3\n",
        "read Blogs where PartitionKey is \"{channel}\"\n"
        "copy each, with TablewardSource, to\n"
        "  Months: PartitionKey of the source, RowKey \"{Slug}\"\n"
        "insert each; where another entity stands that is no copy, it is "
        "replaced, with the ETag read\n"
        "delete each from Blogs once its copies are stored, with the ETag that "
        "was copied\n"
        "read again until nothing is left to move, 3 passes at most\n"
        "read the copies once more\n"
        "take TablewardSource off the copies\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_out_has_its_default),
        cmocka_unit_test(every_key_is_read),
        cmocka_unit_test(a_source_may_have_several_copies),
        cmocka_unit_test(each_word_for_a_conflict_is_read),
        cmocka_unit_test(
            a_table_may_be_copied_into_itself_where_sources_are_selected),
        cmocka_unit_test(a_map_that_lacks_what_it_needs_is_refused),
        cmocka_unit_test(places_that_are_not_there_are_refused),
        cmocka_unit_test(values_out_of_their_range_are_refused),
        cmocka_unit_test(templates_that_mean_nothing_are_refused),
        cmocka_unit_test(keys_that_can_never_be_right_are_refused),
        cmocka_unit_test(braces_and_texts_of_templates_are_no_part_of_a_key),
        cmocka_unit_test(copies_that_would_be_sources_are_refused),
        cmocka_unit_test(two_copies_at_the_same_keys_are_refused),
        cmocka_unit_test(too_few_or_too_many_copies_are_refused),
        cmocka_unit_test(properties_are_checked_with_the_name_of_provenance),
        cmocka_unit_test(all_that_is_wrong_is_said_at_once),
        cmocka_unit_test(an_environment_variable_may_be_missing),
        cmocka_unit_test(a_copy_is_explained),
        cmocka_unit_test(a_move_is_explained),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
