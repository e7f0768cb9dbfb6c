/* SPDX-License-Identifier: MIT */
/* The queue service: answers a request whose signature is right. */
#ifndef TW_AZSIM_QUEUE_SERVICE_H
#define TW_AZSIM_QUEUE_SERVICE_H

struct account;
struct azsim;
struct http_exchange;

/* queue_service_init: called once, before any thread exists. */
void queue_service_init(void);

/* queue_service_answer: carries out a request and answers it. Called with the
 * account's lock held. */
void queue_service_answer(struct azsim *azsim, struct account *account,
    struct http_exchange *exchange);

#endif
