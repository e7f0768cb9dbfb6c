/* SPDX-License-Identifier: MIT */
/* Takeover of interrupted moves. */
#include "jobs/move/takeover.h"

#include "jobs/job.h"
#include "jobs/move/carry.h"
#include "worker/base/log.h"
#include "worker/store/store.h"

/* ---- the stores of an intent ---- */

/* The search for the store of a location. */
struct search {
    const struct mover *m;
    const struct location *location;
    struct arena arena;
    struct store *found;  /* the store with the account of the location; NULL:
                             not found so far */
    struct store *second; /* another store with the same account, which is
                             not the same file or endpoint; NULL: none */
    struct store *alike;  /* a store with another host and the AccountName of
                             the location; NULL: none */
    enum tw_err failed;   /* outcome for a store that could not be opened, with
                             `cause`; TW_OK: all stores that were tried are
                             open */
    struct err cause;
};

static void compare_store(struct search *search, struct store *store)
{
    const struct location is =
        location_of(store, search->location->table, &search->arena);

    if (!location_same(&is, search->location)) {
        if (location_may_be_same(&is, search->location))
            search->alike = store;
        return;
    }
    if (!search->found)
        search->found = store;
    else if (!store_same(store, search->found))
        search->second = store;
}

/* Compares store number i with the intent's store; opens store number i first
 * if no job uses it. An embedded store whose file does not exist is not the
 * intent's store, and the search continues. But if the intent names this store
 * (is_named), the missing file counts as a failure. */
static void try_store(struct search *search, size_t i, bool is_named)
{
    const struct job_stores *stores = search->m->stores;
    struct store *store = stores->stores[i];
    struct err err;
    enum tw_err outcome = TW_OK;

    if (!store && stores->open)
        outcome = stores->open(stores->owner, i, &store, &err);
    if (outcome == TW_OK && store)
        compare_store(search, store);
    if (outcome == TW_OK || (outcome == TW_NOT_FOUND && !is_named))
        return;
    search->failed = outcome;
    search->cause = err;
}

/* Try the store that the intent names, then the stores that are already open.
 * Open other stores only if none of these has the account. */
static void try_stores(struct search *search)
{
    const struct job_stores *stores = search->m->stores;

    for (size_t i = 0; i < stores->count && !search->found; i++)
        if (slice_is(search->location->store, stores->names[i]))
            try_store(search, i, true);
    if (search->found)
        return;
    for (size_t i = 0; i < stores->count; i++)
        if (stores->stores[i])
            try_store(search, i, false);
    for (size_t i = 0; i < stores->count && !search->found; i++)
        if (!stores->stores[i] &&
            !slice_is(search->location->store, stores->names[i]))
            try_store(search, i, false);
}

static enum tw_err refuse_two(const struct search *search, struct err *err)
{
    const struct location *location = search->location;

    return err_fail(err, TW_INVALID,
        "an interrupted move used store %.*s. No store in the configuration "
        "has this name, and two stores, %s and %s, have the identity of that "
        "store, although they are different files or endpoints: nothing was "
        "changed. Remove the wrong store from the configuration, or give the "
        "right store the name %.*s",
        SLICE_ARG(location->store), search->found->name, search->second->name,
        SLICE_ARG(location->store));
}

/* Fail, because only requests can show whether two hosts have the same tables.
 * If this function assumed a wrong account, the run would give up entities
 * whose move was interrupted. */
static enum tw_err refuse_alike(const struct search *search, struct err *err)
{
    const struct location *location = search->location;

    return err_fail(err, TW_INVALID,
        "an interrupted move used store %.*s at endpoint %.*s. No store has "
        "this endpoint now, but store %s has the same AccountName: nothing was "
        "changed. If that is the same account, add a store with the former "
        "endpoint until the interrupted move is completed. If it is another "
        "account, compare the entities that the intents in %s (PartitionKey "
        "%s) name, then delete these intents",
        SLICE_ARG(location->store), SLICE_ARG(location->account),
        search->alike->name, search->m->run->ledger_table, INTENTS_PARTITION);
}

