/* SPDX-License-Identifier: MIT */
/* The configuration of a cascade-delete job: what is read, what is refused. */
#include <stdlib.h>

#include "jobs/cascade/rules.h"
#include "tests/support/fixture.h"
#include "tests/support/loading.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"

#define HEAD                                                                   \
    "purge:\n"                                                                 \
    "  kind: cascade-delete\n"                                                 \
    "  args: [channel]\n"
#define PARENT "  parent: " PARENT_IS("row_key: \"{channel}\", " DEAD) "\n"
#define CHILDREN "  children: [" RULE("Blogs", BY_CHANNEL) "]\n"

#define PARENT_IS(more) "{table: Channels, partition_key: all, " more "}"
#define DEAD "tombstone: {Deleted: true}"
#define PARENT_WITH(more) PARENT_IS("row_key: x, " more)

#define RULE(table, more) "{table: " table ", " more "}"
#define RULE_WITH(table, more, rules)                                          \
    RULE(table, more ", children: [" rules "]")
#define BY_CHANNEL "partition_key: \"{channel}\""
#define BY_ROW_KEY "partition_key: \"{RowKey}\""

static const struct cascade *load(struct loading *l, const char *text)
{
    loading_good(l, text);
    assert_int_equal(l->jobs.count, 1);
    return l->jobs.list[0].settings;
}

/* rest: text that completes a configuration. part: a part of the error that the
 * configuration then has. */
struct choice {
    const char *rest, *part;
};

/* Loads a configuration, which consists of three texts. Fails unless it is
 * refused with an error that contains `part`; part NULL: fails unless it is
 * accepted. */
static void check_choice(
    const char *begin, const char *rest, const char *end, const char *part)
{
    char *text = mem_format("%s%s%s\n", begin, rest, end);

    test_case("%s", rest);
    if (part) {
        loading_refused(text, part);
    } else {
        struct loading l = {.names = {NULL}};

        load(&l, text);
        loading_done(&l);
    }
    mem_free(text);
}

/* REFUSES: each choice, put between `begin` and `end`, must be refused. TAKES:
 * each text, put between them, must be accepted. */
#define REFUSES(begin, choices, end)                                           \
    for (size_t i = 0; TEST_EACH(i, choices); i++)                             \
    check_choice(begin, (choices)[i].rest, end, (choices)[i].part)
#define TAKES(begin, texts, end)                                               \
    for (size_t i = 0; TEST_EACH(i, texts); i++)                               \
    check_choice(begin, (texts)[i], end, NULL)

#define CHILDREN_ARE HEAD PARENT "  children: "

/* ---- the parent and its place ---- */

TEST(a_parent_and_its_children_are_wanted)
{
    static const struct choice CASES[] = {
        {"", "parent"},
        {CHILDREN, "parent"},
        {PARENT, "children"},
    };

    REFUSES(HEAD, CASES, "");
}

TEST(what_is_wrong_in_a_parent_is_told)
{
    static const struct choice CASES[] = {
        {"{}", "table"},
        {"{table: Channels}", "row_key"},
        {"{table: Channels, partition_key: a, row_key: b}", "tombstone"},
        {"Channels", "parent"},
        /* The keys of the parent are templates. */
        {"{table: Channels, partition_key: \"{chanel}\", row_key: x, " DEAD "}",
            "chanel"},
        {PARENT_IS("row_key: \"{chanel}\", " DEAD), "chanel"},
        {"{table: Channels, partition_key: [x], row_key: x, " DEAD "}", "text"},
        /* The table must have a name that the service accepts. */
        {"{table: my-table, partition_key: all, row_key: x, " DEAD "}",
            "my-table"},
        {"{table: '', partition_key: all, row_key: x, " DEAD "}",
            "invalid table name ''"},
        {PARENT_WITH("store: \"${HOLDS_NOTHING}\", " DEAD),
            "`store:` is empty"},
        /* `created` must name a property. If it were empty, the time of
         * creation would not be checked. */
        {PARENT_WITH(DEAD ", created: ''"),
            "`created` must name a property that the application can set: "
            "invalid property name ''"},
        {PARENT_WITH(DEAD ", created: created on"),
            "invalid property name 'created on'"},
        {PARENT_WITH(DEAD ", created: Timestamp"),
            "the application cannot set Timestamp"},
        {PARENT_WITH(DEAD ", created: Deleted"),
            "Deleted is set by the tombstone"},
    };

    REFUSES(HEAD CHILDREN "  parent: ", CASES, "");
}

