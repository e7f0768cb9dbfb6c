/* SPDX-License-Identifier: MIT */
/* Hashes the lines of the tail, and searches the input for them. */
#include "worker/transfer/rejects_tail.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/base/file.h"
#include "worker/base/hash.h"
#include "worker/base/mem.h"
#include "worker/transfer/lines.h"
#include "worker/transfer/rejects.h"

#define READ_BYTES ((size_t)64 * 1024)
#define TAIL_MAX 65536

struct tail {
    struct tail_line {
        uint64_t hash;
        bool found; /* the input has a line equal to this one */
    } * lines;
    size_t count;
    uint64_t hash; /* hash of the incomplete last line */
};

/* Add the lines in block to tail. False: too many lines. */
static bool add_block(struct tail *tail, const char *block, size_t len)
{
    const char *newline;

    while ((newline = memchr(block, '\n', len))) {
        size_t part = (size_t)(newline - block);

        if (tail->count == TAIL_MAX)
            return false;
        tail->lines[tail->count++].hash = hash_bytes(tail->hash, block, part);
        tail->hash = HASH_BEGIN;
        block += part + 1;
        len -= part + 1;
    }
    tail->hash = hash_bytes(tail->hash, block, len);
    return true;
}

static bool read_tail(struct tail *tail, int fd, off_t at)
{
    char *block = mem_alloc(READ_BYTES);
    ssize_t got;
    bool fits = true;

    tail->hash = HASH_BEGIN;
    while (fits && (got = pread(fd, block, READ_BYTES, at)) > 0) {
        fits = add_block(tail, block, (size_t)got);
        at += got;
    }
    mem_free(block);
    return fits;
}

static int compare_lines(const void *a, const void *b)
{
    const struct tail_line *one = a, *other = b;

    return one->hash < other->hash ? -1 : one->hash > other->hash;
}

static void sort(struct tail *tail)
{
    size_t kept = 0;

    qsort(tail->lines, tail->count, sizeof(*tail->lines), compare_lines);
    for (size_t i = 0; i < tail->count; i++)
        if (i == 0 || tail->lines[i].hash != tail->lines[kept - 1].hash)
            tail->lines[kept++] = tail->lines[i];
    tail->count = kept;
}

/* Mark the tail line that equals line as found. Returns 1 if a tail line was
 * newly marked, else 0. */
static size_t match(struct tail *tail, struct slice line)
{
    const struct tail_line wanted = {
        .hash = hash_bytes(HASH_BEGIN, line.at, line.len)};
    struct tail_line *at = bsearch(
        &wanted, tail->lines, tail->count, sizeof(*tail->lines), compare_lines);

    if (!at || at->found)
        return 0;
    at->found = true;
    return 1;
}

/* Is each line of the tail also in the input, after line number `after`? True
 * also if the input cannot be read, because the import itself reports that. */
static bool is_in(struct tail *tail, struct lines *input, uint64_t after)
{
    size_t missing = tail->count;
    struct slice line;
    bool end = false;

    while (missing > 0) {
        if (lines_next(input, &line, &end, NULL) != TW_OK)
            return true;
        if (end)
            return false;
        if (lines_number(input) > after)
            missing -= match(tail, line);
    }
    return true;
}

bool rejects_tail_is_edited(
    struct rejects *rejects, int64_t bytes, const char *input, uint64_t line)
{
    struct tail tail = {.lines = NULL};
    struct lines *lines = NULL;
    bool edited = false;

    if (!file_is_regular(input))
        return false;
    tail.lines = mem_array(TAIL_MAX, sizeof(*tail.lines));
    if (read_tail(&tail, fileno(rejects_file(rejects)), (off_t)bytes) &&
        tail.count > 0 && lines_open(input, NULL, &lines, NULL) == TW_OK) {
        sort(&tail);
        edited = !is_in(&tail, lines, line);
    }
    lines_close(lines);
    mem_free(tail.lines);
    return edited;
}
