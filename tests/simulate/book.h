/* SPDX-License-Identifier: MIT */
/*
 * The book judges the ledger and the queues, for every kind of job. It sees
 * each write to them when the service carries it out, and each request of a run
 * when it is sent.
 */
#ifndef TW_TESTS_SIMULATE_BOOK_H
#define TW_TESTS_SIMULATE_BOOK_H

#include "tests/simulate/sim.h"

struct book *book_new(struct sim *sim);

/* book_commit: notes and judges a batch that was stored in the ledger's
 * table. */
void book_commit(struct book *book, const struct batch *batch, bool by_worker);

/* book_message: notes a message that a front end has put. run: JOB/ID; JOB/ if
 * the id of the run is that of the message; empty if the message cannot be
 * read. */
void book_message(struct book *book, const char *queue, struct slice message_id,
    const char *run);

/* book_queue_deleted: notes that a queue was deleted, with all its messages. */
void book_queue_deleted(struct book *book, const char *queue);

/* book_put: judges a message that a worker has put. book_deleted: judges the
 * delete of a message by a worker. */
void book_put(struct book *book, const char *queue, struct slice text);
void book_deleted(struct book *book, const char *queue, struct slice id);

/*
 * book_sent: judges a request that a worker sends under `deadline`. process:
 * the sender. The book finds the run by the deadline: the sender acquired the
 * run by a batch under the same deadline.
 */
void book_sent(struct book *book, const void *process,
    const struct deadline *deadline, const struct store_request *request);

/* book_taken: call when the service has carried out a request; counts the
 * request if it came from an attempt without a lease. book_answered: notes that
 * the worker has received the response to a request, with this Date (0: none).
 */
void book_taken(struct book *book, const void *process,
    const struct deadline *deadline, const struct store_request *request);
void book_answered(struct book *book, const void *process,
    const struct deadline *deadline, int64_t date_ticks);

/* book_holds: true if the process has a lease. */
bool book_holds(const struct book *book, const void *process);

/* book_paused: notes that all clocks of the process have stood still. Until a
 * response tells it the time, it cannot know that its lease has expired. */
void book_paused(struct book *book, const void *process);

/* book_all_ended: true if every run has ended and every message was deleted. */
bool book_all_ended(struct book *book);

/* book_end: complains of each message whose run has not ended, unless the
 * message was lost with its queue. */
void book_end(struct book *book);

/* book_find: returns the run with this key (JOB/ID), or NULL. */
struct sim_run *book_find(struct book *book, struct slice key);

/* book_some_run: returns a random run of the ledger; NULL: there is none. */
const struct sim_run *book_some_run(struct book *book);

/* book_any: true if test() is true for any run. */
bool book_any(struct book *book,
    bool (*test)(const void *ctx, const struct sim_run *run), const void *ctx);

/* book_was_paused: true if all clocks of a worker stood still while it had the
 * lease of the run `key`. Until a response tells it the time, this worker
 * continues to send requests, which may reach the service after the run's end
 * (DESIGN.md, "When the machine is paused"). */
bool book_was_paused(const struct book *book, struct slice key);

/* book_has_lost: true if a message was lost with its queue before its run was
 * in the ledger. No run will do what the message asked for. */
bool book_has_lost(struct book *book);

/* book_dump: writes the open runs and the remaining messages to the trace. */
void book_dump(struct book *book);

#endif
