/* SPDX-License-Identifier: MIT */
/*
 * What the other side wrote may repeat what proves our rights: a message that
 * quotes the request, its address or its header. Pure.
 */
#ifndef TW_STORE_AZURE_REDACT_H
#define TW_STORE_AZURE_REDACT_H

#include "worker/base/slice.h"

/* As little of a secret as this is recognised: a message may be cut anywhere.
 */
#define REDACT_MIN 12

/* redact: put * over all of text that REDACT_MIN or more characters of secret
 * stand in, in their order. */
void redact(char *text, struct slice secret);

/* redact_sas: the same for the signature of a SAS, a query string: as it stands
 * there and as it reads without percent-encoding. NULL: nothing. */
void redact_sas(char *text, const char *sas);

/* redact_signature: what follows the account's name in an Authorization header,
 * "SharedKey acct:lmc...="; empty where there is none. */
struct slice redact_signature(struct slice authorization);

#endif
