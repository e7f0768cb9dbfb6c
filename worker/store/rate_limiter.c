/* SPDX-License-Identifier: MIT */
/* Accounts, partitions, and which of the two a refusal counts for. */
#include "worker/store/rate_limiter.h"

#include <stddef.h>
#include <string.h>

#include "worker/base/hash.h"
#include "worker/base/mem.h"

/* Number of rates, which all partitions share by hash; a collision only slows
 * both partitions down. */
#define PARTITIONS 256
/* If an entry of partitions had no requests for this time, the next request
 * resets its rate to `learned` of the account. */
#define FORGET_MS 60000

/* How many of an account's last responses are kept. */
#define LAST 64
/* A refusal counts for a partition only if at least this many of the account's
 * last responses were for this partition. */
#define LEAST_OWN 4
/* A partition's share of refusals is compared with that of all other partitions
 * only if at least this many of the last responses were for the others. */
#define LEAST_OTHERS 8
/* A refusal counts for the partition only if the partition is refused at least
 * this many times as often as others. */
#define MORE_OFTEN 2

struct rate_account {
    char *identity; /* identity of the account's stores; NULL: unknown */
    const struct store *store; /* the only store, if identity is NULL */
    uint64_t number;           /* number of the account, in the order of
                                  creation */
    struct rate rate;
    struct rate learned; /* rate of the partition that was refused last, which
                            is the first estimate for all others */
    struct {
        uint64_t partition;
        bool refused;
    } last[LAST]; /* the last responses of the account; a ring */
    size_t answers;
    struct rate_account *next;
};

struct partition {
    struct rate rate;
    int64_t used_ms;
};

struct rate_limiter {
    struct rate_account *accounts;
    struct partition partitions[PARTITIONS];
};

struct rate_limiter *rate_limiter_new(void)
{
    struct rate_limiter *limiter = mem_alloc(sizeof(*limiter));

    for (size_t i = 0; i < PARTITIONS; i++) {
        rate_init(&limiter->partitions[i].rate);
        limiter->partitions[i].used_ms = INT64_MIN / 2;
    }
    return limiter;
}

void rate_limiter_free(struct rate_limiter *limiter)
{
    if (!limiter)
        return;
    while (limiter->accounts) {
        struct rate_account *account = limiter->accounts;

        limiter->accounts = account->next;
        mem_free(account->identity);
        mem_free(account);
    }
    mem_free(limiter);
}

/* Compares identities: after a reload the same account has another store
 * struct, and another store may have the address of a closed one. */
static bool is_of(const struct rate_account *account, const struct store *store)
{
    const char *identity = store->capabilities.identity;

    if (!account->identity || !identity)
        return account->identity == identity && account->store == store;
    return strcmp(account->identity, identity) == 0;
}

struct rate_account *rate_limiter_account(
    struct rate_limiter *limiter, const struct store *store)
{
    struct rate_account *account;

    for (account = limiter->accounts; account; account = account->next)
        if (is_of(account, store))
            return account;
    account = mem_alloc(sizeof(*account));
    account->store = store;
    if (store->capabilities.identity)
        account->identity = mem_text(
            store->capabilities.identity, strlen(store->capabilities.identity));
    account->next = limiter->accounts;
    account->number = account->next ? account->next->number + 1 : 1;
    rate_init(&account->rate);
    rate_init(&account->learned);
    limiter->accounts = account;
    return account;
}

uint64_t rate_limiter_partition(const char *table, struct slice partition_key)
{
    uint64_t hash = hash_slice(HASH_BEGIN, slice_of(table));

    hash = hash_slice(hash, slice_of("/"));
    return hash_slice(hash, partition_key) | 1;
}

/* Returns the entry of a partition. Several partitions may share an entry, and
 * so a rate. The index is computed from the partition's hash and the account's
 * number, not from a pointer, so that in every execution the same partitions
 * share an entry. */
