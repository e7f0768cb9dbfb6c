/* SPDX-License-Identifier: MIT */
/* Whether a store responds to the requests of runs. */
#include "worker/store/silence.h"

/* Each response lowers the slowest response time by a sixteenth. */
#define FORGETS 16

static bool has_responded_lately(const struct silence *silence, int64_t now_ms)
{
    return silence->responded_ms != 0 &&
           now_ms - silence->responded_ms < SILENCE_LATELY_MS;
}

int64_t silence_wait_ms(const struct silence *silence, int64_t now_ms)
{
    int64_t until_ms = silence->quiet_ms + SILENCE_FIRST_MS;

    if (silence->in_flight == 0 || now_ms >= until_ms ||
        now_ms < silence->refused_until_ms ||
        has_responded_lately(silence, now_ms))
        return 0;
    return until_ms - now_ms;
}

bool silence_is_silent(const struct silence *silence, int64_t now_ms)
{
    int64_t quiet_ms = now_ms - silence->quiet_ms;

    return silence->in_flight > 0 && !has_responded_lately(silence, now_ms) &&
           quiet_ms >= SILENCE_FIRST_MS &&
           quiet_ms >= SILENCE_SLOWER * silence->slowest_ms;
}

bool silence_is_useless(const struct silence *silence, int64_t now_ms)
{
    return silence->useless >= SILENCE_USELESS &&
           now_ms - silence->useless_ms >= SILENCE_LATELY_MS;
}

void silence_note_served(struct silence *silence, int64_t now_ms, bool served)
{
    if (served)
        silence->useless = 0;
    else if (silence->useless++ == 0)
        silence->useless_ms = now_ms;
    silence->useless_until_ms = now_ms + SILENCE_PAUSE_MIN_MS;
}

bool silence_refuses(
    const struct silence *silence, int64_t now_ms, int64_t *ret)
{
    bool silent = silence_is_silent(silence, now_ms);
    bool useless = silence_is_useless(silence, now_ms);

    *ret = silent    ? now_ms - silence->quiet_ms
           : useless ? now_ms - silence->useless_ms
                     : silence->lasted_ms;
    return silent || now_ms < silence->refused_until_ms ||
           (useless && now_ms < silence->useless_until_ms);
}

void silence_begin(struct silence *silence, int64_t now_ms)
{
    if (silence->in_flight++ == 0)
        silence->quiet_ms = now_ms;
}

static void note_response(
    struct silence *silence, int64_t now_ms, int64_t took_ms)
{
    silence_move(silence, now_ms);
    silence->refused_until_ms = 0;
    silence->slowest_ms -= silence->slowest_ms / FORGETS;
    if (took_ms > silence->slowest_ms)
        silence->slowest_ms = took_ms;
}

/* Call when a request has ended without a response. If the store is quiet, its
 * slowness no longer explains this, so the slowest response time is forgotten.
 */
static void note_no_response(
    struct silence *silence, int64_t now_ms, int64_t took_ms)
{
    int64_t pause_ms =
        took_ms > SILENCE_PAUSE_MIN_MS ? took_ms : SILENCE_PAUSE_MIN_MS;

    if (now_ms - silence->quiet_ms < SILENCE_FIRST_MS ||
        has_responded_lately(silence, now_ms))
        return;
    silence->slowest_ms = 0;
    if (silence->in_flight > 0)
        return;
    silence->lasted_ms = took_ms;
    silence->refused_until_ms = now_ms + pause_ms;
}

void silence_end(struct silence *silence, int64_t now_ms, int64_t left_ms,
    enum silence_end end)
{
    int64_t took_ms = now_ms - left_ms;

    if (took_ms > SILENCE_TOOK_MAX_MS)
        took_ms = SILENCE_TOOK_MAX_MS;
    silence->in_flight--;
    if (end == SILENCE_RESPONSE)
        note_response(silence, now_ms, took_ms);
    else if (end == SILENCE_NO_RESPONSE)
        note_no_response(silence, now_ms, took_ms);
}

void silence_move(struct silence *silence, int64_t now_ms)
{
    silence->responded_ms = silence->quiet_ms = now_ms;
}
