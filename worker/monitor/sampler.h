/* SPDX-License-Identifier: MIT */
/*
 * Samples of values that cannot be read while a request for metrics waits:
 * lengths of queues, and free space of archives. A thread of its own takes
 * them, at most once in SAMPLER_EVERY_MS and only after sampler_look() was
 * called. So a store or a disk that does not respond holds up no scrape, and a
 * worker that is not scraped sends no requests for metrics. The first
 * sampler_look() starts the thread.
 */
#ifndef TW_MONITOR_SAMPLER_H
#define TW_MONITOR_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct consumer;
struct sampler;

/* Minimum time between two reads of the same queue. */
#define SAMPLER_EVERY_MS 20000

struct sample_queue {
    char *queue;
    bool good;         /* the queue could be read; false: all below are 0 */
    int64_t messages;  /* number of messages, hidden ones included */
    int64_t oldest_ms; /* age of the first visible message when sampler_look()
                          is called; 0: no message is visible */
    int64_t poisoned;  /* number of messages in the queue's poison queue */
};

struct sample_archive {
    char *job;
    int64_t free_bytes, size_bytes; /* free and total space of the archive's
                                       file system */
};

struct samples {
    struct sample_queue *queues;
    size_t queue_count;
    struct sample_archive *archives;
    size_t archive_count;
    int64_t taken_ms; /* boot clock; 0: never */
};

/* sampler_new: create a sampler for the queues and archives of consumer, which
 * is borrowed. Owned. sampler_free: waits for a request under way, which is
 * given up within a second. Does nothing if given NULL. */
struct sampler *sampler_new(struct consumer *consumer);
void sampler_free(struct sampler *sampler);

/* sampler_look: write a copy of the last samples to ret (none at first), and
 * ask the thread to take newer ones. Never waits for a request. Free ret with
 * samples_done(). */
void sampler_look(struct sampler *sampler, struct samples *ret);
void samples_done(struct samples *samples);

#endif
