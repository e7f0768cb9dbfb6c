/* SPDX-License-Identifier: MIT */
/*
 * The configuration of a schema-upgrade job: which entities of a table it
 * selects, and its document of versions. The document has, for each version,
 * the steps that bring an entity from the previous version to this version.
 */
#ifndef TW_JOBS_UPGRADE_RULES_H
#define TW_JOBS_UPGRADE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/problems.h"
#include "config/yaml.h"
#include "jobs/engine/digest.h"
#include "jobs/engine/selector.h"
#include "jobs/engine/template.h"
#include "jobs/table_ref.h"
#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

struct settings_section;
struct job;
struct job_loader;
struct jobs;

#define UPGRADE_MAX_VERSIONS 256
#define UPGRADE_MAX_STEPS 64 /* maximum number of steps of one version */

/* The name of the run's argument that sets the phase. */
#define UPGRADE_PHASE_ARG "phase"

/*
 * Which part of the newest version's steps a run carries out.
 *
 *   step                  all              expand           contract
 *   add, set              carried out      carried out      -
 *   rename                moved            copied           old one removed
 *   retype                in place         in place         in place
 *   retype, to_property   moved            copied           old one removed
 *   remove                removed          -                removed
 *
 * All steps of older versions are carried out in every phase.
 */
enum upgrade_phase {
    UPGRADE_ALL,
    UPGRADE_EXPAND,
    UPGRADE_CONTRACT,
};

enum upgrade_step_type {
    UPGRADE_ADD, /* sets a property that is absent */
    UPGRADE_SET, /* sets a property, also one that exists */
    UPGRADE_RENAME,
    UPGRADE_RETYPE,
    UPGRADE_REMOVE,
};

/* What happens to an entity whose value cannot be converted. */
enum upgrade_on_error {
    UPGRADE_FAIL, /* the entity is unchanged, and the run fails at its end */
    UPGRADE_SKIP, /* the entity is unchanged and counted as skipped */
    UPGRADE_NULL, /* the property is removed, because a table stores null as
                     absence */
};

/* What happens to an entity whose old and new property were both written since
 * expand. */
enum upgrade_on_difference {
    UPGRADE_DIFFERENCE_FAILS, /* the entity is unchanged and counts as failed */
    UPGRADE_DIFFERENCE_OLD,   /* the old value is converted again */
    UPGRADE_DIFFERENCE_NEW,   /* the new value is kept */
};

struct upgrade_step {
    enum upgrade_step_type type;
    struct mark mark, property_mark, to_mark, value_mark;
    struct slice property;
    enum edm_type edm; /* type that add, set or retype gives the value */
    bool typed;        /* the step names a type, which is in edm */
    const struct template *value; /* value that add or set gives the property */
    const struct property *constant; /* value without {..}, or NULL */
    struct slice to; /* new name that a rename or a retype's to_property gives,
                        beside which expand retains `property`; empty: there is
                        none, and a retype is in place */
    bool lossy;
    enum upgrade_on_error on_error;
};

struct upgrade_version {
    int64_t number;
    struct mark mark;
    struct upgrade_step *steps;
    size_t step_count;
    char digest[2 * DIGEST_BYTES + 1]; /* digest of the steps, without on_error
                                          and lossy (rule U8) */
};

struct upgrade {
    struct table_ref table_ref;
    struct selector selector; /* the job's filter; empty: all entities */
    struct slice version;     /* the name of the version property */
    int64_t absent; /* the version of an entity without a version property */
    struct upgrade_version *versions; /* the versions of the document, oldest
                                         first */
    size_t version_count;             /* number of versions, at least 1 */
    enum upgrade_on_difference on_difference;
    bool follow;
};

/*
 * upgrade_rules_load: see struct kind, load. Adds problems, with their
 * positions: for a step that names PartitionKey, RowKey, Timestamp, the version
 * property, TablewardExpanded or a name that the service forbids; for a value
 * that is invalid for its type; and for all that upgrade_order_check() and
 * upgrade_filter_check() refuse.
 */
struct upgrade *upgrade_rules_load(
    const struct yaml_node *node, struct job_loader *loader);

/*
 * upgrade_rules_link: see struct kind, link. Two jobs for one table must have
 * the same document of versions.
 */
void upgrade_rules_link(const struct job *job, const struct jobs *jobs,
    struct arena *arena, struct problems *problems);

/* upgrade_rules_phase: returns the phase that args set, or UPGRADE_ALL if they
 * set none. */
enum upgrade_phase upgrade_rules_phase(const struct run_args *args);
const char *upgrade_phase_name(enum upgrade_phase phase);

/*
 * upgrade_rules_level: set *ret to the number of versions of the document that
 * an entity at version `number` has reached, 0 to version_count. False: the
 * document does not contain that version.
 */
bool upgrade_rules_level(
    const struct upgrade *upgrade, int64_t number, size_t *ret);

/* upgrade_rules_newest: returns the number of the last version. */
int64_t upgrade_rules_newest(const struct upgrade *upgrade);

/* upgrade_rules_property: returns the version property of an entity that was
 * brought to version `number`; its value lives in arena. */
struct property upgrade_rules_property(
    const struct upgrade *upgrade, int64_t number, struct arena *arena);

/* upgrade_step_name: returns the name of a type of step: "add", "rename", ...
 */
const char *upgrade_step_name(enum upgrade_step_type type);

/* upgrade_step_retains: does expand keep the step's old property beside a new
 * one? */
bool upgrade_step_retains(const struct upgrade_step *step);

/* upgrade_step_ends: is the step's property absent once all steps of its
 * version are carried out, in phase all or contract? */
bool upgrade_step_ends(const struct upgrade_step *step);

/* upgrade_step_makes: does the step give an entity the property `name`? */
bool upgrade_step_makes(const struct upgrade_step *step, struct slice name);

/* The configuration keys of a schema-upgrade job. */
extern const struct settings_section upgrade_job_section;
extern const struct settings_section upgrade_version_section;
extern const struct settings_section upgrade_entry_section;

#endif
