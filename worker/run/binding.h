/* SPDX-License-Identifier: MIT */
/*
 * How a queue reads its messages. A queue without a job takes JSON messages; a
 * bound queue takes the whole body as the argument of its job, as text or as
 * base64. So the same body can be a request of another job, or no request at
 * all, once the configuration binds the queue differently. The ledger entity of
 * a refused message notes the binding of the queue (property Binding). `poison
 * retry` puts the message only into a queue in which the body has the same
 * meaning.
 */
#ifndef TW_RUN_BINDING_H
#define TW_RUN_BINDING_H

#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/run/ledger.h"
#include "worker/run/setup.h"

/* binding_text: compose the value of Binding for queue: "none" for a queue
 * without a job, else "JOB text" or "JOB base64". Owned by the caller. */
char *binding_text(const struct setup_queue *queue);

/*
 * binding_queue_of_copy: find the queue of the present configuration into which
 * the body of a refused message may be put again. run: the message's ledger
 * entity. The queue depends on where the message was refused:
 *
 *   refused on a queue without a job: its own queue, if it still has no job;
 *   else the first queue without a job, if the body is a request there.
 *
 *   refused on a bound queue: a queue that is bound to the same job with the
 *   same encoding, its own one first. Text that was refused because it is not
 *   base64 may also go to a queue whose encoding is text now. If there is no
 *   such queue, a body that is a JSON request goes to a queue without a job.
 *
 * An entity that an older version wrote has no Binding. Then the body shows how
 * the queue was bound:
 *
 *   a JSON object with "job": counts as refused on a queue without a job.
 *
 *   any other body, entity under the name of a job: was refused on a queue that
 *   was bound to this job. The body may go only to its own queue, and only if
 *   this queue is still bound to the job.
 *
 *   any other body, entity under LEDGER_UNREADABLE: counts as refused on a
 *   queue without a job. So the body goes to no bound queue.
 *
 * NULL: there is no such queue, and err says what to configure.
 */
const struct setup_queue *binding_queue_of_copy(
    const struct definition *definition, const struct ledger_run *run,
    struct slice body, struct err *err);

#endif
