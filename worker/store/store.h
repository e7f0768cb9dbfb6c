/* SPDX-License-Identifier: MIT */
/*
 * The store contract: tables and queues with Azure's semantics. Two
 * implementations (azure/, embedded/) implement one table of functions and pass
 * one conformance suite. Every call is one exchange without retries
 * (request_pool.h), and its outcome is done, not done, or indeterminate
 * (err.h). Any thread may make any call.
 */
#ifndef TW_STORE_STORE_H
#define TW_STORE_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/breaker.h"
#include "worker/store/deadline.h"
#include "worker/store/entity.h"
#include "worker/store/lease_clock.h"
#include "worker/store/silence.h"

#define BATCH_MAX_OPERATIONS 100
#define BATCH_MAX_BYTES (4 * 1024 * 1024)
#define PAGE_MAX_ENTITIES 1000
#define QUEUE_MAX_GET 32
#define QUEUE_MAX_MESSAGE_BYTES (64 * 1024)
#define STORE_IDENTITY_MAX 128

/*
 * One exchange: its limits, and what is known after it. The caller sets
 * deadline and gives_up; the store sets the rest on every return.
 */
struct exchange {
    const struct deadline *deadline; /* borrowed; NULL: no lease bounds it */
    int64_t sent_ms;    /* platform_boot_ms() when sent; 0: not sent */
    int64_t date_ticks; /* the service's clock in the response; 0: no response.
                           Azure's Date has whole seconds */
    int64_t retry_after_ms; /* the service's Retry-After; -1: none */
    int http_status;        /* of the response; 0: none */
    bool breaker_open; /* the store does not respond: nothing was sent, or this
                          failure left the breaker open */
    bool reached;      /* a request was sent to its service, now or before */
    /* Called about once a second until the whole response has arrived; comes: a
     * part has arrived since the last call. True: give the request up; if it
     * was sent its outcome is indeterminate. NULL: never given up. */
    bool (*gives_up)(void *context, bool comes);
    void *context;
    struct err err; /* the error text, unless TW_OK */
};

/* Capabilities of a store. */
struct store_capabilities {
    const char *kind; /* "embedded" or "azure" */
    bool ordered;     /* scans return keys in UTF-16 ordinal order (not
                         on Cosmos DB)                                  */
    bool has_queues;  /* not on Cosmos DB                               */
    bool late_writes; /* a request that was given up may still be applied later
                       */
    bool local; /* on this machine, as are its writers: they date by the wall
                   clock, not by its Date */
    size_t batch_max_bytes;
    const char *endpoint; /* two stores with the same endpoint (ignoring case)
                             have the same tables; NULL: shared with no other
                             store. Lives as long as the store */
    const char
        *identity; /* which store it is, under any configured name: permanent
                      and unique. At most STORE_IDENTITY_MAX bytes, no secret;
                      NULL: unknown. Lives as long as the store */
};

/* ---- tables ---- */

/* Bounds of one key. Without from and below: every key. */
struct key_range {
    bool has_from, has_below;
    bool from_exclusive;      /* from itself is excluded */
    bool exact;               /* from is the only key; below is ignored     */
    struct slice from, below; /* from <= key < below                        */
};

/* key_range_exact: only key. key_range_prefix: a superset of the keys that
 * begin with prefix, in UTF-16 and in code point order; the caller tests each
 * key exactly. An upper bound that must be built lives in arena. */
struct key_range key_range_exact(struct slice key);
struct key_range key_range_prefix(struct slice prefix, struct arena *arena);
/* key_range_between: a superset of the keys from <= key < below in UTF-16
 * order, the service's, in whichever of the two orders a store sorts; the
 * caller tests each key exactly. NULL: no bound. */
struct key_range key_range_between(
    const struct slice *from, const struct slice *below, struct arena *arena);
/* key_range_has: is key in range, in UTF-16 order? Stores use this test. */
bool key_range_has(const struct key_range *range, struct slice key);

/* The service's continuation token, opaque; empty: the beginning, or the
 * end. */
struct continuation {
    struct slice partition_key, row_key; /* NextPartitionKey, NextRowKey */
    bool more;
    /* Used by store_scan() and store_list_tables() to detect a loop of
     * continuations: the number of pages, and the hash of an earlier
     * continuation. */
    uint64_t pages, mark;
};

struct scan_request {
    const char *table;
    struct key_range partition_key, row_key;
    struct slice filter; /* OData, or empty */
    const struct slice
        *select; /* names, the store adds the keys; NULL: all properties */
    size_t select_count;
    unsigned top;     /* 1..1000; 0: 1000 */
    size_t max_bytes; /* of the response; larger: TW_TOO_LARGE, a smaller top
                         may succeed; 0: 32 MiB */
    bool damaged_too; /* return a stored but unreadable entity with its keys,
                         without ETag and properties, regardless of the filter;
                         false: it fails the scan */
    struct continuation from; /* .more false: from the beginning */
    /* Called at most once, on the calling thread, when the start of the next
     * page is known and this page has not arrived yet; next is borrowed during
     * the call. This page may still fail. NULL: not wanted. */
    void (*follows)(void *context, const struct continuation *next);
    void *context;
};

