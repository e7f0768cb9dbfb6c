/* SPDX-License-Identifier: MIT */
/* The configuration of a cascade-delete job: what is read, what is refused. */
#include <stdlib.h>
#include <string.h>

#include "jobs/cascade/rules.h"
#include "tests/support/fixture.h"
#include "tests/support/loading.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"

#define HEAD                                                                   \
    "purge:\n"                                                                 \
    "  kind: cascade-delete\n"                                                 \
    "  args: [channel]\n"
#define PARENT                                                                 \
    "  parent: {table: Channels, partition_key: all, "                         \
    "row_key: \"{channel}\", tombstone: {Deleted: true}}\n"
#define CHILDREN "  children: [{table: Blogs, partition_key: \"{channel}\"}]\n"
#define PARENT_CREATED(created)                                                \
    "  parent: {table: Channels, partition_key: all, row_key: x, "             \
    "tombstone: {Deleted: true}, created: " created "}\n"
#define PARENT_WITH(tombstone)                                                 \
    "  parent: {table: Channels, partition_key: all, "                         \
    "row_key: \"{channel}\", tombstone: " tombstone "}\n"

static const struct cascade *load(struct loading *l, const char *text)
{
    loading_good(l, text);
    assert_int_equal(l->jobs.count, 1);
    return l->jobs.list[0].settings;
}

/* ---- the parent and its place ---- */

TEST(a_parent_and_its_children_are_wanted)
{
    loading_refused(HEAD, "parent");
    loading_refused(HEAD CHILDREN, "parent");
    loading_refused(HEAD PARENT, "children");
    loading_refused(HEAD "  parent: {}\n" CHILDREN, "table");
    loading_refused(HEAD "  parent: {table: Channels}\n" CHILDREN, "row_key");
    loading_refused(HEAD "  parent: {table: Channels, partition_key: a, "
                         "row_key: b}\n" CHILDREN,
        "tombstone");
    loading_refused(HEAD "  parent: Channels\n" CHILDREN, "parent");
}

TEST(a_parents_keys_are_templates)
{
    static const char *const BAD[] = {
        "  parent: {table: Channels, partition_key: \"{chanel}\", "
        "row_key: x, tombstone: {Deleted: true}}\n",
        "  parent: {table: Channels, partition_key: x, "
        "row_key: \"{chanel}\", tombstone: {Deleted: true}}\n",
    };

    for (size_t i = 0; TEST_EACH(i, BAD); i++) {
        char *text = mem_format("%s%s", HEAD CHILDREN, BAD[i]);

        loading_refused(text, "chanel");
        mem_free(text);
    }
    loading_refused(HEAD CHILDREN
        "  parent: {table: Channels, partition_key: [x], row_key: x, "
        "tombstone: {Deleted: true}}\n",
        "text");
}

TEST(a_table_has_a_name_that_the_service_takes)
{
    loading_refused(HEAD CHILDREN
        "  parent: {table: my-table, partition_key: all, row_key: x, "
        "tombstone: {Deleted: true}}\n",
        "my-table");
    loading_refused(HEAD PARENT
        "  children: [{table: my-table, partition_key: x}]\n",
        "my-table");
}

TEST(an_empty_table_name_is_refused)
{
    loading_refused(HEAD CHILDREN
        "  parent: {table: '', partition_key: all, row_key: x, "
        "tombstone: {Deleted: true}}\n",
        "invalid table name ''");
    loading_refused(HEAD PARENT "  children: [{table: '', partition_key: x}]\n",
        "invalid table name ''");
}

LOADING_TEST(a_store_is_one_of_the_configuration)
{
    const struct cascade *cascade;

    cascade =
        load(l, HEAD PARENT "  children: [{table: Blogs, partition_key: x, "
                            "store: other}]\n");
    assert_int_equal(cascade->store, 0);
    assert_int_equal(cascade->rules[0].store, 1);
    loading_refused(HEAD PARENT "  children: [{table: Blogs, "
                                "partition_key: x, store: othr}]\n",
        "other");
    loading_refused(HEAD PARENT "  children: [{table: Blogs, "
                                "partition_key: x, store: ''}]\n",
        "store is empty: name one of stores, or remove the key");
    setenv("HOLDS_NOTHING", "", 1);
    loading_refused(HEAD CHILDREN
        "  parent: {store: \"${HOLDS_NOTHING}\", table: Channels, "
        "partition_key: a, row_key: b, tombstone: {Deleted: true}}\n",
        "store is empty");
}

LOADING_TEST(of_several_stores_one_must_be_named)
{
    loading_begin_with(l, HEAD PARENT CHILDREN, 2, 2);
    assert_int_equal(l->jobs.count, 0);
    assert_true(loading_says(l, "there are several stores"));
    assert_int_equal(l->problems.errors, 2); /* of the parent, of the rule */
}

/* An empty name is refused, because it would switch off the check of the time
 * of creation. */
