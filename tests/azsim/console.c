/* SPDX-License-Identifier: MIT */
/* Reads settings from JSON; a table has their names. */
#include "tests/azsim/console.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "tests/azsim/azsim.h"
#include "tests/azsim/exchange.h"
#include "tests/azsim/journal.h"
#include "tests/azsim/knobs.h"
#include "tests/support/bent_platform.h"
#include "worker/base/json.h"

static const struct {
    const char *name;
    size_t offset;
} KNOBS[] = {
#define KNOB(name)                                                             \
    {                                                                          \
#name, offsetof(struct knobs, name)                                    \
    }
    KNOB(seed),
    KNOB(latency_ms),
    KNOB(latency_more_ms),
    KNOB(slow_worker),
    KNOB(skew_s),
    KNOB(answer_ms),
    KNOB(account_limit),
    KNOB(partition_limit),
    KNOB(busy_share),
    KNOB(hint_share),
    KNOB(empty_share),
    KNOB(short_share),
    KNOB(keys),
    KNOB(being_deleted_ms),
};
#define KNOB_COUNT (sizeof(KNOBS) / sizeof(KNOBS[0]))

static int64_t *knob_at(struct knobs *knobs, size_t index)
{
    return (int64_t *)(void *)((char *)knobs + KNOBS[index].offset);
}

/* Sets one setting. False: there is no setting with this name, or it does not
 * take this value. */
static bool turn_knob(
    struct knobs *knobs, struct slice name, const struct json *value)
{
    for (size_t i = 0; i < KNOB_COUNT; i++)
        if (slice_is(name, KNOBS[i].name))
            return json_int64(value, knob_at(knobs, i));
    return false;
}

static bool turn_clock(
    struct bend *bend, struct slice name, const struct json *value)
{
    int64_t ms;

    if (!json_int64(value, &ms))
        return false;
    if (slice_is(name, "wall_ahead_ms"))
        __atomic_store_n(&bend->wall_ahead_ms, ms, __ATOMIC_RELEASE);
    else if (slice_is(name, "boot_ahead_ms"))
        __atomic_store_n(&bend->boot_ahead_ms, ms, __ATOMIC_RELEASE);
    else
        return false;
    return true;
}

static bool turn_holds(
    struct azsim *azsim, struct slice name, const struct json *value)
{
    static const struct {
        const char *name;
        enum gate gate;
    } GATES[] = {
        {"release", GATE_OPEN}, {"hold", GATE_HELD}, {"stick", GATE_STUCK}};
    int64_t worker;
    size_t at = 0;

    while (at < 3 && !slice_is(name, GATES[at].name))
        at++;
    if (at == 3 || json_type(value) != JSON_ARRAY)
        return false;
    for (size_t i = 0; i < json_count(value); i++) {
        if (!json_int64(json_at(value, i), &worker) || worker < 0 ||
            worker >= KNOBS_MAX_WORKERS)
            return false;
        gates_set(azsim->gates, (unsigned)worker, GATES[at].gate);
    }
    return true;
}

static bool turn(struct azsim *azsim, struct bend *bend, struct knobs *knobs,
    struct slice name, const struct json *value)
{
    if (slice_is(name, "clear")) {
        journal_clear(azsim->journal);
        return true;
    }
    return turn_knob(knobs, name, value) || turn_clock(bend, name, value) ||
           turn_holds(azsim, name, value);
}

static void write_knobs(struct knobs *knobs, struct buf *to)
{
    for (size_t i = 0; i < KNOB_COUNT; i++)
        buf_add_format(to, "%c\"%s\":%" PRId64, i == 0 ? '{' : ',',
            KNOBS[i].name, *knob_at(knobs, i));
    buf_add_text(to, "}\n");
}

static void control(
    struct azsim *azsim, struct bend *bend, struct http_exchange *exchange)
{
    struct knobs knobs = gates_knobs(azsim->gates);
    struct json *json;
    struct err err;

    exchange->status = 400;
    if (json_parse(buf_slice(&exchange->body), 3, &json, &err) != TW_OK) {
        buf_add_format(&exchange->answer, "%s\n", err.text);
        return;
    }
    exchange->status = json_type(json) == JSON_OBJECT ? 200 : 400;
    for (size_t i = 0; exchange->status == 200 && i < json_count(json); i++)
        if (!turn(
                azsim, bend, &knobs, json_name(json, i), json_value(json, i))) {
            exchange->status = 400;
            buf_add_format(&exchange->answer, "%.*s: no such setting\n",
                SLICE_ARG(json_name(json, i)));
        }
    if (exchange->status == 200) {
        gates_turn(azsim->gates, &knobs);
        write_knobs(&knobs, &exchange->answer);
    }
    json_free(json);
}

static void tell_waiting(struct azsim *azsim, struct http_exchange *exchange)
{
    int64_t worker;

    exchange->status = 400;
    if (!exchange_integer(
            exchange, "worker", 0, 0, KNOBS_MAX_WORKERS - 1, &worker))
        return;
    exchange->status = 200;
    buf_add_format(&exchange->answer, "%u\n",
        gates_waiting(azsim->gates, (unsigned)worker));
}

static void tell_log(struct azsim *azsim, struct http_exchange *exchange)
{
    int64_t since;

    exchange->status = 400;
    if (!exchange_integer(exchange, "since", 0, 0, INT64_MAX, &since))
        return;
    exchange->status = 200;
    journal_write(azsim->journal, since, &exchange->answer);
}

bool console_answer(
    struct azsim *azsim, struct bend *bend, struct http_exchange *exchange)
{
    if (slice_is(exchange->path, "/azsim/control"))
        control(azsim, bend, exchange);
    else if (slice_is(exchange->path, "/azsim/log"))
        tell_log(azsim, exchange);
    else if (slice_is(exchange->path, "/azsim/waiting"))
        tell_waiting(azsim, exchange);
    else
        return false;
    return true;
}
