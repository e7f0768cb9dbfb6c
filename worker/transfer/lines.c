/* SPDX-License-Identifier: MIT */
/* Reads lines through one buffer that grows to the size of the largest line. */
#include "worker/transfer/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/base/mem.h"

#define READ_BYTES ((size_t)64 * 1024)

/* The interval at which a wait for a pipe checks `stopped`. */
#define POLL_MS 200

struct lines {
    const char *path; /* path for messages; borrowed */
    int fd;
    const _Atomic bool *stopped;
    bool waits;   /* fd is a pipe or a terminal, so reading may block */
    int64_t size; /* size of a regular file; else 0 */
    _Atomic int64_t taken;

    char *buffer;
    size_t room;
    size_t begin, end; /* offsets in buffer: the bytes from begin to end are not
                          yet returned */
    size_t looked; /* number of bytes after begin that were searched and have no
                      newline */
    bool at_end;   /* the end of the file was read */
    uint64_t number;
};

enum tw_err lines_open(const char *path, const _Atomic bool *stopped,
    struct lines **ret, struct err *err)
{
    struct lines *lines;
    struct stat stat;
    int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO)
                                    : open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return err_fail(
            err, TW_INVALID, "%s cannot be read: %s", path, strerror(errno));
    lines = mem_alloc(sizeof(*lines));
    lines->path = path;
    lines->fd = fd;
    lines->stopped = stopped;
    lines->waits = true;
    if (fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode)) {
        lines->size = stat.st_size;
        lines->waits = false;
    }
    lines->room = READ_BYTES;
    lines->buffer = mem_alloc(lines->room);
    *ret = lines;
    return TW_OK;
}

void lines_close(struct lines *lines)
{
    if (!lines)
        return;
    close(lines->fd);
    mem_free(lines->buffer);
    mem_free(lines);
}

uint64_t lines_number(const struct lines *lines)
{
    return lines->number;
}

int lines_share(const struct lines *lines)
{
    int64_t taken = atomic_load(&lines->taken);

    if (lines->size <= 0 || taken > lines->size)
        return -1;
    return (int)((double)taken / (double)lines->size * 1000);
}

/* Move the remaining bytes to the front, and grow the buffer if that frees too
 * little. */
static void make_room(struct lines *lines)
{
    if (lines->begin > 0) {
        memmove(lines->buffer, lines->buffer + lines->begin,
            lines->end - lines->begin);
        lines->end -= lines->begin;
        lines->begin = 0;
    }
    if (lines->room - lines->end >= READ_BYTES)
        return;
    lines->room = 2 * lines->room + READ_BYTES;
    lines->buffer = mem_resize(lines->buffer, lines->room);
}

/* Wait for input by poll() with a timeout, so that `stopped` is checked.
 * Signals are blocked, so no signal would interrupt a read() that waits. */
static enum tw_err wait_for_more(const struct lines *lines, struct err *err)
{
    struct pollfd poll_fd = {.fd = lines->fd, .events = POLLIN};

    while (lines->waits && poll(&poll_fd, 1, POLL_MS) == 0)
        if (lines->stopped && atomic_load(lines->stopped))
            return err_fail(
                err, TW_STOPPED, "stopped while waiting for more input");
    return TW_OK;
}

static enum tw_err read_more(struct lines *lines, struct err *err)
{
    enum tw_err outcome = wait_for_more(lines, err);
    ssize_t got;

    if (outcome != TW_OK)
        return outcome;
    make_room(lines);
    do
        got = read(
            lines->fd, lines->buffer + lines->end, lines->room - lines->end);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return err_fail(err, TW_INVALID, "%s cannot be read: %s", lines->path,
            strerror(errno));
    lines->at_end = got == 0;
    lines->end += (size_t)got;
    return TW_OK;
}

/* Read until the next line is in the buffer. *ret_len: the length of the line
 * without its newline. A line that is too long is not read to its end, and
 * *ret_len is over LINES_MAX_BYTES. */
static enum tw_err find_newline(
    struct lines *lines, size_t *ret_len, struct err *err)
{
    for (;;) {
        const char *from = lines->buffer + lines->begin;
        size_t len = lines->end - lines->begin;
        const char *newline =
            memchr(from + lines->looked, '\n', len - lines->looked);
        enum tw_err outcome;

        *ret_len = newline ? (size_t)(newline - from) : len;
        if (newline || lines->at_end || len > LINES_MAX_BYTES)
            return TW_OK;
        lines->looked = len;
        outcome = read_more(lines, err);
        if (outcome != TW_OK)
            return outcome;
    }
}

/* Remove the next len bytes from the buffer. */
static void consume(struct lines *lines, size_t len)
{
    lines->begin += len;
    lines->looked = 0;
    atomic_fetch_add(&lines->taken, (int64_t)len);
}

/* Does the file begin with UTF-16? Some spreadsheets save UTF-16; neither byte
 * of its mark occurs in UTF-8. */
static bool begins_utf16(struct slice text)
{
    return slice_begins(text, slice_of("\xFF\xFE")) ||
           slice_begins(text, slice_of("\xFE\xFF"));
}

enum tw_err lines_next(
    struct lines *lines, struct slice *ret, bool *ret_end, struct err *err)
{
    size_t len = 0;
    enum tw_err outcome = find_newline(lines, &len, err);

    if (outcome != TW_OK)
        return outcome;
    *ret_end = lines->at_end && lines->begin == lines->end;
    if (*ret_end)
        return TW_OK;
    if (lines->number == 0 &&
        begins_utf16((struct slice){lines->buffer + lines->begin, len}))
        return err_fail(err, TW_INVALID,
            "%s is UTF-16: save it as UTF-8, or convert it with iconv -f "
            "UTF-16 -t UTF-8",
            lines->path);
    if (len > LINES_MAX_BYTES)
        return err_fail(err, TW_TOO_LARGE, "the line is longer than %d bytes",
            LINES_MAX_BYTES);
    *ret = (struct slice){lines->buffer + lines->begin, len};
    lines->number++;
    consume(lines, lines->begin + len < lines->end ? len + 1 : len);
    return TW_OK;
}

enum tw_err lines_skip_long(struct lines *lines, FILE *to, struct err *err)
{
    const char *newline = NULL;

    while (!newline) {
        const char *from = lines->buffer + lines->begin;
        size_t len = lines->end - lines->begin;

        newline = memchr(from, '\n', len);
        if (newline)
            len = (size_t)(newline - from) + 1;
        if (to)
            (void)fwrite(from, 1, len, to);
        consume(lines, len);
        if (!newline && lines->at_end)
            break;
        if (!newline) {
            enum tw_err outcome = read_more(lines, err);

            if (outcome != TW_OK)
                return outcome;
        }
    }
    if (to && !newline)
        (void)putc('\n', to);
    lines->number++;
    return TW_OK;
}
