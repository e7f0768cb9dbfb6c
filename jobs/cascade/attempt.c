/* SPDX-License-Identifier: MIT */
/* What the steps of an attempt share. */
#include "jobs/cascade/attempt.h"

#include <stdarg.h>
#include <stdio.h>

#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

const struct entity *cascade_parent(const struct cascade_attempt *c)
{
    return c->parent.count > 0 ? &c->parent.entities[0] : NULL;
}

struct store *cascade_parent_store(const struct cascade_attempt *c)
{
    return c->stores->stores[c->cascade->store];
}

int64_t cascade_service_ticks(const struct cascade_attempt *c)
{
    return c->state.began_ticks +
           (platform_boot_ms() - c->read_ms) * TICKS_PER_MS;
}

struct walk_plan cascade_walk_plan(const struct cascade_attempt *c, bool whole)
{
    return (struct walk_plan){.cascade = &c->usable,
        .stores = c->stores,
        .run = c->run,
        .partition_key = c->partition_key,
        .row_key = c->row_key,
        .parent = cascade_parent(c),
        .whole = whole};
}

enum run_end cascade_end_of(
    const struct cascade_attempt *c, enum tw_err outcome)
{
    if (outcome == TW_INVALID || outcome == TW_NOT_FOUND ||
        outcome == TW_TOO_LARGE)
        return RUN_FAILED;
    return run_end_of(c->run, outcome);
}

enum tw_err cascade_archive_outcome(
    const struct cascade_attempt *c, enum tw_err outcome)
{
    c->run->archive_full = outcome == TW_FULL;
    return outcome;
}

void cascade_save(
    struct cascade_attempt *c, const struct walk_path *path, bool progress)
{
    char *text = cascade_checkpoint_write(&c->state, path);

    c->run->callbacks->save(c->run, slice_of(text), progress);
    mem_free(text);
}

enum run_end cascade_enter_phase(struct cascade_attempt *c, const char *phase)
{
    char *text = cascade_checkpoint_write(&c->state, NULL);
    enum tw_err outcome =
        c->run->callbacks->phase(c->run, phase, slice_of(text), c->err);

    mem_free(text);
    return run_end_of(c->run, outcome);
}

void cascade_note(struct cascade_attempt *c, const char *format, ...)
{
    char sentence[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    log_run_warn(run_log(c->run), "%s", sentence);
    c->run->callbacks->note(c->run, sentence);
}
