/* SPDX-License-Identifier: MIT */
/* Messages of every kind of queue, and their arguments. */
#include "jobs/job.h"
#include "jobs/jobs.h"
#include "tests/fuzz/fuzz.h"
#include "worker/base/text.h"
#include "worker/run/ledger.h"
#include "worker/run/message.h"
#include "worker/run/setup.h"

static enum tw_err accept_keys(
    const struct job *job, const struct run_args *args, struct err *err)
{
    return args->count > 0
               ? entity_check_key("PartitionKey", args->values[0], err)
               : TW_OK;
}

static const struct kind strict = {.name = "strict", .accept = accept_keys};
static const struct kind easy = {.name = "easy"};
static const struct job_arg one[] = {{.name = {"channel", 7}}};
static const struct job_arg two[] = {
    {.name = {"channel", 7}, .allow_empty = true},
    {.name = {"note", 4}, .allow_empty = true}};
static struct job list[] = {
    {.name = "delete-channel", .kind = &strict, .args = one, .arg_count = 1},
    {.name = "rename", .kind = &easy, .args = two, .arg_count = 2},
    {.name = "sweep", .kind = &easy},
};
static const struct jobs jobs = {.list = list, .count = 3};
static const struct setup_queue queues[] = {
    {.name = "work"},
    {.name = "text", .job = &list[0]},
    {.name = "coded", .job = &list[0], .base64 = true},
};

/* ---- any text ---- */

static void check_args(
    const struct job *job, const struct request *request, struct arena *arena)
{
    struct run_args again;

    FUZZ_CHECK(request->args.count == job->arg_count);
    for (size_t i = 0; i < job->arg_count; i++) {
        FUZZ_SAME(request->args.names[i], job->args[i].name);
        FUZZ_CHECK(text_is_utf8(request->args.values[i]));
        FUZZ_CHECK(job->args[i].allow_empty || request->args.values[i].len > 0);
    }
    FUZZ_CHECK(text_utf16_units(request->args_json) <= LEDGER_MAX_TEXT_UNITS);
    FUZZ_CHECK(message_args_parse(
                   job, request->args_json, arena, &again, NULL) == TW_OK);
    for (size_t i = 0; i < job->arg_count; i++)
        FUZZ_SAME(again.values[i], request->args.values[i]);
    FUZZ_CHECK(message_args_same(request->args_json, request->args_json));
}

/* Writes the request as `enqueue` does: it must be read back the same. */
static void check_again(const struct request *request, struct arena *arena)
{
    struct request again;
    struct buf *body = fuzz_buf();

    message_compose(slice_of(request->job->name), request->args_json,
        request->id, request->requested_ticks, request->traceparent, body);
    FUZZ_CHECK(message_read(&queues[0], &jobs, buf_slice(body), arena, &again,
                   NULL) == TW_OK);
    FUZZ_CHECK(again.job == request->job);
    FUZZ_SAME(again.args_json, request->args_json);
    FUZZ_SAME(again.id, request->id);
    FUZZ_SAME(again.traceparent, request->traceparent);
    FUZZ_CHECK(again.requested_ticks == request->requested_ticks);
}

static void try_body(
    const struct setup_queue *queue, struct slice text, struct arena *arena)
{
    struct request request;
    struct err err = {{0}};
    enum tw_err outcome =
        message_read(queue, &jobs, text, arena, &request, &err);

    FUZZ_CHECK(outcome == TW_OK || outcome == TW_INVALID);
    if (queue->job != NULL)
        FUZZ_CHECK(request.job == queue->job);
    if (outcome != TW_OK) {
        fuzz_said(&err);
        return;
    }
    FUZZ_CHECK(request.job != NULL);
    FUZZ_CHECK(request.id.len == 0 || text_is_run_id(request.id));
    FUZZ_CHECK(request.requested_ticks == 0 ||
               (request.requested_ticks >= TICKS_1601 &&
                   request.requested_ticks <= TICKS_MAX));
    FUZZ_CHECK(request.traceparent.len == 0 || request.traceparent.len == 55);
    check_args(request.job, &request, arena);
    check_again(&request, arena);
    if (queue->job != NULL && !queue->base64)
        FUZZ_SAME(request.args.values[0], text);
}

/* Reads the body as the Args of a run of each job. */
static void try_args(struct slice text, struct arena *arena)
{
    struct run_args args;
    struct err err = {{0}};

    for (size_t i = 0; i < jobs.count; i++)
        if (message_args_parse(&list[i], text, arena, &args, &err) != TW_OK)
            fuzz_said(&err);
    (void)message_args_same(text, slice_of("{\"channel\":\"x\"}"));
}

/* ---- messages made from known values ---- */

static struct slice run_id(struct fuzz_source *in)
{
    struct slice text = fuzz_word(in, 0, 30);

    return text.len == 0 ? fuzz_none()
                         : arena_format(in->arena, "%.*s._-", SLICE_ARG(text));
}

static void message_is_read_back(struct fuzz_source *in)
{
    const struct slice names[] = {two[0].name, two[1].name};
    struct slice values[] = {fuzz_text(in, 40), fuzz_text(in, 40)};
    const struct run_args args = {2, names, values};
    struct slice id = run_id(in), text;
    int64_t ticks = fuzz_yes(in) ? fuzz_ticks(in) : 0;
    struct slice trace = slice_of(
        fuzz_yes(in) ? "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
                     : "");
    struct request request;
    struct buf *json = fuzz_buf(), *body = fuzz_buf();
    struct err err = {{0}};

    message_args_json(&args, json);
    message_compose(
        slice_of("rename"), buf_slice(json), id, ticks, trace, body);
    text = fuzz_yes(in) ? fuzz_base64(buf_slice(body), in->arena)
                        : buf_slice(body);
    if (message_read(&queues[0], &jobs, text, in->arena, &request, &err) !=
        TW_OK)
        fuzz_fail(__FILE__, __LINE__, err.text, buf_slice(body));
    FUZZ_CHECK(request.job == &list[1] && request.requested_ticks == ticks);
    FUZZ_SAME(request.id, id);
    FUZZ_SAME(request.traceparent, trace);
    FUZZ_SAME(request.args.values[0], values[0]);
    FUZZ_SAME(request.args.values[1], values[1]);
    FUZZ_SAME(request.args_json, buf_slice(json));
}

/* The text of a message on a queue with `job:` is the argument, byte for byte,
 * in base64 or not. */
static void argument_is_read_back(struct fuzz_source *in)
{
    struct slice key = fuzz_key(in, 40);
    struct request request;

    if (key.len == 0)
        return;
    FUZZ_CHECK(message_read(
                   &queues[1], &jobs, key, in->arena, &request, NULL) == TW_OK);
    FUZZ_SAME(request.args.values[0], key);
    FUZZ_CHECK(message_read(&queues[2], &jobs, fuzz_base64(key, in->arena),
                   in->arena, &request, NULL) == TW_OK);
    FUZZ_SAME(request.args.values[0], key);
}

FUZZ_TARGET(message)
{
    for (size_t i = 0; i < 3; i++)
        try_body(&queues[i], text, in->arena);
    try_body(&queues[0], fuzz_base64(text, in->arena), in->arena);
    try_body(&queues[2], fuzz_base64(text, in->arena), in->arena);
    try_args(text, in->arena);
    message_is_read_back(in);
    fuzz_again(in);
    argument_is_read_back(in);
}
