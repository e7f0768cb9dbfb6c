/* SPDX-License-Identifier: MIT */
/* What an upgrade does to one entity: the steps, and the rules U1 to U5 and U7
 * between expand and contract. */
#include <stdio.h>
#include <string.h>

#include "jobs/upgrade/record.h"
#include "jobs/upgrade/steps.h"
#include "tests/support/hosted.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"

/* ---- an entity, and what is done to it ---- */

struct bench {
    struct hosted hosted;
    struct upgrade_how how;
    struct arena arena;
    struct entity entity;
    struct upgrade_result result;
    struct err err;
};

#define HEAD                                                                   \
    "up:\n"                                                                    \
    "  kind: schema-upgrade\n"                                                 \
    "  table: Blogs\n"                                                         \
    "  version: {property: V, absent: 1}\n"

static const struct run_args NO_ARGS = {.count = 0};

static void begin(struct bench *b, const char *rest)
{
    char *job = mem_format(HEAD "%s", rest);

    memset(b, 0, sizeof(*b));
    hosted_init(&b->hosted, job);
    mem_free(job);
    arena_init(&b->arena);
    b->how.upgrade = b->hosted.jobs.list[0].settings;
    b->how.args = &NO_ARGS;
    entity_init(&b->entity, &b->arena, slice_of("p"), slice_of("r"));
}

static void done(struct bench *b)
{
    arena_done(&b->arena);
    hosted_done(&b->hosted);
}

/* A merge of these properties, as JSON without braces. */
static void merge(struct bench *b, const char *properties)
{
    char *text = mem_format("{%s}", properties);
    struct entity more;

    if (entity_parse(arena_copy(&b->arena, slice_of(text)), false, &b->arena,
            &more, NULL, &b->err) != TW_OK)
        fail_msg("%s", b->err.text);
    for (size_t i = 0; i < more.property_count; i++)
        entity_set(&b->entity, &b->arena, &more.properties[i]);
    mem_free(text);
}

static void replace(struct bench *b, const char *properties)
{
    entity_init(&b->entity, &b->arena, slice_of("p"), slice_of("r"));
    merge(b, properties);
}

static void drop(struct bench *b, const char *name)
{
    b->entity = entity_without(&b->entity, slice_of(name), &b->arena);
}

static enum upgrade_outcome apply(struct bench *b, enum upgrade_phase phase)
{
    enum upgrade_outcome outcome;

    b->how.phase = phase;
    b->err.text[0] = '\0';
    outcome =
        upgrade_apply(&b->how, &b->entity, &b->arena, &b->result, &b->err);
    if (outcome == UPGRADE_CHANGED)
        b->entity = b->result.entity;
    return outcome;
}

static void changes(struct bench *b, enum upgrade_phase phase)
{
    if (apply(b, phase) != UPGRADE_CHANGED)
        fail_msg("it is not changed: %s", b->err.text);
    assert_int_equal(apply(b, phase), UPGRADE_UNCHANGED);
}

static void stays(struct bench *b, enum upgrade_phase phase)
{
    enum upgrade_outcome outcome = apply(b, phase);

    if (outcome != UPGRADE_UNCHANGED)
        fail_msg("outcome %d: %s", (int)outcome, b->err.text);
}

/* Checks that the entity fails, and that err has this step and reason. */
static void fails(struct bench *b, enum upgrade_phase phase, const char *step,
    const char *why)
{
    assert_int_equal(apply(b, phase), UPGRADE_FAILED);
    assert_string_equal(b->result.step, step);
    if (!strstr(b->err.text, why) || !strstr(b->err.text, step))
        fail_msg("'%s' does not say '%s'", b->err.text, why);
}

/* Checks the value of a property; json NULL: the property is absent. */
static void has(struct bench *b, const char *name, const char *json)
{
    const struct property *is = entity_find(&b->entity, slice_of(name));

    if (!json != !is || (is && !slice_is(is->json, json)))
        fail_msg("%s is %.*s, not %s", name, is ? (int)is->json.len : 1,
            is ? is->json.at : "-", json ? json : "absent");
}

static bool is_recorded(struct bench *b)
{
    return entity_find(&b->entity, slice_of(RECORD_PROPERTY)) != NULL;
}

/* ---- the steps ---- */

