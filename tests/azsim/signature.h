/* SPDX-License-Identifier: MIT */
/*
 * Does a request come from who knows the account's key? Written from the
 * service's side and from its documentation, apart from the product's signer.
 *
 * Source: Azure Storage REST, "Authorize with Shared Key".
 */
#ifndef TW_AZSIM_SIGNATURE_H
#define TW_AZSIM_SIGNATURE_H

#include <stdbool.h>
#include <stdint.h>

struct crypto_hmac_key;
struct http_exchange;

/* signature_good: SharedKey or SharedKeyLite over the request as it was sent,
 * by the account in its path, dated within skew_s (0: at any
 * time) of platform_wall_ticks(). */
bool signature_good(const struct http_exchange *exchange,
    const struct crypto_hmac_key *key, int64_t skew_s);

#endif
