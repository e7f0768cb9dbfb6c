/* SPDX-License-Identifier: MIT */
/* The clock of an embedded store: the arithmetic of clock.h. */
#include "worker/store/embedded/clock.h"

#include <stdio.h>
#include <string.h>

#include "worker/base/platform.h"
#include "worker/base/text.h"

#define SLOWER 8
#define FASTER 4096
#define IDLE_TICKS (3600 * TICKS_PER_S)
#define IDLE_FASTER 8

static bool counts(const struct clock *clock, int64_t boot_ms)
{
    return clock->boot_id[0] &&
           strcmp(clock->boot_id, platform_boot_id()) == 0 &&
           boot_ms >= clock->boot_ms;
}

bool clock_counts(const struct clock *clock)
{
    return counts(clock, platform_boot_ms());
}

/* Returns by how much the clock has been corrected towards the wall clock,
 * passed_ticks after the stored moment. */
static int64_t made_up(int64_t ahead_ticks, int64_t passed_ticks)
{
    int64_t most = passed_ticks / FASTER, least = -passed_ticks / SLOWER;

    if (passed_ticks > IDLE_TICKS)
        most += (passed_ticks - IDLE_TICKS) / IDLE_FASTER;
    if (ahead_ticks > most)
        return most;
    return ahead_ticks < least ? least : ahead_ticks;
}

/* Returns the clock's time if the stored moment is of another boot, or of a
 * boot without an id. It is the later of two times: the wall clock's time; and
 * the file's last time plus the advance of the wall clock since then, of which
 * at most an hour counts. If the advance were not added, the clock could stand
 * still between two containers of one kernel that have different boot ids: this
 * function is called whenever one container reads what the other wrote. */
static int64_t ticks_elsewhere(const struct clock *clock, int64_t wall_ticks)
{
    int64_t since_ticks = wall_ticks - clock->ahead_ticks - clock->ticks;
    int64_t own_ticks = clock->ticks;

    if (since_ticks > IDLE_TICKS)
        since_ticks = IDLE_TICKS;
    if (since_ticks > 0)
        own_ticks += since_ticks + made_up(clock->ahead_ticks, since_ticks);
    return wall_ticks > own_ticks ? wall_ticks : own_ticks;
}

static int64_t ticks_at(
    const struct clock *clock, int64_t boot_ms, int64_t wall_ticks)
{
    int64_t passed_ticks;

    if (!counts(clock, boot_ms))
        return ticks_elsewhere(clock, wall_ticks);
    passed_ticks = (boot_ms - clock->boot_ms) * TICKS_PER_MS;
    return clock->ticks + passed_ticks +
           made_up(clock->ahead_ticks, passed_ticks);
}

int64_t clock_ticks(const struct clock *clock)
{
    return ticks_at(clock, platform_boot_ms(), platform_wall_ticks());
}

void clock_set(struct clock *clock)
{
    int64_t wall_ticks = platform_wall_ticks();
    struct clock now = {.boot_ms = platform_boot_ms()};

    now.ticks = ticks_at(clock, now.boot_ms, wall_ticks);
    now.ahead_ticks = wall_ticks - now.ticks;
    (void)snprintf(now.boot_id, sizeof(now.boot_id), "%s", platform_boot_id());
    *clock = now;
}
