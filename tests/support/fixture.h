/* SPDX-License-Identifier: MIT */
/*
 * What a test of a store begins with: a table and a queue of its own, and
 * short ways to fill and read them. A helper that fails ends the test.
 */
#ifndef TW_TESTS_SUPPORT_FIXTURE_H
#define TW_TESTS_SUPPORT_FIXTURE_H

#include "tests/support/test.h"
#include "worker/store/store.h"

struct fixture {
    struct store *store; /* borrowed */
    char table[40], queue[40];
    struct exchange exchange; /* of the last call */
    struct page page;
    struct messages messages;
    struct batch_result result;
    struct arena arena; /* for what a test makes */
};

/* fixture_init: creates the table and the queue, with names never used. */
void fixture_init(struct fixture *f, struct store *store);
void fixture_done(struct fixture *f);

/* fixture_name: "prefix" and random hex digits; room for 40 bytes. */
void fixture_name(const char *prefix, char *to);

/* check: a store call on f->attempt that must come out as expected. */
#define check(f, expected, call)                                               \
    fixture_check((f), (expected), (call), #call, __FILE__, __LINE__)
void fixture_check(const struct fixture *f, enum tw_err expected,
    enum tw_err code, const char *call, const char *file, int line);

/* check_text: two texts are the same; both are shown where not. */
#define check_text(a, b) fixture_check_text((a), (b), __FILE__, __LINE__)
void fixture_check_text(
    struct slice a, struct slice b, const char *file, int line);

/* fixture_entity: keys, and the properties in text: service JSON without its
 * braces, "\"A\":1,\"B\":true". Lives in f->arena. */
struct entity fixture_entity(struct fixture *f, const char *partition_key,
    const char *row_key, const char *properties);

/* fixture_operation: the same as an operation; etag may be NULL. */
struct operation fixture_operation(struct fixture *f, enum operation_type type,
    const char *partition_key, const char *row_key, const char *etag,
    const char *properties);

/* fixture_send: one batch; the outcome is the caller's to check. */
enum tw_err fixture_send(
    struct fixture *f, const struct operation *operations, size_t count);

/* fixture_change: a batch of one operation. Returns the outcome. */
enum tw_err fixture_change(struct fixture *f, enum operation_type type,
    const char *partition_key, const char *row_key, const char *etag,
    const char *properties);

/* fixture_insert: must succeed. Returns the ETag, in f->arena. */
const char *fixture_insert(struct fixture *f, const char *partition_key,
    const char *row_key, const char *properties);

/* fixture_fill: count entities "0000", "0001", ... in a partition, each with
 * Number (Int32), in batches. */
void fixture_fill(struct fixture *f, const char *partition_key, unsigned count);

/* fixture_get: the entity, which must be there; lives until the next call. */
const struct entity *fixture_get(
    struct fixture *f, const char *partition_key, const char *row_key);

/* fixture_scan: one page, into f->page; request's table is set here. Returns
 * the outcome. */
enum tw_err fixture_scan(struct fixture *f, struct scan_request request);

/* fixture_keys: follow a scan to its end: "pk/rk pk/rk ..." in the order they
 * came, in f->arena. request's table and from are set here. */
const char *fixture_keys(struct fixture *f, struct scan_request request);

/* fixture_all: fixture_keys of the whole table. */
const char *fixture_all(struct fixture *f);

/* fixture_json: the properties of an entity as JSON, in f->arena. */
struct slice fixture_json(struct fixture *f, const struct entity *entity);

/* check_keys: a scan to its end finds these keys, as fixture_keys() writes
 * them. check_all: the whole table has them. check_json: that entity, which
 * must be there, has these properties. */
#define check_keys(f, request, keys)                                           \
    check_text(slice_of(fixture_keys((f), (request))), slice_of(keys))
#define check_all(f, keys) check_text(slice_of(fixture_all(f)), slice_of(keys))
#define check_json(f, partition_key, row_key, json)                            \
    check_text(                                                                \
        fixture_json((f), fixture_get((f), (partition_key), (row_key))),       \
        slice_of(json))

#endif
