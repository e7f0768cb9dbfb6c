/* SPDX-License-Identifier: MIT */
/* The circuit breaker of one service of a store. */
#include "worker/store/breaker.h"

#include <string.h>

#include "worker/base/text.h"

int64_t breaker_wait_ms(struct breaker *breaker, int64_t now_ms)
{
    int64_t probe_ms = atomic_load(&breaker->probe_ms);

    if (atomic_load(&breaker->failures) < BREAKER_FAILURES)
        return 0;
    if (now_ms < probe_ms)
        return probe_ms - now_ms;
    if (atomic_compare_exchange_strong(
            &breaker->probe_ms, &probe_ms, now_ms + BREAKER_PROBE_MS))
        return 0;
    return BREAKER_PROBE_MS;
}

bool breaker_reached(struct breaker *breaker, int64_t sent_ms)
{
    if (sent_ms != 0)
        atomic_store(&breaker->reached, true);
    return atomic_load(&breaker->reached);
}

void breaker_respond(struct breaker *breaker, int64_t sent_ms, bool refused)
{
    atomic_store(&breaker->refused, refused);
    if (sent_ms >= atomic_load(&breaker->since_ms))
        atomic_store(&breaker->failures, 0);
}

bool breaker_is_away(const struct breaker *breaker)
{
    return atomic_load(&breaker->refused) ||
           atomic_load(&breaker->failures) >= BREAKER_FAILURES;
}

bool breaker_fail(
    struct breaker *breaker, int64_t now_ms, int64_t sent_ms, const char *cause)
{
    struct slice cut = text_cut(slice_of(cause), BREAKER_CAUSE_MAX - 1);
    unsigned more = sent_ms != 0 ? 1 : BREAKER_UNSENT, before;

    spin_lock_acquire(&breaker->cause_lock);
    memcpy(breaker->cause, cut.at, cut.len);
    breaker->cause[cut.len] = '\0';
    spin_lock_release(&breaker->cause_lock);
    before = atomic_fetch_add(&breaker->failures, more);
    if (before == 0)
        atomic_store(&breaker->since_ms, sent_ms != 0 ? sent_ms : now_ms);
    if (before < BREAKER_FAILURES && before + more >= BREAKER_FAILURES)
        atomic_store(&breaker->probe_ms, now_ms + BREAKER_PROBE_MS);
    return before + more >= BREAKER_FAILURES;
}

void breaker_cause(struct breaker *breaker, char ret[BREAKER_CAUSE_MAX])
{
    spin_lock_acquire(&breaker->cause_lock);
    memcpy(ret, breaker->cause, BREAKER_CAUSE_MAX);
    spin_lock_release(&breaker->cause_lock);
}