/* Find the store with the account of the location. *ret becomes NULL if no
 * store of the configuration has this account. TW_BUSY: a store that may have
 * this account cannot be opened; the run is then held until that store can be
 * opened. */
static enum tw_err find_store(const struct mover *m,
    const struct location *location, struct store **ret, struct err *err)
{
    struct search search = {.m = m, .location = location};
    enum tw_err outcome = TW_OK;

    arena_init(&search.arena);
    try_stores(&search);
    arena_done(&search.arena);
    if (search.second) {
        outcome = refuse_two(&search, err);
    } else if (!search.found && search.failed != TW_OK) {
        m->run->store_closed = true;
        outcome = err_fail(err, TW_BUSY,
            "a move that was interrupted cannot be completed before its store "
            "%.*s is open: %s",
            SLICE_ARG(location->store), search.cause.text);
    } else if (!search.found && search.alike) {
        outcome = refuse_alike(&search, err);
    }
    *ret = search.found;
    return outcome;
}

/* Sets ret[side] to the store of each side (enum pair_side). */
static enum tw_err find_stores(const struct mover *m,
    const struct intent *intent, struct store **ret, struct err *err)
{
    enum tw_err outcome = TW_OK;

    ret[PAIR_SOURCE] = ret[PAIR_COPY] = NULL;
    for (int side = PAIR_SOURCE; side <= PAIR_COPY && outcome == TW_OK; side++)
        outcome = find_store(m, &intent->locations[side], &ret[side], err);
    return outcome;
}

/* ---- which intents ---- */

static bool shares_table(const struct mover *m, const struct intent *intent)
{
    for (int mine = PAIR_SOURCE; mine <= PAIR_COPY; mine++)
        for (int side = PAIR_SOURCE; side <= PAIR_COPY; side++)
            if (location_may_be_same(
                    &m->locations[mine], &intent->locations[side]))
                return true;
    return false;
}

/* Set *ret to whether the run that stored the intent has ended. A run that has
 * not ended takes over its own intent. If this takeover needs the former
 * configuration, that run is held until an operator has restored the
 * configuration. */
static enum tw_err has_ended(const struct mover *m, const struct intent *intent,
    bool *ret, struct err *err)
{
    bool open = false;
    enum tw_err outcome = m->run->callbacks->is_open(
        m->run, intent->job, intent->run, &open, err);

    *ret = !open;
    return outcome;
}

enum tw_err takeover_concerns(const struct mover *m,
    const struct intent *intent, bool *ret, struct err *err)
{
    struct store *stores[2];
    enum tw_err outcome = TW_OK;

    *ret = shares_table(m, intent);
    if (*ret || !slice_is(intent->job, m->run->job))
        return TW_OK;
    outcome = find_stores(m, intent, stores, err);
    if (outcome == TW_OK)
        *ret = !stores[PAIR_SOURCE] || !stores[PAIR_COPY];
    return outcome == TW_OK && *ret ? has_ended(m, intent, ret, err) : outcome;
}

/* Did an earlier attempt of this run store the intent? */
static bool is_own(const struct mover *m, const struct intent *intent)
{
    return slice_is(intent->job, m->run->job) &&
           slice_is(intent->run, m->run->id);
}

/* Set *ret to whether this attempt must take the intent over. It takes over its
 * run's own intents even if the job's definition has other tables now, because
 * the run can be paused or cancelled only when its loads are completed. */
static enum tw_err is_taken(const struct mover *m, const struct intent *intent,
    bool *ret, struct err *err)
{
    *ret = is_own(m, intent);
    return *ret ? TW_OK : takeover_concerns(m, intent, ret, err);
}

/* ---- the pairs ---- */

static bool has_etag(const struct pair *pair, enum pair_side side)
{
    return pair->found.there && pair->etags[side][0] != '\0' &&
           strcmp(pair->found.etag, pair->etags[side]) == 0;
}

