/* SPDX-License-Identifier: MIT */
/* The configuration of a schema-upgrade job: what is read, what is refused and
 * where, and how the jobs of a table form a chain of versions. */
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
#include "jobs/jobs.h"
#include "jobs/upgrade/rules.h"
#include "tests/support/fixture.h"
#include "worker/base/mem.h"

/* ---- jobs of the kind from a map of jobs ---- */

#define MAX_JOBS 8

struct rules {
    struct arena arena;
    struct problems problems;
    struct job list[MAX_JOBS];
    struct jobs jobs;
    const char *names[2]; /* of stores: main, the default one, and other */
    struct job_stores stores;
    const char *unset; /* of the last job */
};

static const struct kind THIS_KIND = {.name = "schema-upgrade"};
static const struct kind OTHER_KIND = {.name = "other"};

/* `args` is a list of names here. */
static void load_job(
    struct rules *r, const struct yaml_node *key, const struct yaml_node *node)
{
    const struct yaml_node *args = yaml_get(node, "args"),
                           *kind = yaml_get(node, "kind");
    struct job_loader loader = {.job = key->text.at,
        .arg_count = args ? args->count : 0,
        .stores = &r->stores,
        .arena = &r->arena,
        .problems = &r->problems};
    struct slice *names =
        arena_alloc(&r->arena, (loader.arg_count + 1) * sizeof(*names));
    struct job *job = &r->list[r->jobs.count];

    for (size_t i = 0; i < loader.arg_count; i++)
        names[i] = args->items[i]->text;
    loader.args = names;
    *job = (struct job){.name = key->text.at,
        .mark = key->mark,
        .kind =
            kind && slice_is(kind->text, "other") ? &OTHER_KIND : &THIS_KIND};
    job->settings = upgrade_rules_load(node, &loader);
    r->unset = loader.unset;
    if (job->settings)
        r->jobs.count++;
}

static void begin(struct rules *r, const char *text)
{
    struct yaml_node *root;

    memset(r, 0, sizeof(*r));
    arena_init(&r->arena);
    problems_init(&r->problems);
    r->names[0] = "main";
    r->names[1] = "other";
    r->stores = (struct job_stores){.count = 2, .names = r->names};
    root = yaml_read("test.yaml", arena_copy(&r->arena, slice_of(text)),
        &r->arena, &r->problems);
    assert_non_null(root);
    assert_in_range(root->count, 1, MAX_JOBS);
    r->jobs.list = r->list;
    for (size_t i = 0; i < root->count; i++)
        load_job(r, root->keys[i], root->items[i]);
    for (size_t i = 0; i < r->jobs.count; i++)
        if (r->list[i].kind == &THIS_KIND)
            upgrade_rules_link(&r->list[i], &r->jobs, &r->arena, &r->problems);
}

static void done(struct rules *r)
{
    problems_done(&r->problems);
    arena_done(&r->arena);
}

static const struct upgrade *good(struct rules *r, const char *text)
{
    begin(r, text);
    if (r->problems.errors > 0 || r->jobs.count == 0) {
        problems_print(&r->problems, stderr);
        fail_msg("it should have loaded: %s", text);
    }
    return r->list[0].settings;
}

static const struct upgrade *job_named(struct rules *r, const char *name)
{
    const struct job *job = jobs_find(&r->jobs, slice_of(name));

    assert_non_null(job);
    return job->settings;
}

static bool has_problem(
    const struct rules *r, unsigned line, unsigned column, const char *sentence)
{
    for (size_t i = 0; i < r->problems.count; i++) {
        const struct problem *is = &r->problems.list[i];

        if (!is->warning && is->mark.line == line &&
            is->mark.column == column && strstr(is->text, sentence))
            return true;
    }
    return false;
}

/* Refused for this one reason, at this place. */
struct refusal {
    const char *text;
    unsigned line, column;
    const char *sentence;
};

static void refused(const struct refusal *it, size_t jobs)
{
    struct rules r;

    begin(&r, it->text);
    if (r.problems.errors != 1 || r.jobs.count != jobs ||
        !has_problem(&r, it->line, it->column, it->sentence)) {
        problems_print(&r.problems, stderr);
        fail_msg("wanted %u:%u: %s\nof\n%s", it->line, it->column, it->sentence,
            it->text);
    }
    done(&r);
}

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static void all_refused(const struct refusal *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        refused(&list[i], 0);
}

/* Steps begin in line 6. */
#define TOP                                                                    \
    "up:\n"                                                                    \
    "  kind: schema-upgrade\n"                                                 \
    "  table: Blogs\n"
#define VERSION "  version: {property: V, from: 1, to: 2}\n"
#define STEPS "  steps:\n"
#define HEAD TOP VERSION STEPS
#define STEP "    - remove: {property: Old}\n"

/* ---- the job ---- */

static void what_is_left_out_has_its_default(void **state)
{
    struct rules r;
    const struct upgrade *upgrade = good(&r, HEAD STEP);

    (void)state;
    assert_int_equal(upgrade->place.store, 0);
    assert_string_equal(upgrade->place.table, "Blogs");
    assert_true(selector_is_empty(&upgrade->selector));
    assert_int_equal(upgrade->phase, UPGRADE_ALL);
    assert_int_equal(upgrade->max_passes, 10);
    assert_int_equal(upgrade->step_count, 1);
    assert_int_equal(upgrade->before_count, 0);
    assert_false(upgrade->absent_is_before);
    done(&r);
}

static void every_key_of_a_job_is_read(void **state)
{
    struct rules r;
    const struct upgrade *upgrade =
        good(&r, "up:\n"
                 "  kind: schema-upgrade\n"
                 "  args: [type]\n"
                 "  store: other\n"
                 "  table: Blogs\n"
                 "  filter: \"EntityType eq '{type}'\"\n"
                 "  version: {property: V, from: 1, to: 2}\n"
                 "  steps: [remove: {property: Old}]\n"
                 "  phase: contract\n"
                 "  max_passes: 1000\n");

    (void)state;
    assert_int_equal(upgrade->place.store, 1);
    check_text(template_source(upgrade->selector.filter),
        slice_of("EntityType eq '{type}'"));
    assert_int_equal(upgrade->phase, UPGRADE_CONTRACT);
    assert_int_equal(upgrade->max_passes, 1000);
    done(&r);
}