/* page_init before first use; page_done frees; a page can be filled again and
 * reuses its memory. */
struct page {
    struct arena arena; /* holds the entities ... */
    struct buf body;    /* ... which also point into this, the response body */
    struct entity *entities;
    size_t count;             /* may be 0 though next.more is set */
    struct continuation next; /* a scan ends only when !next.more */
};
void page_init(struct page *page);
void page_done(struct page *page);
void page_clear(struct page *page); /* empty; keeps memory */

enum operation_type {
    OPERATION_INSERT,  /* the entity must not exist */
    OPERATION_REPLACE, /* needs an ETag                                    */
    OPERATION_MERGE,   /* needs an ETag                                    */
    OPERATION_DELETE,  /* needs an ETag; properties are ignored            */
};

struct operation {
    enum operation_type type;
    struct entity entity; /* entity.etag is the condition; empty only for an
                             insert; "*" is refused (TW_INVALID) */
};

struct batch {
    const char *table;
    const struct operation *operations; /* 1..100, one PartitionKey, each
                                           RowKey once */
    size_t count;
};

struct batch_result {
    size_t failed; /* when refused: index of the operation that failed;
                      batch.count: unknown */
    char etags[BATCH_MAX_OPERATIONS][96]; /* on TW_OK, "" after a delete */
};

/* ---- queues ---- */

struct message {
    struct slice id;
    struct slice pop_receipt; /* empty after a peek */
    struct slice text;        /* as stored in the queue */
    int64_t inserted_ticks;   /* InsertionTime, whole seconds */
    int64_t next_visible_ticks;
    int64_t dequeue_count;
};

struct messages {
    struct arena arena; /* the messages live here */
    struct message list[QUEUE_MAX_GET];
    size_t count;
};
void messages_init(struct messages *messages);
void messages_done(struct messages *messages);

/* A pop receipt kept after its response is freed. */
#define QUEUE_RECEIPT_MAX 256
#define QUEUE_ID_MAX 128

/* ---- the table of functions ---- */

struct watch;

/* Each has its own endpoint and circuit breaker. */
enum store_service { SERVICE_TABLES, SERVICE_QUEUES, STORE_SERVICES };

struct store {
    const struct store_ops
        *ops; /* first member of every implementation's struct */
    struct store_capabilities capabilities;
    const char *name; /* as in the configuration; for messages */
    struct breaker
        breakers[STORE_SERVICES]; /* while one is open, requests except probes
                                     are not sent and end with TW_BUSY */
    bool read_only; /* every change is refused (TW_INVALID) before it is sent;
                       set before the first call */
    _Atomic bool failed; /* the last request of any thread had no response, or
                            was refused */
    struct silence silence; /* of its tables; guarded by the lock of the request
                               pool that serves its runs */
    _Atomic bool date_locked;    /* spin lock for dated, held during a copy */
    struct lease_response dated; /* see store_last_date() */
};

/* store_last_date: the newest response of the table service with a Date, of any
 * thread; false: there was none. */
bool store_last_date(struct store *store, struct lease_response *ret);

/* store_same: do both stores have the same tables? */
bool store_same(const struct store *a, const struct store *b);

struct store_ops {
    enum tw_err (*create_table)(
        struct store *, struct exchange *, const char *table);
    enum tw_err (*list_tables)(struct store *, struct exchange *,
        struct continuation from, struct page *ret);
    enum tw_err (*scan)(struct store *, struct exchange *,
        const struct scan_request *, struct page *ret);
    enum tw_err (*get)(struct store *, struct exchange *, const char *table,
        struct slice partition_key, struct slice row_key, struct page *ret);
    enum tw_err (*batch)(struct store *, struct exchange *,
        const struct batch *, struct batch_result *ret);
    enum tw_err (*queue_create)(
        struct store *, struct exchange *, const char *queue);
    enum tw_err (*queue_put)(struct store *, struct exchange *,
        const char *queue, struct slice text, int64_t hide_s,
        struct messages *ret);
    enum tw_err (*queue_get)(struct store *, struct exchange *,
        const char *queue, unsigned count, int64_t visibility_timeout_s,
        struct messages *ret);
    enum tw_err (*queue_renew)(struct store *, struct exchange *,
        const char *queue, struct slice id, char *pop_receipt, int64_t hide_s);
    enum tw_err (*queue_delete)(struct store *, struct exchange *,
        const char *queue, struct slice id, struct slice pop_receipt);
    enum tw_err (*queue_peek)(struct store *, struct exchange *,
        const char *queue, unsigned count, struct messages *ret);
    enum tw_err (*queue_count)(
        struct store *, struct exchange *, const char *queue, int64_t *ret);
    /* NULL: not supported */
    struct watch *(*watch)(
        struct store *, void (*changed)(void *context), void *context);
    void (*close)(struct store *);
};

