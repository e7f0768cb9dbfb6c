/* SPDX-License-Identifier: MIT */
/* The store that kills its process: see killer.h. */
#include "tests/sweep/killer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/virtual_platform.h"
#include "tests/sweep/person.h"
#include "worker/base/platform.h"

static const char *const POINTS[KILL_POINTS] = {
    [KILL_BEFORE_SEND] = "before-send",
    [KILL_AFTER_COMMIT] = "after-commit",
    [KILL_AFTER_ANSWER] = "after-answer",
};

const char *kill_point_name(enum kill_point point)
{
    return POINTS[point];
}

bool kill_point_named(const char *name, enum kill_point *ret)
{
    for (int i = 0; i < KILL_POINTS; i++) {
        if (strcmp(name, POINTS[i]) == 0) {
            *ret = (enum kill_point)i;
            return true;
        }
    }
    return false;
}

void killer_note_end(struct killer *killer)
{
    virtual_mask();
    killer->words->boot_ms = platform_boot_ms();
    killer->words->wall_ticks = platform_wall_ticks();
    virtual_unmask();
}

static void die(struct killer *killer)
{
    killer_note_end(killer);
    (void)kill(getpid(), SIGKILL);
    abort();
}

/* Waits while a request or its response travels. */
static void travel(struct killer *killer)
{
    virtual_sleep((int64_t)virtual_random((uint64_t)killer->way_max_ms));
}

static void die_soon(void *arg)
{
    travel(arg);
    die(arg);
}

/* Sends a request on its way and returns its number. */
static unsigned set_out(struct killer *killer)
{
    unsigned number = ++killer->words->requests;

    if (number == killer->signal_at)
        virtual_start(0, "person", killer->signal, killer->signal_context);
    travel(killer);
    if (number == killer->plan.request &&
        killer->plan.point == KILL_BEFORE_SEND)
        die(killer);
    return number;
}

static void come_back(struct killer *killer, unsigned number)
{
    if (number == killer->plan.request &&
        killer->plan.point == KILL_AFTER_COMMIT)
        die(killer);
    travel(killer);
    if (number == killer->plan.request)
        virtual_start(0, "reaper", die_soon, killer);
}

/*
 * Ends the process if a request that may change a table of the job is sent too
 * late after the run was asked to stop (person.h). The ledger and its other
 * tables may be written at any time.
 */
static void check_may_write(struct killer *killer, const char *table)
{
    struct last_words *words = killer->words;
    int64_t late_ms = virtual_ms() - words->asked_ms - killer->effect_ms;

    if (words->asked_ms == 0 || words->resumed || late_ms <= 0 ||
        strncmp(table, "Tableward", strlen("Tableward")) == 0)
        return;
    (void)snprintf(words->why, sizeof(words->why),
        "%s is written %lld ms after the run was asked to stop", table,
        (long long)(late_ms + killer->effect_ms));
    killer_note_end(killer);
    _exit(1);
}

static enum tw_err meet(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    struct killer *killer = (struct killer *)self;
    struct store_request there = *request;
    struct scan_request scan;
    unsigned number;
    enum tw_err outcome;

    if (request->call == CALL_CREATE_TABLE || request->call == CALL_BATCH)
        check_may_write(killer, request->name);
    if (request->call == CALL_SCAN) { /* as an embedded store: the next page is
                                         not requested ahead */
        scan = *request->scan;
        scan.follows = NULL;
        there.scan = &scan;
    }
    number = set_out(killer);
    outcome = request_send(self->inner, exchange, &there);
    come_back(killer, number);
    return outcome;
}

void killer_init(struct killer *killer, struct store *inner, int64_t way_max_ms,
    struct kill_plan plan, struct last_words *words)
{
    *killer =
        (struct killer){.way_max_ms = way_max_ms, .plan = plan, .words = words};
    interposed_init(&killer->outer, inner->name, inner, meet);
    words->requests = 0;
}
