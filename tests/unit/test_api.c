/* SPDX-License-Identifier: MIT */
/* The responses of the dashboard's routes, without an HTTP server. */
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include <stdio.h>

#include "tests/support/fake_request.h"
#include "tests/support/text_file.h"
#include "worker/base/json.h"
#include "worker/base/text.h"
#include "worker/monitor/api.h"
#include "worker/monitor/view.h"

#define JOB "delete-channel"
#define NOW platform_wall_ticks()

struct fixture {
    struct workbench bench;
    struct api *api;
    struct http_route routes[API_ROUTES];
    struct http_response response;
    struct json *json; /* body of the last response */
};

static struct definition *lend(void *context)
{
    struct fixture *f = context;

    return definition_hold(&f->bench.definition);
}

static void totals(void *context, struct history_totals *ret)
{
    *ret = (struct history_totals){1, 2};
}

static void init(struct fixture *f)
{
    workbench_init(&f->bench);
    text_file_write("token", FAKE_TOKEN);
    f->bench.setup.admin_token_file = "token";
    atomic_init(&f->bench.definition.references, 1);
    f->api = api_new(&(struct api_options){.started_with = &f->bench.definition,
        .definition = lend,
        .totals = totals,
        .context = f});
    api_routes(f->api, f->routes);
}

static void done(struct fixture *f)
{
    api_free(f->api);
    json_free(f->json);
    buf_done(&f->response.body);
    workbench_done(&f->bench);
}

TEST_FIXTURE(fixture, struct fixture, init, done)

#define FIXTURE_TEST(name)                                                     \
    TEST_WITH(name, fixture_set_up, fixture_tear_down, struct fixture *f)

/* Makes the request again until its answer is no longer pending; returns the
 * status. */
static unsigned request(struct fixture *f, const char *method, const char *path,
    const char *body, const struct fake_request *fake)
{
    struct fake_request copy = *fake;
    struct http_request request = {.method = method,
        .path = path,
        .body = slice_of(body),
        .connection = &copy};
    size_t i = 0;

    while (strcmp(f->routes[i].path, path) != 0 ||
           strcmp(f->routes[i].method, method) != 0)
        assert_true(++i < API_ROUTES);
    do {
        buf_done(&f->response.body);
        f->response = (struct http_response){.status = 200};
        buf_init(&f->response.body, 1 << 24);
        f->routes[i].handle(f->routes[i].context, &request, &f->response);
    } while (f->response.status == 202 && strcmp(method, "GET") == 0);
    return f->response.status;
}

static const struct json *parsed(struct fixture *f)
{
    json_free(f->json);
    f->json = NULL;
    assert_ok(json_parse(buf_slice(&f->response.body), 8, &f->json, NULL));
    return f->json;
}

static const struct json *get(struct fixture *f, const char *path,
    unsigned status, const char *name, const char *value)
{
    struct fake_request fake = fake_good;

    if (name)
        fake.query[0] = (struct fake_field){name, value};
    assert_int_equal(request(f, "GET", path, "", &fake), status);
    return parsed(f);
}

/* Requests a change of run `id`. If the response is 202 (not done yet),
 * requests the outcome. Returns the status of the last response. */
static unsigned change(struct fixture *f, const char *path, const char *id)
{
    struct fake_request fake = fake_good;
    char body[200], of[64];
    unsigned status;

    (void)snprintf(
        body, sizeof(body), "{\"Job\":\"" JOB "\",\"Id\":\"%s\"}", id);
    status = request(f, "POST", path, body, &fake);
    if (status != 202)
        return status;
    (void)snprintf(of, sizeof(of), "%.*s",
        SLICE_ARG(json_string(json_get(parsed(f), "Pending"))));
    fake.query[0] = (struct fake_field){"of", of};
    return request(f, "GET", "/api/outcome", "", &fake);
}

static void store_run(struct fixture *f, const char *id,
    enum ledger_state state, int64_t requested_ticks,
    void (*more)(struct ledger_run *run))
{
    struct ledger_run *run = workbench_football(&f->bench, id);

    run->state = state;
    run->queue = slice_of(BENCH_QUEUE);
    run->requested_ticks = requested_ticks;
    if (ledger_state_ended(state))
        run->finished_ticks = NOW;
    if (more)
        more(run);
    assert_ok(workbench_store_run(&f->bench, run));
}

