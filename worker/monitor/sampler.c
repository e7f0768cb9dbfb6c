/* SPDX-License-Identifier: MIT */
/*
 * The thread waits with the lock until sampler_look() was called and the last
 * samples are old. It takes new samples without the lock, and replaces the old
 * samples under the lock.
 */
#include "worker/monitor/sampler.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/statvfs.h>

#include "jobs/job.h"
#include "jobs/jobs.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/stop.h"
#include "worker/base/text.h"
#include "worker/run/consumer.h"
#include "worker/run/setup.h"
#include "worker/store/deadline.h"
#include "worker/store/store.h"

#define OBJECT "metrics"
/* Maximum duration of one request. No scrape waits for such a request, but the
 * samples of the other queues do. */
#define REQUEST_MS 5000

/* Samples of queues that are older than this are not shown. Samples reach this
 * age if the thread hangs, for example in the file system of an archive, or if
 * metrics were not scraped for so long. */
#define OLD_MS INT64_C(900000)

struct sampler {
    struct consumer *consumer;
    struct platform_thread thread;
    _Atomic bool ending;

    struct platform_mutex lock; /* guards all fields below */
    struct platform_cond changed;
    bool started, wanted;
    struct samples samples;
};

void samples_done(struct samples *samples)
{
    for (size_t i = 0; i < samples->queue_count; i++)
        mem_free(samples->queues[i].queue);
    for (size_t i = 0; i < samples->archive_count; i++)
        mem_free(samples->archives[i].job);
    mem_free(samples->queues);
    mem_free(samples->archives);
    *samples = (struct samples){.queues = NULL};
}

static char *copy_text(const char *text)
{
    return mem_text(text, strlen(text));
}

/* ---- queues ---- */

struct reading {
    struct sampler *sampler;
    struct store *store;
    struct deadline deadline;
    struct exchange exchange; /* the last request */
};

static bool gives_up(void *context, bool comes)
{
    struct sampler *sampler = context;

    (void)comes;
    return atomic_load(&sampler->ending) || stop_is_asked();
}

static struct exchange *begin(struct reading *reading)
{
    reading->exchange = (struct exchange){.deadline = &reading->deadline,
        .gives_up = gives_up,
        .context = reading->sampler};
    return &reading->exchange;
}

/* Read the number of messages of queue. A missing queue counts as empty,
 * because a poison queue may not exist before its first message. */
static enum tw_err read_count(
    struct reading *reading, const char *queue, int64_t *ret)
{
    enum tw_err outcome =
        store_queue_count(reading->store, begin(reading), queue, ret);

    if (outcome != TW_NOT_FOUND)
        return outcome;
    *ret = 0;
    return TW_OK;
}

/* Returns the present time by the store's own clock, which dates the messages.
 */
static int64_t now_ticks(const struct reading *reading)
{
    return reading->store->capabilities.local ||
                   reading->exchange.date_ticks == 0
               ? platform_wall_ticks()
               : reading->exchange.date_ticks;
}

/* Read the age of the oldest visible message of queue into *ret_ms, 1 ms at
 * least. If no message is visible, *ret_ms is unchanged. */
static enum tw_err read_oldest(
    struct reading *reading, const char *queue, int64_t *ret_ms)
{
    struct messages messages;
    enum tw_err outcome;
    int64_t age_ms;

    messages_init(&messages);
    outcome =
        store_queue_peek(reading->store, begin(reading), queue, 1, &messages);
    if (outcome == TW_OK && messages.count > 0) {
        age_ms = (now_ticks(reading) - messages.list[0].inserted_ticks) /
                 TICKS_PER_MS;
        *ret_ms = age_ms > 1 ? age_ms : 1;
    }
    messages_done(&messages);
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}

static void read_queue(struct reading *reading, const struct setup_queue *queue,
    struct sample_queue *ret)
{
    struct sample_queue sample = {.good = true};
    enum tw_err outcome = read_count(reading, queue->name, &sample.messages);

    if (outcome == TW_OK && sample.messages > 0)
        outcome = read_oldest(reading, queue->name, &sample.oldest_ms);
    if (outcome == TW_OK)
        outcome = read_count(reading, queue->poison_queue, &sample.poisoned);
    if (outcome == TW_OK)
        *ret = sample;
    else
        log_debug(OBJECT, "the length of queue %s is unknown: %s", queue->name,
            reading->exchange.err.text);
    ret->queue = copy_text(queue->name);
}

static void read_queues(struct sampler *sampler,
    const struct definition *definition, struct samples *ret)
{
    const struct setup *setup = definition->setup;
    struct reading reading = {
        .sampler = sampler, .store = definition_store(definition)};

    deadline_init(&reading.deadline, PLATFORM_NEVER, REQUEST_MS);
    reading.deadline.brief = true;
    ret->queues = mem_array(setup->queue_count + 1, sizeof(*ret->queues));
    for (size_t i = 0; i < setup->queue_count; i++)
        if (!gives_up(sampler, false))
            read_queue(
                &reading, &setup->queues[i], &ret->queues[ret->queue_count++]);
}

