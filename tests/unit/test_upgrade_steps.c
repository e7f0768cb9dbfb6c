/* SPDX-License-Identifier: MIT */
/* The steps of an upgrade on one entity: what it becomes, what it keeps to the
 * byte, and when it stays as it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/yaml.h"
#include "jobs/job.h"
#include "jobs/upgrade/steps.h"
#include "tests/support/fixture.h"
#include "worker/base/mem.h"

struct bench {
    struct arena arena;
    struct problems problems;
    struct upgrade *upgrade;
    struct run_args args;
    struct entity entity, result;
    struct upgrade_tally tally;
    struct err err;
};

static const struct slice ARG = {"channel", 7}, VALUE = {"Football", 8};

/* rest: the job's map without its table. */
static void begin_with(struct bench *b, const char *rest)
{
    static const char *const NAMES[] = {"main"};
    const struct job_stores stores = {.count = 1, .names = NAMES};
    struct job_loader loader = {.job = "up",
        .args = &ARG,
        .arg_count = 1,
        .stores = &stores,
        .arena = &b->arena,
        .problems = &b->problems};
    struct yaml_node *node;

    memset(b, 0, sizeof(*b));
    arena_init(&b->arena);
    problems_init(&b->problems);
    b->args = (struct run_args){1, &ARG, &VALUE};
    node = yaml_read("test.yaml",
        arena_format(&b->arena, "table: Blogs\n%s", rest), &b->arena,
        &b->problems);
    assert_non_null(node);
    b->upgrade = upgrade_rules_load(node, &loader);
    if (!b->upgrade) {
        problems_print(&b->problems, stderr);
        fail_msg("%s", rest);
    }
}

/* steps: one a line, "- add: ...". */
static void begin(struct bench *b, const char *phase, const char *steps)
{
    char *text = mem_format(
        "version: {property: V, from: 1, to: 2}\nphase: %s\nsteps:\n%s", phase,
        steps);

    begin_with(b, text);
    mem_free(text);
}

static void done(struct bench *b)
{
    problems_done(&b->problems);
    arena_done(&b->arena);
}

/* properties: as the service's JSON, without the braces. */
static void give(struct bench *b, const char *properties)
{
    struct slice text = arena_format(&b->arena,
        "{\"odata.etag\":\"W/\\\"e\\\"\",\"PartitionKey\":\"P\",\"RowKey\":"
        "\"R\"%s%s}",
        *properties ? "," : "", properties);

    assert_int_equal(
        entity_parse(text, true, &b->arena, &b->entity, NULL, &b->err), TW_OK);
}

static enum upgrade_end apply(struct bench *b)
{
    b->err.text[0] = '\0';
    return upgrade_apply(b->upgrade, &b->args, &b->entity, &b->arena,
        &b->result, &b->tally, &b->err);
}

static void check_properties(
    const struct entity *entity, const char *properties)
{
    struct buf is, wanted;

    buf_init(&is, SIZE_MAX / 2);
    buf_init(&wanted, SIZE_MAX / 2);
    entity_write_properties(entity, &is);
    buf_add_format(&wanted, "{%s}", properties);
    assert_string_equal(buf_text(&is), buf_text(&wanted));
    buf_done(&is);
    buf_done(&wanted);
}

/* before becomes after, which is in the text that is sent. */
static void becomes(
    const char *phase, const char *steps, const char *before, const char *after)
{
    struct bench b;

    begin(&b, phase, steps);
    give(&b, before);
    if (apply(&b) != UPGRADE_CHANGED)
        fail_msg("%s", b.err.text);
    check_properties(&b.result, after);
    check_text(b.result.partition_key, slice_of("P"));
    check_text(b.result.row_key, slice_of("R"));
    check_text(b.result.etag, slice_of("W/\"e\""));
    check_properties(&b.entity, before);
    done(&b);
}

/* The entity stays as it is, and this is why. */
static void stays(const char *phase, const char *steps, const char *before,
    enum upgrade_end end, const char *why)
{
    struct bench b;

    begin(&b, phase, steps);
    give(&b, before);
    assert_int_equal(apply(&b), end);
    if (!strstr(b.err.text, why))
        fail_msg("'%s' is not in '%s'", why, b.err.text);
    assert_null(b.result.properties);
    for (size_t i = 0; i < UPGRADE_MAX_STEPS; i++)
        assert_int_equal(b.tally.carried_out[i], 0);
    check_properties(&b.entity, before);
    done(&b);
}

#define NOW ",\"V\":2"
#define ADD "- add: {property: A, type: Edm.String, value: en}\n"
#define SET "- set: {property: A, type: Edm.String, value: en}\n"
#define RENAME "- rename: {property: T, to: B}\n"
#define REMOVE "- remove: {property: L}\n"
#define RETYPE "- retype: {property: R, to: Edm.Int32}\n"
#define RETYPE_OR(word)                                                        \
    "- retype: {property: R, to: Edm.Int32, on_error: " word "}\n"