LOADING_TEST(a_store_is_one_of_the_configuration)
{
    static const struct choice CASES[] = {
        {"[{table: Blogs, partition_key: x, store: othr}]", "other"},
        {"[{table: Blogs, partition_key: x, store: ''}]",
            "`store:` is empty: write a name from `stores:`, or remove "
            "`store:`"},
    };
    const struct cascade *cascade =
        load(l, HEAD PARENT "  children: [{table: Blogs, partition_key: x, "
                            "store: other}]\n");

    assert_int_equal(cascade->store, 0);
    assert_int_equal(cascade->rules[0].store, 1);
    REFUSES(CHILDREN_ARE, CASES, "");
}

LOADING_TEST(of_several_stores_one_must_be_named)
{
    loading_begin_with(l, HEAD PARENT CHILDREN, 2, 2);
    assert_int_equal(l->jobs.count, 0);
    assert_true(loading_says(l, "there are several stores"));
    assert_int_equal(l->problems.errors, 2); /* in the parent, and in the
                                                rule */
}

/* ---- the tombstone ---- */

TEST(what_is_wrong_in_a_tombstone_is_told)
{
    static const struct choice CASES[] = {
        /* A tombstone is a map of values. */
        {"Deleted", "`tombstone:` needs properties"},
        {"{}", "`tombstone:` needs properties"},
        {"{Deleted: [true]}", "tombstone property Deleted needs a value"},
        {"{Deleted: }", "tombstone property Deleted needs a value"},
        {"{Deleted: null}", "tombstone property Deleted needs a value"},
        {"{Deleted: ~}", "tombstone property Deleted needs a value"},
        /* A tombstone must not set properties of the service or of
         * tableward. */
        {"{PartitionKey: x}", "a tombstone cannot set PartitionKey"},
        {"{RowKey: x}", "a tombstone cannot set RowKey"},
        {"{Timestamp: x}", "a tombstone cannot set Timestamp"},
        {"{TablewardRun: x}", "a tombstone cannot set TablewardRun"},
        {"{'a b': x}", "a b"},
        {"{By: '${WHO'}", "write ${NAME}"},
    };

    REFUSES(HEAD CHILDREN "  parent: {table: Channels, partition_key: all, "
                          "row_key: x, tombstone: ",
        CASES, "}");
}

/* Fails unless the tombstone has this property, with this value as JSON. */
static void check_mark(const struct cascade *cascade, const char *name,
    enum edm_type type, const char *json)
{
    const struct property *is = entity_find(cascade->tombstone, slice_of(name));

    assert_non_null(is);
    assert_int_equal(is->type, type);
    check_text(is->json, slice_of(json));
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
    const struct cascade *cascade =
        load(l, HEAD CHILDREN "  parent: " PARENT_WITH(
                    "tombstone: {Yes: true, No: false, Small: -7, Large: "
                    "3000000000, Half: 0.5, Word: gone, Quoted: 'true', "
                    "Number: '7', Nothing: 'null'}"));

    assert_int_equal(
        cascade->tombstone->property_count, sizeof(WANTED) / sizeof(WANTED[0]));
    for (size_t i = 0; TEST_EACH(i, WANTED); i++)
        check_mark(cascade, WANTED[i].name, WANTED[i].type, WANTED[i].json);
}

