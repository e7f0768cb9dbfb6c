/* SPDX-License-Identifier: MIT */
/* Describes what a schema-upgrade job reads and writes. */
#ifndef TW_JOBS_UPGRADE_EXPLAIN_H
#define TW_JOBS_UPGRADE_EXPLAIN_H

#include "jobs/upgrade/rules.h"
#include "worker/base/buf.h"

/* upgrade_explain: append the description, one line per step. */
void upgrade_explain(const struct upgrade *upgrade, struct buf *to);

#endif