#define TO_PROPERTY "- retype: {property: R, to: Edm.Int32, to_property: Q}\n"
#define TO_PROPERTY_OR(word)                                                   \
    "- retype: {property: R, to: Edm.Int32, to_property: Q, "                  \
    "on_error: " word "}\n"

/* ---- each step ---- */

static void an_add_keeps_what_is_there(void **state)
{
    (void)state;
    becomes("all", ADD, "\"V\":1", "\"V\":2,\"A\":\"en\"");
    becomes("all", ADD, "\"A\":\"de\"", "\"A\":\"de\"" NOW);
    becomes("all", ADD, "\"A\":5", "\"A\":5" NOW);
    becomes("expand", ADD, "", "\"A\":\"en\"" NOW);
    stays("contract", ADD, "\"V\":2", UPGRADE_UNCHANGED, "");
}

static void a_set_overwrites(void **state)
{
    (void)state;
    becomes("all", SET, "\"A\":\"de\",\"X\":1", "\"A\":\"en\",\"X\":1" NOW);
    becomes("all", SET, "\"A\":5", "\"A\":\"en\"" NOW);
    becomes("all", SET, "", "\"A\":\"en\"" NOW);
    becomes("expand", SET, "", "\"A\":\"en\"" NOW);
    stays("contract", SET, "\"A\":5,\"V\":2", UPGRADE_UNCHANGED, "");
}

static void every_type_can_be_added(void **state)
{
    (void)state;
    becomes("all",
        "- add: {property: A, type: Edm.Binary, value: AAEC}\n"
        "- add: {property: B, type: Edm.Boolean, value: true}\n"
        "- add: {property: C, type: Edm.DateTime, value: "
        "\"2024-01-01T00:00:00.1234567Z\"}\n"
        "- add: {property: D, type: Edm.Double, value: 0.5}\n"
        "- add: {property: E, type: Edm.Guid, value: "
        "0f8fad5b-d9cb-469f-a165-70867728950e}\n"
        "- add: {property: F, type: Edm.Int32, value: -5}\n"
        "- add: {property: G, type: Edm.Int64, value: 9007199254740993}\n"
        "- add: {property: H, type: Edm.String, value: '\"'}\n",
        "",
        "\"A@odata.type\":\"Edm.Binary\",\"A\":\"AAEC\",\"B\":true,"
        "\"C@odata.type\":\"Edm.DateTime\",\"C\":"
        "\"2024-01-01T00:00:00.1234567Z\","
        "\"D@odata.type\":\"Edm.Double\",\"D\":0.5,"
        "\"E@odata.type\":\"Edm.Guid\",\"E\":"
        "\"0f8fad5b-d9cb-469f-a165-70867728950e\","
        "\"F\":-5,\"G@odata.type\":\"Edm.Int64\",\"G\":\"9007199254740993\","
        "\"H\":\"\\\"\"" NOW);
}

static void a_template_sees_arguments_keys_and_what_was_made(void **state)
{
    (void)state;
    becomes("all",
        "- add: {property: A, type: Edm.String, value: "
        "\"{channel}/{PartitionKey}/{RowKey}/{lower(T)}\"}\n"
        "- rename: {property: T, to: B}\n"
        "- add: {property: C, type: Edm.Int64, value: \"{N + 1}\"}\n"
        "- set: {property: D, type: Edm.String, value: \"{A}{B}\"}\n",
        "\"T\":\"Abc\",\"N\":41",
        "\"B\":\"Abc\",\"N\":41,\"A\":\"Football/P/R/abc\","
        "\"C@odata.type\":\"Edm.Int64\",\"C\":\"42\","
        "\"D\":\"Football/P/R/abcAbc\"" NOW);
}

static void a_template_that_gives_nothing_fails_the_entity(void **state)
{
    (void)state;
    stays("all",
        ADD "- add: {property: S, type: Edm.String, value: \"{lower(T)}\"}\n",
        "\"X\":1", UPGRADE_FAILED, "step 2, add S: ");
    stays("all", "- set: {property: S, type: Edm.Int32, value: \"{T}\"}\n",
        "\"T\":\"five\"", UPGRADE_FAILED,
        "step 1, set S: an Edm.String that is no");
    stays("all",
        "- set: {property: S, type: Edm.String, value: "
        "\"{year(T)}\"}\n",
        "\"T\":\"five\"", UPGRADE_FAILED, "step 1, set S: ");
    /* not looked at where the property is there */
    becomes("all", "- add: {property: S, type: Edm.Int32, value: \"{T}\"}\n",
        "\"S\":7", "\"S\":7" NOW);
}