LOADING_TEST(the_time_of_creation_is_a_property)
{
    assert_true(slice_is(
        load(l, HEAD CHILDREN PARENT_CREATED("Since"))->created, "Since"));
    assert_int_equal(load(l, HEAD CHILDREN PARENT)->created.len, 0);
    loading_refused(HEAD CHILDREN PARENT_CREATED("''"),
        "`created` must name a property that the application can set: invalid "
        "property name ''");
    loading_refused(HEAD CHILDREN PARENT_CREATED("created on"),
        "invalid property name 'created on'");
    loading_refused(HEAD CHILDREN PARENT_CREATED("Timestamp"),
        "the application cannot set Timestamp");
    loading_refused(HEAD CHILDREN PARENT_CREATED("Deleted"),
        "Deleted is set by the tombstone");
}

/* ---- the tombstone ---- */

TEST(a_tombstone_is_a_map_of_values)
{
    loading_refused(
        HEAD PARENT_WITH("Deleted") CHILDREN, "tombstone needs properties");
    loading_refused(
        HEAD PARENT_WITH("{}") CHILDREN, "tombstone needs properties");
    loading_refused(HEAD PARENT_WITH("{Deleted: [true]}") CHILDREN,
        "tombstone property Deleted needs a value");
    loading_refused(HEAD PARENT_WITH("{Deleted: }") CHILDREN,
        "tombstone property Deleted needs a value");
    loading_refused(HEAD PARENT_WITH("{Deleted: null}") CHILDREN,
        "tombstone property Deleted needs a value");
    loading_refused(HEAD PARENT_WITH("{Deleted: ~}") CHILDREN,
        "tombstone property Deleted needs a value");
}

TEST(a_tombstone_sets_nothing_that_is_not_its_own)
{
    loading_refused(HEAD PARENT_WITH("{PartitionKey: x}") CHILDREN,
        "a tombstone cannot set PartitionKey");
    loading_refused(HEAD PARENT_WITH("{RowKey: x}") CHILDREN,
        "a tombstone cannot set RowKey");
    loading_refused(HEAD PARENT_WITH("{Timestamp: x}") CHILDREN,
        "a tombstone cannot set Timestamp");
    loading_refused(HEAD PARENT_WITH("{TablewardRun: x}") CHILDREN,
        "a tombstone cannot set TablewardRun");
    loading_refused(HEAD PARENT_WITH("{'a b': x}") CHILDREN, "a b");
}

LOADING_TEST(a_plain_value_is_what_it_looks_like)
{
    static const struct {
        const char *name;
        enum edm_type type;
        const char *json;
    } WANTED[] = {
        {"Yes", EDM_BOOLEAN, "true"},
        {"No", EDM_BOOLEAN, "false"},
        {"Small", EDM_INT32, "-7"},
        {"Large", EDM_INT64, "\"3000000000\""},
        {"Half", EDM_DOUBLE, "0.5"},
        {"Word", EDM_STRING, "\"gone\""},
        {"Quoted", EDM_STRING, "\"true\""},
        {"Number", EDM_STRING, "\"7\""},
        {"Nothing", EDM_STRING, "\"null\""},
    };
    const struct cascade *cascade = load(l,
        HEAD PARENT_WITH("{Yes: true, No: false, Small: -7, Large: 3000000000, "
                         "Half: 0.5, Word: gone, Quoted: 'true', "
                         "Number: '7', Nothing: 'null'}") CHILDREN);
    const struct entity *tombstone = cascade->tombstone;

    assert_int_equal(
        tombstone->property_count, sizeof(WANTED) / sizeof(WANTED[0]));
    for (size_t i = 0; i < tombstone->property_count; i++) {
        const struct property *is =
            entity_find(tombstone, slice_of(WANTED[i].name));

        assert_non_null(is);
        assert_int_equal(is->type, WANTED[i].type);
        check_text(is->json, slice_of(WANTED[i].json));
    }
}

/* Some YAML readers take such a word for a boolean. It was once written as a
 * text, which the application did not recognise as its tombstone. */
LOADING_TEST(what_is_like_a_boolean_is_asked_about)
{
    static const char *const WORDS[] = {
        "True", "TRUE", "yes", "on", "False", "No", "OFF"};

    for (size_t i = 0; TEST_EACH(i, WORDS); i++) {
        char *plain =
            mem_format(HEAD PARENT_WITH("{Deleted: %s}") CHILDREN, WORDS[i]);
        char *quoted =
            mem_format(HEAD PARENT_WITH("{Deleted: '%s'}") CHILDREN, WORDS[i]);

        loading_refused(plain, "must be true or false, or a text in quotes");
        load(l, quoted);
        mem_free(plain);
        mem_free(quoted);
    }
}

