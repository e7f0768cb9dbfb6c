/* SPDX-License-Identifier: MIT */
/*
 * The way of an operation:
 *
 *   open (a pack that gathers) -> ready (full or cut) -> under way (in lanes;
 *     where it was refused or is unknown, what it met is read)
 *     -> settled, or what is left of its pack is ready again
 *
 * Everything happens on the thread of the run: packs that have ended are
 * looked at whenever the flow has to wait, or is asked how far it is. What
 * nobody could mend breaks the flow: its packs are kept back, their tickets
 * are never settled, and the low-water mark stays before them.
 */
#include "jobs/engine/flow.h"

#include <assert.h>

#include "jobs/engine/pack.h"
#include "jobs/engine/resolve.h"
#include "jobs/engine/run.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/store/lanes.h"
#include "worker/store/retry.h"

/* Packs that gather at a time, and what they may hold together; beyond it the
 * one that was used least recently is cut. */
#define OPEN_MAX 64
#define OPEN_MAX_BYTES (4 * 1024 * 1024)

/* A pack that has gathered for so many tickets is cut: what gathers alone must
 * not hold back the mark, and with it what its decisions need. */
#define OPEN_MAX_TICKETS 4096

/* What the packs under way may hold together; a larger one goes alone. */
#define UNDER_WAY_MAX_BYTES (4 * 1024 * 1024)

/* Tickets that may be out beyond the low-water mark; a power of two. */
#define TICKETS_MAX 65536

/* Answers in a row that settle nothing: then a pack is halved, and an entity
 * that is alone gives up. */
#define ROUNDS_BEFORE_SPLIT 4
#define ROUNDS_MAX 50

/* Packs that are read again at a time, and what these reads may take of what
 * all requests may hold, give or take one; others wait for their turn. */
#define RESOLVING_MAX 8
#define RESOLVING_MAX_BYTES (4 * 1024 * 1024)

struct packs {
    struct pack *first, *last;
    size_t count, bytes;
};

struct flow {
    struct run *run;
    unsigned in_flight;
    struct packs open;      /* most recently used first */
    struct packs ready;     /* to be sent, in order */
    struct packs under_way; /* with the lanes */
    unsigned resolving;     /* of these: what they met is being read, */
    size_t resolving_bytes; /* which may take so much */
    uint64_t seen;          /* for lanes_wait_any() */

    uint64_t ticket, low_water;
    unsigned char settled[TICKETS_MAX / 8]; /* a ring of bits, beyond it */

    int64_t done, failed;
    bool unsure;   /* an outcome was unknown */
    bool settling; /* nothing is sent any more */
    enum tw_err broken;
    struct err why;
};

/* ---- lists of packs ---- */

static void push(struct packs *list, struct pack *pack)
{
    pack->next = NULL;
    if (list->last)
        list->last->next = pack;
    else
        list->first = pack;
    list->last = pack;
    list->count++;
    list->bytes += pack->bytes;
}

static void push_first(struct packs *list, struct pack *pack)
{
    pack->next = list->first;
    list->first = pack;
    if (!list->last)
        list->last = pack;
    list->count++;
    list->bytes += pack->bytes;
}

static void take_out(struct packs *list, struct pack *pack)
{
    struct pack **at = &list->first, *before = NULL;

    while (*at != pack) {
        before = *at;
        at = &before->next;
    }
    *at = pack->next;
    if (list->last == pack)
        list->last = before;
    list->count--;
    list->bytes -= pack->bytes;
}

static void drop_all(struct packs *list)
{
    while (list->first) {
        struct pack *pack = list->first;

        take_out(list, pack);
        pack_free(pack);
    }
}

/* ---- tickets ---- */

static bool is_settled(const struct flow *flow, uint64_t ticket)
{
    uint64_t bit = ticket % TICKETS_MAX;

    return flow->settled[bit / 8] >> (bit % 8) & 1;
}

static void set_settled(struct flow *flow, uint64_t ticket, bool settled)
{
    uint64_t bit = ticket % TICKETS_MAX;
    unsigned mask = 1u << (bit % 8), was = flow->settled[bit / 8];

    flow->settled[bit / 8] =
        (unsigned char)(settled ? was | mask : was & ~mask);
}