/*
 * store_create_table: TW_OK also if it exists. TW_BUSY while a table of that
 * name is being deleted.
 */
TW_MUST_USE enum tw_err store_create_table(
    struct store *store, struct exchange *exchange, const char *table);

/* store_list_tables: one page; each name is the partition_key of an entity. */
TW_MUST_USE enum tw_err store_list_tables(struct store *store,
    struct exchange *exchange, struct continuation from, struct page *ret);

/*
 * store_scan: one page. ret's former content is discarded. request->from may
 * point into ret. TW_NOT_FOUND: the table does not exist. TW_BUSY also for a
 * page whose continuation repeats an earlier one.
 */
TW_MUST_USE enum tw_err store_scan(struct store *store,
    struct exchange *exchange, const struct scan_request *request,
    struct page *ret);

/*
 * store_get: one entity with all its properties as ret->entities[0].
 * TW_NOT_FOUND: the entity does not exist, or the table does not; then
 * exchange->err names the table. ret->count is 0.
 */
TW_MUST_USE enum tw_err store_get(struct store *store,
    struct exchange *exchange, const char *table, struct slice partition_key,
    struct slice row_key, struct page *ret);

/*
 * store_batch: apply one entity group transaction, in order, all or nothing.
 *
 * TW_OK         all applied; ret->etags are set.
 * TW_CONFLICT   none applied: the entity of operation ret->failed exists
 *               already, or has another ETag.
 * TW_NOT_FOUND  none applied: the entity of operation ret->failed, or the
 *               table, does not exist.
 * TW_UNKNOWN    sent, no response. Read the entities, then decide.
 * TW_TOO_LARGE  none applied: operation ret->failed is too large, or the
 *               whole batch if ret->failed is batch->count.
 * TW_INVALID    none applied: operation ret->failed can never succeed.
 * ret->failed is set on every return but TW_OK.
 *
 * Source: Table service REST, "Performing entity group transactions".
 */
TW_MUST_USE enum tw_err store_batch(struct store *store,
    struct exchange *exchange, const struct batch *batch,
    struct batch_result *ret);

/* store_queue_create: TW_OK also if it exists. */
TW_MUST_USE enum tw_err store_queue_create(
    struct store *store, struct exchange *exchange, const char *queue);

/*
 * store_queue_put: put a message that never expires, first visible after hide_s
 * seconds. ret has its id, pop_receipt and inserted_ticks as list[0].
 * TW_TOO_LARGE: over 64 KiB. TW_INVALID: the text cannot be sent as XML.
 */
TW_MUST_USE enum tw_err store_queue_put(struct store *store,
    struct exchange *exchange, const char *queue, struct slice text,
    int64_t hide_s, struct messages *ret);

/* store_queue_get: up to count (1..32) messages, hidden for
 * visibility_timeout_s (1..604800). TW_OK with none: the queue is empty. */
TW_MUST_USE enum tw_err store_queue_get(struct store *store,
    struct exchange *exchange, const char *queue, unsigned count,
    int64_t visibility_timeout_s, struct messages *ret);

/*
 * store_queue_renew: hide the message for hide_s more seconds from now (0:
 * visible at once). On TW_OK pop_receipt (QUEUE_RECEIPT_MAX bytes) is replaced
 * by the new one. TW_CONFLICT: the receipt is no longer valid, or the message
 * was deleted.
 */
TW_MUST_USE enum tw_err store_queue_renew(struct store *store,
    struct exchange *exchange, const char *queue, struct slice id,
    char *pop_receipt, int64_t hide_s);

/* store_queue_delete: TW_CONFLICT as above. */
TW_MUST_USE enum tw_err store_queue_delete(struct store *store,
    struct exchange *exchange, const char *queue, struct slice id,
    struct slice pop_receipt);

/* store_queue_peek: the first visible messages; nothing is hidden. */
TW_MUST_USE enum tw_err store_queue_peek(struct store *store,
    struct exchange *exchange, const char *queue, unsigned count,
    struct messages *ret);

/* store_queue_count: number of messages, hidden ones included; never too
 * low. */
TW_MUST_USE enum tw_err store_queue_count(struct store *store,
    struct exchange *exchange, const char *queue, int64_t *ret);

/*
 * store_watch: call changed(context) soon after another process has written to
 * the store (watch.h), and after writes of this process. Ended by watch_end(),
 * before store_close(). NULL: not supported by this store.
 */
struct watch *store_watch(
    struct store *store, void (*changed)(void *context), void *context);

/* store_close: no call may be in flight. NULL: does nothing. */
void store_close(struct store *store);

/* store_check_etag: is it valid as a condition: printable ASCII, not "*"? */
TW_MUST_USE enum tw_err store_check_etag(struct slice etag, struct err *err);

/* store_check_queue: 3-63 of a-z 0-9 -, alphanumeric ends, no --. */
TW_MUST_USE enum tw_err store_check_queue(struct slice name, struct err *err);

#endif