LOADING_TEST(a_tombstones_texts_know_the_environment)
{
    static const struct {
        const char *name, *json;
    } WANTED[] = {
        {"Quoted", "\"by ops\""},
        {"Plain", "\"ops\""},
        {"Number", "\"7\""},
        {"Fallback", "\"me\""},
        {"Argument", "\"{channel}\""},
    };
    const struct cascade *cascade;

    setenv("WHO", "ops", 1);
    setenv("SEVEN", "7", 1);
    unsetenv("NOT_SET_HERE");
    cascade = load(l, HEAD CHILDREN "  parent:\n"
                                    "    table: Channels\n"
                                    "    partition_key: all\n"
                                    "    row_key: x\n"
                                    "    tombstone:\n"
                                    "      Quoted: 'by ${WHO}'\n"
                                    "      Plain: ${WHO}\n"
                                    "      Number: ${SEVEN}\n"
                                    "      Fallback: '${NOT_SET_HERE:-me}'\n"
                                    "      Argument: '{channel}'\n");
    for (size_t i = 0; TEST_EACH(i, WANTED); i++) {
        const struct property *is =
            entity_find(cascade->tombstone, slice_of(WANTED[i].name));

        assert_non_null(is);
        assert_int_equal(is->type, EDM_STRING);
        check_text(is->json, slice_of(WANTED[i].json));
    }
    assert_null(l->jobs.list[0].unset);
    load(l, HEAD PARENT_WITH("{By: '${NOT_SET_HERE}'}") CHILDREN);
    assert_string_equal(l->jobs.list[0].unset, "NOT_SET_HERE");
    loading_refused(
        HEAD PARENT_WITH("{By: '${WHO'}") CHILDREN, "write ${NAME}");
}

/* ---- rules ---- */

TEST(children_are_a_list_of_rules)
{
    loading_refused(
        HEAD PARENT "  children: Blogs\n", "children must be a list");
    loading_refused(HEAD PARENT "  children: []\n", "children must be a list");
    loading_refused(HEAD PARENT "  children: [Blogs]\n", "a child rule");
    loading_refused(HEAD PARENT "  children: [{partition_key: x}]\n", "table");
}

TEST(a_rule_that_takes_a_whole_table_is_refused)
{
    loading_refused(HEAD PARENT "  children: [{table: Blogs}]\n",
        "this rule would select every entity of Blogs");
    loading_refused(HEAD PARENT "  children: [{table: Blogs, filter: \"\"}]\n",
        "this filter is empty");
    loading_refused(HEAD PARENT
        "  children: [{table: Blogs, partition_key: a, children: "
        "[{table: Likes, filter: \"${HOLDS_NOTHING:-}\"}]}]\n",
        "this filter is empty");
}

TEST(a_rules_templates_are_checked_where_they_stand)
{
    loading_refused(HEAD PARENT
        "  children: [{table: Blogs, partition_key: \"{x\"}]\n",
        "never closed");
    loading_refused(
        HEAD PARENT "  children: [{table: Blogs, row_key: [x]}]\n", "text");
    loading_refused(HEAD PARENT
        "  children: [{table: Blogs, filter: \"A eq {lower(x}\"}]\n",
        "expected )");
}

/* A first-level rule is bound to the parent, in every pass with the same
 * values. */
LOADING_TEST(a_first_level_rule_may_read_the_parent)
{
    const struct cascade *cascade = load(l,
        HEAD PARENT "  children:\n"
                    "    - {table: Blogs, partition_key: \"{Owner}\", "
                    "row_key_prefix: \"{RowKey}_{Kind}\"}\n"
                    "    - {table: Posts, partition_key: \"{PartitionKey}\"}\n"
                    "    - {table: Likes, partition_key: \"{channel}\", "
                    "filter: \"Kind eq '{Kind}'\"}\n");

    assert_int_equal(cascade->need_count, 2);
    assert_true(slice_is(cascade->needs[0], "Owner"));
    assert_true(slice_is(cascade->needs[1], "Kind"));
    assert_true(cascade->rules[0].reads_parent);
    assert_false(cascade->rules[1].reads_parent);
    assert_true(cascade->rules[2].reads_parent);
    loading_refused(HEAD PARENT
        "  children: [{table: Blogs, partition_key: \"{Deleted}\"}]\n",
        "reads property Deleted of the parent, which the tombstone changes");
    loading_refused(HEAD PARENT
        "  children: [{table: Blogs, partition_key: \"{year(Timestamp)}\"}]\n",
        "reads property Timestamp of the parent");
    loading_refused(HEAD PARENT
        "  children: [{table: Blogs, partition_key: \"{TablewardRun}\"}]\n",
        "reads property TablewardRun of the parent");
    load(l, HEAD PARENT
        "  children: [{table: Blogs, partition_key: \"{chanel}\"}]\n");
    assert_true(loading_says(l,
        "reads property 'chanel' of the parent: did you mean the argument "
        "'channel'?"));
}