static void settle_ticket(struct flow *flow, uint64_t ticket)
{
    set_settled(flow, ticket, true);
    while (flow->low_water < flow->ticket &&
           is_settled(flow, flow->low_water + 1)) {
        flow->low_water++;
        set_settled(flow, flow->low_water, false);
    }
}

/* ---- settling ---- */

static void break_flow(struct flow *flow, enum tw_err code, const char *why)
{
    if (flow->broken != TW_OK)
        return;
    flow->broken = err_fail(&flow->why, code, "%s", why);
}

static void count_done(struct flow *flow, const struct operation *operation)
{
    struct run_counts *counts = &flow->run->counts;

    atomic_fetch_add(operation->type == OPERATION_DELETE ? &counts->deleted
                                                         : &counts->written,
        1);
    flow->done++;
}

static void report_failed(struct flow *flow, const struct pack_entry *entry)
{
    const struct entity *entity = &entry->item.operation.entity;

    flow->failed++;
    flow->run->host->failed(flow->run,
        &(struct run_failure){entry->item.table, entity->partition_key,
            entity->row_key, NULL, entry->why});
}

static void tell(const struct pack_entry *entry)
{
    static const enum flow_end ends[] = {
        [PACK_DONE] = FLOW_ENDED_DONE,
        [PACK_KEPT] = FLOW_ENDED_KEPT,
        [PACK_GONE] = FLOW_ENDED_GONE,
        [PACK_SPARED] = FLOW_ENDED_SPARED,
        [PACK_FAILED] = FLOW_ENDED_FAILED,
    };
    const struct flow_item *item = &entry->item;

    if (item->settled)
        item->settled(item->context, &(struct flow_settled){
                                         .end = ends[entry->fate],
                                         .unsure = entry->unsure,
                                         .etag = entry->etag,
                                     });
}

static void settle_entry(struct flow *flow, const struct pack_entry *entry)
{
    switch (entry->fate) {
    case PACK_SEND:
        return;
    case PACK_DONE:
    case PACK_GONE:
        count_done(flow, &entry->item.operation);
        break;
    case PACK_KEPT:
        break;
    case PACK_SPARED:
        atomic_fetch_add(&flow->run->counts.skipped, 1);
        break;
    case PACK_FAILED:
        report_failed(flow, entry);
        break;
    }
    tell(entry);
    settle_ticket(flow, entry->ticket);
}

/* What is left of a pack goes first, before what came later. */
static void send_again(struct flow *flow, struct pack *pack)
{
    if (flow->settling)
        pack_free(pack);
    else
        push_first(&flow->ready, pack);
}

static void split(struct flow *flow, struct pack *pack)
{
    struct pack *second = pack_split(pack);

    send_again(flow, second);
    send_again(flow, pack);
}

/* Settle what has its fate and send the rest again; the pack is taken. */
static void settle_pack(struct flow *flow, struct pack *pack)
{
    size_t before = pack->count;

    for (size_t i = 0; i < pack->count; i++)
        settle_entry(flow, &pack->entries[i]);
    pack_compact(pack);
    pack->rounds = pack->count < before ? 0 : pack->rounds + 1;
    if (pack->count == 0)
        pack_free(pack);
    else if (pack->rounds >= ROUNDS_BEFORE_SPLIT && pack->count > 1)
        split(flow, pack);
    else
        send_again(flow, pack);
}

/* ---- what a batch was answered; the pack is taken ---- */

static void on_ok(struct flow *flow, struct pack *pack)
{
    for (size_t i = 0; i < pack->count; i++) {
        pack->entries[i].fate = PACK_DONE;
        pack->entries[i].etag = slice_of(pack->result->etags[i]);
    }
    settle_pack(flow, pack);
}

/* Too large or invalid: one operation is, or the whole: then it is halved
 * until only the one that is remains. */
