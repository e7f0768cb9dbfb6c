/* SPDX-License-Identifier: MIT */
/*
 * The rates of all accounts and of their partitions (rate.h). A refusal does
 * not say which of the two limits was exceeded. A refusal counts for the
 * partition if the partition is refused far more often than others of its
 * account, or receives most of the account's requests; otherwise for the
 * account. Hold one lock for all calls.
 */
#ifndef TW_STORE_RATE_LIMITER_H
#define TW_STORE_RATE_LIMITER_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/store/rate.h"
#include "worker/store/store.h"

struct rate_limiter;
struct rate_account;

struct rate_limiter *rate_limiter_new(void); /* owned */
void rate_limiter_free(struct rate_limiter *limiter);

/* rate_limiter_account: return the account of store. If the configuration names
 * several stores of one account, the result is the same for all of them. It
 * lives as long as limiter. */
struct rate_account *rate_limiter_account(
    struct rate_limiter *limiter, const struct store *store);

/* The account and the partition to whose rates a request counts. */
struct rate_key {
    struct rate_account *account; /* NULL: no limit */
    uint64_t partition; /* hash of table and PartitionKey; 0: none or several */
};

/* rate_limiter_partition: return the hash of a partition, never 0. */
uint64_t rate_limiter_partition(const char *table, struct slice partition_key);

/* As in rate.h, applied to the rates of account and partition together. */
int64_t rate_limiter_free_ms(
    struct rate_limiter *limiter, struct rate_key key, int64_t now_ms);
unsigned rate_limiter_page(struct rate_limiter *limiter, struct rate_key key);
void rate_limiter_send(struct rate_limiter *limiter, struct rate_key key,
    int64_t now_ms, unsigned entities);
void rate_limiter_answered(struct rate_limiter *limiter, struct rate_key key,
    const struct rate_answer *answer);

/* rate_limiter_rate: return the rate, in entities a second, to which store's
 * account is limited; if of_partition, the rate of that partition of the
 * account which was refused last. < 0: no limit is known. */
double rate_limiter_rate(
    struct rate_limiter *limiter, const struct store *store, bool of_partition);

#endif
