/* SPDX-License-Identifier: MIT */
/*
 * Sources under way: from the making of their copies until these stand, and,
 * of a move, until the source is gone. Copies go through a sorter into a flow,
 * and so do the sources that may go.
 */
#ifndef TW_JOBS_COPIER_FLIGHT_H
#define TW_JOBS_COPIER_FLIGHT_H

#include "jobs/copier_work.h"
#include "jobs/engine/flow.h"
#include "jobs/engine/sorter.h"
#include "worker/base/err.h"

struct copier_flight;

/* One copy of a source that is under way. */
struct copier_copy {
    struct copier_source *source;
    size_t target;
    struct slice partition_key, row_key; /* of a move only; they live in the
                                            source */
    bool looks;  /* another state of the source stands there */
    char *met;   /* the ETag of the one that stood there when the source was
                    read again; NULL: there was none */
    bool mine;   /* what was met there, this run wrote */
    bool shared; /* others had a part in what stood there, whatever has become
                    of it since: it never goes again */
    char *etag;  /* of what this run has stored; NULL: not known */
};

struct copier_source {
    struct copier_source *next, *previous; /* of all that are under way */
    struct copier_source *queued;          /* behind this one in its queue */
    struct copier_flight *flight;
    struct slice partition_key, row_key, etag; /* as it was read */
    unsigned tries;                            /* made anew so often */
    size_t pending;                            /* copies that are not settled */
    bool stays;  /* a copy was refused: it stays where it is */
    bool again;  /* it has changed, or a copy of another state stands */
    bool unsure; /* an outcome was unknown */
    bool stands; /* a copy of it does, or may */
    struct copier_copy copies[]; /* of each target */
};

struct copier_queue {
    struct copier_source *first, *last;
    size_t count;
};

struct copier_flight {
    struct copier *c;
    struct sorter *sorter;
    struct flow *copies;

    /* Of a move. */
    struct sorter *leaving;
    struct flow *deletes; /* of sources */
    struct flow *back;    /* deletes of copies that must go again */

    struct copier_source *all;
    struct copier_queue stored;  /* all copies stand */
    struct copier_queue again;   /* to be read and made again */
    struct copier_queue orphans; /* their source is none any more */
};

/* copier_flight_begin: of a pass. copier_flight_settle: what is under way is
 * waited for, what was not sent is dropped. */
void copier_flight_begin(struct copier_flight *flight, struct copier *c);
void copier_flight_settle(struct copier_flight *flight);

/* copier_flight_end: of one that is settled. What is late or in doubt goes
 * into the checkpoint; outcome is the pass's. */
void copier_flight_end(struct copier_flight *flight, enum tw_err outcome);

/*
 * copier_flight_add: a source and its copies, of which those of wanted go. May
 * pour the sorter, and wait. scratch: for what is sent.
 */
struct copier_sending {
    const struct entity *source, *copies;
    const bool *wanted;                 /* NULL: all */
    const struct copier_source *former; /* it is made anew of this one */
};
TW_MUST_USE enum tw_err copier_flight_add(struct copier_flight *flight,
    const struct copier_sending *sending, struct arena *scratch,
    struct err *err);

/* copier_flight_leave: all its copies stand: the source may go. */
TW_MUST_USE enum tw_err copier_flight_leave(struct copier_flight *flight,
    struct copier_source *source, struct err *err);

/* copier_flight_drop: nothing more is to be done with it. */
void copier_flight_drop(
    struct copier_flight *flight, struct copier_source *source);

/* copier_flight_leave_behind: it stays, and copies of it may stand. */
void copier_flight_leave_behind(struct copier_source *source);

/* copier_flight_orphan: what this run wrote of it is to go. */
void copier_flight_orphan(
    struct copier_flight *flight, struct copier_source *source);

/* copier_flight_take: the first of a queue, or NULL. */
struct copier_source *copier_flight_take(struct copier_queue *queue);

#endif