static void on_refused(struct flow *flow, struct pack *pack)
{
    size_t at = pack->result->failed;

    if (pack->count == 1)
        at = 0;
    if (at >= pack->count) {
        split(flow, pack);
        return;
    }
    pack_fail(pack, &pack->entries[at], pack->task.last.err.text);
    settle_pack(flow, pack);
}

static void break_on_answer(struct flow *flow, const struct pack *pack)
{
    struct err why = pack->task.last.err;

    err_prefix(&why, "table %s", pack->table);
    break_flow(flow, pack->task.outcome, why.text);
}

static void on_last_word(struct flow *flow, struct pack *pack)
{
    break_on_answer(flow, pack);
    pack_free(pack);
}

/* A write whose outcome is unknown is not tried again by the lanes; it waits
 * here as long as it would there. */
static void count_unknown(struct pack *pack)
{
    uint64_t random;

    if (pack->task.outcome != TW_UNKNOWN) {
        pack->unknowns = 0;
        pack->not_before_ms = 0;
        return;
    }
    if (++pack->unknowns >= RETRY_TRIES)
        return;
    platform_random(&random, sizeof random);
    pack->not_before_ms =
        platform_boot_ms() + retry_backoff_ms(pack->unknowns,
                                 pack->task.last.http_status != 0, random,
                                 pack->task.last.retry_after_ms);
}

static void give_up_stubborn(struct pack *pack)
{
    for (size_t i = 0; i < pack->count; i++)
        if (pack->entries[i].fate == PACK_SEND)
            pack_fail(pack, &pack->entries[i],
                "it was changed by others each time it was to be written");
}

/* What it met has been read, or is waited for. */
static void on_resolved(struct flow *flow, struct pack *pack)
{
    struct err why;
    enum tw_err code = resolve_end(pack->resolving, &why);

    pack->resolving = NULL;
    if (code != TW_OK) {
        break_flow(flow, code, why.text);
        pack_free(pack);
        return;
    }
    if (pack->rounds >= ROUNDS_MAX)
        give_up_stubborn(pack);
    if (pack->unknowns >= RETRY_TRIES)
        break_on_answer(flow, pack);
    settle_pack(flow, pack);
}

/* A flow that is being settled sends nothing more, so only what may be done is
 * read. */
static bool may_resolve(const struct flow *flow, const struct pack *pack)
{
    return flow->broken == TW_OK &&
           (!flow->settling || pack->task.outcome == TW_UNKNOWN);
}

static bool reads_enough(const struct flow *flow)
{
    return flow->resolving >= RESOLVING_MAX ||
           flow->resolving_bytes >= RESOLVING_MAX_BYTES;
}

/* Is it waited for? What others change all the time is written as soon as it
 * has been read. */
static bool must_resolve(const struct flow *flow, const struct pack *pack)
{
    return flow->settling || pack->rounds >= ROUNDS_BEFORE_SPLIT;
}

/* What it met is being read; the pack is taken. */
static void continue_resolving(struct flow *flow, struct pack *pack)
{
    if (!may_resolve(flow, pack)) {
        resolve_free(pack->resolving);
        pack_free(pack);
    } else if (must_resolve(flow, pack) || resolve_is_ready(pack->resolving)) {
        on_resolved(flow, pack);
    } else {
        flow->resolving++;
        pack->resolving_bytes = resolve_bytes(pack->resolving);
        flow->resolving_bytes += pack->resolving_bytes;
        push(&flow->under_way, pack);
    }
}

/* It is its turn, or will be; the pack is taken. */
static void begin_resolving(struct flow *flow, struct pack *pack)
{
    pack->waits_to_resolve = may_resolve(flow, pack) &&
                             !must_resolve(flow, pack) && reads_enough(flow);
    if (pack->waits_to_resolve) {
        push(&flow->under_way, pack);
        return;
    }
    if (may_resolve(flow, pack))
        pack->resolving = resolve_begin(flow->run, pack);
    continue_resolving(flow, pack);
}

/* Refused by what is stored, or unknown: it is read again. */
static void on_met(struct flow *flow, struct pack *pack)
{
    count_unknown(pack);
    begin_resolving(flow, pack);
}

