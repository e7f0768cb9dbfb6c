/* SPDX-License-Identifier: MIT */
/* The `failures:` file of a run. */
#include "worker/run/failures.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/base/buf.h"
#include "worker/base/json.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

#define FOLDER_MODE 0700
#define FILE_MODE 0600
/* Each text of a line is cut to LINE_MAX_BYTES / 8. A line has up to 8 *
 * LINE_MAX_BYTES, so that all its texts fit even if every character is
 * escaped. */
#define LINE_MAX_BYTES (64 * 1024)

struct failures {
    char *folder, *path, *object;

    struct platform_mutex lock; /* guards all fields below */
    int at;                     /* file descriptor; -1: not open */
    bool given_up;              /* a write failed; the error was logged */
};

struct failures *failures_new(const char *base, const char *folder,
    const char *job, const char *id, const char *object)
{
    struct failures *failures = mem_alloc(sizeof(*failures));

    if (folder[0] == '/' || !base)
        failures->folder = mem_text(folder, strlen(folder));
    else
        failures->folder = mem_format("%s/%s", base, folder);
    failures->path = mem_format("%s/%s-%s.jsonl", failures->folder, job, id);
    failures->object = mem_text(object, strlen(object));
    failures->at = -1;
    platform_mutex_init(&failures->lock);
    return failures;
}

void failures_free(struct failures *failures)
{
    if (failures == NULL)
        return;
    if (failures->at >= 0)
        (void)close(failures->at);
    platform_mutex_done(&failures->lock);
    mem_free(failures->folder);
    mem_free(failures->path);
    mem_free(failures->object);
    mem_free(failures);
}

/* Create the folder and its missing parents. */
static bool make_folders(char *path)
{
    for (char *at = path + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        (void)mkdir(path, FOLDER_MODE);
        *at = '/';
    }
    return mkdir(path, FOLDER_MODE) == 0 || errno == EEXIST;
}

/* End the last line with a newline if a crash has cut it off. */
static bool end_torn_line(int at)
{
    off_t size = lseek(at, 0, SEEK_END);
    char last = '\n';

    if (size > 0 && pread(at, &last, 1, size - 1) != 1)
        return false;
    return size >= 0 && (last == '\n' || write(at, "\n", 1) == 1);
}

/* Call with the lock held. Opens the file unless it is open. */
static bool open_file(struct failures *failures)
{
    if (failures->at >= 0)
        return true;
    if (!make_folders(failures->folder))
        return false;
    failures->at = open(failures->path,
        O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
    return failures->at >= 0 && end_torn_line(failures->at);
}

static void add_member(struct buf *line, const char *name, struct slice text)
{
    struct buf repaired;

    buf_init(&repaired, LINE_MAX_BYTES);
    text_repair(&repaired, text_cut(text, LINE_MAX_BYTES / 8));
    buf_add_format(line, "%s\"%s\":", line->len > 1 ? "," : "", name);
    json_add_string(line, buf_slice(&repaired));
    buf_done(&repaired);
}

static void compose(const struct run_failure *failure, struct buf *line)
{
    buf_add_char(line, '{');
    add_member(line, "table", slice_of(failure->table));
    add_member(line, "PartitionKey", failure->partition_key);
    add_member(line, "RowKey", failure->row_key);
    if (failure->step)
        add_member(line, "step", slice_of(failure->step));
    add_member(line, "reason", slice_of(failure->why));
    buf_add_text(line, "}\n");
}

/* Call with the lock held. Appends one line. */
static void write_line(struct failures *failures, const struct buf *line)
{
    if (failures->given_up)
        return;
    if (open_file(failures) &&
        write(failures->at, line->at, line->len) == (ssize_t)line->len)
        return;
    failures->given_up = true;
    log_error(failures->object,
        "cannot write %s: %s; failed entities are still counted, and the "
        "ledger and the log name the first of them",
        failures->path, strerror(errno));
}

void failures_add(struct failures *failures, const struct run_failure *failure)
{
    struct buf line;

    buf_init(&line, (size_t)LINE_MAX_BYTES * 8);
    compose(failure, &line);
    platform_lock(&failures->lock);
    write_line(failures, &line);
    platform_unlock(&failures->lock);
    buf_done(&line);
}
