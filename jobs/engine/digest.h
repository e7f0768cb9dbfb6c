/* SPDX-License-Identifier: MIT */
/* A digest of an entity: of its keys and all its values. */
#ifndef TW_JOBS_ENGINE_DIGEST_H
#define TW_JOBS_ENGINE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/slice.h"
#include "worker/store/entity.h"

#define DIGEST_BYTES 16

/* Of one entity, or a sum of many modulo 2^128. */
struct digest {
    uint64_t low, high;
};

/* digest_of: the first 16 bytes of the SHA-256 of these bytes. */
struct digest digest_of(struct slice bytes);

/* digest_text: 32 hex digits and a NUL. */
void digest_text(const struct digest *digest, char to[2 * DIGEST_BYTES + 1]);

/* digest_parse: false: not 32 hex digits, lower case, and nothing else. */
bool digest_parse(struct slice text, struct digest *ret);

/* digest_add: to a sum, modulo 2^128. */
void digest_add(struct digest *sum, struct digest more);

/*
 * entity_digest: of the keys, and of every property but the one named `but`
 * (empty: of all), in any order. Equal where property_equal() says so of each.
 */
struct digest entity_digest(const struct entity *entity, struct slice but);

#endif