static void on_answer(struct flow *flow, struct pack *pack)
{
    switch (pack->task.outcome) {
    case TW_OK:
        on_ok(flow, pack);
        break;
    case TW_UNKNOWN:
        flow->unsure = true;
        pack_doubt(pack);
        on_met(flow, pack);
        break;
    case TW_CONFLICT:
    case TW_NOT_FOUND:
        on_met(flow, pack);
        break;
    case TW_TOO_LARGE:
    case TW_INVALID:
        on_refused(flow, pack);
        break;
    case TW_BUSY:
    case TW_REFUSED:
    case TW_FORBIDDEN:
    case TW_STOPPED:
    case TW_FULL:
        on_last_word(flow, pack);
        break;
    }
}

static bool has_ended(const struct flow *flow, const struct pack *pack)
{
    if (pack->waits_to_resolve)
        return !reads_enough(flow);
    return pack->resolving ? resolve_is_ready(pack->resolving)
                           : lanes_done(flow->run->lanes, &pack->task);
}

/* The pack is taken. */
static void on_end(struct flow *flow, struct pack *pack)
{
    take_out(&flow->under_way, pack);
    if (pack->waits_to_resolve) {
        begin_resolving(flow, pack);
    } else if (pack->resolving) {
        flow->resolving--;
        flow->resolving_bytes -= pack->resolving_bytes;
        continue_resolving(flow, pack);
    } else {
        on_answer(flow, pack);
    }
}

static bool reap_once(struct flow *flow)
{
    struct pack *pack = flow->under_way.first;
    bool any = false;

    while (pack) {
        struct pack *next = pack->next;

        if (has_ended(flow, pack)) {
            on_end(flow, pack);
            any = true;
        }
        pack = next;
    }
    return any;
}

/* Look at the packs that have ended, and those whose turn that makes it. */
static void reap(struct flow *flow)
{
    while (reap_once(flow))
        continue;
}

/* ---- sending ---- */

static bool may_send(const struct flow *flow, const struct pack *pack)
{
    if (flow->under_way.count >= flow->in_flight)
        return false;
    return flow->under_way.count == 0 ||
           flow->under_way.bytes + pack->bytes <= UNDER_WAY_MAX_BYTES;
}

/* Wait for the ceiling. A run that is to stop does not wait for it: what was
 * not sent is left to the next attempt. */
static bool spend(struct flow *flow, const struct pack *pack)
{
    while (!lanes_spend(flow->run->lanes, (unsigned)pack->count))
        if (run_stopping(flow->run)) {
            break_flow(flow, TW_STOPPED, "stopped");
            return false;
        }
    return true;
}

/* Send what is ready, as far as it may go now. waits: nothing else is done
 * meanwhile, so that a single batch needs no other thread. */
static void send_some(struct flow *flow, bool waits)
{
    while (flow->broken == TW_OK && flow->ready.first &&
           may_send(flow, flow->ready.first) &&
           spend(flow, flow->ready.first)) {
        struct pack *pack = flow->ready.first;

        take_out(&flow->ready, pack);
        push(&flow->under_way, pack);
        if (waits && !flow->ready.first && flow->under_way.count == 1)
            pack_call(pack, flow->run->lanes);
        else
            pack_submit(pack, flow->run->lanes);
    }
}

static void send_ready(struct flow *flow)
{
    send_some(flow, false);
}

static void wait_one(struct flow *flow)
{
    flow->seen = lanes_wait_any(flow->run->lanes, flow->seen);
    reap(flow);
    send_ready(flow);
}

static void cut(struct flow *flow, struct pack *pack)
{
    take_out(&flow->open, pack);
    push(&flow->ready, pack);
}

static void cut_all(struct flow *flow)
{
    while (flow->open.last)
        cut(flow, flow->open.last);
}

static struct pack *find_open(struct flow *flow, const struct flow_item *item)
{
    struct pack *pack = flow->open.first;

    while (pack && !pack_takes(pack, item))
        pack = pack->next;
    return pack;
}

/* The pack that item joins: gathering already, or a new one. */
static struct pack *pack_for(struct flow *flow, const struct flow_item *item)
{
    struct pack *pack = find_open(flow, item);