static struct partition *partition_of(
    struct rate_limiter *limiter, struct rate_key key)
{
    uint64_t hash = key.partition;

    if (hash == 0)
        return NULL;
    hash += key.account->number * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 32;
    return &limiter->partitions[hash % PARTITIONS];
}

int64_t rate_limiter_free_ms(
    struct rate_limiter *limiter, struct rate_key key, int64_t now_ms)
{
    struct partition *partition;
    int64_t free_ms, partition_ms;

    if (!key.account)
        return now_ms;
    free_ms = rate_free_ms(&key.account->rate, now_ms);
    partition = partition_of(limiter, key);
    if (!partition)
        return free_ms;
    partition_ms = rate_free_ms(&partition->rate, now_ms);
    return free_ms > partition_ms ? free_ms : partition_ms;
}

unsigned rate_limiter_page(struct rate_limiter *limiter, struct rate_key key)
{
    struct partition *partition;
    unsigned most, partition_most;

    if (!key.account)
        return 0;
    most = rate_page(&key.account->rate);
    partition = partition_of(limiter, key);
    partition_most = partition ? rate_page(&partition->rate) : 0;
    if (most == 0 || partition_most == 0)
        return most + partition_most;
    return most < partition_most ? most : partition_most;
}

void rate_limiter_send(struct rate_limiter *limiter, struct rate_key key,
    int64_t now_ms, unsigned entities)
{
    struct partition *partition;

    if (!key.account)
        return;
    rate_send(&key.account->rate, now_ms, entities);
    partition = partition_of(limiter, key);
    if (!partition)
        return;
    if (now_ms - partition->used_ms > FORGET_MS &&
        partition->rate.in_flight == 0)
        rate_init_like(&partition->rate, &key.account->learned, now_ms);
    partition->used_ms = now_ms;
    rate_send(&partition->rate, now_ms, entities);
}

/* Do the last responses show that the partition's limit was exceeded? */
static bool is_partitions(
    const struct rate_account *account, uint64_t partition)
{
    size_t count = account->answers < LAST ? account->answers : LAST;
    size_t own = 0, own_refused = 0, others, others_refused = 0;

    for (size_t i = 0; i < count; i++) {
        bool is_own = account->last[i].partition == partition;

        own += is_own;
        own_refused += is_own && account->last[i].refused;
        others_refused += !is_own && account->last[i].refused;
    }
    others = count - own;
    if (own < LEAST_OWN)
        return false;
    return own > others ||
           (others >= LEAST_OTHERS &&
               own_refused * others > MORE_OFTEN * others_refused * own);
}

void rate_limiter_answered(struct rate_limiter *limiter, struct rate_key key,
    const struct rate_answer *answer)
{
    struct rate_answer of_account = *answer, of_partition = *answer;
    struct partition *partition;

    if (!key.account)
        return;
    partition = partition_of(limiter, key);
    if (answer->refused || answer->served) {
        size_t at = key.account->answers++ % LAST;

        key.account->last[at].partition = key.partition;
        key.account->last[at].refused = answer->refused;
    }
    if (answer->refused) {
        bool partitions =
            partition && is_partitions(key.account, key.partition);

        of_account.refused = !partitions;
        of_partition.refused = partitions;
    }
    rate_answered(&key.account->rate, &of_account);
    if (!partition)
        return;
    rate_answered(&partition->rate, &of_partition);
    if (of_partition.refused && partition->rate.limited)
        key.account->learned = partition->rate;
}

double rate_limiter_rate(
    struct rate_limiter *limiter, const struct store *store, bool of_partition)
{
    const struct rate_account *account;
    const struct rate *rate;

    for (account = limiter->accounts; account; account = account->next) {
        if (!is_of(account, store))
            continue;
        rate = of_partition ? &account->learned : &account->rate;
        return rate->limited ? rate->per_s : -1;
    }
    return -1;
}