#define ALL_STEPS                                                              \
    "  versions:\n"                                                            \
    "  - to: 2\n"                                                              \
    "    steps:\n"                                                             \
    "    - add: {property: Language, type: Edm.String, value: en}\n"           \
    "    - set: {property: Checked, type: Edm.Boolean, value: false}\n"        \
    "    - rename: {property: Text, to: Body}\n"                               \
    "    - retype: {property: Rating, to: Edm.Double}\n"                       \
    "    - retype: {property: Born, to: Edm.DateTime, to_property: BornOn}\n"  \
    "    - remove: {property: Legacy}\n"

#define BEFORE                                                                 \
    "\"Text\":\"t\",\"Rating\":\"4.5\",\"Born\":\"2024-01-01T00:00:00Z\","     \
    "\"Legacy\":1,\"Checked\":true"

TEST_FIXTURE(bench, struct bench, TEST_NOTHING, done)

#define BENCH_TEST(name)                                                       \
    TEST_WITH(name, bench_set_up, bench_tear_down, struct bench *b)

BENCH_TEST(all_steps_are_one_write)
{
    begin(b, ALL_STEPS);
    merge(b, BEFORE);
    changes(b, UPGRADE_ALL);
    has(b, "Language", "\"en\"");
    has(b, "Checked", "false");
    has(b, "Text", NULL);
    has(b, "Body", "\"t\"");
    has(b, "Rating", "4.5");
    has(b, "Born", NULL);
    has(b, "BornOn", "\"2024-01-01T00:00:00.0000000Z\"");
    has(b, "Legacy", NULL);
    has(b, "V", "2");
    assert_false(is_recorded(b));
}

BENCH_TEST(expand_and_contract_give_what_all_gives)
{
    struct entity all;

    begin(b, ALL_STEPS);
    merge(b, BEFORE);
    changes(b, UPGRADE_ALL);
    all = b->entity;
    replace(b, BEFORE);
    changes(b, UPGRADE_EXPAND);
    has(b, "Text", "\"t\"");
    has(b, "Body", "\"t\"");
    has(b, "Born", "\"2024-01-01T00:00:00Z\"");
    has(b, "BornOn", "\"2024-01-01T00:00:00.0000000Z\"");
    has(b, "Legacy", "1");
    has(b, "Rating", "4.5");
    has(b, "V", "2");
    changes(b, UPGRADE_CONTRACT);
    assert_int_equal(b->entity.property_count, all.property_count);
    assert_true(entity_has_all(&b->entity, &all));
}

#define CHAIN                                                                  \
    "  versions:\n"                                                            \
    "  - {to: 2, steps: [rename: {property: A, to: B}]}\n"                     \
    "  - {to: 5, steps: [retype: {property: B, to: Edm.Int64}]}\n"             \
    "  - {to: 10, steps: [rename: {property: B, to: C}]}\n"

TEST(an_entity_gets_all_versions_that_it_lacks)
{
    static const struct {
        const char *before, *c;
    } CASES[] = {
        {"\"A\":\"7\"", "\"7\""},
        {"\"V\":1,\"A\":\"7\"", "\"7\""},
        {"\"V\":2,\"B\":\"7\"", "\"7\""},
        {"\"V\":2.0,\"B\":\"7\"", "\"7\""},
        {"\"V@odata.type\":\"Edm.Int64\",\"V\":\"5\",\"B@odata.type\":"
         "\"Edm.Int64\",\"B\":\"7\"",
            "\"7\""},
    };

    for (size_t i = 0; TEST_EACH(i, CASES); i++) {
        struct bench b;

        begin(&b, CHAIN);
        merge(&b, CASES[i].before);
        changes(&b, UPGRADE_ALL);
        has(&b, "A", NULL);
        has(&b, "B", NULL);
        has(&b, "C", CASES[i].c);
        has(&b, "V", "10");
        done(&b);
    }
}

TEST(a_version_that_the_document_lacks_is_left_alone)
{
    static const char *const OUTSIDE[] = {"\"V\":3", "\"V\":11", "\"V\":0",
        "\"V\":\"two\"", "\"V\":2.5", "\"V\":-9"};

    for (size_t i = 0; TEST_EACH(i, OUTSIDE); i++) {
        struct bench b;

        begin(&b, CHAIN);
        merge(&b, "\"A\":\"7\",\"B\":\"8\"");
        merge(&b, OUTSIDE[i]);
        assert_int_equal(apply(&b, UPGRADE_ALL), UPGRADE_OUTSIDE);
        done(&b);
    }
}

