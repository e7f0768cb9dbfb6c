/* SPDX-License-Identifier: MIT */
#include "tests/support/service.h"

static void body(void *arg)
{
    struct service *service = arg;

    service->outcome =
        consumer_run(service->consumer, &service->result, &service->err);
}

void service_new(
    struct service *service, const struct consumer_options *options)
{
    *service = (struct service){.consumer = consumer_new(options)};
}

void service_run(struct service *service)
{
    platform_start(&service->thread, "service", body, service);
}

void service_start(
    struct service *service, const struct consumer_options *options)
{
    service_new(service, options);
    service_run(service);
}

void service_join(struct service *service)
{
    platform_join(&service->thread);
}

void service_free(struct service *service)
{
    consumer_free(service->consumer);
}

void service_stop(struct service *service)
{
    consumer_stop(service->consumer);
    service_join(service);
    service_free(service);
}