static void a_job_that_is_wrong_is_refused_at_its_place(void **state)
{
    static const struct refusal BAD[] = {
        {"up:\n  table: Blogs\n" STEPS STEP, 2, 3, "version"},
        {TOP VERSION, 2, 3, "steps"},
        {"up:\n" VERSION STEPS STEP, 2, 3, "table"},
        {"up:\n  table: my-table\n" VERSION STEPS STEP, 2, 10,
            "'my-table' is no table name"},
        {"up:\n  table: ''\n" VERSION STEPS STEP, 2, 10, "'' is no table name"},
        {"up:\n  store: othr\n  table: Blogs\n" VERSION STEPS STEP, 2, 10,
            "did you mean 'other'?"},
        {HEAD STEP "  phase: exand\n", 7, 10, "did you mean 'expand'?"},
        {HEAD STEP "  max_passes: 0\n", 7, 15, "from 1 to 1000"},
        {HEAD STEP "  max_passes: 1001\n", 7, 15, "from 1 to 1000"},
        {HEAD STEP "  fliter: x\n", 7, 3, "did you mean 'filter'?"},
        {HEAD STEP "  filter: \"Kind eq\"\n", 7, 19, "filter"},
        {HEAD STEP "  filter: \"Kind eq '{Kind}'\"\n", 7, 22, "Kind"},
        {HEAD STEP "  filter: [x]\n", 7, 11, "a text"},
        {HEAD STEP "  filter: \" \"\n", 7, 11, "this filter is empty"},
        {"up: []\n", 1, 5, "job up"},
    };

    (void)state;
    all_refused(BAD, COUNT(BAD));
}

/* ---- the version ---- */

