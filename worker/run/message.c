/* SPDX-License-Identifier: MIT */
/* Reads and composes queue messages. */
#include "worker/run/message.h"

#include "worker/base/crypto.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/run/ledger.h"
#include "worker/store/store.h"

/* Maximum depth of a message's JSON. Unknown members may be nested, but a body
 * of 64 KiB of `[` must be refused. */
#define MESSAGE_MAX_DEPTH 16

/* Room for the longest output of text_quote(). */
#define QUOTE_MAX_BYTES 1024

static enum tw_err refuse(
    struct err *err, const char *what, struct slice text, const char *nearest)
{
    struct buf quoted;

    buf_init(&quoted, QUOTE_MAX_BYTES);
    text_quote(&quoted, text);
    if (nearest)
        (void)err_fail(err, TW_INVALID, "%s %s, did you mean '%s'?", what,
            buf_text(&quoted), nearest);
    else
        (void)err_fail(err, TW_INVALID, "%s %s", what, buf_text(&quoted));
    buf_done(&quoted);
    return TW_INVALID;
}

/* ---- arguments ---- */

static enum tw_err check_choice(
    const struct kind_arg *arg, struct slice value, struct err *err)
{
    size_t count = 0;
    char *what;
    enum tw_err outcome;

    for (; arg->choices[count]; count++)
        if (slice_is(value, arg->choices[count]))
            return TW_OK;
    what = mem_format("argument %s: unknown value", arg->name);
    outcome =
        refuse(err, what, value, text_nearest(value, arg->choices, count));
    mem_free(what);
    return outcome;
}

static enum tw_err check_value(
    const struct job_arg *arg, struct slice value, struct err *err)
{
    if (arg->implied)
        return check_choice(arg->implied, value, err);
    if (value.len == 0 && !arg->allow_empty)
        return refuse(err, "empty argument", arg->name, NULL);
    if (!text_is_utf8(value))
        return refuse(err, "invalid UTF-8 in argument", arg->name, NULL);
    return TW_OK;
}

/* Returns the name to suggest instead of an unknown name: the only declared
 * argument of the job, unless it is given, too. */
static const char *meant(
    const struct job *job, const struct slice *names, size_t count)
{
    if (job_declared_args(job) != 1)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (slice_equal(names[i], job->args[0].name))
            return NULL;
    return job->args[0].name.at;
}

/* Check the value of one of the job's arguments, and store it at the argument's
 * index. */
static enum tw_err place_value(const struct job *job, struct slice name,
    struct slice value, struct arena *arena, struct slice *values, bool *given,
    struct err *err)
{
    size_t index = job_arg_index(job, name);
    enum tw_err outcome;

    if (given[index])
        return refuse(err, "argument given twice:", name, NULL);
    outcome = check_value(&job->args[index], value, err);
    if (outcome != TW_OK)
        return outcome;
    given[index] = true;
    values[index] = arena_copy(arena, value);
    return TW_OK;
}

/*
 * Check all arguments together. kind->accept is called only if every variable
 * of the job is set. A process that enqueues may lack a variable that the
 * worker has, and a worker reports an unset variable before it executes the
 * job.
 */
static enum tw_err check_args(
    const struct job *job, const struct run_args *args, struct err *err)
{
    struct buf json;
    enum tw_err outcome = TW_OK;

    buf_init(&json, 8 * QUEUE_MAX_MESSAGE_BYTES);
    message_args_json(args, &json);
    if (json.overflow ||
        text_utf16_units(buf_slice(&json)) > LEDGER_MAX_TEXT_UNITS)
        outcome = err_fail(err, TW_INVALID,
            "the arguments are too long for the ledger (over %d characters)",
            LEDGER_MAX_TEXT_UNITS);
    else if (job->kind->accept && !job->unset)
        outcome = job->kind->accept(job, args, err);
    buf_done(&json);
    return outcome == TW_OK ? TW_OK : TW_INVALID;
}

enum tw_err message_args(const struct job *job, const struct slice *names,
    const struct slice *values, size_t count, struct arena *arena,
    struct run_args *ret, struct err *err)
{
    size_t room = job->arg_count + 1;
    struct slice *own_names = arena_alloc(arena, room * sizeof(*own_names));
    struct slice *own_values = arena_alloc(arena, room * sizeof(*own_values));
    bool *given = arena_alloc(arena, room * sizeof(*given));
    struct run_args args = {job->arg_count, own_names, own_values};
    enum tw_err outcome;

