/* SPDX-License-Identifier: MIT */
/*
 * Requests and keeps an access token.
 *
 * Callers never make a request: they set `wanted`, wake the thread, and wait
 * for the token. The thread sleeps until a renewal is due or a token is wanted.
 */
#include "worker/store/azure/access_token.h"

#include <stdio.h>
#include <string.h>

#include "worker/base/crypto.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/stop.h"
#include "worker/base/text.h"
#include "worker/store/deadline.h"

/* Interval at which a waiting caller checks whether to give up. */
#define CHECK_MS 1000
/* A renewal is due when 1 / RENEW_PART of the lifetime is left, but not sooner
 * than RENEW_MIN_MS after the last renewal, because some servers keep a token
 * and return the same one again, with less and less time left. */
#define RENEW_PART 3
#define RENEW_MIN_MS 1000
#define BACKOFF_FACTOR 2
#define RETRY_AFTER_MAX_MS 60000
#define LOG_REPEAT_MS 60000

struct access_token {
    struct access_token_source source;
    struct platform_mutex mutex; /* guards all fields below, unless noted */
    struct platform_cond changed;
    struct platform_thread thread;
    bool started;
    _Atomic bool closing; /* set with mutex held; source.fetch() reads it
                             without the lock */
    bool wanted;          /* a caller waits for a token */
    bool fetching;
    struct identity_answer current; /* the newest token; .token is NULL: none
                                       was received yet */
    uint64_t number; /* number of tokens received so far, which is also the
                        number of the token in current */
    /* Of the token in current: when it expires, and when its renewal is due. */
    int64_t expires_ms, renew_ms;
    uint64_t replacing; /* the number of a refused token that is to be replaced;
                           0: none */
    int64_t replaced_ms; /* when the last replacement was asked for; 0: never */
    /* The failed tries since the last success. */
    enum tw_err failed; /* outcome of the last of them; TW_OK: there is none */
    struct err why;     /* error text of the last of them */
    int64_t failing_ms; /* when the first of the failed tries ended */
    int64_t backoff_ms, next_ms;
    int64_t logged_ms; /* when a failure was last logged; 0: none was */
};

struct access_token *access_token_new(const struct access_token_source *source)
{
    struct access_token *token = mem_alloc(sizeof(*token));

    token->source = *source;
    platform_mutex_init(&token->mutex);
    platform_cond_init(&token->changed);
    return token;
}

void access_token_free(struct access_token *token)
{
    if (token == NULL)
        return;
    platform_lock(&token->mutex);
    atomic_store(&token->closing, true);
    platform_wake_all(&token->changed);
    platform_unlock(&token->mutex);
    if (token->started)
        platform_join(&token->thread);
    identity_answer_done(&token->current);
    platform_cond_done(&token->changed);
    platform_mutex_done(&token->mutex);
    mem_free(token);
}

/* ---- the thread; the lock is held except during a request ---- */

static bool is_valid(const struct access_token *token, int64_t now_ms)
{
    return token->current.token != NULL && now_ms < token->expires_ms;
}

/* Returns when the next request for a token is due; PLATFORM_NEVER: not before
 * a caller wants a token. */
static int64_t due_ms(const struct access_token *token, int64_t now_ms)
{
    int64_t due = PLATFORM_NEVER;

    if (is_valid(token, now_ms))
        due = token->renew_ms;
    if (token->wanted || token->replacing != 0)
        due = now_ms;
    return token->failed != TW_OK && due < token->next_ms ? token->next_ms
                                                          : due;
}

/* A line that is logged once the lock is released, because a log that blocks
 * would also block the callers. */
struct line {
    enum log_level level;
    char text[sizeof(((struct err *)NULL)->text) + 80]; /* "": none */
};

static void keep(struct access_token *token, struct identity_answer *got,
    int64_t sent_ms, struct line *ret_line)
{
    int64_t now_ms = platform_boot_ms();
    int64_t left_ms = sent_ms + got->lifetime_ms - now_ms;
    int64_t renew_in_ms = left_ms - left_ms / RENEW_PART;

    identity_answer_done(&token->current);
    token->current = *got;
    token->number++;
    token->expires_ms = sent_ms + got->lifetime_ms;
    token->renew_ms =
        now_ms + (renew_in_ms > RENEW_MIN_MS ? renew_in_ms : RENEW_MIN_MS);
    token->replacing = 0;
    if (token->failed != TW_OK && token->logged_ms != 0) {
        ret_line->level = LOG_INFO;
        (void)snprintf(ret_line->text, sizeof(ret_line->text),
            "got an access token again, %lld s after the first failure",
            (long long)(now_ms - token->failing_ms) / 1000);
    } else {
        ret_line->level = LOG_DEBUG;
        (void)snprintf(ret_line->text, sizeof(ret_line->text),
            "got an access token, valid for %lld s",
            (long long)got->lifetime_ms / 1000);
    }
    token->failed = TW_OK;
    token->backoff_ms = 0;
}

