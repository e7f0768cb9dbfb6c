/* SPDX-License-Identifier: MIT */
/* Whether tables, queues, ledger and archive are what they may be. */
#ifndef TW_TESTS_SWEEP_JUDGE_H
#define TW_TESTS_SWEEP_JUDGE_H

#include <stdbool.h>

#include "tests/sweep/scenario.h"
#include "worker/base/err.h"

/* judge_remember: read every entity of the stage back, for `was`, and sort the
 * stage as the store does. Ends the process where one is not there. */
void judge_remember(struct stage *stage, struct store *store);

/*
 * judge_cascade: a scenario's judge.
 *
 * At any moment: what is not doomed is as it was, to the ETag; a child is gone
 * before what it hangs from; nothing is there that was not; what is gone is in
 * the archive (where there is one); a message that is gone has a run that has
 * ended.
 * At the end: what is doomed is gone (run succeeded) or all is as it was (run
 * failed); the counts are right; no marker, no message; the poison queue holds
 * what failed and nothing else.
 */
bool judge_cascade(const struct scene *scene, struct err *err);

#endif