    for (size_t i = 0; i < count; i++) {
        if (job_arg_index(job, names[i]) == job->arg_count)
            return refuse(err, "superfluous argument", names[i],
                meant(job, names, count));
        outcome = place_value(
            job, names[i], values[i], arena, own_values, given, err);
        if (outcome != TW_OK)
            return outcome;
    }
    for (size_t i = 0; i < job->arg_count; i++) {
        own_names[i] = job->args[i].name;
        if (!given[i] && job->args[i].implied)
            own_values[i] = slice_of(job->args[i].implied->fallback);
        else if (!given[i])
            return refuse(err, "missing argument", own_names[i], NULL);
    }
    outcome = check_args(job, &args, err);
    if (outcome == TW_OK)
        *ret = args;
    return outcome;
}

void message_args_json(const struct run_args *args, struct buf *to)
{
    buf_add_char(to, '{');
    for (size_t i = 0; i < args->count; i++) {
        if (i > 0)
            buf_add_char(to, ',');
        json_add_string(to, args->names[i]);
        buf_add_char(to, ':');
        json_add_string(to, args->values[i]);
    }
    buf_add_char(to, '}');
}

static struct slice args_json(const struct run_args *args, struct arena *arena)
{
    struct slice copy;
    struct buf json;

    buf_init(&json, 8 * QUEUE_MAX_MESSAGE_BYTES);
    message_args_json(args, &json);
    copy = arena_copy(arena, buf_slice(&json));
    buf_done(&json);
    return copy;
}

/* Read arguments from a JSON object of strings. object NULL: there are none. */
static enum tw_err args_from_json(const struct job *job,
    const struct json *object, struct arena *arena, struct run_args *ret,
    struct err *err)
{
    size_t count = object ? json_count(object) : 0;
    struct slice *names = arena_alloc(arena, (count + 1) * sizeof(*names));
    struct slice *values = arena_alloc(arena, (count + 1) * sizeof(*values));

    for (size_t i = 0; i < count; i++) {
        const struct json *value = json_value(object, i);

        names[i] = json_name(object, i);
        if (json_type(value) != JSON_STRING)
            return refuse(err, "not a string: argument", names[i], NULL);
        if (json_has_lone_surrogate(json_raw(value)))
            return refuse(
                err, "half of a surrogate pair in argument", names[i], NULL);
        values[i] = json_string(value);
    }
    return message_args(job, names, values, count, arena, ret, err);
}

enum tw_err message_args_parse(const struct job *job, struct slice text,
    struct arena *arena, struct run_args *ret, struct err *err)
{
    struct json *json;
    enum tw_err outcome = json_parse(text, 1, &json, err);

    if (outcome != TW_OK)
        return TW_INVALID;
    if (json_type(json) != JSON_OBJECT)
        outcome =
            err_fail(err, TW_INVALID, "the run's Args are not a JSON object");
    else
        outcome = args_from_json(job, json, arena, ret, err);
    json_free(json);
    return outcome;
}

static bool has_member(
    const struct json *object, struct slice name, struct slice text)
{
    for (size_t i = 0; i < json_count(object); i++) {
        const struct json *value = json_value(object, i);

        if (slice_equal(json_name(object, i), name))
            return json_type(value) == JSON_STRING &&
                   slice_equal(json_string(value), text);
    }
    return false;
}

static bool objects_same(const struct json *a, const struct json *b)
{
    if (json_type(a) != JSON_OBJECT || json_type(b) != JSON_OBJECT ||
        json_count(a) != json_count(b))
        return false;
    for (size_t i = 0; i < json_count(a); i++) {
        const struct json *value = json_value(a, i);

        if (json_type(value) != JSON_STRING ||
            !has_member(b, json_name(a, i), json_string(value)))
            return false;
    }
    return true;
}

bool message_args_same(struct slice a, struct slice b)
{
    struct json *json_a = NULL, *json_b = NULL;
    bool same = json_parse(a, 1, &json_a, NULL) == TW_OK &&
                json_parse(b, 1, &json_b, NULL) == TW_OK &&
                objects_same(json_a, json_b);

    json_free(json_a);
    json_free(json_b);
    return same;
}

/* ---- JSON messages ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct slice trimmed(struct slice text)
{
    while (text.len > 0 && is_blank(text.at[0])) {
        text.at++;
        text.len--;
    }
    while (text.len > 0 && is_blank(text.at[text.len - 1]))
        text.len--;
    return text;
}

/* Find the JSON text of a body, plain or base64. */
static enum tw_err json_of_body(
    struct slice body, struct arena *arena, struct slice *ret, struct err *err)
{
    struct slice text = trimmed(body);
    struct buf plain;
    enum tw_err outcome = TW_OK;

