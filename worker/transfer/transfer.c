/* SPDX-License-Identifier: MIT */
/* Requests and reports of an import or an export. */
#include "worker/transfer/transfer.h"

#include <stdarg.h>
#include <stdio.h>

#include "worker/store/lanes.h"

#define SENTENCE_MAX 4096

void transfer_report(const struct transfer *transfer, const char *format, ...)
{
    char sentence[SENTENCE_MAX];
    va_list list;

    va_start(list, format);
    vsnprintf(sentence, sizeof(sentence), format, list);
    va_end(list);
    transfer->report(transfer->context, sentence);
}

enum tw_err transfer_stopped(const struct transfer *transfer, struct err *err)
{
    return atomic_load(transfer->stopped)
               ? err_fail(err, TW_STOPPED, "stopped before the end")
               : TW_OK;
}

struct call {
    struct lanes_task task; /* first, so that it leads back to the call */
    enum tw_err (*call)(void *context, struct attempt *attempt);
    void *context;
};

static enum tw_err attempt_call(
    struct lanes_task *task, struct attempt *attempt)
{
    struct call *call = (struct call *)task;

    return call->call(call->context, attempt);
}

enum tw_err transfer_call(const struct transfer *transfer,
    enum tw_err (*call)(void *context, struct attempt *attempt), void *context,
    bool repeatable, struct err *err)
{
    struct call wrapped = {
        .task =
            {
                .attempt = attempt_call,
                .repeatable = repeatable,
                .store = transfer->store,
            },
        .call = call,
        .context = context,
    };
    enum tw_err outcome = lanes_call(transfer->client, &wrapped.task);

    if (outcome != TW_OK)
        *err = wrapped.task.last.err;
    return outcome;
}