#define PARENT_MARKED                                                          \
    "  parent: {table: Channels, partition_key: all, row_key: x, tombstone: "  \
    "{Deleted: "

/* Some YAML readers take such a word for a boolean. It used to be written as a
 * text, and the application did not recognise its tombstone. */
TEST(what_is_like_a_boolean_is_asked_about)
{
    static const char *const WORDS[] = {
        "True", "TRUE", "yes", "on", "False", "No", "OFF"};

    for (size_t i = 0; TEST_EACH(i, WORDS); i++) {
        check_choice(HEAD CHILDREN PARENT_MARKED, WORDS[i], "}}",
            "must be true or false, or a text in quotes");
        check_choice(HEAD CHILDREN PARENT_MARKED "'", WORDS[i], "'}}", NULL);
    }
}

LOADING_TEST(a_tombstones_texts_know_the_environment)
{
    static const char *const WANTED[][2] = {
        {"Quoted", "\"by ops\""},
        {"Plain", "\"ops\""},
        {"Number", "\"7\""},
        {"Fallback", "\"me\""},
        {"Argument", "\"{channel}\""},
    };
    const struct cascade *cascade;

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
    for (size_t i = 0; TEST_EACH(i, WANTED); i++)
        check_mark(cascade, WANTED[i][0], EDM_STRING, WANTED[i][1]);
    assert_null(l->jobs.list[0].unset);
    load(l, HEAD CHILDREN
        "  parent: " PARENT_WITH("tombstone: {By: '${NOT_SET_HERE}'}"));
    assert_string_equal(l->jobs.list[0].unset, "NOT_SET_HERE");
}

/* ---- rules ---- */

TEST(what_is_wrong_in_a_rule_is_told)
{
    static const struct choice CASES[] = {
        /* Children are a list of rules. */
        {"Blogs", "children must be a list"},
        {"[]", "children must be a list"},
        {"[Blogs]", "a child rule"},
        {"[{partition_key: x}]", "table"},
        {"[{table: my-table, partition_key: x}]", "my-table"},
        {"[{table: '', partition_key: x}]", "invalid table name ''"},
        /* A rule must not select a whole table. */
        {"[{table: Blogs}]", "this rule would select every entity of Blogs"},
        {"[{table: Blogs, filter: \"\"}]", "this filter is empty"},
        {"[" RULE_WITH("Blogs", "partition_key: a",
             RULE("Likes", "filter: \"${HOLDS_NOTHING:-}\"")) "]",
            "this filter is empty"},
        /* The templates of a rule are checked. */
        {"[{table: Blogs, partition_key: \"{x\"}]", "never closed"},
        {"[{table: Blogs, row_key: [x]}]", "text"},
        {"[{table: Blogs, filter: \"A eq {lower(x}\"}]", "expected )"},
        {"[{table: Blogs, partition_key: a, optional: maybe}]", "optional"},
        /* An error in the rules of a child used to crash the program, because
         * their number was set without the rules. */
        {"[" RULE_WITH("Blogs", "partition_key: a", "{table: Likes}") "]",
            "would select every entity of Likes"},
        {"[" RULE_WITH("Blogs", "partition_key: a",
             RULE_WITH("Likes", "row_key: b", "{table: no-table}")) "]",
            "no-table"},
        /* A rule must not read a property that the tombstone sets. */
        {"[{table: Blogs, partition_key: \"{Deleted}\"}]",
            "reads property Deleted of the parent, which the tombstone "
            "changes"},
        {"[{table: Blogs, partition_key: \"{year(Timestamp)}\"}]",
            "reads property Timestamp of the parent"},
        {"[{table: Blogs, partition_key: \"{TablewardRun}\"}]",
            "reads property TablewardRun of the parent"},
    };

    REFUSES(CHILDREN_ARE, CASES, "");
}

