/* SPDX-License-Identifier: MIT */
/* Fields and lines of the log about a run. */
#include "worker/run/report.h"

#include <inttypes.h>
#include <stdio.h>

#include "worker/base/json.h"
#include "worker/base/text.h"

#define ARGS_MAX_BYTES 4096
#define VALUE_MAX_BYTES 200

/* ---- fields ---- */

/* Add one argument, unless its value is not a text. */
static void add_argument(
    struct buf *to, struct slice name, const struct json *value)
{
    struct slice text, cut;

    if (json_type(value) != JSON_STRING)
        return;
    text = json_string(value);
    cut = text_cut(text, VALUE_MAX_BYTES);
    buf_add_text(to, to->len > 1 ? "," : "");
    json_add_string(to, name);
    buf_add_text(to, ":\"");
    json_add_escaped(to, cut);
    buf_add_text(to, cut.len < text.len ? "...\"" : "\"");
}

const char *report_args(struct slice args_json, struct arena *arena)
{
    struct json *args;
    struct buf to;
    const char *copy = NULL;

    if (json_parse(args_json, 1, &args, NULL) != TW_OK)
        return NULL;
    buf_init(&to, ARGS_MAX_BYTES);
    buf_add_char(&to, '{');
    for (size_t i = 0; json_type(args) == JSON_OBJECT && i < json_count(args);
         i++) {
        size_t before = to.len;

        add_argument(&to, json_name(args, i), json_value(args, i));
        if (!buf_keep(&to, before, 1))
            break;
    }
    buf_add_char(&to, '}');
    if (to.len > 2)
        copy = arena_copy(arena, buf_slice(&to)).at;
    buf_done(&to);
    json_free(args);
    return copy;
}

/* Add the run's counts to ret. Returns where to add the next number. */
static struct log_number *add_counts(
    const struct ledger_run *run, struct log_number *ret)
{
    *ret++ = (struct log_number){"read", run->read};
    *ret++ = (struct log_number){"written", run->written};
    *ret++ = (struct log_number){"deleted", run->deleted};
    *ret++ = (struct log_number){"skipped", run->skipped};
    *ret++ = (struct log_number){"failed", run->failed};
    *ret++ = (struct log_number){"requests", run->transactions};
    *ret++ = (struct log_number){"throttled", run->throttled};
    return ret;
}

void report_counts(const struct ledger_run *run, int64_t duration_ms,
    struct log_number ret[REPORT_COUNTS])
{
    ret[0] = (struct log_number){"duration_ms", duration_ms};
    *add_counts(run, ret + 1) = (struct log_number){NULL, 0};
}

/* ---- progress ---- */

static int64_t changed_of(const struct ledger_run *run)
{
    return run->written + run->deleted;
}

void report_begin(
    struct report *report, const struct ledger_run *run, int64_t now_ms)
{
    *report = (struct report){.at_ms = now_ms,
        .read = run->read,
        .changed = changed_of(run),
        .requests = run->transactions,
        .throttled = run->throttled};
}

/* Returns the share of the run that is done, in percent; -1: not known, for
 * example after the first round. */
static int share_percent(const struct ledger_run *run)
{
    return run->share >= 0 && run->share <= 1 && run->rounds <= 1
               ? (int)(run->share * 100)
               : -1;
}

/* Returns the rate since the last report, in entities a second. Of the numbers
 * of entities read and of entities changed, the larger one counts. */
static int64_t rate_of(const struct report *report,
    const struct ledger_run *run, int64_t elapsed_ms)
{
    int64_t read = run->read - report->read;
    int64_t changed = changed_of(run) - report->changed;
    int64_t more = read > changed ? read : changed;

    return more > 0 && elapsed_ms > 0
               ? (int64_t)((double)more * 1000 / (double)elapsed_ms)
               : 0;
}

static void log_progress(struct report *report, const struct log_run *log,
    const struct ledger_run *run, int64_t now_ms)
{
    int64_t rate = rate_of(report, run, now_ms - report->at_ms);
    int percent = share_percent(run);
    struct log_number numbers[2 + REPORT_COUNTS], *next = numbers;
    char share[16] = "";

    *next++ = (struct log_number){"rate", rate};
    next = add_counts(run, next);
    if (percent >= 0) {
        *next++ = (struct log_number){"share_percent", percent};
        (void)snprintf(share, sizeof(share), "%d %%, ", percent);
    }
    *next = (struct log_number){NULL, 0};
    log_run_line(LOG_INFO, log, numbers,
        "progress: %s%" PRId64 " entities/s: %" PRId64 " read, %" PRId64
        " written, %" PRId64 " deleted, %" PRId64 " skipped, %" PRId64
        " requests",
        share, rate, run->read, run->written, run->deleted, run->skipped,
        run->transactions);
    report->at_ms = now_ms;
    report->read = run->read;
    report->changed = changed_of(run);
}

static void log_throttling(struct report *report, const struct log_run *log,
    const struct ledger_run *run, int64_t now_ms)
{
    int64_t throttled = run->throttled - report->throttled;
    int64_t requests = run->transactions - report->requests;
    const struct log_number numbers[] = {
        {"throttled", throttled},
        {"requests", requests},
        {NULL, 0},
    };

    log_run_line(LOG_WARN, log, numbers,
        "is throttled: the service refused %" PRId64 " of %" PRId64
        " requests (429 or 503); the run continues at the rate that the "
        "service accepts",
        throttled, requests);
    report->throttled_at_ms = now_ms;
    report->throttled = run->throttled;
    report->requests = run->transactions;
}

void report_progress(struct report *report, const struct log_run *log,
    const struct ledger_run *run, int64_t now_ms)
{
    if (run->throttled > report->throttled &&
        (report->throttled_at_ms == 0 ||
            now_ms - report->throttled_at_ms >= REPORT_EVERY_MS))
        log_throttling(report, log, run, now_ms);
    if (now_ms - report->at_ms >= REPORT_EVERY_MS)
        log_progress(report, log, run, now_ms);
}