LOADING_TEST(a_rule_may_say_that_its_table_is_optional)
{
    const struct cascade *cascade = load(l,
        HEAD PARENT "  children:\n"
                    "    - {table: Blogs, partition_key: a, optional: true}\n"
                    "    - {table: Posts, partition_key: a}\n");

    assert_true(cascade->rules[0].optional);
    assert_false(cascade->rules[1].optional);
    loading_refused(HEAD PARENT
        "  children: [{table: Blogs, partition_key: a, optional: maybe}]\n",
        "optional");
}

/* Such a mistake once crashed the program: the number of rules was set without
 * the rules. */
TEST(a_mistake_in_a_nested_rule_is_told_and_survived)
{
    loading_refused(HEAD PARENT "  children: [{table: Blogs, partition_key: a, "
                                "children: [{table: Likes}]}]\n",
        "would select every entity of Likes");
    loading_refused(HEAD PARENT "  children: [{table: Blogs, partition_key: a, "
                                "children: [{table: Likes, row_key: b, "
                                "children: [{table: no-table}]}]}]\n",
        "no-table");
}

LOADING_TEST(a_prefix_without_a_filter_is_warned_of)
{
    load(l, HEAD PARENT "  children: [{table: Blogs, row_key_prefix: "
                        "\"{channel}_\"}]\n");
    assert_int_equal(l->problems.warnings, 1);
    assert_true(loading_says(l, "row_key_prefix without a filter"));
    load(l,
        HEAD PARENT "  children: [{table: Blogs, row_key_prefix: "
                    "\"{channel}_\", filter: \"Channel eq '{channel}'\"}]\n");
    assert_int_equal(l->problems.warnings, 0);
}

TEST(rules_are_nested_eight_deep_at_most)
{
    struct buf text;

    for (int depth = 8; depth <= 9; depth++) {
        buf_init(&text, 4096);
        buf_add_text(&text, HEAD PARENT "  children: ");
        for (int i = 0; i < depth; i++)
            buf_add_format(&text, "[{table: Tab%d, partition_key: x%s", i,
                i < depth - 1 ? ", children: " : "");
        for (int i = 0; i < depth; i++)
            buf_add_text(&text, "}]");
        buf_add_text(&text, "\n");
        if (depth == 8) {
            struct loading l = {.names = {NULL}};

            load(&l, buf_text(&text));
            loading_done(&l);
        } else {
            loading_refused(
                buf_text(&text), "children are nested more than 8 deep");
        }
        buf_done(&text);
    }
}

/* Each property that the templates of the children read is read with the
 * entity, once. */
LOADING_TEST(a_rule_reads_what_its_children_need)
{
    const struct cascade *cascade = load(l, HEAD PARENT
        "  children:\n"
        "    - table: Blogs\n"
        "      partition_key: x\n"
        "      children:\n"
        "        - {table: Likes, partition_key: \"{A}{B}{C}{D}{E}\", "
        "row_key: \"{F}{G}{H}{I}\"}\n"
        "        - {table: Views, partition_key: \"{A}{I}\", "
        "filter: \"Blog eq {J}\"}\n");
    const struct rule *rule = &cascade->rules[0];

    assert_int_equal(rule->need_count, 10);
    for (size_t i = 0; i < rule->need_count; i++) {
        char name[2] = {(char)('A' + i), '\0'};

        assert_true(slice_is(rule->needs[i], name));
    }
}

/* ---- two rules that find the same ---- */

/* children: a list of rules in YAML. part: text of the expected problem; NULL:
 * none is expected. */
static void expect_overlap(const char *children, const char *part)
{
    char *text = mem_format(HEAD PARENT "  children: %s\n", children);

    if (part) {
        loading_refused(text, part);
    } else {
        struct loading l = {.names = {NULL}};

        load(&l, text);
        loading_done(&l);
    }
    mem_free(text);
}

#define LIKES "{table: Likes, partition_key: \"{RowKey}\"}"
#define VIEWS "{table: Views, partition_key: \"{RowKey}\"}"
#define UNDER_BLOGS(rule)                                                      \
    "{table: Blogs, partition_key: \"{channel}\", children: [" rule "]}"
#define COMMENTS(children)                                                     \
    "{table: Comments, partition_key: \"{RowKey}\", children: [" children "]}"
#define TAGGED "{table: comments, filter: \"Channel eq '{channel}'\""

/* The walk cannot evaluate a rule that is bound to another entity. The likes of
 * a comment once stayed, and the run ended as succeeded. */