    if (text.len == 0)
        return err_fail(err, TW_INVALID, "the message is empty");
    if (text.at[0] == '{') {
        *ret = text;
        return TW_OK;
    }
    buf_init(&plain, QUEUE_MAX_MESSAGE_BYTES);
    if (crypto_unbase64(&plain, text))
        text = trimmed(buf_slice(&plain));
    if (text.len > 0 && text.at[0] == '{')
        *ret = arena_copy(arena, text);
    else
        outcome = err_fail(err, TW_INVALID,
            "the message is neither a JSON object nor the base64 of one");
    buf_done(&plain);
    return outcome;
}

static bool has_text(
    const struct json *object, const char *name, struct slice text)
{
    const struct json *value = json_get(object, name);

    return value && json_type(value) == JSON_STRING &&
           slice_equal(json_string(value), text);
}

static bool has_args(const struct json *message, struct slice args_json)
{
    const struct json *args = json_get(message, "args");

    return args_json.len == 0 ||
           message_args_same(args ? json_raw(args) : slice_of("{}"), args_json);
}

/* Find the JSON message in body, plain or base64; NULL: body has none. Owned.
 */
static struct json *message_in(struct slice body, struct arena *arena)
{
    struct json *message = NULL;
    struct slice text;

    if (json_of_body(body, arena, &text, NULL) == TW_OK)
        (void)!json_parse(text, MESSAGE_MAX_DEPTH, &message, NULL);
    return message;
}

bool message_is_of(struct slice body, struct slice job, struct slice id,
    struct slice args_json)
{
    struct arena arena;
    struct json *message;
    bool is;

    arena_init(&arena);
    message = message_in(body, &arena);
    is = message && json_type(message) == JSON_OBJECT &&
         has_text(message, "job", job) && has_text(message, "id", id) &&
         has_args(message, args_json);
    json_free(message);
    arena_done(&arena);
    return is;
}

bool message_has_job(struct slice body)
{
    struct arena arena;
    struct json *message;
    bool has;

    arena_init(&arena);
    message = message_in(body, &arena);
    has = message && json_get(message, "job") != NULL;
    json_free(message);
    arena_done(&arena);
    return has;
}

/* Read an optional member that is a string; null counts as absent. */
static enum tw_err optional_text(const struct json *message, const char *name,
    struct arena *arena, struct slice *ret, bool *ret_given, struct err *err)
{
    const struct json *value = json_get(message, name);

    *ret_given = false;
    *ret = (struct slice){0};
    if (value == NULL || json_type(value) == JSON_NULL)
        return TW_OK;
    if (json_type(value) != JSON_STRING)
        return err_fail(
            err, TW_INVALID, "the message's \"%s\" is not a string", name);
    *ret = arena_copy(arena, json_string(value));
    *ret_given = true;
    return TW_OK;
}

static enum tw_err read_job(const struct json *message, const struct jobs *jobs,
    struct arena *arena, struct request *ret, struct err *err)
{
    struct slice name;
    bool given;
    enum tw_err outcome =
        optional_text(message, "job", arena, &name, &given, err);

    if (outcome != TW_OK)
        return outcome;
    if (!given)
        return err_fail(err, TW_INVALID, "the message has no \"job\"");
    ret->job = jobs_find(jobs, name);
    if (ret->job == NULL) {
        ret->unknown_job = name;
        return refuse(err, "unknown job", name, jobs_nearest(jobs, name));
    }
    return TW_OK;
}

static enum tw_err read_id(const struct json *message, struct arena *arena,
    struct request *ret, struct err *err)
{
    struct slice id;
    bool given;
    enum tw_err outcome = optional_text(message, "id", arena, &id, &given, err);

    if (outcome != TW_OK)
        return outcome;
    if (given && !text_is_run_id(id))
        return refuse(err,
            "invalid id (it must be 1 to 128 of A-Z a-z 0-9 . _ -, not "
            "beginning with a dot):",
            id, NULL);
    ret->id = id;
    return TW_OK;
}

static enum tw_err read_at(const struct json *message, struct arena *arena,
    struct request *ret, struct err *err)
{
    struct slice at;
    bool given;
    enum tw_err outcome = optional_text(message, "at", arena, &at, &given, err);

    if (outcome != TW_OK || !given)
        return outcome;
    if (!text_ticks(at, &ret->requested_ticks) ||
        ret->requested_ticks < TICKS_1601)
        return refuse(err,
            "\"at\" is not a time such as 2026-11-21T12:00:00Z:", at, NULL);
    return TW_OK;
}

