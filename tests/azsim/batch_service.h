/* SPDX-License-Identifier: MIT */
/*
 * Entity group transactions: POST /$batch.
 *
 * Source: Table service REST, "Performing entity group transactions"; recorded
 * answers for what comes back.
 */
#ifndef TW_AZSIM_BATCH_SERVICE_H
#define TW_AZSIM_BATCH_SERVICE_H

#include "tests/azsim/failure.h"

struct account;
struct azsim;
struct http_exchange;

/* batch_service_answer: with the account's lock held. A refusal of an
 * operation is an answer of its own (FAIL_NONE); what is returned otherwise is
 * the outer answer. */
enum failure batch_service_answer(struct azsim *azsim, struct account *account,
    struct http_exchange *exchange);

#endif
