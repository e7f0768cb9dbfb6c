/* SPDX-License-Identifier: MIT */
/*
 * The book: what the ledger and the queues may be, whatever the kind. It sees
 * each write to them as the service takes it, and each request of a run as it
 * is sent.
 */
#ifndef TW_TESTS_SIMULATE_BOOK_H
#define TW_TESTS_SIMULATE_BOOK_H

#include "tests/simulate/sim.h"

struct book *book_new(struct sim *sim);

/* book_commit: a batch on the ledger's table was taken. */
void book_commit(struct book *book, const struct batch *batch, bool by_worker);

/* book_message: a front end has put it. run: JOB/ID; JOB/ where the message's
 * own id is the run's; empty where nobody can understand it. */
void book_message(struct book *book, const char *queue, struct slice message_id,
    const char *run);

/* book_queue_deleted: a queue is gone, with all messages that it has. */
void book_queue_deleted(struct book *book, const char *queue);

/* book_put, book_deleted: a worker's put was taken, a worker's delete. */
void book_put(struct book *book, const char *queue, struct slice text);
void book_deleted(struct book *book, const char *queue, struct slice id);

/*
 * book_sent: a worker's request leaves under that deadline. process: whose. It
 * tells the run by the write that took it.
 */
void book_sent(struct book *book, const void *process,
    const struct deadline *deadline, const struct store_request *request);

/* book_taken: the same request, when the service has taken it. book_answered:
 * the worker has the answer to it, with that Date (0: none). */
void book_taken(struct book *book, const void *process,
    const struct deadline *deadline, const struct store_request *request);
void book_answered(struct book *book, const void *process,
    const struct deadline *deadline, int64_t date_ticks);

/* book_holds: has the process a lease? */
bool book_holds(const struct book *book, const void *process);

/* book_paused: all clocks of the process have stood still. Until an answer
 * tells it, it cannot know that a lease of its is over. */
void book_paused(struct book *book, const void *process);

/* book_all_ended: every run that was asked for has ended. */
bool book_all_ended(struct book *book);

/* book_end: in the end. */
void book_end(struct book *book);

/* book_find: a run, or NULL. key: JOB/ID. */
struct sim_run *book_find(struct book *book, struct slice key);

/* book_some_run: any that the ledger has; NULL: it has none. */
const struct sim_run *book_some_run(struct book *book);

/* book_any: is there a run of which test says yes? */
bool book_any(struct book *book,
    bool (*test)(const void *ctx, const struct sim_run *run), const void *ctx);

/* book_was_paused: has a worker that held the lease of the run named key been
 * paused with all its clocks? What it sent before a response told it the time
 * may land after the run's end (DESIGN.md, "When the machine is paused"). */
bool book_was_paused(const struct book *book, struct slice key);

/* book_has_lost: has a message been lost with its queue before any run of it
 * was in the ledger? No run will do what it asked for. */
bool book_has_lost(struct book *book);

/* book_dump: notes what is open. */
void book_dump(struct book *book);

#endif
