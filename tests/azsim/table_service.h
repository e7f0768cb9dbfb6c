/* SPDX-License-Identifier: MIT */
/* The table service: from a request with a good signature to its answer. */
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

/* table_service_answer: with the account's lock held. */
void table_service_answer(struct azsim *azsim, struct account *account,
    struct http_exchange *exchange);

/* For batches, which hold requests of the same kind. */

/* table_service_charge: FAIL_SERVER_BUSY or FAIL_TIMED_OUT where so many
 * entities are more than the limits allow now. partition_key.at NULL: of no
 * single partition. */
enum failure table_service_charge(struct azsim *azsim,
    struct http_exchange *exchange, struct slice table,
    struct slice partition_key, int64_t entities);

/* table_service_base: http://host/account, in the exchange's arena. */
struct slice table_service_base(struct http_exchange *exchange);

/* table_service_get: add one entity as a Get answers; *ret_etag lives in the
 * exchange's arena. */
enum failure table_service_get(struct account *account,
    struct http_exchange *exchange, enum metadata metadata, struct slice table,
    struct slice partition_key, struct slice row_key, struct buf *to,
    const char **ret_etag);

/* table_service_method: MERGE for a POST with X-HTTP-Method: MERGE. */
const char *table_service_method(const char *method, struct slice override);

#endif
