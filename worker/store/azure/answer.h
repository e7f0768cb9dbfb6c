/* SPDX-License-Identifier: MIT */
/*
 * What a response of the service means for the sender of the request: one table
 * from status and error code to an outcome. Pure.
 *
 * Source: Azure Storage REST, "Status and error codes".
 */
#ifndef TW_STORE_AZURE_ANSWER_H
#define TW_STORE_AZURE_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/azure/http.h"

/* Contents of an error response. Texts that do not fit are truncated. */
struct answer_error {
    char code[64];     /* "EntityAlreadyExists"; "" if there is none */
    char message[512]; /* first line of the message; ends in ... if truncated */
};

/*
 * answer_read_error: read the error code from the header (x-ms-error-code), or
 * else from the body (JSON or XML), and the message from the body.
 */
void answer_read_error(
    const struct http_answer *answer, struct answer_error *ret);

/* answer_body_error: read code and message from a body without a header (a part
 * of a batch). */
void answer_body_error(struct slice body, struct answer_error *ret);

/*
 * answer_outcome: find the outcome for status and code. write: the request
 * changes something.
 *
 * - 2xx: TW_OK.
 * - 5xx: TW_BUSY for a read, TW_UNKNOWN for a write, which may have been
 *   applied. Exceptions: TW_BUSY for 503 ServerBusy, because nothing was done;
 *   TW_INVALID for 501 and 505.
 * - 4xx without an error code: TW_BUSY for a read, unless the status alone
 *   determines another outcome.
 * - Any other response: see the table in answer.c.
 */
enum tw_err answer_outcome(int status, const char *code, bool write);

/* answer_advice: return what an operator should check; NULL: no advice. */
const char *answer_advice(int status, const char *code);

/* answer_token_advice: like answer_advice(), for a request with an access
 * token. queue: the request is for the queue service, not for the table
 * service. */
const char *answer_token_advice(int status, const char *code, bool queue);

/* answer_is_token_refused: did the service refuse the access token itself, as
 * it does with an expired one? The status of such a response depends on the
 * version of the service. */
bool answer_is_token_refused(int status, const char *code);

/* answer_date_ticks: read the Date field, from which leases are computed; 0 if
 * the field is missing or implausible (before 2000, after 9000). */
int64_t answer_date_ticks(const struct http_answer *answer);

/* answer_retry_after_ms: read x-ms-retry-after-ms, retry-after-ms or
 * Retry-After (seconds or a date). Returns at most an hour; -1: there is none
 * of these fields. */
int64_t answer_retry_after_ms(const struct http_answer *answer);

#endif
