/* SPDX-License-Identifier: MIT */
/* The table service: answers a request whose signature is right. */
#ifndef TW_AZSIM_TABLE_SERVICE_H
#define TW_AZSIM_TABLE_SERVICE_H

#include <stdint.h>

#include "tests/azsim/entity_json.h"
#include "tests/azsim/failure.h"
#include "worker/base/buf.h"
#include "worker/base/slice.h"

struct account;
struct azsim;
struct http_exchange;

/* table_service_answer: carries out a request and answers it. Called with the
 * account's lock held. */
void table_service_answer(struct azsim *azsim, struct account *account,
    struct http_exchange *exchange);

/* For the requests inside batches. */

/* table_service_charge: counts `entities` entities for the limits.
 * FAIL_SERVER_BUSY, FAIL_TIMED_OUT: they are more than the limits allow now.
 * partition_key.at NULL: they are not of a single partition. */
enum failure table_service_charge(struct azsim *azsim,
    struct http_exchange *exchange, struct slice table,
    struct slice partition_key, int64_t entities);

/* table_service_base: returns http://host/account, in the exchange's arena. */
struct slice table_service_base(struct http_exchange *exchange);

/* table_service_get: adds one entity to `to`, as the answer to a Get; *ret_etag
 * lives in the exchange's arena. */
enum failure table_service_get(struct account *account,
    struct http_exchange *exchange, enum metadata metadata, struct slice table,
    struct slice partition_key, struct slice row_key, struct buf *to,
    const char **ret_etag);

/* table_service_method: returns MERGE for a POST with X-HTTP-Method: MERGE,
 * else method. */
const char *table_service_method(const char *method, struct slice override);

#endif
