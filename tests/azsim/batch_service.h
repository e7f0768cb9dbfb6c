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

/* batch_service_answer: carries out the batch and answers it. Called with the
 * account's lock held. If an operation is refused, the answer says so and
 * FAIL_NONE is returned. Any other failure is a refusal of the whole request,
 * which the caller must answer. */
enum failure batch_service_answer(struct azsim *azsim, struct account *account,
    struct http_exchange *exchange);

#endif