#define ON_ERROR(how)                                                          \
    "  versions:\n"                                                            \
    "  - to: 2\n"                                                              \
    "    steps:\n"                                                             \
    "    - set: {property: S, type: Edm.Int32, value: 1}\n"                    \
    "    - retype: {property: R, to: Edm.Int32, " how "}\n"

TEST(what_cannot_be_converted_is_for_on_error)
{
    struct bench b;

    begin(&b, ON_ERROR("on_error: fail"));
    merge(&b, "\"R\":\"x\"");
    fails(&b, UPGRADE_ALL, "version 2, retype R", "an Edm.String that is no");
    has(&b, "S", NULL);
    done(&b);
    begin(&b, ON_ERROR("on_error: skip"));
    merge(&b, "\"R\":\"x\"");
    assert_int_equal(apply(&b, UPGRADE_ALL), UPGRADE_SKIPPED);
    has(&b, "S", NULL);
    done(&b);
    begin(&b, ON_ERROR("on_error: null"));
    merge(&b, "\"R\":\"x\"");
    changes(&b, UPGRADE_ALL);
    has(&b, "R", NULL);
    done(&b);
    begin(&b, ON_ERROR("on_error: null, to_property: Q"));
    merge(&b, "\"R\":\"x\"");
    changes(&b, UPGRADE_EXPAND);
    has(&b, "R", "\"x\"");
    has(&b, "Q", NULL);
    changes(&b, UPGRADE_CONTRACT);
    has(&b, "R", NULL);
    done(&b);
    begin(&b, ON_ERROR("on_error: fail"));
    merge(&b, "\"R\":4.5");
    fails(&b, UPGRADE_ALL, "version 2, retype R", "fraction");
    done(&b);
    begin(&b, ON_ERROR("lossy: true"));
    merge(&b, "\"R\":4.5");
    changes(&b, UPGRADE_ALL);
    has(&b, "R", "4");
    done(&b);
}

BENCH_TEST(retypes_before_and_behind_a_rename_are_part_of_it)
{
    begin(b, "  versions:\n"
             "  - to: 2\n"
             "    steps:\n"
             "    - retype: {property: A, to: Edm.Int32}\n"
             "    - rename: {property: A, to: B}\n"
             "    - retype: {property: B, to: Edm.Double}\n");
    merge(b, "\"A\":\"7\"");
    changes(b, UPGRADE_EXPAND);
    has(b, "A", "\"7\"");
    has(b, "B", "7.0");
    merge(b, "\"A\":\"8\"");
    changes(b, UPGRADE_EXPAND);
    has(b, "A", "\"8\"");
    has(b, "B", "8.0");
    changes(b, UPGRADE_CONTRACT);
    has(b, "A", NULL);
    has(b, "B", "8.0");
}

BENCH_TEST(what_the_service_would_not_store_fails)
{
    begin(b, ALL_STEPS);
    for (int i = 0; i < 252; i++) {
        char text[32];

        (void)snprintf(text, sizeof(text), "\"P%d\":1", i);
        merge(b, text);
    }
    fails(b, UPGRADE_ALL, "version 2", "252");
}

/* Twenty times 60,000 bytes are more than an entity may hold. */
BENCH_TEST(a_rendered_text_that_is_too_long_fails)
{
    char *text;

    begin(b, "  versions:\n"
             "  - to: 2\n"
             "    steps:\n"
             "    - set: {property: L, type: Edm.String, value: \""
             "{A}{A}{A}{A}{A}{A}{A}{A}{A}{A}{A}{A}{A}{A}{A}{A}{A}{A}{A}{A}"
             "\"}\n");
    text = mem_format("\"A\":\"%060000d\"", 7);
    merge(b, text);
    mem_free(text);
    fails(b, UPGRADE_ALL, "version 2, set L", "longer than 1 MiB");
    has(b, "L", NULL);
}

BENCH_TEST(one_property_may_become_two)
{
    begin(b, "  versions:\n"
             "  - to: 2\n"
             "    steps:\n"
             "    - retype: {property: A, to: Edm.Int64, to_property: L}\n"
             "    - retype: {property: A, to: Edm.Double, to_property: D}\n"
             "    - add: {property: S, type: Edm.String, value: \"{A}\"}\n"
             "    - remove: {property: A}\n");
    merge(b, "\"A\":\"7\"");
    changes(b, UPGRADE_ALL);
    has(b, "L", "\"7\"");
    has(b, "D", "7.0");
    has(b, "S", "\"7\"");
    has(b, "A", NULL);
}

