/* SPDX-License-Identifier: MIT */
/* The state and backoff of an outage. */
#include "worker/run/outage.h"

#include "worker/base/platform.h"

#define WAIT_MIN_MS 1000
#define WAIT_MAX_MS 10000

static int64_t longer(int64_t wait_ms)
{
    if (wait_ms == 0)
        return WAIT_MIN_MS;
    return wait_ms < WAIT_MAX_MS / 2 ? 2 * wait_ms : WAIT_MAX_MS;
}

bool outage_failed(struct outage *outage, int64_t now_ms, const struct err *why)
{
    bool says;

    if (!outage->lasts)
        *outage = (struct outage){.lasts = true, .since_ms = now_ms};
    says = now_ms >= outage->repeat_ms;
    if (says)
        outage->repeat_ms = now_ms + OUTAGE_REPEAT_MS;
    outage->cause = *why;
    outage->wait_ms = longer(outage->wait_ms);
    outage->until_ms = now_ms + outage->wait_ms;
    return says;
}

int64_t outage_ends(struct outage *outage, int64_t now_ms)
{
    if (!outage->lasts)
        return -1;
    outage->lasts = false;
    return (now_ms - outage->since_ms) / 1000;
}

void outage_note_end(struct outage_past *past, int64_t lasted_s)
{
    if (lasted_s >= 0)
        *past = (struct outage_past){lasted_s, platform_wall_ticks()};
}

const struct outage_past *outage_later(
    const struct outage_past *one, const struct outage_past *other)
{
    return one->ended_ticks >= other->ended_ticks ? one : other;
}
