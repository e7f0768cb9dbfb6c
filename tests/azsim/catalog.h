/* SPDX-License-Identifier: MIT */
/*
 * The accounts. Each has an embedded store in memory. The catalog also keeps
 * what that store cannot keep: names that are being deleted, the metadata of
 * queues, and the expiry and the changed text of messages. In the store each
 * table and queue gets a new, generated name. So a deleted table is gone at
 * once, and its name can come back with an empty table.
 *
 * If the server has the option --file, all accounts share one embedded store in
 * that file, which a worker has open too. In this store the tables keep their
 * names, so a table that a client creates may exist already.
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

/* catalog_new: file: the file of the embedded store, borrowed; NULL: stores in
 * memory. Owned by the caller. */
struct catalog *catalog_new(const char *file);
void catalog_free(struct catalog *catalog);

/* catalog_account: returns the account with this name, and makes it at the
 * first call. NULL: no account can have this name. Any thread may call it. */
struct account *catalog_account(struct catalog *catalog, struct slice name);

/* catalog_store: returns the store of the account's tables and queues.
 * Borrowed. */
struct store *catalog_store(struct account *account);

/* catalog_lock: a caller that changes something holds this lock until the
 * change is also in the journal, so that the journal has the order of the
 * changes. All functions below are called with the lock held. */
void catalog_lock(struct account *account);
void catalog_unlock(struct account *account);

/* catalog_create: creates a table or queue. metadata: of a queue, as one text.
 * FAIL_NONE: it was created. FAIL_TABLE_EXISTS, FAIL_QUEUE_EXISTS: it exists.
 * FAIL_TABLE_DELETED, FAIL_QUEUE_DELETED: it is being deleted. */
enum failure catalog_create(struct account *account, enum service service,
    struct slice name, struct slice metadata);

/* catalog_delete: deletes a table or queue. Its name cannot be used again
 * before until_ticks. */
enum failure catalog_delete(struct account *account, enum service service,
    struct slice name, int64_t until_ticks);

/* catalog_find: writes the table's or queue's name in the store to ret.
 * FAIL_TABLE_MISSING, FAIL_QUEUE_MISSING: it does not exist. */
enum failure catalog_find(struct account *account, enum service service,
    struct slice name, char ret[CATALOG_NAME_BYTES]);

/* catalog_clear: deletes the messages of a queue. */
enum failure catalog_clear(struct account *account, struct slice queue);

/* catalog_metadata: returns the metadata of a queue, which must exist. Borrowed
 * until the metadata is set. */
struct slice catalog_metadata(struct account *account, struct slice queue);
void catalog_set_metadata(
    struct account *account, struct slice queue, struct slice metadata);

/* catalog_list: returns the number of tables or queues, and their names in
 * order; the names live in arena. */
size_t catalog_list(struct account *account, enum service service,
    struct arena *arena, struct slice **ret);

/* What the catalog keeps of a message beside the store. */
struct note {
    struct note *next;
    struct slice id;
    int64_t expires_ticks;
    bool has_text;
    struct slice text; /* replaces the text in the store */
};

/* catalog_note: returns the note of a message; NULL: it has none. If create is
 * true, a missing note is made. */
struct note *catalog_note(
    struct account *account, struct slice id, bool create);
void catalog_set_text(struct note *note, struct slice text);
void catalog_forget(struct account *account, struct slice id);

#endif