TEST(a_rule_sees_what_another_sees_under_the_same_entity)
{
    expect_overlap("[" TAGGED "}, " UNDER_BLOGS(COMMENTS(LIKES)) "]",
        "this rule and the rule in line 5 both find entities of comments, but "
        "only the other rule has the children in Likes where PartitionKey is "
        "\"{RowKey}\"");
    expect_overlap("[" TAGGED ", children: [{table: Likes, partition_key: "
                   "\"of_{RowKey}\"}]}, " UNDER_BLOGS(COMMENTS(LIKES)) "]",
        "only the other rule has the children in Likes where");
    expect_overlap("[" TAGGED ", children: [" LIKES
                   "]}, " UNDER_BLOGS(COMMENTS(LIKES ", " VIEWS)) "]",
        "only the other rule has the children in Views");
    expect_overlap("[" TAGGED ", children: [" LIKES "]}, " UNDER_BLOGS(
                       COMMENTS("{table: Likes, partition_key: \"{RowKey}\", "
                                "children: [" VIEWS "]}")) "]",
        "only the other rule has the children in Views");
    /* The other rule is below the rule itself. */
    expect_overlap("[" UNDER_BLOGS("{table: Blogs, partition_key: "
                                   "\"{RowKey}\", children: [" LIKES "]}") "]",
        "only the other rule has the children in Likes");
}

#define IN_CHANNEL(rule)                                                       \
    "{table: Comments, partition_key: \"{channel}\", children: [" rule "]}"
#define ALSO(children)                                                         \
    "{table: Comments, filter: \"Also eq '{RowKey}'\", children: [" children   \
    "]}"
#define A_LEAF(of) "{table: Comments, " of "}, "

/* Sibling rules below the root: what one rule finds under a blog, the other may
 * find under a later blog; it is then deleted before the other rule is
 * evaluated. */
TEST(a_rule_beside_another_may_find_what_that_finds_elsewhere)
{
    expect_overlap(
        "[" UNDER_BLOGS(A_LEAF("partition_key: \"{RowKey}\"") ALSO(LIKES)) "]",
        "only the other rule has the children in Likes where PartitionKey is");
    expect_overlap("[" UNDER_BLOGS(A_LEAF("partition_key: \"{PartitionKey}\"")
                           COMMENTS(LIKES)) "]",
        "only the other rule has the children in Likes");
    expect_overlap("[" UNDER_BLOGS(A_LEAF("partition_key: \"{RowKey}\"")
                           COMMENTS(LIKES)) "]",
        NULL);
    expect_overlap("[" UNDER_BLOGS(A_LEAF("filter: \"Also eq '{RowKey}'\"")
                           ALSO(LIKES)) "]",
        NULL);
    expect_overlap(
        "[" UNDER_BLOGS(A_LEAF(
            "partition_key: \"{RowKey}\"") "{table: Comments, "
                                           "partition_key: "
                                           "\"{RowKey}\", filter: "
                                           "\"Channel eq '{channel}'\""
                                           ", children: [" LIKES "]}") "]",
        NULL);
    /* At the root each rule is bound only once. */
    expect_overlap("[" TAGGED "}, " IN_CHANNEL(LIKES) "]", NULL);
}

TEST(rules_with_the_same_children_may_find_the_same)
{
    expect_overlap(
        "[" UNDER_BLOGS(COMMENTS(
            LIKES)) ", {table: Photos, "
                    "partition_key: \"{channel}\", children: [" COMMENTS(
                        VIEWS ", " LIKES) "]}]",
        "has the children in Views");
    expect_overlap(
        "[" UNDER_BLOGS(COMMENTS(
            LIKES ", " VIEWS)) ", {table: "
                               "Photos, partition_key: \"{channel}\", "
                               "children: [" COMMENTS(VIEWS ", " LIKES) "]}]",
        NULL);
    expect_overlap("[" TAGGED ", children: [" VIEWS ", " LIKES "]}]", NULL);
    expect_overlap(
        "[" UNDER_BLOGS(
            LIKES ", {table: Blogs, partition_key: "
                  "\"{PartitionKey}_{RowKey}\", children: [" LIKES "]}") "]",
        NULL);
    /* A table of the same name in another store is another table. */
    expect_overlap("[{store: other, table: Comments, partition_key: "
                   "\"{channel}\"}, " UNDER_BLOGS(COMMENTS(LIKES)) "]",
        NULL);
    /* A sibling of the rule, or of a rule above it, is evaluated before an
     * entity is deleted. */
    expect_overlap(
        "[{table: Likes, partition_key: \"{channel}\", children: [" VIEWS
        "]}, " UNDER_BLOGS(COMMENTS(LIKES)) "]",
        NULL);
}

/* ---- rules that reach their own entities ---- */

#define REACHES "under an entity of Blogs this rule can find further"
#define NESTED(one, other)                                                     \
    "[{table: Blogs, " one ", children: [{table: Blogs, " other "}]}]"

/* Entities under one another in a cycle once made the run fail after it had
 * deleted others. */
