/* SPDX-License-Identifier: MIT */
/* Reads and checks `steps:` of one version of a schema-upgrade job. */
#ifndef TW_JOBS_UPGRADE_STEP_RULES_H
#define TW_JOBS_UPGRADE_STEP_RULES_H

#include <stdbool.h>

#include "config/problems.h"
#include "config/yaml.h"
#include "jobs/upgrade/rules.h"
#include "worker/base/slice.h"

struct settings_section;
struct job_loader;

/*
 * step_rules_load: read the steps from node into *ret, with their digest.
 * version is the name of the version property; it is empty if that name is
 * invalid. False: problems were added.
 */
bool step_rules_load(const struct yaml_node *node, struct slice version,
    struct job_loader *loader, struct upgrade_version *ret);

/* step_rules_check_name: check that an upgrade may write the property `name`.
 * False: a problem was added at mark. */
bool step_rules_check_name(
    struct slice name, struct mark mark, const struct job_loader *loader);

/* The configuration keys of the steps. */
extern const struct settings_section upgrade_put_section;
extern const struct settings_section upgrade_rename_section;
extern const struct settings_section upgrade_retype_section;
extern const struct settings_section upgrade_remove_section;

#endif
