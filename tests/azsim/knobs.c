/* SPDX-License-Identifier: MIT */
/* The settings, with one lock, and the threads that wait at the gates. */
#include "tests/azsim/knobs.h"

#include <time.h>

#include "worker/base/hash.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"

/* The service refuses a request whose date differs from the service's clock by
 * more than this. */
#define SKEW_S 900
/* Of 1000 refusals, the number with a Retry-After. */
#define HINT_SHARE 500

struct gates {
    struct platform_mutex lock; /* guards all members below */
    struct platform_cond opened;
    struct knobs knobs;
    uint64_t state; /* of the random number generator */
    enum gate gates[KNOBS_MAX_WORKERS];
    unsigned waiting[KNOBS_MAX_WORKERS];
};

struct gates *gates_new(void)
{
    struct gates *gates = mem_alloc(sizeof(*gates));

    platform_mutex_init(&gates->lock);
    platform_cond_init(&gates->opened);
    gates->knobs = (struct knobs){.slow_worker = -1,
        .skew_s = SKEW_S,
        .hint_share = HINT_SHARE,
        .keys = 3};
    return gates;
}

void gates_free(struct gates *gates)
{
    platform_cond_done(&gates->opened);
    platform_mutex_done(&gates->lock);
    mem_free(gates);
}

struct knobs gates_knobs(struct gates *gates)
{
    struct knobs knobs;

    platform_lock(&gates->lock);
    knobs = gates->knobs;
    platform_unlock(&gates->lock);
    return knobs;
}

void gates_turn(struct gates *gates, const struct knobs *knobs)
{
    platform_lock(&gates->lock);
    if (knobs->seed != gates->knobs.seed)
        gates->state = (uint64_t)knobs->seed;
    gates->knobs = *knobs;
    platform_unlock(&gates->lock);
}

/* ---- random decisions ---- */

/* Returns the next number of splitmix64. Called with the lock held. */
static uint64_t draw(struct gates *gates)
{
    return hash_mix(gates->state += 0x9e3779b97f4a7c15u);
}

int64_t gates_below(struct gates *gates, int64_t limit)
{
    uint64_t drawn;

    platform_lock(&gates->lock);
    drawn = draw(gates);
    platform_unlock(&gates->lock);
    return (int64_t)(drawn % (uint64_t)limit);
}

bool gates_draw(struct gates *gates, int64_t share)
{
    return share > 0 && gates_below(gates, 1000) < share;
}

/* ---- waiting at the gates ---- */

static void nap_ms(int64_t ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

    if (ms > 0)
        (void)nanosleep(&pause, NULL);
}

void gates_set(struct gates *gates, unsigned worker, enum gate gate)
{
    platform_lock(&gates->lock);
    gates->gates[worker] = gate;
    platform_wake_all(&gates->opened);
    platform_unlock(&gates->lock);
}

unsigned gates_waiting(struct gates *gates, unsigned worker)
{
    unsigned waiting;

    platform_lock(&gates->lock);
    waiting = gates->waiting[worker];
    platform_unlock(&gates->lock);
    return waiting;
}

bool gates_pass(struct gates *gates, unsigned worker)
{
    struct knobs knobs = gates_knobs(gates);
    int64_t more = knobs.latency_more_ms > 0
                       ? gates_below(gates, knobs.latency_more_ms + 1)
                       : 0;
    bool stuck = false;

    nap_ms(knobs.latency_ms + more);
    platform_lock(&gates->lock);
    gates->waiting[worker]++;
    while (gates->gates[worker] != GATE_OPEN) {
        stuck |= gates->gates[worker] == GATE_STUCK;
        (void)platform_wait(&gates->opened, &gates->lock, PLATFORM_NEVER);
    }
    gates->waiting[worker]--;
    platform_unlock(&gates->lock);
    return stuck;
}

void gates_after(struct gates *gates, unsigned worker)
{
    struct knobs knobs = gates_knobs(gates);

    if (knobs.slow_worker < 0 || knobs.slow_worker == (int64_t)worker)
        nap_ms(knobs.answer_ms);
}
