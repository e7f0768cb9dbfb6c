/* SPDX-License-Identifier: MIT */
/*
 * What metrics must ask for: lengths of queues, and free space of archives. A
 * thread of its own asks at most once in SAMPLER_EVERY_MS, and only while
 * somebody wants to know, so that a store or a disk that does not respond
 * holds up no scrape, and a worker that is not scraped sends no request for it.
 * The thread starts with the first wish.
 */
#ifndef TW_MONITOR_SAMPLER_H
#define TW_MONITOR_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct consumer;
struct sampler;

/* Two reads of the same queue are at least this far apart. */
#define SAMPLER_EVERY_MS 20000

struct sample_queue {
    char *queue;
    bool good;         /* the queue could be read; false: all below are 0 */
    int64_t messages;  /* number of messages, hidden ones included */
    int64_t oldest_ms; /* age of the first visible message, now; 0: no message
                          is visible */
    int64_t poisoned;  /* number of messages in its poison queue */
};

struct sample_archive {
    char *job;
    int64_t free_bytes, size_bytes; /* of the file system */
};

struct samples {
    struct sample_queue *queues;
    size_t queue_count;
    struct sample_archive *archives;
    size_t archive_count;
    int64_t taken_ms; /* boot clock; 0: never */
};

/* sampler_new: consumer is borrowed. sampler_free waits for a request under
 * way, which is given up within a second. */
struct sampler *sampler_new(struct consumer *consumer);
void sampler_free(struct sampler *sampler); /* NULL: nothing */

/* sampler_look: a copy of what was sampled last, empty at first; and the wish
 * for newer samples. Never waits for a request. Owned: samples_done(). */
void sampler_look(struct sampler *sampler, struct samples *ret);
void samples_done(struct samples *samples);

#endif
