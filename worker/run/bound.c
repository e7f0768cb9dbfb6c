/* SPDX-License-Identifier: MIT */
/* Reads and writes the ledger's property Definition. */
#include "worker/run/bound.h"

#include <stdint.h>
#include <string.h>

#include "jobs/job.h"
#include "worker/base/buf.h"
#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/run/ledger.h"
#include "worker/store/store.h"

#define OFFERED '!'
#define ACCEPTED_ALL '?'
#define ACCEPTED_DEFINITION '~'

#define DIGITS 16 /* hex digits of a HASH, a PART or an ACCOUNT */
#define DEFINITION_MAX_BYTES (64 * 1024)
#define TABLES_MAX_BYTES 240

/* The parts of the ledger's property Definition. bound.h explains the names in
 * upper case. */
struct bound {
    char mark;           /* MARK; 0: none */
    struct slice other;  /* OTHER; empty if there is no MARK */
    struct slice hash;   /* HASH; empty: the run is not bound */
    struct slice parts;  /* the PARTs, without the slash; empty: none */
    struct slice places; /* the ACCOUNTs and TABLES, with the dot before
                          * them; empty: the accounts are not known */
};

static bool is_mark(char c)
{
    return c == OFFERED || c == ACCEPTED_ALL || c == ACCEPTED_DEFINITION;
}

/* Removes from rest the text before the first byte that is in `ends`. Returns
 * the removed text. */
static struct slice cut_before(struct slice *rest, const char *ends)
{
    struct slice text = {rest->at, 0};

    if (rest->len == 0)
        return text;
    while (text.len < rest->len && !strchr(ends, rest->at[text.len]))
        text.len++;
    rest->at += text.len;
    rest->len -= text.len;
    return text;
}

static bool begins_with(struct slice text, char c)
{
    return text.len > 0 && text.at[0] == c;
}

static struct slice without_first(struct slice text)
{
    return (struct slice){text.at + 1, text.len - 1};
}

static struct bound bound_of(const struct ledger_run *run)
{
    struct slice rest = run->definition;
    struct bound bound = {0};

    if (rest.len > 0 && is_mark(rest.at[0])) {
        bound.mark = rest.at[0];
        rest = without_first(rest);
    }
    bound.hash = cut_before(&rest, ":/.");
    if (bound.mark && begins_with(rest, ':')) {
        bound.other = bound.hash;
        rest = without_first(rest);
        bound.hash = cut_before(&rest, "/.");
    }
    if (begins_with(rest, '/')) {
        rest = without_first(rest);
        bound.parts = cut_before(&rest, ".");
    }
    bound.places = rest;
    return bound;
}

static void store_bound(struct ledger_run *run, const struct bound *bound)
{
    struct buf text;

    buf_init(&text, DEFINITION_MAX_BYTES);
    if (bound->mark) {
        buf_add_char(&text, bound->mark);
        buf_add_slice(&text, bound->other);
        buf_add_char(&text, ':');
    }
    buf_add_slice(&text, bound->hash);
    if (bound->parts.len > 0) {
        buf_add_char(&text, '/');
        buf_add_slice(&text, bound->parts);
    }
    buf_add_slice(&text, bound->places);
    run->definition = ledger_text(run, buf_slice(&text));
    buf_done(&text);
}

/* Returns the ACCOUNTs in places, without the dot and TABLES. places: the end
 * of Definition, or the result of bound_accounts(). */
static struct slice digests_of(struct slice places)
{
    struct slice rest = places;

    if (rest.len == 0)
        return rest;
    rest = without_first(rest);
    return cut_before(&rest, " ");
}

/* Returns TABLES in places; empty: TABLES is not known. places: as for
 * digests_of(). */
static struct slice tables_of(struct slice places)
{
    (void)cut_before(&places, " ");
    return places.len > 0 ? without_first(places) : places;
}

/* ---- the accounts of a job ---- */

struct collecting {
    const struct job_stores *stores;
    struct buf digests; /* digests of the accounts, joined */
    struct buf tables;
    bool unknown;
};

/* Does the list have this digest? */
static bool has_digest(struct slice digests, const char *digest)
{
    for (size_t i = 0; i + DIGITS <= digests.len; i += DIGITS)
        if (memcmp(digests.at + i, digest, DIGITS) == 0)
            return true;
    return false;
}

