/* SPDX-License-Identifier: MIT */
/*
 * Entity group transactions: POST /$batch.
 *
 * Source: Table service REST, "Performing entity group transactions"; recorded
 * answers.
 */
#ifndef TW_AZSIM_BATCH_SERVICE_H
#define TW_AZSIM_BATCH_SERVICE_H

#include "tests/azsim/failure.h"

struct account;
struct azsim;
struct http_exchange;

/* batch_service_answer: carries out the batch. Called with the account's lock
 * held. FAIL_NONE: it has written the answer, which may be that an operation
 * was refused. Any other failure refuses the whole request; the caller must
 * write the answer. */
enum failure batch_service_answer(struct azsim *azsim, struct account *account,
    struct http_exchange *exchange);

#endif