BENCH_TEST(what_an_older_version_removed_is_reported)
{
    int64_t version;

    begin(b, CHAIN);
    merge(b, "\"V\":10,\"C\":\"7\"");
    assert_null(upgrade_leftover(b->how.upgrade, &b->entity, &version));
    merge(b, "\"A\":\"8\"");
    stays(b, UPGRADE_ALL);
    assert_non_null(upgrade_leftover(b->how.upgrade, &b->entity, &version));
    assert_int_equal(version, 2);
}

/* ---- between expand and contract ---- */

/* T becomes B as it is; O becomes N as a number. */
#define PAIRS                                                                  \
    "  versions:\n"                                                            \
    "  - to: 2\n"                                                              \
    "    steps:\n"                                                             \
    "    - set: {property: C, type: Edm.Int32, value: 0}\n"                    \
    "    - add: {property: D, type: Edm.Int32, value: 0}\n"                    \
    "    - rename: {property: T, to: B}\n"                                     \
    "    - retype: {property: O, to: Edm.Int32, to_property: N}\n"

static void begin_expanded(struct bench *b, const char *on_difference)
{
    char *rest = mem_format("  on_difference: %s\n" PAIRS, on_difference);

    begin(b, rest);
    mem_free(rest);
    merge(b, "\"T\":\"t\",\"O\":\"1\"");
    changes(b, UPGRADE_EXPAND);
    assert_true(is_recorded(b));
}

/* Rule U1. */
BENCH_TEST(each_pair_has_digests_of_its_own)
{
    struct record record;

    begin_expanded(b, "fail");
    assert_true(record_read(&b->entity, &b->arena, &record));
    assert_int_equal(record.version, 2);
    assert_int_equal(record.count, 2);
    assert_string_equal(record.pairs[0].old_digest, record.pairs[0].new_digest);
    assert_string_not_equal(
        record.pairs[1].old_digest, record.pairs[1].new_digest);
    /* The old release writes one pair of properties, the new release another
     * pair. */
    merge(b, "\"T\":\"t2\",\"N\":5");
    changes(b, UPGRADE_EXPAND);
    has(b, "B", "\"t2\"");
    has(b, "N", "5");
    changes(b, UPGRADE_CONTRACT);
    has(b, "B", "\"t2\"");
    has(b, "N", "5");
    assert_false(is_recorded(b));
}

/* Rule U1. */
BENCH_TEST(absence_has_a_digest)
{
    struct record record;

    begin(b, PAIRS);
    merge(b, "\"T\":\"t\"");
    changes(b, UPGRADE_EXPAND);
    assert_true(record_read(&b->entity, &b->arena, &record));
    assert_string_equal(record.pairs[1].old_digest, "absent");
    assert_string_equal(record.pairs[1].new_digest, "absent");
    /* Since then only the old release has written. */
    merge(b, "\"O\":\"3\"");
    changes(b, UPGRADE_CONTRACT);
    has(b, "N", "3");
}

/* Rule U2. */
BENCH_TEST(a_merged_old_version_repeats_no_step)
{
    begin_expanded(b, "fail");
    merge(b, "\"C\":7,\"T\":\"t2\",\"V\":1");
    changes(b, UPGRADE_EXPAND);
    has(b, "C", "7");
    has(b, "B", "\"t2\"");
    has(b, "V", "2");
    drop(b, "C");
    drop(b, "D");
    merge(b, "\"V\":1");
    changes(b, UPGRADE_EXPAND);
    has(b, "C", "0");
    has(b, "D", "0");
}

/* Rule U2: a conversion in place that is made twice could lose information. */
BENCH_TEST(a_retype_in_place_is_not_made_again)
{
    begin(b, "  versions:\n"
             "  - to: 2\n"
             "    steps:\n"
             "    - retype: {property: R, to: Edm.Int32, lossy: true}\n"
             "  - to: 3\n"
             "    steps:\n"
             "    - retype: {property: R, to: Edm.Double}\n");
    merge(b, "\"R\":\"4\"");
    changes(b, UPGRADE_EXPAND);
    merge(b, "\"R\":4.5,\"V\":1");
    changes(b, UPGRADE_EXPAND);
    has(b, "R", "4.5");
    /* The old release writes again, with its own type. */
    merge(b, "\"R\":5");
    changes(b, UPGRADE_EXPAND);
    has(b, "R", "5.0");
}

