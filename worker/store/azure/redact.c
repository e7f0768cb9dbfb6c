/* SPDX-License-Identifier: MIT */
/* Finds pieces of a secret in a text. */
#include "worker/store/azure/redact.h"

#include <string.h>

#include "worker/base/buf.h"
#include "worker/base/crypto.h"
#include "worker/base/text.h"

void redact(char *text, struct slice secret)
{
    size_t len = strlen(text), covered = 0;

    if (secret.len < REDACT_MIN)
        return;
    /* Each step overwrites one character, which later steps do not compare. */
    for (size_t i = 0; i + REDACT_MIN <= len; i++) {
        size_t end = i + REDACT_MIN;

        if (memmem(secret.at, secret.len, text + i, REDACT_MIN) != NULL) {
            covered = end;
            text[i] = '*';
        } else if (i < covered) {
            text[i] = '*';
        }
    }
    for (size_t i = len < REDACT_MIN ? 0 : len - REDACT_MIN + 1;
         i < covered && i < len; i++)
        text[i] = '*';
}

static struct slice sas_signature(const char *sas)
{
    const char *at = strncmp(sas, "sig=", 4) == 0 ? sas : strstr(sas, "&sig=");

    if (at == NULL)
        return (struct slice){NULL, 0};
    at = strchr(at, '=') + 1;
    return (struct slice){at, strcspn(at, "&")};
}

void redact_sas(char *text, const char *sas)
{
    struct slice written;
    struct buf read;

    if (sas == NULL)
        return;
    written = sas_signature(sas);
    redact(text, written);
    buf_init(&read, written.len);
    buf_reserve(&read, written.len); /* so that `read` never moves and leaves no
                                        part of the secret behind */
    if (text_percent_decode(&read, written))
        redact(text, buf_slice(&read));
    if (read.at != NULL)
        crypto_wipe(read.at, read.len);
    buf_done(&read);
}

struct slice redact_signature(struct slice authorization)
{
    const struct slice bearer = slice_of("Bearer ");
    const char *colon = authorization.len > 0
                            ? memchr(authorization.at, ':', authorization.len)
                            : NULL;

    if (slice_begins(authorization, bearer))
        return (struct slice){
            authorization.at + bearer.len, authorization.len - bearer.len};
    if (colon == NULL)
        return (struct slice){NULL, 0};
    return (struct slice){
        colon + 1, authorization.len - (size_t)(colon + 1 - authorization.at)};
}