static void a_template_of_more_than_1_mib_fails_the_entity(void **state)
{
    struct buf before, steps;

    (void)state;
    buf_init(&before, SIZE_MAX / 2);
    buf_init(&steps, SIZE_MAX / 2);
    buf_add_text(&before, "\"T\":\"");
    for (int i = 0; i < 32 * 1024; i++)
        buf_add_char(&before, 'x');
    buf_add_char(&before, '"');
    buf_add_text(&steps, "- add: {property: S, type: Edm.String, value: \"");
    for (int i = 0; i < 33; i++)
        buf_add_text(&steps, "{T}");
    buf_add_text(&steps, "\"}\n");
    stays("all", buf_text(&steps), buf_text(&before), UPGRADE_FAILED,
        "step 1, add S: its text is longer than 1 MiB");
    buf_done(&before);
    buf_done(&steps);
}

static void a_rename_keeps_value_and_place(void **state)
{
    (void)state;
    becomes("all", RENAME, "\"T\":\"\\u0041\",\"X\":1",
        "\"B\":\"\\u0041\",\"X\":1" NOW);
    becomes("all", RENAME, "\"X\":1", "\"X\":1" NOW);
    becomes("all", RENAME, "\"B\":1", "\"B\":1" NOW);
    becomes("expand", RENAME, "\"T\":5,\"X\":1", "\"T\":5,\"X\":1,\"B\":5" NOW);
    becomes("contract", RENAME, "\"T\":5,\"B\":5,\"V\":2", "\"B\":5" NOW);
    stays("contract", RENAME, "\"B\":5,\"V\":2", UPGRADE_UNCHANGED, "");
}

static void a_rename_onto_a_property_that_is_there_fails(void **state)
{
    static const char *const WHY =
        "step 1, rename T: the entity has a property B already";

    (void)state;
    stays("all", RENAME, "\"T\":5,\"B\":6", UPGRADE_FAILED, WHY);
    stays("all", RENAME, "\"T\":5,\"B\":5", UPGRADE_FAILED, WHY);
    stays("expand", RENAME, "\"T\":5,\"B\":6", UPGRADE_FAILED, WHY);
    stays("expand", RENAME, "\"T\":5,\"B\":\"5\"", UPGRADE_FAILED, WHY);
    becomes("expand", RENAME, "\"T\":5,\"B\":5", "\"T\":5,\"B\":5" NOW);
}

static void what_has_no_copy_is_not_lost_by_contract(void **state)
{
    (void)state;
    stays("contract", RENAME, "\"T\":5,\"V\":2", UPGRADE_FAILED,
        "step 1, rename T: the entity has no property B, and what it holds "
        "would be lost");
    stays("contract", TO_PROPERTY, "\"R\":\"5\",\"V\":2", UPGRADE_FAILED,
        "step 1, retype R: the entity has no property Q");
    stays("contract", TO_PROPERTY_OR("null"), "\"R\":\"5\",\"V\":2",
        UPGRADE_FAILED, "the entity has no property Q");
    /* there was none to be made */
    becomes("contract", TO_PROPERTY_OR("null"), "\"R\":\"five\",\"V\":2",
        "\"V\":2");
}

static void a_remove_takes_away(void **state)
{
    (void)state;
    becomes("all", REMOVE, "\"A\":1,\"L\":2,\"B\":3", "\"A\":1,\"B\":3" NOW);
    becomes("all", REMOVE, "\"A\":1", "\"A\":1" NOW);
    becomes("expand", REMOVE, "\"L\":2", "\"L\":2" NOW);
    becomes("contract", REMOVE, "\"V\":2,\"L\":2", "\"V\":2");
    stays("contract", REMOVE, "\"V\":2", UPGRADE_UNCHANGED, "");
}

/* ---- retype ---- */

static void a_retype_converts_in_place(void **state)
{
    (void)state;
    becomes("all", RETYPE, "\"A\":1,\"R\":\"5\",\"B\":2",
        "\"A\":1,\"R\":5,\"B\":2" NOW);
    becomes("all", RETYPE, "\"A\":1", "\"A\":1" NOW);
    becomes("all", "- retype: {property: R, to: Edm.String}\n",
        "\"R\":\"\\u0041\"", "\"R\":\"\\u0041\"" NOW);
}