static const char *text_of(const struct json *object, const char *name)
{
    static char text[10000];
    const struct json *value = json_get(object, name);

    if (!value || json_type(value) != JSON_STRING)
        return "";
    (void)snprintf(text, sizeof(text), "%.*s", SLICE_ARG(json_string(value)));
    return text;
}

static int64_t number_of(const struct json *object, const char *name)
{
    int64_t number = -1;

    assert_non_null(json_get(object, name));
    assert_true(json_int64(json_get(object, name), &number));
    return number;
}

/* ---- requests that read ---- */

static void with_progress(struct ledger_run *run)
{
    run->share = 0.25;
    run->deleted = 100;
    run->started_ticks = NOW - 10 * TICKS_PER_S;
    run->updated_ticks = run->started_ticks + 10 * TICKS_PER_S;
}

FIXTURE_TEST(the_overview_has_share_rate_and_time_left)
{
    const struct json *all, *run;

    store_run(f, "r1", LEDGER_RUNNING, NOW, with_progress);
    all = get(f, "/api/overview", 200, NULL, NULL);
    assert_int_equal(json_count(json_get(all, "Queues")), 2);
    assert_int_equal(json_count(json_get(all, "Failed")), 0);
    assert_int_equal(number_of(json_get(all, "Counts"), "Ended"), 0);
    run = json_at(json_get(all, "Open"), 0);
    assert_string_equal(text_of(run, "Id"), "r1");
    assert_string_equal(text_of(run, "State"), "running");
    assert_int_equal(number_of(run, "Done"), 100);
    assert_int_equal(number_of(run, "LeftSeconds"), 30);
    assert_true(slice_is(json_raw(json_get(run, "Rate")), "10.00"));
}

static void with_expired_lease(struct ledger_run *run)
{
    with_progress(run);
    run->owner = slice_of("other/1");
    run->lease_until_ticks = NOW - TICKS_PER_S;
}

FIXTURE_TEST(a_run_without_a_live_worker_is_told_apart)
{
    const struct json *run;

    store_run(f, "r1", LEDGER_RUNNING, NOW, with_expired_lease);
    run =
        json_at(json_get(get(f, "/api/overview", 200, NULL, NULL), "Open"), 0);
    assert_true(json_boolean(json_get(run, "Expired")));
    assert_null(json_get(run, "LeftSeconds"));
}

static void with_secrets(struct ledger_run *run)
{
    run->owner = slice_of("owner-secret");
    run->operation = slice_of("operation-secret");
    run->poison_id = slice_of("copy");
    run->poison_receipt = slice_of("receipt-secret");
    run->checkpoint = slice_of("checkpoint-secret");
}

FIXTURE_TEST(no_answer_lets_anybody_act_as_the_owner)
{
    static const char *const questions[][3] = {{"/api/overview", NULL, NULL},
        {"/api/runs", "state", "failed"}, {"/api/run", "id", "r1"}};

    store_run(f, "r1", LEDGER_FAILED, NOW, with_secrets);
    for (size_t i = 0; TEST_EACH(i, questions); i++) {
        (void)get(f, questions[i][0], 200, questions[i][1], questions[i][2]);
        assert_null(strstr(buf_text(&f->response.body), "secret"));
    }
}

static void with_long_texts(struct ledger_run *run)
{
    static char error[4001];

    memset(error, 'e', sizeof(error) - 1);
    run->error = slice_of(error);
    run->failed_entities = slice_of("a/b: why");
}

FIXTURE_TEST(a_list_has_short_texts_and_a_run_whole_ones)
{
    const struct json *list;

    store_run(f, "r1", LEDGER_FAILED, NOW, with_long_texts);
    list = json_get(get(f, "/api/overview", 200, NULL, NULL), "Failed");
    assert_int_equal(strlen(text_of(json_at(list, 0), "Error")), 500);
    assert_int_equal(
        strlen(text_of(get(f, "/api/run", 200, "id", "r1"), "Error")), 4000);
    assert_string_equal(text_of(f->json, "FailedEntities"), "a/b: why");
}

