/* SPDX-License-Identifier: MIT */
/* Reads message bodies: which job and arguments they name, and why a message is
 * refused. */
#include <string.h>

#include "tests/support/quotes.h"
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
static const struct setup_queue plain = {.name = "text", .job = &list[0]};
static const struct setup_queue coded = {
    .name = "coded", .job = &list[0], .base64 = true};

static struct arena arena;
static struct request request; /* the request that was read last */
static struct err err;
static enum tw_err outcome;

static int set_up(void **state)
{
    arena_init(&arena);
    return 0;
}

static int tear_down(void **state)
{
    arena_done(&arena);
    return 0;
}

#define MESSAGE_TEST(name) TEST_IN(name, set_up, tear_down)

/* Returns `body` as JSON: the tests write ' in place of ". */
static struct slice json(const char *body)
{
    return slice_of(quoted(&arena, body));
}

static void read_bytes(const struct setup_queue *queue, struct slice body)
{
    err.text[0] = '\0';
    outcome = message_read(queue, &jobs, body, &arena, &request, &err);
}

static void refused(const char *why)
{
    if (outcome != TW_INVALID)
        fail_msg("not refused, though: %s", why);
    if (strstr(err.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, why);
}

static void refuse(
    const struct setup_queue *queue, const char *body, const char *why)
{
    read_bytes(queue, json(body));
    refused(why);
}

static void accept_bytes(const struct setup_queue *queue, struct slice body)
{
    read_bytes(queue, body);
    if (outcome != TW_OK)
        fail_msg("refused: %s", err.text);
}

static void accept(const struct setup_queue *queue, const char *body)
{
    accept_bytes(queue, json(body));
}

static void expect_text(struct slice found, const char *expected)
{
    assert_string_equal(arena_copy(&arena, found).at, json(expected).at);
}

MESSAGE_TEST(a_whole_message_is_understood)
{
    accept(&any, "\r\n\t {'job': 'rename', 'args': {'note': '', "
                 "'channel': 'Fu\\u00dfball'}, 'id': '7f3a.x_-', "
                 "'at': '1970-01-01T00:00:01Z', 'traceparent': "
                 "'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', "
                 "'more': {'is': ['passed', 'over']}} \t\r\n");
    assert_ptr_equal(request.job, &list[1]);
    expect_text(request.args.names[0], "channel");
    expect_text(request.args.values[0], "Fußball");
    expect_text(request.args.values[1], "");
    expect_text(request.args_json, "{'channel':'Fußball','note':''}");
    expect_text(request.id, "7f3a.x_-");
    assert_true(request.requested_ticks == TICKS_1970 + TICKS_PER_S);
    assert_int_equal(request.traceparent.len, 55);
}

MESSAGE_TEST(optional_members_may_be_absent_or_null)
{
    static const struct {
        const char *body;
        bool accepts_deletes;
    } cases[] = {
        {"{'job':'sweep'}", false},
        {"{'job':'sweep','args':null,'id':null,'at':null,"
         "'traceparent':null,'accept_deletes':null}",
            false},
        {"{'job':'sweep','accept_deletes':false}", false},
        {"{'job':'sweep','accept_deletes':true}", true},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        accept(&any, cases[i].body);
        assert_int_equal(request.id.len, 0);
        assert_true(request.requested_ticks == 0);
        assert_int_equal(request.accept_deletes, cases[i].accepts_deletes);
    }
}

MESSAGE_TEST(base64_is_told_apart_per_message)
{
    struct buf coded_body;

    buf_init(&coded_body, 1000);
    crypto_base64(
        &coded_body, json("\n{'job':'delete-channel','args':{'channel':'A'}}"));
    accept_bytes(&any, buf_slice(&coded_body));
    expect_text(request.args.values[0], "A");
    buf_done(&coded_body);
    accept(&any, "{'job':'delete-channel',"
                 "'args':{'channel':'\\ud83d\\udE00 \\\\ud800'}}");
    expect_text(request.args.values[0], "\xf0\x9f\x98\x80 \\ud800");
    refuse(&any, "SURF", "neither");
}

MESSAGE_TEST(a_bound_queue_never_guesses)
{
    accept(&plain, "SURF");
    expect_text(request.args.values[0], "SURF");
    accept(&plain, " {'not': 'json for us'} ");
    expect_text(request.args.values[0], " {'not': 'json for us'} ");
    assert_null(request.wake_up_job);
    accept(&coded, "U1VSRg==");
    expect_text(request.args.values[0], "SURF");
    refuse(&coded, "SURF!", "not base64");
    assert_ptr_equal(request.job, &list[0]);
}

MESSAGE_TEST(a_bound_queue_may_hold_a_bell)
{
    static const char wake_up[] =
        "{'job':'delete-channel','args':{'channel':'A'},'id':'7f3a'}";

    accept(&plain, wake_up);
    expect_text(request.wake_up_id, "7f3a");
    expect_text(request.args.values[0], wake_up);
    read_bytes(&coded, json(wake_up));
    assert_int_equal(outcome, TW_INVALID);
    expect_text(request.wake_up_id, "7f3a");
    assert_ptr_equal(request.wake_up_job, &list[0]);
}

MESSAGE_TEST(what_cannot_be_understood_is_refused_with_the_reason)
{
    static const struct {
        const char *body, *why;
    } cases[] = {
        {"", "empty"},
        {" \n ", "empty"},
        {"{'job':'sweep'", "JSON"},
        {"{'job':'sweep'} x", "JSON"},
        {"{'job':'sweep','job':'sweep'}", "JSON"},
        {"{'args':{}}", "has no \"job\""},
        {"{'job':7}", "\"job\" is not a string"},
        {"{'job':'delete-chanel'}", "did you mean 'delete-channel'"},
        {"{'job':'sweep','args':[]}", "\"args\" is not an object"},
        {"{'job':'delete-channel'}", "missing argument 'channel'"},
        {"{'job':'sweep','args':{'x':'1'}}", "superfluous argument 'x'"},
        {"{'job':'delete-channel','args':{'channel':''}}",
            "empty argument 'channel'"},
        {"{'job':'delete-channel','args':{'channel':7}}",
            "not a string: argument 'channel'"},
        {"{'job':'delete-channel','args':{'channel':'a/b'}}",
            "must not contain '/'"},
        {"{'job':'sweep','id':'../../etc/passwd'}", "invalid id"},
        {"{'job':'sweep','id':''}", "invalid id"},
        {"{'job':'sweep','id':'.hidden'}", "invalid id"},
        {"{'job':'sweep','id':7}", "\"id\" is not a string"},
        {"{'job':'sweep','at':'yesterday'}", "\"at\" is not a time"},
        {"{'job':'sweep','at':'0001-01-01T00:00:00Z'}", "\"at\" is not a time"},
        {"{'job':'sweep','at':7}", "\"at\" is not a string"},
        {"{'job':'sweep','traceparent':{}}", "traceparent"},
        {"{'job':'sweep','accept_deletes':'yes'}",
            "\"accept_deletes\" is neither true nor false"},
        {"bm90IGpzb24=", "neither a JSON object nor the base64 of one"},
        {"IA==", "neither a JSON object nor the base64 of one"},
        {"{'job':'delete-channel','args':{'chanel':'a'}}",
            "superfluous argument 'chanel', did you mean 'channel'?"},
        {"{'job':'delete-channel','args':{'channel':'\\ud800'}}", ""},
        {"{'job':'blogs-schema','args':{'phase':'exand','channel':'A'}}",
            "argument phase: unknown value 'exand', did you mean 'expand'?"},
        {"{'job':'blogs-schema','args':{'phase':'','channel':'A'}}",
            "argument phase: unknown value ''"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        refuse(&any, cases[i].body, cases[i].why);
    refuse(&any, "{'job':'delete-channel','args':{'y':'a','channel':'b'}}",
        "superfluous argument 'y'");
    assert_null(strstr(err.text, "did you mean"));
}

MESSAGE_TEST(bytes_that_are_no_text_are_refused)
{
    char *brackets = test_malloc(65536);

    memset(brackets, '[', 65536);
    read_bytes(&any, (struct slice){brackets, 65536});
    refused("");
    memcpy(brackets, "{\"job\":", 7);
    read_bytes(&any, (struct slice){brackets, 65536});
    refused("");
    test_free(brackets);
    read_bytes(&any, (struct slice){"\0\0\0", 3});
    refused("");
    read_bytes(&any, (struct slice){"{\"job\":\"sw\0eep\"}", 16});
    refused("");
    refuse(&any, "{'job':'sweep\xff'}", "");
    refuse(&plain, "\xff\xfe", "UTF-8");
    refuse(&plain, "", "empty argument");
}

MESSAGE_TEST(arguments_must_fit_into_the_ledger)
{
    char *body = test_malloc(60001);

    memset(body, 'x', 60000);
    body[60000] = '\0';
    refuse(&plain, body, "too long for the ledger");
    body[32000] = '\0';
    accept(&plain, body);
    test_free(body);
}

/* Calls message_args() with `count` arguments that are all named `channel`, as
 * a command line may give them. */
static enum tw_err give(const struct job *job, size_t count, const char *value)
{
    const struct slice names[] = {slice_of("channel"), slice_of("channel")};
    const struct slice values[] = {slice_of(value), slice_of(value)};
    struct run_args args;

    return message_args(job, names, values, count, &arena, &args, &err);
}

/* If a variable of the job is not set, kind->accept does not check the
 * arguments: the variable may be set in the worker. */
MESSAGE_TEST(a_job_that_lacks_a_variable_is_not_judged_yet)
{
    struct job job = list[0];

    assert_int_equal(give(&job, 1, "a/b"), TW_INVALID);
    job.unset = "NOT_SET_HERE";
    assert_ok(give(&job, 1, "a/b"));
    assert_int_equal(give(&job, 0, ""), TW_INVALID);
}

/* A lone surrogate would be decoded as U+FFFD, and the argument would name
 * other entities. */
MESSAGE_TEST(half_a_character_is_refused)
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
        const char *body = arena_format(&arena,
            "{'job':'delete-channel','args':{'channel':'%s'}}", cases[i].value)
                               .at;

        if (cases[i].good)
            accept(&any, body);
        else
            refuse(&any, body, "");
    }
}

MESSAGE_TEST(a_traceparent_that_is_none_is_passed_over)
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
        accept(&any, arena_format(&arena, "{'job':'sweep','traceparent':'%s'}",
                         others[i])
                         .at);
        assert_int_equal(request.traceparent.len, 0);
    }
}

