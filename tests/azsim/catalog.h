/* SPDX-License-Identifier: MIT */
/*
 * The accounts, each with an embedded store in memory, and what that store
 * does not know: names that are being deleted, a queue's metadata, a message's
 * end and changed text. A table or queue has a name of its own in the store,
 * so that a deleted one is gone at once and its name can come back empty.
 *
 * Or one embedded store in a file, for all accounts, that a worker has open
 * too: its tables go by their own names, and creating one finds it.
 */
#ifndef TW_AZSIM_CATALOG_H
#define TW_AZSIM_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/azsim/exchange.h"
#include "tests/azsim/failure.h"
#include "worker/base/arena.h"
#include "worker/base/slice.h"

#define CATALOG_NAME_BYTES 64

struct catalog;
struct account; /* lives as long as its catalog */
struct store;

/* catalog_new: file: of the embedded store, kept by reference; NULL: in memory.
 * Owned. */
struct catalog *catalog_new(const char *file);
void catalog_free(struct catalog *catalog);

/* catalog_account: the one of that name, made when it is first asked for;
 * NULL: that is no name of an account. Any thread. */
struct account *catalog_account(struct catalog *catalog, struct slice name);

/* catalog_store: what its tables and queues are stored in. Borrowed. */
struct store *catalog_store(struct account *account);

/* catalog_lock: whoever changes something holds this while it does and while
 * it is written into the journal, so that both have one order. All functions
 * below are called with it held. */
void catalog_lock(struct account *account);
void catalog_unlock(struct account *account);

/* catalog_create: metadata: of a queue, as one text. FAIL_NONE: made anew.
 * FAIL_TABLE_EXISTS, FAIL_QUEUE_EXISTS, FAIL_TABLE_DELETED,
 * FAIL_QUEUE_DELETED: not. */
enum failure catalog_create(struct account *account, enum service service,
    struct slice name, struct slice metadata);

/* catalog_delete: the name stays locked until then. */
enum failure catalog_delete(struct account *account, enum service service,
    struct slice name, int64_t until_ticks);

/* catalog_find: its name in the store. FAIL_TABLE_MISSING,
 * FAIL_QUEUE_MISSING. */
enum failure catalog_find(struct account *account, enum service service,
    struct slice name, char ret[CATALOG_NAME_BYTES]);

/* catalog_clear: a queue without its messages. */
enum failure catalog_clear(struct account *account, struct slice queue);

/* catalog_metadata: of a queue that exists; borrowed until it is set. */
struct slice catalog_metadata(struct account *account, struct slice queue);
void catalog_set_metadata(
    struct account *account, struct slice queue, struct slice metadata);

/* catalog_list: the names, in order; they live in arena. Returns how many. */
size_t catalog_list(struct account *account, enum service service,
    struct arena *arena, struct slice **ret);

/* What is noted of a message beside the store. */
struct note {
    struct note *next;
    struct slice id;
    int64_t expires_ticks;
    bool has_text;
    struct slice text; /* instead of the stored one */
};

/* catalog_note: that of a message, made where create and there is none. */
struct note *catalog_note(
    struct account *account, struct slice id, bool create);
void catalog_set_text(struct note *note, struct slice text);
void catalog_forget(struct account *account, struct slice id);

#endif
