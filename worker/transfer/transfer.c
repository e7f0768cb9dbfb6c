/* SPDX-License-Identifier: MIT */
/* Reports of an import or an export, and the stop signal. */
#include "worker/transfer/transfer.h"

#include <stdarg.h>
#include <stdio.h>

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
