/* SPDX-License-Identifier: MIT */
/*
 * Checks that a request was signed with the account's key. Written from the
 * service's documentation; it shares no code with the product's signer.
 *
 * Source: Azure Storage REST, "Authorize with Shared Key".
 */
#ifndef TW_AZSIM_SIGNATURE_H
#define TW_AZSIM_SIGNATURE_H

#include <stdbool.h>
#include <stdint.h>

struct crypto_hmac_key;
struct http_exchange;

/* signature_good: returns whether the request, as it was sent, has a valid
 * signature (SharedKey or SharedKeyLite) of the account in its path, and a date
 * that differs by at most skew_s from platform_wall_ticks(). skew_s 0: any
 * date. */
bool signature_good(const struct http_exchange *exchange,
    const struct crypto_hmac_key *key, int64_t skew_s);

#endif
