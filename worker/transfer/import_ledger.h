/* SPDX-License-Identifier: MIT */
/*
 * How far an import with --id has come: an entity of the ledger, PartitionKey
 * "-import", whose Checkpoint is
 *
 *   {"line":N,"rejected":M,"digest":D,"kept":K,"left":L,"seen":S}
 *
 * All lines up to N are stored, or in the first M bytes of the file of those
 * that were passed over, D is their digest, and K names that file. L bytes
 * were in it, and S is their digest: who finds others there leaves it alone.
 * It lies in the store that is imported into. There is no lease: of two that
 * import under one id, the one that finds the entity changed ends. Who begins
 * tries a few times: what it meets may be the last word of a process that is
 * dead, which was still on its way.
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

struct import_place {
    uint64_t line;
    int64_t rejected_bytes;
    int64_t digest; /* records_digest() there; 0: nobody knows */
    int64_t kept;   /* a hash of the path of the file that this id has made
                     * for what is passed over; 0: nobody knows */
    int64_t left;   /* bytes that were in it when this was stored */
    int64_t seen;   /* rejects_digest() of them; 0: nobody knows */
};

struct import_counts {
    struct import_place place;
    int64_t read, written, skipped, failed; /* of all lines up to place */
};

struct import_ledger {
    struct session *session;
    struct store *store;
    struct ledger_run run;
    struct import_counts before; /* what it has counted until it was taken up */
    bool stored;                 /* there is an entity, and it is ours */
    bool passed; /* another owner wrote it when this one wanted to */
};

/*
 * import_ledger_open: take the entity of id, or make it. args is what is
 * imported, as JSON. *ret: how far it is already. *ret_done: it
 * succeeded before. TW_CONFLICT: the id is known with other args, or another
 * process took it just now. import_ledger_done() in any case.
 */
TW_MUST_USE enum tw_err import_ledger_open(struct import_ledger *ledger,
    struct session *session, struct store *store, const char *id,
    struct slice args, struct import_place *ret, bool *ret_done,
    struct err *err);

/* import_ledger_place: what a Checkpoint names; all 0: nothing. */
struct import_place import_ledger_place(struct slice checkpoint);

/* import_ledger_save: store how far it is; counts are of this process, to which
 * those of earlier ones are added. TW_CONFLICT: another process has
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
