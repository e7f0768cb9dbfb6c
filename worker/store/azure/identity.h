/* SPDX-License-Identifier: MIT */
/*
 * The identities that Azure gives to a machine, an app or a pod, and how each
 * is asked for an access token for Azure Storage.
 *
 *   managed   IMDS, the metadata service of a virtual machine:
 *             GET http://169.254.169.254/metadata/identity/oauth2/token
 *             $AZURE_POD_IDENTITY_AUTHORITY_HOST replaces this address.
 *             App Service, Functions and Container Apps instead set
 *             $IDENTITY_ENDPOINT, the address, and $IDENTITY_HEADER, a secret.
 *   workload  $AZURE_FEDERATED_TOKEN_FILE names a file with a token of a
 *             Kubernetes cluster. The server $AZURE_AUTHORITY_HOST exchanges
 *             this token for an access token:
 *             POST https://login.microsoftonline.com/TENANT/oauth2/v2.0/token
 *
 * Source: the Azure documentation named in identity_answer.h; "Microsoft Entra
 * Workload ID", and the SDKs' credentials of the same names.
 */
#ifndef TW_STORE_AZURE_IDENTITY_H
#define TW_STORE_AZURE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/azure/identity_answer.h"

struct http;
struct identity;

enum identity_kind { IDENTITY_MANAGED, IDENTITY_WORKLOAD };

struct identity_options {
    enum identity_kind kind;
    struct slice
        client_id; /* client id of the identity, needed if there are several;
                      empty: $AZURE_CLIENT_ID is used if it is set */
};

/*
 * identity_new: read the environment; sends nothing. http is borrowed. The
 * caller owns *ret: call identity_free().
 *
 * TW_INVALID: a variable is missing or wrong; err names it, and never shows a
 * secret.
 */
TW_MUST_USE enum tw_err identity_new(const struct identity_options *options,
    struct http *http, struct identity **ret, struct err *err);
void identity_free(struct identity *identity); /* does nothing if given NULL */

/* identity_description: describe identity for messages, as "managed identity of
 * this machine (169.254.169.254 port 80)". Lives as long as identity. */
const char *identity_description(const struct identity *identity);

/* identity_fetch: request a token as access_token_source.fetch says. context is
 * the struct identity. */
TW_MUST_USE enum tw_err identity_fetch(void *context,
    const _Atomic bool *closing, struct identity_answer *ret,
    int64_t *ret_sent_ms, int64_t *ret_retry_ms, struct err *err);

#endif
