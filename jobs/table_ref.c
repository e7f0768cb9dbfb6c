/* SPDX-License-Identifier: MIT */
/* Reads and checks the store and the table that a job's map names. */
#include "jobs/table_ref.h"

#include <strings.h>

#include "config/settings.h"
#include "jobs/job.h"
#include "worker/store/entity.h"

static bool load_default_store(
    struct mark mark, const struct job_loader *loader, size_t *ret)
{
    const struct job_stores *stores = loader->stores;

    if (stores->by_default < stores->count) {
        *ret = stores->by_default;
        return true;
    }
    problems_add(loader->problems, mark,
        "there are several stores and none is the default: write `store:` "
        "here, or `default_store:`");
    return false;
}

/* Find the store with the name `name`. If the job has no `store:`, name.at is
 * NULL, and the store is the default one. An empty name is refused instead,
 * because an environment variable that is empty by mistake may be the cause. */
static bool load_store(struct slice name, struct mark mark,
    const struct job_loader *loader, size_t *ret)
{
    const struct job_stores *stores = loader->stores;

    if (!name.at)
        return load_default_store(mark, loader, ret);
    if (name.len == 0) {
        problems_add(loader->problems, mark,
            "`store:` is empty: write a name from `stores:`, or remove "
            "`store:`");
        return false;
    }
    for (size_t i = 0; i < stores->count; i++)
        if (slice_is(name, stores->names[i])) {
            *ret = i;
            return true;
        }
    settings_unknown(
        loader->problems, mark, "store", name, stores->names, stores->count);
    return false;
}

static bool load_table(struct slice name, struct mark mark,
    const struct job_loader *loader, const char **ret)
{
    struct err err;

    if (entity_check_table(name, &err) != TW_OK) {
        problems_add(loader->problems, mark, "%s", err.text);
        return false;
    }
    *ret = name.at; /* texts of settings end with a NUL */
    return true;
}

bool table_ref_load(const struct yaml_node *map, struct slice store,
    struct slice table, const struct job_loader *loader, struct table_ref *ret)
{
    bool good =
        load_store(store, table_ref_mark(map, "store"), loader, &ret->store);

    return load_table(
               table, table_ref_mark(map, "table"), loader, &ret->table) &&
           good;
}

bool table_ref_same(const struct table_ref *a, const struct table_ref *b)
{
    if (a->store != b->store)
        return false;
    if (!a->table || !b->table)
        return a->table == b->table;
    return strcasecmp(a->table, b->table) == 0;
}

struct mark table_ref_mark(const struct yaml_node *map, const char *key)
{
    const struct yaml_node *node = yaml_get(map, key);

    return node ? node->mark : map->mark;
}
