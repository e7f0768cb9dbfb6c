/* SPDX-License-Identifier: MIT */
/* The tables that copies go to. */
#include "jobs/copier_tables.h"

#include <strings.h>

#include "jobs/engine/call.h"
#include "jobs/engine/template.h"
#include "jobs/job.h"
#include "worker/store/lanes.h"

/* ---- which they are ---- */

enum tw_err copier_tables_key(const struct template *template,
    const struct run_args *args, const char *which, struct arena *arena,
    bool *ret_alone, struct slice *ret, struct err *err)
{
    *ret_alone = template && (template_is_constant(template) ||
                                 template_lone_arg(template) >= 0);
    if (!*ret_alone)
        return TW_OK;
    return template_render_key(template, args, which, arena, ret, err);
}

static struct copier_table *table_of(struct copier *c, size_t target)
{
    const struct place *place = &c->rules->targets[target].place;
    size_t i = 0;

    while (i < c->table_count && !place_same(&c->tables[i].place, place))
        i++;
    c->table_of[target] = i;
    return &c->tables[i];
}

/* One more target: its copies are all in one partition, or they are not. */
static void join(struct copier *c, struct copier_table *table, bool is_new,
    bool alone, struct slice partition_key)
{
    if (is_new) {
        c->table_count++;
        table->has_partition = alone;
        table->partition_key = partition_key;
    } else if (!alone || !slice_equal(table->partition_key, partition_key)) {
        table->has_partition = false;
    }
}

/* One table under two names would be copied onto itself, and what a move takes
 * for the source would be its copy. */
static enum tw_err check_names(struct copier *c, const struct place *one,
    const struct place *other, struct err *err)
{
    struct store *const *stores = c->stores->stores;

    if (one->store == other->store ||
        strcasecmp(one->table, other->table) != 0 ||
        !store_same(stores[one->store], stores[other->store]))
        return TW_OK;
    return err_fail(err, TW_INVALID,
        "stores %s and %s are the same place, and table %s is named in both: "
        "write one of the two names everywhere",
        stores[one->store]->name, stores[other->store]->name, one->table);
}

static enum tw_err check_all_names(
    struct copier *c, const struct place *place, struct err *err)
{
    enum tw_err outcome = check_names(c, place, &c->rules->from, err);

    for (size_t i = 0; i < c->table_count && outcome == TW_OK; i++)
        outcome = check_names(c, place, &c->tables[i].place, err);
    return outcome;
}

enum tw_err copier_tables_find(struct copier *c, struct err *err)
{
    c->late_writes = c->rules->move && c->store->traits.late_writes;
    for (size_t i = 0; i < c->rules->target_count; i++) {
        const struct copying_target *target = &c->rules->targets[i];
        struct copier_table *table = table_of(c, i);
        bool is_new = c->table_of[i] == c->table_count, alone;
        struct slice key = {0};
        enum tw_err outcome = copier_tables_key(target->partition_key,
            &c->run->args, "PartitionKey", &c->arena, &alone, &key, err);

        if (outcome == TW_OK)
            outcome = check_all_names(c, &target->place, err);
        if (outcome != TW_OK)
            return outcome;
        if (is_new) {
            table->place = target->place;
            table->store = c->stores->stores[target->place.store];
            table->at_home = store_same(table->store, c->store);
        }
        join(c, table, is_new, alone, key);
        c->keys_change |= copying_keys_change(target);
        c->late_writes |= table->store->traits.late_writes;
    }
    return TW_OK;
}

/* ---- that they are there ---- */

struct ask {
    struct lanes_task task; /* first: the lanes hand it back */
    const struct copier_table *table;
    struct page page;
};

static enum tw_err attempt_create(
    struct lanes_task *task, struct attempt *attempt)
{
    const struct ask *ask = (const struct ask *)task;

    return store_create_table(task->store, attempt, ask->table->place.table);
}

static enum tw_err attempt_one(struct lanes_task *task, struct attempt *attempt)
{
    struct ask *ask = (struct ask *)task;
    static const struct slice keys_only[1];
    struct scan_request request = {
        .table = ask->table->place.table,
        .select = keys_only,
        .top = 1,
        .from = ask->page.next,
    };

    if (ask->table->has_partition)
        request.partition_key = key_range_exact(ask->table->partition_key);
    return store_scan(task->store, attempt, &request, &ask->page);
}

static enum tw_err ask(struct copier *c, struct ask *ask,
    enum tw_err (*attempt)(struct lanes_task *, struct attempt *),
    struct err *err)
{
    enum tw_err outcome;

    ask->task = (struct lanes_task){.attempt = attempt,
        .repeatable = true,
        .store = ask->table->store,
        .bytes = ENTITY_MAX_BYTES};
    outcome = lanes_call(c->run->lanes, &ask->task);
    if (outcome != TW_OK)
        (void)err_fail(err, outcome, "table %s: %s", ask->table->place.table,
            ask->task.last.err.text);
    return outcome;
}

static enum tw_err create(struct copier *c, struct ask *asked, struct err *err)
{
    const struct copier_table *table = asked->table;

    if (place_same(&table->place, &c->rules->from))
        return err_fail(err, TW_NOT_FOUND,
            "table %s does not exist in store %s", table->place.table,
            table->store->name);
    return ask(c, asked, attempt_create, err);
}

/* A page may be empty though more follows. */
static enum tw_err ready(
    struct copier *c, struct copier_table *table, struct err *err)
{
    struct ask asked = {.table = table};
    enum tw_err outcome;

    page_init(&asked.page);
    do
        outcome = ask(c, &asked, attempt_one, err);
    while (outcome == TW_OK && asked.page.count == 0 && asked.page.next.more);
    table->empty = asked.page.count == 0;
    if (outcome == TW_NOT_FOUND)
        outcome = create(c, &asked, err);
    page_done(&asked.page);
    return outcome;
}

enum tw_err copier_tables_ready(struct copier *c, struct err *err)
{
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < c->table_count && outcome == TW_OK; i++)
        outcome = ready(c, &c->tables[i], err);
    return outcome;
}

bool copier_tables_empty(const struct copier *c)
{
    for (size_t i = 0; i < c->table_count; i++)
        if (!c->tables[i].empty)
            return false;
    return true;
}

/* ---- the clock ---- */

/* Where a write may land late; the sources' own where a move deletes there. */
static const struct place *late_one(const struct copier *c)
{
    for (size_t i = 0; i < c->table_count; i++)
        if (c->tables[i].store->traits.late_writes)
            return &c->tables[i].place;
    return &c->rules->from;
}

/* An entity that is hardly there: its absence carries the Date too. */
enum tw_err copier_tables_now(
    struct copier *c, int64_t *ret_ticks, struct err *err)
{
    const struct place *place = late_one(c);
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = call_get(c->run->lanes, c->stores->stores[place->store],
        place->table, slice_of("tableward"), slice_of("tableward"), &page,
        ret_ticks, err);
    page_done(&page);
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}