static void a_retype_into_a_new_property_keeps_the_old_one(void **state)
{
    static const char *const WHY =
        "step 1, retype R: the entity has a property Q already";

    (void)state;
    becomes("all", TO_PROPERTY, "\"R\":\"5\",\"A\":1",
        "\"R\":\"5\",\"A\":1,\"Q\":5" NOW);
    becomes("expand", TO_PROPERTY, "\"R\":\"5\"", "\"R\":\"5\",\"Q\":5" NOW);
    becomes("all", TO_PROPERTY, "\"A\":1", "\"A\":1" NOW);
    becomes("all", TO_PROPERTY, "\"R\":5", "\"R\":5,\"Q\":5" NOW);
    becomes("contract", TO_PROPERTY, "\"R\":\"5\",\"Q\":5,\"V\":2",
        "\"Q\":5,\"V\":2");
    becomes("contract", TO_PROPERTY, "\"R\":\"5\",\"Q\":6,\"V\":2",
        "\"Q\":6,\"V\":2");
    stays("all", TO_PROPERTY, "\"R\":\"5\",\"Q\":5", UPGRADE_FAILED, WHY);
    stays("expand", TO_PROPERTY, "\"R\":\"5\",\"Q\":6", UPGRADE_FAILED, WHY);
    becomes("expand", TO_PROPERTY, "\"R\":\"5\",\"Q\":5",
        "\"R\":\"5\",\"Q\":5" NOW);
}

static void what_cannot_be_converted_ends_as_on_error_says(void **state)
{
    static const char *const WHY = "step 2, retype R: an Edm.String that is no";

    (void)state;
    stays("all", SET RETYPE, "\"R\":\"five\"", UPGRADE_FAILED, WHY);
    stays("all", SET RETYPE_OR("fail"), "\"R\":\"five\"", UPGRADE_FAILED, WHY);
    stays("all", SET RETYPE_OR("skip"), "\"R\":\"five\"", UPGRADE_SKIPPED, WHY);
    becomes("all", RETYPE_OR("null"), "\"A\":1,\"R\":\"five\",\"B\":2",
        "\"A\":1,\"B\":2" NOW);
    stays("expand", SET TO_PROPERTY, "\"R\":\"five\"", UPGRADE_FAILED, WHY);
    stays("expand", SET TO_PROPERTY_OR("skip"), "\"R\":\"five\"",
        UPGRADE_SKIPPED, WHY);
    becomes("expand", TO_PROPERTY_OR("null"), "\"R\":\"five\"",
        "\"R\":\"five\"" NOW);
    stays("expand", TO_PROPERTY_OR("null"), "\"R\":\"five\",\"Q\":5",
        UPGRADE_FAILED, "the entity has a property Q already");
    stays("all", RETYPE_OR("skip"),
        "\"R@odata.type\":\"Edm.Guid\",\"R\":"
        "\"0f8fad5b-d9cb-469f-a165-70867728950e\"",
        UPGRADE_SKIPPED, "step 1, retype R: ");
}

static void what_loses_something_must_be_allowed_to(void **state)
{
#define HALF "\"R@odata.type\":\"Edm.Double\",\"R\":2.5"
    (void)state;
    stays("all", RETYPE, HALF, UPGRADE_FAILED,
        "step 1, retype R: its fraction is lost");
    stays("all", RETYPE_OR("skip"), HALF, UPGRADE_SKIPPED, "is lost");
    becomes("all", RETYPE_OR("null"), HALF, "\"V\":2");
    becomes("all", "- retype: {property: R, to: Edm.Int32, lossy: true}\n",
        HALF, "\"R\":2" NOW);
    becomes("all", RETYPE, "\"R@odata.type\":\"Edm.Double\",\"R\":2.0",
        "\"R\":2" NOW);
}

/* ---- all steps ---- */

static void steps_are_done_in_their_order(void **state)
{
    (void)state;
    becomes("all",
        "- rename: {property: A, to: T}\n"
        "- rename: {property: B, to: A}\n"
        "- rename: {property: T, to: B}\n",
        "\"A\":1,\"B\":2", "\"B\":1,\"A\":2" NOW);
    becomes("all",
        "- remove: {property: B}\n"
        "- rename: {property: A, to: B}\n"
        "- retype: {property: B, to: Edm.String}\n",
        "\"A\":1,\"B\":2", "\"B\":\"1\"" NOW);
    becomes("all",
        "- set: {property: A, type: Edm.Int32, value: 1}\n"
        "- set: {property: A, type: Edm.Int32, value: 2}\n",
        "", "\"A\":2" NOW);
    becomes("expand",
        "- rename: {property: A, to: B}\n"
        "- rename: {property: B, to: C}\n",
        "\"A\":1", "\"A\":1,\"B\":1,\"C\":1" NOW);
    becomes("contract",
        "- rename: {property: A, to: B}\n"
        "- rename: {property: B, to: C}\n",
        "\"A\":1,\"B\":1,\"C\":1,\"V\":2", "\"C\":1,\"V\":2");
}

#define EVERY_STEP                                                             \
    "- add: {property: A, type: Edm.String, value: \"{T}\"}\n"                 \
    "- set: {property: S, type: Edm.Boolean, value: true}\n" RENAME            \
        TO_PROPERTY REMOVE

