/* SPDX-License-Identifier: MIT */
/*
 * Routes of the dashboard. A handler checks who sends the request, makes a
 * question of the request (a text whose fields are separated by line ends),
 * and responds with the answer, if the thread of readings or the thread of
 * changes has already found the answer.
 */
#include "worker/monitor/api.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "worker/base/json.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/monitor/access.h"
#include "worker/monitor/answers.h"
#include "worker/monitor/change.h"
#include "worker/monitor/page.h"
#include "worker/monitor/view.h"
#include "worker/run/ledger.h"
#include "worker/run/runs.h"
#include "worker/run/setup.h"

#define OBJECT "dashboard"
#define JSON_TYPE "application/json; charset=utf-8"

/* A reading gets data for the dashboard from the ledger and the queues. The
 * result of a reading is used again for READ_FRESH_MS or, if that is longer,
 * for READ_SHARE times the duration of the reading, so that readings take a
 * tenth of the time at most. A result is never used for longer than
 * READ_OLD_MS. */
#define READ_FRESH_MS 1500
#define READ_SHARE 10
#define READ_OLD_MS 15000
/* How long the outcome of a change is kept. */
#define CHANGE_KEPT_MS 60000
#define CHANGE_MAX_BYTES 4096
/* Maximum length of a field of a question: a job, an id or a cursor. */
#define FIELD_MAX_BYTES 1200
#define QUESTION_MAX_BYTES (4 * FIELD_MAX_BYTES)
/* Minimum time between two log lines about refused changes. */
#define REFUSED_EVERY_MS 60000

struct api {
    struct api_options options;
    struct view *view; /* used only by the thread of readings */
    struct history *history;
    struct answers *readings, *changes;
    int64_t refused_ms; /* when a refused change may be logged again; used by
                           the server's thread */
};

/* ---- responses ---- */

static void add_error(struct buf *to, const char *why)
{
    buf_clear(to);
    buf_add_text(to, "{\"Error\":");
    json_add_string(to, slice_of(why));
    buf_add_char(to, '}');
}

static void fail(
    struct http_response *response, unsigned status, const char *why)
{
    response->status = status;
    response->content_type = JSON_TYPE;
    add_error(&response->body, why);
}

/* May the request be answered? If not, response gets the refusal. */
static bool may_read(
    const struct http_request *request, struct http_response *response)
{
    struct err err;
    unsigned status = access_to_read(request, &err);

    response->content_type = JSON_TYPE;
    if (status != 200)
        fail(response, status, err.text);
    return status == 200;
}

static void give(struct http_response *response, enum answers_state state)
{
    if (response->body.overflow)
        fail(response, 500, "the answer is too large");
    else if (state == ANSWERS_NONE)
        fail(response, 503, "too many requests at once: try again");
    else if (state == ANSWERS_PENDING) {
        response->status = 202;
        buf_add_text(&response->body, "{\"Pending\":true}");
    }
}

static unsigned status_of(enum tw_err outcome)
{
    switch (outcome) {
    case TW_OK:
        return 200;
    case TW_NOT_FOUND:
        return 404;
    case TW_CONFLICT:
        return 409;
    case TW_INVALID:
        return 400;
    case TW_UNKNOWN:
    case TW_BUSY:
    case TW_REFUSED:
    case TW_FORBIDDEN:
    case TW_TOO_LARGE:
    case TW_STOPPED:
    case TW_FULL:
        break;
    }
    return 503;
}

/* ---- questions ---- */

/* Take the first field off a question. */
static struct slice take(struct slice *question)
{
    const char *end =
        question->len > 0 ? memchr(question->at, '\n', question->len) : NULL;
    struct slice field = *question;

    if (end)
        field.len = (size_t)(end - question->at);
    question->at += field.len + (end ? 1 : 0);
    question->len -= field.len + (end ? 1 : 0);
    return field;
}

/* May field be a field of a question? */
static bool is_field(struct slice field)
{
    if (field.len > FIELD_MAX_BYTES || !text_is_utf8(field))
        return false;
    for (size_t i = 0; i < field.len; i++)
        if ((unsigned char)field.at[i] < ' ')
            return false;
    return true;
}

static struct slice argument(
    const struct http_request *request, const char *name)
{
    return slice_of(http_request_query(request, name));
}

/* ---- the thread of readings ---- */