/* Is text a valid traceparent? W3C Trace Context requires that any other text
 * is ignored. */
bool message_is_traceparent(struct slice text)
{
    static const char shape[] =
        "hh-hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh-hh";

    if (text.len != sizeof(shape) - 1)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');

        if (shape[i] == 'h' ? !hex : c != '-')
            return false;
    }
    return true;
}

static enum tw_err read_traceparent(const struct json *message,
    struct arena *arena, struct request *ret, struct err *err)
{
    struct slice text;
    bool given;
    enum tw_err outcome =
        optional_text(message, "traceparent", arena, &text, &given, err);

    if (outcome == TW_OK && given && message_is_traceparent(text))
        ret->traceparent = text;
    return outcome;
}

static enum tw_err read_args(const struct json *message, struct arena *arena,
    struct request *ret, struct err *err)
{
    const struct json *args = json_get(message, "args");
    enum tw_err outcome;

    if (args && json_type(args) == JSON_NULL)
        args = NULL;
    if (args && json_type(args) != JSON_OBJECT)
        return err_fail(
            err, TW_INVALID, "the message's \"args\" is not an object");
    outcome = args_from_json(ret->job, args, arena, &ret->args, err);
    if (outcome == TW_OK)
        ret->args_json = args_json(&ret->args, arena);
    return outcome;
}

static enum tw_err read_accept_deletes(
    const struct json *message, struct request *ret, struct err *err)
{
    const struct json *value = json_get(message, "accept_deletes");

    if (value == NULL || json_type(value) == JSON_NULL)
        return TW_OK;
    if (json_type(value) != JSON_BOOLEAN)
        return err_fail(err, TW_INVALID,
            "the message's \"accept_deletes\" is neither true nor false");
    ret->accept_deletes = json_boolean(value);
    return TW_OK;
}

/* Read id and arguments of a message for an unknown job. The job may have been
 * removed from the configuration, and the ledger may have the message's run. */
static void read_run_of_unknown(
    const struct json *message, struct arena *arena, struct request *ret)
{
    const struct json *args = json_get(message, "args");
    struct err ignored;

    if (ret->unknown_job.len == 0)
        return;
    if (read_id(message, arena, ret, &ignored) != TW_OK)
        ret->id = (struct slice){0};
    if (args)
        ret->args_json = arena_copy(arena, json_raw(args));
}

static enum tw_err read_members(const struct json *message,
    const struct jobs *jobs, struct arena *arena, struct request *ret,
    struct err *err)
{
    enum tw_err outcome = read_job(message, jobs, arena, ret, err);

    if (outcome == TW_OK)
        outcome = read_id(message, arena, ret, err);
    else
        read_run_of_unknown(message, arena, ret);
    if (outcome == TW_OK)
        outcome = read_at(message, arena, ret, err);
    if (outcome == TW_OK)
        outcome = read_traceparent(message, arena, ret, err);
    if (outcome == TW_OK)
        outcome = read_accept_deletes(message, ret, err);
    if (outcome == TW_OK)
        outcome = read_args(message, arena, ret, err);
    return outcome;
}

static enum tw_err read_json(const struct jobs *jobs, struct slice body,
    struct arena *arena, struct request *ret, struct err *err)
{
    struct json *message;
    struct slice text;
    enum tw_err outcome = json_of_body(body, arena, &text, err);

    if (outcome != TW_OK)
        return outcome;
    if (json_parse(text, MESSAGE_MAX_DEPTH, &message, err) != TW_OK) {
        err_prefix(err, "the message cannot be parsed");
        return TW_INVALID;
    }
    outcome = read_members(message, jobs, arena, ret, err);
    json_free(message);
    return outcome;
}

/* ---- bound queues ---- */

/*
 * The body of a message on a bound queue is an argument. But it may have been
 * put as a JSON message, when the queue was bound to another job or to none. If
 * the body can be read as a JSON message, of any job, set wake_up_*. Only the
 * ledger shows which of the two the body is.
 */
static void read_wake_up(const struct jobs *jobs, struct slice body,
    struct arena *arena, struct request *ret)
{
    struct request wake_up = {0};

    if (read_json(jobs, body, arena, &wake_up, NULL) == TW_OK)
        ret->wake_up_job = wake_up.job;
    else if (wake_up.unknown_job.len > 0 && wake_up.args_json.len > 0)
        ret->unknown_job = wake_up.unknown_job;
    else
        return;
    ret->wake_up_id = wake_up.id;
    ret->wake_up_args_json = wake_up.args_json;
}