/* A first-level rule is rendered with values of the parent, which are the same
 * in every pass. */
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
    load(l, HEAD PARENT
        "  children: [{table: Blogs, partition_key: \"{chanel}\"}]\n");
    assert_true(loading_says(l,
        "reads property 'chanel' of the parent: did you mean the argument "
        "'channel'?"));
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
    char *rules = mem_format("%s", "");

    for (int depth = 1; depth <= 9; depth++) {
        char *inner = rules;

        rules = mem_format("[{table: Tab%d, partition_key: x%s%s}]", depth,
            inner[0] ? ", children: " : "", inner);
        mem_free(inner);
        check_choice(CHILDREN_ARE, rules, "",
            depth > 8 ? "children are nested more than 8 deep" : NULL);
    }
    mem_free(rules);
}

/* Each property that the children's templates read is requested with the
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

/* ---- two rules that find the same entity ---- */

#define RULES(one, other) one ", " other
#define LIKES RULE("Likes", BY_ROW_KEY)
#define VIEWS RULE("Views", BY_ROW_KEY)
#define UNDER_BLOGS(rules) RULE_WITH("Blogs", BY_CHANNEL, rules)
#define UNDER_PHOTOS(rules) RULE_WITH("Photos", BY_CHANNEL, rules)
#define COMMENTS(rules) RULE_WITH("Comments", BY_ROW_KEY, rules)
#define WITH_CHANNEL "filter: \"Channel eq '{channel}'\""
#define TAGGED(rules) RULE_WITH("comments", WITH_CHANNEL, rules)
#define ALSO "filter: \"Also eq '{RowKey}'\""
#define A_LEAF(by) RULE("Comments", by)

/* Two rules may find the same entity, and only one of them may have rules for
 * its children. If the two rules are evaluated for different entities above, a
 * run sees only one rule at a time, and may delete the entity as a leaf. The
 * likes of a comment used to stay, although the run succeeded. Siblings below
 * the root are refused too: what one rule finds under a blog, the other rule
 * may find under a later blog. */
TEST(a_rule_sees_what_another_sees_under_the_same_entity)
{
    static const struct choice CASES[] = {
        {RULES(RULE("comments", WITH_CHANNEL), UNDER_BLOGS(COMMENTS(LIKES))),
            "this rule and the rule in line 5 both find entities of comments, "
            "but only the other rule has the children in Likes where "
            "PartitionKey is \"{RowKey}\""},
        {RULES(TAGGED(RULE("Likes", "partition_key: \"of_{RowKey}\"")),
             UNDER_BLOGS(COMMENTS(LIKES))),
            "only the other rule has the children in Likes where"},
        {RULES(TAGGED(LIKES), UNDER_BLOGS(COMMENTS(RULES(LIKES, VIEWS)))),
            "only the other rule has the children in Views"},
        {RULES(TAGGED(LIKES),
             UNDER_BLOGS(COMMENTS(RULE_WITH("Likes", BY_ROW_KEY, VIEWS)))),
            "only the other rule has the children in Views"},
        {RULES(UNDER_BLOGS(COMMENTS(LIKES)),
             UNDER_PHOTOS(COMMENTS(RULES(VIEWS, LIKES)))),
            "has the children in Views"},
        /* The other rule is below this rule. */
        {UNDER_BLOGS(RULE_WITH("Blogs", BY_ROW_KEY, LIKES)),
            "only the other rule has the children in Likes"},
        /* The rules are siblings. */
        {UNDER_BLOGS(
             RULES(A_LEAF(BY_ROW_KEY), RULE_WITH("Comments", ALSO, LIKES))),
            "only the other rule has the children in Likes where PartitionKey "
            "is"},
        {UNDER_BLOGS(RULES(
             A_LEAF("partition_key: \"{PartitionKey}\""), COMMENTS(LIKES))),
            "only the other rule has the children in Likes"},
    };

    REFUSES(CHILDREN_ARE "[", CASES, "]");
}

