/* SPDX-License-Identifier: MIT */
/*
 * Removes our credentials from texts: a message of a service or proxy may quote
 * them as part of the request, the request's address or header. Pure.
 */
#ifndef TW_STORE_AZURE_REDACT_H
#define TW_STORE_AZURE_REDACT_H

#include "worker/base/slice.h"

/* The shortest piece of a secret that is found: a message may be truncated. */
#define REDACT_MIN 12

/* redact: overwrite with * every part of text that matches REDACT_MIN or more
 * consecutive characters of secret. */
void redact(char *text, struct slice secret);

/* redact_sas: like redact(), for the signature in a SAS (a query string), both
 * as written there and without percent-encoding. NULL: does nothing. */
void redact_sas(char *text, const char *sas);

/* redact_signature: the secret in an Authorization header: what follows the
 * account's name in "SharedKey acct:lmc...=", or "Bearer "; empty if there is
 * none. */
struct slice redact_signature(struct slice authorization);

#endif
