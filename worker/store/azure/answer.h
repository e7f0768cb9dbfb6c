/* SPDX-License-Identifier: MIT */
/*
 * What an answer of the service means for whoever sent the request: one table
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

/* What a refusing answer says. Texts that do not fit are cut. */
struct answer_error {
    char code[64];     /* "EntityAlreadyExists"; "" where there is none */
    char message[512]; /* its first line; ends in ... if it is cut       */
};

/*
 * answer_error: the code by header (x-ms-error-code), else from the body, JSON
 * or XML; the message from the body.
 */
void answer_read_error(
    const struct http_answer *answer, struct answer_error *ret);

/* answer_body_error: the same from a body alone (a part of a batch). */
void answer_body_error(struct slice body, struct answer_error *ret);

/*
 * answer_outcome: what status and code mean. write: the request changes
 * something, so a server error leaves its outcome unknown (but 503 ServerBusy:
 * nothing was done); for a read it is TW_BUSY, and so is a 4xx without a code
 * that says no more. Statuses 2xx are TW_OK.
 */
enum tw_err answer_outcome(int status, const char *code, bool write);

/* answer_advice: what to check, for a person; NULL where nothing helps. */
const char *answer_advice(int status, const char *code);

/* answer_date_ticks: the Date field; 0 where there is none, or one that no
 * clock of a service shows (before 2000, after 9000): leases are reckoned from
 * it. */
int64_t answer_date_ticks(const struct http_answer *answer);

/* answer_retry_after_ms: x-ms-retry-after-ms, retry-after-ms or Retry-After
 * (seconds or a date), at most an hour; -1 where there is none. */
int64_t answer_retry_after_ms(const struct http_answer *answer);

#endif
