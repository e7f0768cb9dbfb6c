/* SPDX-License-Identifier: MIT */
/*
 * Signs requests with Shared Key, which proves that the sender knows the
 * account's key. Pure, because the caller supplies the date.
 *
 * Source: Azure Storage REST, "Authorize with Shared Key".
 */
#ifndef TW_STORE_AZURE_SIGN_H
#define TW_STORE_AZURE_SIGN_H

#include <stddef.h>

#include "worker/base/buf.h"
#include "worker/base/crypto.h"
#include "worker/base/slice.h"
#include "worker/store/azure/http.h"

enum sign_scheme { SIGN_TABLE, SIGN_TABLE_LITE, SIGN_QUEUE };

struct sign_request {
    const char *method;
    const char *account;
    struct slice path;        /* path exactly as sent, percent-encoded, from the
                                 first '/' to the '?' */
    struct slice query;       /* query exactly as sent, without '?'; or empty */
    const char *content_type; /* Content-Type as sent; "": none */
    size_t content_length;
    const char *date;                  /* the value of x-ms-date */
    const struct http_header *headers; /* all headers that are sent; the queue
                                          scheme signs headers named x-ms-* */
    size_t header_count;
};

/*
 * sign_string: add the string-to-sign, without a line end after it. For a table
 * request it is for instance:
 *
 *   GET\n\n\nMon, 01 Jan 2024 00:00:00 GMT\n/acct/Tables
 */
void sign_string(enum sign_scheme scheme, const struct sign_request *request,
    struct buf *to);

/* sign_authorization: add the value of the Authorization header, "SharedKey
 * account:signature" or "SharedKeyLite ...". */
void sign_authorization(enum sign_scheme scheme,
    const struct sign_request *request, const struct crypto_hmac_key *key,
    struct buf *to);

#endif