TEST(rules_that_find_the_same_may_have_the_same_children)
{
    static const char *const CASES[] = {
        RULES(UNDER_BLOGS(COMMENTS(RULES(LIKES, VIEWS))),
            UNDER_PHOTOS(COMMENTS(RULES(VIEWS, LIKES)))),
        TAGGED(RULES(VIEWS, LIKES)),
        UNDER_BLOGS(RULES(
            LIKES, RULE_WITH("Blogs",
                       "partition_key: \"{PartitionKey}_{RowKey}\"", LIKES))),
        /* Siblings that find an entity only under the same blog. */
        UNDER_BLOGS(RULES(A_LEAF(BY_ROW_KEY), COMMENTS(LIKES))),
        UNDER_BLOGS(RULES(A_LEAF(ALSO), RULE_WITH("Comments", ALSO, LIKES))),
        UNDER_BLOGS(RULES(A_LEAF(BY_ROW_KEY),
            RULE_WITH("Comments", BY_ROW_KEY ", " WITH_CHANNEL, LIKES))),
        /* At the root each rule is bound only once. */
        RULES(RULE("comments", WITH_CHANNEL),
            RULE_WITH("Comments", BY_CHANNEL, LIKES)),
        /* A table of the same name in another store is another table. */
        RULES(RULE("Comments", "store: other, " BY_CHANNEL),
            UNDER_BLOGS(COMMENTS(LIKES))),
        /* A sibling of the rule, or of a rule above it, is always evaluated
         * before the entity is deleted. */
        RULES(RULE_WITH("Likes", BY_CHANNEL, VIEWS),
            UNDER_BLOGS(COMMENTS(LIKES))),
    };

    TAKES(CHILDREN_ARE "[", CASES, "]");
}

/* ---- rules that reach their own entities ---- */

#define REACHES "under an entity of Blogs this rule can find further"
#define NESTED(one, other) RULE_WITH("Blogs", one, RULE("Blogs", other))

/* If entities were under one another in a cycle, the run used to fail after it
 * had deleted other entities. */
TEST(a_rule_that_reaches_itself_in_another_partition_is_refused)
{
    static const struct choice CASES[] = {
        {NESTED(BY_CHANNEL, BY_ROW_KEY), REACHES},
        {NESTED(BY_CHANNEL, "filter: \"Parent eq '{RowKey}'\""), REACHES},
        {NESTED(BY_CHANNEL,
             "partition_key_prefix: \"{PartitionKey}\", row_key: \"x\""),
            REACHES},
        {NESTED(BY_CHANNEL ", filter: \"Type eq 'a' or Size gt 5\"",
             BY_ROW_KEY ", filter: \"Type eq 'b'\""),
            REACHES},
        /* The rule reaches its own entities through another table, or through
         * another rule. */
        {UNDER_BLOGS(RULE_WITH("Likes", "partition_key: \"{RowKey}_x\"",
             RULE("blogs", BY_ROW_KEY))),
            "under an entity of blogs this rule can find further"},
        {RULES(UNDER_BLOGS(LIKES),
             RULE_WITH("Likes", BY_CHANNEL, RULE("Blogs", BY_ROW_KEY))),
            "in other partitions"},
    };

    REFUSES(CHILDREN_ARE "[", CASES, "]");
}