FIXTURE_TEST(a_failed_run_is_shown_with_its_message)
{
    struct ledger_run *run = workbench_new_run(&f->bench);

    workbench_make_queue(&f->bench, BENCH_QUEUE "-poison");
    run->job = slice_of(JOB);
    run->id = slice_of("r1");
    run->state = LEDGER_POISONED;
    run->queue = slice_of(BENCH_QUEUE);
    run->finished_ticks = NOW;
    run->poison_id = slice_of(
        workbench_put(&f->bench, BENCH_QUEUE "-poison", "{\"job\": <b>\"x\"}"));
    assert_ok(workbench_store_run(&f->bench, run));
    (void)get(f, "/api/run", 200, "id", "r1");
    assert_string_equal(text_of(f->json, "Message"), "{\"job\": <b>\"x\"}");
    assert_string_equal(text_of(f->json, "PoisonQueue"), BENCH_QUEUE "-poison");
}

FIXTURE_TEST(a_message_that_is_not_found_is_said_to_be_missing)
{
    workbench_make_queue(&f->bench, BENCH_QUEUE "-poison");
    store_run(f, "r1", LEDGER_FAILED, NOW, with_secrets);
    (void)get(f, "/api/run", 200, "id", "r1");
    assert_null(json_get(f->json, "Message"));
    assert_contains(text_of(f->json, "MessageError"), "not among the first");
}

FIXTURE_TEST(an_unknown_run_is_not_found)
{
    (void)get(f, "/api/run", 404, "id", "r1");
}

FIXTURE_TEST(wrong_arguments_are_refused)
{
    static const char *const wrong[][3] = {{"/api/run", "id", NULL},
        {"/api/run", "id", "../x"}, {"/api/runs", "limit", "0"},
        {"/api/runs", "limit", "201"}, {"/api/runs", "state", "faild"},
        {"/api/runs", "job", "a\nb"}, {"/api/runs", "before", "yesterday"}};

    for (size_t i = 0; TEST_EACH(i, wrong); i++)
        (void)get(f, wrong[i][0], 400, wrong[i][1], wrong[i][2]);
    (void)get(f, "/api/outcome", 404, "of", "x");
}

FIXTURE_TEST(pages_have_every_run_once)
{
    struct fake_request fake = fake_good;
    char next[200] = "", id[16];
    int64_t now = NOW;
    unsigned seen = 0;

    for (int i = 0; i < 25; i++) {
        (void)snprintf(id, sizeof(id), "r%02d", i);
        store_run(f, id, i % 5 == 0 ? LEDGER_FAILED : LEDGER_PAUSED,
            now - i / 3 * TICKS_PER_S, NULL);
    }
    fake.query[0] = (struct fake_field){"limit", "4"};
    fake.query[1] = (struct fake_field){"before", next};
    fake.query[2] = (struct fake_field){"state", "paused"};
    do {
        const struct json *list;

        assert_int_equal(request(f, "GET", "/api/runs", "", &fake), 200);
        list = json_get(parsed(f), "Runs");
        for (size_t i = 0; i < json_count(list); i++, seen++) {
            (void)snprintf(id, sizeof(id), "r%02u", seen + seen / 4 + 1);
            assert_string_equal(text_of(json_at(list, i), "Id"), id);
        }
        (void)snprintf(next, sizeof(next), "%s", text_of(f->json, "Next"));
    } while (next[0] != '\0');
    assert_int_equal(seen, 20);
}

FIXTURE_TEST(many_questions_cost_one_reading)
{
    const unsigned *calls = f->bench.calls;
    unsigned before;

    (void)get(f, "/api/overview", 200, NULL, NULL);
    before = calls[BENCH_SCAN] + calls[BENCH_OTHER];
    assert_true(before > 0);
    for (int i = 0; i < 50; i++)
        (void)get(f, "/api/overview", 200, NULL, NULL);
    /* The answer of the first request may expire meanwhile: then the ledger is
     * read again. */
    assert_true(calls[BENCH_SCAN] + calls[BENCH_OTHER] <= 3 * before);
}

FIXTURE_TEST(a_store_that_fails_is_named)
{
    f->bench.down = true;
    (void)get(f, "/api/overview", 503, NULL, NULL);
    assert_contains(text_of(f->json, "Error"), "store ");
    assert_contains(text_of(f->json, "Error"), "the store is down");
}

/* ---- requests that change runs ---- */

static void expect_change(struct fixture *f, const char *path, const char *id,
    unsigned status, const char *state)
{
    assert_int_equal(change(f, path, id), status);
    assert_string_equal(workbench_state(&f->bench, JOB, id), state);
}

