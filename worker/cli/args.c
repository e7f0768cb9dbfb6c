/* SPDX-License-Identifier: MIT */
/* Checks NAME=VALUE words against the arguments of a job. */
#include "worker/cli/args.h"

#include <string.h>

#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/cli/command.h"
#include "worker/cli/say.h"
#include "worker/run/message.h"

/* NAME=VALUE words. */
struct words {
    const char *const *list;
    size_t count;
};

static bool is_given(struct slice name, const struct words *words)
{
    for (size_t i = 0; i < words->count; i++)
        if (strncmp(words->list[i], name.at, name.len) == 0 &&
            words->list[i][name.len] == '=')
            return true;
    return false;
}

/* Print an unknown argument with the nearest name that is not given already. */
static int print_unknown_argument(
    const struct job *job, struct slice name, const struct words *words)
{
    const char **names = mem_array(job->arg_count + 1, sizeof(*names));
    char *word = mem_text(name.at, name.len);
    size_t count = 0;
    int code;

    /* A job's names are NUL-terminated, because they are texts of its
     * configuration. */
    for (size_t i = 0; i < job->arg_count; i++)
        if (!is_given(job->args[i].name, words))
            names[count++] = job->args[i].name.at;
    if (job->arg_count == 0)
        code = print_usage(
            "job %s takes no arguments, so '%s' is refused", job->name, word);
    else
        code =
            print_unknown("argument", word, text_nearest(name, names, count));
    mem_free(word);
    mem_free(names);
    return code;
}

static int split(const struct job *job, const struct words *words, size_t at,
    struct slice *name, struct slice *value)
{
    const char *word = words->list[at];
    const char *equals = strchr(word, '=');

    if (!equals)
        return print_usage("invalid argument '%s': write NAME=VALUE%s%.*s%s",
            word, job->arg_count > 0 ? ", such as " : "",
            job->arg_count > 0 ? (int)job->args[0].name.len : 0,
            job->arg_count > 0 ? job->args[0].name.at : "",
            job->arg_count > 0 ? "=..." : "");
    *name = (struct slice){word, (size_t)(equals - word)};
    *value = slice_of(equals + 1);
    if (job_arg_index(job, *name) == job->arg_count)
        return print_unknown_argument(job, *name, words);
    return EXIT_DONE;
}

static int split_all(const struct job *job, const char *const *words,
    size_t count, struct slice *names, struct slice *values)
{
    const struct words all = {words, count};
    int code = EXIT_DONE;

    for (size_t i = 0; i < count && code == EXIT_DONE; i++)
        code = split(job, &all, i, &names[i], &values[i]);
    return code;
}

int args_read(const struct job *job, const char *const *words, size_t count,
    struct arena *arena, struct run_args *ret)
{
    struct slice *names = arena_alloc(arena, (count + 1) * sizeof(*names));
    struct slice *values = arena_alloc(arena, (count + 1) * sizeof(*values));
    struct err err;
    int code = split_all(job, words, count, names, values);

    if (code != EXIT_DONE)
        return code;
    if (message_args(job, names, values, count, arena, ret, &err) == TW_OK)
        return EXIT_DONE;
    return print_usage("%s", err.text);
}

/* Returns a copy of job that has only the arguments in names. `unset` is set,
 * so that the kind does not check the values: its check expects all arguments.
 */
static struct job with_given(const struct job *job, const struct slice *names,
    size_t count, struct arena *arena)
{
    struct job_arg *args =
        arena_alloc(arena, (job->arg_count + 1) * sizeof(*args));
    struct job given = *job;

    given.args = args;
    given.arg_count = 0;
    given.unset = "";
    for (size_t i = 0; i < job->arg_count; i++)
        for (size_t k = 0; k < count; k++)
            if (slice_equal(job->args[i].name, names[k])) {
                args[given.arg_count++] = job->args[i];
                break;
            }
    return given;
}

static void spread(const struct job *job, const struct run_args *given,
    struct arena *arena, struct run_args *ret)
{
    size_t room = job->arg_count + 1, k = 0;
    struct slice *names = arena_alloc(arena, room * sizeof(*names));
    struct slice *values = arena_alloc(arena, room * sizeof(*values));

    for (size_t i = 0; i < job->arg_count; i++) {
        names[i] = job->args[i].name;
        values[i] = (struct slice){0};
        if (k < given->count && slice_equal(given->names[k], names[i])) {
            values[i] = given->values[k++];
            if (!values[i].at)
                values[i] = slice_of("");
        }
    }
    *ret = (struct run_args){job->arg_count, names, values};
}

int args_read_some(const struct job *job, const char *const *words,
    size_t count, struct arena *arena, struct run_args *ret)
{
    struct slice *names = arena_alloc(arena, (count + 1) * sizeof(*names));
    struct slice *values = arena_alloc(arena, (count + 1) * sizeof(*values));
    struct run_args read;
    struct job given;
    struct err err;
    int code = split_all(job, words, count, names, values);

    if (code != EXIT_DONE)
        return code;
    given = with_given(job, names, count, arena);
    if (message_args(&given, names, values, count, arena, &read, &err) != TW_OK)
        return print_usage("%s", err.text);
    spread(job, &read, arena, ret);
    return EXIT_DONE;
}

int args_read_id(const char *text, struct slice *ret)
{
    if (!text_is_run_id(slice_of(text)))
        return print_usage("invalid --id '%s': write 1 to 128 of A-Z a-z 0-9 . "
                           "_ -, and no dot at the beginning",
            text);
    *ret = slice_of(text);
    return EXIT_DONE;
}