static void expand_and_contract_come_to_where_both_at_once_come(void **state)
{
#define BEFORE "\"T\":\"t\",\"R\":\"5\",\"L\":1"
    struct bench b;
    struct entity after;

    (void)state;
    becomes("expand", EVERY_STEP, BEFORE,
        BEFORE ",\"A\":\"t\",\"S\":true,\"B\":\"t\",\"Q\":5" NOW);
    becomes("contract", EVERY_STEP,
        BEFORE ",\"A\":\"t\",\"S\":true,\"B\":\"t\",\"Q\":5" NOW,
        "\"A\":\"t\",\"S\":true,\"B\":\"t\",\"Q\":5" NOW);
    becomes("all", EVERY_STEP "- remove: {property: R}\n", BEFORE,
        "\"B\":\"t\",\"A\":\"t\",\"S\":true,\"Q\":5" NOW);

    begin(&b, "contract", EVERY_STEP);
    give(&b, BEFORE ",\"A\":\"t\",\"S\":true,\"B\":\"t\",\"Q\":5" NOW);
    assert_int_equal(apply(&b), UPGRADE_CHANGED);
    after = b.result;
    assert_int_equal(upgrade_apply(b.upgrade, &b.args, &after, &b.arena,
                         &b.result, NULL, &b.err),
        UPGRADE_UNCHANGED);
    done(&b);
}

/* What is at `to` is not touched; nor would its steps change anything. */
static void twice_gives_what_once_gives(void **state)
{
    struct bench b;
    struct entity once;

    (void)state;
    begin(&b, "all", ADD SET RENAME RETYPE REMOVE);
    give(&b, "\"T\":\"t\",\"R\":\"5\",\"L\":1,\"V\":1");
    assert_int_equal(apply(&b), UPGRADE_CHANGED);
    once = b.result;
    assert_int_equal(upgrade_version(b.upgrade, &once, NULL), UPGRADE_AT_TO);
    b.entity = once;
    assert_int_equal(apply(&b), UPGRADE_CHANGED);
    check_properties(&b.result, "\"B\":\"t\",\"R\":5,\"V\":2,\"A\":\"en\"");
    check_properties(&once, "\"B\":\"t\",\"R\":5,\"V\":2,\"A\":\"en\"");
    assert_int_equal(upgrade_holds(b.upgrade, &once), -1);
    done(&b);
}

static void the_same_entity_gives_the_same_result(void **state)
{
    struct bench b;
    struct entity first;

    (void)state;
    begin(&b, "all", EVERY_STEP);
    give(&b, "\"T\":\"t\",\"R\":\"5\",\"L\":1");
    assert_int_equal(apply(&b), UPGRADE_CHANGED);
    first = b.result;
    assert_int_equal(apply(&b), UPGRADE_CHANGED);
    assert_int_equal(first.property_count, b.result.property_count);
    for (size_t i = 0; i < first.property_count; i++) {
        check_text(first.properties[i].name, b.result.properties[i].name);
        check_text(first.properties[i].json, b.result.properties[i].json);
    }
    done(&b);
}

static void what_no_step_names_keeps_its_bytes(void **state)
{
#define ALL_TYPES                                                              \
    "\"B@odata.type\":\"Edm.Binary\",\"B\":\"AAECAwQ=\",\"T\":true,"           \
    "\"D@odata.type\":\"Edm.DateTime\",\"D\":\"2024-01-01T00:00:00.0000001Z\"" \
    ",\"N@odata.type\":\"Edm.Double\",\"N\":1.10,"                             \
    "\"M@odata.type\":\"Edm.Double\",\"M\":\"-Infinity\","                     \
    "\"G@odata.type\":\"Edm.Guid\",\"G\":"                                     \
    "\"0F8FAD5B-d9cb-469f-a165-70867728950e\",\"I\":-2147483648,"              \
    "\"L@odata.type\":\"Edm.Int64\",\"L\":\"-9223372036854775808\","           \
    "\"S\":\"\\u00e4\\/\\ud83d\\ude00 \\\\\""
    (void)state;
    becomes("all",
        "- add: {property: X, type: Edm.Int32, value: 1}\n"
        "- remove: {property: Y}\n",
        ALL_TYPES, ALL_TYPES ",\"X\":1" NOW);
}