TEST(rules_that_show_that_they_end_may_reach_themselves)
{
    static const char *const CASES[] = {
        /* Within one partition a run detects a cycle itself. */
        NESTED(BY_CHANNEL,
            "partition_key: \"{PartitionKey}\", filter: \"In eq '{RowKey}'\""),
        /* In each generation a key gets longer. */
        NESTED(BY_CHANNEL, "partition_key: \"{PartitionKey}_{RowKey}\""),
        NESTED("partition_key_prefix: \"{channel}_\"",
            "partition_key_prefix: \"{PartitionKey}_\""),
        NESTED(
            BY_CHANNEL, "partition_key: \"x\", row_key_prefix: \"{RowKey}.\""),
        /* The two rules never find the same entity. */
        NESTED(BY_CHANNEL ", row_key_prefix: \"a\"",
            BY_ROW_KEY ", row_key_prefix: \"b\""),
        NESTED(
            "partition_key: \"c_{channel}\"", "partition_key: \"b_{RowKey}\""),
        NESTED(BY_CHANNEL ", filter: \"Type eq 'a' and Size gt 5\"",
            BY_ROW_KEY ", filter: \"Of eq '{RowKey}' and Type eq 'b'\""),
    };

    TAKES(CHILDREN_ARE "[", CASES, "]");
}

/* ---- beside another job ---- */

#define MOVE(from, to)                                                         \
    "archive-posts:\n  kind: move\n  from: {table: " from                      \
    "}\n  to: {table: " to "}\n"
#define COPY(from, to) "copies:\n  kind: copy\n  from: " from "\n  to: " to "\n"
#define OF_CHANNEL(table) RULE(table, BY_CHANNEL)
#define BESIDE(move, rules) HEAD PARENT "  children: [" rules "]\n" move

struct pair {
    /* text: a configuration with jobs, each of which is valid alone.
     * told: a part of an error or warning about the jobs together; NULL: no
     * error or warning contains `never`. */
    const char *text, *told;
};

static void check_pairs(
    const struct pair *pairs, size_t count, bool refused, const char *never)
{
    for (size_t i = 0; i < count; i++) {
        const char *told = pairs[i].told;
        struct loading l = {.names = {NULL}};

        test_case("%s", pairs[i].text);
        loading_begin(&l, pairs[i].text);
        assert_int_equal(l.problems.errors > 0, refused && told);
        if (loading_says(&l, told ? told : never) != (told != NULL))
            fail_msg("%s: %s", told ? told : "no problem",
                l.problems.count > 0 ? l.problems.list[0].text : "none");
        loading_done(&l);
    }
}

#define CHECK_PAIRS(pairs, refused, never)                                     \
    check_pairs(pairs, sizeof(pairs) / sizeof((pairs)[0]), refused, never)

#define ALL_OLD MOVE("Posts", "Old")
#define POSTS OF_CHANNEL("Posts")
#define OLD OF_CHANNEL("Old")

/* Rule L4. A run that read the destination first used to find a moved entity in
 * neither table. */
TEST(a_moves_source_is_read_before_its_destination)
{
    static const struct pair PAIRS[] = {
        {BESIDE(ALL_OLD, RULES(OLD, POSTS)),
            "job archive-posts moves entities from Posts to Old, and this rule "
            "reads Old before the rule in line 5 reads Posts"},
        {BESIDE(ALL_OLD,
             RULES(POSTS, RULES(OF_CHANNEL("old"), OF_CHANNEL("posts")))),
            "reads old before"},
        {BESIDE(ALL_OLD, RULES(UNDER_BLOGS(OLD), POSTS)), "reads Old before"},
        {BESIDE(ALL_OLD, RULES(POSTS, OLD)), NULL},
        {BESIDE(ALL_OLD, OLD), NULL},
        {BESIDE(ALL_OLD, RULE_WITH("Posts", BY_CHANNEL, OLD)), NULL},
    };

    CHECK_PAIRS(PAIRS, true, " before the rule in line");
}

