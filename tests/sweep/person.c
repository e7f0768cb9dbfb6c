/* SPDX-License-Identifier: MIT */
/* The operator of a scenario: see person.h. */
#include "tests/sweep/person.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/support/virtual_platform.h"
#include "tests/sweep/judge.h"
#include "worker/run/control.h"

/* How often the operator checks whether the run has stopped. */
#define LOOK_MS 100

/* ---- the ledger ---- */

static struct slice job_of(const struct person *person)
{
    return slice_of(person->scenario->job);
}

/* Reads the run; if it is not in the ledger yet, its state is queued. */
static void read_run(const struct person *person, struct ledger_run *ret)
{
    struct exchange exchange = {0};

    ledger_run_init(ret);
    (void)!ledger_get(
        person->store, &exchange, job_of(person), slice_of(SWEEP_ID), ret);
}

static bool has_stopped(const struct ledger_run *run)
{
    return run->state == LEDGER_PAUSED || ledger_state_ended(run->state);
}

/* ---- asking ---- */

static void __attribute__((noreturn, format(printf, 2, 3)))
complain(struct person *person, const char *format, ...)
{
    struct last_words *words = person->killer->words;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(words->why, sizeof(words->why), format, args);
    va_end(args);
    killer_note_end(person->killer);
    _exit(1);
}

/* Asks the run to pause or cancel. TW_NOT_FOUND: no worker has put the run into
 * the ledger yet. */
static enum tw_err ask_once(struct person *person, struct err *err)
{
    struct ledger_run was;
    bool asked;
    enum tw_err outcome;

    ledger_run_init(&was);
    if (person->scenario->control == SWEEP_CANCEL)
        outcome = control_cancel(person->store, job_of(person),
            slice_of(SWEEP_ID), &was, &asked, err);
    else
        outcome = control_pause(person->store, job_of(person),
            slice_of(SWEEP_ID), &was, &asked, err);
    ledger_run_done(&was);
    return outcome;
}

/* Waits until the run has stopped, and complains if that takes longer than
 * effect_ms. Stops waiting if the run still has the lease of a worker that was
 * killed earlier, because that worker cannot stop the run. The worker of this
 * process is alive during the wait: a kill ends the worker and this thread
 * together. */
static void wait_for_effect(struct person *person)
{
    int64_t until_ms =
        person->killer->words->asked_ms + person->killer->effect_ms;
    bool waits = true;

    while (waits) {
        bool dead, stopped;
        struct ledger_run run;

        virtual_sleep(LOOK_MS);
        read_run(person, &run);
        dead = run.owner.len > 0 && slice_is(run.owner, person->dead_owner);
        stopped = has_stopped(&run);
        ledger_run_done(&run);
        waits = !stopped && !dead;
        if (waits && virtual_ms() > until_ms)
            complain(person,
                "the run has not stopped %lld ms after it was asked",
                (long long)person->killer->effect_ms);
    }
}

static void ask(void *context)
{
    struct person *person = context;
    struct last_words *words = person->killer->words;
    enum tw_err outcome;
    struct err err;

    do {
        words->asked_ms = virtual_ms();
        outcome = ask_once(person, &err);
        if (outcome == TW_NOT_FOUND)
            virtual_sleep(LOOK_MS);
    } while (outcome == TW_NOT_FOUND);
    if (outcome == TW_OK) {
        wait_for_effect(person);
        return;
    }
    words->asked_ms = 0;
    if (outcome != TW_CONFLICT) /* the run has ended already */
        complain(person, "the person: %s", err.text);
}

/* ---- processes ---- */

void person_come(struct person *person, unsigned request)
{
    struct last_words *words = person->killer->words;
    struct ledger_run run;

    person->killer->effect_ms = person->scenario->effect_ms
                                    ? person->scenario->effect_ms
                                    : PERSON_EFFECT_MS;
    read_run(person, &run);
    /* The worker was killed before the operator's request was stored. */
    if (!words->resumed && !has_stopped(&run) && run.control.len == 0)
        words->asked_ms = 0;
    (void)snprintf(person->dead_owner, sizeof(person->dead_owner), "%.*s",
        SLICE_ARG(run.owner));
    person->resumes = run.state == LEDGER_PAUSED && words->asked_ms != 0;
    if (words->asked_ms == 0 && !ledger_state_ended(run.state)) {
        person->killer->signal_at = request;
        person->killer->signal = ask;
        person->killer->signal_context = person;
    }
    ledger_run_done(&run);
}

void person_resume(struct person *person, const struct definition *definition)
{
    struct control_resumed resumed;
    struct err err;

    if (!person->resumes)
        return;
    person->killer->words->resumed = true;
    if (control_resume(definition, job_of(person), slice_of(SWEEP_ID), &resumed,
            &err) != TW_OK)
        complain(person, "resume: %s", err.text);
}

bool person_leave(struct person *person, bool *ret_over, struct err *err)
{
    struct last_words *words = person->killer->words;
    struct ledger_run run;
    bool asked = words->asked_ms != 0;
    bool good = true;

    read_run(person, &run);
    *ret_over = ledger_state_ended(run.state);
    if (!*ret_over && (run.state != LEDGER_PAUSED || !asked || words->resumed))
        good = judge_wrong(err, "the worker ends, and the run is %s: %.*s",
            ledger_state_name(run.state), SLICE_ARG(run.error));
    words->stopped |=
        run.state == LEDGER_PAUSED || run.state == LEDGER_CANCELLED;
    ledger_run_done(&run);
    return good;
}
