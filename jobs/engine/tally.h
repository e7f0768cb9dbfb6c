/* SPDX-License-Identifier: MIT */
/*
 * Do two sets of entities hold the same? Each side is read once, in whatever
 * order, in constant memory: every entity has a digest of its keys and all its
 * values, and a side is the sum of those, in buckets by its keys. Buckets that
 * agree need no second look, and in those that do not the difference lies.
 *
 * Three sides: what there should be, what there is that is ours, and what else
 * there is. A bucket agrees where ours is what should be, or ours and all else
 * together are.
 */
#ifndef TW_JOBS_ENGINE_TALLY_H
#define TW_JOBS_ENGINE_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/slice.h"
#include "worker/store/entity.h"

#define DIGEST_BYTES 16
#define TALLY_BUCKETS 16384

/* Of one entity, or a sum of many modulo 2^128. */
struct digest {
    uint64_t low, high;
};

/* digest_text: 32 hex digits and a NUL. */
void digest_text(const struct digest *digest, char to[2 * DIGEST_BYTES + 1]);

/* digest_parse: false: not 32 hex digits, lower case, and nothing else. */
bool digest_parse(struct slice text, struct digest *ret);

/* digest_add: to a sum, modulo 2^128. */
void digest_add(struct digest *sum, struct digest more);

/*
 * entity_digest: of the keys, and of every property but the one named `but`
 * (empty: of all), in whatever order they are. Equal where property_equal()
 * says so of each: the first 16 bytes of a SHA-256.
 */
struct digest entity_digest(const struct entity *entity, struct slice but);

enum tally_side {
    TALLY_EXPECTED,
    TALLY_OURS,
    TALLY_ELSE,
    TALLY_SIDES,
};

struct tally;

/* tally_new: all empty. Owned. Some 1.2 MiB. */
struct tally *tally_new(void);
void tally_free(struct tally *tally);

/* tally_clear: all empty again. */
void tally_clear(struct tally *tally);

/* tally_add: an entity of table number `table` (of a destination's tables). */
void tally_add(struct tally *tally, enum tally_side side, size_t table,
    const struct entity *entity, struct slice but);

/* tally_agrees: do all buckets? tally_agrees_at: does that of these keys? */
bool tally_agrees(const struct tally *tally);
bool tally_agrees_at(const struct tally *tally, size_t table,
    struct slice partition_key, struct slice row_key);

/* tally_digest: what tally_add adds of it. */
struct digest tally_digest(
    size_t table, const struct entity *entity, struct slice but);

/* tally_sum: of a whole side. */
struct digest tally_sum(const struct tally *tally, enum tally_side side);
int64_t tally_count(const struct tally *tally, enum tally_side side);

/* tally_there: of what stands where copies are to be: ours, and all else in the
 * buckets that agree only with it. */
struct digest tally_there(const struct tally *tally, int64_t *ret_count);

#endif