/* Rule U3. */
TEST(the_old_value_alone_is_converted_again)
{
    static const enum upgrade_phase PHASES[] = {
        UPGRADE_EXPAND, UPGRADE_CONTRACT, UPGRADE_ALL};

    for (size_t i = 0; i < 3; i++) {
        struct bench b;

        begin_expanded(&b, "fail");
        merge(&b, "\"O\":\"2\"");
        changes(&b, PHASES[i]);
        has(&b, "N", "2");
        has(&b, "B", "\"t\"");
        has(&b, "O", PHASES[i] == UPGRADE_CONTRACT ? NULL : "\"2\"");
        if (PHASES[i] != UPGRADE_CONTRACT)
            changes(&b, UPGRADE_CONTRACT);
        has(&b, "N", "2");
        has(&b, "O", NULL);
        done(&b);
    }
}

/* Rule U3. */
BENCH_TEST(the_new_value_alone_stays)
{
    begin_expanded(b, "old");
    merge(b, "\"N\":9");
    stays(b, UPGRADE_EXPAND);
    has(b, "O", "\"1\"");
    changes(b, UPGRADE_CONTRACT);
    has(b, "N", "9");
}

/* Rule U3. */
TEST(both_written_is_for_on_difference)
{
    static const struct {
        const char *on_difference, *n;
    } CASES[] = {{"fail", NULL}, {"old", "2"}, {"new", "9"}};

    for (size_t i = 0; i < 3; i++) {
        struct bench b;

        begin_expanded(&b, CASES[i].on_difference);
        merge(&b, "\"O\":\"2\",\"N\":9");
        if (CASES[i].n) {
            changes(&b, UPGRADE_EXPAND);
            has(&b, "N", CASES[i].n);
            has(&b, "O", "\"2\"");
            changes(&b, UPGRADE_CONTRACT);
            has(&b, "N", CASES[i].n);
        } else {
            fails(&b, UPGRADE_EXPAND, "version 2, retype O",
                "O and N were both written");
            fails(&b, UPGRADE_CONTRACT, "version 2, retype O", "both written");
            has(&b, "O", "\"2\"");
            has(&b, "N", "9");
        }
        done(&b);
    }
}

/* Rule U3. */
BENCH_TEST(both_written_alike_is_no_difference)
{
    begin_expanded(b, "fail");
    merge(b, "\"O\":\"2\",\"N\":2");
    changes(b, UPGRADE_EXPAND);
    merge(b, "\"O\":\"3\"");
    changes(b, UPGRADE_EXPAND);
    has(b, "N", "3");
}

/* Rule U3: the old release has cleared the property, or the new release has
 * removed it. */
BENCH_TEST(an_old_property_that_is_gone_is_a_difference)
{
    begin_expanded(b, "fail");
    drop(b, "T");
    fails(b, UPGRADE_CONTRACT, "version 2, rename T", "T and B");
    has(b, "B", "\"t\"");
    drop(b, "B"); /* both properties are absent: the value was removed */
    changes(b, UPGRADE_CONTRACT);
    has(b, "B", NULL);
}

/* Rule U4. */
BENCH_TEST(without_a_record_the_old_value_is_converted)
{
    begin_expanded(b, "fail");
    /* V has the value that the writer has read. */
    replace(b, "\"T\":\"t2\",\"V\":2");
    changes(b, UPGRADE_EXPAND);
    has(b, "B", "\"t2\"");
    has(b, "T", "\"t2\"");
    has(b, "C", "0");
    assert_true(is_recorded(b));
    replace(b, "\"T\":\"t3\"");
    changes(b, UPGRADE_CONTRACT);
    has(b, "B", "\"t3\"");
    has(b, "T", NULL);
}

/* Rule U4. */
BENCH_TEST(without_a_record_equal_values_are_recorded)
{
    begin_expanded(b, "fail");
    replace(b, "\"O\":\"5\",\"N\":5,\"V\":2");
    changes(b, UPGRADE_EXPAND);
    assert_true(is_recorded(b));
    merge(b, "\"O\":\"6\"");
    changes(b, UPGRADE_EXPAND);
    has(b, "N", "6");
}

