/* SPDX-License-Identifier: MIT */
/* What a message asks for, and why one is refused. */
#include <string.h>

#include "tests/support/test.h"
#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/run/message.h"
#include "worker/store/store.h"

static enum tw_err accept_args(
    const struct job *job, const struct run_args *args, struct err *err)
{
    for (size_t i = 0; i < args->count; i++)
        if (args->values[i].len > 0 &&
            memchr(args->values[i].at, '/', args->values[i].len))
            return err_fail(
                err, TW_INVALID, "PartitionKey must not contain '/'");
    return TW_OK;
}

static const struct kind kind = {.name = "scripted", .accept = accept_args};
static const struct job_arg one[] = {{.name = {"channel", 7}}};
static const struct job_arg two[] = {
    {.name = {"channel", 7}}, {.name = {"note", 4}, .allow_empty = true}};
static const char *const PHASES[] = {"all", "expand", "contract", NULL};
static const struct kind_arg implied[] = {{"phase", "all", PHASES}};
static const struct job_arg declared_and_implied[] = {
    {.name = {"channel", 7}}, {.name = {"phase", 5}, .implied = implied}};
static struct job list[] = {
    {.name = "delete-channel", .kind = &kind, .args = one, .arg_count = 1},
    {.name = "rename", .kind = &kind, .args = two, .arg_count = 2},
    {.name = "sweep", .kind = &kind},
    {.name = "blogs-schema",
        .kind = &kind,
        .args = declared_and_implied,
        .arg_count = 2},
};
static const struct jobs jobs = {.list = list, .count = 4};
static const struct setup_queue any = {.name = "work"};
static const struct setup_queue text = {.name = "text", .job = &list[0]};
static const struct setup_queue coded = {
    .name = "coded", .job = &list[0], .base64 = true};

struct reading {
    struct arena arena;
    struct request request;
    struct err err;
    enum tw_err outcome;
};

static void init(struct reading *reading)
{
    arena_init(&reading->arena);
}

static void done(struct reading *reading)
{
    arena_done(&reading->arena);
}

TEST_FIXTURE(fixture, struct reading, init, done)

#define FIXTURE_TEST(name)                                                     \
    TEST_WITH(name, fixture_set_up, fixture_tear_down, struct reading *reading)

static void read_bytes(
    struct reading *reading, const struct setup_queue *queue, struct slice body)
{
    reading->err.text[0] = '\0';
    reading->outcome = message_read(
        queue, &jobs, body, &reading->arena, &reading->request, &reading->err);
}

static void read_text(
    struct reading *reading, const struct setup_queue *queue, const char *body)
{
    read_bytes(reading, queue, slice_of(body));
}

static void good(struct reading *reading)
{
    if (reading->outcome != TW_OK)
        fail_msg("refused: %s", reading->err.text);
}

