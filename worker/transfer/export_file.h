/* SPDX-License-Identifier: MIT */
/*
 * Where an export goes. A file is complete or not there: it is written beside
 * its place as a part, made durable, and renamed. The part of an export with
 * an id stays when that ends before its time, and the next one of that id goes
 * on behind its last whole line:
 *
 *   blogs.jsonl.ID-0123456789abcdef.part     the hash is of what is exported
 *
 * What it replaces keeps its mode and the links to its name. Everything returns
 * an exit code and has said why.
 */
#ifndef TW_CLI_EXPORT_FILE_H
#define TW_CLI_EXPORT_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "worker/base/buf.h"
#include "worker/base/slice.h"

struct export_file {
    const char *path; /* borrowed; NULL: standard output */
    char *place;      /* path, or where it leads as a link */
    char *part;       /* what is renamed to place; NULL: nothing is */
    bool with_id;     /* the part stays when the export ends before its time */
    bool ours;        /* the part, and no other process's */
    FILE *file;

    int64_t lines;   /* whole ones that an earlier process has written */
    struct buf last; /* the last of them, without its newline */
};

struct export_id {
    const char *id;    /* one that text_is_run_id() */
    struct slice what; /* is exported: another one is refused (64) */
    bool goes_on;      /* false: what is there is written anew, since the
                          store's order is none */
};

/*
 * export_file_open: path NULL or "-": standard output. id may be NULL; with
 * one path must name a file (64). 75: another process writes under that id.
 * export_file_close() in any case.
 */
int export_file_open(
    struct export_file *file, const char *path, const struct export_id *id);

/* export_file_write: an exit code. */
int export_file_write(struct export_file *file, struct slice text);

/* export_file_keep: all of it is there: put it in its place. */
int export_file_keep(struct export_file *file);

/* export_file_close: what was not kept goes, but for a part that stays; which
 * it is, is said. */
void export_file_close(struct export_file *file);

#endif