/* Rule U4. */
TEST(without_a_record_different_values_are_a_difference)
{
    static const struct {
        const char *on_difference, *n;
    } CASES[] = {{"fail", NULL}, {"old", "5"}, {"new", "6"}};
    static const enum upgrade_phase PHASES[] = {
        UPGRADE_EXPAND, UPGRADE_CONTRACT, UPGRADE_ALL};
    static const char *const VERSIONS[] = {"\"V\":1", "\"V\":2"};

    for (size_t i = 0; i < 3 * 3 * 2; i++) {
        struct bench b;
        size_t how = i % 3;
        enum upgrade_phase phase = PHASES[i / 3 % 3];

        begin_expanded(&b, CASES[how].on_difference);
        replace(&b, "\"O\":\"5\",\"N\":6");
        merge(&b, VERSIONS[i / 9]);
        if (CASES[how].n) {
            changes(&b, phase);
            has(&b, "N", CASES[how].n);
            has(&b, "O", phase == UPGRADE_EXPAND ? "\"5\"" : NULL);
        } else {
            fails(&b, phase, "version 2, retype O", "O and N both exist");
        }
        done(&b);
    }
}

/* Rule U4. */
BENCH_TEST(an_entity_of_the_new_release_alone_is_done)
{
    begin(b, PAIRS);
    replace(b, "\"B\":\"t\",\"N\":5,\"V\":2");
    stays(b, UPGRADE_EXPAND);
    stays(b, UPGRADE_CONTRACT);
    stays(b, UPGRADE_ALL);
}

/* Rule U5. */
#define TWO_RELEASES                                                           \
    "  versions:\n"                                                            \
    "  - {to: 2, steps: [rename: {property: A, to: B}]}\n"

TEST(a_version_is_left_only_when_it_is_settled)
{
    struct bench first, b;

    begin(&first, TWO_RELEASES);
    merge(&first, "\"A\":\"a\"");
    changes(&first, UPGRADE_EXPAND);
    begin(&b,
        TWO_RELEASES "  - {to: 3, steps: [rename: {property: B, to: C}]}\n");
    /* The last write of the previous release, which no round has read. */
    entity_copy(&b.entity, &b.arena, &first.entity);
    merge(&b, "\"A\":\"a2\"");
    changes(&b, UPGRADE_EXPAND);
    has(&b, "A", NULL);
    has(&b, "B", "\"a2\"");
    has(&b, "C", "\"a2\"");
    has(&b, "V", "3");
    entity_copy(&b.entity, &b.arena, &first.entity);
    merge(&b, "\"A\":\"a2\",\"B\":\"b2\"");
    fails(&b, UPGRADE_EXPAND, "version 2, rename A", "both written");
    has(&b, "V", "2");
    has(&b, "C", NULL);
    done(&b);
    done(&first);
}

/* Rule U5: a release itself has advanced the version of the entity. */
TEST(a_version_that_was_left_is_settled_too)
{
    struct bench first, b;

    begin(&first, TWO_RELEASES);
    merge(&first, "\"A\":\"a\"");
    changes(&first, UPGRADE_EXPAND);
    begin(&b, TWO_RELEASES "  - {to: 3, steps: [add: {property: C, type: "
                           "Edm.Int32, value: 1}]}\n");
    entity_copy(&b.entity, &b.arena, &first.entity);
    merge(&b, "\"A\":\"a2\",\"V\":3");
    changes(&b, UPGRADE_ALL);
    has(&b, "A", NULL);
    has(&b, "B", "\"a2\"");
    assert_false(is_recorded(&b));
    done(&b);
    done(&first);
}

/* Rule U5: the old property of version 2 is one of version 3, which a release
 * has written by merge. */
TEST(an_old_name_that_a_newer_version_makes_again_is_that_version_s)
{
    static const char *const THIRD[] = {
        "  - {to: 3, steps: [rename: {property: C, to: A}]}\n",
        "  - {to: 3, steps: [add: {property: A, type: Edm.String, value: "
        "n}]}\n",
    };

    for (size_t i = 0; TEST_EACH(i, THIRD); i++) {
        char *rest = mem_format(TWO_RELEASES "%s", THIRD[i]);
        struct bench first, b;

        begin(&first, TWO_RELEASES);
        merge(&first, "\"A\":\"title\"");
        changes(&first, UPGRADE_EXPAND);
        begin(&b, rest);
        entity_copy(&b.entity, &b.arena, &first.entity);
        merge(&b, "\"A\":\"subtitle\",\"V\":3");
        changes(&b, UPGRADE_ALL);
        has(&b, "A", "\"subtitle\"");
        has(&b, "B", "\"title\"");
        assert_false(is_recorded(&b));
        done(&b);
        done(&first);
        mem_free(rest);
    }
}