/* Returns the wait before the next try. Half of the wait is random, so that
 * workers whose requests failed at the same time do not repeat them at the same
 * time. */
static int64_t next_wait(
    struct access_token *token, int64_t retry_ms, bool valid)
{
    int64_t most_ms =
        valid ? ACCESS_TOKEN_BACKOFF_VALID_MS : ACCESS_TOKEN_BACKOFF_MAX_MS;
    int64_t wait_ms = token->backoff_ms == 0
                          ? ACCESS_TOKEN_BACKOFF_MS
                          : BACKOFF_FACTOR * token->backoff_ms;

    token->backoff_ms = wait_ms < most_ms ? wait_ms : most_ms;
    if (retry_ms >= 0)
        return retry_ms < RETRY_AFTER_MAX_MS ? retry_ms : RETRY_AFTER_MAX_MS;
    wait_ms = token->backoff_ms / 2;
    return token->backoff_ms - (int64_t)platform_random_below(
                                   (uint64_t)(wait_ms > 0 ? wait_ms : 1));
}

/* Logs the failure of a renewal while the old token is still valid. Once no
 * token is valid, the callers fail and report the failure themselves. */
static void note_renewal_failed(
    struct access_token *token, int64_t now_ms, struct line *ret_line)
{
    if (token->logged_ms != 0 && now_ms - token->logged_ms < LOG_REPEAT_MS)
        return;
    token->logged_ms = now_ms;
    ret_line->level = LOG_WARN;
    (void)snprintf(ret_line->text, sizeof(ret_line->text),
        "%s; the token in use is valid for %lld s more", token->why.text,
        (long long)(token->expires_ms - now_ms) / 1000);
}

static void note_failure(struct access_token *token, enum tw_err outcome,
    const struct err *why, int64_t retry_ms, struct line *ret_line)
{
    int64_t now_ms = platform_boot_ms();
    bool valid = is_valid(token, now_ms);

    if (token->failed == TW_OK) {
        token->failing_ms = now_ms;
        token->logged_ms = 0;
    }
    token->failed = outcome;
    token->why = *why;
    token->replacing = 0;
    token->next_ms = now_ms + next_wait(token, retry_ms, valid);
    if (!valid)
        return;
    if (token->next_ms > token->expires_ms)
        token->next_ms = token->expires_ms;
    note_renewal_failed(token, now_ms, ret_line);
}

static void fetch(struct access_token *token)
{
    const struct access_token_source *source = &token->source;
    struct identity_answer got = {.token = NULL};
    int64_t sent_ms = platform_boot_ms(), retry_ms = -1;
    struct err why = {""};
    struct line line = {.text = ""};
    enum tw_err outcome;

    token->wanted = false;
    token->fetching = true;
    platform_unlock(&token->mutex);
    outcome = source->fetch(
        source->context, &token->closing, &got, &sent_ms, &retry_ms, &why);
    platform_lock(&token->mutex);
    token->fetching = false;
    if (outcome == TW_OK)
        keep(token, &got, sent_ms, &line);
    else if (!atomic_load(&token->closing))
        note_failure(token, outcome, &why, retry_ms, &line);
    platform_wake_all(&token->changed);
    if (line.text[0] == '\0')
        return;
    platform_unlock(&token->mutex);
    log_line(line.level, source->log_name, "%s", line.text);
    platform_lock(&token->mutex);
}

static void body(void *arg)
{
    struct access_token *token = arg;

    platform_lock(&token->mutex);
    while (!atomic_load(&token->closing)) {
        int64_t now_ms = platform_boot_ms(), at_ms = due_ms(token, now_ms);

        if (at_ms <= now_ms)
            fetch(token);
        else
            (void)platform_wait(&token->changed, &token->mutex, at_ms);
    }
    platform_unlock(&token->mutex);
}

/* ---- callers; lock held ---- */

/* Asks the thread to replace the refused token. TW_CONFLICT: a token was
 * replaced only recently, so the refused token is its replacement. */
