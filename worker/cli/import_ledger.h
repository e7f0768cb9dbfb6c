/* SPDX-License-Identifier: MIT */
/*
 * How far an import with --id has come: an entity of the ledger, PartitionKey
 * "-import", whose Checkpoint is {"line": N}: all lines up to N are stored. It
 * lies in the store that is imported into. There is no lease: of two that
 * import under one id, the one that finds the entity changed ends.
 */
#ifndef TW_CLI_IMPORT_LEDGER_H
#define TW_CLI_IMPORT_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/run/ledger.h"

struct session;
struct store;

struct import_ledger {
    struct session *session;
    struct store *store;
    struct ledger_run run;
    bool stored; /* there is an entity, and it is ours */
};

/*
 * import_ledger_open: take the entity of id, or make it. args is what is
 * imported, as JSON. *ret_line: lines that are stored already. *ret_done: it
 * succeeded before. TW_CONFLICT: the id is known with other args, or another
 * process took it just now. import_ledger_done() in any case.
 */
TW_MUST_USE enum tw_err import_ledger_open(struct import_ledger *ledger,
    struct session *session, struct store *store, const char *id,
    struct slice args, uint64_t *ret_line, bool *ret_done, struct err *err);

/* import_ledger_line: the line that a Checkpoint names; 0: it names none. */
uint64_t import_ledger_line(struct slice checkpoint);

struct import_counts {
    uint64_t line; /* all up to it are stored */
    int64_t read, written, skipped, failed;
};

/* import_ledger_save: store how far it is. TW_CONFLICT: another process has
 * taken the id over. */
TW_MUST_USE enum tw_err import_ledger_save(struct import_ledger *ledger,
    const struct import_counts *counts, struct err *err);

/* import_ledger_end: the same, with the state in which it ends; why may be
 * empty. LEDGER_WAITING: it can be taken up again. */
TW_MUST_USE enum tw_err import_ledger_end(struct import_ledger *ledger,
    const struct import_counts *counts, enum ledger_state state,
    const char *why, struct err *err);

void import_ledger_done(struct import_ledger *ledger);

#endif