/* The message belongs to a run that was begun while the configuration still had
 * the job. */
MESSAGE_TEST(a_wake_up_of_a_removed_job_is_known_by_its_arguments)
{
    static const char wake_up[] =
        "{'job':'removed','args':{'a':'A'},'id':'7f3a'}";

    accept(&plain, wake_up);
    expect_text(request.unknown_job, "removed");
    expect_text(request.wake_up_id, "7f3a");
    expect_text(request.wake_up_args_json, "{'a':'A'}");
    expect_text(request.args.values[0], wake_up);
    accept(&plain, "{'job':'removed','id':'7f3a'}");
    assert_int_equal(request.wake_up_id.len, 0);
    assert_int_equal(request.unknown_job.len, 0);
}

/* A bound queue may still hold a message that was put when the queue was bound
 * to no job or to job `sweep`. If the ledger does not have run r1 of `sweep`,
 * the whole body is taken as the name of a channel. */
MESSAGE_TEST(a_bound_queue_may_hold_the_wake_up_of_another_job)
{
    static const char *const bodies[] = {
        "{'job':'sweep','id':'r1'}", "eyJqb2IiOiJzd2VlcCIsImlkIjoicjEifQ=="};

    for (size_t i = 0; TEST_EACH(i, bodies); i++) {
        accept(&plain, bodies[i]);
        assert_ptr_equal(request.job, &list[0]);
        assert_ptr_equal(request.wake_up_job, &list[2]);
        expect_text(request.wake_up_id, "r1");
        expect_text(request.wake_up_args_json, "{}");
        expect_text(request.args.values[0], bodies[i]);
    }
    read_bytes(&plain, json("{'job':'sweep'}"));
    assert_ptr_equal(request.wake_up_job, &list[2]);
    assert_int_equal(request.wake_up_id.len, 0);
}

