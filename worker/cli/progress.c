/* SPDX-License-Identifier: MIT */
/* The progress line. Its thread sleeps on a condition that progress_end()
 * wakes. */
#include "worker/cli/progress.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "worker/base/buf.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/cli/say.h"

#define DRAW_MS 500
#define LOG_MS 10000

/* The share of the previous rate in the rate that is shown; the rest is the
 * share of the latest rate. */
#define RATE_KEEPS 0.7

#define LINE_MAX_BYTES 200

struct progress {
    const char *object, *verb;
    void (*look)(void *context, struct progress_state *ret);
    void *context;
    bool terminal;
    int64_t start_ms;
    int64_t last_ms, last_done; /* time and count at the last update */
    double rate; /* rate in entities a second; < 0: not known yet */

    struct platform_thread thread;
    struct platform_mutex mutex;
    struct platform_cond cond;
    bool ended; /* progress_end() was called; under mutex */
};

static void update_rate(struct progress *progress, int64_t done, int64_t now_ms)
{
    double seconds = (double)(now_ms - progress->last_ms) / 1000;
    double rate =
        seconds > 0 ? (double)(done - progress->last_done) / seconds : 0;

    progress->rate = progress->rate < 0 ? rate
                                        : RATE_KEEPS * progress->rate +
                                              (1 - RATE_KEEPS) * rate;
    progress->last_done = done;
    progress->last_ms = now_ms;
}

static void add_elapsed(struct buf *to, int64_t elapsed_s)
{
    if (elapsed_s >= 3600)
        buf_add_format(to, "%" PRId64 ":%02d:%02d", elapsed_s / 3600,
            (int)(elapsed_s / 60 % 60), (int)(elapsed_s % 60));
    else
        buf_add_format(
            to, "%" PRId64 ":%02d", elapsed_s / 60, (int)(elapsed_s % 60));
}

static void compose(struct progress *progress, struct buf *line)
{
    struct progress_state state = {.share = -1};
    int64_t now_ms = platform_boot_ms();

    progress->look(progress->context, &state);
    update_rate(progress, state.done, now_ms);
    buf_clear(line);
    print_count(line, state.done);
    buf_add_format(line, " %s, ", progress->verb);
    print_count(line, (int64_t)progress->rate);
    buf_add_text(line, "/s, ");
    add_elapsed(line, (now_ms - progress->start_ms) / 1000);
    if (state.share >= 0)
        buf_add_format(line, ", %d.%d %%", state.share / 10, state.share % 10);
    if (state.note[0])
        buf_add_format(line, ", %s", state.note);
}

/* Print the progress. On a terminal the cursor is left at the start of the
 * line, so that a log line overwrites the progress. */
static void show(struct progress *progress, struct buf *line)
{
    compose(progress, line);
    if (progress->terminal)
        fprintf(stderr, "\r%s\033[K\r", buf_text(line));
    else
        log_info(progress->object, "%s", buf_text(line));
}

static void draw(void *arg)
{
    struct progress *progress = arg;
    int64_t step_ms = progress->terminal ? DRAW_MS : LOG_MS;
    int64_t next_ms = progress->start_ms + step_ms;
    struct buf line;

    buf_init(&line, LINE_MAX_BYTES);
    platform_lock(&progress->mutex);
    while (!progress->ended) {
        if (platform_wait(&progress->cond, &progress->mutex, next_ms))
            continue;
        platform_unlock(&progress->mutex);
        show(progress, &line);
        next_ms += step_ms;
        platform_lock(&progress->mutex);
    }
    platform_unlock(&progress->mutex);
    buf_done(&line);
}

struct progress *progress_start(const char *object, const char *verb,
    void (*look)(void *context, struct progress_state *ret), void *context)
{
    struct progress *progress = mem_alloc(sizeof(*progress));

    progress->object = object;
    progress->verb = verb;
    progress->look = look;
    progress->context = context;
    progress->terminal = isatty(STDERR_FILENO) == 1;
    progress->start_ms = progress->last_ms = platform_boot_ms();
    progress->rate = -1;
    platform_mutex_init(&progress->mutex);
    platform_cond_init(&progress->cond);
    platform_start(&progress->thread, "progress", draw, progress);
    return progress;
}

void progress_end(struct progress *progress)
{
    if (!progress)
        return;
    platform_lock(&progress->mutex);
    progress->ended = true;
    platform_wake_all(&progress->cond);
    platform_unlock(&progress->mutex);
    platform_join(&progress->thread);
    if (progress->terminal)
        fputs("\r\033[K", stderr);
    platform_cond_done(&progress->cond);
    platform_mutex_done(&progress->mutex);
    mem_free(progress);
}