static void each_step_that_did_something_is_counted(void **state)
{
    static const int64_t WANTED[] = {2, 1, 1, 2};
    struct bench b;

    (void)state;
    begin(&b, "all", ADD RENAME REMOVE RETYPE);
    give(&b, "\"T\":1,\"L\":1,\"R\":\"1\"");
    assert_int_equal(apply(&b), UPGRADE_CHANGED);
    give(&b, "\"R\":\"1\"");
    assert_int_equal(apply(&b), UPGRADE_CHANGED);
    give(&b, "\"A\":\"x\",\"R\":1");
    assert_int_equal(apply(&b), UPGRADE_CHANGED);
    give(&b, "\"T\":1,\"R\":\"x\"");
    assert_int_equal(apply(&b), UPGRADE_FAILED);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(b.tally.carried_out[i], WANTED[i]);
    assert_int_equal(upgrade_apply(b.upgrade, &b.args, &b.entity, &b.arena,
                         &b.result, NULL, NULL),
        UPGRADE_FAILED);
    done(&b);
}

static void a_set_of_the_same_value_changes_nothing(void **state)
{
    struct bench b;

    (void)state;
    begin(&b, "all", SET);
    give(&b, "\"A\":\"\\u0065n\"");
    assert_int_equal(apply(&b), UPGRADE_CHANGED);
    check_properties(&b.result, "\"A\":\"\\u0065n\"" NOW);
    assert_int_equal(b.tally.carried_out[0], 0);
    done(&b);
}

/* ---- what the service would not take ---- */

static void add_numbered(struct buf *to, int count)
{
    for (int i = 0; i < count; i++)
        buf_add_format(to, "%s\"P%d\":%d", i > 0 ? "," : "", i, i);
}

static void an_entity_of_252_properties_gains_none(void **state)
{
    struct buf before, after;

    (void)state;
    buf_init(&before, SIZE_MAX / 2);
    buf_init(&after, SIZE_MAX / 2);
    add_numbered(&before, 251);
    buf_add_text(&before, ",\"V\":1");
    stays("all", ADD, buf_text(&before), UPGRADE_FAILED,
        "after the steps: the entity has 253 properties");
    stays("expand", "- rename: {property: P0, to: B}\n", buf_text(&before),
        UPGRADE_FAILED, "the entity has 253 properties");

    /* one goes, one comes: it was 253 only on the way */
    buf_add_text(&after, "\"P0\":0");
    for (int i = 2; i < 251; i++)
        buf_add_format(&after, ",\"P%d\":%d", i, i);
    buf_add_text(&after, ",\"V\":2,\"A\":\"en\"");
    becomes("all", ADD "- remove: {property: P1}\n", buf_text(&before),
        buf_text(&after));

    /* the version is a property as well */
    buf_clear(&before);
    add_numbered(&before, 252);
    stays("all", REMOVE, buf_text(&before), UPGRADE_FAILED,
        "the entity has 253 properties");
    buf_done(&before);
    buf_done(&after);
}

static void add_letters(struct buf *to, const char *name, int count)
{
    buf_add_format(to, "%s\"%s\":\"", to->len > 0 ? "," : "", name);
    for (int i = 0; i < count; i++)
        buf_add_char(to, 'x');
    buf_add_char(to, '"');
}

static void an_entity_past_1_mib_is_refused(void **state)
{
    char name[16];
    struct buf before;

    (void)state;
    buf_init(&before, SIZE_MAX / 2);
    for (int i = 0; i < 15; i++) {
        snprintf(name, sizeof(name), "P%d", i);
        add_letters(&before, name, 32 * 1024);
    }
    add_letters(&before, "T", 20 * 1024);
    stays("all", "- set: {property: A, type: Edm.String, value: \"{T}\"}\n",
        buf_text(&before), UPGRADE_FAILED,
        "after the steps: the entity is larger than 1 MiB");
    buf_done(&before);
}

static void a_text_past_64_kib_is_refused(void **state)
{
    struct buf before;

    (void)state;
    buf_init(&before, SIZE_MAX / 2);
    add_letters(&before, "T", 32 * 1024);
    stays("all", "- set: {property: A, type: Edm.String, value: \"{T}x\"}\n",
        buf_text(&before), UPGRADE_FAILED,
        "after the steps: property 'A' is larger than 64 KiB");
    buf_done(&before);
}

/* ---- the version ---- */

static void the_new_version_is_written_as_it_is_configured(void **state)
{
    struct bench b;

    (void)state;
    becomes("all", REMOVE, "\"V\":1,\"A\":1", "\"V\":2,\"A\":1");
    becomes("all", REMOVE, "\"V@odata.type\":\"Edm.Double\",\"V\":1.0,\"A\":1",
        "\"V\":2,\"A\":1");
    begin_with(&b, "version: {property: V, from: 1, to: 'two'}\n"
                   "steps: [remove: {property: L}]\n");
    give(&b, "\"V\":1");
    assert_int_equal(apply(&b), UPGRADE_CHANGED);
    check_properties(&b.result, "\"V\":\"two\"");
    done(&b);
    begin_with(&b, "version: {property: V, from: 1, to: 5000000000}\n"
                   "steps: [remove: {property: L}]\n");
    give(&b, "");
    assert_int_equal(apply(&b), UPGRADE_CHANGED);
    check_properties(
        &b.result, "\"V@odata.type\":\"Edm.Int64\",\"V\":\"5000000000\"");
    done(&b);
}

