/* SPDX-License-Identifier: MIT */
/*
 * The store contract: tables and queues with Azure's semantics. Two
 * implementations (azure/, embedded/) implement one table of functions and pass
 * one conformance suite. Every call makes one exchange without retries
 * (request_pool.h retries). The outcome of a call is done, not done, or
 * indeterminate (err.h). Any thread may make any call.
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
#include "worker/base/spin_lock.h"
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

/* The length of a W3C traceparent of version 00. */
#define TRACEPARENT_LEN 55

/*
 * One exchange: its limits, and what is known after it. The caller sets
 * deadline, traceparent and gives_up; the store sets the rest on every return.
 */
struct exchange {
    const struct deadline *deadline; /* borrowed; NULL: there is no deadline */
    const char
        *traceparent; /* the run's W3C traceparent, for the service's own logs:
                         at most TRACEPARENT_LEN bytes; borrowed; NULL: none */
    int64_t sent_ms;  /* platform_boot_ms() at sending; 0: not sent */
    int64_t began_ms; /* platform_boot_ms() when the store was given the
                         request, which may be sent later */
    int64_t date_ticks; /* the service's clock in the response; 0: no response,
                           or no Date of the service. Azure's Date has whole
                           seconds */
    int64_t retry_after_ms; /* the service's Retry-After; -1: none */
    int http_status;   /* HTTP status of the response; 0: no HTTP response */
    bool breaker_open; /* the store counts as not responding (circuit breaker,
                          silence.h, no access token). Either nothing was sent,
                          or the exchange failed and later exchanges are refused
                        */
    bool reached;      /* this exchange or an earlier exchange sent a request to
                          the service */
    /* The store calls gives_up about once a second until the whole response has
     * arrived; comes: a part arrived since the last call. If gives_up returns
     * true the store gives the request up; the outcome of a request that was
     * sent is then indeterminate. NULL: never given up. */
    bool (*gives_up)(void *context, bool comes);
    void *context;
    bool hurried;   /* set by gives_up: given up because the run stops, which
                       shows nothing about the service */
    struct err err; /* the error text, unless the outcome is TW_OK */
};

/* For how long, in ms, a request that was given up may still be applied: the
 * service ends every request after 30 s. */
#define STORE_LATE_REQUEST_MS 30000

/* Capabilities of a store. */
struct store_capabilities {
    const char *kind; /* kind of the store: "embedded" or "azure" */
    bool ordered; /* scans return keys in UTF-16 ordinal order (false for Cosmos
                     DB) */
    bool has_queues;  /* false: no queue service (Cosmos DB, or no queue
                         endpoint) */
    bool late_writes; /* a request that was given up may still be applied up to
                         STORE_LATE_REQUEST_MS later */
    bool local; /* the store and its writers are on this machine; writers take
                   dates from the wall clock, not from the store's Date */
    size_t batch_max_bytes;
    const char *endpoint; /* two stores with the same endpoint (ignoring case)
                             have the same tables; NULL: no other store has the
                             tables of this store. Lives as long as the store */
    const char *acts_as;  /* description, for messages, of the identity whose
                             access tokens the requests carry; NULL: none. Lives
                             as long as the store */
    /* Identifies the account or the embedded file: permanent, unique, and the
     * same whatever the configuration calls the store. Not a secret; at most
     * STORE_IDENTITY_MAX bytes. NULL: unknown. Lives as long as the store. */
    const char *identity;
    const char *account_name;  /* account_public_name(); NULL: unknown, or no
                                  Azure account. Equal names show only that two
                                  stores may be one account. One account may
                                  have several hosts (a private endpoint, a
                                  custom domain, an address), and so several
                                  identities. But accounts of two clouds may
                                  have one name. So use account_name only where
                                  a wrong match costs little, for instance makes
                                  a job wait. Lives as long as the store */
    const char *cloud_account; /* account_in_cloud(), the account's name with
                                  its cloud: equal under every host of one
                                  account, and different for two accounts. NULL
                                  if account_name is NULL. Lives as long as the
                                  store */
};

/* ---- tables ---- */

/* A range of PartitionKeys or RowKeys. Without from and below: every key. */
struct key_range {
    bool has_from, has_below;
    bool from_exclusive;      /* the key `from` itself is excluded */
    bool exact;               /* `from` is the only key of the range; `below` is
                                 ignored */
    struct slice from, below; /* the range: from <= key < below */
};

/* key_range_exact: make a range of only `key`. key_range_prefix: make a range
 * that contains all keys that begin with prefix, in UTF-16 and in code point
 * order. The range may contain other keys, so the caller tests each key. An
 * upper bound that must be built lives in arena. */