/* Other jobs move or copy entities out of the parent's reach. */
TEST(entities_that_outlive_their_parent_are_warned_of)
{
    static const struct pair PAIRS[] = {
        {BESIDE(ALL_OLD, POSTS),
            "job archive-posts moves entities of Posts to Old, a table that "
            "job purge does not list: they outlive their parent. Add a rule "
            "for Old after this rule"},
        /* The moved entity is a child of a child. Names of tables are compared
         * without case. */
        {BESIDE(MOVE("posts", "Old"), UNDER_BLOGS(RULE("Posts", BY_ROW_KEY))),
            "job archive-posts moves entities of posts to Old"},
        {BESIDE(ALL_OLD, RULES(POSTS, OF_CHANNEL("old"))), NULL},
        {BESIDE(ALL_OLD, RULE_WITH("Posts", BY_CHANNEL, OLD)), NULL},
        {BESIDE(ALL_OLD, OF_CHANNEL("Blogs")), NULL},
        /* The copy job selects no entity that the rule selects. */
        {BESIDE(COPY("{table: Posts, row_key_prefix: log_}", "{table: Old}"),
             RULE("Posts", BY_CHANNEL ", row_key: title")),
            NULL},
        {BESIDE(COPY("{table: Posts, row_key_prefix: t}", "{table: Old}"),
             RULE("Posts", BY_CHANNEL ", row_key: title")),
            "job copies copies entities of Posts to Old"},
        /* The copies are in a table that no rule lists. */
        {BESIDE(COPY("{table: Posts}",
                    "[{table: New}, {table: Posts, row_key: \"x_{RowKey}\"}]"),
             POSTS),
            "job copies copies entities of Posts to New, a table that job "
            "purge does not list: copies outlive their parent until another "
            "run of the copy job deletes them"},
        {BESIDE(COPY("{table: Posts}", "{store: other, table: Posts}"), POSTS),
            "to Posts in another store, a table that"},
        {BESIDE(
             COPY("{table: Posts}", "{table: Posts, row_key: \"x_{RowKey}\"}"),
             POSTS),
            NULL},
    };

    CHECK_PAIRS(PAIRS, false, "outlive their parent");
}

/* A move of the parents' table used to carry away a parent with its tombstone,
 * and neither job reported it. */
TEST(other_moves_are_warned_of)
{
    static const struct pair PAIRS[] = {
        {BESIDE(MOVE("channels", "Old"), POSTS), "and the parents of job "},
        {BESIDE(MOVE("New", "Channels"), POSTS), "and the parents of job "},
        {BESIDE(ALL_OLD, POSTS), NULL},
        {BESIDE("rotate:\n  kind: move\n  from: {table: Posts, partition_key: "
                "cur}\n  to: {table: Posts, partition_key: old}\n",
             POSTS),
            "job rotate moves entities within Posts"},
    };

    CHECK_PAIRS(PAIRS, false, "and the parents of job ");
}

/* ---- settle ---- */

LOADING_TEST(settle_is_a_duration_or_a_rising_list)
{
    static const char *const BAD[] = {"{a: 5s}", "5 minutes", "169h", "[]",
        "[5s, 5s]", "[20m, 5s]", "[[5s]]", "[5s, later]", "[5s, 169h]", "",
        "[1s,2s,3s,4s,5s,6s,7s,8s,9s,10s,11s,12s,13s,14s,15s,16s,17s]",
        "${HOLDS_NOTHING}"};
    static const struct {
        const char *more;
        size_t count;
        int64_t first_ms, last_ms;
    } TAKEN[] = {
        {"  settle: 168h\n", 1, INT64_C(604800000), INT64_C(604800000)},
        {"  settle: [0s, 5s, 20m]\n", 3, 0, 1200000},
        {"", 1, 5000, 5000},
        {"  settle: [\"${NOT_SET_HERE:-5s}\", \"${LATE}\"]\n", 2, 5000,
            1200000},
        {"  settle: ${LATE}\n", 1, 1200000, 1200000},
    };

    for (size_t i = 0; TEST_EACH(i, BAD); i++)
        check_choice(HEAD PARENT CHILDREN "  settle: ", BAD[i], "",
            "settle must be a duration of at most 7 days");
    check_choice(HEAD PARENT CHILDREN "  settle: ", "${NOT_SET_HERE}", "",
        "the environment variable NOT_SET_HERE is not set");
    for (size_t i = 0; TEST_EACH(i, TAKEN); i++) {
        char *text = mem_format("%s%s", HEAD PARENT CHILDREN, TAKEN[i].more);
        const struct cascade *cascade = load(l, text);

        assert_int_equal(cascade->settle_count, TAKEN[i].count);
        assert_int_equal(cascade->settle_ms[0], TAKEN[i].first_ms);
        assert_int_equal(
            cascade->settle_ms[TAKEN[i].count - 1], TAKEN[i].last_ms);
        mem_free(text);
    }
}

