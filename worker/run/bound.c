/* SPDX-License-Identifier: MIT */
/* Reads and writes the ledger's property Definition. */
#include "worker/run/bound.h"

#include <string.h>

#include "jobs/job.h"
#include "worker/base/buf.h"
#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/run/ledger.h"
#include "worker/store/store.h"

#define ACCEPTS_ALL '?'
#define ACCEPTS_DEFINITION '~'

#define ACCOUNT_DIGITS 16
#define ACCOUNTS_MAX_BYTES (64 * 1024)

/* The parts of Definition. */
struct bound {
    char mark;             /* 0: none */
    struct slice hash;     /* empty: the run is not bound */
    struct slice accounts; /* begins with the dot; empty: not known */
};

static struct bound bound_of(const struct ledger_run *run)
{
    struct slice rest = run->definition;
    struct bound bound = {0};
    const char *dot;

    if (rest.len > 0 &&
        (rest.at[0] == ACCEPTS_ALL || rest.at[0] == ACCEPTS_DEFINITION)) {
        bound.mark = rest.at[0];
        rest = (struct slice){rest.at + 1, rest.len - 1};
    }
    dot = rest.len > 0 ? memchr(rest.at, '.', rest.len) : NULL;
    bound.hash = rest;
    if (dot) {
        bound.hash.len = (size_t)(dot - rest.at);
        bound.accounts = (struct slice){dot, rest.len - bound.hash.len};
    }
    return bound;
}

static void store_definition(
    struct ledger_run *run, char mark, struct slice hash, struct slice accounts)
{
    struct buf text;

    buf_init(&text, ACCOUNTS_MAX_BYTES);
    if (mark)
        buf_add_char(&text, mark);
    buf_add_slice(&text, hash);
    buf_add_slice(&text, accounts);
    run->definition = ledger_text(run, buf_slice(&text));
    buf_done(&text);
}

/* ---- the accounts of a job ---- */

struct collecting {
    const struct job_stores *stores;
    struct buf digests; /* of the accounts, joined; without the dot */
    bool unknown;
};

/* Does the list have this digest? */
static bool has_digest(struct slice digests, const char *digest)
{
    for (size_t i = 0; i + ACCOUNT_DIGITS <= digests.len; i += ACCOUNT_DIGITS)
        if (memcmp(digests.at + i, digest, ACCOUNT_DIGITS) == 0)
            return true;
    return false;
}

static void collect_account(
    void *context, size_t index, const char *table, enum job_access access)
{
    struct collecting *c = context;
    const struct store *store =
        index < c->stores->count ? c->stores->stores[index] : NULL;
    unsigned char sum[CRYPTO_SHA256_BYTES];
    char digest[ACCOUNT_DIGITS + 1];

    (void)table;
    (void)access;
    if (!store ||
        (!store->capabilities.account_name && !store->capabilities.identity &&
            !store->capabilities.endpoint)) {
        c->unknown = true;
        return;
    }
    crypto_sha256(slice_of(store->capabilities.account_name
                               ? store->capabilities.account_name
                               : store_account(store)),
        sum);
    text_hex(digest, sum, ACCOUNT_DIGITS / 2);
    if (!has_digest(buf_slice(&c->digests), digest))
        buf_add_text(&c->digests, digest);
}

struct slice bound_accounts(
    const struct job *job, const struct job_stores *stores, struct arena *arena)
{
    struct collecting c = {.stores = stores};
    struct slice accounts = {0};

    buf_init(&c.digests, ACCOUNTS_MAX_BYTES);
    job->kind->tables(job, collect_account, &c);
    if (!c.unknown && c.digests.len > 0)
        accounts =
            arena_format(arena, ".%.*s", SLICE_ARG(buf_slice(&c.digests)));
    buf_done(&c.digests);
    return accounts;
}

/* Is each digest of `digests` in `others`? Both begin with the dot. */
static bool are_among(struct slice digests, struct slice others)
{
    struct slice list = {others.at + 1, others.len - 1};

    for (size_t i = 1; i + ACCOUNT_DIGITS <= digests.len; i += ACCOUNT_DIGITS)
        if (!has_digest(list, digests.at + i))
            return false;
    return true;
}

/* ---- comparing ---- */

bool bound_definition_changed(
    const struct ledger_run *run, const struct job *job)
{
    struct bound bound = bound_of(run);

    return bound.hash.len > 0 && !slice_is(bound.hash, job->hash);
}

bool bound_accounts_changed(
    const struct ledger_run *run, const struct job *job, struct slice accounts)
{
    struct bound bound = bound_of(run);

    if (bound.accounts.len == 0 || accounts.len == 0)
        return false;
    if (bound_definition_changed(run, job))
        return !are_among(bound.accounts, accounts) &&
               !are_among(accounts, bound.accounts);
    return !slice_equal(bound.accounts, accounts);
}

bool bound_kind_changed(const struct ledger_run *run, const struct job *job)
{
    return run->kind.len > 0 && !slice_is(run->kind, job->kind->name);
}

char *bound_kind_sentence(const struct ledger_run *run, const struct job *job)
{
    return mem_format(
        "job %s is a %s now, and was a %.*s when this run was requested",
        job->name, job->kind->name, SLICE_ARG(run->kind));
}

static enum tw_err refuse_kind(
    const struct ledger_run *run, const struct job *job, struct err *err)
{
    char *what = bound_kind_sentence(run, job);

    (void)err_fail(
        err, TW_CONFLICT, "%s: restore it, or `cancel` the run", what);
    mem_free(what);
    return TW_CONFLICT;
}

enum tw_err bound_check(const struct ledger_run *run, const struct job *job,
    struct slice accounts, struct err *err)
{
    char mark = bound_of(run).mark;

    if (bound_kind_changed(run, job))
        return refuse_kind(run, job, err);
    if (mark != ACCEPTS_ALL && bound_accounts_changed(run, job, accounts))
        return err_fail(err, TW_CONFLICT,
            "a store of job %s is another account now than when this run "
            "began: restore it, or accept the new account with `resume`",
            job->name);
    if (!mark && job->kind->table_job && bound_definition_changed(run, job))
        return err_fail(err, TW_CONFLICT,
            "the definition of its job has changed: restore it, or accept the "
            "new one with `resume`");
    return TW_OK;
}

/* ---- binding ---- */

void bound_accept(struct ledger_run *run, bool accounts)
{
    struct bound bound = bound_of(run);

    if (bound.hash.len == 0 || bound.mark == ACCEPTS_ALL)
        return;
    store_definition(run, accounts ? ACCEPTS_ALL : ACCEPTS_DEFINITION,
        bound.hash, bound.accounts);
}

void bound_set(
    struct ledger_run *run, const struct job *job, struct slice accounts)
{
    if (accounts.len == 0)
        accounts = bound_of(run).accounts;
    store_definition(run, 0, slice_of(job->hash), accounts);
}
