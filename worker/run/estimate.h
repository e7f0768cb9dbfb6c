/* SPDX-License-Identifier: MIT */
/* How far a run is, computed from several properties of the ledger. */
#ifndef TW_RUN_ESTIMATE_H
#define TW_RUN_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/run/ledger.h"

struct estimate {
    int64_t done;       /* entities written and deleted */
    double share;       /* part that is done, 0 to 1; -1: unknown */
    double rate;        /* average entities a second; -1: unknown */
    int64_t left_ticks; /* time to the end at the average speed; -1: unknown */
    bool expired; /* the run is `running`, but its lease has expired: its worker
                     was killed, hangs or cannot reach the ledger, and any
                     worker may take the run over */
};

/* estimate_run: compute the estimate for run at the present time, now_ticks. */
struct estimate estimate_run(const struct ledger_run *run, int64_t now_ticks);

#endif
