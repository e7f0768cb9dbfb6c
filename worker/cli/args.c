/* SPDX-License-Identifier: MIT */
/* NAME=VALUE words of the command line. */
#include "worker/cli/args.h"

#include <string.h>

#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/cli/command.h"
#include "worker/cli/say.h"
#include "worker/run/message.h"

static int say_unknown_argument(const struct job *job, struct slice name)
{
    const char **names = mem_array(job->arg_count + 1, sizeof(*names));
    char *word = mem_text(name.at, name.len);
    int code;

    /* A job's names end in NUL: they are texts of its configuration. */
    for (size_t i = 0; i < job->arg_count; i++)
        names[i] = job->args[i].name.at;
    if (job->arg_count == 0)
        code = say_usage(
            "job %s takes no arguments, but there is '%s'", job->name, word);
    else
        code = say_unknown(
            "argument", word, text_nearest(name, names, job->arg_count));
    mem_free(word);
    mem_free(names);
    return code;
}

static int split(const struct job *job, const char *word, struct slice *name,
    struct slice *value)
{
    const char *equals = strchr(word, '=');

    if (!equals)
        return say_usage("'%s' is no argument of a job: NAME=VALUE is wanted%s"
                         "%.*s%s",
            word, job->arg_count > 0 ? ", such as " : "",
            job->arg_count > 0 ? (int)job->args[0].name.len : 0,
            job->arg_count > 0 ? job->args[0].name.at : "",
            job->arg_count > 0 ? "=..." : "");
    *name = (struct slice){word, (size_t)(equals - word)};
    *value = slice_of(equals + 1);
    if (job_arg_index(job, *name) == job->arg_count)
        return say_unknown_argument(job, *name);
    return EXIT_DONE;
}

int args_read(const struct job *job, const char *const *words, size_t count,
    struct arena *arena, struct run_args *ret)
{
    struct slice *names = arena_alloc(arena, (count + 1) * sizeof(*names));
    struct slice *values = arena_alloc(arena, (count + 1) * sizeof(*values));
    struct err err;
    int code;

    for (size_t i = 0; i < count; i++) {
        code = split(job, words[i], &names[i], &values[i]);
        if (code != EXIT_DONE)
            return code;
    }
    if (message_args(job, names, values, count, arena, ret, &err) == TW_OK)
        return EXIT_DONE;
    return say_usage("%s", err.text);
}

int args_read_id(const char *text, struct slice *ret)
{
    if (!text_is_run_id(slice_of(text)))
        return say_usage("--id wants 1 to 128 of A-Z a-z 0-9 . _ -, no dot "
                         "first, not '%s'",
            text);
    *ret = slice_of(text);
    return EXIT_DONE;
}
