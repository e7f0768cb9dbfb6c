/* SPDX-License-Identifier: MIT */
/* Digests, keyed digests, base64, wiping, trusted roots. The only module that
 * calls OpenSSL. */
#ifndef TW_BASE_CRYPTO_H
#define TW_BASE_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/base/buf.h"
#include "worker/base/slice.h"

#define CRYPTO_SHA256_BYTES 32

void crypto_sha256(struct slice data, unsigned char to[CRYPTO_SHA256_BYTES]);

/* A key prepared for HMAC-SHA256. Several threads may call crypto_hmac() with
 * one key. */
struct crypto_hmac_key;

/* crypto_hmac_key_new: copies the bytes of `key`. The caller owns the result.
 * crypto_hmac_key_free: wipes and frees it; does nothing if given NULL. */
struct crypto_hmac_key *crypto_hmac_key_new(struct slice key);
void crypto_hmac_key_free(struct crypto_hmac_key *key);
void crypto_hmac(const struct crypto_hmac_key *key, struct slice data,
    unsigned char to[CRYPTO_SHA256_BYTES]);

/* crypto_base64: add data as base64 with padding, in one line. */
void crypto_base64(struct buf *to, struct slice data);

/* crypto_is_base64: is text strict base64, with padding, without blanks and
 * with zeros as unused bits? */
bool crypto_is_base64(struct slice text);

/* crypto_unbase64: add the bytes that text encodes to `to`. False: text is
 * invalid base64, and `to` is unchanged. */
bool crypto_unbase64(struct buf *to, struct slice text);

/*
 * The certificates that this machine trusts, as OpenSSL finds them
 * (SSL_CERT_FILE and SSL_CERT_DIR included). One set serves all connections,
 * because each copy takes more than a megabyte. Any thread.
 */
struct crypto_roots;

/* crypto_roots_new: reads the certificates. The caller owns the result.
 * crypto_roots_free: does nothing if given NULL; may be called while
 * connections that use the roots are open. */
struct crypto_roots *crypto_roots_new(void);
void crypto_roots_free(struct crypto_roots *roots);

/* crypto_roots_lend: let a connection trust these roots and no others. ssl_ctx
 * is the connection's SSL_CTX of OpenSSL. */
void crypto_roots_lend(struct crypto_roots *roots, void *ssl_ctx);

/* crypto_is_equal: are the first len bytes of `one` and of `other` equal? Takes
 * the same time wherever they differ, so that the time reveals nothing about a
 * secret. */
bool crypto_is_equal(const void *one, const void *other, size_t len);

/* crypto_wipe: overwrite secrets; no compiler removes the write. */
void crypto_wipe(void *at, size_t len);

#endif
