/* SPDX-License-Identifier: MIT */
/*
 * What befalls a whole service, or a worker's machine, for a while: some worlds
 * have one or two of these. What befalls single requests is faulty's.
 */
#ifndef TW_TESTS_SIMULATE_TROUBLE_H
#define TW_TESTS_SIMULATE_TROUBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/interpose.h"

struct sim;
struct sim_kind;
struct book;
struct wire;
struct buf;

enum trouble {
    TROUBLE_QUEUES_SILENT, /* the queue service takes requests, and may do what
                              they ask, but does not answer */
    TROUBLE_QUEUES_BEHIND, /* its clock, from beginning to end */
    TROUBLE_QUEUES_AHEAD,
    TROUBLE_DATA_REFUSED,  /* the store of the job's tables is gone; ledger and
                              queues are in another one */
    TROUBLE_DATA_SILENT,   /* the same: no connection is refused */
    TROUBLE_QUEUE_DELETED, /* with its messages; for 30 s it cannot be made */
    TROUBLE_TABLE_DELETED, /* one of that name is: 409 for 30 s, then it is as
                              it was */
    TROUBLE_DNS,           /* hangs: a request blocks its thread far beyond its
                              time-out, and has not been sent */
    TROUBLE_PAUSE,         /* a hypervisor's: all clocks of a worker stand */
    TROUBLES,
};

#define TROUBLE_QUEUES 2
#define TROUBLE_TABLES 8

struct troubles {
    struct sim *sim;
    unsigned drawn; /* a set of them: bit n is trouble n */
    unsigned met;   /* of these, those that came */
    int64_t queue_shift_ms;
    int64_t until_ms[TROUBLES];
    unsigned generation[TROUBLE_QUEUES];  /* how often each was deleted */
    int64_t deleted_ms[TROUBLE_QUEUES];   /* until when it cannot be made */
    bool deleted_says_409;                /* meanwhile, and not 404 */
    char queue_names[TROUBLE_QUEUES][24]; /* at the service */
    const char *tables[TROUBLE_TABLES];
    size_t table_count;
    const char *table; /* that is being deleted */
    bool besieged;     /* nothing but the data is in trouble */
};

/* trouble_name: for people. */
const char *trouble_name(enum trouble trouble);

/* trouble_draw: what this world has. */
void trouble_draw(struct troubles *troubles, struct sim *sim);

/* trouble_has: has it that one? trouble_lasts: and just now? */
bool trouble_has(const struct troubles *troubles, enum trouble trouble);
bool trouble_lasts(const struct troubles *troubles, enum trouble trouble);

/* trouble_has_data_apart: is the data in a store of its own? Where it
 * will be gone, or name servers hang. */
bool trouble_has_data_apart(const struct troubles *troubles);

/* trouble_comes: one of those that this world has; false: it has none. */
bool trouble_comes(struct troubles *troubles);

/* trouble_ends: all is well again, but for what the queue service's clock is.
 */
void trouble_ends(struct troubles *troubles);

/* trouble_knows_table: a table of the kind's. */
void trouble_knows_table(struct troubles *troubles, const char *table);

/*
 * trouble_meets: in the moment before a worker's request leaves. Not TW_OK: it
 * does not. trouble_silences: whether its answer will be lost, after all of its
 * time-out; *ret_arrives: and is it done?
 */
enum tw_err trouble_meets(struct troubles *troubles, const struct wire *wire,
    struct exchange *exchange, const struct store_request *request);
bool trouble_silences(struct troubles *troubles, const struct wire *wire,
    const struct store_request *request, bool *ret_arrives);

/*
 * trouble_takes: the service takes a request, anybody's; false: it does not,
 * and *ret is what it says. trouble_send: the request goes to the store, where
 * queues have other names once they were deleted, and the queue service's own
 * clock.
 */
bool trouble_takes(struct troubles *troubles, struct exchange *exchange,
    const struct store_request *request, enum tw_err *ret);
enum tw_err trouble_send(struct troubles *troubles, struct store *service,
    struct exchange *exchange, const struct store_request *request);

/* trouble_queue: what a queue's name is at the service now. */
const char *trouble_queue(const struct troubles *troubles, const char *queue);

/* trouble_await_queues: until both are there: before a front end acts.
 * trouble_need_queue: it is made, where it was deleted since. */
void trouble_await_queues(const struct troubles *troubles);
void trouble_need_queue(const struct troubles *troubles, const char *queue);

/*
 * The job beside: where the data is in a store of its own, each world has one
 * that deletes all of a table in the other store. trouble_besiege: at the end
 * of the trouble, while nothing but the data is gone, a run of it must go on.
 */
#define BESIDE_JOB "beside"
#define BESIDE_TABLE "Beside"

void trouble_begin_beside(struct troubles *troubles);
void trouble_add_beside_job(const struct troubles *troubles, struct buf *text);
void trouble_besiege(struct troubles *troubles);

#endif
