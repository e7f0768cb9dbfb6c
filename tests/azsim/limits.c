/* SPDX-License-Identifier: MIT */
/* A bucket for each name. It fills at the rate of the limit, up to the entities
 * of one second. */
#include "tests/azsim/limits.h"

#include "worker/base/hash.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"

#define CHAINS 1024

struct bucket {
    struct bucket *next;
    struct slice name;
    int64_t filled_ms;
    int64_t milli; /* thousandths of an entity; below 0: more were taken than
                      the limit allows so far */
};

struct limits {
    struct platform_mutex lock;
    struct bucket *chains[CHAINS];
};

struct limits *limits_new(void)
{
    struct limits *limits = mem_alloc(sizeof(*limits));

    platform_mutex_init(&limits->lock);
    return limits;
}

void limits_free(struct limits *limits)
{
    for (unsigned i = 0; i < CHAINS; i++)
        while (limits->chains[i] != NULL) {
            struct bucket *bucket = limits->chains[i];

            limits->chains[i] = bucket->next;
            mem_free((void *)(uintptr_t)bucket->name.at);
            mem_free(bucket);
        }
    platform_mutex_done(&limits->lock);
    mem_free(limits);
}

static struct bucket **chain_of(struct limits *limits, struct slice name)
{
    return &limits->chains[hash_slice(HASH_BEGIN, name) % CHAINS];
}

/* Returns the bucket with this name. Called with the lock held. */
static struct bucket *bucket_of(
    struct limits *limits, struct slice name, int64_t per_s)
{
    struct bucket **chain = chain_of(limits, name);
    struct bucket *bucket = *chain;

    while (bucket != NULL && !slice_equal(bucket->name, name))
        bucket = bucket->next;
    if (bucket == NULL) {
        bucket = mem_alloc(sizeof(*bucket));
        bucket->name = (struct slice){mem_text(name.at, name.len), name.len};
        bucket->milli = per_s * 1000;
        bucket->filled_ms = platform_boot_ms();
        bucket->next = *chain;
        *chain = bucket;
    }
    return bucket;
}

bool limits_take(
    struct limits *limits, struct slice name, int64_t entities, int64_t per_s)
{
    struct bucket *bucket;
    int64_t now_ms = platform_boot_ms();
    bool served;

    if (per_s == 0)
        return true;
    platform_lock(&limits->lock);
    bucket = bucket_of(limits, name, per_s);
    bucket->milli += (now_ms - bucket->filled_ms) * per_s;
    if (bucket->milli > per_s * 1000)
        bucket->milli = per_s * 1000;
    bucket->filled_ms = now_ms;
    served = bucket->milli > 0;
    if (served)
        bucket->milli -= entities * 1000;
    platform_unlock(&limits->lock);
    return served;
}
