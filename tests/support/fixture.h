/* SPDX-License-Identifier: MIT */
/*
 * The fixture of a test of a store: a new table and a new queue, and short
 * functions that fill and read them. If such a function fails, the test ends.
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
    struct arena arena; /* for the values that a test makes */
};

/* fixture_init: creates the table and the queue, with names that were never
 * used. */
void fixture_init(struct fixture *f, struct store *store);
void fixture_done(struct fixture *f);

/* fixture_name: writes "prefix" and random hex digits to `to`, which has room
 * for 40 bytes. */
void fixture_name(const char *prefix, char *to);

/* check: fails unless the outcome of a store call, made with f->exchange, is
 * `expected`. */
#define check(f, expected, call)                                               \
    fixture_check((f), (expected), (call), #call, __FILE__, __LINE__)
void fixture_check(const struct fixture *f, enum tw_err expected,
    enum tw_err outcome, const char *call, const char *file, int line);

/* check_text: fails unless the two texts are equal, and shows both. */
#define check_text(a, b) fixture_check_text((a), (b), __FILE__, __LINE__)
void fixture_check_text(
    struct slice a, struct slice b, const char *file, int line);

/* fixture_entity: returns an entity with these keys and properties. properties:
 * the service's JSON without its braces, such as "\"A\":1,\"B\":true". The
 * entity lives in f->arena. */
struct entity fixture_entity(struct fixture *f, const char *partition_key,
    const char *row_key, const char *properties);

/* fixture_operation: returns an operation on an entity like that of
 * fixture_entity(); etag may be NULL. */
struct operation fixture_operation(struct fixture *f, enum operation_type type,
    const char *partition_key, const char *row_key, const char *etag,
    const char *properties);

/* fixture_send: sends one batch. Returns the outcome without a check. */
enum tw_err fixture_send(
    struct fixture *f, const struct operation *operations, size_t count);

/* fixture_change: sends a batch of one operation. Returns the outcome. */
enum tw_err fixture_change(struct fixture *f, enum operation_type type,
    const char *partition_key, const char *row_key, const char *etag,
    const char *properties);

/* fixture_insert: inserts an entity, or fails. Returns its ETag, in
 * f->arena. */
const char *fixture_insert(struct fixture *f, const char *partition_key,
    const char *row_key, const char *properties);

/* fixture_fill: inserts `count` entities "0000", "0001", ... into a partition,
 * in batches, each with the property Number (Int32). */
void fixture_fill(struct fixture *f, const char *partition_key, unsigned count);

/* fixture_get: returns the entity, or fails if it is not there. It lives until
 * the next call. */
const struct entity *fixture_get(
    struct fixture *f, const char *partition_key, const char *row_key);

/* fixture_scan: reads one page into f->page, of the fixture's table. Returns
 * the outcome. */
enum tw_err fixture_scan(struct fixture *f, struct scan_request request);

/* fixture_keys: scans the fixture's table from its beginning to its end.
 * Returns the keys "pk/rk pk/rk ..." in the order of the answers, in
 * f->arena. */
const char *fixture_keys(struct fixture *f, struct scan_request request);

/* fixture_all: returns the fixture_keys() of the whole table. */
const char *fixture_all(struct fixture *f);

/* fixture_json: returns the properties of an entity as JSON, in f->arena. */
struct slice fixture_json(struct fixture *f, const struct entity *entity);

/* check_keys: fails unless a scan to its end finds these keys, written as
 * fixture_keys() writes them.
 * check_all: the same for the whole table.
 * check_json: fails unless the entity is there and has these properties. */
#define check_keys(f, request, keys)                                           \
    check_text(slice_of(fixture_keys((f), (request))), slice_of(keys))
#define check_all(f, keys) check_text(slice_of(fixture_all(f)), slice_of(keys))
#define check_json(f, partition_key, row_key, json)                            \
    check_text(                                                                \
        fixture_json((f), fixture_get((f), (partition_key), (row_key))),       \
        slice_of(json))

#endif
