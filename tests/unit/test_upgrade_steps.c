/* SPDX-License-Identifier: MIT */
/* What an upgrade does to one entity: the steps, and the rules U1 to U5 and U7
 * between expand and contract. */
#include <stdio.h>
#include <string.h>

#include "jobs/upgrade/record.h"
#include "jobs/upgrade/steps.h"
#include "tests/support/hosted.h"
#include "tests/support/quotes.h"
#include "tests/support/test.h"
#include "tests/support/upgrade_yaml.h"
#include "worker/base/json.h"

/* ---- an entity, and what is done to it ---- */

struct bench {
    bool begun;
    struct hosted hosted;
    struct upgrade_how how;
    struct arena arena;
    struct entity entity;
    struct upgrade_result result;
    struct err err;
};

static const struct run_args NO_ARGS = {.count = 0};

static void done(struct bench *b)
{
    if (!b->begun)
        return;
    arena_done(&b->arena);
    hosted_done(&b->hosted);
}

TEST_FIXTURE(bench, struct bench, TEST_NOTHING, done)

#define BENCH_TEST(name)                                                       \
    TEST_WITH(name, bench_set_up, bench_tear_down, struct bench *b)

/* Merges these properties into the entity. They are written as JSON without
 * braces and with single quotes. */
static void merge(struct bench *b, const char *properties)
{
    struct slice text =
        arena_format(&b->arena, "{%s}", quoted(&b->arena, properties));
    struct entity more;

    if (entity_parse(text, false, &b->arena, &more, NULL, &b->err) != TW_OK)
        fail_msg("%s", b->err.text);
    for (size_t i = 0; i < more.property_count; i++)
        entity_set(&b->entity, &b->arena, &more.properties[i]);
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

/* Loads the job HEAD with these further lines. The entity is not changed. */
static void configure(struct bench *b, const char *rest)
{
    hosted_load(&b->hosted, arena_format(&b->arena, HEAD "%s", rest).at);
    b->how.upgrade = b->hosted.jobs.list[0].settings;
}

/* Begins anew, with the job HEAD and these further lines, and an entity with
 * these properties. */
static void begin(struct bench *b, const char *rest, const char *properties)
{
    done(b);
    memset(b, 0, sizeof(*b));
    b->begun = true;
    b->how.args = &NO_ARGS;
    arena_init(&b->arena);
    hosted_init(&b->hosted, HEAD REMOVE("Old"));
    configure(b, rest);
    replace(b, properties);
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

/* Checks the values of properties, which are written as for merge(); null: the
 * property is absent. */
static void has(struct bench *b, const char *properties)
{
    struct slice text =
        arena_format(&b->arena, "{%s}", quoted(&b->arena, properties));
    struct json *json;

    assert_ok(json_parse(text, 1, &json, &b->err));
    for (size_t i = 0; i < json_count(json); i++) {
        struct slice name = json_name(json, i);
        const struct json *wanted = json_value(json, i);
        const struct property *property = entity_find(&b->entity, name);
        struct slice is = property ? property->json : slice_of("null");

        if (!slice_equal(is, json_raw(wanted)))
            fail_msg("%.*s is %.*s, not %.*s", SLICE_ARG(name), SLICE_ARG(is),
                SLICE_ARG(json_raw(wanted)));
    }
    json_free(json);
}

/* Fails unless the upgrade changes the entity, a second upgrade does not change
 * it again, and the entity has these properties. */
static void becomes(
    struct bench *b, enum upgrade_phase phase, const char *properties)
{
    if (apply(b, phase) != UPGRADE_CHANGED)
        fail_msg("it is not changed: %s", b->err.text);
    assert_int_equal(apply(b, phase), UPGRADE_UNCHANGED);
    has(b, properties);
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

static bool is_recorded(struct bench *b)
{
    return entity_find(&b->entity, slice_of(RECORD_PROPERTY)) != NULL;
}

static struct record read_record(struct bench *b)
{
    struct record record;

    assert_true(record_read(&b->entity, &b->arena, &record));
    return record;
}

static void write_record(struct bench *b, const struct record *record)
{
    struct property property = record_property(record, &b->arena);

    entity_set(&b->entity, &b->arena, &property);
}

/* ---- the steps ---- */

#define ALL_STEPS                                                              \
    ADD("Language", "String", "en")                                            \
    SET("Checked", "Boolean", "false")                                         \
    RENAME("Text", "Body")                                                     \
    RETYPE("Rating", "Double")                                                 \
    RETYPE("Born", "DateTime, to_property: BornOn")                            \
    REMOVE("Legacy")

#define BEFORE                                                                 \
    "'Text':'t','Rating':'4.5','Born':'2024-01-01T00:00:00Z','Legacy':1,"      \
    "'Checked':true"

BENCH_TEST(all_steps_are_one_write)
{
    begin(b, ALL_STEPS, BEFORE);
    becomes(b, UPGRADE_ALL,
        "'Language':'en','Checked':false,'Text':null,'Body':'t','Rating':4.5,"
        "'Born':null,'BornOn':'2024-01-01T00:00:00.0000000Z','Legacy':null,"
        "'V':2");
    assert_false(is_recorded(b));
}

#define CHAIN                                                                  \
    RENAME("A", "B")                                                           \
    "  - {to: 5, steps: [retype: {property: B, to: Edm.Int64}]}\n"             \
    "  - {to: 10, steps: [rename: {property: B, to: C}]}\n"

/* A version is a number without a fraction, and may have any type of number. */
BENCH_TEST(an_entity_gets_all_versions_that_it_lacks)
{
    static const char *const BEFORES[] = {"'A':'7'", "'V':1,'A':'7'",
        "'V':1.0,'A':'7'", "'V@odata.type':'Edm.Int64','V':'1','A':'7'",
        "'V':2,'B':'7'", "'V':2.0,'B':'7'",
        ("'V@odata.type':'Edm.Int64','V':'5',"
         "'B@odata.type':'Edm.Int64','B':'7'")};

    for (size_t i = 0; TEST_EACH(i, BEFORES); i++) {
        begin(b, CHAIN, BEFORES[i]);
        becomes(b, UPGRADE_ALL, "'A':null,'B':null,'C':'7','V':10");
    }
    begin(b, CHAIN, "'V':10.0,'C':'7'");
    stays(b, UPGRADE_ALL);
}

BENCH_TEST(a_version_that_the_document_lacks_is_left_alone)
{
    static const char *const OUTSIDE[] = {"'V':3", "'V':11", "'V':0",
        "'V':'two'", "'V':'1'", "'V':2.5", "'V':-9", "'V':1e300", "'V':-1e300"};

    for (size_t i = 0; TEST_EACH(i, OUTSIDE); i++) {
        begin(b, CHAIN, "'A':'7','B':'8'");
        merge(b, OUTSIDE[i]);
        assert_int_equal(apply(b, UPGRADE_ALL), UPGRADE_OUTSIDE);
    }
}

#define RETYPE_R(how) SET("S", "Int32", "1") RETYPE("R", "Int32, " how)

BENCH_TEST(what_cannot_be_converted_is_for_on_error)
{
    begin(b, RETYPE_R("on_error: fail"), "'R':'x'");
    fails(b, UPGRADE_ALL, "version 2, retype R", "an Edm.String that is no");
    has(b, "'S':null");
    begin(b, RETYPE_R("on_error: skip"), "'R':'x'");
    assert_int_equal(apply(b, UPGRADE_ALL), UPGRADE_SKIPPED);
    has(b, "'S':null");
    begin(b, RETYPE_R("on_error: null"), "'R':'x'");
    becomes(b, UPGRADE_ALL, "'R':null");
    begin(b, RETYPE_R("on_error: null, to_property: Q"), "'R':'x'");
    becomes(b, UPGRADE_EXPAND, "'R':'x','Q':null");
    becomes(b, UPGRADE_CONTRACT, "'R':null");
    begin(b, RETYPE_R("on_error: fail"), "'R':4.5");
    fails(b, UPGRADE_ALL, "version 2, retype R", "fraction");
    begin(b, RETYPE_R("lossy: true"), "'R':4.5");
    becomes(b, UPGRADE_ALL, "'R':4");
}

BENCH_TEST(retypes_before_and_behind_a_rename_are_part_of_it)
{
    begin(b, RETYPE("A", "Int32") RENAME("A", "B") RETYPE("B", "Double"),
        "'A':'7'");
    becomes(b, UPGRADE_EXPAND, "'A':'7','B':7.0");
    merge(b, "'A':'8'");
    becomes(b, UPGRADE_EXPAND, "'A':'8','B':8.0");
    becomes(b, UPGRADE_CONTRACT, "'A':null,'B':8.0");
}

BENCH_TEST(what_the_service_would_not_store_fails)
{
    begin(b, ALL_STEPS, "");
    for (int i = 0; i < 252; i++)
        merge(b, arena_format(&b->arena, "'P%d':1", i).at);
    fails(b, UPGRADE_ALL, "version 2", "252");
}

/* Twenty times 60,000 bytes are more than an entity may hold. */
BENCH_TEST(a_rendered_text_that_is_too_long_fails)
{
    begin(b,
        SET("L", "String",
            "\"{A}{A}{A}{A}{A}{A}{A}{A}{A}{A}"
            "{A}{A}{A}{A}{A}{A}{A}{A}{A}{A}\""),
        "");
    merge(b, arena_format(&b->arena, "'A':'%060000d'", 7).at);
    fails(b, UPGRADE_ALL, "version 2, set L", "longer than 1 MiB");
    has(b, "'L':null");
}

BENCH_TEST(one_property_may_become_two)
{
    begin(b,
        RETYPE("A", "Int64, to_property: L") RETYPE("A",
            "Double, to_property: D") ADD("S", "String", "\"{A}\"") REMOVE("A"),
        "'A':'7'");
    becomes(b, UPGRADE_ALL, "'L':'7','D':7.0,'S':'7','A':null");
}

/* ---- between expand and contract ---- */

/* T is renamed to B. O is converted to the number N. */
#define PAIRS                                                                  \
    SET("C", "Int32", "0")                                                     \
    ADD("D", "Int32", "0")                                                     \
    RENAME("T", "B")                                                           \
    RETYPE("O", "Int32, to_property: N")

static void begin_expanded(struct bench *b, const char *on_difference)
{
    begin(b, PAIRS, "'T':'t','O':'1'");
    configure(
        b, arena_format(&b->arena, PAIRS "  on_difference: %s\n", on_difference)
               .at);
    becomes(b, UPGRADE_EXPAND, "'V':2");
    assert_true(is_recorded(b));
}

/* Rule U1: the record has digests of the old and new value of each pair. */
BENCH_TEST(each_pair_has_digests_of_its_own)
{
    struct record record;

    begin_expanded(b, "fail");
    record = read_record(b);
    assert_int_equal(record.version, 2);
    assert_int_equal(record.count, 2);
    assert_string_equal(record.pairs[0].old_digest, record.pairs[0].new_digest);
    assert_string_not_equal(
        record.pairs[1].old_digest, record.pairs[1].new_digest);
    /* The old release writes one pair of properties, the new release another
     * pair. */
    merge(b, "'T':'t2','N':5");
    becomes(b, UPGRADE_EXPAND, "'B':'t2','N':5");
    becomes(b, UPGRADE_CONTRACT, "'B':'t2','N':5");
    assert_false(is_recorded(b));
}

/* Rule U1: the record has a digest also for absence. */
BENCH_TEST(absence_has_a_digest)
{
    struct record record;

    begin(b, PAIRS, "'T':'t'");
    becomes(b, UPGRADE_EXPAND, "'V':2");
    record = read_record(b);
    assert_string_equal(record.pairs[1].old_digest, "absent");
    assert_string_equal(record.pairs[1].new_digest, "absent");
    /* Since then only the old release has written. */
    merge(b, "'O':'3'");
    becomes(b, UPGRADE_CONTRACT, "'N':3");
}

/* Rule U2: a writer sets V back to 1. The record still names version 2, so the
 * value of C stays; only missing properties are made again. */
BENCH_TEST(a_merged_old_version_repeats_no_step)
{
    begin_expanded(b, "fail");
    merge(b, "'C':7,'T':'t2','V':1");
    becomes(b, UPGRADE_EXPAND, "'C':7,'B':'t2','V':2");
    drop(b, "C");
    drop(b, "D");
    merge(b, "'V':1");
    becomes(b, UPGRADE_EXPAND, "'C':0,'D':0");
}

/* Rule U2: a conversion in place that is made twice could lose information. */
BENCH_TEST(a_retype_in_place_is_not_made_again)
{
    begin(b,
        RETYPE("R", "Int32, lossy: true") NEXT_VERSION RETYPE("R", "Double"),
        "'R':'4'");
    becomes(b, UPGRADE_EXPAND, "'V':3");
    merge(b, "'R':4.5,'V':1");
    becomes(b, UPGRADE_EXPAND, "'R':4.5");
    /* The old release writes again, with its own type. */
    merge(b, "'R':5");
    becomes(b, UPGRADE_EXPAND, "'R':5.0");
}

static const enum upgrade_phase PHASES[] = {
    UPGRADE_EXPAND, UPGRADE_CONTRACT, UPGRADE_ALL};

/* Rule U3: only the old value was written. */
BENCH_TEST(the_old_value_alone_is_converted_again)
{
    for (size_t i = 0; TEST_EACH(i, PHASES); i++) {
        begin_expanded(b, "fail");
        merge(b, "'O':'2'");
        becomes(b, PHASES[i], "'N':2,'B':'t'");
        has(b, PHASES[i] == UPGRADE_CONTRACT ? "'O':null" : "'O':'2'");
        if (PHASES[i] != UPGRADE_CONTRACT)
            becomes(b, UPGRADE_CONTRACT, "'N':2,'O':null");
    }
}

/* Rule U3: only the new value was written. */
BENCH_TEST(the_new_value_alone_stays)
{
    begin_expanded(b, "old");
    merge(b, "'N':9");
    stays(b, UPGRADE_EXPAND);
    has(b, "'O':'1'");
    becomes(b, UPGRADE_CONTRACT, "'N':9");
}

/* Rule U3: both values were written, and `on_difference` decides. */
BENCH_TEST(both_written_is_for_on_difference)
{
    static const char both[] = "'O':'2','N':9";

    begin_expanded(b, "fail");
    merge(b, both);
    fails(
        b, UPGRADE_EXPAND, "version 2, retype O", "O and N were both written");
    fails(b, UPGRADE_CONTRACT, "version 2, retype O", "both written");
    has(b, both);
    begin_expanded(b, "old");
    merge(b, both);
    becomes(b, UPGRADE_EXPAND, "'N':2,'O':'2'");
    becomes(b, UPGRADE_CONTRACT, "'N':2");
    begin_expanded(b, "new");
    merge(b, both);
    becomes(b, UPGRADE_EXPAND, "'N':9,'O':'2'");
    becomes(b, UPGRADE_CONTRACT, "'N':9");
}

/* Rule U3: both values were written, but are equal after conversion. */
BENCH_TEST(both_written_alike_is_no_difference)
{
    begin_expanded(b, "fail");
    merge(b, "'O':'2','N':2");
    becomes(b, UPGRADE_EXPAND, "'N':2");
    merge(b, "'O':'3'");
    becomes(b, UPGRADE_EXPAND, "'N':3");
}

/* Rule U3: the old release has cleared the property, or the new release has
 * removed it. */
BENCH_TEST(an_old_property_that_is_gone_is_a_difference)
{
    begin_expanded(b, "fail");
    drop(b, "T");
    fails(b, UPGRADE_CONTRACT, "version 2, rename T", "T and B");
    has(b, "'B':'t'");
    drop(b, "B"); /* both properties are absent: the value was removed */
    becomes(b, UPGRADE_CONTRACT, "'B':null");
}

/* Rule U4: a replace has removed the record and the new properties. */
BENCH_TEST(without_a_record_the_old_value_is_converted)
{
    begin_expanded(b, "fail");
    /* The writer has read V, and writes this value back. */
    replace(b, "'T':'t2','V':2");
    becomes(b, UPGRADE_EXPAND, "'B':'t2','T':'t2','C':0");
    assert_true(is_recorded(b));
    replace(b, "'T':'t3'");
    becomes(b, UPGRADE_CONTRACT, "'B':'t3','T':null");
}

/* Rule U4: without a record, the values are equal after conversion. */
BENCH_TEST(without_a_record_equal_values_are_recorded)
{
    begin_expanded(b, "fail");
    replace(b, "'O':'5','N':5,'V':2");
    becomes(b, UPGRADE_EXPAND, "'N':5");
    assert_true(is_recorded(b));
    merge(b, "'O':'6'");
    becomes(b, UPGRADE_EXPAND, "'N':6");
}

/* Rule U4: without a record, the values differ, and `on_difference` decides. */
BENCH_TEST(without_a_record_different_values_are_a_difference)
{
    static const struct {
        const char *on_difference, *n; /* NULL: the upgrade fails */
    } CASES[] = {{"fail", NULL}, {"old", "'N':5"}, {"new", "'N':6"}};

    for (size_t i = 0; i < 3 * 3 * 2; i++) {
        size_t how = i % 3;
        enum upgrade_phase phase = PHASES[i / 3 % 3];

        test_case("%s, phase %d", CASES[how].on_difference, (int)phase);
        begin_expanded(b, CASES[how].on_difference);
        replace(b, "'O':'5','N':6");
        merge(b, i < 9 ? "'V':1" : "'V':2");
        if (CASES[how].n) {
            becomes(b, phase, CASES[how].n);
            has(b, phase == UPGRADE_EXPAND ? "'O':'5'" : "'O':null");
        } else {
            fails(b, phase, "version 2, retype O", "O and N both exist");
        }
    }
}

/* Rule U4: the entity has no old property. */
BENCH_TEST(an_entity_of_the_new_release_alone_is_done)
{
    begin(b, PAIRS, "'B':'t','N':5,'V':2");
    for (size_t i = 0; TEST_EACH(i, PHASES); i++)
        stays(b, PHASES[i]);
}

/* Expands an entity to version 2. Then adds version 3 to the document, before a
 * round has read `last_write` of the previous release (rule U5). */
static void begin_next_version(
    struct bench *b, const char *step, const char *a, const char *last_write)
{
    begin(b, RENAME("A", "B"), a);
    becomes(b, UPGRADE_EXPAND, "'V':2");
    configure(b,
        arena_format(&b->arena, RENAME("A", "B") NEXT_VERSION "%s", step).at);
    merge(b, last_write);
}

BENCH_TEST(a_version_is_left_only_when_it_is_reconciled)
{
    begin_next_version(b, RENAME("B", "C"), "'A':'a'", "'A':'a2'");
    becomes(b, UPGRADE_EXPAND, "'A':null,'B':'a2','C':'a2','V':3");
    begin_next_version(b, RENAME("B", "C"), "'A':'a'", "'A':'a2','B':'b2'");
    fails(b, UPGRADE_EXPAND, "version 2, rename A", "both written");
    has(b, "'V':2,'C':null");
}

/* Rule U5: a release itself has advanced the version of the entity. */
BENCH_TEST(a_version_that_was_left_is_reconciled_too)
{
    begin_next_version(b, ADD("C", "Int32", "1"), "'A':'a'", "'A':'a2','V':3");
    becomes(b, UPGRADE_ALL, "'A':null,'B':'a2'");
    assert_false(is_recorded(b));
}

/* Rule U5: version 3 makes a new property with the name of the old property of
 * version 2. A release has written this new property by merge. */
BENCH_TEST(an_old_name_that_a_newer_version_makes_again_is_that_version_s)
{
    static const char *const STEPS[] = {
        RENAME("C", "A"), ADD("A", "String", "n")};

    for (size_t i = 0; TEST_EACH(i, STEPS); i++) {
        begin_next_version(b, STEPS[i], "'A':'title'", "'A':'subtitle','V':3");
        becomes(b, UPGRADE_ALL, "'A':'subtitle','B':'title'");
        assert_false(is_recorded(b));
    }
}

/* Rule U7: O is written with its former value, so only N counts as written. */
BENCH_TEST(a_value_that_is_back_counts_as_not_written)
{
    begin_expanded(b, "fail");
    merge(b, "'N':9");
    merge(b, "'O':'1'");
    stays(b, UPGRADE_EXPAND);
    becomes(b, UPGRADE_CONTRACT, "'N':9");
}

BENCH_TEST(a_record_that_cannot_be_read_counts_as_none)
{
    static const char *const RECORDS[] = {"''", "'{}'", "5",
        "'{\\'version\\':2,\\'pairs\\':[[]]}'",
        "'{\\'version\\':2,\\'pairs\\':[[\\'T\\',\\'B\\',\\'x\\',\\'y\\']]}'"};

    for (size_t i = 0; TEST_EACH(i, RECORDS); i++) {
        begin_expanded(b, "fail");
        merge(b,
            arena_format(&b->arena, "'" RECORD_PROPERTY "':%s", RECORDS[i]).at);
        becomes(b, UPGRADE_CONTRACT, "'B':'t'");
        assert_false(is_recorded(b));
    }
}

/* Rule U2. A record of another version property belongs to another document, so
 * its version may be greater than all versions of this document. */
BENCH_TEST(the_record_of_another_version_property_is_reported)
{
    struct record record;

    begin_expanded(b, "fail");
    record = read_record(b);
    assert_true(slice_is(record.in, "V"));
    record.in = slice_of("Other");
    for (record.version = 1; record.version <= 3; record.version++) {
        write_record(b, &record);
        fails(b, UPGRADE_ALL, RECORD_PROPERTY, "{property: Other}");
        assert_true(b->result.is_below);
        fails(b, UPGRADE_EXPAND, RECORD_PROPERTY, "contract first");
        fails(b, UPGRADE_CONTRACT, RECORD_PROPERTY, "contract first");
    }
}

/* A former version of tableward wrote records without a version property. Such
 * a record stays unchanged until contract. */
BENCH_TEST(a_record_without_a_version_property_is_the_own_one)
{
    struct record record;

    begin_expanded(b, "fail");
    record = read_record(b);
    record.in = slice_of("");
    write_record(b, &record);
    stays(b, UPGRADE_EXPAND);
    becomes(b, UPGRADE_CONTRACT, "'V':2");
    assert_false(is_recorded(b));
}

/* The upgrade removes the record in the same write, so that another round
 * changes nothing. */
BENCH_TEST(a_record_that_cannot_be_read_goes_with_the_upgrade)
{
    begin(b, REMOVE("A"), "'A':1,'" RECORD_PROPERTY "':'{}'");
    becomes(b, UPGRADE_ALL, "'V':2");
    assert_false(is_recorded(b));
}