static void a_version_is_an_integer_or_a_text(void **state)
{
    static const struct {
        const char *value;
        enum edm_type type;
        const char *json;
    } GOOD[] = {
        {"7", EDM_INT32, "7"},
        {"-1", EDM_INT32, "-1"},
        {"2147483647", EDM_INT32, "2147483647"},
        {"2147483648", EDM_INT64, "\"2147483648\""},
        {"-2147483648", EDM_INT32, "-2147483648"},
        {"-2147483649", EDM_INT64, "\"-2147483649\""},
        {"'7'", EDM_STRING, "\"7\""},
        {"\"seven\"", EDM_STRING, "\"seven\""},
        {"seven", EDM_STRING, "\"seven\""},
        {"Seven", EDM_STRING, "\"Seven\""},
        {"''", EDM_STRING, "\"\""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(GOOD); i++) {
        char *text = mem_format(TOP
            "  version: {property: V, from: %s, to: 2}\n" STEPS STEP,
            GOOD[i].value);
        struct rules r;
        const struct upgrade *upgrade = good(&r, text);

        check_text(upgrade->version, slice_of("V"));
        check_text(upgrade->from.name, slice_of("V"));
        assert_int_equal(upgrade->from.type, GOOD[i].type);
        check_text(upgrade->from.json, slice_of(GOOD[i].json));
        assert_int_equal(upgrade->to.type, EDM_INT32);
        done(&r);
        mem_free(text);
    }
}

static void a_version_that_is_wrong_is_refused_at_its_place(void **state)
{
#define WITH(version) TOP "  version: " version "\n" STEPS STEP
    static const struct refusal BAD[] = {
        {WITH("3"), 4, 12, "version"},
        {WITH("{from: 1, to: 2}"), 4, 12, "property"},
        {WITH("{property: V, to: 2}"), 4, 12, "from"},
        {WITH("{property: V, from: 1}"), 4, 12, "to"},
        {WITH("{property: V, from: 1, to: 2, too: 3}"), 4, 42,
            "unknown key 'too'"},
        {WITH("{property: PartitionKey, from: 1, to: 2}"), 4, 23,
            "PartitionKey stays as it is"},
        {WITH("{property: 'a b', from: 1, to: 2}"), 4, 23,
            "'a b' is no property name"},
        {WITH("{property: V, from: 1, to: 1}"), 4, 39, "the same version"},
        {WITH("{property: V, from: a, to: 'a'}"), 4, 39, "the same version"},
        {WITH("{property: V, from: 1.5, to: 2}"), 4, 32,
            "from wants a whole number such as 2, or a text in quotes"},
        {WITH("{property: V, from: 01x, to: 2}"), 4, 32, "a whole number"},
        {WITH("{property: V, from: 9223372036854775808, to: 2}"), 4, 32,
            "a whole number"},
        {WITH("{property: V, from: true, to: 2}"), 4, 32, "a whole number"},
        {WITH("{property: V, from: null, to: 2}"), 4, 32, "a whole number"},
        {WITH("{property: V, from: , to: 2}"), 4, 32, "a whole number"},
        {WITH("{property: V, from: 1, to: [2]}"), 4, 39, "to wants a whole"},
        {WITH("{property: V, from: '${NOT_SET_X}', to: 2}"), 4, 32,
            "NOT_SET_X is not set"},
    };

    (void)state;
    unsetenv("NOT_SET_X");
    all_refused(BAD, COUNT(BAD));
}

static void versions_are_the_same_by_value(void **state)
{
#define INT32(text)                                                            \
    {                                                                          \
        .type = EDM_INT32, .json = { text, sizeof(text) - 1 }                  \
    }
#define INT64(text)                                                            \
    {                                                                          \
        .type = EDM_INT64, .json = { text, sizeof(text) - 1 }                  \
    }
#define DOUBLE(text)                                                           \
    {                                                                          \
        .type = EDM_DOUBLE, .json = { text, sizeof(text) - 1 }                 \
    }
#define STRING(text)                                                           \
    {                                                                          \
        .type = EDM_STRING, .json = { text, sizeof(text) - 1 }                 \
    }
    static const struct {
        struct property a, b;
        bool same;
    } PAIRS[] = {
        {INT32("2"), INT32("2"), true},
        {INT32("2"), INT64("\"2\""), true},
        {INT32("2"), DOUBLE("2.0"), true},
        {INT64("\"2\""), DOUBLE("2"), true},
        {INT32("2"), INT32("3"), false},
        {INT32("2"), DOUBLE("2.5"), false},
        {INT32("2"), DOUBLE("\"NaN\""), false},
        {INT32("2"), DOUBLE("\"Infinity\""), false},
        {INT64("\"9223372036854775807\""), DOUBLE("9223372036854775808"),
            false},
        {INT64("\"-9223372036854775808\""), DOUBLE("-9223372036854775808"),
            true},
        {INT32("2"), STRING("\"2\""), false},
        {STRING("\"2\""), STRING("\"2\""), true},
        {STRING("\"2\""), STRING("\"\\u0032\""), true},
        {STRING("\"a\""), STRING("\"A\""), false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(PAIRS); i++) {
        assert_int_equal(upgrade_rules_same_version(&PAIRS[i].a, &PAIRS[i].b),
            PAIRS[i].same);
        assert_int_equal(upgrade_rules_same_version(&PAIRS[i].b, &PAIRS[i].a),
            PAIRS[i].same);
    }
}

/* ---- steps ---- */

static void every_step_is_read(void **state)
{
    struct rules r;
    const struct upgrade *upgrade = good(&r,
        HEAD "    - add: {property: A, type: Edm.String, value: \"en\"}\n"
             "    - set: {property: S, type: Edm.Boolean, value: false}\n"
             "    - rename: {property: T, to: B}\n"
             "    - retype: {property: R, to: Edm.Double}\n"
             "    - retype: {property: Q, to: Edm.Int32, to_property: Q2,\n"
             "        lossy: true, on_error: null}\n"
             "    - retype: {property: P, to: Edm.Guid, on_error: skip}\n"
             "    - retype: {property: O, to: Edm.Guid, on_error: fail}\n"
             "    - remove: {property: L}\n");
    static const struct {
        enum upgrade_step_type type;
        const char *property, *to;
        enum edm_type edm;
        bool lossy;
        enum upgrade_on_error on_error;
        unsigned line;
    } WANTED[] = {
        {UPGRADE_ADD, "A", "", EDM_STRING, false, UPGRADE_FAIL, 6},
        {UPGRADE_SET, "S", "", EDM_BOOLEAN, false, UPGRADE_FAIL, 7},
        {UPGRADE_RENAME, "T", "B", 0, false, UPGRADE_FAIL, 8},
        {UPGRADE_RETYPE, "R", "", EDM_DOUBLE, false, UPGRADE_FAIL, 9},
        {UPGRADE_RETYPE, "Q", "Q2", EDM_INT32, true, UPGRADE_NULL, 10},
        {UPGRADE_RETYPE, "P", "", EDM_GUID, false, UPGRADE_SKIP, 12},
        {UPGRADE_RETYPE, "O", "", EDM_GUID, false, UPGRADE_FAIL, 13},
        {UPGRADE_REMOVE, "L", "", 0, false, UPGRADE_FAIL, 14},
    };

    (void)state;
    assert_int_equal(upgrade->step_count, COUNT(WANTED));
    for (size_t i = 0; i < COUNT(WANTED); i++) {
        const struct upgrade_step *step = &upgrade->steps[i];

        assert_int_equal(step->type, WANTED[i].type);
        check_text(step->property, slice_of(WANTED[i].property));
        check_text(step->to, slice_of(WANTED[i].to));
        assert_int_equal(step->edm, WANTED[i].edm);
        assert_int_equal(step->lossy, WANTED[i].lossy);
        assert_int_equal(step->on_error, WANTED[i].on_error);
        assert_int_equal(step->mark.line, WANTED[i].line);
        assert_int_equal(step->mark.column, 7);
    }
    done(&r);
}

static void a_constant_is_converted_once_for_all(void **state)
{
    static const struct {
        const char *type, *value;
        enum edm_type edm;
        const char *json;
    } GOOD[] = {
        {"Edm.Boolean", "false", EDM_BOOLEAN, "false"},
        {"Edm.Boolean", "\"true\"", EDM_BOOLEAN, "true"},
        {"Edm.Int32", "5", EDM_INT32, "5"},
        {"Edm.Int64", "'-5'", EDM_INT64, "\"-5\""},
        {"Edm.Double", "0.5", EDM_DOUBLE, "0.5"},
        {"Edm.String", "en", EDM_STRING, "\"en\""},
        {"Edm.String", "5", EDM_STRING, "\"5\""},
        {"Edm.String", "\"\"", EDM_STRING, "\"\""},
        {"Edm.String", "\"null\"", EDM_STRING, "\"null\""},
        {"Edm.String", "'a{{b}}'", EDM_STRING, "\"a{b}\""},
        {"Edm.Binary", "AAEC", EDM_BINARY, "\"AAEC\""},
        {"Edm.Guid", "0f8fad5b-d9cb-469f-a165-70867728950e", EDM_GUID,
            "\"0f8fad5b-d9cb-469f-a165-70867728950e\""},
        {"Edm.DateTime", "2024-01-01T00:00:00Z", EDM_DATETIME,
            "\"2024-01-01T00:00:00.0000000Z\""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(GOOD); i++) {
        char *text =
            mem_format(HEAD "    - set: {property: A, type: %s, value: %s}\n",
                GOOD[i].type, GOOD[i].value);
        struct rules r;
        const struct upgrade_step *step = &good(&r, text)->steps[0];
        struct property wanted = {
            slice_of("A"), GOOD[i].edm, slice_of(GOOD[i].json)};

        assert_non_null(step->constant);
        check_text(step->constant->name, slice_of("A"));
        assert_int_equal(step->edm, GOOD[i].edm);
        assert_true(property_equal(step->constant, &wanted));
        done(&r);
        mem_free(text);
    }
}

static void a_template_is_rendered_for_each_entity(void **state)
{
    struct rules r;
    const struct upgrade *upgrade = good(&r,
        "up:\n  args: [channel]\n  table: Blogs\n" VERSION STEPS
        "    - add: {property: A, type: Edm.String, value: \"{lower(T)}\"}\n"
        "    - add: {property: B, type: Edm.String, value: "
        "\"{channel}/{PartitionKey}/{V}\"}\n");

    (void)state;
    for (size_t i = 0; i < upgrade->step_count; i++) {
        assert_null(upgrade->steps[i].constant);
        assert_non_null(upgrade->steps[i].value);
    }
    done(&r);
}

static void a_variable_that_is_not_set_is_remembered(void **state)
{
    struct rules r;
    const struct upgrade *upgrade;

    (void)state;
    unsetenv("NOT_SET_X");
    unsetenv("NOT_SET_Y");
    upgrade = good(&r, HEAD "    - add: {property: A, type: Edm.Int32, value: "
                            "\"${NOT_SET_X}\"}\n"
                            "    - add: {property: B, type: Edm.Int32, value: "
                            "\"${NOT_SET_Y}\"}\n");
    assert_string_equal(r.unset, "NOT_SET_X");
    assert_null(upgrade->steps[0].constant);
    done(&r);
}

static void a_step_that_is_wrong_is_refused_at_its_place(void **state)
{
    static const struct refusal BAD[] = {
        {TOP VERSION "  steps: x\n", 5, 10, "a list of 1 to 64 steps"},
        {TOP VERSION "  steps: []\n", 5, 10, "a list of 1 to 64 steps"},
        {HEAD "    - remove\n", 6, 7, "a step wants add, set, rename"},
        {HEAD "    - {}\n", 6, 7, "a step wants add, set, rename"},
        {HEAD "    - remvoe: {property: A}\n", 6, 7,
            "unknown step 'remvoe', did you mean 'remove'?"},
        {HEAD "    - remove: {property: A}\n      add: {}\n", 7, 7,
            "a step is one key"},
        {HEAD "    - remove: A\n", 6, 15, "the step remove"},
        {HEAD "    - remove: {}\n", 6, 15, "property"},
        {HEAD "    - remove: {property: A, to: B}\n", 6, 29, "'to'"},
        {HEAD "    - remove: {property: PartitionKey}\n", 6, 26,
            "PartitionKey stays as it is"},
        {HEAD "    - remove: {property: RowKey}\n", 6, 26,
            "RowKey stays as it is"},
        {HEAD "    - remove: {property: Timestamp}\n", 6, 26,
            "Timestamp stays as it is"},
        {HEAD "    - remove: {property: V}\n", 6, 26, "V holds the version"},
        {HEAD "    - remove: {property: a-b}\n", 6, 26,
            "'a-b' is no property name"},
        {HEAD "    - remove: {property: ''}\n", 6, 26,
            "'' is no property name"},
        {HEAD "    - remove: {property: 9}\n", 6, 26, "a text"},
    };

    (void)state;
    all_refused(BAD, COUNT(BAD));
}

static void an_add_that_is_wrong_is_refused_at_its_place(void **state)
{
#define ADD(rest) HEAD "    - add: {property: A" rest "}\n"
    static const struct refusal BAD[] = {
        {ADD(", type: Edm.String"), 6, 12, "value"},
        {ADD(", value: x"), 6, 12, "type"},
        {HEAD "    - set: {type: Edm.String, value: x}\n", 6, 12, "property"},
        {ADD(", type: Int64, value: 5"), 6, 32,
            "unknown type 'Int64', did you mean 'Edm.Int64'?"},
        {ADD(", type: Edm.Strng, value: 5"), 6, 32,
            "unknown type 'Edm.Strng', did you mean 'Edm.String'?"},
        {ADD(", type: int, value: 5"), 6, 32,
            "unknown type 'int': there is Edm.Binary, "},
        {ADD(", type: [Edm.String], value: 5"), 6, 32, "a text"},
        {ADD(", type: Edm.String, value: "), 6, 51, "a text"},
        {ADD(", type: Edm.String, value: null"), 6, 51, "a text"},
        {ADD(", type: Edm.String, value: [x]"), 6, 51, "a text"},
        {ADD(", type: Edm.String, value: {Title}"), 6, 51,
            "write it in quotes, \"{Title}\""},
        {ADD(", type: Edm.String, value: \"x{Title\""), 6, 53, "never closed"},
        {ADD(", type: Edm.String, value: \"{lwer(Title)}\""), 6, 53, "lwer"},
        {ADD(", type: Edm.Int32, value: five"), 6, 50,
            "this value cannot be Edm.Int32: "},
        {ADD(", type: Edm.Int32, value: 5.0"), 6, 50,
            "this value cannot be Edm.Int32: "},
        {ADD(", type: Edm.Int32, value: 3000000000"), 6, 50,
            "this value cannot be Edm.Int32: "},
        {ADD(", type: Edm.Boolean, value: 'yes'"), 6, 52,
            "this value cannot be Edm.Boolean: "},
        {ADD(", type: Edm.DateTime, value: 2024-01-01"), 6, 53,
            "this value cannot be Edm.DateTime: "},
        {HEAD "    - set: {property: RowKey, type: Edm.String, value: x}\n", 6,
            23, "RowKey stays as it is"},
        {HEAD "    - set: {property: V, type: Edm.Int32, value: 2}\n", 6, 23,
            "V holds the version"},
    };

    (void)state;
    all_refused(BAD, COUNT(BAD));
}

static void a_constant_that_is_too_large_is_refused(void **state)
{
    char *letters = mem_alloc(32 * 1024 + 2), *text;
    struct rules r;

    (void)state;
    memset(letters, 'x', 32 * 1024 + 1);
    text = mem_format(HEAD
        "    - add: {property: A, type: Edm.String, value: %s}\n",
        letters);
    refused(&(struct refusal){text, 6, 51, "larger than 64 KiB"}, 0);
    mem_free(text);
    letters[32 * 1024] = '\0';
    text = mem_format(HEAD
        "    - add: {property: A, type: Edm.String, value: %s}\n",
        letters);
    good(&r, text);
    done(&r);
    mem_free(text);
    mem_free(letters);
}

static void a_rename_that_is_wrong_is_refused_at_its_place(void **state)
{
    static const struct refusal BAD[] = {
        {HEAD "    - rename: {property: A}\n", 6, 15, "to"},
        {HEAD "    - rename: {to: A}\n", 6, 15, "property"},
        {HEAD "    - rename: {property: A, to: A}\n", 6, 33,
            "A is the property itself"},
        {HEAD "    - rename: {property: A, to: RowKey}\n", 6, 33,
            "RowKey stays as it is"},
        {HEAD "    - rename: {property: A, to: V}\n", 6, 33,
            "V holds the version"},
        {HEAD "    - rename: {property: A, to: 'b!'}\n", 6, 33,
            "'b!' is no property name"},
        {HEAD "    - rename: {property: V, to: A}\n", 6, 26,
            "V holds the version"},
    };

    (void)state;
    all_refused(BAD, COUNT(BAD));
}

static void a_retype_that_is_wrong_is_refused_at_its_place(void **state)
{
#define RETYPE(rest) HEAD "    - retype: {property: A" rest "}\n"
    static const struct refusal BAD[] = {
        {RETYPE(""), 6, 15, "to"},
        {RETYPE(", to: Edm.Flaot"), 6, 33, "unknown type 'Edm.Flaot'"},
        {RETYPE(", to: Double"), 6, 33, "did you mean 'Edm.Double'?"},
        {RETYPE(", to: Edm.Double, lossy: yes"), 6, 52, "true or false"},
        {RETYPE(", to: Edm.Double, on_error: skp"), 6, 55,
            "unknown on_error 'skp', did you mean 'skip'?"},
        {RETYPE(", to: Edm.Double, on_error: "), 6, 55, "a text"},
        {RETYPE(", to: Edm.Double, on_error: [null]"), 6, 55, "a text"},
        {RETYPE(", to: Edm.Double, to_property: A"), 6, 58,
            "A is the property itself"},
        {RETYPE(", to: Edm.Double, to_property: V"), 6, 58,
            "V holds the version"},
        {RETYPE(", to: Edm.Double, to_property: 'a b'"), 6, 58,
            "'a b' is no property name"},
        {RETYPE(", to: Edm.Double, to_propetry: B"), 6, 45,
            "did you mean 'to_property'?"},
        {HEAD "    - retype: {property: Timestamp, to: Edm.Int64}\n", 6, 26,
            "Timestamp stays as it is"},
    };

    (void)state;
    all_refused(BAD, COUNT(BAD));
}

static void there_are_64_steps_at_most(void **state)
{
    struct buf text;
    struct rules r;

    (void)state;
    buf_init(&text, 64 * 1024);
    buf_add_text(&text, HEAD);
    for (int i = 0; i < UPGRADE_MAX_STEPS; i++)
        buf_add_format(&text, "    - remove: {property: P%d}\n", i);
    assert_int_equal(good(&r, buf_text(&text))->step_count, UPGRADE_MAX_STEPS);
    done(&r);
    buf_add_text(&text, STEP);
    refused(&(struct refusal){buf_text(&text), 6, 5, "1 to 64 steps"}, 0);
    buf_done(&text);
}

static void all_that_is_wrong_is_told_at_once(void **state)
{
    struct rules r;

    (void)state;
    begin(&r, "up:\n"
              "  table: a-b\n"
              "  filter: \"X\"\n"
              "  version: {property: RowKey, from: 1.5, to: 2}\n"
              "  steps:\n"
              "    - remvoe: {property: A}\n"
              "    - add: {property: Timestamp, type: Int32, value: \"{\"}\n"
              "    - remove: {property: B}\n"
              "    - rename: {property: B, to: 'c d'}\n"
              "  phase: some\n");
    assert_int_equal(r.jobs.count, 0);
    assert_true(has_problem(&r, 2, 10, "no table name"));
    assert_true(has_problem(&r, 3, 13, "filter"));
    assert_true(has_problem(&r, 4, 23, "RowKey"));
    assert_true(has_problem(&r, 4, 37, "whole number"));
    assert_true(has_problem(&r, 6, 7, "remvoe"));
    assert_true(has_problem(&r, 7, 23, "Timestamp"));
    assert_true(has_problem(&r, 7, 40, "Edm.Int32"));
    assert_true(has_problem(&r, 7, 56, "expected a name"));
    assert_true(has_problem(&r, 9, 26, "B is no longer there"));
    assert_true(has_problem(&r, 9, 33, "no property name"));
    assert_true(has_problem(&r, 10, 10, "some"));
    assert_int_equal(r.problems.errors, 11);
    done(&r);
}

/* ---- the order of the steps ---- */

#define SET(property, value)                                                   \
    "    - set: {property: " property ", type: Edm.String, value: " value "}"  \
    "\n"

static void what_is_taken_away_cannot_be_read(void **state)
{
    static const struct refusal BAD[] = {
        {HEAD STEP SET("A", "\"{Old}\""), 7, 53,
            "Old is no longer there: the remove in line 6 takes it away"},
        {HEAD STEP SET("A", "\"x{New}{upper(Old)}\""), 7, 65,
            "Old is no longer there"},
        {HEAD "    - rename: {property: Old, to: New}\n" SET("A", "\"{Old}\""),
            7, 53, "Old is no longer there: the rename in line 6"},
        {HEAD STEP SET("A", "\"Old{{Old}} {'Old'}{Older}{lower( Old )}\""), 7,
            85, "Old is no longer there"},
        {HEAD STEP SET("A", "\"{if(\303\244Old == Old, Old_, 'x')}\""), 7, 64,
            "Old is no longer there"},
        {HEAD STEP "    - rename: {property: Old, to: New}\n", 7, 26,
            "Old is no longer there"},
        {HEAD STEP "    - retype: {property: Old, to: Edm.Int32}\n", 7, 26,
            "Old is no longer there"},
        {HEAD STEP STEP, 7, 26, "Old is no longer there"},
        {HEAD "    - rename: {property: Old, to: New}\n" STEP, 7, 26,
            "Old is no longer there"},
        {HEAD "    - remove: {property: New}\n"
              "    - rename: {property: Old, to: New}\n"
              "    - remove: {property: New}\n"
              "    - remove: {property: New}\n",
            9, 26, "the remove in line 8"},
        {HEAD STEP SET("A", "\"{Old}\"") "  phase: contract\n", 7, 53,
            "Old is no longer there"},
    };
    static const char *const GOOD[] = {
        /* read before it goes, and made anew after it went */
        HEAD SET("A", "\"{Old}\"") STEP,
        HEAD STEP SET("Old", "x") SET("A", "\"{Old}\""),
        HEAD STEP "    - rename: {property: X, to: Old}\n" STEP,
        /* a to_property leaves its source */
        HEAD "    - retype: {property: A, to: Edm.Int32, to_property: B}\n"
             "    - remove: {property: A}\n",
        HEAD "    - rename: {property: A, to: B}\n" SET("C", "\"{B}\""),
    };

    (void)state;
    all_refused(BAD, COUNT(BAD));
    for (size_t i = 0; i < COUNT(GOOD); i++) {
        struct rules r;

        good(&r, GOOD[i]);
        done(&r);
    }
}

static void nothing_is_renamed_onto_what_a_step_makes(void **state)
{
    static const struct refusal BAD[] = {
        {HEAD SET("B", "x") "    - rename: {property: A, to: B}\n", 7, 33,
            "B is what the set in line 6 gives an entity: onto a property "
            "that is there the rename would fail"},
        {HEAD "    - add: {property: B, type: Edm.String, value: x}\n"
              "    - rename: {property: A, to: B}\n",
            7, 33, "the add in line 6"},
        {HEAD "    - rename: {property: A, to: B}\n"
              "    - add: {property: B, type: Edm.String, value: x}\n",
            6, 33, "the add in line 7"},
        {HEAD "    - rename: {property: A, to: B}\n"
              "    - rename: {property: C, to: B}\n",
            7, 33, "the rename in line 6"},
        {HEAD "    - rename: {property: A, to: B}\n"
              "    - retype: {property: C, to: Edm.Int32, to_property: B}\n",
            7, 57, "the retype would fail"},
        {HEAD SET("B", "x") "    - retype: {property: C, to: Edm.Int32, "
                            "to_property: B}\n",
            7, 57, "the set in line 6"},
    };

    (void)state;
    all_refused(BAD, COUNT(BAD));
}

static void a_retype_in_place_cannot_be_expanded(void **state)
{
    static const struct refusal BAD[] = {
        {HEAD "    - retype: {property: A, to: Edm.Int32}\n  phase: expand\n",
            6, 7, "give it a to_property"},
        {HEAD "    - retype: {property: A, to: Edm.Int32}\n  phase: contract\n",
            6, 7, "give it a to_property"},
    };
    struct rules r;

    (void)state;
    all_refused(BAD, COUNT(BAD));
    good(&r, HEAD "    - retype: {property: A, to: Edm.Int32, to_property: B}\n"
                  "  phase: expand\n");
    done(&r);
}

static void between_the_phases_a_name_means_one_thing(void **state)
{
    static const struct refusal BAD[] = {
        {HEAD STEP SET("Old", "x") "  phase: expand\n", 7, 23,
            "Old is what the remove in line 6 takes away in the end"},
        {HEAD STEP "    - rename: {property: A, to: Old}\n  phase: contract\n",
            7, 33, "the remove in line 6"},
        {HEAD "    - retype: {property: A, to: Edm.Int32, to_property: B}\n"
              "    - add: {property: A, type: Edm.String, value: x}\n"
              "  phase: expand\n",
            7, 23, "the retype in line 6"},
    };
    struct rules r;

    (void)state;
    all_refused(BAD, COUNT(BAD));
    good(&r, HEAD STEP SET("Old", "x"));
    done(&r);
}

static void a_conversion_that_is_known_to_be_wrong_is_refused(void **state)
{
#define GUID "    - add: {property: A, type: Edm.Guid, value: \"{G}\"}\n"
#define LARGE "    - set: {property: A, type: Edm.Int64, value: 5}\n"
    static const struct refusal BAD[] = {
        {HEAD GUID "    - retype: {property: A, to: Edm.Int32}\n", 7, 7,
            "no Edm.Guid can become Edm.Int32 ("},
        {HEAD GUID "    - rename: {property: A, to: B}\n"
                   "    - retype: {property: B, to: Edm.Int32, lossy: true}\n",
            8, 7, "no Edm.Guid can become Edm.Int32"},
        {HEAD LARGE "    - retype: {property: A, to: Edm.Double}\n", 7, 7,
            "from Edm.Int64 to Edm.Double something is lost ("},
        {HEAD "    - retype: {property: A, to: Edm.Int64}\n"
              "    - retype: {property: A, to: Edm.Double}\n",
            7, 7, "say lossy: true"},
        {HEAD "    - retype: {property: X, to: Edm.Int64, to_property: A}\n"
              "    - retype: {property: A, to: Edm.Double}\n",
            7, 7, "say lossy: true"},
        /* one mistake, told once */
        {HEAD "    - set: {property: A, type: Edm.Gid, value: x}\n"
              "    - retype: {property: A, to: Edm.Int32}\n",
            6, 32, "Edm.Guid"},
    };
    static const char *const GOOD[] = {
        HEAD LARGE "    - retype: {property: A, to: Edm.Double, lossy: true}\n",
        HEAD LARGE "    - retype: {property: A, to: Edm.String}\n",
        HEAD GUID "    - retype: {property: B, to: Edm.Int32}\n",
        HEAD GUID "    - remove: {property: A}\n"
                  "    - rename: {property: X, to: C}\n"
                  "    - retype: {property: C, to: Edm.Int32}\n",
        HEAD "    - remove: {property: A}\n"
             "    - rename: {property: X, to: A}\n"
             "    - retype: {property: A, to: Edm.Int32}\n",
    };

    (void)state;
    all_refused(BAD, COUNT(BAD));
    for (size_t i = 0; i < COUNT(GOOD); i++) {
        struct rules r;

        good(&r, GOOD[i]);
        done(&r);
    }
}

static void a_step_does_its_part_of_each_phase(void **state)
{
    static const enum upgrade_effect WANTED[][3] = {
        {UPGRADE_PUT, UPGRADE_PUT, UPGRADE_NOTHING},
        {UPGRADE_PUT, UPGRADE_PUT, UPGRADE_NOTHING},
        {UPGRADE_MOVE, UPGRADE_COPY, UPGRADE_DROP},
        {UPGRADE_COPY, UPGRADE_COPY, UPGRADE_DROP},
        {UPGRADE_DROP, UPGRADE_NOTHING, UPGRADE_DROP},
    };
    static const char *const PHASES[] = {"all", "expand", "contract"};
    static const char *const NAMES[] = {
        "add", "set", "rename", "retype", "remove"};
    struct rules r;

    (void)state;
    for (size_t phase = 0; phase < COUNT(PHASES); phase++) {
        char *text = mem_format(HEAD
            "    - add: {property: A, type: Edm.String, value: x}\n"
            "    - set: {property: S, type: Edm.String, value: x}\n"
            "    - rename: {property: T, to: B}\n"
            "    - retype: {property: R, to: Edm.Int32, to_property: Q}\n"
            "    - remove: {property: L}\n"
            "  phase: %s\n",
            PHASES[phase]);
        const struct upgrade *upgrade = good(&r, text);

        for (size_t i = 0; i < upgrade->step_count; i++) {
            assert_int_equal(upgrade_rules_effect(upgrade, &upgrade->steps[i]),
                WANTED[i][phase]);
            assert_string_equal(
                upgrade_step_name(upgrade->steps[i].type), NAMES[i]);
        }
        done(&r);
        mem_free(text);
    }
    assert_int_equal(
        upgrade_rules_effect(&(struct upgrade){.phase = UPGRADE_ALL},
            &(struct upgrade_step){.type = UPGRADE_RETYPE}),
        UPGRADE_CONVERT);
}

/* ---- the chain of versions ---- */

/* One job in a line. */
#define JOB(name, table, rest, from, to)                                       \
    name ": {table: " table ", " rest "version: {property: V, from: " from     \
         ", to: " to "}, steps: [remove: {property: Old}]}\n"
#define PLAIN(name, from, to) JOB(name, "Blogs", "", from, to)

static void wait_for(
    const struct upgrade *upgrade, size_t index, const char *job, int32_t from)
{
    int32_t is;

    assert_in_range(index + 1, 1, upgrade->before_count);
    assert_string_equal(upgrade->befores[index].job, job);
    assert_true(property_int32(upgrade->befores[index].from, &is));
    assert_int_equal(is, from);
}

static void a_chain_is_known_whole_whatever_the_order_of_the_file(void **state)
{
    struct rules r;
    const struct upgrade *upgrade;

    (void)state;
    good(&r, PLAIN("c", "3", "4") PLAIN("a", "1", "2") PLAIN("b", "2", "3"));
    upgrade = job_named(&r, "a");
    assert_int_equal(upgrade->before_count, 0);
    assert_false(upgrade->absent_is_before);
    upgrade = job_named(&r, "b");
    assert_int_equal(upgrade->before_count, 1);
    wait_for(upgrade, 0, "a", 1);
    assert_true(upgrade->absent_is_before);
    upgrade = job_named(&r, "c");
    assert_int_equal(upgrade->before_count, 2);
    wait_for(upgrade, 0, "a", 1);
    wait_for(upgrade, 1, "b", 2);
    assert_true(upgrade->absent_is_before);
    done(&r);
}

static void a_chain_may_have_two_beginnings(void **state)
{
    struct rules r;
    const struct upgrade *upgrade;

    (void)state;
    good(&r, PLAIN("a", "1", "3") PLAIN("b", "2", "3") PLAIN("c", "3", "4")
                 PLAIN("far", "7", "1"));
    upgrade = job_named(&r, "c");
    assert_int_equal(upgrade->before_count, 3);
    wait_for(upgrade, 0, "far", 7);
    wait_for(upgrade, 1, "a", 1);
    wait_for(upgrade, 2, "b", 2);
    done(&r);
}

static void only_one_table_one_property_and_one_kind_are_a_chain(void **state)
{
    static const char *const APART[] = {
        PLAIN("b", "2", "3") JOB("a", "Other", "", "1", "2"),
        PLAIN("b", "2", "3") JOB("a", "Blogs", "store: other, ", "1", "2"),
        PLAIN("b", "2", "3") JOB("a", "Blogs", "kind: other, ", "1", "2"),
        PLAIN("b", "2", "3") JOB("a", "Blogs", "phase: contract, ", "1", "2"),
        PLAIN("b", "2", "3") PLAIN("a", "1", "'2'"),
        PLAIN("b", "2", "3") PLAIN("a", "2", "3"),
        PLAIN("b", "2", "3") "a: {table: Blogs, version: {property: W, from: "
                             "1, to: 2}, steps: [remove: {property: Old}]}\n",
        JOB("b", "Blogs", "filter: \"K eq 'a'\", ", "2", "3")
            JOB("a", "Blogs", "filter: \"K eq 'b'\", ", "1", "2"),
    };
    static const char *const TOGETHER[] = {
        PLAIN("b", "2", "3") JOB("a", "BLOGS", "store: main, ", "1", "2"),
        PLAIN("b", "2", "3") JOB("a", "Blogs", "phase: expand, ", "1", "2"),
        PLAIN("b", "2", "3")
            JOB("a", "Blogs", "filter: \"K eq 'a'\", ", "1", "2"),
        JOB("b", "Blogs", "filter: \"K eq 'a'\", ", "2", "3")
            PLAIN("a", "1", "2"),
        JOB("b", "Blogs", "filter: \"K eq 'a'\", ", "2", "3")
            JOB("a", "Blogs", "filter: \"K eq 'a'\", ", "1", "2"),
        /* contract waits for nobody, but knows what is below its `to` */
        JOB("b", "Blogs", "phase: contract, ", "2", "3") PLAIN("a", "1", "2"),
    };
    struct rules r;

    (void)state;
    for (size_t i = 0; i < COUNT(APART); i++) {
        assert_int_equal(good(&r, APART[i])->before_count, 0);
        done(&r);
    }
    for (size_t i = 0; i < COUNT(TOGETHER); i++) {
        const struct upgrade *upgrade = good(&r, TOGETHER[i]);

        assert_int_equal(upgrade->before_count, 1);
        wait_for(upgrade, 0, "a", 1);
        done(&r);
    }
}

/* Else an entity without a version would skip a version unseen. */
static void chain_that_only_its_filters_part_is_warned_of(void **state)
{
    static const char *const QUIET[] = {
        PLAIN("b", "2", "3") PLAIN("a", "1", "2"),
        PLAIN("b", "2", "3") JOB("a", "Other", "", "1", "2"),
        PLAIN("b", "2", "3") PLAIN("a", "1", "3"),
        JOB("b", "Blogs", "phase: contract, filter: \"K eq 'a'\", ", "2", "3")
            JOB("a", "Blogs", "filter: \"K eq 'b'\", ", "1", "2"),
        JOB("b", "Blogs", "filter: \"K eq 'a'\", ", "2", "3") JOB(
            "a", "Blogs", "phase: contract, filter: \"K eq 'b'\", ", "1", "2"),
    };
    struct rules r;

    (void)state;
    good(&r, JOB("b", "Blogs", "filter: \"K eq 'a'\", ", "2", "3")
                 JOB("a", "Blogs", "filter: \"K eq 'a' \", ", "1", "2"));
    assert_int_equal(r.problems.warnings, 1);
    assert_non_null(
        strstr(r.problems.list[0].text, "a leads to 2 under another filter"));
    done(&r);
    for (size_t i = 0; i < COUNT(QUIET); i++) {
        good(&r, QUIET[i]);
        assert_int_equal(r.problems.warnings, 0);
        done(&r);
    }
}

static void filters_part_chains_further_back_too(void **state)
{
    struct rules r;
    const struct upgrade *upgrade;

    (void)state;
    good(&r, JOB("c", "Blogs", "filter: \"K eq 'a'\", ", "3", "4")
                 PLAIN("b", "2", "3")
                     JOB("a", "Blogs", "filter: \"K eq 'b'\", ", "1", "2"));
    upgrade = job_named(&r, "c");
    assert_int_equal(upgrade->before_count, 1);
    wait_for(upgrade, 0, "b", 2);
    assert_int_equal(job_named(&r, "b")->before_count, 1);
    done(&r);
}

static void a_cycle_is_told_once_at_its_first_job(void **state)
{
    static const struct refusal BAD[] = {
        {PLAIN("a", "1", "2") PLAIN("b", "2", "1"), 1, 1,
            "lead in a circle, and no entity would ever be done: a (1 to 2), "
            "b (2 to 1)"},
        {PLAIN("b", "2", "'x'") PLAIN("c", "'x'", "5000000000")
                PLAIN("a", "5000000000", "2"),
            1, 1, "b (2 to 'x'), c ('x' to 5000000000), a (5000000000 to 2)"},
        /* whoever stands before the circle or behind it is not in it */
        {PLAIN("z", "0", "1") PLAIN("y", "1", "9") PLAIN("a", "1", "2")
                PLAIN("b", "2", "1"),
            3, 1, "a (1 to 2), b (2 to 1)"},
    };
    static const char *const GOOD[] = {
        PLAIN("a", "1", "2") JOB("b", "Other", "", "2", "1"),
        PLAIN("a", "1", "2") JOB("b", "Blogs", "phase: contract, ", "2", "1"),
        JOB("a", "Blogs", "phase: contract, ", "1", "2") PLAIN("b", "2", "1"),
        JOB("a", "Blogs", "filter: \"K eq 'a'\", ", "1", "2")
            JOB("b", "Blogs", "filter: \"K eq 'b'\", ", "2", "1"),
        /* no entity has both types, so none goes round */
        PLAIN("a", "1", "2") JOB("b", "Blogs", "filter: \"K eq 'a'\", ", "2",
            "3") JOB("c", "Blogs", "filter: \"K eq 'b'\", ", "3", "1"),
    };
    struct rules r;

    (void)state;
    refused(&BAD[0], 2);
    refused(&BAD[1], 3);
    refused(&BAD[2], 4);
    for (size_t i = 0; i < COUNT(GOOD); i++) {
        good(&r, GOOD[i]);
        done(&r);
    }
}

static void two_cycles_are_told_each(void **state)
{
    struct rules r;

    (void)state;
    begin(&r, PLAIN("a", "1", "2") PLAIN("b", "2", "1") PLAIN("c", "5", "6")
                  PLAIN("d", "6", "5"));
    assert_int_equal(r.problems.errors, 2);
    assert_true(has_problem(&r, 1, 1, "a (1 to 2), b (2 to 1)"));
    assert_true(has_problem(&r, 3, 1, "c (5 to 6), d (6 to 5)"));
    done(&r);
}

/* ---- explain ---- */

static void explained(struct rules *r, const char *name, const char *wanted)
{
    struct buf text;

    buf_init(&text, 64 * 1024);
    upgrade_rules_explain(job_named(r, name), &text);
    assert_string_equal(buf_text(&text), wanted);
    buf_done(&text);
}

#define EVERY_STEP(phase)                                                      \
    "  steps:\n"                                                               \
    "    - add: {property: A, type: Edm.String, value: \"{T}\"}\n"             \
    "    - set: {property: S, type: Edm.Int32, value: 5}\n"                    \
    "    - rename: {property: T, to: B}\n"                                     \
    "    - retype: {property: R, to: Edm.Int32, to_property: Q, lossy: "       \
    "true, on_error: null}\n"                                                  \
    "    - remove: {property: L}\n"                                            \
    "  phase: " phase "\n"

static void a_person_reads_what_it_does_in_order(void **state)
{
    struct rules r;

    (void)state;
    good(&r, "up:\n  table: Blogs\n  filter: \"K eq 'a'\"\n" VERSION EVERY_STEP(
                 "all"));
    explained(&r, "up",
        "read all of Blogs and take entities where K eq 'a' whose V is 1 or "
        "absent\n"
        "  1. add A (Edm.String) \"{T}\" where it is not there yet\n"
        "  2. set S (Edm.Int32) \"5\"\n"
        "  3. rename T to B\n"
        "  4. copy R to Q as Edm.Int32, with losses; an entity whose value "
        "cannot be has no Q, and keeps R\n"
        "  5. remove L\n"
        "replace each whole, with the ETag it was read with, and its V is 2\n"
        "read again until nothing is left to do, 10 passes at most\n");
    done(&r);
}

static void a_person_reads_what_each_phase_does(void **state)
{
    struct rules r;

    (void)state;
    good(&r, TOP VERSION EVERY_STEP("expand"));
    explained(&r, "up",
        "read all of Blogs and take entities whose V is 1 or absent\n"
        "  1. add A (Edm.String) \"{T}\" where it is not there yet\n"
        "  2. set S (Edm.Int32) \"5\"\n"
        "  3. copy T to B\n"
        "  4. copy R to Q as Edm.Int32, with losses; an entity whose value "
        "cannot be has no Q, and keeps R\n"
        "  5. remove L: not in this phase\n"
        "replace each whole, with the ETag it was read with, and its V is 2\n"
        "read again until nothing is left to do, 10 passes at most\n");
    done(&r);
    good(&r, TOP VERSION EVERY_STEP("contract"));
    explained(&r, "up",
        "read all of Blogs and take entities whose V is 2\n"
        "fails first if any has not come to 2\n"
        "  1. add A: not in this phase\n"
        "  2. set S: not in this phase\n"
        "  3. remove T; an entity without B fails\n"
        "  4. remove R, also where it could not become Q: that value is "
        "lost\n"
        "  5. remove L\n"
        "replace each whole, with the ETag it was read with\n"
        "read again until nothing is left to do, 10 passes at most\n");
    done(&r);
}

static void a_person_reads_what_becomes_of_a_value_that_cannot_be(void **state)
{
    struct rules r;

    (void)state;
    good(&r, TOP VERSION
        "  steps:\n"
        "    - retype: {property: R, to: Edm.Int32, to_property: Q}\n"
        "    - retype: {property: S, to: Edm.Int32, to_property: P, on_error: "
        "skip}\n"
        "  phase: contract\n");
    explained(&r, "up",
        "read all of Blogs and take entities whose V is 2\n"
        "fails first if any has not come to 2\n"
        "  1. remove R; an entity without Q fails\n"
        "  2. remove S; an entity without P fails\n"
        "replace each whole, with the ETag it was read with\n"
        "read again until nothing is left to do, 10 passes at most\n");
    done(&r);
    good(&r, TOP VERSION
        "  steps:\n"
        "    - retype: {property: R, to: Edm.Int32, on_error: null}\n");
    explained(&r, "up",
        "read all of Blogs and take entities whose V is 1 or absent\n"
        "  1. retype R as Edm.Int32; an entity whose value cannot be loses "
        "it\n"
        "replace each whole, with the ETag it was read with, and its V is 2\n"
        "read again until nothing is left to do, 10 passes at most\n");
    done(&r);
}

static void a_person_reads_whom_it_waits_for(void **state)
{
    struct rules r;

    (void)state;
    good(&r,
        PLAIN("a", "one", "2") PLAIN("b", "2",
            "3") "c:\n  table: Blogs\n"
                 "  version: {property: V, from: 3, to: 4}\n" STEPS
                 "    - retype: {property: R, to: Edm.Int32, on_error: skip}\n"
                 "  max_passes: 3\n");
    explained(&r, "c",
        "read all of Blogs and take entities whose V is 3\n"
        "wait for a while there are any whose V is 'one' or absent\n"
        "wait for b while there are any whose V is 2\n"
        "  1. retype R as Edm.Int32; an entity whose value cannot be is left "
        "as it is\n"
        "replace each whole, with the ETag it was read with, and its V is 4\n"
        "read again until nothing is left to do, 3 passes at most\n");
    done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_out_has_its_default),
        cmocka_unit_test(every_key_of_a_job_is_read),
        cmocka_unit_test(a_job_that_is_wrong_is_refused_at_its_place),
        cmocka_unit_test(a_version_is_an_integer_or_a_text),
        cmocka_unit_test(a_version_that_is_wrong_is_refused_at_its_place),
        cmocka_unit_test(versions_are_the_same_by_value),
        cmocka_unit_test(every_step_is_read),
        cmocka_unit_test(a_constant_is_converted_once_for_all),
        cmocka_unit_test(a_template_is_rendered_for_each_entity),
        cmocka_unit_test(a_variable_that_is_not_set_is_remembered),
        cmocka_unit_test(a_step_that_is_wrong_is_refused_at_its_place),
        cmocka_unit_test(an_add_that_is_wrong_is_refused_at_its_place),
        cmocka_unit_test(a_constant_that_is_too_large_is_refused),
        cmocka_unit_test(a_rename_that_is_wrong_is_refused_at_its_place),
        cmocka_unit_test(a_retype_that_is_wrong_is_refused_at_its_place),
        cmocka_unit_test(there_are_64_steps_at_most),
        cmocka_unit_test(all_that_is_wrong_is_told_at_once),
        cmocka_unit_test(what_is_taken_away_cannot_be_read),
        cmocka_unit_test(nothing_is_renamed_onto_what_a_step_makes),
        cmocka_unit_test(a_retype_in_place_cannot_be_expanded),
        cmocka_unit_test(between_the_phases_a_name_means_one_thing),
        cmocka_unit_test(a_conversion_that_is_known_to_be_wrong_is_refused),
        cmocka_unit_test(a_step_does_its_part_of_each_phase),
        cmocka_unit_test(a_chain_is_known_whole_whatever_the_order_of_the_file),
        cmocka_unit_test(a_chain_may_have_two_beginnings),
        cmocka_unit_test(only_one_table_one_property_and_one_kind_are_a_chain),
        cmocka_unit_test(chain_that_only_its_filters_part_is_warned_of),
        cmocka_unit_test(filters_part_chains_further_back_too),
        cmocka_unit_test(a_cycle_is_told_once_at_its_first_job),
        cmocka_unit_test(two_cycles_are_told_each),
        cmocka_unit_test(a_person_reads_what_it_does_in_order),
        cmocka_unit_test(a_person_reads_what_each_phase_does),
        cmocka_unit_test(a_person_reads_what_becomes_of_a_value_that_cannot_be),
        cmocka_unit_test(a_person_reads_whom_it_waits_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
