/* SPDX-License-Identifier: MIT */
/* Prints runs for people: one run in detail, or several as a table. */
#ifndef TW_CLI_STATUS_PRINT_H
#define TW_CLI_STATUS_PRINT_H

#include <stdint.h>

#include "worker/base/buf.h"
#include "worker/cli/runs.h"
#include "worker/run/ledger.h"

/* status_add_run: add one line for each property that has a value. */
void status_add_run(
    const struct ledger_run *run, int64_t now_ticks, struct buf *to);

/* status_add_table: add a heading, and a line for each run. */
void status_add_table(
    const struct runs *runs, int64_t now_ticks, struct buf *to);

#endif
