/* SPDX-License-Identifier: MIT */
/* Lines of a file, by one buffer that grows up to the largest line. */
#include "worker/transfer/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/base/mem.h"

#define READ_BYTES ((size_t)64 * 1024)

/* How often a wait for a pipe looks whether it is to end. */
#define LOOK_MS 200

struct lines {
    const char *path; /* for messages; borrowed */
    int fd;
    const _Atomic bool *stopped;
    bool waits;   /* a pipe or a terminal: more may come at any time */
    int64_t size; /* of a regular file; else 0 */
    _Atomic int64_t taken;

    char *buffer;
    size_t room;
    size_t begin, end; /* what is read and not yet given */
    size_t looked;     /* from begin: there is no newline in these */
    bool at_end;       /* of the file */
    FILE *spill;       /* for what is too long; NULL: nowhere */
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

void lines_spill(struct lines *lines, FILE *to)
{
    lines->spill = to;
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

/* Move what is left to the front, and grow where that gives no room. */
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

/* Signals are blocked, so no read is interrupted by them. */
static enum tw_err wait_for_more(const struct lines *lines, struct err *err)
{
    struct pollfd poll_fd = {.fd = lines->fd, .events = POLLIN};

    while (lines->waits && poll(&poll_fd, 1, LOOK_MS) == 0)
        if (lines->stopped && atomic_load(lines->stopped))
            return err_fail(
                err, TW_STOPPED, "stopped while it waited for more");
    return TW_OK;
}

static enum tw_err read_more(struct lines *lines, struct err *err)
{
    enum tw_err code = wait_for_more(lines, err);
    ssize_t got;

    if (code != TW_OK)
        return code;
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

/* The next len bytes are of a line that nobody gets. */
static void spill(const struct lines *lines, size_t len)
{
    if (lines->spill)
        (void)fwrite(lines->buffer + lines->begin, 1, len, lines->spill);
}

/* Look for the next newline, reading as much as that takes. What is beyond
 * the largest line is thrown away, all but its end. */
static enum tw_err find_newline(
    struct lines *lines, size_t *ret_len, bool *ret_too_long, struct err *err)
{
    const char *newline;
    enum tw_err code;

    *ret_too_long = false;
    for (;;) {
        const char *from = lines->buffer + lines->begin;
        size_t len = lines->end - lines->begin;

        newline = memchr(from + lines->looked, '\n', len - lines->looked);
        if (newline || lines->at_end) {
            *ret_len = newline ? (size_t)(newline - from) : len;
            return TW_OK;
        }
        lines->looked = len;
        if (len > LINES_MAX_BYTES) {
            *ret_too_long = true;
            atomic_fetch_add(&lines->taken, (int64_t)len);
            spill(lines, len);
            lines->begin = lines->end;
            lines->looked = 0;
        }
        code = read_more(lines, err);
        if (code != TW_OK)
            return code;
    }
}

/* What some spreadsheets save; neither byte is one that UTF-8 has. */
static bool begins_utf16(struct slice text)
{
    return slice_begins(text, slice_of("\xFF\xFE")) ||
           slice_begins(text, slice_of("\xFE\xFF"));
}

enum tw_err lines_next(
    struct lines *lines, struct slice *ret, bool *ret_end, struct err *err)
{
    bool too_long;
    size_t len, used;
    enum tw_err code = find_newline(lines, &len, &too_long, err);

    if (code != TW_OK)
        return code;
    *ret_end = lines->at_end && lines->begin == lines->end && !too_long;
    if (*ret_end)
        return TW_OK;
    if (lines->number == 0 &&
        begins_utf16((struct slice){lines->buffer + lines->begin, len}))
        return err_fail(err, TW_INVALID,
            "%s is UTF-16: save it as UTF-8, or convert it with iconv -f "
            "UTF-16 -t UTF-8",
            lines->path);
    used = lines->begin + len < lines->end ? len + 1 : len;
    lines->number++;
    if (too_long || len > LINES_MAX_BYTES) {
        code = err_fail(err, TW_TOO_LARGE, "the line is longer than %d bytes",
            LINES_MAX_BYTES);
        spill(lines, used);
    } else {
        *ret = (struct slice){lines->buffer + lines->begin, len};
    }
    lines->begin += used;
    lines->looked = 0;
    atomic_fetch_add(&lines->taken, (int64_t)used);
    return code;
}