static enum tw_err ask_to_replace(struct access_token *token, uint64_t refused)
{
    int64_t now_ms = platform_boot_ms();
    bool recent = token->replaced_ms != 0 &&
                  now_ms - token->replaced_ms < ACCESS_TOKEN_REPLACE_MS;

    if (token->number != refused || token->replacing == refused)
        return TW_OK; /* another caller has already asked for this */
    if (recent && token->failed == TW_OK)
        return TW_CONFLICT;
    token->replacing = refused;
    if (!recent)
        token->replaced_ms = token->next_ms = now_ms;
    return TW_OK;
}

/* Should a waiting caller fail now, with the outcome of the last failed try?
 * Not while a try is in flight or due. After TW_BUSY, not before tries have
 * failed for ACCESS_TOKEN_PATIENCE_MS. */
static bool has_failed(const struct access_token *token, int64_t now_ms)
{
    if (token->failed == TW_OK || token->fetching || now_ms >= token->next_ms)
        return false;
    return token->failed != TW_BUSY ||
           now_ms - token->failing_ms >= ACCESS_TOKEN_PATIENCE_MS;
}

/* Checks whether the caller may continue to wait. TW_OK: it may. */
static enum tw_err may_wait(const struct access_token_wait *wait,
    int64_t begun_ms, int64_t until_ms, struct err *err)
{
    int64_t now_ms = platform_boot_ms();

    if (!deadline_is_open(wait->deadline, now_ms))
        return err_fail(err, TW_STOPPED, "not sent: the deadline has passed");
    if (now_ms >= stop_until_ms(begun_ms))
        return err_fail(err, TW_BUSY,
            "not sent: there is no access token yet, and the process stops");
    if (now_ms >= until_ms)
        return err_fail(
            err, TW_BUSY, "not sent: no access token was received in time");
    return TW_OK;
}

/* Waits for a change, for CHECK_MS at most. The lock is released during the
 * wait and during gives_up(). */
static enum tw_err wait_once(struct access_token *token,
    const struct access_token_wait *wait, struct err *err)
{
    int64_t now_ms = platform_boot_ms();
    bool given_up = false;

    if (!platform_wait(&token->changed, &token->mutex, now_ms + CHECK_MS) &&
        wait->gives_up != NULL) {
        platform_unlock(&token->mutex);
        given_up = wait->gives_up(wait->context, false);
        platform_lock(&token->mutex);
    }
    return given_up
               ? err_fail(err, TW_BUSY,
                     "not sent: cancelled while waiting for an access token")
               : TW_OK;
}

static void start(struct access_token *token)
{
    if (token->started)
        return;
    token->started = true;
    platform_start(&token->thread, "token", body, token);
}

static enum tw_err last_failure(
    const struct access_token *token, struct err *err)
{
    *err = token->why;
    return token->failed;
}

/* Waits for a valid token. TW_OK: there is one, and it is not the refused one.
 */
static enum tw_err await(struct access_token *token, uint64_t refused,
    const struct access_token_wait *wait, struct err *err)
{
    int64_t begun_ms = platform_boot_ms(), now_ms = begun_ms;
    int64_t until_ms =
        begun_ms + (token->failed != TW_OK
                           ? ACCESS_TOKEN_PATIENCE_MS
                           : deadline_timeout_ms(wait->deadline));
    enum tw_err outcome = TW_OK;

    while (outcome == TW_OK &&
           (!is_valid(token, now_ms) || token->number == refused)) {
        if (has_failed(token, now_ms))
            return last_failure(token, err);
        token->wanted = !token->fetching;
        platform_wake_all(&token->changed);
        start(token);
        outcome = may_wait(wait, begun_ms, until_ms, err);
        if (outcome == TW_OK)
            outcome = wait_once(token, wait, err);
        now_ms = platform_boot_ms();
    }
    return outcome == TW_BUSY && token->failed != TW_OK
               ? last_failure(token, err)
               : outcome;
}

enum tw_err access_token_add(struct access_token *token, uint64_t refused,
    const struct access_token_wait *wait, struct buf *to, uint64_t *ret_number,
    struct err *err)
{
    enum tw_err outcome = TW_OK;

    platform_lock(&token->mutex);
    if (refused != 0)
        outcome = ask_to_replace(token, refused);
    if (outcome == TW_OK)
        outcome = await(token, refused, wait, err);
    if (outcome == TW_OK) {
        buf_reserve(to, strlen(token->current.token));
        buf_add_text(to, token->current.token);
        *ret_number = token->number;
    }
    platform_unlock(&token->mutex);
    return outcome;
}
