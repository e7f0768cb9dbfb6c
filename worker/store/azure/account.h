/* SPDX-License-Identifier: MIT */
/*
 * A storage account, as a connection string describes it: where its services
 * are, and what proves that we may use them.
 *
 * Source: Azure Storage, "Configure connection strings".
 */
#ifndef TW_STORE_AZURE_ACCOUNT_H
#define TW_STORE_AZURE_ACCOUNT_H

#include <stdbool.h>

#include "worker/base/crypto.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

/* One service of the account. origin is NULL where there is none. */
struct endpoint {
    char *origin;  /* "https://host[:port]"                               */
    char *path;    /* "" or "/account" (path style): begins every path    */
    char *peer;    /* "host port 443", for messages                       */
    bool loopback; /* 127.0.0.0/8, [::1] or localhost: no proxy, and http
                      is fine                                             */
};

struct account {
    char *name;                  /* NULL: not known, as with many a SAS   */
    struct crypto_hmac_key *key; /* NULL: sas is what proves our rights   */
    char *sas;                   /* a ready query string without '?'; NULL
                                    with a key. A secret                  */
    struct endpoint table, queue;
    bool cosmos; /* the tables are Cosmos DB's; then it has no queues     */
};

/*
 * account_parse: `Key=Value;...`, keys in any case, also
 * UseDevelopmentStorage=true. A table endpoint, given or derived, must come
 * out; so must a key or a SAS. http is taken for loopback only, unless
 * allow_http. Owned, for account_free().
 *
 * TW_INVALID: err names the part that is wrong or missing, never a key or a
 * signature.
 */
TW_MUST_USE enum tw_err account_parse(struct slice connection_string,
    bool allow_http, struct account **ret, struct err *err);

/*
 * account_identity: "host[:port][/path]" of its tables in lower case: the same
 * however the address is written, whichever of its two endpoints that is, and
 * whatever proves our rights; another account has another one. Owned.
 */
char *account_identity(const struct account *account);

/* account_free: wipes what is secret. NULL: nothing. */
void account_free(struct account *account);

#endif