static void refused(struct reading *reading, const char *why)
{
    if (reading->outcome != TW_INVALID)
        fail_msg("not refused, though: %s", why);
    if (strstr(reading->err.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", reading->err.text, why);
}

FIXTURE_TEST(a_whole_message_is_understood)
{
    read_text(reading, &any,
        " {\"job\": \"rename\", \"args\": {\"note\": \"\", "
        "\"channel\": \"Fu\\u00dfball\"}, \"id\": \"7f3a.x_-\", "
        "\"at\": \"1970-01-01T00:00:01Z\", \"traceparent\": "
        "\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\", "
        "\"more\": {\"is\": [\"passed\", \"over\"]}}\n");
    good(reading);
    assert_ptr_equal(reading->request.job, &list[1]);
    assert_true(slice_is(reading->request.args.names[0], "channel"));
    assert_true(slice_is(reading->request.args.values[0], "Fußball"));
    assert_true(slice_is(reading->request.args.values[1], ""));
    assert_true(slice_is(
        reading->request.args_json, "{\"channel\":\"Fußball\",\"note\":\"\"}"));
    assert_true(slice_is(reading->request.id, "7f3a.x_-"));
    assert_true(reading->request.requested_ticks == TICKS_1970 + TICKS_PER_S);
    assert_int_equal(reading->request.traceparent.len, 55);
}

FIXTURE_TEST(optional_members_may_be_absent_or_null)
{
    read_text(reading, &any, "{\"job\":\"sweep\"}");
    good(reading);
    read_text(reading, &any,
        "{\"job\":\"sweep\",\"args\":null,\"id\":null,\"at\":null,"
        "\"traceparent\":null}");
    good(reading);
    assert_int_equal(reading->request.id.len, 0);
    assert_true(reading->request.requested_ticks == 0);
    read_text(reading, &any, "{\"job\":\"sweep\",\"accept_deletes\":null}");
    good(reading);
    assert_false(reading->request.accept_deletes);
}

FIXTURE_TEST(a_message_may_accept_deletes)
{
    read_text(reading, &any, "{\"job\":\"sweep\",\"accept_deletes\":true}");
    good(reading);
    assert_true(reading->request.accept_deletes);
    read_text(reading, &any, "{\"job\":\"sweep\",\"accept_deletes\":false}");
    good(reading);
    assert_false(reading->request.accept_deletes);
}

FIXTURE_TEST(base64_is_told_apart_per_message)
{
    struct buf coded_body;

    buf_init(&coded_body, 1000);
    crypto_base64(&coded_body,
        slice_of(
            "\n{\"job\":\"delete-channel\",\"args\":{\"channel\":\"A\"}}"));
    read_bytes(reading, &any, buf_slice(&coded_body));
    good(reading);
    assert_true(slice_is(reading->request.args.values[0], "A"));
    buf_done(&coded_body);
    read_text(reading, &any,
        "{\"job\":\"delete-channel\","
        "\"args\":{\"channel\":\"\\ud83d\\udE00 \\\\ud800\"}}");
    good(reading);
    assert_true(
        slice_is(reading->request.args.values[0], "\xf0\x9f\x98\x80 \\ud800"));
    read_text(reading, &any, "U1VSRg=="); /* base64, but of no object */
    refused(reading, "neither a JSON object nor the base64 of one");
    read_text(reading, &any, "SURF");
    refused(reading, "neither");
}

FIXTURE_TEST(a_bound_queue_never_guesses)
{
    read_text(reading, &text, "SURF");
    good(reading);
    assert_true(slice_is(reading->request.args.values[0], "SURF"));
    read_text(reading, &text, " {\"not\": \"json for us\"} ");
    good(reading);
    assert_true(slice_is(
        reading->request.args.values[0], " {\"not\": \"json for us\"} "));
    assert_null(reading->request.wake_up_job);
    read_text(reading, &coded, "U1VSRg==");
    good(reading);
    assert_true(slice_is(reading->request.args.values[0], "SURF"));
    read_text(reading, &coded, "SURF!");
    refused(reading, "not base64");
    assert_ptr_equal(reading->request.job, &list[0]);
}

FIXTURE_TEST(a_bound_queue_may_hold_a_bell)
{
    static const char wake_up[] =
        "{\"job\":\"delete-channel\",\"args\":{\"channel\":\"A\"},"
        "\"id\":\"7f3a\"}";

    read_text(reading, &text, wake_up);
    good(reading);
    assert_true(slice_is(reading->request.wake_up_id, "7f3a"));
    assert_true(slice_is(reading->request.args.values[0], wake_up));
    read_text(reading, &coded, wake_up);
    assert_int_equal(reading->outcome, TW_INVALID);
    assert_true(slice_is(reading->request.wake_up_id, "7f3a"));
    assert_ptr_equal(reading->request.wake_up_job, &list[0]);
}

FIXTURE_TEST(what_cannot_be_understood_is_refused_with_the_reason)
{
    static const struct {
        const char *body, *why;
    } cases[] = {
        {"", "empty"},
        {" \n ", "empty"},
        {"{\"job\":\"sweep\"", "JSON"},
        {"{\"job\":\"sweep\"} x", "JSON"},
        {"{\"job\":\"sweep\",\"job\":\"sweep\"}", "JSON"},
        {"{\"args\":{}}", "has no \"job\""},
        {"{\"job\":7}", "\"job\" is not a string"},
        {"{\"job\":\"delete-chanel\"}", "did you mean 'delete-channel'"},
        {"{\"job\":\"sweep\",\"args\":[]}", "\"args\" is not an object"},
        {"{\"job\":\"delete-channel\"}", "missing argument 'channel'"},
        {"{\"job\":\"sweep\",\"args\":{\"x\":\"1\"}}",
            "superfluous argument 'x'"},
        {"{\"job\":\"delete-channel\",\"args\":{\"channel\":\"\"}}",
            "empty argument 'channel'"},
        {"{\"job\":\"delete-channel\",\"args\":{\"channel\":7}}",
            "not a string: argument 'channel'"},
        {"{\"job\":\"delete-channel\",\"args\":{\"channel\":\"a/b\"}}",
            "must not contain '/'"},
        {"{\"job\":\"sweep\",\"id\":\"../../etc/passwd\"}", "invalid id"},
        {"{\"job\":\"sweep\",\"id\":\"\"}", "invalid id"},
        {"{\"job\":\"sweep\",\"id\":\".hidden\"}", "invalid id"},
        {"{\"job\":\"sweep\",\"id\":7}", "\"id\" is not a string"},
        {"{\"job\":\"sweep\",\"at\":\"yesterday\"}", "\"at\" is not a time"},
        {"{\"job\":\"sweep\",\"at\":\"0001-01-01T00:00:00Z\"}",
            "\"at\" is not a time"},
        {"{\"job\":\"sweep\",\"at\":7}", "\"at\" is not a string"},
        {"{\"job\":\"sweep\",\"traceparent\":{}}", "traceparent"},
        {"{\"job\":\"sweep\",\"accept_deletes\":\"yes\"}",
            "\"accept_deletes\" is neither true nor false"},
        {"bm90IGpzb24=", "neither a JSON object nor the base64 of one"},
        {"IA==", "neither a JSON object nor the base64 of one"},
        {"{\"job\":\"delete-channel\",\"args\":{\"chanel\":\"a\"}}",
            "superfluous argument 'chanel', did you mean 'channel'?"},
        {"{\"job\":\"delete-channel\",\"args\":{\"channel\":\"\\ud800\"}}", ""},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        read_text(reading, &any, cases[i].body);
        refused(reading, cases[i].why);
    }
    read_text(reading, &any,
        "{\"job\":\"delete-channel\",\"args\":{\"y\":\"a\",\"channel\":\"b\"}"
        "}");
    refused(reading, "superfluous argument 'y'");
    assert_null(strstr(reading->err.text, "did you mean"));
}

FIXTURE_TEST(bytes_that_are_no_text_are_refused)
{
    char *brackets = test_malloc(65536);

    memset(brackets, '[', 65536);
    read_bytes(reading, &any, (struct slice){brackets, 65536});
    refused(reading, "");
    memcpy(brackets, "{\"job\":", 7);
    read_bytes(reading, &any, (struct slice){brackets, 65536});
    refused(reading, "");
    test_free(brackets);
    read_bytes(reading, &any, (struct slice){"\0\0\0", 3});
    refused(reading, "");
    read_bytes(reading, &any, (struct slice){"{\"job\":\"sw\0eep\"}", 16});
    refused(reading, "");
    read_text(reading, &any, "{\"job\":\"sweep\xff\"}");
    refused(reading, "");
    read_text(reading, &text, "\xff\xfe");
    refused(reading, "UTF-8");
    read_text(reading, &text, "");
    refused(reading, "empty argument");
}

FIXTURE_TEST(arguments_must_fit_into_the_ledger)
{
    char *body = test_malloc(60001);

    memset(body, 'x', 60000);
    body[60000] = '\0';
    read_text(reading, &text, body);
    refused(reading, "too long for the ledger");
    body[32000] = '\0';
    read_text(reading, &text, body);
    good(reading);
    test_free(body);
}

/* An escaped half of a character would become another name. */
/* With a variable unset its keys are not what they will be in the worker. */
FIXTURE_TEST(a_job_that_lacks_a_variable_is_not_judged_yet)
{
    static const struct slice name = {"channel", 7}, value = {"a/b", 3};
    struct job job = list[0];
    struct run_args args;

    assert_int_equal(message_args(&job, &name, &value, 1, &reading->arena,
                         &args, &reading->err),
        TW_INVALID);
    job.unset = "NOT_SET_HERE";
    assert_ok(message_args(
        &job, &name, &value, 1, &reading->arena, &args, &reading->err));
    assert_int_equal(message_args(&job, &name, &value, 0, &reading->arena,
                         &args, &reading->err),
        TW_INVALID);
}

FIXTURE_TEST(half_a_character_is_refused)
{
    static const struct {
        const char *value;
        bool good;
    } cases[] = {
        {"\\ud83d\\ude00", true},
        {"a\\ud83d\\ude00b\\uD83D\\uDE00", true},
        {"\\ue000", true},
        {"\\ud7ff", true},
        {"\\\\ud800", true},
        {"\\ud800", false},
        {"a\\udc00", false},
        {"\\ud83d x and more", false},
        {"\\ud83d\\u0041 and more", false},
        {"\\ud83d\\ue000 and more", false},
        {"\\ud83d\\ud83d and more", false},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        char *body = mem_format("{\"job\":\"delete-channel\",\"args\":{"
                                "\"channel\":\"%s\"}}",
            cases[i].value);

        read_text(reading, &any, body);
        if (cases[i].good)
            good(reading);
        else
            refused(reading, "");
        mem_free(body);
    }
}

FIXTURE_TEST(a_traceparent_that_is_none_is_passed_over)
{
    static const char *const others[] = {
        "00-XY",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0G",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0/",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0:",
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    };

    for (size_t i = 0; TEST_EACH(i, others); i++) {
        char *body =
            mem_format("{\"job\":\"sweep\",\"traceparent\":\"%s\"}", others[i]);

        read_text(reading, &any, body);
        good(reading);
        assert_int_equal(reading->request.traceparent.len, 0);
        mem_free(body);
    }
}

FIXTURE_TEST(blanks_around_a_message_do_not_matter)
{
    read_text(reading, &any, "\r\n\t {\"job\":\"sweep\"} \t\r\n");
    good(reading);
    assert_ptr_equal(reading->request.job, &list[2]);
}

/* Of a run that was begun when the configuration had its job. */
FIXTURE_TEST(a_wake_up_of_a_removed_job_is_known_by_its_arguments)
{
    static const char wake_up[] = "{\"job\":\"removed\",\"args\":{\"a\":\"A\"},"
                                  "\"id\":\"7f3a\"}";

    read_text(reading, &text, wake_up);
    good(reading);
    assert_true(slice_is(reading->request.unknown_job, "removed"));
    assert_true(slice_is(reading->request.wake_up_id, "7f3a"));
    assert_true(slice_is(reading->request.wake_up_args_json, "{\"a\":\"A\"}"));
    assert_true(slice_is(reading->request.args.values[0], wake_up));
    read_text(reading, &text, "{\"job\":\"removed\",\"id\":\"7f3a\"}");
    good(reading);
    assert_int_equal(reading->request.wake_up_id.len, 0);
    assert_int_equal(reading->request.unknown_job.len, 0);
}

/* Its queue was not bound, or to that job, when it was put. Where the ledger
 * has no such run, it is a channel of that name. */
FIXTURE_TEST(a_bound_queue_may_hold_the_wake_up_of_another_job)
{
    static const char *const bodies[] = {"{\"job\":\"sweep\",\"id\":\"r1\"}",
        "eyJqb2IiOiJzd2VlcCIsImlkIjoicjEifQ=="};

    for (size_t i = 0; TEST_EACH(i, bodies); i++) {
        read_text(reading, &text, bodies[i]);
        good(reading);
        assert_ptr_equal(reading->request.job, &list[0]);
        assert_ptr_equal(reading->request.wake_up_job, &list[2]);
        assert_true(slice_is(reading->request.wake_up_id, "r1"));
        assert_true(slice_is(reading->request.wake_up_args_json, "{}"));
        assert_true(slice_is(reading->request.args.values[0], bodies[i]));
    }
    read_text(reading, &text, "{\"job\":\"sweep\"}");
    assert_ptr_equal(reading->request.wake_up_job, &list[2]);
    assert_int_equal(reading->request.wake_up_id.len, 0);
}

static enum tw_err give(struct reading *reading, const struct job *job,
    const char *a, const char *b)
{
    struct slice names[] = {slice_of("channel"), slice_of("channel")};
    struct slice values[] = {slice_of(a), b ? slice_of(b) : slice_of("")};
    struct run_args args;

    return message_args(
        job, names, values, b ? 2 : 1, &reading->arena, &args, &reading->err);
}

/* From a command line, which no JSON parser has looked at. */
FIXTURE_TEST(arguments_from_elsewhere_are_checked_too)
{
    static const struct kind lenient = {.name = "lenient"};
    static const struct job takes_all = {
        .name = "all", .kind = &lenient, .args = one, .arg_count = 1};
    char *huge = test_malloc(700001);

    assert_int_equal(give(reading, &list[0], "a", "b"), TW_INVALID);
    assert_string_equal(reading->err.text, "argument given twice: 'channel'");
    assert_ok(give(reading, &takes_all, "a/b", NULL));
    memset(huge, 'x', 700000);
    huge[700000] = '\0';
    assert_int_equal(give(reading, &takes_all, huge, NULL), TW_INVALID);
    assert_non_null(strstr(reading->err.text, "too long for the ledger"));
    test_free(huge);
}

FIXTURE_TEST(what_is_composed_is_understood)
{
    struct buf body;

    buf_init(&body, 1000);
    message_compose(slice_of("delete-channel"),
        slice_of("{\"channel\":\"A\\\"B\"}"), slice_of("r1"),
        TICKS_1970 + 5 * TICKS_PER_S, (struct slice){0}, &body);
    read_bytes(reading, &any, buf_slice(&body));
    good(reading);
    assert_true(slice_is(reading->request.args.values[0], "A\"B"));
    assert_true(slice_is(reading->request.id, "r1"));
    assert_true(
        reading->request.requested_ticks == TICKS_1970 + 5 * TICKS_PER_S);
    buf_done(&body);
}

static void expect_retold(
    const char *body, const char *id, int64_t at_ticks, const char *expected)
{
    struct buf told;

    buf_init(&told, 8 * QUEUE_MAX_MESSAGE_BYTES);
    message_retell(slice_of(body), slice_of(id), at_ticks, &told);
    assert_string_equal(buf_text(&told), expected);
    buf_done(&told);
}

#define FIVE (TICKS_1970 + 5 * TICKS_PER_S)
#define AT_FIVE ",\"at\":\"1970-01-01T00:00:05.0000000Z\"}"

/* Put back as a new message it would be a request of now, and another run. */
TEST(what_is_retold_is_the_same_request)
{
    expect_retold(" {\"job\": \"x\",\"args\": {\"a\": [1]}}\n", "m1", FIVE,
        "{\"job\":\"x\",\"args\":{\"a\": [1]},\"id\":\"m1\"" AT_FIVE);
    expect_retold("{\"id\":null,\"job\":\"x\",\"at\":null}", "m1", FIVE,
        "{\"job\":\"x\",\"id\":\"m1\"" AT_FIVE);
    expect_retold("{\"job\":\"x\",\"id\":\"r1\",\"at\":\"then\"}", "m1", FIVE,
        "{\"job\":\"x\",\"id\":\"r1\",\"at\":\"then\"}");
    expect_retold("{\"job\":\"x\"}", "", FIVE, "{\"job\":\"x\"" AT_FIVE);
    expect_retold(
        "{\"job\":\"x\",\"id\":null}", "", 0, "{\"job\":\"x\",\"id\":null}");
    expect_retold(
        "eyJqb2IiOiJ4In0=", "m1", FIVE, "{\"job\":\"x\",\"id\":\"m1\"" AT_FIVE);
}

TEST(what_cannot_be_retold_stays_as_it_is)
{
    static const char *const bodies[] = {
        "", "not json", "{\"job\":", "[]", "{\"args\":{}}", " {} "};
    char *full = mem_format("{\"job\":\"x\",\"args\":{\"a\":\"%0*d\"}}",
        QUEUE_MAX_MESSAGE_BYTES - 40, 0);

    for (size_t i = 0; TEST_EACH(i, bodies); i++)
        expect_retold(bodies[i], "m1", FIVE, bodies[i]);
    expect_retold(full, "m1", FIVE, full);
    mem_free(full);
}

TEST(arguments_are_compared_by_name_and_value)
{
    assert_true(message_args_same(slice_of("{\"a\":\"1\",\"b\":\"\\u0032\"}"),
        slice_of("{\"b\":\"2\", \"a\":\"1\"}")));
    assert_false(message_args_same(
        slice_of("{\"a\":\"1\"}"), slice_of("{\"a\":\"2\"}")));
    assert_false(message_args_same(
        slice_of("{\"a\":\"1\"}"), slice_of("{\"a\":\"1\",\"b\":\"2\"}")));
    assert_false(message_args_same(slice_of(""), slice_of("")));
    assert_false(message_args_same(slice_of("{}"), slice_of("{")));
    assert_false(message_args_same(slice_of("[]"), slice_of("{}")));
    assert_false(message_args_same(slice_of("{}"), slice_of("[]")));
    assert_false(
        message_args_same(slice_of("{\"a\":1}"), slice_of("{\"a\":1}")));
    assert_false(
        message_args_same(slice_of("{\"a\":\"1\"}"), slice_of("{\"a\":1}")));
    assert_false(message_args_same(
        slice_of("{\"a\":\"1\"}"), slice_of("{\"b\":\"1\"}")));
}

TEST(only_a_body_with_its_id_names_a_run)
{
    static const struct {
        const char *body, *args;
        bool is;
    } cases[] = {
        {"{\"job\":\"j\",\"id\":\"r\",\"args\":{\"a\":\"1\"}}", "{\"a\":\"1\"}",
            true},
        {"{\"job\":\"j\",\"id\":\"r\",\"args\":{\"a\":\"1\"}}", "", true},
        {"eyJqb2IiOiJqIiwiaWQiOiJyIn0=", "{}", true},
        {"{\"job\":\"j\",\"id\":\"r\"}", "{}", true},
        {"{\"job\":\"j\",\"id\":\"r\"}", "{\"a\":\"1\"}", false},
        {"{\"job\":\"j\",\"id\":\"r\",\"args\":7}", "{}", false},
        {"{\"job\":\"j\",\"id\":\"s\"}", "{}", false},
        {"{\"job\":\"k\",\"id\":\"r\"}", "{}", false},
        {"{\"job\":\"j\",\"id\":null}", "", false},
        {"{\"job\":\"j\"}", "", false},
        {"{\"id\":\"r\"}", "", false},
        {"{\"job\":\"j\",\"id\":\"r\"", "", false},
        {"r", "", false},
        {"", "", false},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        assert_int_equal(message_is_of(slice_of(cases[i].body), slice_of("j"),
                             slice_of("r"), slice_of(cases[i].args)),
            cases[i].is);
}

FIXTURE_TEST(arguments_of_the_ledger_are_checked_against_the_job)
{
    struct run_args args;

    assert_ok(message_args_parse(&list[0], slice_of("{\"channel\":\"A\"}"),
        &reading->arena, &args, &reading->err));
    assert_true(slice_is(args.values[0], "A"));
    assert_int_equal(message_args_parse(&list[0], slice_of("{\"chan"),
                         &reading->arena, &args, &reading->err),
        TW_INVALID);
    assert_int_equal(
        message_args_parse(&list[1], slice_of("{\"channel\":\"A\"}"),
            &reading->arena, &args, &reading->err),
        TW_INVALID);
    assert_int_equal(message_args_parse(&list[0], slice_of("[]"),
                         &reading->arena, &args, &reading->err),
        TW_INVALID);
}

FIXTURE_TEST(an_argument_of_the_kind_may_be_left_out)
{
    static const struct setup_queue bound = {.name = "b", .job = &list[3]};

    read_text(reading, &any,
        "{\"job\":\"blogs-schema\",\"args\":{\"channel\":\"A\"}}");
    good(reading);
    assert_true(slice_is(
        reading->request.args_json, "{\"channel\":\"A\",\"phase\":\"all\"}"));
    read_text(reading, &any,
        "{\"job\":\"blogs-schema\",\"args\":{\"phase\":\"expand\","
        "\"channel\":\"A\"}}");
    good(reading);
    assert_true(slice_is(reading->request.args_json,
        "{\"channel\":\"A\",\"phase\":\"expand\"}"));
    read_text(reading, &bound, "A");
    good(reading);
    assert_true(slice_is(
        reading->request.args_json, "{\"channel\":\"A\",\"phase\":\"all\"}"));
}

FIXTURE_TEST(an_argument_of_the_kind_has_a_few_values)
{
    read_text(reading, &any,
        "{\"job\":\"blogs-schema\",\"args\":{\"phase\":\"exand\","
        "\"channel\":\"A\"}}");
    refused(reading,
        "argument phase: unknown value 'exand', did you mean 'expand'?");
    read_text(reading, &any,
        "{\"job\":\"blogs-schema\",\"args\":{\"phase\":\"\","
        "\"channel\":\"A\"}}");
    refused(reading, "argument phase: unknown value ''");
}
