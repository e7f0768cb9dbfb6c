/* SPDX-License-Identifier: MIT */
/*
 * The ledger entity of an import with --id. It is in the store of the imported
 * table, its PartitionKey is "-import", and its RowKey is the id. Its
 * Checkpoint holds a struct import_position:
 *
 *   {"line":N,"digest":D,"rejected_bytes":B,
 *    "rejects_path":P,"rejects_size":S,"rejects_digest":R}
 *
 * An import has no lease. If two processes have the same id, the write of one
 * of them is refused, and that process ends. At its start, a process repeats a
 * refused write a few times, because the cause may be a late request of a
 * process that has ended.
 */
#ifndef TW_TRANSFER_IMPORT_LEDGER_H
#define TW_TRANSFER_IMPORT_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/run/ledger.h"

struct transfer;

/* The PartitionKey of imports; it cannot be the name of a job. */
#define IMPORT_LEDGER_JOB LEDGER_IMPORTS

/* The position of an import in its files. */
struct import_position {
    uint64_t line;  /* the entities of all lines up to this one are stored,
                       skipped or rejected */
    int64_t digest; /* records_digest() of the lines up to `line`; 0: unknown */
    int64_t rejected_bytes; /* size of the part of the rejects file that holds
                               the rejected lines up to `line` */
    int64_t rejects_path;   /* hash of the rejects file's path; 0: unknown */
    int64_t rejects_size;   /* size of the rejects file when the position was
                               stored */
    int64_t rejects_digest; /* digest of the rejects file (rejects_digest()); 0:
                               unknown */
};

struct import_counts {
    struct import_position position;
    /* numbers of records up to position */
    int64_t read, written, skipped, rejected;
};

struct import_ledger {
    const struct transfer *transfer;
    struct ledger_run is;        /* the ledger entity as last stored */
    struct ledger_run run;       /* the ledger entity to store next */
    struct import_counts before; /* counts of earlier processes with this id */
    bool stored;     /* the ledger entity exists and was last written by this
                        process */
    bool taken_over; /* another process has changed the ledger entity */
};

/*
 * import_ledger_open: take over the entity of id, or insert a new one. args:
 * table and file as JSON. *ret: the stored position. *ret_done: the import with
 * this id has succeeded before; *ret has the number of lines and the digest of
 * the content that it stored. TW_CONFLICT: the id belongs to other args.
 * TW_STOPPED: another process just took over the id. TW_INVALID: the import was
 * cancelled. Call import_ledger_done() in any case.
 */
TW_MUST_USE enum tw_err import_ledger_open(struct import_ledger *ledger,
    const struct transfer *transfer, const char *id, struct slice args,
    struct import_position *ret, bool *ret_done, struct err *err);

/* import_ledger_position: parse a Checkpoint; all members of the result are 0
 * if the Checkpoint is empty or invalid. */
struct import_position import_ledger_position(struct slice checkpoint);

/* import_ledger_save: store the position, and the counts of this process added
 * to those of earlier processes. TW_STOPPED: another process has taken over the
 * id. */
TW_MUST_USE enum tw_err import_ledger_save(struct import_ledger *ledger,
    const struct import_counts *counts, struct err *err);

/* import_ledger_end: store the counts as import_ledger_save() does, and the
 * final state with its reason `why`, which may be empty. LEDGER_WAITING: the
 * import can be continued. */
TW_MUST_USE enum tw_err import_ledger_end(struct import_ledger *ledger,
    const struct import_counts *counts, enum ledger_state state,
    const char *why, struct err *err);

void import_ledger_done(struct import_ledger *ledger);

#endif
