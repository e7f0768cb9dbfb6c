/* SPDX-License-Identifier: MIT */
/*
 * The ledger entity of an import with --id: PartitionKey "-import", RowKey the
 * id, in the store that is imported into. Its Checkpoint is
 *
 *   {"line":N,"digest":D,"rejected_bytes":B,
 *    "rejects_path":P,"rejects_size":S,"rejects_digest":R}
 *
 * see struct import_position. An import has no lease: of two processes with
 * one id, the one whose write is refused ends. A process that starts retries
 * a refused write a few times, because the other write may be a late request
 * of a process that has ended.
 */
#ifndef TW_TRANSFER_IMPORT_LEDGER_H
#define TW_TRANSFER_IMPORT_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/run/ledger.h"

struct transfer;

/* The PartitionKey: no job can have this name. */
#define IMPORT_LEDGER_JOB "-import"

/* How far an import is in its files. */
struct import_position {
    uint64_t line;          /* every line up to it is stored or rejected */
    int64_t digest;         /* records_digest() there; 0: unknown */
    int64_t rejected_bytes; /* that the rejected lines up to `line` take in
                               the rejects file */
    int64_t rejects_path;   /* a hash of that file's path; 0: unknown */
    int64_t rejects_size;   /* its size when this was stored */
    int64_t rejects_digest; /* rejects_digest() of it; 0: unknown */
};

struct import_counts {
    struct import_position position;
    int64_t read, written, skipped, rejected; /* of all lines up to position */
};

struct import_ledger {
    const struct transfer *transfer;
    struct ledger_run is;        /* as last stored */
    struct ledger_run run;       /* what is to be stored next */
    struct import_counts before; /* counted by earlier processes */
    bool stored;     /* the entity exists and this process owns it */
    bool taken_over; /* another process wrote the entity instead */
};

/*
 * import_ledger_open: take the entity of id, or insert it. args is what is
 * imported, as JSON. *ret: how far it is already. *ret_done: it succeeded
 * before. TW_CONFLICT: the id belongs to other args. TW_STOPPED: another
 * process took it just now. TW_INVALID: it was cancelled.
 * import_ledger_done() in any case.
 */
TW_MUST_USE enum tw_err import_ledger_open(struct import_ledger *ledger,
    const struct transfer *transfer, const char *id, struct slice args,
    struct import_position *ret, bool *ret_done, struct err *err);

/* import_ledger_position: what a Checkpoint says; all 0: nothing. */
struct import_position import_ledger_position(struct slice checkpoint);

/* import_ledger_save: store how far it is; counts are of this process, to which
 * those of earlier ones are added. TW_STOPPED: another process has taken the
 * id over. */
TW_MUST_USE enum tw_err import_ledger_save(struct import_ledger *ledger,
    const struct import_counts *counts, struct err *err);

/* import_ledger_end: the same, with the state in which it ends; why may be
 * empty. LEDGER_WAITING: it can be continued. */
TW_MUST_USE enum tw_err import_ledger_end(struct import_ledger *ledger,
    const struct import_counts *counts, enum ledger_state state,
    const char *why, struct err *err);

void import_ledger_done(struct import_ledger *ledger);

#endif
