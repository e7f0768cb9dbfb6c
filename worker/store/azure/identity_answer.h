/* SPDX-License-Identifier: MIT */
/*
 * What a token server responds: an access token and its lifetime, or why there
 * is none. Pure.
 *
 * Source: Azure documentation, "How to use managed identities for Azure
 * resources on an Azure VM to acquire an access token", "Managed identities for
 * App Service", "Microsoft identity platform and the OAuth 2.0 client
 * credentials flow".
 */
#ifndef TW_STORE_AZURE_IDENTITY_ANSWER_H
#define TW_STORE_AZURE_IDENTITY_ANSWER_H

#include <stdint.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"

/* The size of the largest token. The service refuses requests whose fields are
 * larger. */
#define IDENTITY_TOKEN_MAX 16384

/* Maximum lifetime. A longer lifetime, which no server promises, is cut to this
 * maximum. */
#define IDENTITY_LIFETIME_MAX_MS (INT64_C(24) * 60 * 60 * 1000)

struct identity_answer {
    char *token;         /* printable, without blanks. Owned. A secret */
    int64_t lifetime_ms; /* how long the token is valid after the response, >
                            0 */
};

/*
 * identity_answer_read: read a response with that status and body. If the body
 * has both expires_in and expires_on, expires_in is used, because it does not
 * depend on this machine's clock, wall_ticks.
 *
 * TW_BUSY     the server has no token now (404, 410, 408, 429, 5xx), or its
 *             response with status 200 cannot be used.
 * TW_REFUSED  the server refuses (any other status).
 * err names the status and the server's own reason, escaped; it has no part of
 * a token.
 */
TW_MUST_USE enum tw_err identity_answer_read(int status, struct slice body,
    int64_t wall_ticks, struct identity_answer *ret, struct err *err);

/* identity_answer_done: wipes and frees the token. Does nothing if answer is
 * all zero. */
void identity_answer_done(struct identity_answer *answer);

#endif