/* ---- archives ---- */

/* Cut the last part off path, because a folder that does not exist yet will be
 * in the file system of the folder above it. False: path is "/". */
static bool cut_last_part(char *path)
{
    char *slash = strrchr(path, '/');

    if (!slash || path[1] == '\0')
        return false;
    if (slash == path)
        slash++;
    *slash = '\0';
    return true;
}

static bool read_archive(const char *folder, struct sample_archive *ret)
{
    char *path = copy_text(folder);
    struct statvfs at;
    bool known;

    do
        known = statvfs(path, &at) == 0;
    while (!known && cut_last_part(path));
    mem_free(path);
    if (!known)
        return false;
    ret->free_bytes = (int64_t)(at.f_bavail * at.f_frsize);
    ret->size_bytes = (int64_t)(at.f_blocks * at.f_frsize);
    return true;
}

static void read_archives(
    const struct definition *definition, struct samples *ret)
{
    const struct jobs *jobs = definition->jobs;

    ret->archives = mem_array(jobs->count + 1, sizeof(*ret->archives));
    for (size_t i = 0; i < jobs->count; i++) {
        const struct job *job = &jobs->list[i];
        const char *folder =
            job->kind->archive ? job->kind->archive(job) : NULL;
        struct sample_archive *sample = &ret->archives[ret->archive_count];
        char *path;

        if (!folder)
            continue;
        path = definition_path(definition, folder);
        if (read_archive(path, sample)) {
            sample->job = copy_text(job->name);
            ret->archive_count++;
        }
        mem_free(path);
    }
}

/* ---- the thread ---- */

/* Takes new samples. Call with the lock held; it is released while the samples
 * are taken. */
static void take_samples(struct sampler *sampler)
{
    struct definition *definition;
    struct samples samples = {.queues = NULL}, former;

    platform_unlock(&sampler->lock);
    definition = consumer_definition(sampler->consumer);
    read_archives(definition, &samples);
    read_queues(sampler, definition, &samples);
    definition_drop(definition);
    samples.taken_ms = platform_boot_ms();
    platform_lock(&sampler->lock);
    former = sampler->samples;
    sampler->samples = samples;
    samples_done(&former);
}

static void serve(void *arg)
{
    struct sampler *sampler = arg;

    platform_lock(&sampler->lock);
    while (!atomic_load(&sampler->ending)) {
        int64_t due_ms = sampler->samples.taken_ms == 0
                             ? 0
                             : sampler->samples.taken_ms + SAMPLER_EVERY_MS;

        if (sampler->wanted && platform_boot_ms() >= due_ms) {
            sampler->wanted = false;
            take_samples(sampler);
        } else {
            (void)platform_wait(&sampler->changed, &sampler->lock,
                sampler->wanted ? due_ms : PLATFORM_NEVER);
        }
    }
    platform_unlock(&sampler->lock);
}

struct sampler *sampler_new(struct consumer *consumer)
{
    struct sampler *sampler = mem_alloc(sizeof(*sampler));

    sampler->consumer = consumer;
    platform_mutex_init(&sampler->lock);
    platform_cond_init(&sampler->changed);
    return sampler;
}

void sampler_free(struct sampler *sampler)
{
    if (!sampler)
        return;
    platform_lock(&sampler->lock);
    atomic_store(&sampler->ending, true);
    platform_wake_all(&sampler->changed);
    platform_unlock(&sampler->lock);
    if (sampler->started)
        platform_join(&sampler->thread);
    samples_done(&sampler->samples);
    platform_cond_done(&sampler->changed);
    platform_mutex_done(&sampler->lock);
    mem_free(sampler);
}

/* ---- looking ---- */

static void copy_samples(const struct samples *from, struct samples *ret)
{
    int64_t since_ms = platform_boot_ms() - from->taken_ms;
    bool old = since_ms > OLD_MS;

    *ret = *from;
    ret->queues = mem_array(from->queue_count + 1, sizeof(*ret->queues));
    for (size_t i = 0; i < from->queue_count; i++) {
        ret->queues[i] = from->queues[i];
        ret->queues[i].queue = copy_text(from->queues[i].queue);
        if (from->queues[i].oldest_ms > 0)
            ret->queues[i].oldest_ms += since_ms; /* the message has aged since
                                                     the sample was taken */
        if (old)
            ret->queues[i] =
                (struct sample_queue){.queue = ret->queues[i].queue};
    }
    ret->archives = mem_array(from->archive_count + 1, sizeof(*ret->archives));
    for (size_t i = 0; i < from->archive_count; i++) {
        ret->archives[i] = from->archives[i];
        ret->archives[i].job = copy_text(from->archives[i].job);
    }
}

void sampler_look(struct sampler *sampler, struct samples *ret)
{
    platform_lock(&sampler->lock);
    copy_samples(&sampler->samples, ret);
    sampler->wanted = true;
    if (!sampler->started)
        platform_start(&sampler->thread, "sampler", serve, sampler);
    sampler->started = true;
    platform_wake_all(&sampler->changed);
    platform_unlock(&sampler->lock);
}
