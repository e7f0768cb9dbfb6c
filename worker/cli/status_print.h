/* SPDX-License-Identifier: MIT */
/* Prints runs and queues for people: one run in detail, or several as a table.
 */
#ifndef TW_CLI_STATUS_PRINT_H
#define TW_CLI_STATUS_PRINT_H

#include <stdint.h>

#include "worker/base/buf.h"
#include "worker/run/ledger.h"

struct queues;
struct runs;

/* status_add_run: add one line for each property that has a value. */
void status_add_run(
    const struct ledger_run *run, int64_t now_ticks, struct buf *to);

/* status_add_table: add a heading, and a line for each run. */
void status_add_table(
    const struct runs *runs, int64_t now_ticks, struct buf *to);

/* status_print_queues: print one line for each queue, on standard output; if
 * late_ticks >= 0, only for queues for which queues_is_late() is true. */
void status_print_queues(
    const struct queues *queues, int64_t now_ticks, int64_t late_ticks);

/* status_print_json: print the runs as one array of objects on standard
 * output. */
void status_print_json(const struct ledger_run *list, size_t count);

#endif