/* Arguments from a command line have not been checked by the JSON parser. */
MESSAGE_TEST(arguments_from_elsewhere_are_checked_too)
{
    static const struct kind lenient = {.name = "lenient"};
    static const struct job takes_all = {
        .name = "all", .kind = &lenient, .args = one, .arg_count = 1};
    char *huge = test_malloc(700001);

    assert_int_equal(give(&list[0], 2, "a"), TW_INVALID);
    assert_string_equal(err.text, "argument given twice: 'channel'");
    assert_ok(give(&takes_all, 1, "a/b"));
    memset(huge, 'x', 700000);
    huge[700000] = '\0';
    assert_int_equal(give(&takes_all, 1, huge), TW_INVALID);
    assert_non_null(strstr(err.text, "too long for the ledger"));
    test_free(huge);
}

static void expect_retold(
    const char *body, const char *id, int64_t at_ticks, const char *expected)
{
    struct buf told;

    buf_init(&told, 8 * QUEUE_MAX_MESSAGE_BYTES);
    message_retell(json(body), slice_of(id), at_ticks, &told);
    expect_text(buf_slice(&told), expected);
    buf_done(&told);
}

#define FIVE (TICKS_1970 + 5 * TICKS_PER_S)
#define AT_FIVE ",'at':'1970-01-01T00:00:05.0000000Z'}"

/* If the body has no `id` and no `at`, both are added: without them the new
 * message would begin another run, with a later time of request. */
