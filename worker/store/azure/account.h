/* SPDX-License-Identifier: MIT */
/*
 * A storage account, as described by a connection string: the endpoints of its
 * services, and our credentials.
 *
 * Source: Azure Storage, "Configure connection strings".
 */
#ifndef TW_STORE_AZURE_ACCOUNT_H
#define TW_STORE_AZURE_ACCOUNT_H

#include <stdbool.h>

#include "worker/base/crypto.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

/* One service of the account. origin NULL: the account has no such service. */
struct endpoint {
    char *origin;  /* "https://host[:port]"                               */
    char *path;    /* "" or "/account" (path style): prefix of every path */
    char *peer;    /* "host port 443", for messages                       */
    bool loopback; /* 127.0.0.0/8, [::1] or localhost: no proxy, and http is
                      allowed */
};

struct account {
    char *name; /* NULL: unknown; a connection string with a SAS need not have
                   it */
    struct crypto_hmac_key *key; /* NULL: sas is the credential */
    char *sas; /* a complete query string without '?'; NULL with a key. A secret
                */
    struct endpoint table, queue;
    bool cosmos; /* the tables are in Cosmos DB, which has no queues */
};

/*
 * account_parse: parse `Key=Value;...`, keys in any case, also
 * UseDevelopmentStorage=true. A table endpoint, given or derived, is required;
 * so is a key or a SAS. http is allowed for loopback only, unless allow_http.
 * Owned, for account_free().
 *
 * TW_INVALID: err names the part that is wrong or missing, never a key or a
 * signature.
 */
TW_MUST_USE enum tw_err account_parse(struct slice connection_string,
    bool allow_http, struct account **ret, struct err *err);

/*
 * account_identity: "host[:port][/path]" of the table endpoint in lower case:
 * equal for every spelling of the address, for primary and secondary endpoint,
 * and for every credential; unique to the account. Owned.
 */
char *account_identity(const struct account *account);

/* account_free: also wipes the secrets. NULL: does nothing. */
void account_free(struct account *account);

#endif
