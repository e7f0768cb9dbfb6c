/* SPDX-License-Identifier: MIT */
/* Which entities a round reads, and which round is the last one. */
#include "jobs/engine/rounds.h"

#include <stddef.h>

#include "jobs/engine/call.h"
#include "jobs/engine/run.h"
#include "worker/base/json.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/store.h"

/* A round that takes less than this, in ms, is followed by the last round. */
#define SHORT_ROUND_MS INT64_C(60000)
/* The time between the beginnings of two rounds of a run with `follow: true` (a
 * following run), if the earlier round found no difference. */
#define FOLLOW_PAUSE_TICKS (60 * TICKS_PER_S)
/* An attempt at a following run begins no further round after this time, in
 * ms, because only the next attempt uses a changed configuration. */
#define FOLLOW_ATTEMPT_MS INT64_C(300000)
/* The longest time between two full rounds of a following run. */
#define FOLLOW_FULL_TICKS (3600 * TICKS_PER_S)
/* Safety margin for comparing a Date with a Timestamp (A3), because the clocks
 * of a service may differ by up to 2 s, and a Date is cut to whole seconds. */
#define CLOCK_MARGIN_TICKS (5 * TICKS_PER_S)

int64_t rounds_margin(int64_t ticks)
{
    return ticks > CLOCK_MARGIN_TICKS ? ticks - CLOCK_MARGIN_TICKS : 0;
}

/* ---- beginning a round ---- */

/* Read the service's clock, which is the Date of the response to a get. The get
 * asks for keys '!', which no entity of the table has. */
static enum tw_err read_clock(struct run *run, struct store *store,
    const char *table, int64_t *ret_ticks, struct err *err)
{
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = call_get(run->pool_client, store, table, slice_of("!"),
        slice_of("!"), &page, ret_ticks, err);
    page_done(&page);
    if (outcome == TW_NOT_FOUND && *ret_ticks != 0)
        return TW_OK;
    return outcome;
}

static bool reads_all(
    const struct rounds *rounds, const struct store *store, int64_t now_ticks)
{
    if (!store->capabilities.ordered) /* Cosmos DB, where a read may be stale */
        return true;
    switch (rounds->stage) {
    case ROUNDS_CATCHING_UP:
        return false;
    case ROUNDS_FOLLOWING:
        return now_ticks - rounds->full_ticks >= FOLLOW_FULL_TICKS;
    case ROUNDS_FIRST:
    case ROUNDS_LAST:
    case ROUNDS_FINISHING:
        break;
    }
    return true;
}

enum tw_err rounds_begin(struct rounds *rounds, struct run *run,
    struct store *store, const char *table, struct err *err)
{
    int64_t now_ticks;
    enum tw_err outcome;

    rounds->attempt_ms = platform_boot_ms();
    if (rounds->first_ms == 0)
        rounds->first_ms = rounds->attempt_ms;
    rounds->store = store;
    if (rounds->under_way)
        return TW_OK;
    outcome = read_clock(run, store, table, &now_ticks, err);
    if (outcome != TW_OK)
        return outcome;
    if (rounds->number == 0)
        rounds->took_ms = -1;
    /* Since the previous round ended, `finish` may have been requested, or
     * `follow` removed. */
    if (rounds->stage == ROUNDS_FOLLOWING &&
        atomic_load(&run->finish) != RUN_NOT_FINISHING)
        rounds->stage = ROUNDS_FINISHING;
    else if (rounds->stage == ROUNDS_FOLLOWING && !rounds->follow)
        rounds->stage = ROUNDS_LAST;
    rounds->number++;
    rounds->under_way = true;
    rounds->full = reads_all(rounds, store, now_ticks);
    rounds->since_ticks = rounds_margin(rounds->began_ticks);
    rounds->began_ticks = now_ticks;
    if (rounds->full)
        rounds->full_ticks = now_ticks;
    rounds->found = 0;
    rounds->spent_ms = 0;
    atomic_fetch_add(&run->rounds, 1); /* a round is counted once, not in each
                                        * of its attempts */
    return TW_OK;
}

/* ---- ending a round ---- */

static int64_t spent_ms(const struct rounds *rounds)
{
    return rounds->spent_ms + platform_boot_ms() - rounds->attempt_ms;
}

bool rounds_counts_behind(const struct rounds *rounds)
{
    return rounds->found > 0 && rounds->stage >= ROUNDS_LAST;
}

/* Call only if the job has `follow: true`, or `finish` was asked for. Returns
 * what comes after a round in the stage ROUNDS_LAST or ROUNDS_FOLLOWING. */
static enum rounds_next follow_on(struct rounds *rounds, struct run *run)
{
    int64_t now_ticks = rounds->began_ticks + spent_ms(rounds) * TICKS_PER_MS;
    bool differs = rounds->found > 0;