struct version {
    const char *property;
    enum upgrade_version is;
};

static void check_versions(
    struct bench *b, const struct version *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        give(b, list[i].property);
        assert_int_equal(
            upgrade_version(b->upgrade, &b->entity, NULL), list[i].is);
    }
}

#define DOUBLE(value) "\"V@odata.type\":\"Edm.Double\",\"V\":" value
#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static void a_version_is_known_by_its_value(void **state)
{
    static const struct version NUMBERS[] = {
        {"\"V\":1", UPGRADE_AT_FROM},
        {"\"V\":2", UPGRADE_AT_TO},
        {"\"V\":3", UPGRADE_OTHER},
        {"\"V@odata.type\":\"Edm.Int64\",\"V\":\"1\"", UPGRADE_AT_FROM},
        {"\"V@odata.type\":\"Edm.Int64\",\"V\":\"2\"", UPGRADE_AT_TO},
        {DOUBLE("1.0"), UPGRADE_AT_FROM},
        {DOUBLE("1e0"), UPGRADE_AT_FROM},
        {DOUBLE("2"), UPGRADE_AT_TO},
        {DOUBLE("1.5"), UPGRADE_OTHER},
        {DOUBLE("\"NaN\""), UPGRADE_OTHER},
        {"\"V\":\"1\"", UPGRADE_OTHER},
        {"\"V\":true", UPGRADE_OTHER},
        {"\"v\":2", UPGRADE_AT_FROM},
        {"", UPGRADE_AT_FROM},
        {"\"V\":null", UPGRADE_AT_FROM},
    };
    static const struct version TEXTS[] = {
        {"\"V\":\"one\"", UPGRADE_AT_FROM},
        {"\"V\":\"\\u006fne\"", UPGRADE_AT_FROM},
        {"\"V\":\"2\"", UPGRADE_AT_TO},
        {"\"V\":2", UPGRADE_OTHER},
        {"\"V\":\"One\"", UPGRADE_OTHER},
        {"", UPGRADE_AT_FROM},
    };
    struct bench b;

    (void)state;
    begin(&b, "all", REMOVE);
    check_versions(&b, NUMBERS, COUNT(NUMBERS));
    done(&b);
    begin_with(&b, "version: {property: V, from: one, to: '2'}\n"
                   "steps: [remove: {property: L}]\n");
    check_versions(&b, TEXTS, COUNT(TEXTS));
    done(&b);
}

static void what_others_bring_here_is_before(void **state)
{
    static const struct property FROM[] = {
        {{"V", 1}, EDM_INT32, {"-1", 2}}, {{"V", 1}, EDM_INT32, {"0", 1}}};
    static struct upgrade_before befores[] = {
        {"first", &FROM[0]}, {"second", &FROM[1]}};
    static const struct version VERSIONS[] = {
        {"\"V\":1", UPGRADE_AT_FROM},
        {"\"V\":2", UPGRADE_AT_TO},
        {"\"V\":0", UPGRADE_BEFORE},
        {"\"V\":-1", UPGRADE_BEFORE},
        {"\"V\":-2", UPGRADE_OTHER},
        {"", UPGRADE_BEFORE},
    };
    struct bench b;
    size_t before = 7;

    (void)state;
    begin(&b, "all", REMOVE);
    b.upgrade->befores = befores;
    b.upgrade->before_count = 2;
    b.upgrade->absent_is_before = true;
    check_versions(&b, VERSIONS, COUNT(VERSIONS));
    give(&b, "\"V\":0");
    assert_int_equal(
        upgrade_version(b.upgrade, &b.entity, &before), UPGRADE_BEFORE);
    assert_int_equal(before, 1);
    give(&b, "");
    assert_int_equal(
        upgrade_version(b.upgrade, &b.entity, &before), UPGRADE_BEFORE);
    assert_int_equal(before, 0);
    done(&b);
}

/* ---- what an entity at `to` should not hold ---- */

static void holds(
    const char *phase, const char *steps, const char *properties, int wanted)
{
    struct bench b;

    begin(&b, phase, steps);
    give(&b, properties);
    assert_int_equal(upgrade_holds(b.upgrade, &b.entity), wanted);
    done(&b);
}

