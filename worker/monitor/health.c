/* SPDX-License-Identifier: MIT */
/* /livez and /readyz. */
#include "worker/monitor/health.h"

#include <inttypes.h>

#include "worker/base/platform.h"

#define UNAVAILABLE 503

bool health_is_alive(const struct consumer_view *view, int64_t now_ms,
    int64_t limit_ms, struct buf *why)
{
    int64_t age_ms = now_ms - view->progress_ms;

    /* The limit applies only while the consumer serves, because the requests at
     * the start, and the attempts that are ended at the stop, have time limits
     * of their own. */
    if (view->stage == CONSUMER_SERVES && age_ms > limit_ms) {
        buf_add_format(why,
            "the worker has made no progress for %" PRId64
            " s, more than the %" PRId64 " s that are allowed: restart it",
            age_ms / 1000, limit_ms / 1000);
        return false;
    }
    buf_add_text(why, "the worker is alive");
    return true;
}

static bool is_serving_any(
    const struct consumer_view *view, size_t queue_count, struct buf *why)
{
    size_t failing = view->threads.queues_failing;

    if (queue_count == 0) {
        buf_add_text(why,
            "no messages are received: `queues` of the configuration is empty");
        return false;
    }
    if (failing < queue_count) {
        buf_add_format(why, "messages are received from %zu of %zu queue%s",
            queue_count - failing, queue_count, queue_count == 1 ? "" : "s");
        return true;
    }
    buf_add_format(why, "no queue can be served: %s", view->threads.cause.text);
    return false;
}

bool health_is_ready(const struct consumer_view *view, size_t queue_count,
    int64_t now_ms, struct buf *why)
{
    switch (view->stage) {
    case CONSUMER_STARTS:
        buf_add_text(why, "the worker is starting");
        return false;
    case CONSUMER_STOPS:
        buf_add_text(why, "the worker is stopping");
        return false;
    case CONSUMER_SERVES:
        break;
    }
    if (view->outage) {
        buf_add_format(why,
            "no messages are received, because the ledger has been unavailable "
            "for %" PRId64 " s: %s",
            (now_ms - view->outage_since_ms) / 1000, view->cause.text);
        return false;
    }
    return is_serving_any(view, queue_count, why);
}

static void end_response(struct http_response *response, bool good)
{
    buf_add_char(&response->body, '\n');
    if (!good)
        response->status = UNAVAILABLE;
}

static void handle_live(void *context, const struct http_request *request,
    struct http_response *response)
{
    const struct health *health = context;
    struct consumer_view view;

    (void)request;
    consumer_read_view(health->consumer, &view);
    end_response(response, health_is_alive(&view, platform_boot_ms(),
                               health->limit_ms, &response->body));
}

static void handle_ready(void *context, const struct http_request *request,
    struct http_response *response)
{
    const struct health *health = context;
    struct definition *definition = consumer_definition(health->consumer);
    struct consumer_view view;

    (void)request;
    consumer_read_view(health->consumer, &view);
    end_response(
        response, health_is_ready(&view, definition->setup->queue_count,
                      platform_boot_ms(), &response->body));
    definition_drop(definition);
}

void health_routes(struct health *health, struct http_route *routes)
{
    routes[0] = (struct http_route){"GET", "/livez", handle_live, health};
    routes[1] = (struct http_route){"GET", "/readyz", handle_ready, health};
}
