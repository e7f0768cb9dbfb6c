/* SPDX-License-Identifier: MIT */
/* Jobs of the kind cascade-delete, in YAML: the parents are channels, with the
 * channel's name as PartitionKey and an empty RowKey. */
#ifndef TW_TESTS_SUPPORT_CASCADE_JOB_H
#define TW_TESTS_SUPPORT_CASCADE_JOB_H

#include "tests/support/hosted.h"

/* CASCADE_JOB: a whole job. options: `settle` and any other options of the job;
 * rules: made with RULE(), RULE_WITH() or RULES(). */
#define CASCADE_JOB(name, options, rules)                                      \
    name ":\n"                                                                 \
         "    kind: cascade-delete\n"                                          \
         "    args: [channel]\n"                                               \
         "    parent: {table: Channels, partition_key: \"{channel}\", "        \
         "row_key: \"\", tombstone: {Deleted: true}, created: CreatedOn}\n"    \
         "    " options "\n"                                                   \
         "    children: [" rules "]\n"

/* RULE: a rule that finds the entities of table by the keys or the filter in
 * `by`.
 * RULE_WITH: the same, with child rules. */
#define RULE(table, by) "{table: " table ", " by "}"
#define RULE_WITH(table, by, rules)                                            \
    "{table: " table ", " by ", children: [" rules "]}"

/* RULES: joins two rules, or a rule and a list of rules. */
#define RULES(one, other) one ", " other

#define BY_CHANNEL "partition_key: \"{channel}\""
#define BY_ROW_KEY                                                             \
    "partition_key: \"{RowKey}\"" /* RowKey of the entity above */
#define IN_PARTITION "partition_key: \"{PartitionKey}\""
#define BY_PREFIX IN_PARTITION ", row_key_prefix: \"{RowKey}_\""
#define WITH_CHANNEL "filter: \"Channel eq '{channel}'\""

/* OWNED_BY: the property that names the run which has marked a parent.
 * MARK: the tombstone of that run, with this property. */
#define OWNED_BY(run) "\"TablewardRun\":\"" run "\""
#define MARK(run) "\"Deleted\":true," OWNED_BY(run)

/* cascade_put_created: inserts the channel News, whose CreatedOn is after_s
 * seconds later than the time at which the run was requested; more: further
 * properties, or NULL. */
void cascade_put_created(struct hosted *h, int64_t after_s, const char *more);

#endif
