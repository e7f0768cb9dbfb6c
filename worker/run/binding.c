/* SPDX-License-Identifier: MIT */
/* Finds a queue in which the body of a refused message has the same meaning as
 * in the queue where the message was refused. */
#include "worker/run/binding.h"

#include "worker/base/arena.h"
#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/run/message.h"
#include "worker/store/store.h"

#define BINDING_NONE "none"
#define ENCODING_TEXT "text"
#define ENCODING_BASE64 "base64"

/* How a queue was bound when one of its messages was refused. */
struct binding {
    struct slice job;      /* empty: the queue had no job */
    struct slice encoding; /* encoding of a bound queue; empty: not known */
};

/* A refused message that is to be put back. */
struct refused {
    const struct definition *definition;
    const struct ledger_run *run;
    struct slice body;
    struct binding binding;
    const struct setup_queue *own; /* the message's queue; NULL: not served */
};

static const char *encoding_of(const struct setup_queue *queue)
{
    return queue->base64 ? ENCODING_BASE64 : ENCODING_TEXT;
}

char *binding_text(const struct setup_queue *queue)
{
    return queue->job
               ? mem_format("%s %s", queue->job->name, encoding_of(queue))
               : mem_format("%s", BINDING_NONE);
}

/* Returns the binding that an entity without Binding implies, as binding.h
 * says. If a queue without a job received the message, the entity is under a
 * job's name only if the body has "job". */
static struct binding implied_binding(
    const struct ledger_run *run, struct slice body)
{
    struct binding binding = {0};

    if (!slice_is(run->job, LEDGER_UNREADABLE) && !message_has_job(body))
        binding.job = run->job;
    return binding;
}

/* Returns how the queue of run was bound. A Binding that is damaged, or that
 * only a newer version knows, results in a job or an encoding that no queue
 * has. */
static struct binding binding_of(
    const struct ledger_run *run, struct slice body)
{
    struct slice text = run->binding;
    size_t len = 0;

    if (text.len == 0)
        return implied_binding(run, body);
    if (slice_is(text, BINDING_NONE))
        return (struct binding){0};
    while (len + 1 < text.len && text.at[len] != ' ')
        len++;
    return (struct binding){
        {text.at, len}, {text.at + len + 1, text.len - len - 1}};
}

/* Does queue, which is bound to the same job, decode the body as the message's
 * queue did? A body that is not base64 can only have been meant as text. */
static bool has_same_encoding(
    const struct refused *refused, const struct setup_queue *queue)
{
    struct slice encoding = refused->binding.encoding;

    if (encoding.len == 0)
        return queue == refused->own;
    return slice_is(encoding, encoding_of(queue)) ||
           (slice_is(encoding, ENCODING_BASE64) &&
               !crypto_is_base64(refused->body));
}

static bool is_bound_so(
    const struct refused *refused, const struct setup_queue *queue)
{
    return queue->job && slice_is(refused->binding.job, queue->job->name) &&
           has_same_encoding(refused, queue);
}

static const struct setup_queue *find_bound(const struct refused *refused)
{
    const struct setup *setup = refused->definition->setup;

    if (refused->own && is_bound_so(refused, refused->own))
        return refused->own;
    for (size_t i = 0; i < setup->queue_count; i++)
        if (is_bound_so(refused, &setup->queues[i]))
            return &setup->queues[i];
    return NULL;
}

static const struct setup_queue *first_without_job(const struct setup *setup)
{
    for (size_t i = 0; i < setup->queue_count; i++)
        if (!setup->queues[i].job)
            return &setup->queues[i];
    return NULL;
}

/* Does queue read body as a request of a configured job? */
static bool is_request(const struct definition *definition,
    const struct setup_queue *queue, struct slice body, struct err *err)
{
    struct request request;
    struct arena arena;
    bool readable;

    arena_init(&arena);
    readable = message_read(queue, definition->jobs, body, &arena, &request,
                   err) == TW_OK;
    arena_done(&arena);
    return readable;
}

/* Find the queue without a job that takes the body as a JSON request. NULL:
 * there is none. Then `why` has the reason why the body is not a request; it is
 * empty if every queue has a job. */
static const struct setup_queue *find_without_job(
    const struct refused *refused, struct err *why)
{
    const struct setup_queue *queue =
        refused->own && !refused->own->job
            ? refused->own
            : first_without_job(refused->definition->setup);

    why->text[0] = '\0';
    return queue && is_request(refused->definition, queue, refused->body, why)
               ? queue
               : NULL;
}

/* ---- reasons ---- */

static void refuse(
    struct err *err, const struct ledger_run *run, const char *reason)
{
    (void)err_fail(err, TW_NOT_FOUND, "message %.*s stays in queue %.*s%s: %s",
        SLICE_ARG(run->id), SLICE_ARG(run->queue), SETUP_POISON_SUFFIX, reason);
}

static char *reason_of_bound(const struct refused *refused)
{
    const struct binding *was = &refused->binding;
    struct slice queue = refused->run->queue;

    return mem_format("it was refused while queue %.*s was bound to job "
                      "%.*s%s%.*s, and no queue has this binding now; bind "
                      "queue %.*s in this way again, then repeat the command",
        SLICE_ARG(queue), SLICE_ARG(was->job),
        was->encoding.len > 0 ? " with encoding " : "",
        SLICE_ARG(was->encoding), SLICE_ARG(queue));
}

/* Returns why the body, a JSON message, cannot be put back, and what to do.
 * why: as find_without_job() has set it. */
static char *reason_of_json(
    const struct refused *refused, const struct err *why)
{
    struct slice queue = refused->run->queue;

    if (why->text[0] == '\0')
        return mem_format(
            "it is a JSON message, and `queues` has no queue without `job:`; "
            "add one, then repeat the command");
    return mem_format("queue %.*s %s, and a queue without a job would refuse "
                      "the message again (%s); repeat the command when this is "
                      "corrected",
        SLICE_ARG(queue), refused->own ? "is bound to a job" : "is not served",
        why->text);
}

static char *reason_of_unknown(const struct refused *refused)
{
    struct slice id = refused->run->id;

    return mem_format(
        "it is not a JSON message, and the ledger does not say for which job "
        "it was; `poison show %.*s` prints the message: `enqueue` the job with "
        "this argument, then `poison drop %.*s`",
        SLICE_ARG(id), SLICE_ARG(id));
}

static void say_why_none(
    const struct refused *refused, const struct err *why, struct err *err)
{
    char *reason = refused->binding.job.len > 0 ? reason_of_bound(refused)
                   : message_has_job(refused->body)
                       ? reason_of_json(refused, why)
                       : reason_of_unknown(refused);

    refuse(err, refused->run, reason);
    mem_free(reason);
}

const struct setup_queue *binding_queue_of_copy(
    const struct definition *definition, const struct ledger_run *run,
    struct slice body, struct err *err)
{
    struct refused refused = {.definition = definition,
        .run = run,
        .body = body,
        .binding = binding_of(run, body),
        .own = setup_queue_named(definition->setup, run->queue)};
    bool was_bound = refused.binding.job.len > 0;
    const struct setup_queue *queue = NULL;
    struct err why = {""};

    if (was_bound)
        queue = find_bound(&refused);
    else if (refused.own && !refused.own->job)
        queue = refused.own;
    if (!queue)
        queue = find_without_job(&refused, &why);
    if (!queue)
        say_why_none(&refused, &why, err);
    return queue;
}
