/* SPDX-License-Identifier: MIT */
/* The azure store: Azure Storage, Cosmos DB for Table, Azurite. */
#ifndef TW_STORE_AZURE_AZURE_H
#define TW_STORE_AZURE_AZURE_H

#include <stdbool.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"

struct identity_options;
struct store;

/*
 * azure_open: open a store from a connection string (also
 * UseDevelopmentStorage=true, and with SharedAccessSignature). http is allowed
 * for loopback hosts only, unless allow_http. name is borrowed. Sends nothing.
 * Owned.
 *
 * TW_INVALID: err names the part of the string that is wrong or missing, and
 * never contains a key or a signature.
 */
TW_MUST_USE enum tw_err azure_open(const char *name,
    struct slice connection_string, bool allow_http, struct store **ret,
    struct err *err);

/*
 * azure_open_identity: like azure_open(), but requests carry access tokens of
 * an identity that Azure gives to this process (identity.h). The connection
 * string names endpoints and has no credential; http is allowed for loopback
 * hosts only, because a token goes there. The first token is requested before
 * the first request.
 *
 * TW_INVALID also if the environment has no such identity.
 */
TW_MUST_USE enum tw_err azure_open_identity(const char *name,
    struct slice connection_string, const struct identity_options *options,
    struct store **ret, struct err *err);

#endif
