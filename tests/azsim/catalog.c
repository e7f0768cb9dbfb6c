/* SPDX-License-Identifier: MIT */
/* Accounts, names and notes are kept in short lists. Each account has a
 * lock. */
#include "tests/azsim/catalog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/store/embedded/embedded.h"
#include "worker/store/store.h"

struct place {
    struct place *next;
    enum service service;
    struct slice name;
    char stored[CATALOG_NAME_BYTES];
    bool deleted;
    int64_t locked_until_ticks; /* if deleted: when the name becomes free */
    struct slice metadata;
};

struct account {
    struct account *next;
    char *name;
    struct store *store;
    bool shared; /* the store is a file that other processes use too */
    struct platform_mutex lock; /* guards all members below */
    struct place *places;
    struct note *notes;
    unsigned made; /* number of names made for the store so far */
};

struct catalog {
    const char *file; /* NULL: each account's store is in memory */
    struct platform_mutex lock;
    struct account *accounts;
};

static void free_slice(struct slice slice)
{
    mem_free_slice(&slice);
}

static struct slice copy_of(struct slice slice)
{
    return (struct slice){
        mem_text(slice.at ? slice.at : "", slice.len), slice.len};
}

/* ---- accounts ---- */

struct catalog *catalog_new(const char *file)
{
    struct catalog *catalog = mem_alloc(sizeof(*catalog));

    catalog->file = file;
    platform_mutex_init(&catalog->lock);
    return catalog;
}

static void free_account(struct account *account)
{
    while (account->places != NULL) {
        struct place *place = account->places;

        account->places = place->next;
        free_slice(place->name);
        free_slice(place->metadata);
        mem_free(place);
    }
    while (account->notes != NULL)
        catalog_forget(account, account->notes->id);
    store_close(account->store);
    platform_mutex_done(&account->lock);
    mem_free(account->name);
    mem_free(account);
}

void catalog_free(struct catalog *catalog)
{
    while (catalog->accounts != NULL) {
        struct account *account = catalog->accounts;

        catalog->accounts = account->next;
        free_account(account);
    }
    platform_mutex_done(&catalog->lock);
    mem_free(catalog);
}

static struct account *make_account(const char *file, struct slice name)
{
    struct account *account = mem_alloc(sizeof(*account));
    struct err err;

    account->name = mem_text(name.at, name.len);
    account->shared = file != NULL;
    if (embedded_open(account->name, account->shared ? file : ":memory:",
            &account->store, &err) != TW_OK) {
        (void)fprintf(stderr, "azsim: %s\n", err.text);
        exit(1);
    }
    platform_mutex_init(&account->lock);
    return account;
}

static bool is_account_name(struct slice name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789";

    for (size_t i = 0; i < name.len; i++)
        if (memchr(allowed, name.at[i], strlen(allowed)) == NULL)
            return false;
    return name.len >= 3 && name.len <= 24;
}

struct account *catalog_account(struct catalog *catalog, struct slice name)
{
    struct account *account;

    if (!is_account_name(name))
        return NULL;
    platform_lock(&catalog->lock);
    account = catalog->accounts;
    while (account != NULL && !slice_is(name, account->name))
        account = account->next;
    if (account == NULL) {
        account = make_account(catalog->file, name);
        account->next = catalog->accounts;
        catalog->accounts = account;
    }
    platform_unlock(&catalog->lock);
    return account;
}

struct store *catalog_store(struct account *account)
{
    return account->store;
}

void catalog_lock(struct account *account)
{
    platform_lock(&account->lock);
}

void catalog_unlock(struct account *account)
{
    platform_unlock(&account->lock);
}

/* ---- tables and queues ---- */

/* Returns whether place has this name. As in the service, the case of letters
 * does not count. */
static bool is_called(
    const struct place *place, enum service service, struct slice name)
{
    return place->service == service && place->name.len == name.len &&
           strncasecmp(place->name.at, name.at, name.len) == 0;
}

static struct place *find_place(
    struct account *account, enum service service, struct slice name)
{
    struct place *place = account->places;

    while (place != NULL && !is_called(place, service, name))
        place = place->next;
    return place;
}

static void make_stored(struct account *account, struct place *place)
{
    struct exchange store_exchange = {.deadline = NULL};
    bool queue = place->service == SERVICE_QUEUE;
    enum tw_err outcome;

    if (account->shared)
        (void)snprintf(place->stored, sizeof(place->stored), "%.*s",
            SLICE_ARG(place->name));
    else
        (void)snprintf(place->stored, sizeof(place->stored), "%s%08u",
            queue ? "queue" : "table", ++account->made);
    outcome = queue ? store_queue_create(
                          account->store, &store_exchange, place->stored)
                    : store_create_table(
                          account->store, &store_exchange, place->stored);
    if (outcome != TW_OK) {
        (void)fprintf(stderr, "azsim: %s\n", store_exchange.err.text);
        exit(1);
    }
}

