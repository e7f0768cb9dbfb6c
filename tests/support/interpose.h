/* SPDX-License-Identifier: MIT */
/*
 * A store in front of another: each of its calls becomes a request that one
 * function meets, which sends it on, or does not, or does so twice. What
 * counts, delays, fails or judges requests is built on this.
 */
#ifndef TW_TESTS_INTERPOSE_H
#define TW_TESTS_INTERPOSE_H

#include <stdbool.h>

#include "worker/store/store.h"

enum store_call {
    CALL_SCAN,
    CALL_GET,
    CALL_BATCH,
    CALL_CREATE_TABLE,
    CALL_LIST_TABLES,
    CALL_QUEUE_CREATE,
    CALL_QUEUE_PUT,
    CALL_QUEUE_GET,
    CALL_QUEUE_RENEW,
    CALL_QUEUE_DELETE,
    CALL_QUEUE_PEEK,
    CALL_QUEUE_COUNT,
    STORE_CALLS,
};

/* A set of calls. */
#define CALL_SET(call) (1U << (call))
#define CALL_ALL (CALL_SET(STORE_CALLS) - 1)
#define CALL_READS                                                             \
    (CALL_SET(CALL_SCAN) | CALL_SET(CALL_GET) | CALL_SET(CALL_LIST_TABLES) |   \
        CALL_SET(CALL_QUEUE_PEEK) | CALL_SET(CALL_QUEUE_COUNT))
#define CALL_WRITES (CALL_ALL & ~CALL_READS)

/* One call: its arguments, and where its answer goes. Borrowed. */
struct store_request {
    enum store_call call;
    const char *name; /* of the table or queue; NULL: of none */
    struct slice partition_key, row_key;
    const struct scan_request *scan;
    struct continuation from;
    const struct batch *batch;
    struct slice text, id, pop_receipt;
    unsigned count;
    int64_t seconds;

    struct page *page;
    struct batch_result *result;
    struct messages *messages;
    char *receipt; /* goes there and comes back; QUEUE_RECEIPT_MAX bytes */
    int64_t *number;
};

struct interposed {
    struct store store; /* first: use &interposed->store */
    struct store *inner;
    enum tw_err (*meet)(struct interposed *self, struct exchange *exchange,
        const struct store_request *request);
};

/* interposed_init: inner is borrowed; whoever closes this closes it. */
void interposed_init(struct interposed *self, const char *name,
    struct store *inner,
    enum tw_err (*meet)(struct interposed *self, struct exchange *exchange,
        const struct store_request *request));

/* request_send: make the call on store. */
enum tw_err request_send(struct store *store, struct exchange *exchange,
    const struct store_request *request);

/* request_pass: the same, straight to that one, without what a store
 * looks at first in each call. */
enum tw_err request_pass(struct interposed *self, struct exchange *exchange,
    const struct store_request *request);

/* request_forget: what an answer has brought so far is none: empty pages,
 * no messages, the receipt as it was in before (NULL: leave it). */
void request_forget(const struct store_request *request, const char *before);

/* call_name: "scan", ... for people. call_in: is it in the set? */
const char *call_name(enum store_call call);
bool call_in(unsigned set, enum store_call call);

/* request_copy: a copy of what it asks for (of a write: a scan's is borrowed
 * on), with places of its own for the
 * answer. Owned; request_copy_free(). */
struct request_copy {
    struct store_request request;
    struct arena arena;
    struct batch batch;
    struct page page;
    struct messages messages;
    struct batch_result result;
    char receipt[QUEUE_RECEIPT_MAX];
    int64_t number;
};
struct request_copy *request_copy(const struct store_request *request);
void request_copy_free(struct request_copy *copy);

#endif
