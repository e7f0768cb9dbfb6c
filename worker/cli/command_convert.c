/* SPDX-License-Identifier: MIT */
/* `tableward convert JOB`: reads entities from standard input, converts them
 * to the newest version by the steps of an upgrade job, and writes them to
 * standard output. The command makes no request. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "jobs/upgrade/convert.h"
#include "jobs/upgrade/upgrade.h"
#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/text.h"
#include "worker/cli/args.h"
#include "worker/cli/commands.h"
#include "worker/cli/say.h"
#include "worker/cli/session.h"
#include "worker/cli/signals.h"
#include "worker/transfer/records.h"

/* The maximum length of an output line: a pair of entities (--vectors) of 1 MiB
 * each, of which each byte may take six characters in JSON. */
#define LINE_MAX_BYTES ((size_t)16 * 1024 * 1024)
#define VECTORS_MAX 1000000

struct filter {
    struct upgrade_converter *converter;
    struct records *records;
    struct arena arena; /* memory of the current record */
    struct buf line;
    int64_t read, failed;
    bool unwritable; /* a write to standard output failed; print_output_end()
                        reports the reason */
};

/* The signal callback. Ends the process at once, because only whole lines were
 * printed. */
static void on_signal(void *context, int number)
{
    (void)context;
    if (number != SIGHUP)
        signals_exit_now(EXIT_STOPPED);
}

/* ---- one line ---- */

static void print_line(struct filter *filter, struct slice text)
{
    if (fwrite(text.at, 1, text.len, stdout) != text.len ||
        putchar('\n') == EOF)
        filter->unwritable = true;
}

static void report(struct filter *filter, const struct record *record,
    const struct entity *entity, const struct err *why)
{
    struct buf keys;

    filter->failed++;
    buf_init(&keys, 4 * ENTITY_MAX_KEY_BYTES);
    if (entity)
        entity_add_keys(&keys, entity->partition_key, entity->row_key);
    say("line %" PRIu64 "%s%s: %s; the line is omitted", record->first,
        entity ? ", " : "", buf_text(&keys), why->text);
    buf_done(&keys);
}

/* Did the conversion change nothing? Then the original line is printed. */
static bool is_same(const struct entity *a, const struct entity *b)
{
    return a->properties == b->properties &&
           a->property_count == b->property_count;
}

static void convert_record(struct filter *filter, const struct record *record)
{
    struct entity converted;
    struct err err;

    filter->read++;
    if (record->invalid) {
        report(filter, record, NULL, &record->why);
        return;
    }
    switch (upgrade_convert(
        filter->converter, &record->entity, &filter->arena, &converted, &err)) {
    case UPGRADE_CONVERTED:
    case UPGRADE_PASSED:
        if (is_same(&converted, &record->entity)) {
            print_line(filter, record->raw);
            break;
        }
        buf_clear(&filter->line);
        entity_write(&converted, &filter->line);
        print_line(filter, buf_slice(&filter->line));
        break;
    case UPGRADE_REFUSED:
        report(filter, record, &record->entity, &err);
        break;
    }
}

static int end_lines(const struct filter *filter)
{
    if (filter->failed == 0)
        return EXIT_DONE;
    say("%" PRId64 " of %" PRId64 " lines failed", filter->failed,
        filter->read);
    return EXIT_FAILED;
}

static int convert_lines(struct filter *filter)
{
    enum tw_err outcome = TW_OK;
    bool end = false;
    struct err err;

    while (outcome == TW_OK && !end && !filter->unwritable) {
        struct record record;

        arena_init(&filter->arena);
        outcome =
            records_next(filter->records, &filter->arena, &record, &end, &err);
        if (outcome == TW_OK && !end && !record.blank)
            convert_record(filter, &record);
        arena_done(&filter->arena);
    }
    return outcome == TW_OK ? end_lines(filter) : print_failed(outcome, &err);
}

static int filter_input(struct filter *filter)
{
    struct err err;
    enum tw_err outcome =
        records_open("-", RECORDS_JSON_LINES, NULL, &filter->records, &err);

    return outcome == TW_OK ? convert_lines(filter)
                            : print_failed(outcome, &err);
}

