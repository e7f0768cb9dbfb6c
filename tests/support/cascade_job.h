/* SPDX-License-Identifier: MIT */
/* Jobs of the kind cascade-delete, in YAML: the parents are channels, with the
 * channel's name as PartitionKey and an empty RowKey. */
#ifndef TW_TESTS_SUPPORT_CASCADE_JOB_H
#define TW_TESTS_SUPPORT_CASCADE_JOB_H

#include "tests/support/hosted.h"

/* CASCADE_JOB: options are `settle` and what else stands beside it; rules are
 * RULE(), RULE_WITH() or RULES(). */
#define CASCADE_JOB(name, options, rules)                                      \
    name ":\n"                                                                 \
         "    kind: cascade-delete\n"                                          \
         "    args: [channel]\n"                                               \
         "    parent: {table: Channels, partition_key: \"{channel}\", "        \
         "row_key: \"\", tombstone: {Deleted: true}, created: CreatedOn}\n"    \
         "    " options "\n"                                                   \
         "    children: [" rules "]\n"

/* RULE: what is in table, `by` these keys of the rule. RULE_WITH: the same, and
 * rules for what is under it. */
#define RULE(table, by) "{table: " table ", " by "}"
#define RULE_WITH(table, by, rules)                                            \
    "{table: " table ", " by ", children: [" rules "]}"

/* RULES: two rules, or one and several. */
#define RULES(one, other) one ", " other

#define BY_CHANNEL "partition_key: \"{channel}\""
#define BY_ROW_KEY "partition_key: \"{RowKey}\"" /* of what is above */
#define IN_PARTITION "partition_key: \"{PartitionKey}\""
#define BY_PREFIX IN_PARTITION ", row_key_prefix: \"{RowKey}_\""
#define WITH_CHANNEL "filter: \"Channel eq '{channel}'\""

/* OWNED_BY: the property that names the run which has marked a parent. MARK:
 * with it, the tombstone of that run. */
#define OWNED_BY(run) "\"TablewardRun\":\"" run "\""
#define MARK(run) "\"Deleted\":true," OWNED_BY(run)

/* cascade_put_created: the channel News, created so many seconds after the
 * request; more: properties beside it, or NULL. */
void cascade_put_created(struct hosted *h, int64_t after_s, const char *more);

#endif