static void digest_of(struct slice text, char to[DIGITS + 1])
{
    unsigned char sum[CRYPTO_SHA256_BYTES];

    crypto_sha256(text, sum);
    text_hex(to, sum, DIGITS / 2);
}

/* Returns the text that identifies the account of store: borrowed. */
static const char *account_text(const struct store *store)
{
    const char *account = store->capabilities.cloud_account;

    return account ? account : store_account(store);
}

/* Returns a text that says where store is, for people. A file is named by its
 * store, because operators do not know its identity. Owned. */
static char *place_text(const struct store *store)
{
    const char *name = store->capabilities.account_name;

    if (store->capabilities.local)
        return mem_format("store %s", store->name);
    return name ? mem_format("%s at %s", name, store_account(store))
                : mem_format("%s", store_account(store));
}

/* Add a table, and where it is, to TABLES. */
static void collect_table(
    struct collecting *c, const struct store *store, const char *table)
{
    char *place = place_text(store);
    char *text = mem_format("%s (%s)", table, place);

    if (!strstr(buf_text(&c->tables), text))
        buf_add_format(&c->tables, "%s%s", c->tables.len > 0 ? ", " : "", text);
    mem_free(text);
    mem_free(place);
}

static void collect_account(
    void *context, size_t index, const char *table, enum job_access access)
{
    struct collecting *c = context;
    const struct store *store =
        index < c->stores->count ? c->stores->stores[index] : NULL;
    char digest[DIGITS + 1];

    (void)access;
    if (!store ||
        (!store->capabilities.cloud_account && !store->capabilities.identity &&
            !store->capabilities.endpoint)) {
        c->unknown = true;
        return;
    }
    digest_of(slice_of(account_text(store)), digest);
    if (!has_digest(buf_slice(&c->digests), digest))
        buf_add_text(&c->digests, digest);
    collect_table(c, store, table);
}

struct slice bound_accounts(
    const struct job *job, const struct job_stores *stores, struct arena *arena)
{
    struct collecting c = {.stores = stores};
    struct slice accounts = {0}, tables;

    buf_init(&c.digests, DEFINITION_MAX_BYTES);
    buf_init(&c.tables, SIZE_MAX / 2);
    job->kind->tables(job, collect_account, &c);
    tables = text_cut(buf_slice(&c.tables), TABLES_MAX_BYTES);
    if (!c.unknown && c.digests.len > 0)
        accounts = arena_format(arena, ".%.*s %.*s%s",
            SLICE_ARG(buf_slice(&c.digests)), SLICE_ARG(tables),
            tables.len < c.tables.len ? "..." : "");
    buf_done(&c.digests);
    buf_done(&c.tables);
    return accounts;
}

