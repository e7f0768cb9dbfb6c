/* SPDX-License-Identifier: MIT */
/* Runs the consumer of a worker on a thread of its own. */
#ifndef TW_TESTS_SERVICE_H
#define TW_TESTS_SERVICE_H

#include "worker/base/err.h"
#include "worker/base/platform.h"
#include "worker/run/consumer.h"

struct service {
    struct consumer *consumer;
    struct consumer_result result; /* result, outcome and err: what
                                      consumer_run() returned */
    enum tw_err outcome;
    struct err err;
    struct platform_thread thread;
};

/* service_new: makes the consumer.
 * service_run: runs the consumer on its thread.
 * service_start: service_new() and service_run(). */
void service_new(
    struct service *service, const struct consumer_options *options);
void service_run(struct service *service);
void service_start(
    struct service *service, const struct consumer_options *options);

/* service_join: waits until the consumer ends by itself.
 * service_free: frees the consumer.
 * service_stop: tells the consumer to end, then calls service_join() and
 * service_free(). */
void service_join(struct service *service);
void service_free(struct service *service);
void service_stop(struct service *service);

#endif
