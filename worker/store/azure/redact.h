/* SPDX-License-Identifier: MIT */
/*
 * Removes this store's credentials from texts, because the message of a service
 * or proxy may quote the address or a header of the request. Pure.
 */
#ifndef TW_STORE_AZURE_REDACT_H
#define TW_STORE_AZURE_REDACT_H

#include "worker/base/slice.h"

/* Pieces of a secret are found if they have at least this length. A message may
 * be truncated, and so contain only a piece. */
#define REDACT_MIN 12

/* redact: overwrite with * every part of text that matches REDACT_MIN or more
 * consecutive characters of secret. */
void redact(char *text, struct slice secret);

/* redact_sas: like redact(), for the signature in a SAS (a query string), both
 * as written there and without percent-encoding. Does nothing if sas is
 * NULL. */
void redact_sas(char *text, const char *sas);

/* redact_signature: return the secret in the value of an Authorization header,
 * which is the signature in "SharedKey acct:lmc...=", or the token in "Bearer
 * TOKEN"; empty if there is none. */
struct slice redact_signature(struct slice authorization);

#endif
