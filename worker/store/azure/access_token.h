/* SPDX-License-Identifier: MIT */
/*
 * The access token of one store: requested before the first request that needs
 * it, renewed well before it expires, and kept as long as it is valid.
 *
 * Each store has a thread of its own that requests its tokens, so that a token
 * server gets one request at a time from each store, and no request to the
 * store waits for a renewal. The thread starts with the first
 * access_token_add().
 *
 * - A token is renewed when a third of its lifetime is left. While the renewal
 *   fails, the old token is used until it expires, and the failure is logged
 *   once a minute.
 * - Without a valid token a caller waits for one. After a failed try, all
 *   callers get the outcome of that try at once, until the next try is due. But
 *   if the outcome is TW_BUSY, callers still wait until tries have failed for
 *   ACCESS_TOKEN_PATIENCE_MS.
 * - After a failed try the thread waits for the time that the server asks for.
 *   If the server asks for none, the wait is 1 s after the first failure, and
 *   doubles with each further failure up to 10 s (60 s while a token is valid).
 * - While no token is valid, a try is made only if a caller needs a token.
 */
#ifndef TW_STORE_AZURE_ACCESS_TOKEN_H
#define TW_STORE_AZURE_ACCESS_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/store/azure/identity_answer.h"

struct deadline;

/* If tries have failed with TW_BUSY for this time, the callers that wait for a
 * token fail too. */
#define ACCESS_TOKEN_PATIENCE_MS 2000
/* Wait after the first failed try. */
#define ACCESS_TOKEN_BACKOFF_MS 1000
/* Longest wait after a failed try: without a valid token, and with one. */
#define ACCESS_TOKEN_BACKOFF_MAX_MS 10000
#define ACCESS_TOKEN_BACKOFF_VALID_MS 60000
/* A token that the service has refused is replaced at most once in this time.
 */
#define ACCESS_TOKEN_REPLACE_MS 10000

/* One request to the token server. */
struct access_token_source {
    /*
     * TW_OK: *ret is filled. TW_BUSY, TW_REFUSED: err says why.
     * *ret_sent_ms: platform_boot_ms() just before the request; the lifetime of
     * the token begins then.
     * *ret_retry_ms: the wait that the server asks for before the next try; -1:
     * the server asks for none.
     * Gives up within about a second after *closing has become true.
     */
    enum tw_err (*fetch)(void *context, const _Atomic bool *closing,
        struct identity_answer *ret, int64_t *ret_sent_ms,
        int64_t *ret_retry_ms, struct err *err);
    void *context;
    const char *log_name; /* "store main" */
};

struct access_token;

/* access_token_new: keep the tokens of source; the first one is requested when
 * a caller needs it. source and what it points to are borrowed. The caller owns
 * the result. Any thread may call the functions below. */
struct access_token *access_token_new(const struct access_token_source *source);

/* access_token_free: ends the thread and wipes the token. Call when no other
 * call is in flight. Does nothing if given NULL. */
void access_token_free(struct access_token *token);

/* How long one caller waits for a token. */
struct access_token_wait {
    const struct deadline *deadline;             /* NULL: none */
    bool (*gives_up)(void *context, bool comes); /* as in struct exchange */
    void *context;
};

/*
 * access_token_add: add the token to `to`. refused: the number of a token that
 * the service has refused; another token is then requested. 0: no token was
 * refused. *ret_number: the number of the token that was added, > 0.
 *
 * TW_OK
 * TW_BUSY     no valid token was received in time: err says why.
 * TW_REFUSED  the token server refuses.
 * TW_STOPPED  the deadline has closed. TW_CONFLICT the refused token is the
 *             recent replacement of another refused token, so a further one
 *             would be refused too; err is unchanged.
 */
TW_MUST_USE enum tw_err access_token_add(struct access_token *token,
    uint64_t refused, const struct access_token_wait *wait, struct buf *to,
    uint64_t *ret_number, struct err *err);

#endif
