/* SPDX-License-Identifier: MIT */
/* Collects the problems of a configuration and prints them in file order. */
#include "config/problems.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

/* The maximum length of a printed line: a path and a sentence, each byte of
 * which may become six when escaped. */
#define LINE_MAX_BYTES (6 * ((size_t)PATH_MAX + sizeof(struct err)))

void problems_init(struct problems *problems)
{
    *problems = (struct problems){0};
}

void problems_done(struct problems *problems)
{
    for (size_t i = 0; i < problems->count; i++) {
        mem_free((char *)(uintptr_t)problems->list[i].mark.file);
        mem_free(problems->list[i].text);
    }
    mem_free(problems->list);
    problems_init(problems);
}

/* Add a problem to the list. Its file name is copied, because problems outlive
 * the tree that mark.file belongs to. A sentence that does not fit into a
 * struct err is cut. It may quote a value of the configuration that is a secret
 * in a wrong place. */
TW_PRINTF(4, 0)
static void keep(struct problems *problems, struct mark mark, bool warning,
    const char *format, va_list arguments)
{
    struct err err;

    if (problems->count == PROBLEMS_MAX)
        return;
    if (problems->list == NULL)
        problems->list = mem_array(PROBLEMS_MAX, sizeof(*problems->list));
    err_put(&err, format, arguments);
    (void)text_mask_secrets(err.text);
    if (mark.file != NULL)
        mark.file = mem_text(mark.file, strlen(mark.file));
    problems->list[problems->count++] =
        (struct problem){mark, warning, mem_text(err.text, strlen(err.text))};
}

void problems_add(
    struct problems *problems, struct mark mark, const char *format, ...)
{
    va_list arguments;

    problems->errors++;
    va_start(arguments, format);
    keep(problems, mark, false, format, arguments);
    va_end(arguments);
}

void problems_warn(
    struct problems *problems, struct mark mark, const char *format, ...)
{
    va_list arguments;

    problems->warnings++;
    va_start(arguments, format);
    keep(problems, mark, true, format, arguments);
    va_end(arguments);
}

static int compare_marks(struct mark a, struct mark b)
{
    int order = strcmp(a.file ? a.file : "", b.file ? b.file : "");

    if (order != 0)
        return order;
    if (a.line != b.line)
        return a.line < b.line ? -1 : 1;
    if (a.column != b.column)
        return a.column < b.column ? -1 : 1;
    return 0;
}

/* Orders problems by position. Problems at the same position keep the order in
 * which they were added. */
static int compare(const void *a, const void *b)
{
    const struct problem *const *left = a, *const *right = b;
    int order = compare_marks((*left)->mark, (*right)->mark);

    if (order != 0)
        return order;
    return *left < *right ? -1 : *left > *right;
}

static void add_line(struct buf *line, const struct problem *problem)
{
    const struct mark *mark = &problem->mark;

    if (mark->file != NULL) {
        text_visible(line, slice_of(mark->file));
        buf_add_char(line, ':');
    }
    if (mark->line != 0)
        buf_add_format(line, "%u:%u:", mark->line, mark->column);
    if (mark->file != NULL || mark->line != 0)
        buf_add_char(line, ' ');
    if (problem->warning)
        buf_add_text(line, "warning: ");
    text_visible(line, slice_of(problem->text));
    buf_add_char(line, '\n');
}

static void print_one(const struct problem *problem, FILE *to)
{
    struct buf line;

    buf_init(&line, LINE_MAX_BYTES);
    add_line(&line, problem);
    fputs(buf_text(&line), to);
    buf_done(&line);
}

void problems_print(const struct problems *problems, FILE *to)
{
    const struct problem *sorted[PROBLEMS_MAX];
    size_t seen = problems->errors + problems->warnings;

    for (size_t i = 0; i < problems->count; i++)
        sorted[i] = &problems->list[i];
    /* cppcheck-suppress uninitvar; it misreads the loop */
    qsort(sorted, problems->count, sizeof(*sorted), compare);
    for (size_t i = 0; i < problems->count; i++)
        print_one(sorted[i], to);
    if (seen > problems->count)
        fprintf(to, "and %zu more\n", seen - problems->count);
}
