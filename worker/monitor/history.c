/* SPDX-License-Identifier: MIT */
/* Keeps the samples of the last hour. */
#include "worker/monitor/history.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>

#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

struct sample {
    int64_t end_ticks;
    double rate; /* number of entities a second */
    int64_t refusals;
};

struct history {
    struct platform_mutex lock; /* guards all fields below */
    struct sample ring[HISTORY_SAMPLES];
    /* first: index of the oldest sample. count: number of samples. */
    size_t first, count;
    bool begun;
    struct history_totals before; /* totals when the present interval began */
    int64_t before_ms;
};

struct history *history_new(void)
{
    struct history *history = mem_alloc(sizeof(*history));

    platform_mutex_init(&history->lock);
    return history;
}

void history_free(struct history *history)
{
    if (!history)
        return;
    platform_mutex_done(&history->lock);
    mem_free(history);
}

static int64_t grown(int64_t from, int64_t to)
{
    return to > from ? to - from : 0;
}

/* Call with the lock held. Adds a sample, in place of the oldest one if the
 * buffer is full. */
static void put(struct history *history, const struct sample *sample)
{
    size_t at = (history->first + history->count) % HISTORY_SAMPLES;

    history->ring[at] = *sample;
    if (history->count < HISTORY_SAMPLES)
        history->count++;
    else
        history->first = (history->first + 1) % HISTORY_SAMPLES;
}

void history_add(struct history *history, const struct history_totals *totals,
    int64_t boot_ms, int64_t wall_ticks)
{
    int64_t took_ms;

    platform_lock(&history->lock);
    took_ms = boot_ms - history->before_ms;
    if (history->begun && took_ms > 0) {
        const struct history_totals *before = &history->before;
        double entities = (double)grown(before->entities, totals->entities);

        put(history, &(struct sample){
                         .end_ticks = wall_ticks,
                         .rate = entities * 1000 / (double)took_ms,
                         .refusals = grown(before->refusals, totals->refusals),
                     });
    }
    history->begun = true;
    history->before = *totals;
    history->before_ms = boot_ms;
    platform_unlock(&history->lock);
}

void history_add_json(struct history *history, struct buf *to)
{
    buf_add_format(
        to, "{\"EverySeconds\":%d,\"Samples\":[", HISTORY_EVERY_MS / 1000);
    platform_lock(&history->lock);
    for (size_t i = 0; i < history->count; i++) {
        const struct sample *sample =
            &history->ring[(history->first + i) % HISTORY_SAMPLES];

        buf_add_format(to, "%s[%" PRId64 ",%.1f,%" PRId64 "]", i > 0 ? "," : "",
            (sample->end_ticks - TICKS_1970) / TICKS_PER_MS, sample->rate,
            sample->refusals);
    }
    platform_unlock(&history->lock);
    buf_add_text(to, "]}");
}