MESSAGE_TEST(what_is_retold_is_the_same_request)
{
    expect_retold(" {'job': 'x','args': {'a': [1]}}\n", "m1", FIVE,
        "{'job':'x','args':{'a': [1]},'id':'m1'" AT_FIVE);
    expect_retold("{'id':null,'job':'x','at':null}", "m1", FIVE,
        "{'job':'x','id':'m1'" AT_FIVE);
    expect_retold("{'job':'x','id':'r1','at':'then'}", "m1", FIVE,
        "{'job':'x','id':'r1','at':'then'}");
    expect_retold("{'job':'x'}", "", FIVE, "{'job':'x'" AT_FIVE);
    expect_retold("{'job':'x','id':null}", "", 0, "{'job':'x','id':null}");
    expect_retold(
        "eyJqb2IiOiJ4In0=", "m1", FIVE, "{'job':'x','id':'m1'" AT_FIVE);
}

MESSAGE_TEST(what_cannot_be_retold_stays_as_it_is)
{
    static const char *const bodies[] = {
        "", "not json", "{'job':", "[]", "{'args':{}}", " {} "};
    char *full = mem_format(
        "{'job':'x','args':{'a':'%0*d'}}", QUEUE_MAX_MESSAGE_BYTES - 40, 0);

    for (size_t i = 0; TEST_EACH(i, bodies); i++)
        expect_retold(bodies[i], "m1", FIVE, bodies[i]);
    expect_retold(full, "m1", FIVE, full);
    mem_free(full);
}

MESSAGE_TEST(arguments_are_compared_by_name_and_value)
{
    static const struct {
        const char *left, *right;
        bool same;
    } cases[] = {
        {"{'a':'1','b':'\\u0032'}", "{'b':'2', 'a':'1'}", true},
        {"{'a':'1'}", "{'a':'2'}", false},
        {"{'a':'1'}", "{'a':'1','b':'2'}", false},
        {"", "", false},
        {"{}", "{", false},
        {"[]", "{}", false},
        {"{}", "[]", false},
        {"{'a':1}", "{'a':1}", false},
        {"{'a':'1'}", "{'a':1}", false},
        {"{'a':'1'}", "{'b':'1'}", false},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        assert_int_equal(
            message_args_same(json(cases[i].left), json(cases[i].right)),
            cases[i].same);
}

MESSAGE_TEST(only_a_body_with_its_id_names_a_run)
{
    static const struct {
        const char *body, *args;
        bool is;
    } cases[] = {
        {"{'job':'j','id':'r','args':{'a':'1'}}", "{'a':'1'}", true},
        {"{'job':'j','id':'r','args':{'a':'1'}}", "", true},
        {"eyJqb2IiOiJqIiwiaWQiOiJyIn0=", "{}", true},
        {"{'job':'j','id':'r'}", "{}", true},
        {"{'job':'j','id':'r'}", "{'a':'1'}", false},
        {"{'job':'j','id':'r','args':7}", "{}", false},
        {"{'job':'j','id':'s'}", "{}", false},
        {"{'job':'k','id':'r'}", "{}", false},
        {"{'job':'j','id':null}", "", false},
        {"{'job':'j'}", "", false},
        {"{'id':'r'}", "", false},
        {"{'job':'j','id':'r'", "", false},
        {"r", "", false},
        {"", "", false},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        assert_int_equal(message_is_of(json(cases[i].body), slice_of("j"),
                             slice_of("r"), json(cases[i].args)),
            cases[i].is);
}

MESSAGE_TEST(arguments_of_the_ledger_are_checked_against_the_job)
{
    static const struct {
        size_t job;
        const char *args_json;
        enum tw_err expected;
    } cases[] = {
        {0, "{'chan", TW_INVALID},
        {1, "{'channel':'A'}", TW_INVALID},
        {0, "[]", TW_INVALID},
        {0, "{'channel':'A'}", TW_OK},
    };
    struct run_args args;

    for (size_t i = 0; TEST_EACH(i, cases); i++)
        assert_int_equal(message_args_parse(&list[cases[i].job],
                             json(cases[i].args_json), &arena, &args, &err),
            cases[i].expected);
    expect_text(args.values[0], "A");
}

MESSAGE_TEST(an_argument_of_the_kind_may_be_left_out)
{
    static const struct setup_queue bound = {.name = "b", .job = &list[3]};

    accept(&any, "{'job':'blogs-schema','args':{'channel':'A'}}");
    expect_text(request.args_json, "{'channel':'A','phase':'all'}");
    accept(
        &any, "{'job':'blogs-schema','args':{'phase':'expand','channel':'A'}}");
    expect_text(request.args_json, "{'channel':'A','phase':'expand'}");
    accept(&bound, "A");
    expect_text(request.args_json, "{'channel':'A','phase':'all'}");
}
