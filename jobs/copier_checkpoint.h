/* SPDX-License-Identifier: MIT */
/* What a run that copies keeps between attempts, and its JSON. Pure. */
#ifndef TW_JOBS_COPIER_CHECKPOINT_H
#define TW_JOBS_COPIER_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/base/slice.h"

/* A String property holds 32 Ki UTF-16 units. */
#define COPIER_CHECKPOINT_MAX_BYTES (30 * 1024)

enum copier_stage {
    COPIER_BEGINS, /* nothing is known yet                        */
    COPIER_PASSES, /* a pass over all sources is under way        */
    COPIER_LOOKS,  /* all were copied once: look, and mend        */
    COPIER_STRIPS, /* all is done but for the copies' provenance  */
};

struct copier_checkpoint {
    enum copier_stage stage;
    int64_t pass; /* rounds that wrote, this one too */

    /*
     * doubt: an earlier attempt did not end in order, or with something that
     * nobody could mend. What is gone may have been taken by it.
     */
    bool doubt;
    bool late;                /* an insert may still land ...            */
    int64_t not_before_ticks; /* ... until then; 0: not yet waited for   */
    bool sweep; /* a move: copies may stand whose source is still there */
    bool anew;  /* ... of which nothing is known that their sources be copied
                   by: those that stand rightly go too */

    int64_t left_over; /* copies that could not go, by the sweeps so far */

    bool in_pass; /* the pass goes on behind this key: */
    struct slice partition_key, row_key;
};

/* copier_checkpoint_write: as JSON. Keys that do not fit are left out: the
 * pass begins anew. Owned. */
char *copier_checkpoint_write(const struct copier_checkpoint *checkpoint);

/* copier_checkpoint_read: the opposite; keys live in arena. Another version,
 * or a text that is not ours: all is as for a run that just begins. */
void copier_checkpoint_read(struct slice text, struct arena *arena,
    struct copier_checkpoint *checkpoint);

#endif