TEST(a_rule_that_reaches_itself_in_another_partition_is_refused)
{
    expect_overlap(
        NESTED("partition_key: \"{channel}\"", "partition_key: \"{RowKey}\""),
        REACHES);
    expect_overlap(NESTED("partition_key: \"{channel}\"",
                       "filter: \"Parent eq '{RowKey}'\""),
        REACHES);
    expect_overlap(NESTED("partition_key: \"{channel}\"",
                       "partition_key_prefix: \"{PartitionKey}\", "
                       "row_key: \"x\""),
        REACHES);
    /* Through another table, and through another rule. */
    expect_overlap("[{table: Blogs, partition_key: \"{channel}\", children: "
                   "[{table: Likes, partition_key: \"{RowKey}_x\", children: "
                   "[{table: blogs, partition_key: \"{RowKey}\"}]}]}]",
        "under an entity of blogs this rule can find further");
    expect_overlap("[{table: Blogs, partition_key: \"{channel}\", children: "
                   "[{table: Likes, partition_key: \"{RowKey}\"}]}, "
                   "{table: Likes, partition_key: \"{channel}\", children: "
                   "[{table: Blogs, partition_key: \"{RowKey}\"}]}]",
        "in other partitions");
}

TEST(rules_that_show_that_they_end_may_reach_themselves)
{
    /* Within one partition a run detects a cycle itself. */
    expect_overlap(NESTED("partition_key: \"{channel}\"",
                       "partition_key: \"{PartitionKey}\", filter: \"In eq "
                       "'{RowKey}'\""),
        NULL);
    /* A key gets longer. */
    expect_overlap(NESTED("partition_key: \"{channel}\"",
                       "partition_key: \"{PartitionKey}_{RowKey}\""),
        NULL);
    expect_overlap(NESTED("partition_key_prefix: \"{channel}_\"",
                       "partition_key_prefix: \"{PartitionKey}_\""),
        NULL);
    expect_overlap(NESTED("partition_key: \"{channel}\"",
                       "partition_key: \"x\", row_key_prefix: \"{RowKey}.\""),
        NULL);
    /* The two rules never find the same entity. */
    expect_overlap(NESTED("partition_key: \"{channel}\", row_key_prefix: \"a\"",
                       "partition_key: \"{RowKey}\", row_key_prefix: \"b\""),
        NULL);
    expect_overlap(NESTED("partition_key: \"c_{channel}\"",
                       "partition_key: \"b_{RowKey}\""),
        NULL);
    expect_overlap(NESTED("partition_key: \"{channel}\", filter: \"Type eq 'a' "
                          "and Size gt 5\"",
                       "partition_key: \"{RowKey}\", filter: \"Of eq "
                       "'{RowKey}' and Type eq 'b'\""),
        NULL);
    expect_overlap(NESTED("partition_key: \"{channel}\", filter: \"Type eq 'a' "
                          "or Size gt 5\"",
                       "partition_key: \"{RowKey}\", filter: \"Type eq 'b'\""),
        REACHES);
}

/* ---- beside a move (rule L4) ---- */

#define MOVE(from, to)                                                         \
    "archive-posts:\n  kind: move\n  from: {table: " from                      \
    "}\n  to: {table: " to "}\n"
#define RULE(table) "{table: " table ", partition_key: \"{channel}\"}"
#define BESIDE(move, rules) HEAD PARENT "  children: [" rules "]\n" move

/* Expect a problem that exists only because of both jobs together. */
static void refused_together(const char *text, const char *part)
{
    struct loading l = {.names = {NULL}};

    loading_begin(&l, text);
    assert_true(l.problems.errors > 0);
    if (!loading_says(&l, part))
        fail_msg("%s: %s", part, l.problems.list[0].text);
    loading_done(&l);
}

/* A run that read the destination first once found a moved entity in neither
 * table. */
LOADING_TEST(a_moves_source_is_read_before_its_destination)
{
    refused_together(
        BESIDE(MOVE("Posts", "Old"), RULE("Old") ", " RULE("Posts")),
        "job archive-posts moves entities from Posts to Old, and this rule "
        "reads Old before the rule in line 5 reads Posts");
    refused_together(BESIDE(MOVE("Posts", "Old"),
                         RULE("Posts") ", " RULE("old") ", " RULE("posts")),
        "reads old before");
    refused_together(
        BESIDE(MOVE("Posts", "Old"),
            "{table: Blogs, partition_key: \"{channel}\", children: "
            "[" RULE("Old") "]}, " RULE("Posts")),
        "reads Old before");
    loading_good(
        l, BESIDE(MOVE("Posts", "Old"), RULE("Posts") ", " RULE("Old")));
    loading_good(l, BESIDE(MOVE("Posts", "Old"), RULE("Old")));
    loading_good(
        l, BESIDE(MOVE("Posts", "Old"),
               "{table: Posts, partition_key: \"{channel}\", children: "
               "[" RULE("Old") "]}"));
}

LOADING_TEST(a_move_within_one_table_is_warned_of)
{
    loading_good(
        l, BESIDE("rotate:\n  kind: move\n  from: {table: Posts, "
                  "partition_key: cur}\n  to: {table: Posts, partition_key: "
                  "old}\n",
               RULE("Posts")));
    assert_true(loading_says(l, "job rotate moves entities within Posts"));
}

/* ---- entities that other jobs carry away ---- */