/* Is the entity at the keys of the copy the one that the run inserted (rule
 * M2)? An intent in state `leaving` has the ETag of that copy. */
static bool is_own_copy(const struct intent *intent, const struct pair *pair)
{
    if (intent->leaving)
        return has_etag(pair, PAIR_COPY);
    return pair->found.there && pair->found.equal &&
           carry_is_recent(intent, &pair->found) &&
           strcmp(pair->found.etag, pair->etags[PAIR_SOURCE]) != 0;
}

static void judge_source(struct pair *pair)
{
    if (has_etag(pair, PAIR_SOURCE))
        pair_set_state(pair, PAIR_READ);
    else
        pair_set_state(pair, pair->found.there ? PAIR_CHANGED : PAIR_ABSENT);
}

/* Decides the state of a pair. Call after judge_source(), when pair->found is
 * the entity at the keys of the copy. */
static void judge_pair(const struct intent *intent, struct pair *pair)
{
    bool own = is_own_copy(intent, pair);

    switch (pair->state) {
    case PAIR_READ:
        pair_set_state(pair, own ? PAIR_COPIED : PAIR_LEFT);
        if (own)
            memcpy(pair->etags[PAIR_COPY], pair->found.etag, ETAG_MAX);
        break;
    case PAIR_CHANGED:
        pair_set_state(pair, PAIR_LEFT);
        if (pair->found.there)
            pair->why = "the source was changed while a move was interrupted, "
                        "and an entity is at the destination: both stay";
        break;
    case PAIR_ABSENT:
        pair_set_state(pair, PAIR_LEFT);
        /* If the intent is `leaving`, the interrupted attempt has deleted the
         * source (rule M5). No other move can have carried the source
         * elsewhere: the locks exclude such a move (rule L1), or it has taken
         * over this intent first (rule M7). The exception is a move that uses
         * another host of an account whose AccountName is not known. */
        if (own && !intent->leaving)
            pair->why = "the source was deleted while a move was interrupted: "
                        "its copy stays";
        break;
    case PAIR_COPIED:
    case PAIR_LEFT:
    case PAIR_DONE:
    case PAIR_ANY:
        break;
    }
    /* Nothing may be written at the destination (M6). */
    pair->indeterminate = true;
    pair->delete_indeterminate = intent->leaving;
}

static enum tw_err read_pairs(struct mover *m, struct carried *carried,
    enum pair_side side, struct err *err)
{
    size_t count = move_load_sort(&carried->load, PAIR_ANY, side);

    return move_load_read(&carried->load, count, side, m->run,
        carried->ends.stores[side], carried->ends.tables[side], err);
}

static enum tw_err judge_pairs(
    struct mover *m, struct carried *carried, struct err *err)
{
    struct load *load = &carried->load;
    enum tw_err outcome = read_pairs(m, carried, PAIR_SOURCE, err);

    for (size_t i = 0; i < load->count && outcome == TW_OK; i++)
        judge_source(&load->pairs[i]);
    if (outcome == TW_OK)
        outcome = read_pairs(m, carried, PAIR_COPY, err);
    for (size_t i = 0; i < load->count && outcome == TW_OK; i++)
        judge_pair(&carried->intent, &load->pairs[i]);
    return outcome;
}

/* ---- one intent ---- */

/* Gives up all pairs and reports them, because a store of the intent is no
 * longer configured (rule M8). */
static void abandon_pairs(struct carried *carried)
{
    struct load *load = &carried->load;

    for (size_t i = 0; i < load->count; i++)
        load->pairs[i].why =
            "a move of this entity was interrupted, and a store of that move "
            "is no longer configured: the entity may be at its source, at its "
            "destination, or at both";
}

