/* SPDX-License-Identifier: MIT */
/* The tables that copies go to: which they are, and that they are there. */
#ifndef TW_JOBS_COPIER_TABLES_H
#define TW_JOBS_COPIER_TABLES_H

#include "jobs/copier_work.h"
#include "worker/base/err.h"

/* copier_tables_find: fill c->tables from the rules. TW_INVALID: an argument
 * makes a PartitionKey that no entity can have, or one table is named by two
 * stores that are the same. */
TW_MUST_USE enum tw_err copier_tables_find(struct copier *c, struct err *err);

/* copier_tables_ready: each is asked for one entity, and created where it is
 * missing. TW_NOT_FOUND: that is the sources' own, and there are none. */
TW_MUST_USE enum tw_err copier_tables_ready(struct copier *c, struct err *err);

/* copier_tables_empty: were all, then? */
bool copier_tables_empty(const struct copier *c);

/* copier_tables_now: the clock of a service whose writes may land late. */
TW_MUST_USE enum tw_err copier_tables_now(
    struct copier *c, int64_t *ret_ticks, struct err *err);

/* copier_tables_key: the text of a key's template where it needs no source:
 * TW_OK with *ret_alone false where it does. */
TW_MUST_USE enum tw_err copier_tables_key(const struct template *template,
    const struct run_args *args, const char *which, struct arena *arena,
    bool *ret_alone, struct slice *ret, struct err *err);

#endif
