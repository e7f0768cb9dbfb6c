/* SPDX-License-Identifier: MIT */
/* The digest of an entity: a hash of its keys and all its properties. */
#ifndef TW_JOBS_ENGINE_DIGEST_H
#define TW_JOBS_ENGINE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/slice.h"
#include "worker/store/entity.h"

#define DIGEST_BYTES 16

/* The digest of one entity, or a sum of digests modulo 2^128. */
struct digest {
    uint64_t low, high;
};

/* digest_of: returns the first DIGEST_BYTES bytes of the SHA-256 of `bytes`. */
struct digest digest_of(struct slice bytes);

/* digest_text: write digest to `to` as 32 hex digits and a NUL. */
void digest_text(const struct digest *digest, char to[2 * DIGEST_BYTES + 1]);

/* digest_parse: read a digest from text. False: text is not exactly 32
 * lower-case hex digits. */
bool digest_parse(struct slice text, struct digest *ret);

/* digest_add: add `more` to *sum, modulo 2^128. */
void digest_add(struct digest *sum, struct digest more);

/*
 * entity_digest: returns the digest of the keys and of every property except
 * the one named `but` (empty: no exception). The order of the properties does
 * not matter. Two entities with the same keys have equal digests if
 * property_equal() is true for each property.
 */
struct digest entity_digest(const struct entity *entity, struct slice but);

#endif
