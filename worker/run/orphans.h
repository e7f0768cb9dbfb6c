/* SPDX-License-Identifier: MIT */
/*
 * Orphans: open runs that nobody works on and that have no message. A pass
 * reads the index rows of every job's open runs and each of these runs; those
 * whose LeaseUntil and ResumesAt have been over for two visibility timeouts are
 * to be taken up without a message, unless they are paused. So are those whose
 * owner was a process of this host that has died (lock_file.h), at once, beside
 * any pass: that process had noted them. It all is made in steps of one
 * request, so that the consumer can poll between them.
 */
#ifndef TW_RUN_ORPHANS_H
#define TW_RUN_ORPHANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/run/ledger.h"
#include "worker/run/lock_file.h"
#include "worker/run/setup.h"
#include "worker/run/walk.h"
#include "worker/store/store.h"

struct orphans_noted;

struct orphans {
    struct definition *definition;   /* borrowed */
    const struct deadline *deadline; /* borrowed */
    struct lock_file *lock_file;     /* borrowed; NULL: none */

    struct orphans_noted *noted; /* by processes that have died; the first is
                                    looked at next */
    size_t noted_count;

    struct walk walk; /* the pass */
    struct ledger_run run;
};

/* orphans_init: no pass is under way. All are borrowed. */
void orphans_init(struct orphans *orphans, const struct deadline *deadline,
    struct lock_file *lock_file);
void orphans_done(struct orphans *orphans);

/* orphans_use: the definition of every step from now on; borrowed. */
void orphans_use(struct orphans *orphans, struct definition *definition);

/* orphans_begin: start a pass over the definition's jobs. */
void orphans_begin(struct orphans *orphans);

/* orphans_look: are there processes of this host that have died since the last
 * look? True: runs that they had noted are to be looked at. No request. */
bool orphans_look(struct orphans *orphans);

/*
 * orphans_step: one request at most. WALK_FOUND: orphans->run is to be taken
 * up. WALK_DONE: nothing is left to be looked at. The runs of the dead come
 * first; after an outage they are looked at again.
 */
enum walk_step orphans_step(struct orphans *orphans, struct err *err);

/* orphans_patience_ms: for so long nothing must have happened to one. */
int64_t orphans_patience_ms(int64_t visibility_timeout_s);

/* orphans_is: is run, read when the service's clock was at now_ticks, one? */
bool orphans_is(const struct ledger_run *run, int64_t now_ticks,
    int64_t visibility_timeout_s);

#endif