static enum tw_err answer_runs(struct api *api,
    const struct definition *definition, struct slice fields, struct buf *to,
    struct err *err)
{
    int64_t states = 0, limit = VIEW_PAGE;
    struct view_page page;

    (void)text_int64(take(&fields), 0, INT32_MAX, &states);
    (void)text_int64(take(&fields), 1, VIEW_PAGE_MAX, &limit);
    page = (struct view_page){
        .states = (unsigned)states,
        .limit = (size_t)limit,
    };
    page.job = take(&fields);
    page.before = take(&fields);
    return view_runs(api->view, definition, &page, to, err);
}

static enum tw_err answer_run(struct api *api,
    const struct definition *definition, struct slice fields, struct buf *to,
    struct err *err)
{
    struct slice job = take(&fields);

    return view_run(api->view, definition, job, take(&fields), to, err);
}

static void read_answer(void *context, const char *question, struct answer *ret)
{
    struct api *api = context;
    struct slice fields = slice_of(question);
    struct slice what = take(&fields);
    struct definition *definition =
        api->options.definition(api->options.context);
    enum tw_err outcome;
    struct err err;

    if (slice_is(what, "runs"))
        outcome = answer_runs(api, definition, fields, &ret->body, &err);
    else if (slice_is(what, "run"))
        outcome = answer_run(api, definition, fields, &ret->body, &err);
    else
        outcome = view_overview(api->view, definition, &ret->body, &err);
    definition_drop(definition);
    ret->status = status_of(outcome);
    if (outcome != TW_OK)
        add_error(&ret->body, err.text);
}

static void sample(void *context)
{
    struct api *api = context;
    struct history_totals totals = {0};

    api->options.totals(api->options.context, &totals);
    history_add(
        api->history, &totals, platform_boot_ms(), platform_wall_ticks());
}

/* ---- the thread of changes ---- */

static void log_change(struct slice name, struct slice job, struct slice id,
    enum tw_err outcome, const char *why)
{
    if (outcome == TW_OK)
        log_info(OBJECT, "%.*s %.*s/%.*s: done", SLICE_ARG(name),
            SLICE_ARG(job), SLICE_ARG(id));
    else
        log_warn(OBJECT, "%.*s %.*s/%.*s: %s", SLICE_ARG(name), SLICE_ARG(job),
            SLICE_ARG(id), why);
}

static void make_change(void *context, const char *question, struct answer *ret)
{
    struct api *api = context;
    struct slice fields = slice_of(question);
    struct slice name, job, id;
    struct definition *definition =
        api->options.definition(api->options.context);
    enum tw_err outcome;
    struct err err;
    struct buf done;

    (void)take(&fields); /* the id under which the outcome is asked for */
    name = take(&fields);
    job = take(&fields);
    id = take(&fields);
    buf_init(&done, CHANGE_MAX_BYTES);
    outcome = change_make(change_named(name), definition, job, id, &done, &err);
    definition_drop(definition);
    log_change(name, job, id, outcome, err.text);
    ret->status = status_of(outcome);
    if (outcome == TW_OK) {
        buf_add_text(&ret->body, "{\"Done\":");
        json_add_string(&ret->body, buf_slice(&done));
        buf_add_char(&ret->body, '}');
    } else {
        add_error(&ret->body, err.text);
    }
    buf_done(&done);
    answers_forget(api->readings);
}

/* ---- handlers: the page, the worker ---- */

static void get_file(void *context, const struct http_request *request,
    struct http_response *response)
{
    struct page_file files[PAGE_FILES];

    (void)context;
    page_files(files);
    for (size_t i = 0; i < PAGE_FILES; i++) {
        if (strcmp(files[i].path, request->path) != 0)
            continue;
        response->content_type = files[i].content_type;
        buf_add_slice(&response->body, files[i].text);
    }
}

static void get_about(void *context, const struct http_request *request,
    struct http_response *response)
{
    const struct api *api = context;
    const struct setup *setup = api->options.started_with->setup;
    char host[256] = "", worker[300];

    if (!may_read(request, response))
        return;
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(worker, sizeof(worker), "%s:%ld", host, (long)getpid());
    buf_add_text(&response->body, "{\"Version\":");
    json_add_string(&response->body, slice_of(TABLEWARD_VERSION));
    buf_add_text(&response->body, ",\"Worker\":");
    json_add_string(&response->body, slice_of(worker));
    buf_add_format(&response->body, ",\"ReadOnly\":%s}",
        setup->admin_token_file ? "false" : "true");
}