struct key_range key_range_exact(struct slice key);
struct key_range key_range_prefix(struct slice prefix, struct arena *arena);
/* key_range_between: make a range that contains all keys with from <= key <
 * below in UTF-16 order, the order of the service. In a store that sorts by
 * code points, the range contains these keys too. The range may contain other
 * keys, so the caller tests each key. NULL: no bound. */
struct key_range key_range_between(
    const struct slice *from, const struct slice *below, struct arena *arena);
/* key_range_has: is key in range, in UTF-16 order? */
bool key_range_has(const struct key_range *range, struct slice key);

/* The service's continuation token, opaque. more is false: the beginning of a
 * scan, or no further page. */
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
    struct slice filter;        /* OData, or empty */
    const struct slice *select; /* names of the properties to return; both keys
                                   are always returned; NULL: all properties */
    size_t select_count;
    unsigned top;     /* maximum number of entities, 1..1000; 0: 1000 */
    size_t max_bytes; /* maximum size of the response; 0: 32 MiB. A larger
                         response: TW_TOO_LARGE; a smaller top may succeed */
    bool damaged_too; /* return a stored but unreadable entity with its keys,
                         without ETag and properties, regardless of the filter;
                         false: such an entity fails the scan */
    struct continuation from; /* start; .more false: from the beginning */
    /* If the start of the next page becomes known before this page has arrived,
     * store_scan() calls follows, once, on the calling thread. next is borrowed
     * during the call. This page may still fail. NULL: no call. */
    void (*follows)(void *context, const struct continuation *next);
    void *context;
};

/* Call page_init before first use; page_done frees. A page can be filled again
 * and then reuses its memory. */
struct page {
    struct arena arena; /* memory of the entities */
    struct buf body;    /* the response body, into which entities may point */
    struct entity *entities;
    size_t count;             /* may be 0 though next.more is set */
    struct continuation next; /* a scan ends only when !next.more. The texts of
                                 next live until a request that succeeds fills
                                 the page, so that a failed request can be made
                                 again with the same `from` */
    struct arena next_arena;  /* used by store.c only: memory of next */
};
void page_init(struct page *page);
void page_done(struct page *page);
void page_clear(struct page *page); /* removes the content; keeps memory */

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
    const struct operation *operations; /* 1 to 100 operations with the same
                                           PartitionKey and different RowKeys */
    size_t count;
};

struct batch_result {
    size_t failed; /* index of the operation for which the batch was refused;
                      batch.count: unknown */
    char etags[BATCH_MAX_OPERATIONS][96]; /* on TW_OK the new ETag of each
                                             entity; "" after a delete */
};

/* ---- queues ---- */

struct message {
    struct slice id;
    struct slice pop_receipt; /* empty after a peek */
    struct slice text;        /* body of the message, as stored in the queue */
    int64_t inserted_ticks;   /* InsertionTime of the message, rounded to whole
                                 seconds */
    int64_t next_visible_ticks;
    int64_t dequeue_count;
};

struct messages {
    struct arena arena; /* memory of the messages */
    struct message list[QUEUE_MAX_GET];
    size_t count;
};
void messages_init(struct messages *messages);
void messages_done(struct messages *messages);

/* Sizes of the buffers for a pop receipt and for a message id, NUL included. */
#define QUEUE_RECEIPT_MAX 256
#define QUEUE_ID_MAX 128

/* ---- the table of functions ---- */

struct meter;
struct watch;

/* The services of a store. Each has its own endpoint and circuit breaker. */
enum store_service { SERVICE_TABLES, SERVICE_QUEUES, STORE_SERVICES };

struct store {
    /* Functions of the implementation, whose own struct begins with a struct
     * store. */
    const struct store_ops *ops;
    struct store_capabilities capabilities;
    const char *name; /* name of the store in the configuration; for messages */
    struct meter
        *meter; /* counts the requests (meter.h); NULL: they are not counted */
    /* While the breaker of a service is open only probes are sent; all other
     * requests to the service end with TW_BUSY. */
    struct breaker breakers[STORE_SERVICES];
    bool read_only; /* every change is refused (TW_INVALID) before it is sent;
                       set before the first call */
    _Atomic bool failed; /* the last request of any thread ended with TW_BUSY,
                            TW_UNKNOWN, TW_REFUSED or TW_FORBIDDEN */
    /* Silence of the table service; guarded by the lock of the request pool. */
    struct silence silence;
    struct spin_lock dated_lock;
    struct lease_response dated; /* see store_last_date(); guarded by dated_lock
                                  */
};

/* store_last_date: get the newest response with a Date that any thread got from
 * the table service; false: no such response yet. */
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
    enum tw_err (*give_back)(struct store *, struct exchange *, bool *ret_more);
    struct watch *(*watch)(
        struct store *, void (*changed)(void *context), void *context);
    void (*share_credential)(struct store *, struct store *former);
    void (*close)(struct store *);
};

