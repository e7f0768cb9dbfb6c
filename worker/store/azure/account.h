/* SPDX-License-Identifier: MIT */
/*
 * A storage account, as described by a connection string: the endpoints of its
 * services, and the credentials for them.
 *
 * Source: Azure Storage, "Configure connection strings".
 */
#ifndef TW_STORE_AZURE_ACCOUNT_H
#define TW_STORE_AZURE_ACCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "worker/base/crypto.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/azure/endpoint.h"

struct account {
    _Atomic unsigned holders; /* number of account_hold() calls that no
                                 account_free() has matched yet */
    char *name; /* NULL: unknown, because a connection string with a SAS need
                   not name the account */
    struct crypto_hmac_key *key; /* NULL: another credential is used */
    char *sas; /* a complete query string without '?'; NULL: another credential
                  is used. A secret */
    struct endpoint table, queue;
    bool cosmos; /* the tables are in Cosmos DB, which has no queues */
};

/*
 * account_parse: parse `Key=Value;...`, also UseDevelopmentStorage=true. The
 * case of keys is ignored. A table endpoint, given or derived from the
 * account's name, is required; so is a key or a SAS. Unless allow_http, http is
 * allowed for loopback only. The caller owns *ret: call account_free().
 *
 * TW_INVALID: err names the part that is wrong or missing, never a key or a
 * signature.
 */
TW_MUST_USE enum tw_err account_parse(struct slice connection_string,
    bool allow_http, struct account **ret, struct err *err);

/*
 * account_parse_endpoints: like account_parse(), but for requests that carry an
 * access token: the string has no credential, key and sas are NULL, and http is
 * allowed for loopback only. TW_INVALID also for a string with a key or SAS,
 * and for Cosmos DB.
 */
TW_MUST_USE enum tw_err account_parse_endpoints(
    struct slice connection_string, struct account **ret, struct err *err);

/*
 * account_identity: return "host[:port][/path]" of the table endpoint in lower
 * case. This text is unique to the account, and equal for every spelling of the
 * address, for primary and secondary endpoint, and for every credential. Owned.
 */
char *account_identity(const struct account *account);

/*
 * account_public_name: return the account's name in lower case. It is
 * AccountName or, without that, the first label of a host like
 * "NAME.table.core.windows.net". The name of a Cosmos DB account begins with
 * "cosmos.". NULL: unknown (a SAS with another host). Owned.
 */
char *account_public_name(const struct account *account);

/*
 * account_in_cloud: return a text that is equal for every host of one account,
 * and different for two accounts: the public name, and the domain of the cloud
 * in which this name is unique ("core.windows.net", "core.chinacloudapi.cn"). A
 * host may not name its cloud (a private endpoint, a custom domain, an
 * address). If the account is then in the path, the cloud is assumed to be an
 * emulator, otherwise core.windows.net. Every Azurite has an account
 * "devstoreaccount1", so the text of this account is account_identity(), with
 * host and port. All other accounts that have the same name, but are in
 * different emulators, have the same text. NULL: the public name is unknown.
 * Owned.
 */
char *account_in_cloud(const struct account *account);

/* account_same_services: do both have the same name and the same endpoints, so
 * that only their credentials may differ? */
bool account_same_services(const struct account *a, const struct account *b);

/* account_hold: add a holder, who must call account_free() too; returns
 * account. account_free: the call of the last holder wipes the secrets and
 * frees account; does nothing if given NULL. */
struct account *account_hold(struct account *account);
void account_free(struct account *account);

#endif