static enum tw_err read_argument(const struct setup_queue *queue,
    struct slice body, struct arena *arena, struct request *ret,
    struct err *err)
{
    struct buf plain;
    enum tw_err outcome;

    buf_init(&plain, QUEUE_MAX_MESSAGE_BYTES);
    if (!queue->base64) {
        outcome = TW_OK;
    } else if (crypto_unbase64(&plain, body)) {
        body = buf_slice(&plain);
        outcome = TW_OK;
    } else {
        outcome = err_fail(err, TW_INVALID,
            "the message is not base64, which queue '%s' requires",
            queue->name);
    }
    if (outcome == TW_OK)
        outcome = message_args(queue->job, &queue->job->args[0].name, &body, 1,
            arena, &ret->args, err);
    if (outcome == TW_OK)
        ret->args_json = args_json(&ret->args, arena);
    buf_done(&plain);
    return outcome;
}

bool message_read_as_bound(const struct job *job, bool base64,
    struct slice body, struct arena *arena, struct request *ret)
{
    const struct setup_queue queue = {.name = "", .job = job, .base64 = base64};

    *ret = (struct request){.wake_up_job = job};
    if (job_declared_args(job) != 1 ||
        read_argument(&queue, body, arena, ret, NULL) != TW_OK)
        return false;
    ret->wake_up_args_json = ret->args_json;
    return true;
}

enum tw_err message_read(const struct setup_queue *queue,
    const struct jobs *jobs, struct slice body, struct arena *arena,
    struct request *ret, struct err *err)
{
    *ret = (struct request){0};
    if (queue->job == NULL)
        return read_json(jobs, body, arena, ret, err);
    ret->job = queue->job;
    read_wake_up(jobs, body, arena, ret);
    return read_argument(queue, body, arena, ret, err);
}

/* ---- composing ---- */

static void add_member(struct buf *to, const char *name, struct slice text)
{
    if (text.len == 0)
        return;
    buf_add_format(to, ",\"%s\":", name);
    json_add_string(to, text);
}

void message_compose(struct slice job, struct slice args, struct slice id,
    int64_t at_ticks, struct slice traceparent, struct buf *to)
{
    char time[TEXT_TIME_MAX] = "";

    if (at_ticks != 0)
        (void)text_from_ticks(at_ticks, time);
    buf_add_text(to, "{\"job\":");
    json_add_string(to, job);
    buf_add_text(to, ",\"args\":");
    buf_add_slice(to, args);
    add_member(to, "id", id);
    add_member(to, "at", slice_of(time));
    add_member(to, "traceparent", traceparent);
    buf_add_char(to, '}');
}

/* Must the member `name` be added with the value text? True if text is not
 * empty, and the member is absent or null. */
static bool is_new(
    const struct json *message, const char *name, struct slice text)
{
    const struct json *value = json_get(message, name);

    return text.len > 0 && (value == NULL || json_type(value) == JSON_NULL);
}

/* Append all members of message unchanged, then id and at if message lacks
 * them. */
static void retell_members(const struct json *message, struct slice id,
    struct slice at, struct buf *to)
{
    bool new_id = is_new(message, "id", id), new_at = is_new(message, "at", at);
    const char *separator = "{";

    for (size_t i = 0; i < json_count(message); i++) {
        struct slice name = json_name(message, i);

        if ((new_id && slice_is(name, "id")) ||
            (new_at && slice_is(name, "at")))
            continue;
        buf_add_text(to, separator);
        json_add_string(to, name);
        buf_add_char(to, ':');
        buf_add_slice(to, json_raw(json_value(message, i)));
        separator = ",";
    }
    if (new_id)
        add_member(to, "id", id);
    if (new_at)
        add_member(to, "at", at);
    buf_add_char(to, '}');
}

void message_retell(
    struct slice body, struct slice id, int64_t at_ticks, struct buf *to)
{
    char time[TEXT_TIME_MAX] = "";
    struct json *message = NULL;
    struct arena arena;
    struct slice text;

    arena_init(&arena);
    if (at_ticks != 0)
        (void)text_from_ticks(at_ticks, time);
    if (json_of_body(body, &arena, &text, NULL) == TW_OK &&
        json_parse(text, MESSAGE_MAX_DEPTH, &message, NULL) == TW_OK &&
        json_get(message, "job"))
        retell_members(message, id, slice_of(time), to);
    if (to->len == 0 || to->len > QUEUE_MAX_MESSAGE_BYTES) {
        buf_clear(to);
        buf_add_slice(to, body);
    }
    json_free(message);
    arena_done(&arena);
}