FIXTURE_TEST(a_change_is_made_and_told)
{
    store_run(f, "r1", LEDGER_QUEUED, NOW, NULL);
    expect_change(f, "/api/pause", "r1", 200, "paused");
    assert_string_equal(text_of(parsed(f), "Done"), "Run r1 is paused.");
    expect_change(f, "/api/resume", "r1", 200, "queued");
    expect_change(f, "/api/cancel", "r1", 200, "cancelled");
    store_run(f, "r2", LEDGER_FAILED, NOW, NULL);
    expect_change(f, "/api/retry", "r2", 200, "queued");
    store_run(f, "r3", LEDGER_FAILED, NOW, NULL);
    expect_change(f, "/api/drop", "r3", 200, "cancelled");
}

FIXTURE_TEST(a_change_is_seen_at_once)
{
    store_run(f, "r1", LEDGER_QUEUED, NOW, NULL);
    (void)get(f, "/api/overview", 200, NULL, NULL);
    assert_int_equal(change(f, "/api/cancel", "r1"), 200);
    (void)get(f, "/api/overview", 200, NULL, NULL);
    assert_int_equal(json_count(json_get(f->json, "Open")), 0);
}

FIXTURE_TEST(a_change_that_the_state_forbids_is_a_conflict)
{
    store_run(f, "r1", LEDGER_QUEUED, NOW, NULL);
    expect_change(f, "/api/retry", "r1", 409, "queued");
    expect_change(f, "/api/finish", "r1", 409, "queued");
    assert_int_equal(change(f, "/api/pause", "r0"), 404);
}

FIXTURE_TEST(without_the_token_nothing_is_changed)
{
    static const char body[] = "{\"Job\":\"" JOB "\",\"Id\":\"r1\"}";
    struct fake_request fake = fake_good;

    store_run(f, "r1", LEDGER_QUEUED, NOW, NULL);
    fake_header(&fake, "Authorization", "Bearer 0123456789abcdef-of-a-tesu");
    for (size_t i = 0; i < API_ROUTES; i++)
        if (strcmp(f->routes[i].method, "POST") == 0)
            assert_int_equal(
                request(f, "POST", f->routes[i].path, body, &fake), 401);
    assert_string_equal(workbench_state(&f->bench, JOB, "r1"), "queued");
}

FIXTURE_TEST(a_body_that_names_no_run_is_refused)
{
    static const char *const wrong[] = {"", "[]", "{}", "{\"Job\":\"x\"}",
        "{\"Job\":\"\",\"Id\":\"r1\"}", "{\"Job\":1,\"Id\":\"r1\"}",
        "{\"Job\":\"a\\nb\",\"Id\":\"r1\"}", "{\"Job\":\"x\",\"Id\":\"a/b\"}"};

    for (size_t i = 0; TEST_EACH(i, wrong); i++)
        assert_int_equal(
            request(f, "POST", "/api/cancel", wrong[i], &fake_good), 400);
}

FIXTURE_TEST(another_name_reads_nothing)
{
    struct fake_request fake = fake_good;

    fake_header(&fake, "Host", "evil.example");
    for (size_t i = 0; i < API_ROUTES; i++)
        if (strncmp(f->routes[i].path, "/api/", 5) == 0)
            assert_int_equal(
                request(f, f->routes[i].method, f->routes[i].path, "{}", &fake),
                403);
}

FIXTURE_TEST(the_page_says_whether_it_only_shows)
{
    (void)get(f, "/api/about", 200, NULL, NULL);
    assert_false(json_boolean(json_get(f->json, "ReadOnly")));
    f->bench.setup.admin_token_file = NULL;
    (void)get(f, "/api/about", 200, NULL, NULL);
    assert_true(json_boolean(json_get(f->json, "ReadOnly")));
}

/* ---- requests that read, on a virtual clock ---- */

/* A run waits longer for a response than a request of the dashboard, so
 * time-outs of the dashboard must not stop runs. */
VIRTUAL_BENCH_TEST(time_outs_of_readings_open_no_breaker)
{
    struct store *store = &bench->wrapped.store;
    struct view *view = view_new();
    struct buf to;
    struct err err;

    buf_init(&to, VIEW_MAX_BYTES);
    platform_lock(&bench->lock);
    bench->down = true;
    bench->delay_ms = 3000;
    platform_unlock(&bench->lock);
    for (int i = 0; i < BREAKER_FAILURES; i++)
        assert_int_not_equal(
            view_overview(view, &bench->definition, &to, &err), TW_OK);
    for (int i = 0; i < STORE_SERVICES; i++)
        assert_false(breaker_is_away(&store->breakers[i]));
    buf_done(&to);
    view_free(view);
}