    if (pack && !pack_has_room(pack, item)) {
        cut(flow, pack);
        pack = NULL;
    }
    if (pack)
        take_out(&flow->open, pack);
    else
        pack = pack_new(item);
    return pack;
}

/* The number of tickets that are out is bounded: an operation that gathers
 * alone must not hold back the mark for ever. */
static void make_room_for_ticket(struct flow *flow)
{
    if (flow->ticket - flow->low_water < TICKETS_MAX)
        return;
    cut_all(flow);
    send_some(flow, true);
    while (
        flow->broken == TW_OK && flow->ticket - flow->low_water >= TICKETS_MAX)
        wait_one(flow);
}

/* Looked for now and then, which is often enough. */
static void cut_old(struct flow *flow)
{
    struct pack *pack = flow->open.first;

    if (flow->ticket % (OPEN_MAX_TICKETS / 4) != 0)
        return;
    while (pack) {
        struct pack *next = pack->next;

        if (pack->entries[0].ticket + OPEN_MAX_TICKETS < flow->ticket)
            cut(flow, pack);
        pack = next;
    }
}

/* Cut what is full or too much, and send it, waiting until it may go. */
static void send_surplus(struct flow *flow)
{
    struct pack *newest = flow->open.first;

    if (newest->count == BATCH_MAX_OPERATIONS)
        cut(flow, newest);
    cut_old(flow);
    while (flow->open.count > OPEN_MAX || flow->open.bytes > OPEN_MAX_BYTES)
        cut(flow, flow->open.last);
    send_ready(flow);
    while (flow->broken == TW_OK && flow->ready.first)
        wait_one(flow);
}

static enum tw_err outcome_of(const struct flow *flow, struct err *err)
{
    if (flow->broken == TW_OK)
        return TW_OK;
    return err_fail(err, flow->broken, "%s", flow->why.text);
}

/* ---- the flow ---- */

struct flow *flow_new(struct run *run, unsigned in_flight)
{
    struct flow *flow = mem_alloc(sizeof *flow);

    assert(in_flight > 0);
    flow->run = run;
    flow->in_flight = in_flight;
    return flow;
}

enum tw_err flow_add(
    struct flow *flow, const struct flow_item *item, struct err *err)
{
    struct pack *pack;

    make_room_for_ticket(flow);
    if (flow->broken != TW_OK)
        return outcome_of(flow, err);
    pack = pack_for(flow, item);
    pack_add(pack, item, ++flow->ticket);
    push_first(&flow->open, pack);
    send_surplus(flow);
    return outcome_of(flow, err);
}

enum tw_err flow_cut(struct flow *flow, struct err *err)
{
    cut_all(flow);
    reap(flow);
    send_ready(flow);
    return outcome_of(flow, err);
}

enum tw_err flow_drain(struct flow *flow, struct err *err)
{
    cut_all(flow);
    send_some(flow, true);
    while (
        flow->broken == TW_OK && (flow->ready.first || flow->under_way.first))
        wait_one(flow);
    return outcome_of(flow, err);
}

void flow_settle(struct flow *flow)
{
    flow->settling = true;
    drop_all(&flow->open);
    drop_all(&flow->ready);
    while (flow->under_way.first) {
        struct pack *pack = flow->under_way.first;

        lanes_cancel(flow->run->lanes, &pack->task);
        on_end(flow, pack);
    }
    if (flow->ticket > flow->low_water)
        break_flow(flow, TW_STOPPED, "the flow was settled");
    flow->settling = false;
}

uint64_t flow_ticket(const struct flow *flow)
{
    return flow->ticket;
}

uint64_t flow_low_water(struct flow *flow)
{
    reap(flow);
    send_ready(flow);
    return flow->low_water;
}

int64_t flow_failed(const struct flow *flow)
{
    return flow->failed;
}

int64_t flow_done(const struct flow *flow)
{
    return flow->done;
}

bool flow_unsure(const struct flow *flow)
{
    return flow->unsure;
}

void flow_free(struct flow *flow)
{
    if (!flow)
        return;
    flow_settle(flow);
    mem_free(flow);
}
