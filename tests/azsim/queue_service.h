/* SPDX-License-Identifier: MIT */
/* The queue service: from a request with a good signature to its answer. */
#ifndef TW_AZSIM_QUEUE_SERVICE_H
#define TW_AZSIM_QUEUE_SERVICE_H

struct account;
struct azsim;
struct http_exchange;

/* queue_service_init: once, before any thread. */
void queue_service_init(void);

/* queue_service_answer: with the account's lock held. */
void queue_service_answer(struct azsim *azsim, struct account *account,
    struct http_exchange *exchange);

#endif
