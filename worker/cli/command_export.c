/* SPDX-License-Identifier: MIT */
/*
 * `tableward export TABLE [FILE]`: entities as JSON Lines. A file is complete
 * or not there: it is written beside its place under another name, made
 * durable, and renamed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/engine/scan.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/cli/commands.h"
#include "worker/cli/lines.h"
#include "worker/cli/progress.h"
#include "worker/cli/say.h"
#include "worker/cli/transfer.h"
#include "worker/store/store.h"

struct output {
    const char *path; /* borrowed; NULL: standard output */
    char *part;       /* the file that is renamed to path; NULL: there is none
                         to rename */
    FILE *file;
};

/* ---- where it goes ---- */

static int cannot_write(const char *path, int cause)
{
    say("%s cannot be written: %s", path, strerror(cause));
    return cause == ENOSPC || cause == EDQUOT ? EXIT_STOPPED : EXIT_FAILED;
}

/* A pipe or a device is written as it is: nothing can be renamed to it. */
static bool is_special(const char *path)
{
    struct stat is;

    return stat(path, &is) == 0 && !S_ISREG(is.st_mode);
}

static int open_file(struct output *output)
{
    char id[40];
    int flags = O_WRONLY | O_CLOEXEC, fd;

    if (!is_special(output->path)) {
        text_random_id(id);
        output->part = mem_format("%s.%.8s.part", output->path, id);
        flags |= O_CREAT | O_EXCL;
    }
    fd = open(output->part ? output->part : output->path, flags, 0666);
    if (fd < 0) {
        int cause = errno;

        mem_free(output->part);
        output->part = NULL;
        return cannot_write(output->path, cause);
    }
    output->file = fdopen(fd, "w");
    if (!output->file)
        mem_exhausted();
    return EXIT_DONE;
}

static int open_output(struct output *output, const char *path)
{
    *output = (struct output){.file = stdout};
    if (!path || strcmp(path, "-") == 0)
        return EXIT_DONE;
    output->path = path;
    return open_file(output);
}

/* The name of the file, too, must outlive a power cut. */
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder =
        slash ? mem_text(path, (size_t)(slash - path) + 1) : mem_text(".", 1);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    mem_free(folder);
}

/* The whole is there: put it in its place. */
static int keep_output(struct output *output)
{
    int cause = 0;

    if (!output->path)
        return EXIT_DONE; /* standard output is looked at last of all */
    if (fflush(output->file) != 0 ||
        (output->part && fsync(fileno(output->file)) != 0))
        cause = errno;
    if (fclose(output->file) != 0 && cause == 0)
        cause = errno;
    output->file = NULL;
    if (cause == 0 && output->part && rename(output->part, output->path) != 0)
        cause = errno;
    if (cause != 0)
        return cannot_write(output->path, cause);
    if (output->part)
        sync_folder(output->path);
    mem_free(output->part);
    output->part = NULL;
    return EXIT_DONE;
}

/* What is not complete does not stay. */
static void drop_output(struct output *output)
{
    if (output->path && output->file)
        fclose(output->file);
    if (output->part)
        (void)unlink(output->part);
    mem_free(output->part);
}

/* ---- what goes there ---- */

static void look(void *context, struct progress_state *ret)
{
    ret->done = atomic_load((_Atomic int64_t *)context);
}

static int write_page(
    struct output *output, const struct page *page, struct buf *line)
{
    for (size_t i = 0; i < page->count; i++) {
        buf_clear(line);
        entity_write(&page->entities[i], line);
        if (fwrite(line->at, 1, line->len, output->file) != line->len ||
            putc('\n', output->file) == EOF)
            return cannot_write(
                output->path ? output->path : "standard output", errno);
    }
    return EXIT_DONE;
}

static int copy(struct transfer *transfer, struct output *output,
    _Atomic int64_t *total, enum tw_err *ret_code, struct err *err)
{
    struct scan *scan = transfer_scan(transfer);
    const struct page *page = NULL;
    int exit_code = EXIT_DONE;
    struct buf line;

    buf_init(&line, (size_t)LINES_MAX_BYTES);
    do {
        *ret_code = scan_next(scan, &page, err);
        if (*ret_code != TW_OK || !page)
            break;
        exit_code = write_page(output, page, &line);
        atomic_fetch_add(total, (int64_t)page->count);
    } while (exit_code == EXIT_DONE);
    buf_done(&line);
    scan_close(scan);
    return exit_code;
}

static void say_total(int64_t total, const struct output *output)
{
    struct buf line;

    buf_init(&line, 64);
    say_count(&line, total);
    if (output->path)
        say("%s entities are in %s", buf_text(&line), output->path);
    buf_done(&line);
}

static int export_to(struct transfer *transfer, struct output *output)
{
    _Atomic int64_t total = 0;
    struct progress *progress =
        progress_start("export", "exported", look, &total);
    struct err err;
    enum tw_err code;
    int exit_code = copy(transfer, output, &total, &code, &err);

    progress_end(progress);
    if (exit_code == EXIT_DONE && code == TW_NOT_FOUND)
        exit_code = transfer_no_table(transfer);
    else if (exit_code == EXIT_DONE && code != TW_OK)
        exit_code = transfer_failed(transfer, code, &err);
    if (exit_code == EXIT_DONE)
        exit_code = keep_output(output);
    if (exit_code == EXIT_DONE)
        say_total(atomic_load(&total), output);
    return exit_code;
}

static int run(const struct invocation *invocation)
{
    struct output output = {.file = NULL};
    struct transfer transfer;
    int code = transfer_open(&transfer, invocation, false);

    if (code == EXIT_DONE)
        code = open_output(
            &output, invocation->arg_count > 1 ? invocation->args[1] : NULL);
    if (code == EXIT_DONE)
        code = export_to(&transfer, &output);
    drop_output(&output);
    transfer_close(&transfer);
    return code;
}

static const char *const REQUIRED[] = {"TABLE", NULL};

static const struct command_option OPTIONS[] = {
    {OPTION_FILTER, "only entities that match, in OData: \"Rating ge 4\""},
    {OPTION_SELECT, "only these properties, besides the keys"},
    {OPTION_STORE, "the store; default: the default store"},
    {OPTION_COUNT, NULL},
};

const struct command command_export = {
    .name = "export",
    .arguments = "TABLE [FILE]",
    .summary = "writes the entities of a table as JSON Lines",
    .details = "To FILE, which is there only once it is complete, or to "
               "standard output (also: -).\nOne entity a line, ordered by key, "
               "in the service's own JSON; `import` reads it.\n",
    .required = REQUIRED,
    .max_args = 2,
    .options = OPTIONS,
    .run = run,
};