/*
 * store_create_table: create a table. TW_OK also if the table exists. TW_BUSY
 * while a table of that name is being deleted.
 */
TW_MUST_USE enum tw_err store_create_table(
    struct store *store, struct exchange *exchange, const char *table);

/* store_list_tables: read one page of the names of tables; each name is the
 * partition_key of an entity. */
TW_MUST_USE enum tw_err store_list_tables(struct store *store,
    struct exchange *exchange, struct continuation from, struct page *ret);

/*
 * store_scan: read one page of entities. ret's former content is discarded.
 * request->from may point into ret. TW_NOT_FOUND: the table does not exist.
 * TW_BUSY also if the page's continuation repeats an earlier one, so that the
 * scan would never end.
 */
TW_MUST_USE enum tw_err store_scan(struct store *store,
    struct exchange *exchange, const struct scan_request *request,
    struct page *ret);

/*
 * store_get: read one entity with all its properties into ret->entities[0].
 * TW_NOT_FOUND: the entity or the table does not exist, and ret->count is 0;
 * exchange->err names a table that does not exist.
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

/*
 * store_give_back: give a little of the unused space of the store's file back
 * to the file system. For some milliseconds, other threads and processes cannot
 * write. *ret_more: more space can be given back, call again soon; false for a
 * store without a file, or with little unused space.
 */
TW_MUST_USE enum tw_err store_give_back(
    struct store *store, struct exchange *exchange, bool *ret_more);

/* store_queue_create: create a queue. TW_OK also if the queue exists. */
TW_MUST_USE enum tw_err store_queue_create(
    struct store *store, struct exchange *exchange, const char *queue);

/*
 * store_queue_put: put a message that never expires, first visible after hide_s
 * seconds. ret->list[0] has the message's id, pop_receipt and inserted_ticks.
 * TW_TOO_LARGE: over 64 KiB. TW_INVALID: the text cannot be sent as XML.
 */
TW_MUST_USE enum tw_err store_queue_put(struct store *store,
    struct exchange *exchange, const char *queue, struct slice text,
    int64_t hide_s, struct messages *ret);

/* store_queue_get: get up to count (1..32) messages, and hide them for
 * visibility_timeout_s (1..604800). TW_OK without messages: no message is
 * visible. */
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

/* store_queue_delete: delete the message. TW_CONFLICT as for
 * store_queue_renew(). */
TW_MUST_USE enum tw_err store_queue_delete(struct store *store,
    struct exchange *exchange, const char *queue, struct slice id,
    struct slice pop_receipt);

/* store_queue_peek: read up to count visible messages, and hide none. */
TW_MUST_USE enum tw_err store_queue_peek(struct store *store,
    struct exchange *exchange, const char *queue, unsigned count,
    struct messages *ret);

/* store_queue_count: count the messages, hidden ones included; the result is
 * never too low. */
TW_MUST_USE enum tw_err store_queue_count(struct store *store,
    struct exchange *exchange, const char *queue, int64_t *ret);

/* store_account: return a text that identifies the account, or the file of an
 * embedded store, whatever the configuration calls the store. The text is the
 * identity; if that is unknown, the endpoint; if that is unknown too, the
 * store's name. Borrowed from store. */
const char *store_account(const struct store *store);

/* store_is_one: are both the same embedded file, or the same account, under
 * whatever host name? */
bool store_is_one(const struct store *a, const struct store *b);

/*
 * store_share_credential: call when `store` replaces former because the
 * configuration was read again, before another thread uses store. From now on
 * both send requests with the credential of `store`. If another store replaces
 * `store` later, all of them send requests with the newest credential. No
 * effect if the two stores are not of one account, or have no key or SAS
 * (embedded stores; stores with access tokens).
 */
void store_share_credential(struct store *store, struct store *former);

/*
 * store_watch: call changed(context) soon after another process has written to
 * the store (watch.h), and after writes of this process. Call watch_end()
 * before store_close(). NULL: not supported by this store.
 */
struct watch *store_watch(
    struct store *store, void (*changed)(void *context), void *context);

/* store_explain: add to the err of an outcome the store's name and, if the
 * store could not be reached, what to check. */
void store_explain(
    const struct store *store, enum tw_err outcome, struct err *err);

/* store_close: call when no other call is in flight. Does nothing if given
 * NULL. */
void store_close(struct store *store);

/* store_check_etag: check that etag is valid as a condition: printable ASCII,
 * and not "*". */
TW_MUST_USE enum tw_err store_check_etag(struct slice etag, struct err *err);

/* store_check_queue: check that name is a valid queue name, which is 3 to 63 of
 * a-z, 0-9 and -, beginning and ending with a letter or digit, without --. */
TW_MUST_USE enum tw_err store_check_queue(struct slice name, struct err *err);

#endif