enum failure catalog_create(struct account *account, enum service service,
    struct slice name, struct slice metadata)
{
    struct place *place = find_place(account, service, name);
    bool queue = service == SERVICE_QUEUE;

    if (place != NULL && !place->deleted)
        return queue ? FAIL_QUEUE_EXISTS : FAIL_TABLE_EXISTS;
    if (place != NULL && platform_wall_ticks() < place->locked_until_ticks)
        return queue ? FAIL_QUEUE_DELETED : FAIL_TABLE_DELETED;
    if (place == NULL) {
        place = mem_alloc(sizeof(*place));
        place->service = service;
        place->next = account->places;
        account->places = place;
    }
    free_slice(place->name);
    free_slice(place->metadata);
    place->name = copy_of(name);
    place->metadata = copy_of(metadata);
    place->deleted = false;
    make_stored(account, place);
    return FAIL_NONE;
}

static struct place *living(
    struct account *account, enum service service, struct slice name)
{
    struct place *place = find_place(account, service, name);

    return place != NULL && !place->deleted ? place : NULL;
}

enum failure catalog_delete(struct account *account, enum service service,
    struct slice name, int64_t until_ticks)
{
    struct place *place = living(account, service, name);

    /* for a missing table the service answers ResourceNotFound here */
    if (place == NULL)
        return service == SERVICE_QUEUE ? FAIL_QUEUE_MISSING
                                        : FAIL_RESOURCE_MISSING;
    place->deleted = true;
    place->locked_until_ticks = until_ticks;
    return FAIL_NONE;
}

enum failure catalog_find(struct account *account, enum service service,
    struct slice name, char ret[CATALOG_NAME_BYTES])
{
    const struct place *place = living(account, service, name);

    if (place == NULL)
        return service == SERVICE_QUEUE ? FAIL_QUEUE_MISSING
                                        : FAIL_TABLE_MISSING;
    memcpy(ret, place->stored, CATALOG_NAME_BYTES);
    return FAIL_NONE;
}

enum failure catalog_clear(struct account *account, struct slice queue)
{
    struct place *place = living(account, SERVICE_QUEUE, queue);

    if (place == NULL)
        return FAIL_QUEUE_MISSING;
    make_stored(account, place);
    return FAIL_NONE;
}

struct slice catalog_metadata(struct account *account, struct slice queue)
{
    return living(account, SERVICE_QUEUE, queue)->metadata;
}

void catalog_set_metadata(
    struct account *account, struct slice queue, struct slice metadata)
{
    struct place *place = living(account, SERVICE_QUEUE, queue);

    free_slice(place->metadata);
    place->metadata = copy_of(metadata);
}

static int by_name(const void *a, const void *b)
{
    return slice_compare(*(const struct slice *)a, *(const struct slice *)b);
}

size_t catalog_list(struct account *account, enum service service,
    struct arena *arena, struct slice **ret)
{
    size_t count = 0;

    for (struct place *place = account->places; place; place = place->next)
        count++;
    *ret = arena_alloc(arena, (count + 1) * sizeof(**ret));
    count = 0;
    for (struct place *place = account->places; place; place = place->next)
        if (place->service == service && !place->deleted)
            (*ret)[count++] = arena_copy(arena, place->name);
    qsort(*ret, count, sizeof(**ret), by_name);
    return count;
}

/* ---- notes of messages ---- */

struct note *catalog_note(struct account *account, struct slice id, bool create)
{
    struct note *note = account->notes;

    while (note != NULL && !slice_equal(note->id, id))
        note = note->next;
    if (note == NULL && create) {
        note = mem_alloc(sizeof(*note));
        note->id = copy_of(id);
        note->expires_ticks = INT64_MAX;
        note->next = account->notes;
        account->notes = note;
    }
    return note;
}

void catalog_set_text(struct note *note, struct slice text)
{
    free_slice(note->text);
    note->text = copy_of(text);
    note->has_text = true;
}

void catalog_forget(struct account *account, struct slice id)
{
    struct note **at = &account->notes;

    while (*at != NULL && !slice_equal((*at)->id, id))
        at = &(*at)->next;
    if (*at != NULL) {
        struct note *note = *at;

        *at = note->next;
        free_slice(note->id);
        free_slice(note->text);
        mem_free(note);
    }
}
