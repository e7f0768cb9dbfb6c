/* SPDX-License-Identifier: MIT */
/*
 * The rates of all accounts and of their partitions (rate.h). A refusal does
 * not say which of the two limits was met; it is taken for the partition's
 * where that is refused far more often than others of its account, or where
 * most of the account's requests are for it. The caller has the lock.
 */
#ifndef TW_STORE_RATE_LIMITER_H
#define TW_STORE_RATE_LIMITER_H

#include <stdint.h>

#include "worker/store/rate.h"
#include "worker/store/store.h"

struct rate_limiter;
struct rate_account;

struct rate_limiter *rate_limiter_new(void); /* owned */
void rate_limiter_free(struct rate_limiter *limiter);

/* rate_limiter_account: of that store, whatever configurations call it, for the
 * limiter's life. */
struct rate_account *rate_limiter_account(
    struct rate_limiter *limiter, const struct store *store);

/* What a request counts against. */
struct rate_key {
    struct rate_account *account; /* NULL: nothing is limited */
    uint64_t partition; /* a hash of table and PartitionKey; 0: of none, or of
                           many */
};

/* rate_limiter_partition: of a key, never 0. */
uint64_t rate_limiter_partition(const char *table, struct slice partition_key);

/* As in rate.h, for both rates together. */
int64_t rate_limiter_free_ms(
    struct rate_limiter *limiter, struct rate_key key, int64_t now_ms);
unsigned rate_limiter_page(struct rate_limiter *limiter, struct rate_key key);
void rate_limiter_send(struct rate_limiter *limiter, struct rate_key key,
    int64_t now_ms, unsigned entities);
void rate_limiter_answered(struct rate_limiter *limiter, struct rate_key key,
    const struct rate_answer *answer);

#endif
