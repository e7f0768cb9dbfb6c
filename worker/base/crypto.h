/* SPDX-License-Identifier: MIT */
/* Digests, keyed digests, base64, wiping. Only user of OpenSSL. */
#ifndef TW_BASE_CRYPTO_H
#define TW_BASE_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/buf.h"
#include "worker/base/slice.h"

#define CRYPTO_SHA256_BYTES 32

void crypto_sha256(struct slice data, unsigned char to[CRYPTO_SHA256_BYTES]);

/* A key set up once; crypto_hmac() may be called from several threads. */
struct crypto_hmac_key;

/* crypto_hmac_key_new: copies key. Owned; free wipes it; NULL is allowed. */
struct crypto_hmac_key *crypto_hmac_key_new(struct slice key);
void crypto_hmac_key_free(struct crypto_hmac_key *key);
void crypto_hmac(const struct crypto_hmac_key *key, struct slice data,
    unsigned char to[CRYPTO_SHA256_BYTES]);

/* crypto_base64: add data as base64 with padding, in one line. */
void crypto_base64(struct buf *to, struct slice data);

/* crypto_unbase64: strict: padding needed, no blanks, no stray bits. False:
 * not base64, `to` unchanged. */
bool crypto_unbase64(struct buf *to, struct slice text);

/* crypto_wipe: overwrite secrets in a way no compiler removes. */
void crypto_wipe(void *at, size_t len);

#endif