static void get_history(void *context, const struct http_request *request,
    struct http_response *response)
{
    struct api *api = context;

    if (may_read(request, response))
        history_add_json(api->history, &response->body);
}

/* ---- handlers: readings ---- */

static void ask(
    struct api *api, const struct buf *question, struct http_response *response)
{
    give(response, answers_ask(api->readings, buf_text(question),
                       &response->status, &response->body));
}

static void get_overview(void *context, const struct http_request *request,
    struct http_response *response)
{
    struct buf question;

    if (!may_read(request, response))
        return;
    buf_init(&question, QUESTION_MAX_BYTES);
    buf_add_text(&question, "overview");
    ask(context, &question, response);
    buf_done(&question);
}

static bool read_states(struct slice text, unsigned *ret)
{
    *ret = 0;
    while (text.len > 0) {
        const char *comma = memchr(text.at, ',', text.len);
        size_t len = comma ? (size_t)(comma - text.at) : text.len;
        enum ledger_state state;

        if (!ledger_state_named((struct slice){text.at, len}, &state))
            return false;
        *ret |= RUNS_STATE(state);
        text = (struct slice){
            text.at + len + (comma ? 1 : 0), text.len - len - (comma ? 1 : 0)};
    }
    return true;
}

static void get_runs(void *context, const struct http_request *request,
    struct http_response *response)
{
    struct slice job = argument(request, "job");
    struct slice before = argument(request, "before");
    struct slice text = argument(request, "limit");
    int64_t limit = VIEW_PAGE;
    struct buf question;
    unsigned states;

    if (!may_read(request, response))
        return;
    if (!is_field(job) || !is_field(before) ||
        !read_states(argument(request, "state"), &states) ||
        (text.len > 0 && !text_int64(text, 1, VIEW_PAGE_MAX, &limit))) {
        fail(response, 400,
            "`state` must be names of states, and `limit` a number from 1 to "
            "200");
        return;
    }
    buf_init(&question, QUESTION_MAX_BYTES);
    buf_add_format(&question, "runs\n%u\n%" PRId64 "\n%.*s\n%.*s", states,
        limit, SLICE_ARG(job), SLICE_ARG(before));
    ask(context, &question, response);
    buf_done(&question);
}

static void get_run(void *context, const struct http_request *request,
    struct http_response *response)
{
    struct slice job = argument(request, "job");
    struct slice id = argument(request, "id");
    struct buf question;

    if (!may_read(request, response))
        return;
    if (!is_field(job) || !text_is_run_id(id)) {
        fail(response, 400, "`id` is not a run id");
        return;
    }
    buf_init(&question, QUESTION_MAX_BYTES);
    buf_add_format(&question, "run\n%.*s\n%.*s", SLICE_ARG(job), SLICE_ARG(id));
    ask(context, &question, response);
    buf_done(&question);
}

/* ---- handlers: changes ---- */

/* May the request change something? If not, response gets the refusal, which is
 * logged, because somebody may be guessing the token. */
static bool may_change(struct api *api, const struct http_request *request,
    struct http_response *response)
{
    int64_t now_ms = platform_boot_ms();
    struct err err;
    unsigned status =
        access_to_change(request, api->options.started_with, &err);

    response->content_type = JSON_TYPE;
    if (status == 200)
        return true;
    fail(response, status, err.text);
    if (now_ms >= api->refused_ms) {
        log_warn(OBJECT, "a change was refused: %s", err.text);
        api->refused_ms = now_ms + REFUSED_EVERY_MS;
    }
    return false;
}

static struct slice member(const struct json *body, const char *name)
{
    const struct json *value =
        json_type(body) == JSON_OBJECT ? json_get(body, name) : NULL;

    return value && json_type(value) == JSON_STRING ? json_string(value)
                                                    : (struct slice){0};
}

/* Make the thread of changes make the change. The response has the text with
 * which /api/outcome is asked for the outcome. */
static void ask_change(struct api *api, const char *name, struct slice job,
    struct slice id, struct http_response *response)
{
    enum answers_state state;
    struct buf question;
    char pending[33];