/* Rule U7. */
BENCH_TEST(a_value_that_is_back_counts_as_not_written)
{
    begin_expanded(b, "fail");
    merge(b, "\"N\":9");
    merge(b, "\"O\":\"1\"");
    stays(b, UPGRADE_EXPAND);
    changes(b, UPGRADE_CONTRACT);
    has(b, "N", "9");
}

/* The old release edits an entity after the last round of expand. */
TEST(an_edit_of_the_old_release_survives_contract)
{
    struct bench b;

    begin_expanded(&b, "fail");
    merge(&b, "\"T\":\"edited\"");
    changes(&b, UPGRADE_CONTRACT);
    has(&b, "B", "\"edited\"");
    has(&b, "T", NULL);
    done(&b);
    begin_expanded(&b, "fail");
    replace(&b, "\"T\":\"replaced\"");
    changes(&b, UPGRADE_CONTRACT);
    has(&b, "B", "\"replaced\"");
    done(&b);
}

BENCH_TEST(all_keeps_what_expand_prepared)
{
    begin_expanded(b, "fail");
    stays(b, UPGRADE_ALL);
    has(b, "T", "\"t\"");
}

TEST(a_record_that_cannot_be_read_counts_as_none)
{
    static const char *const RECORDS[] = {"\"\"", "\"{}\"", "5",
        "\"{\\\"version\\\":2,\\\"pairs\\\":[[]]}\"",
        ("\"{\\\"version\\\":2,\\\"pairs\\\":[[\\\"T\\\",\\\"B\\\",\\\"x\\\","
         "\\\"y\\\"]]}\"")};

    for (size_t i = 0; TEST_EACH(i, RECORDS); i++) {
        struct bench b;
        char *property = mem_format("\"" RECORD_PROPERTY "\":%s", RECORDS[i]);

        begin_expanded(&b, "fail");
        merge(&b, property);
        changes(&b, UPGRADE_CONTRACT);
        has(&b, "B", "\"t\"");
        assert_false(is_recorded(&b));
        mem_free(property);
        done(&b);
    }
}

/* Rule U2. Its version is a number of the other document, and may be greater
 * than all of this one. */
BENCH_TEST(the_record_of_another_version_property_is_reported)
{
    struct record record;

    begin_expanded(b, "fail");
    assert_true(record_read(&b->entity, &b->arena, &record));
    assert_true(slice_is(record.in, "V"));
    record.in = slice_of("Other");
    for (int64_t version = 1; version <= 3; version++) {
        struct property property;

        record.version = version;
        property = record_property(&record, &b->arena);
        entity_set(&b->entity, &b->arena, &property);
        fails(b, UPGRADE_ALL, RECORD_PROPERTY, "{property: Other}");
        assert_true(b->result.is_below);
        fails(b, UPGRADE_EXPAND, RECORD_PROPERTY, "contract first");
        fails(b, UPGRADE_CONTRACT, RECORD_PROPERTY, "contract first");
    }
}

/* A former version of tableward has written it. It stays as it is until
 * contract. */
BENCH_TEST(a_record_without_a_version_property_is_the_own_one)
{
    struct record record;
    struct property property;

    begin_expanded(b, "fail");
    assert_true(record_read(&b->entity, &b->arena, &record));
    record.in = slice_of("");
    property = record_property(&record, &b->arena);
    entity_set(&b->entity, &b->arena, &property);
    stays(b, UPGRADE_EXPAND);
    changes(b, UPGRADE_CONTRACT);
    assert_false(is_recorded(b));
}

/* The upgrade replaces it in its one write: another round changes nothing. */
BENCH_TEST(a_record_that_cannot_be_read_goes_with_the_upgrade)
{
    begin(b, "  versions:\n"
             "  - {to: 2, steps: [{remove: {property: A}}]}\n");
    replace(b, "\"A\":1,\"" RECORD_PROPERTY "\":\"{}\"");
    changes(b, UPGRADE_ALL);
    assert_false(is_recorded(b));
    has(b, "V", "2");
}