static enum tw_err take_over(
    void *ctx, struct intent *intent, struct load *load, struct err *err)
{
    struct mover *m = ctx;
    struct carried *carried = &m->carried[0];
    bool is_mine;
    enum tw_err outcome = is_taken(m, intent, &is_mine, err);

    if (outcome != TW_OK || !is_mine)
        return outcome;
    outcome = find_stores(m, intent, carried->ends.stores, err);
    if (outcome != TW_OK)
        return outcome;
    log_run_info(run_log(m->run),
        "continues with %zu %s of a move from %.*s to %.*s that run "
        "%.*s/%.*s did not finish",
        load->count, load->count == 1 ? "entity" : "entities",
        SLICE_ARG(intent->locations[PAIR_SOURCE].table),
        SLICE_ARG(intent->locations[PAIR_COPY].table), SLICE_ARG(intent->job),
        SLICE_ARG(intent->run));
    carried->intent = *intent;
    for (int side = PAIR_SOURCE; side <= PAIR_COPY; side++)
        carried->ends.tables[side] = intent->locations[side].table.at;
    for (size_t i = 0; i < load->count; i++)
        load->pairs[i].mover = m;
    if (carried->ends.stores[PAIR_SOURCE] && carried->ends.stores[PAIR_COPY])
        outcome = judge_pairs(m, carried, err);
    else
        abandon_pairs(carried);
    if (outcome == TW_OK)
        outcome = carry_leave(m, carried, err);
    if (outcome == TW_OK) {
        m->leaving = carried;
        outcome = carry_finish(m, err);
        m->leaving = NULL;
    }
    if (outcome != TW_OK)
        carry_end(carried);
    return outcome;
}

/* ---- all intents ---- */

static enum tw_err find_any(
    void *ctx, struct intent *intent, struct load *load, struct err *err)
{
    struct mover *m = ctx;
    struct store *stores[2];
    bool is_mine;
    enum tw_err outcome = is_taken(m, intent, &is_mine, err);

    (void)load;
    m->run->load_open |= is_own(m, intent);
    if (outcome != TW_OK || !is_mine)
        return outcome;
    m->takes_over = true;
    outcome = find_stores(m, intent, stores, err);
    /* Requests of the former attempt may still arrive at these stores:
     * wait_for_late() waits for them. */
    for (int side = PAIR_SOURCE; side <= PAIR_COPY; side++)
        if (outcome == TW_OK && stores[side])
            late_note(&m->late, stores[side]);
    return outcome;
}

/* Finds out whether an intent must be taken over. Sets m->takes_over and
 * run->load_open. */
static enum tw_err find_intents(struct mover *m, struct err *err)
{
    bool was_open = m->run->load_open;
    enum tw_err outcome;

    m->takes_over = m->run->load_open = false;
    outcome = intent_each(m->run, &m->carried[0].load, find_any, m, err);
    m->run->load_open |= was_open && outcome != TW_OK;
    m->run->in_load = m->takes_over;
    return outcome;
}

/* Waits while requests of an earlier attempt may still arrive (rule A4). */
static enum tw_err wait_for_late(struct mover *m, struct err *err)
{
    late_note(&m->late, m->run->ledger);
    for (size_t i = 0; i < m->stores->count; i++)
        if (m->stores->stores[i])
            late_note(&m->late, m->stores->stores[i]);
    return late_wait(&m->late, m->run, err);
}

static enum tw_err take_over_all(struct mover *m, struct err *err)
{
    enum tw_err outcome;

    m->may_be_late |= m->run->previous_owner_crashed;
    outcome = find_intents(m, err);
    if (outcome == TW_OK && (m->takes_over || m->may_be_late))
        outcome = wait_for_late(m, err);
    if (outcome == TW_OK && m->may_be_late) {
        m->may_be_late = false;
        outcome = find_intents(m, err); /* an intent may have arrived
                                           meanwhile */
    }
    if (outcome == TW_OK && m->takes_over)
        outcome = intent_each(m->run, &m->carried[0].load, take_over, m, err);
    if (outcome == TW_OK)
        m->run->load_open = false;
    return outcome;
}

enum tw_err takeover_all(struct mover *m, struct err *err)
{
    enum tw_err outcome = take_over_all(m, err);

    m->run->in_load = false;
    move_load_clear(&m->carried[0].load);
    return outcome;
}