/* ---- the archive ---- */

/* With an empty folder the run would delete without an archive, so it is
 * refused. */
LOADING_TEST(an_archive_is_a_folder)
{
    static const struct choice REFUSED[] = {
        {"''", "`archive:` is empty: name a folder, or remove the key"},
        {"${HOLDS_NOTHING}", "`archive:` is empty"},
    };

    assert_string_equal(
        load(l, HEAD PARENT CHILDREN "  archive: gone\n")->archive, "gone");
    assert_null(load(l, HEAD PARENT CHILDREN)->archive);
    REFUSES(HEAD PARENT CHILDREN "  archive: ", REFUSED, "");
}

#define BLOGS_BESIDE_OTHERS                                                    \
    "children: [{table: Blogs, partition_key: a}, {store: other, table: "      \
    "blogs, partition_key: a}]"

/* An archive does not have the names of stores, so lines of one table would be
 * imported into the other one. */
TEST(an_archive_is_of_one_store_s_tables)
{
    static const struct choice CASES[] = {
        {BLOGS_BESIDE_OTHERS "\n  archive: gone",
            "a table blogs in two stores"},
        {"children: [{table: Blogs, partition_key: a, children: [{store: "
         "other, table: Channels, row_key: b}]}]\n  archive: gone",
            "a table Channels in two stores"},
        {"children: [{table: Blogs, partition_key: a, children: [{table: "
         "Likes, row_key: b}]}, {store: other, table: Likes, row_key: b}]\n"
         "  archive: gone",
            "a table Likes in two stores"},
    };

    REFUSES(HEAD PARENT "  ", CASES, "");
    check_choice(HEAD PARENT "  ", BLOGS_BESIDE_OTHERS, "", NULL);
}

/* ---- explain ---- */

TEST(it_is_explained_in_the_order_in_which_it_happens)
{
    static const char *const CASES[][2] = {
        {HEAD PARENT "  children:\n"
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
            "\"{channel}\")\n  delete from Likes where Blog eq "
            "{RowKey}\ndelete from Blogs where PartitionKey is \"{channel}\" "
            "and RowKey begins with \"b_\" and Kind eq 'blog', each once "
            "nothing is left under it\nsearch again for late children after "
            "5000 ms, 1200000 ms\ndelete the parent in Channels, last of "
            "all\nfail before any write if there are more than 1000 "
            "entities\nstore each entity in the folder /var/gone before its "
            "delete\n"},
        {HEAD PARENT CHILDREN,
            "merge the tombstone into Channels (PartitionKey \"all\", RowKey "
            "\"{channel}\")\ndelete from Blogs where PartitionKey is "
            "\"{channel}\"\nsearch again for late children after 5000 "
            "ms\ndelete the parent in Channels, last of all\n"},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        struct loading l = {.names = {NULL}};
        struct buf to;

        buf_init(&to, 65536);
        cascade_rules_explain(load(&l, CASES[i][0]), &to);
        assert_string_equal(buf_text(&to), CASES[i][1]);
        buf_done(&to);
        loading_done(&l);
    }
}

int main(void)
{
    setenv("HOLDS_NOTHING", "", 1);
    setenv("WHO", "ops", 1);
    setenv("SEVEN", "7", 1);
    setenv("LATE", "20m", 1);
    unsetenv("NOT_SET_HERE");
    return test_run_all(NULL, NULL);
}
