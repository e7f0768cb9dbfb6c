/* SPDX-License-Identifier: MIT */
/* The azure store: Azure Storage, Cosmos DB for Table, Azurite. */
#ifndef TW_STORE_AZURE_AZURE_H
#define TW_STORE_AZURE_AZURE_H

#include <stdbool.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"

struct store;

/*
 * azure_open: from a connection string (also UseDevelopmentStorage=true, and
 * with SharedAccessSignature). http is taken for loopback hosts only, unless
 * allow_http. name is borrowed. Sends nothing. Owned.
 *
 * TW_INVALID: err says which part of the string is wrong or missing; it never
 * holds a key or a signature.
 */
TW_MUST_USE enum tw_err azure_open(const char *name,
    struct slice connection_string, bool allow_http, struct store **ret,
    struct err *err);

#endif