    rounds->stage = ROUNDS_FOLLOWING;
    if (!rounds->follow || atomic_load(&run->finish) != RUN_NOT_FINISHING)
        return ROUNDS_AGAIN;
    if (differs && platform_boot_ms() - rounds->first_ms < FOLLOW_ATTEMPT_MS)
        return ROUNDS_AGAIN;
    run->waits_for = RUN_WAITS_FOR_ROUND;
    run_wait(run, rounds->store, now_ticks,
        differs ? now_ticks : rounds->began_ticks + FOLLOW_PAUSE_TICKS);
    return ROUNDS_WAIT;
}

static enum rounds_next next_stage(
    struct rounds *rounds, struct run *run, int64_t took_ms, int64_t behind)
{
    bool is_short = took_ms < SHORT_ROUND_MS;

    switch (rounds->stage) {
    case ROUNDS_FIRST:
        rounds->stage = is_short ? ROUNDS_LAST : ROUNDS_CATCHING_UP;
        return ROUNDS_AGAIN;
    case ROUNDS_CATCHING_UP:
        if (is_short || 2 * took_ms > rounds->took_ms)
            rounds->stage = ROUNDS_LAST;
        return ROUNDS_AGAIN;
    case ROUNDS_LAST:
        if (!rounds->follow && atomic_load(&run->finish) == RUN_NOT_FINISHING)
            return ROUNDS_DONE;
        return follow_on(rounds, run);
    case ROUNDS_FOLLOWING:
        return follow_on(rounds, run);
    case ROUNDS_FINISHING:
        if (behind > 0 && atomic_load(&run->finish) != RUN_FINISHING_NOW)
            return ROUNDS_AGAIN;
        return ROUNDS_DONE;
    }
    return ROUNDS_DONE;
}

enum rounds_next rounds_end(
    struct rounds *rounds, struct run *run, int64_t behind)
{
    int64_t took_ms = spent_ms(rounds);
    enum rounds_next next = next_stage(rounds, run, took_ms, behind);

    atomic_store(&run->behind, behind);
    atomic_store(&run->caught_up_ticks, rounds_margin(rounds->began_ticks));
    rounds->took_ms = took_ms;
    rounds->under_way = false;
    return next;
}

/* ---- the checkpoint ---- */

/*
 * The numbers of struct rounds that the checkpoint has, and their names there.
 * stage, under_way and full are written separately.
 */
static const struct {
    const char *name;
    size_t offset;
} NUMBERS[] = {
    {"number", offsetof(struct rounds, number)},
    {"since", offsetof(struct rounds, since_ticks)},
    {"began", offsetof(struct rounds, began_ticks)},
    {"found", offsetof(struct rounds, found)},
    {"took", offsetof(struct rounds, took_ms)},
    {"all", offsetof(struct rounds, full_ticks)},
    {"spent", offsetof(struct rounds, spent_ms)},
};

#define NUMBER_COUNT (sizeof(NUMBERS) / sizeof(NUMBERS[0]))

void rounds_write(const struct rounds *rounds, struct buf *to)
{
    struct rounds written = *rounds;

    if (written.under_way)
        written.spent_ms = spent_ms(rounds);
    buf_add_format(to, "{\"stage\":%d,\"underWay\":%s,\"full\":%s",
        (int)written.stage, written.under_way ? "true" : "false",
        written.full ? "true" : "false");
    for (size_t i = 0; i < NUMBER_COUNT; i++)
        buf_add_format(to, ",\"%s\":%lld", NUMBERS[i].name,
            (long long)*(const int64_t *)(const void *)((const char *)&written +
                                                        NUMBERS[i].offset));
    buf_add_char(to, '}');
}

static bool read_bool(const struct json *json, const char *name, bool *ret)
{
    const struct json *value = json_get(json, name);

    if (!value || json_type(value) != JSON_BOOLEAN)
        return false;
    *ret = json_boolean(value);
    return true;
}

static bool read_number(const struct json *json, const char *name, int64_t *ret)
{
    const struct json *value = json_get(json, name);

    return value && json_int64(value, ret);
}

bool rounds_read(struct rounds *rounds, const struct json *json)
{
    struct rounds read = *rounds;
    int64_t stage;

    if (!json || json_type(json) != JSON_OBJECT ||
        !read_number(json, "stage", &stage) || stage < ROUNDS_FIRST ||
        stage > ROUNDS_FINISHING ||
        !read_bool(json, "underWay", &read.under_way) ||
        !read_bool(json, "full", &read.full))
        return false;
    read.stage = (enum rounds_stage)stage;
    for (size_t i = 0; i < NUMBER_COUNT; i++)
        if (!read_number(json, NUMBERS[i].name,
                (int64_t *)(void *)((char *)&read + NUMBERS[i].offset)))
            return false;
    *rounds = read;
    return true;
}
