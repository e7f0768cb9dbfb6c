/* SPDX-License-Identifier: MIT */
/*
 * Linked into a copy of the program. The program itself is unchanged, but calls
 * of three functions pass through here (ld's --wrap), so that a test learns
 * when each request was started. A request counts as started when the clock is
 * read for the last check of the deadline, in the pre-request callback. A
 * process may fall asleep between this check and the first byte, and no check
 * can prevent it. Between the store's own check of the deadline and the last
 * check, a request waits here for up to LINGER_MAX_NS, so that many requests
 * are stopped at this point.
 *
 * ZOMBIES_SENDS: a file that gets a line for each request:
 *   x-ms-client-request-id, CLOCK_MONOTONIC in us, 1 if a lease bounds it.
 * ZOMBIES_CLOCK: a file that changes the clocks of the process
 * (bent_platform.h); without it, they are the real ones.
 * ZOMBIES_BREAK=deadline: breaks the program on purpose (deadlines never
 * close), to see that the test can fail.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/bent_platform.h"
#include "tests/support/real_threads.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/azure/http.h"
#include "worker/store/deadline.h"

#define ID_BYTES 37
#define LINGER_MAX_NS 10000000u

bool __real_deadline_is_open(const struct deadline *deadline, int64_t now_ms);
bool __wrap_deadline_is_open(const struct deadline *deadline, int64_t now_ms);
void __real_text_random_uuid(char *to);
void __wrap_text_random_uuid(char *to);
enum tw_err __real_http_send(struct http *http,
    const struct http_request *request, const struct deadline *deadline,
    struct http_answer *ret, struct err *err);
enum tw_err __wrap_http_send(struct http *http,
    const struct http_request *request, const struct deadline *deadline,
    struct http_answer *ret, struct err *err);

static int sends = -1;
static bool bent, broken;

/* Id of the request that this thread has created and not yet started. */
static _Thread_local char request_id[ID_BYTES];

__attribute__((constructor)) static void observe(void)
{
    const char *clock = getenv("ZOMBIES_CLOCK");
    const char *file = getenv("ZOMBIES_SENDS");
    const char *fault = getenv("ZOMBIES_BREAK");

    if (clock != NULL)
        (void)bent_platform_use(clock);
    bent = clock != NULL;
    broken = fault != NULL && strcmp(fault, "deadline") == 0;
    if (file != NULL)
        sends = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file != NULL && sends < 0)
        abort();
}

void __wrap_text_random_uuid(char *to)
{
    __real_text_random_uuid(to);
    memcpy(request_id, to, ID_BYTES);
}

enum tw_err __wrap_http_send(struct http *http,
    const struct http_request *request, const struct deadline *deadline,
    struct http_answer *ret, struct err *err)
{
    struct timespec linger = {0, (long)platform_random_below(LINGER_MAX_NS)};

    (void)nanosleep(&linger, NULL);
    return __real_http_send(http, request, deadline, ret, err);
}

static bool is_bound(const struct deadline *deadline)
{
    return deadline != NULL && atomic_load(&deadline->at_ms) != PLATFORM_NEVER;
}

bool __wrap_deadline_is_open(const struct deadline *deadline, int64_t now_ms)
{
    int64_t read_us = bent ? bent_platform_read_us() : real_threads_us();
    bool is_open = broken || __real_deadline_is_open(deadline, now_ms);
    char line[96];
    int len;

    if (!is_open || sends < 0 || request_id[0] == '\0')
        return is_open;
    len = snprintf(line, sizeof(line), "%s %" PRId64 " %d\n", request_id,
        read_us, is_bound(deadline));
    if (write(sends, line, (size_t)len) != len)
        abort();
    request_id[0] = '\0';
    return true;
}