/* ---- pairs to test an application's code against ---- */

static enum tw_err print_vector(void *context, const struct entity *before,
    const struct entity *after, struct err *err)
{
    struct filter *filter = context;

    (void)err;
    buf_clear(&filter->line);
    buf_add_text(&filter->line, "{\"before\":");
    entity_write(before, &filter->line);
    buf_add_text(&filter->line, ",\"after\":");
    entity_write(after, &filter->line);
    buf_add_char(&filter->line, '}');
    print_line(filter, buf_slice(&filter->line));
    return filter->unwritable ? TW_STOPPED : TW_OK;
}

static int print_vectors(struct filter *filter, int64_t count)
{
    struct err err = {{0}};
    enum tw_err outcome = upgrade_convert_vectors(
        filter->converter, (size_t)count, print_vector, filter, &err);

    if (outcome == TW_OK || filter->unwritable)
        return EXIT_DONE;
    return print_failed(outcome, &err);
}

/* ---- the command ---- */

static int find_job(
    struct session *session, const char *name, const struct job **ret)
{
    int code = session_job(session, name, ret);

    if (code == EXIT_DONE && (*ret)->kind != &schema_upgrade_kind)
        return print_usage(
            "job %s is of kind %s: convert takes a job of kind %s", name,
            (*ret)->kind->name, schema_upgrade_kind.name);
    return code;
}

static int read_count(const char *text, int64_t *ret)
{
    if (text && !text_int64(slice_of(text), 1, VECTORS_MAX, ret))
        return print_usage("--vectors must be a number from 1 to %d, not '%s'",
            VECTORS_MAX, text);
    return EXIT_DONE;
}

static int convert(
    const struct job *job, const struct run_args *args, int64_t vectors)
{
    struct filter filter = {.converter = NULL};
    struct signals *signals;
    struct err err;
    int code;

    if (job->unset) {
        say("job %s: the environment variable %s is not set", job->name,
            job->unset);
        return EXIT_CONFIG_78;
    }
    if (upgrade_convert_open(job, args, &filter.converter, &err) != TW_OK)
        return print_usage("%s", err.text);
    signals = signals_start(on_signal, NULL);
    buf_init(&filter.line, LINE_MAX_BYTES);
    code =
        vectors > 0 ? print_vectors(&filter, vectors) : filter_input(&filter);
    records_close(filter.records);
    buf_done(&filter.line);
    signals_stop(signals);
    upgrade_convert_close(filter.converter);
    return code;
}

static int run(const struct invocation *invocation)
{
    const struct job *job = NULL;
    struct run_args args = {0};
    struct session session;
    struct arena arena;
    int64_t vectors = 0;
    int code = read_count(invocation->values[OPTION_VECTORS], &vectors);

    if (code != EXIT_DONE)
        return code;
    arena_init(&arena);
    code = session_open(&session, invocation, SESSION_SOME);
    if (code == EXIT_DONE)
        code = find_job(&session, invocation->args[0], &job);
    if (code == EXIT_DONE)
        code = args_read(job, invocation->args + 1, invocation->arg_count - 1,
            &arena, &args);
    if (code == EXIT_DONE)
        code = convert(job, &args, vectors);
    session_close(&session);
    arena_done(&arena);
    return code;
}

static const char *const REQUIRED[] = {"JOB", NULL};

static const struct command_option OPTIONS[] = {
    {OPTION_VECTORS, "convert nothing: print this many pairs "
                     "{\"before\":...,\"after\":...}, as test data for the "
                     "code of an application"},
    {OPTION_COUNT, NULL},
};

const struct command command_convert = {
    .name = "convert",
    .arguments = "JOB [NAME=VALUE ...]",
    .summary = "converts entities on standard input to the newest version",
    .details =
        "Reads entities as JSON Lines from standard input, applies the steps "
        "of the upgrade\njob, and writes them at the newest version. An entity "
        "that the job does not select, and\na copy that a copy job keeps in "
        "the table of its sources, are unchanged. A line that\nfails is "
        "reported and omitted, and the exit code is 1.\n",
    .required = REQUIRED,
    .max_args = (size_t)-1,
    .only_reads = true,
    .options = OPTIONS,
    .run = run,
};
