/* SPDX-License-Identifier: MIT */
/*
 * Trouble of a whole service or of a worker's machine that lasts for a while.
 * Some simulations have one or two kinds of it. Faults of single requests are
 * in tests/support/faulty.h.
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
    TROUBLE_QUEUES_SILENT, /* the queue service accepts requests, and carries
                              out some of them, but does not respond */
    TROUBLE_QUEUES_BEHIND, /* the clock of the queue service is behind during
                              the whole simulation */
    TROUBLE_QUEUES_AHEAD,
    TROUBLE_DATA_REFUSED,  /* connections to the store of the job's tables are
                              refused; ledger and queues are in another store */
    TROUBLE_DATA_SILENT,   /* the store of the job's tables does not respond */
    TROUBLE_QUEUE_DELETED, /* a queue is deleted with its messages; for 30 s it
                              cannot be created */
    TROUBLE_TABLE_DELETED, /* requests to one table are answered 409 for at
                              least 30 s; then the table has its former
                              entities */
    TROUBLE_DNS,           /* name resolution hangs: a request blocks its thread
                              far beyond its time-out, and has not been sent */
    TROUBLE_PAUSE,         /* a hypervisor pauses a worker: all its clocks stand
                              still */
    TROUBLES,
};

#define TROUBLE_QUEUES 2
#define TROUBLE_TABLES 8

struct troubles {
    struct sim *sim;
    unsigned drawn; /* bit n: this simulation can have trouble n */
    unsigned met;   /* bit n: trouble n has occurred */
    int64_t queue_shift_ms;
    int64_t until_ms[TROUBLES];
    unsigned generation[TROUBLE_QUEUES];  /* how often each queue was deleted */
    int64_t deleted_ms[TROUBLE_QUEUES];   /* until when the queue cannot be
                                             created */
    bool deleted_says_409;                /* requests to a deleted queue are
                                             answered 409 meanwhile, not 404 */
    char queue_names[TROUBLE_QUEUES][24]; /* names of the queues at the
                                             service */
    const char *tables[TROUBLE_TABLES];
    size_t table_count;
    const char *table; /* the table that is being deleted */
    bool besieged;     /* only the store of the job's tables is in trouble */
};

/* trouble_name: name of the trouble for messages. */
const char *trouble_name(enum trouble trouble);

/* trouble_draw: chooses by chance which troubles this simulation can have. */
void trouble_draw(struct troubles *troubles, struct sim *sim);

/* trouble_has: true if this simulation can have this trouble. trouble_lasts:
 * true if the trouble lasts now. */
bool trouble_has(const struct troubles *troubles, enum trouble trouble);
bool trouble_lasts(const struct troubles *troubles, enum trouble trouble);

/* trouble_has_data_apart: true if the job's tables are in a store of their own.
 * They are if this simulation can have trouble of that store or of name
 * resolution. */
bool trouble_has_data_apart(const struct troubles *troubles);

/* trouble_comes: begins one of the troubles that this simulation can have;
 * false: none has begun. */
bool trouble_comes(struct troubles *troubles);

/* trouble_ends: ends all trouble, except the clock of the queue service and a
 * paused worker. */
void trouble_ends(struct troubles *troubles);

/* trouble_knows_table: adds a table of the kind to those that may be
 * deleted. */
void trouble_knows_table(struct troubles *troubles, const char *table);

/*
 * trouble_meets: called just before a worker's request leaves; unless it
 * returns TW_OK, the request is not sent. trouble_silences: true if the
 * response will be lost, so that the worker waits for its whole time-out;
 * *ret_arrives: whether the service carries out the request.
 */
enum tw_err trouble_meets(struct troubles *troubles, const struct wire *wire,
    struct exchange *exchange, const struct store_request *request);
bool trouble_silences(struct troubles *troubles, const struct wire *wire,
    const struct store_request *request, bool *ret_arrives);

/*
 * trouble_takes: false: the service refuses the request, and *ret is the
 * outcome. trouble_send: sends the request to the store; a queue that was
 * deleted has another name there, and times are those of the queue service's
 * clock.
 */
bool trouble_takes(struct troubles *troubles, struct exchange *exchange,
    const struct store_request *request, enum tw_err *ret);
enum tw_err trouble_send(struct troubles *troubles, struct store *service,
    struct exchange *exchange, const struct store_request *request);

/* trouble_queue: current name of the queue at the service. */
const char *trouble_queue(const struct troubles *troubles, const char *queue);

/* trouble_await_queues: waits until both queues exist; called before a front
 * end acts. trouble_need_queue: creates the queue if it was deleted. */
void trouble_await_queues(const struct troubles *troubles);
void trouble_need_queue(const struct troubles *troubles, const char *queue);

/*
 * The job beside: if the job's tables are in a store of their own, the
 * configuration has a second job, which deletes all entities of a table in the
 * other store. trouble_besiege: at the end of the trouble, makes only the store
 * of the job's tables unreachable, and complains unless a run of the job beside
 * succeeds.
 */
#define BESIDE_JOB "beside"
#define BESIDE_TABLE "Beside"

void trouble_begin_beside(struct troubles *troubles);
void trouble_add_beside_job(const struct troubles *troubles, struct buf *text);
void trouble_besiege(struct troubles *troubles);

#endif
