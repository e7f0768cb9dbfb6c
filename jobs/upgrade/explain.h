/* SPDX-License-Identifier: MIT */
/* What a schema-upgrade job reads and writes, for people. */
#ifndef TW_JOBS_UPGRADE_EXPLAIN_H
#define TW_JOBS_UPGRADE_EXPLAIN_H

#include "jobs/upgrade/rules.h"
#include "worker/base/buf.h"

/* upgrade_explain: in order, a line each. */
void upgrade_explain(const struct upgrade *upgrade, struct buf *to);

#endif