/* Expect a valid configuration, with this warning, or without a warning of
 * entities that outlive their parent (part NULL). */
static void expect_outliving(const char *text, const char *part)
{
    struct loading l = {.names = {NULL}};

    loading_begin(&l, text);
    assert_int_equal(l.problems.errors, 0);
    if (loading_says(&l, part ? part : "outlive their parent") !=
        (part != NULL))
        fail_msg("%s: %s", part ? part : "no warning", text);
    loading_done(&l);
}

#define COPY(from, to) "copies:\n  kind: copy\n  from: " from "\n  to: " to "\n"

TEST(entities_moved_out_of_the_rules_are_warned_of)
{
    expect_outliving(BESIDE(MOVE("Posts", "Old"), RULE("Posts")),
        "job archive-posts moves entities of Posts to Old, which job "
        "purge does not list: they outlive their parent. Add a rule "
        "for Old after this rule");
    /* Of a child's child, and with the case of names ignored. */
    expect_outliving(
        BESIDE(MOVE("posts", "Old"),
            "{table: Blogs, partition_key: \"{channel}\", children: "
            "[{table: Posts, partition_key: \"{RowKey}\"}]}"),
        "job archive-posts moves entities of posts to Old");
    expect_outliving(
        BESIDE(MOVE("Posts", "Old"), RULE("Posts") ", " RULE("old")), NULL);
    expect_outliving(
        BESIDE(MOVE("Posts", "Old"),
            "{table: Posts, partition_key: \"{channel}\", children: "
            "[" RULE("Old") "]}"),
        NULL);
    expect_outliving(BESIDE(MOVE("Posts", "Old"), RULE("Blogs")), NULL);
}

TEST(entities_that_only_another_job_selects_are_not_warned_of)
{
    expect_outliving(
        BESIDE(COPY("{table: Posts, row_key_prefix: log_}", "{table: Old}"),
            "{table: Posts, partition_key: \"{channel}\", row_key: title}"),
        NULL);
    expect_outliving(
        BESIDE(COPY("{table: Posts, row_key_prefix: t}", "{table: Old}"),
            "{table: Posts, partition_key: \"{channel}\", row_key: title}"),
        "job copies copies entities of Posts to Old");
}

TEST(copies_that_the_rules_do_not_list_are_warned_of)
{
    expect_outliving(
        BESIDE(COPY("{table: Posts}",
                   "[{table: New}, {table: Posts, row_key: \"x_{RowKey}\"}]"),
            RULE("Posts")),
        "job copies copies entities of Posts to New, which job purge "
        "does not list: copies outlive their parent until another run of the "
        "copy job deletes them");
    expect_outliving(
        BESIDE(COPY("{table: Posts}", "{store: other, table: Posts}"),
            RULE("Posts")),
        "to Posts in another store, which");
    expect_outliving(BESIDE(COPY("{table: Posts}",
                                "{table: Posts, row_key: \"x_{RowKey}\"}"),
                         RULE("Posts")),
        NULL);
}

/* A move of the parents' table once carried a tombstoned parent away, without a
 * word from either job. */
LOADING_TEST(a_move_of_the_parents_is_warned_of)
{
    static const char PARENTS[] = "and the parents of job ";

    loading_good(l, BESIDE(MOVE("channels", "Old"), RULE("Posts")));
    assert_true(loading_says(l, PARENTS));
    loading_good(l, BESIDE(MOVE("New", "Channels"), RULE("Posts")));
    assert_true(loading_says(l, PARENTS));
    loading_good(l, BESIDE(MOVE("Posts", "Old"), RULE("Posts")));
    assert_false(loading_says(l, PARENTS));
}

/* ---- settle ---- */

LOADING_TEST(settle_is_a_duration_or_a_rising_list)
{
    static const char *const BAD[] = {"{a: 5s}", "5 minutes", "169h", "[]",
        "[5s, 5s]", "[20m, 5s]", "[[5s]]", "[5s, later]", "[5s, 169h]",
        "[1s,2s,3s,4s,5s,6s,7s,8s,9s,10s,11s,12s,13s,14s,15s,16s,17s]"};
    const struct cascade *cascade;

    for (size_t i = 0; TEST_EACH(i, BAD); i++) {
        char *text = mem_format(HEAD PARENT CHILDREN "  settle: %s\n", BAD[i]);

        loading_refused(text, "settle must be a duration of at most 7 days");
        mem_free(text);
    }
    cascade = load(l, HEAD PARENT CHILDREN "  settle: 168h\n");
    assert_int_equal(cascade->settle_count, 1);
    assert_int_equal(cascade->settle_ms[0], INT64_C(604800000));
    cascade = load(l, HEAD PARENT CHILDREN "  settle: [0s, 5s, 20m]\n");
    assert_int_equal(cascade->settle_count, 3);
    assert_int_equal(cascade->settle_ms[0], 0);
    assert_int_equal(cascade->settle_ms[2], 1200000);
    cascade = load(l, HEAD PARENT CHILDREN);
    assert_int_equal(cascade->settle_count, 1);
    assert_int_equal(cascade->settle_ms[0], 5000);
}