static void what_a_step_takes_away_is_found_at_the_new_version(void **state)
{
    (void)state;
    holds("all", ADD RENAME REMOVE, "\"V\":2,\"B\":1", -1);
    holds("all", ADD RENAME REMOVE, "\"V\":2,\"B\":1,\"T\":1", 1);
    holds("all", ADD RENAME REMOVE, "\"V\":2,\"L\":1", 2);
    holds("all", RETYPE, "\"V\":2,\"R\":\"5\"", 0);
    holds("all", RETYPE, "\"V\":2,\"R\":5", -1);
    holds("all", RETYPE, "\"V\":2", -1);
    holds("all", ADD SET, "\"V\":2", -1);
    holds("contract", RENAME, "\"V\":2,\"B\":1,\"T\":1", 0);
    holds("contract", ADD, "\"V\":2,\"A\":1", -1);
}

static void what_a_later_step_makes_is_no_remnant(void **state)
{
    (void)state;
    holds("all", REMOVE "- set: {property: L, type: Edm.Int32, value: 1}\n",
        "\"V\":2,\"L\":1", -1);
    holds("all", RENAME "- rename: {property: X, to: T}\n",
        "\"V\":2,\"T\":1,\"B\":1", -1);
    holds("all", RETYPE "- retype: {property: R, to: Edm.Int64}\n",
        "\"V\":2,\"R@odata.type\":\"Edm.Int64\",\"R\":\"5\"", -1);
    holds("all", RETYPE "- retype: {property: R, to: Edm.Int64}\n",
        "\"V\":2,\"R\":5", 1);
}

static void where_the_old_one_stays_the_new_one_is_missed(void **state)
{
    (void)state;
    holds("expand", RENAME, "\"V\":2,\"T\":1,\"B\":1", -1);
    holds("expand", RENAME, "\"V\":2,\"T\":1,\"B\":2", -1);
    holds("expand", RENAME, "\"V\":2,\"T\":1", 0);
    holds("expand", RENAME, "\"V\":2,\"B\":1", -1);
    holds("expand", REMOVE, "\"V\":2,\"L\":1", -1);
    holds("expand", TO_PROPERTY, "\"V\":2,\"R\":\"5\"", 0);
    holds("expand", TO_PROPERTY_OR("null"), "\"V\":2,\"R\":\"5\"", 0);
    holds("expand", TO_PROPERTY_OR("null"), "\"V\":2,\"R\":\"five\"", -1);
    holds("all", TO_PROPERTY, "\"V\":2,\"R\":\"5\"", 0);
    holds("all", TO_PROPERTY, "\"V\":2,\"R\":\"5\",\"Q\":5", -1);
    /* the old one may be new itself */
    holds("all",
        TO_PROPERTY "- add: {property: R, type: Edm.Int32, value: 1}\n",
        "\"V\":2,\"R\":1", -1);
    holds("all", TO_PROPERTY "- rename: {property: Q, to: Q2}\n",
        "\"V\":2,\"R\":\"5\",\"Q2\":5", -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_add_keeps_what_is_there),
        cmocka_unit_test(a_set_overwrites),
        cmocka_unit_test(every_type_can_be_added),
        cmocka_unit_test(a_template_sees_arguments_keys_and_what_was_made),
        cmocka_unit_test(a_template_that_gives_nothing_fails_the_entity),
        cmocka_unit_test(a_template_of_more_than_1_mib_fails_the_entity),
        cmocka_unit_test(a_rename_keeps_value_and_place),
        cmocka_unit_test(a_rename_onto_a_property_that_is_there_fails),
        cmocka_unit_test(what_has_no_copy_is_not_lost_by_contract),
        cmocka_unit_test(a_remove_takes_away),
        cmocka_unit_test(a_retype_converts_in_place),
        cmocka_unit_test(a_retype_into_a_new_property_keeps_the_old_one),
        cmocka_unit_test(what_cannot_be_converted_ends_as_on_error_says),
        cmocka_unit_test(what_loses_something_must_be_allowed_to),
        cmocka_unit_test(steps_are_done_in_their_order),
        cmocka_unit_test(expand_and_contract_come_to_where_both_at_once_come),
        cmocka_unit_test(twice_gives_what_once_gives),
        cmocka_unit_test(the_same_entity_gives_the_same_result),
        cmocka_unit_test(what_no_step_names_keeps_its_bytes),
        cmocka_unit_test(each_step_that_did_something_is_counted),
        cmocka_unit_test(a_set_of_the_same_value_changes_nothing),
        cmocka_unit_test(an_entity_of_252_properties_gains_none),
        cmocka_unit_test(an_entity_past_1_mib_is_refused),
        cmocka_unit_test(a_text_past_64_kib_is_refused),
        cmocka_unit_test(the_new_version_is_written_as_it_is_configured),
        cmocka_unit_test(a_version_is_known_by_its_value),
        cmocka_unit_test(what_others_bring_here_is_before),
        cmocka_unit_test(what_a_step_takes_away_is_found_at_the_new_version),
        cmocka_unit_test(what_a_later_step_makes_is_no_remnant),
        cmocka_unit_test(where_the_old_one_stays_the_new_one_is_missed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