    text_random_id(pending);
    buf_init(&question, QUESTION_MAX_BYTES);
    buf_add_format(&question, "%s\n%s\n%.*s\n%.*s", pending, name,
        SLICE_ARG(job), SLICE_ARG(id));
    state = answers_ask(
        api->changes, buf_text(&question), &response->status, &response->body);
    buf_done(&question);
    if (state == ANSWERS_PENDING) {
        response->status = 202;
        buf_add_format(&response->body, "{\"Pending\":\"%s\"}", pending);
    } else {
        give(response, state);
    }
}

static void post_change(void *context, const struct http_request *request,
    struct http_response *response)
{
    const char *name = request->path + strlen("/api/");
    struct api *api = context;
    struct slice job, id;
    struct json *body;

    if (!may_change(api, request, response))
        return;
    if (json_parse(request->body, 1, &body, NULL) != TW_OK) {
        fail(response, 400, "the body is not a JSON object");
        return;
    }
    job = member(body, "Job");
    id = member(body, "Id");
    if (job.len > 0 && is_field(job) && text_is_run_id(id))
        ask_change(api, name, job, id, response);
    else
        fail(response, 400, "the body has no \"Job\" and \"Id\" of a run");
    json_free(body);
}

static void post_check(void *context, const struct http_request *request,
    struct http_response *response)
{
    if (may_change(context, request, response))
        buf_add_text(&response->body, "{\"Done\":\"The token is right.\"}");
}

static void get_outcome(void *context, const struct http_request *request,
    struct http_response *response)
{
    struct slice of = argument(request, "of");
    struct api *api = context;
    enum answers_state state = ANSWERS_NONE;
    char beginning[34];

    if (!may_read(request, response))
        return;
    if (of.len == 32 && is_field(of)) {
        (void)snprintf(beginning, sizeof(beginning), "%.*s\n", SLICE_ARG(of));
        state = answers_look(
            api->changes, beginning, &response->status, &response->body);
    }
    if (state == ANSWERS_NONE)
        fail(response, 404, "no such change was requested recently");
    else
        give(response, state);
}

/* ---- the module ---- */

struct api *api_new(const struct api_options *options)
{
    struct api *api = mem_alloc(sizeof(*api));

    api->options = *options;
    api->view = view_new();
    api->history = history_new();
    api->readings = answers_new(&(struct answers_options){
        .name = "dashboard",
        .answer = read_answer,
        .tick = sample,
        .tick_ms = HISTORY_EVERY_MS,
        .context = api,
        .max_bytes = VIEW_MAX_BYTES,
        .fresh_ms = READ_FRESH_MS,
        .share = READ_SHARE,
        .old_ms = READ_OLD_MS,
    });
    api->changes = answers_new(&(struct answers_options){
        .name = "changes",
        .answer = make_change,
        .context = api,
        .max_bytes = CHANGE_MAX_BYTES,
        .fresh_ms = CHANGE_KEPT_MS,
        .old_ms = CHANGE_KEPT_MS,
    });
    return api;
}

void api_routes(struct api *api, struct http_route *routes)
{
    static const struct http_route all[API_ROUTES] = {
        {"GET", "/", get_file, NULL},
        {"GET", "/dashboard.css", get_file, NULL},
        {"GET", "/dashboard.js", get_file, NULL},
        {"GET", "/dashboard.svg", get_file, NULL},
        {"GET", "/api/about", get_about, NULL},
        {"GET", "/api/history", get_history, NULL},
        {"GET", "/api/overview", get_overview, NULL},
        {"GET", "/api/runs", get_runs, NULL},
        {"GET", "/api/run", get_run, NULL},
        {"GET", "/api/outcome", get_outcome, NULL},
        {"POST", "/api/check", post_check, NULL},
        {"POST", "/api/retry", post_change, NULL},
        {"POST", "/api/drop", post_change, NULL},
        {"POST", "/api/pause", post_change, NULL},
        {"POST", "/api/resume", post_change, NULL},
        {"POST", "/api/cancel", post_change, NULL},
        {"POST", "/api/finish", post_change, NULL},
    };

    for (size_t i = 0; i < API_ROUTES; i++) {
        routes[i] = all[i];
        routes[i].context = api;
    }
}

void api_free(struct api *api)
{
    if (!api)
        return;
    view_stop(api->view);
    answers_free(api->changes);
    answers_free(api->readings);
    view_free(api->view);
    history_free(api->history);
    mem_free(api);
}