LOADING_TEST(settle_knows_the_environment)
{
    const struct cascade *cascade;

    setenv("LATE", "20m", 1);
    setenv("HOLDS_NOTHING", "", 1);
    unsetenv("NOT_SET_HERE");
    cascade = load(l, HEAD PARENT CHILDREN
        "  settle: [\"${NOT_SET_HERE:-5s}\", \"${LATE}\"]\n");
    assert_int_equal(cascade->settle_count, 2);
    assert_int_equal(cascade->settle_ms[0], 5000);
    assert_int_equal(cascade->settle_ms[1], 1200000);
    cascade = load(l, HEAD PARENT CHILDREN "  settle: ${LATE}\n");
    assert_int_equal(cascade->settle_ms[0], 1200000);
    loading_refused(
        HEAD PARENT CHILDREN "  settle: ${HOLDS_NOTHING}\n", "settle must be");
    loading_refused(HEAD PARENT CHILDREN "  settle: ${NOT_SET_HERE}\n",
        "the environment variable NOT_SET_HERE is not set");
    loading_refused(HEAD PARENT CHILDREN "  settle:\n", "settle must be");
}

/* ---- the archive ---- */

/* With an empty folder the run would delete without an archive, so it is
 * refused. */
LOADING_TEST(an_archive_is_a_folder)
{
    assert_string_equal(
        load(l, HEAD PARENT CHILDREN "  archive: gone\n")->archive, "gone");
    assert_null(load(l, HEAD PARENT CHILDREN)->archive);
    setenv("HOLDS_NOTHING", "", 1);
    loading_refused(HEAD PARENT CHILDREN "  archive: ''\n",
        "archive is empty: name a folder, or remove the key");
    loading_refused(HEAD PARENT CHILDREN "  archive: ${HOLDS_NOTHING}\n",
        "archive is empty");
}

/* An archive does not have the names of stores, so lines of one table would be
 * imported into the other one. */
TEST(an_archive_is_of_one_store_s_tables)
{
    loading_refused(HEAD PARENT
        "  archive: gone\n"
        "  children: [{table: Blogs, partition_key: a}, {store: other, table: "
        "blogs, partition_key: a}]\n",
        "a table blogs in two stores");
    loading_refused(HEAD PARENT
        "  archive: gone\n"
        "  children: [{table: Blogs, partition_key: a, children: [{store: "
        "other, table: Channels, row_key: b}]}]\n",
        "a table Channels in two stores");
    loading_refused(HEAD PARENT
        "  archive: gone\n"
        "  children: [{table: Blogs, partition_key: a, children: [{table: "
        "Likes, row_key: b}]}, {store: other, table: Likes, row_key: b}]\n",
        "a table Likes in two stores");
    expect_overlap("[{table: Blogs, partition_key: a}, {store: other, table: "
                   "Blogs, partition_key: a}]",
        NULL);
}

/* ---- explain ---- */

static void expect_explained(const char *text, const char *wanted)
{
    struct loading l = {.names = {NULL}};
    struct buf to;
    const struct cascade *cascade = load(&l, text);

    buf_init(&to, 65536);
    cascade_rules_explain(cascade, &to);
    assert_string_equal(buf_text(&to), wanted);
    buf_done(&to);
    loading_done(&l);
}

TEST(it_is_explained_in_the_order_in_which_it_happens)
{
    expect_explained(HEAD PARENT
        "  children:\n"
        "    - table: Blogs\n"
        "      partition_key: \"{channel}\"\n"
        "      row_key_prefix: b_\n"
        "      filter: \"Kind eq 'blog'\"\n"
        "      children:\n"
        "        - {table: Likes, filter: \"Blog eq {RowKey}\"}\n"
        "  settle: [5s, 20m]\n"
        "  refuse_above: 1000\n"
        "  archive: /var/gone\n",
        "merge the tombstone into Channels (PartitionKey \"all\", RowKey "
        "\"{channel}\")\n  delete from Likes where Blog eq {RowKey}\ndelete "
        "from Blogs where PartitionKey is \"{channel}\" and RowKey begins with "
        "\"b_\" and Kind eq 'blog', each once nothing is left under it\nsearch "
        "again for late children after 5000 ms, 1200000 ms\ndelete the parent "
        "in Channels, last of all\nfail before any write if there are more "
        "than 1000 entities\nstore each entity in the folder /var/gone before "
        "its delete\n");
    expect_explained(HEAD PARENT CHILDREN,
        "merge the tombstone into Channels (PartitionKey \"all\", RowKey "
        "\"{channel}\")\ndelete from Blogs where PartitionKey is "
        "\"{channel}\"\nsearch again for late children after 5000 ms\ndelete "
        "the parent in Channels, last of all\n");
}
