/* SPDX-License-Identifier: MIT */
/*
 * A store in front of another store. It turns each call into a struct
 * store_request and gives it to one function, which sends it to the other store
 * once, twice or not at all. The stores of tests that count, delay, fail or
 * check requests are built on this.
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

/* Sets of calls, as bits. */
#define CALL_SET(call) (1U << (call))
#define CALL_ALL (CALL_SET(STORE_CALLS) - 1)
#define CALL_READS                                                             \
    (CALL_SET(CALL_SCAN) | CALL_SET(CALL_GET) | CALL_SET(CALL_LIST_TABLES) |   \
        CALL_SET(CALL_QUEUE_PEEK) | CALL_SET(CALL_QUEUE_COUNT))
#define CALL_WRITES (CALL_ALL & ~CALL_READS)

/* One call: its arguments, and where its answer is stored. Borrowed. */
struct store_request {
    enum store_call call;
    const char *name; /* of the table or queue; NULL: the call has none */
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
    char *receipt; /* pop receipt, replaced by the new one; QUEUE_RECEIPT_MAX
                      bytes */
    int64_t *number;
};

struct interposed {
    struct store store; /* first member: use &interposed->store */
    struct store *inner;
    enum tw_err (*meet)(struct interposed *self, struct exchange *exchange,
        const struct store_request *request);
};

/* interposed_init: puts self in front of the store inner. Closing &self->store
 * closes inner too, so close only one of the two. */
void interposed_init(struct interposed *self, const char *name,
    struct store *inner,
    enum tw_err (*meet)(struct interposed *self, struct exchange *exchange,
        const struct store_request *request));

/* request_send: makes the call of request on store. */
enum tw_err request_send(struct store *store, struct exchange *exchange,
    const struct store_request *request);

/* request_pass: gives the request to meet() of self. Unlike request_send() it
 * skips the checks that a store makes at the start of each call. */
enum tw_err request_pass(struct interposed *self, struct exchange *exchange,
    const struct store_request *request);

/* request_forget: undoes what an answer has brought: empties the page and the
 * messages, and restores the pop receipt. before: the pop receipt to restore;
 * NULL: it is not changed. */
void request_forget(const struct store_request *request, const char *before);

/* call_name: returns the name of a call for people, such as "scan".
 * call_in: returns whether the call is in the set. */
const char *call_name(enum store_call call);
bool call_in(unsigned set, enum store_call call);

/* request_copy: returns a copy of the request, with space of its own for the
 * answer. Of a scan, the scan_request is not copied but borrowed. Owned;
 * release it with request_copy_free(). */
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
