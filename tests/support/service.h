/* SPDX-License-Identifier: MIT */
/* A worker's consumer on a thread of its own. */
#ifndef TW_TESTS_SERVICE_H
#define TW_TESTS_SERVICE_H

#include "worker/base/err.h"
#include "worker/base/platform.h"
#include "worker/run/consumer.h"

struct service {
    struct consumer *consumer;
    struct consumer_result result; /* with outcome and err: of consumer_run() */
    enum tw_err outcome;
    struct err err;
    struct platform_thread thread;
};

/* service_new: make the consumer; service_run: run it on its thread.
 * service_start: both. */
void service_new(
    struct service *service, const struct consumer_options *options);
void service_run(struct service *service);
void service_start(
    struct service *service, const struct consumer_options *options);

/* service_join: wait until the consumer ends by itself. service_free: free the
 * consumer. service_stop: ask it to end, and both. */
void service_join(struct service *service);
void service_free(struct service *service);
void service_stop(struct service *service);

#endif
