/* SPDX-License-Identifier: MIT */
/* All problems of a configuration, each with its position, collected in one
 * pass. */
#ifndef TW_CONFIG_PROBLEMS_H
#define TW_CONFIG_PROBLEMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "worker/base/err.h"

/* A position in a file; line and column count from 1. */
struct mark {
    const char *file;
    unsigned line, column;
};

struct problem {
    struct mark mark;
    bool warning; /* a warning, which only `check` prints; false: an error,
                     which makes the configuration invalid */
    char *text;
};

/* Maximum number of problems in a list. A list counts further problems and does
 * not keep them. */
#define PROBLEMS_MAX 100

struct problems {
    struct problem *list;
    size_t count;    /* number of problems in list */
    size_t errors;   /* number of errors, also those not in list */
    size_t warnings; /* number of warnings, also those not in list */
};

void problems_init(struct problems *problems);
void problems_done(struct problems *problems);

/* problems_add: add an error. problems_warn: add a warning. Both are printed as
 * "file:line:column: text". */
void problems_add(struct problems *problems, struct mark mark,
    const char *format, ...) TW_PRINTF(3, 4);
void problems_warn(struct problems *problems, struct mark mark,
    const char *format, ...) TW_PRINTF(3, 4);

/* problems_print: print the problems, one a line, sorted by file, line and
 * column. The text of a warning begins with "warning: ". A last line counts the
 * problems that are not in the list. */
void problems_print(const struct problems *problems, FILE *to);

#endif