/* Is each digest of `digests` in `others`? */
static bool are_among(struct slice digests, struct slice others)
{
    for (size_t i = 0; i + DIGITS <= digests.len; i += DIGITS)
        if (!has_digest(others, digests.at + i))
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
    struct slice places = bound_of(run).places;
    struct slice before = digests_of(places), now = digests_of(accounts);

    /* If TABLES is missing, a former version wrote the ACCOUNTs. It computed
     * the digests from other texts, so they cannot be compared. */
    if (tables_of(places).len == 0 || now.len == 0)
        return false;
    if (bound_definition_changed(run, job))
        return !are_among(before, now) && !are_among(now, before);
    return !slice_equal(before, now);
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

/* Have only rules been added to the definition? Returns false if the job has,
 * or had, tables in several accounts. Then a store's name may stand for another
 * one of these accounts now, although the list of accounts is the same. */
static bool only_adds(
    const struct bound *bound, const struct job *job, struct slice accounts)
{
    struct slice before = digests_of(bound->places);
    struct slice now = digests_of(accounts);

    return bound->parts.len > 0 && job->parts &&
           are_among(bound->parts, slice_of(job->parts)) &&
           (now.len == 0 || (now.len == DIGITS && slice_equal(now, before)));
}

/* Compose OTHER for the job. */
static void compose_other(
    const struct job *job, struct slice accounts, char to[2 * DIGITS + 1])
{
    struct slice digests = digests_of(accounts);

    memcpy(to, job->hash, DIGITS + 1);
    if (digests.len > 0)
        digest_of(digests, to + DIGITS);
}

/* Is OTHER the definition of job? */
static bool offers(const struct bound *bound, const struct job *job)
{
    return bound->other.len >= DIGITS &&
           memcmp(bound->other.at, job->hash, DIGITS) == 0;
}

static bool accepts_definition(const struct bound *bound, const struct job *job)
{
    return (bound->mark == ACCEPTED_ALL ||
               bound->mark == ACCEPTED_DEFINITION) &&
           offers(bound, job);
}

static bool accepts_accounts(
    const struct bound *bound, const struct job *job, struct slice accounts)
{
    char other[2 * DIGITS + 1];

    compose_other(job, accounts, other);
    return bound->mark == ACCEPTED_ALL && slice_is(bound->other, other);
}

bool bound_accepted(const struct ledger_run *run, const struct job *job)
{
    struct bound bound = bound_of(run);

    return accepts_definition(&bound, job);
}

static enum tw_err refuse_kind(
    const struct ledger_run *run, const struct job *job, struct err *err)
{
    char *what = bound_kind_sentence(run, job);

    (void)err_fail(err, TW_CONFLICT,
        "%s: restore the former kind, or `cancel` the run", what);
    mem_free(what);
    return TW_CONFLICT;
}

/* Fail with the sentence `what`, and name the tables of the run and those that
 * the job has now, if they differ. */
static enum tw_err refuse(const struct bound *bound, struct slice accounts,
    char *what, struct err *err)
{
    struct slice before = tables_of(bound->places);
    struct slice now = tables_of(accounts);

    if (before.len == 0 || now.len == 0 || slice_equal(before, now))
        (void)err_fail(err, TW_CONFLICT, "%s", what);
    else
        (void)err_fail(err, TW_CONFLICT,
            "%s; the run began with %.*s, the job has %.*s now", what,
            SLICE_ARG(before), SLICE_ARG(now));
    mem_free(what);
    return TW_CONFLICT;
}

enum tw_err bound_check(const struct ledger_run *run, const struct job *job,
    struct slice accounts, struct err *err)
{
    struct bound bound = bound_of(run);

    if (bound_kind_changed(run, job))
        return refuse_kind(run, job, err);
    if (bound_accounts_changed(run, job, accounts) &&
        !accepts_accounts(&bound, job, accounts))
        return refuse(&bound, accounts,
            mem_format("a store of job %s is another account now than when "
                       "this run began: restore the former account, or accept "
                       "the new one with `resume`",
                job->name),
            err);
    if (bound_definition_changed(run, job) &&
        !accepts_definition(&bound, job) && !only_adds(&bound, job, accounts))
        return refuse(&bound, accounts,
            mem_format("the definition of its job has changed: restore it, or "
                       "accept the new one with `resume`"),
            err);
    return TW_OK;
}

/* ---- binding ---- */

void bound_offer(
    struct ledger_run *run, const struct job *job, struct slice accounts)
{
    struct bound bound = bound_of(run);
    char other[2 * DIGITS + 1];

    if (bound.hash.len == 0)
        return;
    compose_other(job, accounts, other);
    bound.mark = OFFERED;
    bound.other = slice_of(other);
    store_bound(run, &bound);
}

bool bound_accept(struct ledger_run *run, const struct job *job)
{
    struct bound bound = bound_of(run);
    bool is_known = !job->unset;

    if (bound.mark != OFFERED || (is_known && !offers(&bound, job)))
        return false;
    bound.mark = ACCEPTED_ALL;
    store_bound(run, &bound);
    return true;
}

void bound_accept_definition(struct ledger_run *run, const struct job *job)
{
    struct bound bound = bound_of(run);

    if (bound.hash.len == 0 || accepts_definition(&bound, job))
        return;
    bound.mark = ACCEPTED_DEFINITION;
    bound.other = slice_of(job->hash);
    store_bound(run, &bound);
}

void bound_set(
    struct ledger_run *run, const struct job *job, struct slice accounts)
{
    struct bound bound = {.hash = slice_of(job->hash),
        .parts = slice_of(job->parts ? job->parts : ""),
        .places = accounts.len > 0 ? accounts : bound_of(run).places};

    store_bound(run, &bound);
}
